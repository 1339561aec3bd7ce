"""JSON Schemas as each provider takes them, and the way back."""

from ferrule.provider.schema.dialect import Dialect, Lowered, lower
from ferrule.provider.schema.nulls import drop_nulls

__all__ = ["Dialect", "Lowered", "drop_nulls", "lower"]
