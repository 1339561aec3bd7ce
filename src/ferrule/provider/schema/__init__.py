"""JSON Schemas as each provider takes them, and the way back."""

from ferrule.provider.schema._walk import MAX_DEPTH, MAX_PLACES, RECURSION_DEPTH
from ferrule.provider.schema.dialect import Dialect, Lowered, lower
from ferrule.provider.schema.nulls import drop_nulls, without_nulls

__all__ = ["MAX_DEPTH", "MAX_PLACES", "RECURSION_DEPTH", "Dialect", "Lowered", "drop_nulls", "lower", "without_nulls"]
