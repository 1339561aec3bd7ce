"""The sample project: its parts, its tools, and its main job as a user runs it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ferrule
from ferrule import Context, Failure, Tool, ToolResult
from license_audit import agent, chart, report, tools
from license_audit.__main__ import summary
from license_audit.chart import Bar, bar_chart, chart_height
from license_audit.conflicts import Conflict, find_unmet
from license_audit.inventory import Distribution, Inventory, take_inventory
from license_audit.licenses import CLASSIFIERS, FAMILIES, find_license, license_of_text
from license_audit.policy import CLASSES, Policy, Verdict
from license_audit.spdx import MAX_DEPTH, AllOf, AnyOf, Expression, ExpressionError, Term, known, parse, terms

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "license_audit"


# -- SPDX expressions -------------------------------------------------------------------------------------------

IDENTIFIERS = st.sampled_from(["MIT", "Apache-2.0", "BSD-3-Clause", "GPL-2.0-only", "LicenseRef-Ours", "Unheard-1.0"])
TERMS = st.builds(Term, IDENTIFIERS, st.booleans(), st.none() | st.just("Classpath-exception-2.0"))


def _flat(kind: type[AllOf] | type[AnyOf], parts: Sequence[Expression]) -> Expression:
    return kind(tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))))


def _groups(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.builds(_flat, st.sampled_from([AllOf, AnyOf]), st.lists(children, min_size=2, max_size=3))


EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(TERMS, _groups, max_leaves=12)


@given(EXPRESSIONS)
def test_an_expression_written_out_parses_to_the_same_tree(tree: Expression) -> None:
    assert parse(str(tree)) == tree


@given(EXPRESSIONS)
def test_operators_and_parentheses_may_be_written_loosely(tree: Expression) -> None:
    loose = str(tree).replace(" AND ", "  and\n").replace(" OR ", " Or ").replace("(", " ( ")
    assert parse(f"({loose})") == tree


@given(st.text(st.characters() | st.sampled_from("()+ "), max_size=60))
def test_any_text_is_an_expression_or_a_located_error(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError as error:
        located = "position" in str(error) or "ends" in str(error)
    else:
        located = parse(str(tree)) == tree
    assert located


def test_and_binds_tighter_than_or() -> None:
    assert parse("MIT OR ISC AND Zlib") == AnyOf((Term("MIT"), AllOf((Term("ISC"), Term("Zlib")))))
    assert parse("(MIT OR ISC) AND Zlib") == AllOf((AnyOf((Term("MIT"), Term("ISC"))), Term("Zlib")))


def test_identifiers_come_back_in_the_spelling_of_the_spdx_list() -> None:
    assert str(parse("mit or APACHE-2.0")) == "MIT OR Apache-2.0"
    assert [term.license for term in terms(parse("gpl-2.0+ WITH Classpath-exception-2.0"))] == ["GPL-2.0"]
    assert known("LicenseRef-Ours") == "LicenseRef-Ours"
    assert known("Unheard-1.0") is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "the text ends where a licence identifier was expected"),
        ("MIT AND", "the text ends where a licence identifier was expected"),
        ("MIT WITH", "the text ends where an exception was expected"),
        ("(MIT", "the text ends where ')' was expected"),
        ("MIT)", "')' at position 4, expected AND, OR or the end"),
        ("MIT License", "'License' at position 5, expected AND, OR or the end"),
        ("OR MIT", "'OR' at position 1, expected a licence identifier"),
        ("MIT; ISC", "unexpected ';' at position 4"),
        ("MIT " * 600, "more than 2,000 characters"),
        ("(" * (MAX_DEPTH + 1) + "MIT", "more than 50 parentheses within one another"),
    ],
)
def test_a_broken_expression_is_refused_with_place_and_expectation(text: str, error: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert str(caught.value) == error


# -- From metadata to an expression -----------------------------------------------------------------------------

BSD_TEXT = """Copyright (c) Somebody

        Redistribution and use in source and binary forms, with or without
        modification, are permitted provided that …
        {third}
        THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS"""
MIT_TEXT = """MIT License
       |
       |Permission is hereby
       |granted, free of charge, to any person obtaining a copy of this software"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MIT", "MIT"),
        ("The MIT License (MIT)", "MIT"),
        ("mit or apache-2.0", "MIT OR Apache-2.0"),
        ("MIT/Apache-2.0", "MIT OR Apache-2.0"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("Apache 2.0", "Apache-2.0"),
        ("BSD 3-Clause License", "BSD-3-Clause"),
        ("BSD 2-Clause License", "BSD-2-Clause"),
        ("New BSD License", "BSD-3-Clause"),
        ("BSD", "LicenseRef-BSD"),
        ("ISC License", "ISC"),
        ("GPLv3+", "GPL-3.0-or-later"),
        (MIT_TEXT, "MIT"),
        (BSD_TEXT.format(third=""), "BSD-2-Clause"),
        (BSD_TEXT.format(third="Neither the name of …"), "BSD-3-Clause"),
        (BSD_TEXT.format(third="Neither the name of …") + MIT_TEXT, "BSD-3-Clause AND MIT"),
        ("GNU LESSER GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007 " + "…" * 200, "LGPL-3.0-only"),
        ("see the LICENSE file", ""),
        ("UNKNOWN", ""),
        ("", ""),
    ],
)
def test_a_license_field_is_recognised_by_name_or_by_its_text(text: str, expected: str) -> None:
    assert license_of_text(text) == expected


@given(st.text(max_size=400), st.lists(st.text(max_size=40)), st.text(max_size=400))
def test_any_metadata_give_an_expression_that_parses_or_none(expression: str, names: list[str], field: str) -> None:
    found = find_license(expression, [f"License :: {name}" for name in names], field)
    assert found.expression == "" or str(parse(found.expression)) == found.expression


def test_license_expression_wins_over_classifiers_and_these_over_the_field() -> None:
    classifiers = ["Topic :: Software Development", "License :: OSI Approved :: ISC License (ISCL)"]
    assert find_license("mit", classifiers, "Apache 2.0").expression == "MIT"
    assert find_license("", classifiers, "Apache 2.0").expression == "ISC"
    assert find_license("", [], "Apache 2.0").expression == "Apache-2.0"
    assert [find_license("MIT").source, find_license("", classifiers).source, find_license("", [], "ISC").source] == [
        "License-Expression",
        "classifier",
        "License field",
    ]


def test_a_broken_license_expression_falls_back_and_is_noted() -> None:
    found = find_license("MIT License", ["License :: OSI Approved :: MIT License"])
    assert found.expression == "MIT"
    assert found.note == "License-Expression cannot be read: 'License' at position 5, expected AND, OR or the end"


def test_a_classifier_that_names_a_family_is_narrowed_by_the_field() -> None:
    family = ["License :: OSI Approved :: BSD License"]
    assert find_license("", family, "BSD 2-Clause License").expression == "BSD-2-Clause"
    assert find_license("", family, "MIT").expression == "LicenseRef-BSD"
    assert find_license("", family).note == "'BSD License' names a family of licences"


def test_several_classifiers_bind_together() -> None:
    both = ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: Apache Software License"]
    assert find_license("", both).expression == "MIT AND Apache-2.0"


# -- The allow-list ---------------------------------------------------------------------------------------------

POLICY = Policy.model_validate(
    {
        "allow": ["MIT", "Apache-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"],
        "review": ["MPL-2.0"],
        "overrides": {
            "Cert_Ifi": {"license": "MPL-2.0", "verdict": "allowed", "reason": "data only"},
            "nameless": {"license": "", "verdict": "allowed", "reason": "asked the author"},
        },
    }
)


@pytest.mark.parametrize(
    ("expression", "verdict", "reason"),
    [
        ("MIT", "allowed", "on the allow-list"),
        ("mit", "allowed", "on the allow-list"),
        ("Apache-2.0+", "allowed", "on the allow-list"),
        ("Apache-2.0 WITH LLVM-exception", "allowed", "on the allow-list"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "allowed", "on the allow-list"),
        ("MIT WITH Commons-Clause", "unknown", "'Commons-Clause' is no exception of the SPDX list"),
        ("GPL-2.0-only", "denied", "GPL-2.0-only is not on the allow-list"),
        ("MPL-2.0", "unknown", "MPL-2.0 is on the review list"),
        ("MIT AND MPL-2.0", "unknown", "MPL-2.0 is on the review list"),
        ("MIT OR GPL-3.0-only", "allowed", "on the allow-list"),
        ("MIT AND GPL-3.0-only", "denied", "GPL-3.0-only is not on the allow-list"),
        ("GPL-3.0-only OR MPL-2.0", "unknown", "MPL-2.0 is on the review list"),
        ("LicenseRef-BSD", "unknown", "LicenseRef-BSD is no licence of the SPDX list"),
        ("Unheard-1.0", "unknown", "'Unheard-1.0' is no SPDX identifier"),
        ("", "unknown", "the metadata name no licence"),
        ("MIT AND", "unknown", "not an SPDX expression: the text ends where a licence identifier was expected"),
    ],
)
def test_an_expression_is_classified_with_a_reason(expression: str, verdict: str, reason: str) -> None:
    found = POLICY.classify(expression)
    assert (found.verdict, found.reason) == (verdict, reason)


@given(EXPRESSIONS, EXPRESSIONS)
def test_and_is_as_good_as_its_worse_part_and_or_as_its_better_one(left: Expression, right: Expression) -> None:
    ranks = sorted(CLASSES.index(POLICY.classify(str(part)).verdict) for part in (left, right))
    assert POLICY.classify(f"({left}) OR ({right})").verdict == CLASSES[ranks[0]]
    assert POLICY.classify(f"({left}) AND ({right})").verdict == CLASSES[ranks[1]]


@given(EXPRESSIONS, IDENTIFIERS)
def test_a_longer_allow_list_never_makes_a_verdict_worse(tree: Expression, added: str) -> None:
    longer = POLICY.model_copy(update={"allow": POLICY.allow | {added}})
    before, after = POLICY.classify(str(tree)).verdict, longer.classify(str(tree)).verdict
    assert CLASSES.index(after) <= CLASSES.index(before)


def test_an_override_holds_for_its_distribution_and_licence_only() -> None:
    assert POLICY.classify("MPL-2.0", "cert.ifi").reason == "decided: data only"
    assert POLICY.classify("MPL-2.0", "other").verdict == "unknown"
    changed = POLICY.classify("GPL-3.0-only", "cert-ifi")
    assert changed.verdict == "denied"
    assert changed.reason == "GPL-3.0-only is not on the allow-list (the decision on file was about MPL-2.0)"
    assert POLICY.classify("", "nameless").verdict == "allowed"


def test_every_licence_in_our_tables_and_lists_is_a_known_identifier() -> None:
    policy = Policy.load(tools.ALLOWED)
    families = [fallback for fallback, _ in FAMILIES.values()]
    written = [*CLASSIFIERS.values(), *families, *policy.allow, *policy.review]
    assert [name for name in written if known(name) != name] == []


@pytest.mark.parametrize("content", ["allow = ['MIT AND']", "allow = []\nalow = []", "allow = 'MIT'", "= broken"])
def test_a_policy_file_with_a_mistake_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "allowed.toml").write_text(content)
    with pytest.raises(ValueError, match=r".+"):
        Policy.load(tmp_path / "allowed.toml")


# -- The inventory ----------------------------------------------------------------------------------------------


def install(site: Path, name: str, version: str = "1.0", *headers: str, folder: str = "") -> None:
    """Put a `.dist-info` folder into a fake site-packages."""
    info = site / (folder or f"{name}-{version}.dist-info")
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *headers]
    (info / "METADATA").write_text("\n".join(lines) + "\n\nThe long description.\n", encoding="utf-8")


def unmet(site: Path) -> list[str]:
    return [str(conflict) for conflict in find_unmet(take_inventory(site).distributions)]


def test_the_inventory_is_sorted_and_holds_all_fields(tmp_path: Path) -> None:
    install(tmp_path, "zebra", "2.0", "License-Expression: MIT", "Requires-Dist: Apple>=1")
    install(tmp_path, "Apple", "1.5", "License: BSD", "Classifier: License :: OSI Approved :: BSD License")
    apple, zebra = take_inventory(tmp_path).distributions
    assert zebra == Distribution("zebra", "2.0", "MIT", "License-Expression", "", "MIT", "", (), ("Apple>=1",))
    assert (apple.license, apple.license_source, apple.license_field) == ("LicenseRef-BSD", "classifier", "BSD")


def test_a_second_copy_is_hidden_and_reported(tmp_path: Path) -> None:
    install(tmp_path, "some.thing", "1.0")
    install(tmp_path, "Some_Thing", "2.0", folder="some_thing-2.0.dist-info")
    inventory = take_inventory(tmp_path)
    assert [d.version for d in inventory.distributions] == ["1.0"]
    assert inventory.problems == ("some.thing 1.0 hides a second copy, version 2.0",)


def test_broken_metadata_are_problems_and_the_rest_is_listed(tmp_path: Path) -> None:
    install(tmp_path, "good")
    (tmp_path / "empty-1.0.dist-info").mkdir()
    (tmp_path / "blank-1.0.dist-info").mkdir()
    (tmp_path / "blank-1.0.dist-info" / "METADATA").write_bytes(b"")
    (tmp_path / "latin-1.0.dist-info").mkdir()
    (tmp_path / "latin-1.0.dist-info" / "METADATA").write_bytes(b"Name: latin\nVersion: 1.0\nAuthor: Andr\xe9\n")
    (tmp_path / "halved-1.0.dist-info").mkdir()
    (tmp_path / "halved-1.0.dist-info" / "METADATA").write_text("Name: halved\n")
    (tmp_path / "file-1.0.dist-info").write_text("no folder")
    inventory = take_inventory(tmp_path)
    assert [d.name for d in inventory.distributions] == ["good"]
    broken = [problem.split("-1.0")[0] for problem in inventory.problems]
    assert broken == ["blank", "empty", "file", "halved", "latin"]
    assert "halved-1.0.dist-info: the metadata have no version" in inventory.problems


def test_a_folder_that_does_not_exist_is_refused_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="Give the site-packages folder of an environment"):
        take_inventory(tmp_path / "nowhere")


# -- Conflicts --------------------------------------------------------------------------------------------------


def test_missing_and_wrong_versions_are_found(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "Requires-Dist: lib>=2", "Requires-Dist: gone", "Requires-Dist: LIB<9")
    install(tmp_path, "lib", "1.4")
    assert unmet(tmp_path) == [
        "app requires gone, which is not installed",
        "app requires lib>=2, but 1.4 is installed",
    ]


def test_markers_decide_whether_a_requirement_counts(tmp_path: Path) -> None:
    install(
        tmp_path,
        "app",
        "1.0",
        "Requires-Dist: old; python_version < '3'",
        "Requires-Dist: new; python_version >= '3'",
        "Requires-Dist: odd; os_name ~= 'nonsense'",
    )
    assert unmet(tmp_path) == [
        "app requires new, which is not installed",
        "app requires odd; os_name ~= 'nonsense', which is no valid requirement",
    ]


def test_an_extra_counts_when_a_distribution_asks_for_it_also_through_another(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "Requires-Dist: web[fast]")
    install(tmp_path, "web", "1.0", "Requires-Dist: web[turbo]; extra == 'fast'", "Requires-Dist: c; extra == 'turbo'")
    assert unmet(tmp_path) == ["web requires c, which is not installed"]
    install(tmp_path / "alone", "web", "1.0", "Requires-Dist: c; extra == 'turbo'")
    assert unmet(tmp_path / "alone") == []


def test_a_prerelease_fulfils_and_unreadable_text_does_not_crash(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "Requires-Dist: lib>=1", "Requires-Dist: odd>=1", "Requires-Dist: ???")
    install(tmp_path, "lib", "2.0rc1")
    install(tmp_path, "odd", "not-a-version")
    assert unmet(tmp_path) == [
        "app requires ???, which is no valid requirement",
        "app requires odd>=1, but not-a-version is installed",
    ]


# -- The chart --------------------------------------------------------------------------------------------------

Pixel = tuple[int, int, int]


def decode(png: bytes) -> tuple[int, int, list[list[Pixel]]]:
    """Width, height and pixels of a PNG as our writer makes it; every checksum is tested."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        at += 12 + length
    width, height, depth, colours, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colours, rest) == (8, 2, [0, 0, 0])
    raw = zlib.decompress(chunks[b"IDAT"])
    lines = [raw[y * (3 * width + 1) :][: 3 * width + 1] for y in range(height)]
    assert all(line[0] == 0 and len(line) == 3 * width + 1 for line in lines)
    return width, height, [[(r, g, b) for r, g, b in zip(*[iter(line[1:])] * 3, strict=True)] for line in lines]


def widest(pixels: list[list[Pixel]], kind: str) -> int:
    return max(row.count(chart.COLOURS[kind]) for row in pixels)


def test_the_chart_is_a_png_whose_bars_are_as_long_as_their_values() -> None:
    bars = [Bar("MIT", 30, "allowed"), Bar("GPL-3.0-only", 15, "denied"), Bar("MPL-2.0", 3, "unknown")]
    width, height, pixels = decode(bar_chart("Licences", bars))
    assert (width, height) == (chart.WIDTH, chart_height(3))
    assert widest(pixels, "allowed") / widest(pixels, "denied") == pytest.approx(2, abs=0.1)
    assert widest(pixels, "allowed") / widest(pixels, "unknown") == pytest.approx(10, abs=1)


def test_pillow_reads_the_chart_too() -> None:
    image = pytest.importorskip("PIL.Image")
    import io

    with image.open(io.BytesIO(bar_chart("Licences", [Bar("MIT", 1, "allowed")]))) as picture:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (chart.WIDTH, chart_height(1)))


@pytest.mark.parametrize(
    "bars",
    [[], [Bar("MIT", 0, "allowed")], [Bar("é" * 300, 10**9)], [Bar(f"L{i}", i) for i in range(100)]],
    ids=["no bars", "zero", "long name and value", "more bars than fit"],
)
def test_unusual_bars_still_give_a_chart(bars: list[Bar]) -> None:
    _, height, _ = decode(bar_chart("", bars))
    assert height == chart_height(min(len(bars), chart.MOST_BARS))


# -- The report -------------------------------------------------------------------------------------------------


def test_the_report_names_what_a_person_must_decide() -> None:
    odd = Distribution("odd|name", "1.0", "MPL-2.0", "classifier", "two said so", "", "", (), ())
    inventory = Inventory("env", (odd,), ("x-1.dist-info: broken",))
    verdict = Verdict("MPL-2.0", "unknown", "MPL-2.0 is on the review list", "odd|name")
    text = report.render(inventory, [verdict], [Conflict("odd|name", "lib>=2", "missing")], "chart.png")
    assert "1 distribution: 0 allowed, 1 unknown, 0 denied." in text
    assert "| odd\\|name | MPL-2.0 | unknown | MPL-2.0 is on the review list; two said so |" in text
    assert "| odd\\|name | lib>=2 | missing |" in text
    assert "| x-1.dist-info: broken |" in text
    assert "](chart.png)" in text


def test_a_file_tells_who_wrote_it_and_whether_it_was_edited(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.md"
    assert report.read_saved(path) is None
    saved = report.write_stamped(path, "# Report\n", "call-1")
    assert report.read_saved(path) == saved
    assert (saved.text, saved.call, saved.edited) == ("# Report\n", "call-1", False)
    path.write_text(path.read_text().replace("Report", "Edited"))
    assert report.read_saved(path) == report.Saved("# Edited\n", "call-1", saved.sha256)
    assert report.Saved("# Edited\n", "call-1", saved.sha256).edited


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    (target / "occupied").mkdir(parents=True)
    with pytest.raises(OSError, match=r"report\.md"):
        report.write_stamped(target, "text", "call-1")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


# -- The tools --------------------------------------------------------------------------------------------------


def call(tool: Tool, **arguments: object) -> ToolResult:
    return asyncio.run(tool.call(arguments))


def test_only_the_tool_that_writes_has_an_effect() -> None:
    found = {t.name: t.effect for t in vars(tools).values() if isinstance(t, Tool)}
    assert len(found) == 6
    assert [name for name, effect in found.items() if effect != "read"] == ["write_report"]


def test_listing_gives_code_every_field_and_a_model_one_line_each(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "License-Expression: MIT")
    install(tmp_path, "lib", "2.0")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    result = call(tools.list_distributions, environment=tmp_path)
    assert result.value == take_inventory(tmp_path)
    assert result.output.splitlines()[:2] == ["app 1.0: MIT", "lib 2.0: no licence found"]
    assert result.output.splitlines()[2].startswith("Problem: broken-1.0.dist-info")


def test_listing_a_folder_that_does_not_exist_is_a_failed_result(tmp_path: Path) -> None:
    result = call(tools.list_distributions, environment=tmp_path / "nowhere")
    assert result.status == "failed"
    assert "Give the site-packages folder" in result.output


def test_classifying_follows_the_policy_file() -> None:
    result = call(tools.classify_license, expression="mpl-2.0", distribution="certifi")
    assert result.value == Verdict("MPL-2.0", "allowed", "decided: data file, shipped unchanged", "certifi")
    assert json.loads(result.output)["verdict"] == "allowed"
    assert call(tools.classify_license, expression="AGPL-3.0-only").value.verdict == "denied"
    assert call(tools.classify_license, expression=["MIT"]).failure == Failure("invalid_arguments")


def test_conflicts_come_back_as_values(tmp_path: Path) -> None:
    install(tmp_path, "app", "1.0", "Requires-Dist: gone>=2")
    assert call(tools.find_conflicts, environment=tmp_path).value == [Conflict("app", "gone>=2", "missing")]


def test_the_chart_tool_returns_one_image_coloured_by_verdict() -> None:
    verdicts = [
        {"expression": "MIT", "verdict": "allowed", "reason": ""},
        {"expression": "", "verdict": "unknown", "reason": ""},
    ]
    result = call(tools.license_chart, verdicts=verdicts)
    (part,) = result.parts or []
    assert (part["type"], part["mimeType"], part["name"]) == ("image", "image/png", "licenses.png")
    _, height, pixels = decode(base64.b64decode(part["data"]))
    assert height == chart_height(2)
    assert widest(pixels, "allowed") == widest(pixels, "unknown") > 0


def test_the_chart_tool_counts_this_environment_by_default() -> None:
    (part,) = call(tools.license_chart).parts or []
    assert decode(base64.b64decode(part["data"]))[0] == chart.WIDTH


def test_the_preview_shows_the_changes_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.md"
    shown = asyncio.run(tools.write_report.call_preview({"path": path, "text": "# One\n"}))
    assert shown is not None
    assert shown.output.splitlines() == [f"Creates {path}", "--- now", "+++ then", "@@ -0,0 +1 @@", "+# One"]
    assert list(tmp_path.iterdir()) == []
    call(tools.write_report, path=path, text="# One\n")
    again = asyncio.run(tools.write_report.call_preview({"path": path, "text": "# One\n"}))
    assert again is not None
    assert again.output == f"Replaces {path} by the same text"


def test_the_check_knows_a_call_by_its_key_before_and_after(tmp_path: Path) -> None:
    arguments = {"path": tmp_path / "report.md", "text": "# One\n"}

    async def story() -> list[ToolResult | None]:
        first, second = Context[Any](effect_key="first"), Context[Any](effect_key="second")
        before = await tools.write_report.call_check(arguments, first)
        written = await tools.write_report.call(arguments, first)
        after = await tools.write_report.call_check(arguments, first)
        other = await tools.write_report.call_check(arguments, second)
        return [before, written, after, other]

    before, written, after, other = asyncio.run(story())
    assert (before, other) == (None, None)
    assert written is not None
    assert after is not None
    assert written.value == after.value == tools.Written(tmp_path / "report.md", written.value.sha256)


def test_a_file_of_somebody_else_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    arguments = {"path": tmp_path / "notes.md", "text": "# One\n"}
    result = call(tools.write_report, **arguments)
    assert result.failure == Failure("refused")
    assert asyncio.run(tools.write_report.call_preview(arguments)) == result
    assert (tmp_path / "notes.md").read_text() == "mine"


# -- The main job -----------------------------------------------------------------------------------------------


KEYS = {*(key for model in agent.MODELS for key in agent.keys_of(model)), "AUDIT_MODEL"}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module without a provider's key: nothing here may reach the network."""
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    env = {**kept, "PYTHONPATH": os.pathsep.join([str(SAMPLE), str(ROOT / "src")])}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True)


def test_the_main_job_audits_the_environment_it_runs_in(tmp_path: Path) -> None:
    done = run(tmp_path, "license_audit")
    assert (done.returncode, done.stderr) == (0, "")
    number = len(take_inventory().distributions)
    assert f"classify_license     done      {number} calls" in done.stdout
    assert f"\n{number + 4} results: {number + 4} done, 0 failed, 0 suspended.\n" in done.stdout
    assert len(done.stdout.splitlines()) < 65
    folder = tmp_path.resolve() / "license-audit"
    assert f"\nRead {folder / 'report.md'} next; git ignores the folder license-audit.\n" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "licenses.png", "report.md"]
    assert (folder / ".gitignore").read_text() == "*\n"
    assert decode((folder / "licenses.png").read_bytes())[0] == chart.WIDTH
    saved = report.read_saved(folder / "report.md")
    assert saved is not None
    assert not saved.edited
    assert "| pydantic |" in saved.text
    assert re.findall(r"has this call happened\? (\w+)", done.stdout) == ["no", "yes"]


def test_the_summary_counts_every_allowed_licence() -> None:
    verdicts = [Verdict(e, "allowed", "", "d") for e in ("MIT", "MIT", "ISC", "Zlib", "0BSD", "PSF-2.0", "BSL-1.0")]
    assert summary(verdicts)[0] == "allowed     7  MIT 2, ISC 1, Zlib 1, 0BSD 1, others 2"
    assert summary(verdicts[:5])[0] == "allowed     5  MIT 2, ISC 1, Zlib 1, 0BSD 1"


def test_the_main_job_tells_of_another_environment_with_all_its_troubles(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "app", "1.0", "License-Expression: AGPL-3.0-only", "Requires-Dist: lib>=2", "Requires-Dist: gone")
    install(site, "lib", "1.0", "License: ask the author")
    install(site, "lib", "2.0")
    done = run(tmp_path, "license_audit", "--environment", str(site))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"list_distributions done 2 installed in {site}" in lines
    assert "allowed 0" in lines
    assert "unknown 1 lib: the metadata name no licence" in lines
    assert "denied 1 app: AGPL-3.0-only is not on the allow-list" in lines
    assert "app requires lib>=2, but 1.0 is installed" in lines
    assert "lib 1.0 hides a second copy, version 2.0" in lines
    assert lines[-7:-2] == [
        "Of 2 installed distributions, 0 come under licences that are allowed.",
        "A person must look at: 1 (lib).",
        "Denied: 1 (app).",
        "Distributions with a requirement that is not met: 1 (app).",
        "",
    ]


def test_the_main_job_ends_with_the_failed_results_own_words(tmp_path: Path) -> None:
    done = run(tmp_path, "license_audit", "--environment", "nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("list_distributions failed: ")
    assert list(tmp_path.iterdir()) == []


def test_the_main_job_ends_with_the_agents_answer_and_says_that_no_model_gave_it(tmp_path: Path) -> None:
    told = run(tmp_path, "license_audit").stdout.splitlines()
    judged = call(tools.judge_environment).value
    found = f"Of {judged.distributions} installed distributions, {judged.allowed} come under licences that are allowed."
    assert found == told[-7]
    assert told[-2].startswith("This is a recorded conversation; no model was asked. ")
    assert told[-1].startswith("For a model set one of OPENAI_API_KEY, ")


def test_the_command_line_runs_the_agent_and_makes_its_calls() -> None:
    question = json.loads(agent.CONVERSATION.read_text(encoding="utf-8"))["question"]
    done = run(SAMPLE, "ferrule", "run", "auditor", "--input", question, "-o", "jsonl")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert {"judge_environment": "done", "find_conflicts": "done"} == {
        event["call"]["name"]: event["result"]["status"] for event in events if event["type"] == "tool_result"
    }
    assert "This is a recorded conversation; no model was asked." in events[-1]["value"]["output"]


def test_the_command_line_finds_the_tools_in_the_samples_folder() -> None:
    listed = run(SAMPLE, "ferrule", "tool", "ls", "-o", "jsonl")
    assert [json.loads(line)["name"] for line in listed.stdout.splitlines()] == [
        tool.name for tool in vars(tools).values() if isinstance(tool, Tool)
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed otherwise there")
def test_a_report_is_written_once_though_its_process_is_killed_right_after_it(tmp_path: Path) -> None:
    sources = os.pathsep.join([str(Path(ferrule.__file__).parents[1]), str(Path(tools.__file__).parents[1])])
    ran = subprocess.run(
        [sys.executable, "-m", "license_audit.durable"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": sources},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "the report was written 1 time, over three processes and one kill" in ran.stdout
    assert "distributions are allowed" in (tmp_path / "license-audit" / "summary.md").read_text()
    assert len((tmp_path / "license-audit" / "writes.log").read_text().splitlines()) == 1
