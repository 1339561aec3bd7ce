"""From what a distribution says about its licence to one SPDX expression.

Metadata say it in up to three places. `License-Expression` is exact and wins. Classifiers
come next: most name one licence, some only a family. The free-text `License` field comes
last: a name, a guess at an expression, or a whole licence text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from license_audit.spdx import ExpressionError, known, parse, terms


@dataclass(frozen=True, slots=True)
class Finding:
    """A licence and where it was found."""

    expression: str
    """An SPDX expression; empty when nothing was found."""
    source: str
    """`License-Expression`, `classifier`, `License field` or `nothing`."""
    note: str = ""
    """What a reader should know, such as what could not be read."""


def find_license(expression: str = "", classifiers: Sequence[str] = (), field: str = "") -> Finding:
    """Turn a distribution's metadata fields into one SPDX expression; never raises.

    Args:
        expression: The `License-Expression` field.
        classifiers: All classifiers; others than licences are passed over.
        field: The free-text `License` field.
    """
    notes: list[str] = []
    if expression.strip():
        try:
            return Finding(str(parse(expression)), "License-Expression")
        except ExpressionError as error:
            notes.append(f"License-Expression cannot be read: {error}")
    found = _from_classifiers(classifiers, field, notes) or _from_field(field, notes)
    return found or Finding("", "nothing", "; ".join(notes))


def _from_classifiers(classifiers: Sequence[str], field: str, notes: list[str]) -> Finding | None:
    names = dict.fromkeys(c.split("::")[-1].strip() for c in classifiers if c.startswith("License ::"))
    licenses: list[str] = []
    for name in names:
        if name in FAMILIES:
            license = _narrowed(name, field)
            if license.startswith("LicenseRef-"):
                notes.append(f"{name!r} names a family of licences")
            licenses.append(license)
        elif name in CLASSIFIERS:
            licenses.append(CLASSIFIERS[name])
        elif name not in ("OSI Approved", "DFSG approved"):
            notes.append(f"classifier {name!r} is not in our table")
    if not licenses:
        return None
    if len(licenses) > 1:
        notes.append("several classifiers, read as AND, the cautious way")
    return Finding(" AND ".join(dict.fromkeys(licenses)), "classifier", "; ".join(notes))


def _narrowed(family: str, field: str) -> str:
    """The member of a family that the `License` field names, else the family as a `LicenseRef`."""
    fallback, members = FAMILIES[family]
    try:
        licenses = {term.license for term in terms(parse(license_of_text(field)))}
    except ExpressionError:
        return fallback
    return licenses.pop() if len(licenses) == 1 and licenses <= members else fallback


def _from_field(field: str, notes: list[str]) -> Finding | None:
    expression = license_of_text(field)
    if expression:
        return Finding(expression, "License field", "; ".join(notes))
    if field.strip():
        notes.append(f"License field says {_shortened(field)!r}")
    return None


def license_of_text(text: str) -> str:
    """The SPDX expression a free text stands for, empty when it is not recognised."""
    words = " ".join(re.sub(r"(?m)^[ \t]*\|", " ", text).split())
    if len(words) > 200:
        return _license_of_full_text(words)
    return _license_of_name(words) or _license_of_full_text(words)


def _license_of_name(name: str) -> str:
    """`Apache 2.0`, `BSD-3-Clause OR MIT`, `MIT/Apache-2.0`."""
    plain = re.sub(r"[\s,_()\"'-]+", " ", name.lower()).strip()
    plain = re.sub(r"^the | licen[sc]e$", "", plain)
    if plain in NAMES:
        return NAMES[plain]
    try:
        tree = parse(name)
    except ExpressionError:
        return _choice_of_names(name)
    return str(tree) if all(known(term.license) for term in terms(tree)) else _choice_of_names(name)


def _choice_of_names(name: str) -> str:
    """Names joined by `or` or `/`, all of which must be recognised."""
    parts = re.split(r"\s+or\s+|\s*/\s*", name, flags=re.IGNORECASE)
    licenses = [_license_of_name(part) for part in parts] if len(parts) > 1 else []
    return " OR ".join(dict.fromkeys(licenses)) if licenses and all(licenses) else ""


def _license_of_full_text(words: str) -> str:
    """The licences whose tell-tale sentences a text holds; several bind together."""
    found = [license for license, sentence in SENTENCES.items() if re.search(sentence, words, re.IGNORECASE)]
    if heading := re.search(GNU_HEADING, words, re.IGNORECASE):
        kind, version = heading["kind"], heading["version"]
        name = {"affero": "AGPL", "lesser": "LGPL", "library": "LGPL"}.get((kind or "").lower(), "GPL")
        # The text alone does not say "or any later version".
        found.append(f"{name}-{version if '.' in version else version + '.0'}-only")
    return " AND ".join(found)


def _shortened(text: str, width: int = 60) -> str:
    words = " ".join(text.split())
    return words if len(words) <= width else words[: width - 1] + "…"


# The last segment of a classifier -> the licence it names.
CLASSIFIERS = {
    "Academic Free License (AFL)": "AFL-3.0",
    # In principle also version 1.x; no distribution of this century uses that.
    "Apache Software License": "Apache-2.0",
    "Blue Oak Model License (BlueOak-1.0.0)": "BlueOak-1.0.0",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "CMU License (MIT-CMU)": "MIT-CMU",
    "Eclipse Public License 1.0 (EPL-1.0)": "EPL-1.0",
    "Eclipse Public License 2.0 (EPL-2.0)": "EPL-2.0",
    "European Union Public Licence 1.2 (EUPL 1.2)": "EUPL-1.2",
    "GNU Affero General Public License v3": "AGPL-3.0-only",
    "GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0-or-later",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.0-only",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.0-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Other/Proprietary License": "LicenseRef-Proprietary",
    "PostgreSQL License": "PostgreSQL",
    "Public Domain": "LicenseRef-Public-Domain",
    "Python License (CNRI Python License)": "CNRI-Python",
    "Python Software Foundation License": "PSF-2.0",
    "SIL Open Font License 1.1 (OFL-1.1)": "OFL-1.1",
    "The Unlicense (Unlicense)": "Unlicense",
    "Universal Permissive License (UPL)": "UPL-1.0",
    "University of Illinois/NCSA Open Source License": "NCSA",
    "Zero-Clause BSD (0BSD)": "0BSD",
    "Zope Public License": "ZPL-2.1",
    "zlib/libpng License": "Zlib",
}

# Classifiers that name a family: what stands for it, and the members the License field may name.
FAMILIES = {
    "BSD License": ("LicenseRef-BSD", {"0BSD", "BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause", "BSD-1-Clause"}),
    "GNU General Public License (GPL)": (
        "LicenseRef-GPL",
        {"GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later"},
    ),
    "GNU Library or Lesser General Public License (LGPL)": (
        "LicenseRef-LGPL",
        {"LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later"},
    ),
}

# Names people write, in small letters, without punctuation, "the" and "license".
NAMES = {
    "2 clause bsd": "BSD-2-Clause",
    "3 clause bsd": "BSD-3-Clause",
    "agplv3": "AGPL-3.0-only",
    "agplv3+": "AGPL-3.0-or-later",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license v2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd": "LicenseRef-BSD",
    "bsd 2 clause": "BSD-2-Clause",
    "bsd 3 clause": "BSD-3-Clause",
    "bsd style": "LicenseRef-BSD",
    "expat": "MIT",
    "gpl": "LicenseRef-GPL",
    "gplv2": "GPL-2.0-only",
    "gplv2+": "GPL-2.0-or-later",
    "gplv3": "GPL-3.0-only",
    "gplv3+": "GPL-3.0-or-later",
    "gnu gpl": "LicenseRef-GPL",
    "gnu lgpl": "LicenseRef-LGPL",
    "isc": "ISC",
    "iscl": "ISC",
    "lgpl": "LicenseRef-LGPL",
    "lgplv3": "LGPL-3.0-only",
    "lgplv3+": "LGPL-3.0-or-later",
    "mit": "MIT",
    "mit license mit": "MIT",
    "mit/x11": "MIT",
    "modified bsd": "BSD-3-Clause",
    "mpl 2.0": "MPL-2.0",
    "mozilla public license 2.0": "MPL-2.0",
    "mozilla public license 2.0 mpl 2.0": "MPL-2.0",
    "new bsd": "BSD-3-Clause",
    "proprietary": "LicenseRef-Proprietary",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "public domain": "LicenseRef-Public-Domain",
    "python software foundation": "PSF-2.0",
    "simplified bsd": "BSD-2-Clause",
    "zlib": "Zlib",
    "zpl 2.1": "ZPL-2.1",
}

# A licence -> a sentence that only its text holds.
_BSD = r"redistribution and use in source and binary forms"
SENTENCES = {
    "Apache-2.0": r"apache license,? version 2\.0",
    "BSD-2-Clause": rf"{_BSD}(?!.*(neither the name|may not be used to endorse))",
    "BSD-3-Clause": rf"{_BSD}.*(neither the name|may not be used to endorse)",
    "BSL-1.0": r"boost software license - version 1\.0",
    "ISC": r"permission to use, copy, modify, and(/or)? distribute this software for any purpose with or "
    r"without fee is hereby granted, provided",
    "0BSD": r"permission to use, copy, modify, and/or distribute this software for any purpose with or "
    r"without fee is hereby granted\.",
    "MIT": r"permission is hereby granted, free of charge, to any person obtaining a copy",
    "MPL-2.0": r"mozilla public license,? (version|v\.) 2\.0",
    "PSF-2.0": r"python software foundation license version 2",
    "Unlicense": r"this is free and unencumbered software released into the public domain",
    "Zlib": r"this software is provided 'as-is', without any express or implied warranty",
}
GNU_HEADING = r"gnu ((?P<kind>affero|lesser|library) )?general public license,? version (?P<version>[23](\.[01])?)"
