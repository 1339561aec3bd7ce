"""The allow-list, and what it says about a licence expression."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict

from license_audit.spdx import AllOf, Expression, ExpressionError, Term, is_exception, known, parse

Class = Literal["allowed", "unknown", "denied"]
CLASSES: tuple[Class, ...] = ("allowed", "unknown", "denied")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the allow-list says about one licence, and why."""

    expression: str
    verdict: Class
    reason: str
    distribution: str = ""


def _spelled(expression: str) -> str:
    """The text as our parser writes it, so that lists and metadata compare equal."""
    return str(parse(expression)) if expression else ""


_License = Annotated[str, AfterValidator(_spelled)]
_Name = Annotated[str, AfterValidator(canonicalize_name)]


class Override(BaseModel):
    """What a person decided about one distribution under one licence."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    license: _License
    verdict: Literal["allowed", "denied"]
    reason: str


class Policy(BaseModel):
    """The content of `allowed.toml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    allow: frozenset[_License]
    review: frozenset[_License] = frozenset()
    overrides: dict[_Name, Override] = {}

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read and check a policy file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no TOML, or has an unknown key or a licence that is no expression.
        """
        return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))

    def classify(self, expression: str, distribution: str = "") -> Verdict:
        """Judge a licence; never raises.

        A person's override comes first, then the lists. Of `A AND B` the worse part counts, of
        `A OR B` the better one.

        Args:
            expression: An SPDX expression; empty when the metadata name no licence.
            distribution: Whose licence it is, for overrides.
        """
        try:
            tree = parse(expression) if expression.strip() else None
        except ExpressionError as error:
            return Verdict(expression, "unknown", f"not an SPDX expression: {error}", distribution)
        spelled = str(tree) if tree else ""
        override = self.overrides.get(canonicalize_name(distribution))
        if override and override.license == spelled:
            return Verdict(spelled, override.verdict, f"decided: {override.reason}", distribution)
        verdict, reason = self._judge(tree) if tree else ("unknown", "the metadata name no licence")
        if override:
            reason += f" (the decision on file was about {override.license or 'no licence'})"
        return Verdict(spelled, verdict, reason, distribution)

    def _judge(self, tree: Expression) -> tuple[Class, str]:
        if isinstance(tree, Term):
            return self._judge_term(tree)
        judged = [self._judge(part) for part in tree.parts]
        pick = max if isinstance(tree, AllOf) else min
        verdict = CLASSES[pick(CLASSES.index(part) for part, _ in judged)]
        return verdict, "; ".join(dict.fromkeys(reason for part, reason in judged if part == verdict))

    def _judge_term(self, term: Term) -> tuple[Class, str]:
        # An exception and "or later" only add to what the bare licence permits; what else stands after WITH may not.
        spellings = {str(term), str(Term(term.license, term.later)), term.license}
        if term.exception and not is_exception(term.exception) and str(term) not in self.allow:
            return "unknown", f"{term.exception!r} is no exception of the SPDX list"
        if spellings & self.allow:
            return "allowed", "on the allow-list"
        if spellings & self.review:
            return "unknown", f"{term} is on the review list"
        if term.license.startswith("LicenseRef-"):
            return "unknown", f"{term} is no licence of the SPDX list"
        if known(term.license) is None:
            return "unknown", f"{term.license!r} is no SPDX identifier"
        return "denied", f"{term} is not on the allow-list"
