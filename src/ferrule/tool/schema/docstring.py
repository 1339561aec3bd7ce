"""What a docstring says of a function and its parameters: Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Style = Literal["google", "numpydoc", "rest"]

_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments) *:", re.IGNORECASE)
_GOOGLE_OTHER = re.compile(r"[A-Z]\w*( \w+)?:")
_NUMPY = re.compile(r"(Other )?Parameters", re.IGNORECASE)
_NUMPY_LINE = re.compile(r"-{3,}")
_SPHINX = re.compile(r":(param|parameter|arg|argument|key|keyword|type)\b[^:]*:")


@dataclass(frozen=True, slots=True)
class About:
    """What a docstring says.

    Args:
        description: The text without its parameter block.
        parameters: The description of each parameter that has one, by name.

    Since 0.1.
    """

    description: str
    parameters: dict[str, str]


def parse_docstring(doc: str, names: Set[str], owner: str) -> About:
    """Read a docstring, whatever its layout.

    Args:
        doc: The docstring; may be empty.
        names: Names of the signature; nothing else counts as a parameter.
        owner: The tool, for the warning.

    Returns:
        The description without the parameter block, and the parameters' descriptions.

    Since 0.1.
    """
    parameters: dict[str, str] = {}
    whole = inspect.cleandoc(doc.replace("\r\n", "\n")).splitlines()
    style, block, rest = _split(whole)
    while style:
        parameters |= _parameters(style, block, names)
        style, block, rest = _split(rest)
    if len(rest) < len(whole) and names and not parameters:
        warnings.warn(
            f"the docstring of tool {owner!r} has a parameter block that describes none of its parameters", stacklevel=2
        )
    return About(re.sub(r"\n{3,}", "\n\n", "\n".join(rest)).strip(), parameters)


def _parameters(style: Style, block: list[str], names: Set[str]) -> dict[str, str]:
    import docstring_parser  # loads four parsers: only docstrings with a parameter block pay for it

    try:
        found = docstring_parser.parse("\n".join(block), docstring_parser.DocstringStyle[style.upper()]).params
    except docstring_parser.ParseError:
        return {}
    return {
        name: " ".join(p.description.split())
        for p in found
        for name in (n.strip().lstrip("*") for n in p.arg_name.split(","))
        if p.description and name in names
    }


def _split(lines: list[str]) -> tuple[Style | None, list[str], list[str]]:
    """The style and lines of the parameter block, as its parser wants them, and all other lines."""
    for i, (line, below) in enumerate(pairwise([*lines, ""])):
        head = line.strip()
        if _SPHINX.match(head):
            return _split_sphinx(lines)
        if _GOOGLE.fullmatch(head):
            end = _end_of_google(lines, i + 1, _indent(line))
            entries = [entry for entry in lines[i + 1 : end] if entry.strip()]
            # A line without a colon goes on with the entry above, also where it stands as deep as that.
            body = [f"    {'' if n == 0 or ':' in entry else '    '}{entry}" for n, entry in enumerate(entries)]
            return "google", ["-", "", "Args:", *body], lines[:i] + lines[end:]
        if _NUMPY.fullmatch(head) and _NUMPY_LINE.fullmatch(below.strip()):
            end = next((n for n in range(i + 2, len(lines) - 1) if _NUMPY_LINE.fullmatch(lines[n + 1].strip())), None)
            end = len(lines) if end is None else end
            return "numpydoc", [entry[_indent(line) :] for entry in lines[i:end]], lines[:i] + lines[end:]
    return None, [], lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_google(lines: list[str], start: int, indent: int) -> int:
    """Where the block ends: at the first line that is no deeper than its entries' parent.

    Under a head on the docstring's first line, or by a careless hand, the
    entries stand as deep as the head; then it ends at a blank line or a head.
    """
    first = next((n for n in range(start, len(lines)) if lines[n].strip()), len(lines))
    deeper = first < len(lines) and _indent(lines[first]) > indent
    for n in range(first, len(lines)):
        text = lines[n].strip()
        if (text and _indent(lines[n]) <= indent) if deeper else (not text or _GOOGLE_OTHER.fullmatch(text)):
            return n
    return len(lines)


def _split_sphinx(lines: list[str]) -> tuple[Style, list[str], list[str]]:
    block: list[str] = []
    rest: list[str] = []
    field: int | None = None  # how deep the field stands that the line may continue
    for line in lines:
        if _SPHINX.match(line.strip()):
            field = _indent(line)
            block.append(line.strip())
        elif field is not None and line.strip() and _indent(line) > field:
            block.append(line)
        else:
            field = None
            rest.append(line)
    return "rest", block, rest
