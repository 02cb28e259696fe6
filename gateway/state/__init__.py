"""state.db: schema, connections, and each group of queries in a module of its own."""
