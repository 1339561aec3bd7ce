"""The one driver, and what stands around one call: hooks, approval, slots, retries, records."""
