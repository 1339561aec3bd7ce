"""How a declaration becomes a schema and a compiled check, and arguments pass it."""
