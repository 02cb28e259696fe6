"""Schema versions, forward only."""
