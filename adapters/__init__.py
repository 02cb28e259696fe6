"""The mouths and ears: one module per platform, and the markup they share."""
