"""Flags: a number in which each bit says something."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag
from typing import Any, cast

from pydantic_core import PydanticCustomError

from ferrule.tool.schema.reference import Schema

_EXPECTED = "0, or combined bit by bit any of"
_MOST_BITS = 6  # of which all combinations are listed where no range tells them


def is_flag(cls: Any) -> bool:
    """Whether an enum is of flags, read as Python reads them.

    Args:
        cls: An enum class.

    Since 0.1.
    """
    return issubclass(cls, Flag) and _mask(cls) >= 0 and cls._missing_.__func__ is vars(Flag)["_missing_"].__func__


def flag_schema(cls: Any) -> Schema:
    """The JSON Schema of flags: members, and what they make together.

    No schema tells of many bits with gaps between them which numbers have no other; it gives the range then.

    Args:
        cls: A class of flags.

    Since 0.1.
    """
    mask = _mask(cls)
    made: Schema = {"type": "integer"}
    if mask & (mask + 1) and mask.bit_count() <= _MOST_BITS:
        made["enum"] = _combined(mask)
    else:
        made |= {"minimum": 0, "maximum": mask}
    return {**made, "description": f"{_EXPECTED} {_members(cls)}."}


def flags_of(cls: Any) -> Callable[[Any], Any]:
    """A function from JSON to flags; what has a bit that no member has is refused.

    Args:
        cls: A class of flags.

    Since 0.1.
    """
    mask = _mask(cls)
    message, expected = f"Input should be {_EXPECTED} {{expected}}", {"expected": _members(cls)}

    def look(value: Any) -> Any:
        if type(value) is int and 0 <= value <= mask and not value & ~mask:
            return cls(value)
        if isinstance(value, cls):  # a default that the class has checked
            return value
        raise PydanticCustomError("flag", cast("Any", message), expected)

    return look


def _members(cls: Any) -> str:
    return ", ".join(f"{member.value} {name}" for name, member in cls.__members__.items() if member.value)


def _mask(cls: Any) -> int:
    """All bits that some member has."""
    mask = 0
    for member in cls.__members__.values():
        mask |= member.value
    return mask


def _combined(mask: int) -> list[int]:
    """All numbers that have no other bits."""
    found = [0]
    while mask:
        bit = mask & -mask
        found += [n | bit for n in found]
        mask ^= bit
    return found
