"""Alembic environment and versions of the state schema."""
