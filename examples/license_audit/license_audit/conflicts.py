"""Requirements that an environment does not meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion

from license_audit.inventory import Distribution


@dataclass(frozen=True, slots=True)
class Conflict:
    """One requirement that is not met."""

    distribution: str
    requirement: str
    kind: Literal["missing", "wrong_version", "unreadable"]
    installed: str = ""
    """The installed version, when the kind is `wrong_version`."""

    def __str__(self) -> str:
        found = {
            "missing": "which is not installed",
            "wrong_version": f"but {self.installed} is installed",
            "unreadable": "which is no valid requirement",
        }
        return f"{self.distribution} requires {self.requirement}, {found[self.kind]}"


def find_unmet(distributions: Iterable[Distribution]) -> list[Conflict]:
    """Check every requirement against what is installed.

    Markers are evaluated for the running interpreter. The requirements of an extra count when
    another distribution asks for that extra; which extras a person asked for is written nowhere.
    """
    installed = {canonicalize_name(d.name): d for d in distributions}
    conflicts: set[Conflict] = set()
    asked: list[tuple[NormalizedName, str]] = [(name, "") for name in installed]
    for name, extra in asked:  # grows while we walk: extras ask for more extras
        for text in installed[name].requires:
            try:
                requirement = _applying(text, extra)
            except InvalidRequirement:
                conflicts.add(Conflict(installed[name].name, text, "unreadable"))
                continue
            if requirement is None:
                continue
            target = canonicalize_name(requirement.name)
            conflicts.update(_unmet(requirement, installed[name].name, installed.get(target)))
            if target in installed:
                asked += sorted({(target, wanted) for wanted in requirement.extras}.difference(asked))
    return sorted(conflicts, key=lambda c: (canonicalize_name(c.distribution), c.requirement))


def _applying(text: str, extra: str) -> Requirement | None:
    """The requirement, or `None` when its marker excludes this interpreter or extra."""
    requirement = Requirement(text)
    try:
        return requirement if not requirement.marker or requirement.marker.evaluate({"extra": extra}) else None
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        raise InvalidRequirement(str(error)) from error


def _unmet(requirement: Requirement, by: str, target: Distribution | None) -> Iterator[Conflict]:
    wanted = f"{requirement.name}{requirement.specifier}"
    if target is None:
        yield Conflict(by, wanted, "missing")
        return
    try:
        fits = requirement.specifier.contains(target.version, prereleases=True)
    except InvalidVersion:
        fits = False
    if not fits:
        yield Conflict(by, wanted, "wrong_version", target.version)
