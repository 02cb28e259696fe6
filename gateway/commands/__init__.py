"""Chat commands and their registry."""
