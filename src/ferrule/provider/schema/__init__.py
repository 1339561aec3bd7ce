"""JSON Schemas as each provider takes them, and the way back."""

from ferrule.provider.schema.dialect import Dialect, Lowered, drop_nulls, lower

__all__ = ["Dialect", "Lowered", "drop_nulls", "lower"]
