"""The small always-in-prompt stores of each person and room."""
