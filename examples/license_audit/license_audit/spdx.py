"""SPDX licence expressions: text to tree and back.

    expression = all ("OR" all)*
    all        = term ("AND" term)*
    term       = id ["+"] ["WITH" id] | "(" expression ")"

`AND` binds tighter than `OR`. Operators are read in any case and written in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

MAX_LENGTH = 2_000
MAX_DEPTH = 50

_TOKEN = re.compile(r"\s*(?:(?P<paren>[()])|(?P<word>[A-Za-z0-9][A-Za-z0-9.:-]*\+?))")
_OPERATORS = {"AND", "OR", "WITH"}


class ExpressionError(ValueError):
    """The text is no SPDX expression; the message says where and what was expected."""


@dataclass(frozen=True, slots=True)
class Term:
    """One licence, perhaps "or later" (`+`), perhaps with an exception."""

    license: str
    later: bool = False
    exception: str | None = None

    def __str__(self) -> str:
        with_exception = f" WITH {self.exception}" if self.exception else ""
        return f"{self.license}{'+' if self.later else ''}{with_exception}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part binds: `A AND B`."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The user may choose: `A OR B`."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " OR ".join(str(part) for part in self.parts)


Expression = Term | AllOf | AnyOf


def parse(text: str) -> Expression:
    """Parse an SPDX expression.

    Identifiers need not be on the SPDX list (see `known`), but those that are come back
    in the list's spelling: `mit` is `MIT`.

    Raises:
        ExpressionError: The text is no expression, or is longer or deeper than any honest one.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"more than {MAX_LENGTH:,} characters")
    parser = _Parser(_tokens(text))
    tree = parser.any_of(depth=0)
    parser.expect_end()
    return tree


def terms(tree: Expression) -> list[Term]:
    """The licences of a tree, from left to right."""
    if isinstance(tree, Term):
        return [tree]
    return [term for part in tree.parts for term in terms(part)]


@lru_cache(maxsize=1_000)
def known(identifier: str) -> str | None:
    """An identifier in the spelling of the SPDX list, or `None` when the list lacks it.

    `LicenseRef-…`, SPDX's form for a licence outside the list, is known by its form.
    """
    if identifier.upper() in _OPERATORS or not identifier.isascii():
        return None
    try:
        return str(canonicalize_license_expression(identifier))
    except InvalidLicenseExpression:
        return None


@lru_cache(maxsize=1_000)
def is_exception(identifier: str) -> bool:
    """Whether the SPDX list has an exception of this name."""
    try:
        canonicalize_license_expression(f"MIT WITH {identifier}")
    except InvalidLicenseExpression:
        return False
    return True


def _tokens(text: str) -> list[tuple[str, int]]:
    """Words and parentheses with the position, counted from 1, at which each begins."""
    tokens: list[tuple[str, int]] = []
    end, length = 0, len(text.rstrip())
    while end < length:
        match = _TOKEN.match(text, end)
        if match is None:
            at = end + len(text[end:]) - len(text[end:].lstrip())
            raise ExpressionError(f"unexpected {text[at]!r} at position {at + 1}")
        kind = match.lastgroup or "word"
        tokens.append((match[kind], match.start(kind) + 1))
        end = match.end()
    return tokens


class _Parser:
    """Recursive descent, one method for each rule of the grammar."""

    def __init__(self, tokens: list[tuple[str, int]]) -> None:
        self._tokens = tokens
        self._next = 0

    def any_of(self, depth: int) -> Expression:
        parts = self._chain("OR", lambda: self._all_of(depth), AnyOf)
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all_of(self, depth: int) -> Expression:
        parts = self._chain("AND", lambda: self._term(depth), AllOf)
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _chain(
        self, operator: str, operand: Callable[[], Expression], kind: type[AllOf] | type[AnyOf]
    ) -> list[Expression]:
        """Operands between one operator; `A OR (B OR C)` and `A OR B OR C` are one tree."""
        parts = [operand()]
        while self._take(operator):
            parts.append(operand())
        return [inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))]

    def _term(self, depth: int) -> Expression:
        if self._take("("):
            if depth == MAX_DEPTH:
                raise ExpressionError(f"more than {MAX_DEPTH} parentheses within one another")
            inner = self.any_of(depth + 1)
            if not self._take(")"):
                raise self._unexpected("')'")
            return inner
        word = self._word("a licence identifier")
        later = word.endswith("+")
        identifier = word.removesuffix("+")
        exception = self._word("an exception") if self._take("WITH") else None
        return Term(known(identifier) or identifier, later, exception)

    def expect_end(self) -> None:
        if self._peek():
            raise self._unexpected("AND, OR or the end")

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, wanted: str) -> bool:
        found = self._peek().upper() == wanted
        self._next += found
        return found

    def _word(self, wanted: str) -> str:
        word = self._peek()
        if not word or word in "()" or word.upper() in _OPERATORS:
            raise self._unexpected(wanted)
        self._next += 1
        return word

    def _unexpected(self, wanted: str) -> ExpressionError:
        if self._next == len(self._tokens):
            return ExpressionError(f"the text ends where {wanted} was expected")
        word, position = self._tokens[self._next]
        return ExpressionError(f"{word!r} at position {position}, expected {wanted}")
