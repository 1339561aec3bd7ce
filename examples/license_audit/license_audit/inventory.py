"""What is installed in an environment, read from the distributions' metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from license_audit.licenses import find_license


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution."""

    name: str
    version: str
    license: str
    """SPDX expression; empty when the metadata name no licence we can read."""
    license_source: str
    """Where `license` was found."""
    license_note: str
    license_expression: str
    license_field: str
    license_classifiers: tuple[str, ...]
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The distributions of an environment, by name, and what could not be read."""

    environment: str
    distributions: tuple[Distribution, ...]
    problems: tuple[str, ...]


def take_inventory(site_packages: Path | None = None) -> Inventory:
    """List what is installed. Broken metadata become problems, not errors.

    Of several copies of one distribution the first on the path counts, the one Python imports.

    Args:
        site_packages: A folder to look at; by default everything this interpreter can import.

    Raises:
        NotADirectoryError: There is no such folder.
    """
    if site_packages is not None and not site_packages.is_dir():
        raise NotADirectoryError(f"{site_packages} is no folder. Give the site-packages folder of an environment.")
    path = [site_packages] if site_packages else [Path(entry) for entry in sys.path]
    found: dict[str, Distribution] = {}
    problems: list[str] = []
    for folder in _metadata_folders(path):
        distribution = _read(folder, problems)
        if distribution is None:
            continue
        first = found.setdefault(canonicalize_name(distribution.name), distribution)
        if first is not distribution:
            problems.append(f"{first.name} {first.version} hides a second copy, version {distribution.version}")
    environment = sys.prefix if site_packages is None else str(site_packages)
    ordered = tuple(found[name] for name in sorted(found))
    return Inventory(environment, ordered, tuple(sorted(set(problems))))


def _metadata_folders(entries: Iterable[Path]) -> Iterator[Path]:
    """The folders and files with metadata, in the order in which Python looks."""
    for entry in dict.fromkeys(entry.resolve() for entry in entries):
        try:
            inside = sorted(entry.iterdir())
        except OSError:  # an archive, or no folder of ours
            continue
        yield from (path for path in inside if path.suffix in (".dist-info", ".egg-info"))


def _read(folder: Path, problems: list[str]) -> Distribution | None:
    """One distribution, or `None` and a problem."""
    try:
        source = metadata.Distribution.at(folder)
        fields = source.metadata
        name, version, expression, license_field = (
            next(iter(_lines(fields, field)), "") for field in ("Name", "Version", "License-Expression", "License")
        )
        classifiers, requires = _lines(fields, "Classifier"), source.requires or []
    # A file may be missing, unreadable or undecodable, and each version of Python says so differently.
    except Exception as error:
        problems.append(f"{folder.name}: the metadata cannot be read ({type(error).__name__})")
        return None
    if not name or not version:
        problems.append(f"{folder.name}: the metadata have no {'version' if name else 'name'}")
        return None
    found = find_license(expression, classifiers, license_field)
    return Distribution(
        name=name,
        version=version,
        license=found.expression,
        license_source=found.source,
        license_note=found.note,
        license_expression=expression,
        license_field=license_field,
        license_classifiers=tuple(line for line in classifiers if line.startswith("License ::")),
        requires=tuple(requires),
    )


def _lines(fields: metadata.PackageMetadata, name: str) -> list[str]:
    """A header's values as text; odd bytes arrive as surrogates."""
    return [str(line).encode("utf-8", "replace").decode("utf-8").strip() for line in fields.get_all(name) or []]
