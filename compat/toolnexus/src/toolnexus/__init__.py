"""The toolnexus names, handed on to ferrule.

`ToolResult`, `Request`, `Answer`, `ContentPart` and the functions are ferrule's
own; `Tool` and `ToolContext` are subclasses with toolnexus' constructors.
"""

from toolnexus.content import (
    ContentPart,
    ContentPartError,
    UnsupportedPartError,
    audio,
    decoded_len,
    describe_part,
    file,
    from_dict,
    image,
    is_part_dict,
    normalize_parts,
    part,
    placeholder_text,
    text,
    to_dict,
)
from toolnexus.native import define_tool
from toolnexus.types import (
    Answer,
    Request,
    Tool,
    ToolContext,
    ToolResult,
    answer_declined,
    answer_output,
    auth_required,
    pending,
    pending_of,
    sanitize,
)

__all__ = [
    "Answer",
    "ContentPart",
    "ContentPartError",
    "Request",
    "Tool",
    "ToolContext",
    "ToolResult",
    "UnsupportedPartError",
    "answer_declined",
    "answer_output",
    "audio",
    "auth_required",
    "decoded_len",
    "define_tool",
    "describe_part",
    "file",
    "from_dict",
    "image",
    "is_part_dict",
    "normalize_parts",
    "part",
    "pending",
    "pending_of",
    "placeholder_text",
    "sanitize",
    "text",
    "to_dict",
]
