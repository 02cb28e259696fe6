"""The house: composes agent and adapters; config, people, inbox, sessions, delivery, state, CLI."""
