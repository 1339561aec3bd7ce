"""The transport under all providers: requests, pooled connections, server-sent events."""
