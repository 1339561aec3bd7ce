"""Python values as strict JSON: two total functions and their way back.

`plain(x)` is what people, models and HTTP clients read. `typed(x)` is what the
journal stores, and `restore` gives the equal value back. Neither raises,
whatever the object: what cannot be described is replaced by a marker, and
encoding never turns a successful value into a failure.

This package knows no class of ours; `content`, `suspension` and `result`
register theirs.
"""

from ferrule.strict_json._back import Load, restore
from ferrule.strict_json._shape import (
    MAX_NODES,
    MAX_TYPED_NODES,
    Codec,
    Opaque,
    bare_name,
    is_a,
    kind_of,
    made_of_fields,
    register,
)
from ferrule.strict_json._text import clean, dumps, parse, reread
from ferrule.strict_json._walk import MAX_BYTES, MAX_DEPTH, Spill, plain, text_of, typed, typed_fields

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "MAX_TYPED_NODES",
    "Codec",
    "Load",
    "Opaque",
    "Spill",
    "bare_name",
    "clean",
    "dumps",
    "is_a",
    "kind_of",
    "made_of_fields",
    "parse",
    "plain",
    "register",
    "reread",
    "restore",
    "text_of",
    "typed",
    "typed_fields",
]
