"""The chat page: an adapter whose platform is a browser."""
