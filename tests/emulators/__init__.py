"""Loopback servers that behave as the platforms do, for tests over real HTTP and WebSockets."""
