"""The manifests and the tests agree, in both directions.

`cases.toml` lists faults people met elsewhere, `seeds.toml` what the two founding
documents say. A test shows one by carrying `@pytest.mark.case("C001")` or
`@pytest.mark.seed("TNX-01")`, on itself, on its class or on a `pytest.param`; then
`python tests/contract/link.py` writes it into the manifest.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CURRENT_ISSUE = 3
"""Entries of this issue and of earlier ones need a test."""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MEND = "run `python tests/contract/link.py`"

# How many entries each manifest has, so that none is lost: groups of cases, documents of statements.
CASES = Counter(
    SCH=11, ARG=6, RES=7, MED=4, PAR=5, PRV=7, SUS=8, DUR=6, WFL=7, HTTP=5, MCP=6, CAN=3, CON=2
)  # fmt: skip
STATEMENTS = {"TNX": 30, "BND": 67}


class Entry(TypedDict):
    """One table of a manifest; what the keys mean is said at the head of the file."""

    id: str
    issue: int
    tests: list[str]
    here: NotRequired[bool | str]
    rest: NotRequired[str]
    group: NotRequired[str]
    title: NotRequired[str]
    right: NotRequired[str]
    seen: NotRequired[str]
    where: NotRequired[str]
    says: NotRequired[str]
    divergence: NotRequired[str]


@dataclass(frozen=True)
class Manifest:
    """A manifest file, and the mark by which tests name its entries."""

    mark: str
    file: str
    table: str
    texts: tuple[str, ...]

    def entries(self) -> list[Entry]:
        """Read the tables of the file, in their order."""
        return cast("list[Entry]", tomllib.loads((HERE / self.file).read_text("utf-8"))[self.table])


MANIFESTS = (
    Manifest("case", "cases.toml", "case", ("group", "title", "right", "seen")),
    Manifest("seed", "seeds.toml", "statement", ("where", "says")),
)
both = pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: m.file)

Marks = frozenset[tuple[str, str]]
"""Pairs of mark and id, such as ("case", "C001")."""


def find_tests(root: Path = ROOT) -> dict[str, Marks]:
    """Find every test below `tests` and `compat` without importing any.

    Args:
        root: The repository.

    Returns:
        Node ids without parameters, relative to `root`, with the marks each test carries.

    Raises:
        ValueError: A mark names no literal id, or stands where it reaches no test.
    """
    found: dict[str, Marks] = {}
    for path in sorted([*root.glob("tests/**/test_*.py"), *root.glob("compat/**/test_*.py")]):
        place = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text("utf-8"), place)
        reached: list[ast.Call] = []
        for node_id, calls in _tests_in(tree.body, place, ()):
            reached += calls
            found[node_id] = frozenset(pair for call in calls for pair in _named(call, place))
        if stray := [call.lineno for call in _mark_calls([tree]) if call not in reached]:
            message = f"{place}, lines {stray}: a mark reaches no test; put it on a test function or class"
            raise ValueError(message)
    return found


def _tests_in(body: Sequence[ast.stmt], prefix: str, outer: Sequence[ast.Call]) -> Iterator[tuple[str, list[ast.Call]]]:
    """Walk functions and classes that pytest collects, with the mark calls on them and around them."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield f"{prefix}::{node.name}", [*outer, *_mark_calls(node.decorator_list)]
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests_in(node.body, f"{prefix}::{node.name}", [*outer, *_mark_calls(node.decorator_list)])


def _mark_calls(nodes: Sequence[ast.AST]) -> list[ast.Call]:
    """Find `pytest.mark.case(…)`, `pytest.mark.seed(…)` anywhere below the nodes."""
    marks = {manifest.mark for manifest in MANIFESTS}
    return [
        call
        for node in nodes
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in marks
        and ast.unparse(call.func.value) in {"pytest.mark", "mark"}
    ]


def _named(call: ast.Call, place: str) -> list[tuple[str, str]]:
    """Read the ids a mark names."""
    ids = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if not ids or len(ids) != len(call.args) or call.keywords:
        message = f'{place}:{call.lineno}: write ids as plain strings, like {ast.unparse(call.func)}("…")'
        raise ValueError(message)
    return [(cast("ast.Attribute", call.func).attr, id_) for id_ in ids]


def _fail_on(problems: Sequence[str]) -> None:
    """Fail with all problems at once, one a line."""
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture(scope="module")
def marked() -> dict[str, Marks]:
    """Every test with its marks, read once."""
    return find_tests()


def test_every_case_is_listed_once_in_order() -> None:
    """No case is lost, doubled or misspelt."""
    cases = MANIFESTS[0].entries()
    ids = [case["id"] for case in cases]

    assert [id_ for id_ in ids if not re.fullmatch(r"C\d{3}", id_)] == []
    assert sorted(set(ids)) == ids
    assert Counter(case.get("group") for case in cases) == CASES


def test_every_statement_is_listed_once_in_order() -> None:
    """The statements of each document are numbered without a gap."""
    expected = [f"{mark}-{n:02}" for mark, count in STATEMENTS.items() for n in range(1, count + 1)]
    assert [statement["id"] for statement in MANIFESTS[1].entries()] == expected


@both
def test_every_entry_is_well_formed(manifest: Manifest) -> None:
    """Each table has its texts, a known issue, and says what is left when it is partly shown."""
    known = {"id", "issue", "tests", "here", "rest", "divergence", *manifest.texts}
    problems: list[str] = []
    for entry in manifest.entries():
        fields = cast("dict[str, Any]", entry)
        name = f"{manifest.file}: {entry['id']}"
        if unknown := fields.keys() - known:
            problems.append(f"{name} has unknown keys {sorted(unknown)}: remove them")
        if empty := [key for key in manifest.texts if not str(fields.get(key, "")).strip()]:
            problems.append(f"{name} lacks {empty}: write them")
        if entry["issue"] not in range(2, 8):
            problems.append(f"{name}: issue {entry['issue']} is unknown: use 2 to 7")
        if entry.get("here", True) not in {True, "partly"}:
            problems.append(f'{name}: here is true or "partly", or left out')
        if entry.get("here") == "partly" and "rest" not in entry:
            problems.append(f"{name} is shown partly: say in `rest` what is left")
        if "rest" in entry and not re.match(r"issue [3-7]: \S", entry["rest"]):
            problems.append(f'{name}: begin `rest` with the issue that closes it, as "issue 3: …"')
    _fail_on(problems)


@both
def test_every_entry_that_is_due_has_a_test(manifest: Manifest) -> None:
    """What this issue and earlier ones promise is shown by at least one test."""
    _fail_on(
        [
            f'{manifest.file}: {entry["id"]} has no test: mark one with @pytest.mark.{manifest.mark}("{entry["id"]}")'
            f" and {MEND}"
            for entry in manifest.entries()
            if not entry["tests"] and ("here" in entry or entry["issue"] <= CURRENT_ISSUE)
        ]
    )


@both
def test_no_rest_is_overdue(manifest: Manifest) -> None:
    """What was left to an issue is closed in it."""
    _fail_on(
        [
            f"{manifest.file}: {entry['id']} left this open: {entry['rest']!r}. Test it, set here = true, drop `rest`"
            for entry in manifest.entries()
            if "rest" in entry and int(entry["rest"].split(":")[0].removeprefix("issue ")) <= CURRENT_ISSUE
        ]
    )


@both
def test_every_listed_test_exists_and_carries_the_mark(manifest: Manifest, marked: dict[str, Marks]) -> None:
    """From the manifest to the tests."""
    problems: list[str] = []
    for entry in manifest.entries():
        for node_id in entry["tests"]:
            name = f"{manifest.file}: {entry['id']} lists {node_id}"
            if node_id not in marked:
                problems.append(f"{name}, which does not exist: {MEND}")
            elif (manifest.mark, entry["id"]) not in marked[node_id]:
                problems.append(f'{name}, which lacks @pytest.mark.{manifest.mark}("{entry["id"]}"): {MEND}')
    _fail_on(problems)


@both
def test_every_marked_test_is_listed(manifest: Manifest, marked: dict[str, Marks]) -> None:
    """From the tests to the manifest."""
    listed = {entry["id"]: entry["tests"] for entry in manifest.entries()}
    problems: list[str] = []
    for node_id, marks in marked.items():
        for mark, id_ in sorted(marks):
            if mark == manifest.mark and id_ not in listed:
                problems.append(f"{node_id} names {id_}, which {manifest.file} does not have: mend the id")
            elif mark == manifest.mark and node_id not in listed[id_]:
                problems.append(f"{node_id} is not listed under {id_} in {manifest.file}: {MEND}")
    _fail_on(problems)


def _tree(root: Path, source: str) -> Path:
    """Lay down a repository with one test file."""
    (root / "tests").mkdir()
    (root / "tests" / "test_x.py").write_text(source, "utf-8")
    return root


def test_marks_on_functions_methods_and_parameters_are_found(tmp_path: Path) -> None:
    """Class marks reach every method; nested classes and async tests count."""
    source = """
@pytest.mark.parametrize("v", [pytest.param(1, marks=pytest.mark.seed("TNX-01"))])
async def test_a(v): ...
@pytest.mark.case("C001", "C002")
class TestB:
    class TestC:
        @mark.case("C004")
        def test_d(self): ...
    def helper(self): ...
"""
    assert find_tests(_tree(tmp_path, source)) == {
        "tests/test_x.py::test_a": {("seed", "TNX-01")},
        "tests/test_x.py::TestB::TestC::test_d": {("case", "C001"), ("case", "C002"), ("case", "C004")},
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('pytestmark = pytest.mark.case("C001")', r"test_x.py, lines \[1\]: a mark reaches no test"),
        ("@pytest.mark.case(ID)\ndef test_a(): ...", r"test_x.py:1: write ids as plain strings"),
        ("@pytest.mark.seed()\ndef test_a(): ...", r"test_x.py:1: write ids as plain strings"),
    ],
)
def test_a_mark_that_cannot_be_linked_is_refused(tmp_path: Path, source: str, message: str) -> None:
    """No mark is silently without effect."""
    with pytest.raises(ValueError, match=message):
        find_tests(_tree(tmp_path, source))
