"""scripts/gates.py on small trees: a clean one passes, and each kind of violation is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gates

FACE = '''"""Values."""

_HOME: dict[str, str] = {"Box": "ferrule.box", "open_box": "ferrule.box"}
__all__ = ["Box", "__version__", "open_box"]
'''

BOX = '''"""Boxes."""

from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True)
class Box:
    """A box.

    Args:
        size: Its edge in metres.

    Since 0.1.
    """

    size: float

    @property
    def volume(self) -> float:
        """Cubic metres."""
        return self.size**3

    def grow(self, by: float) -> "Box":
        """Make a bigger one.

        Args:
            by: Metres to add.

        Raises:
            ValueError: The box would shrink.
        """
        if by < 0:
            raise ValueError("a box only grows")
        return Box(self.size + by)


@overload
def open_box(box: Box) -> None: ...
@overload
def open_box(box: None) -> None: ...
def open_box(box: Box | None) -> None:
    """Open it.

    Args:
        box: The box.

    Since 0.1.
    """


def _helper() -> None:
    pass
'''

BOX_PATH = "src/ferrule/box.py"
FACE_PATH = "src/ferrule/__init__.py"
HOST = ".".join(["pypi", "org"])
ROOT_PATH = "/" + "root/checkout/file.py"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout without violations."""
    write(tmp_path, FACE_PATH, FACE)
    write(tmp_path, BOX_PATH, BOX)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def change(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new), encoding="utf-8")


def found(
    root: Path, long_functions: dict[str, str] | None = None, short_docstrings: dict[str, str] | None = None
) -> list[str]:
    return [str(violation) for violation in gates.check(root, long_functions or {}, short_docstrings or {})]


def function(name: str, lines: int) -> str:
    return f'def {name}() -> None:\n    """Count."""\n' + "    print()\n" * (lines - 1)


def module(title: str) -> str:
    """The head of a module whose names are all as old as it is."""
    return f'"""{title}.\n\nSince 0.1.\n"""\n'


def test_clean_tree_passes(tree: Path) -> None:
    assert found(tree) == []


def test_script_prints_place_and_fault_and_exits_with_one(tree: Path) -> None:
    change(tree, BOX_PATH, '"""Cubic metres."""', "")
    command = [sys.executable, gates.__file__, str(tree)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, f"{BOX_PATH}:20: Box.volume has no docstring\n")


def test_script_exits_with_zero_on_a_clean_tree(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gates.main([str(tree)]) == 0
    assert capsys.readouterr().out == ""


def test_file_that_does_not_parse_is_named(tree: Path) -> None:
    write(tree, "src/ferrule/broken.py", "def")
    assert found(tree) == ["src/ferrule/broken.py:1: does not parse: invalid syntax"]


# --- size ---


def test_long_function_is_found_and_docstring_lines_do_not_count(tree: Path) -> None:
    shorter = "".join(function(f"short_{number}", 2) for number in range(20))
    doc = '"""Count.\n' + "\n" * 50 + '    """'
    write(tree, "src/ferrule/long.py", module("Long") + shorter + function("most", 60).replace('"""Count."""', doc))
    assert found(tree) == []
    write(tree, "src/ferrule/long.py", module("Long") + shorter + function("more", 61))
    assert [line.partition(";")[0] for line in found(tree)] == [
        "src/ferrule/long.py:65: more has 61 lines, at most 60 are allowed"
    ]


def test_listed_long_function_passes_only_with_a_reason(tree: Path) -> None:
    shorter = "".join(function(f"short_{number}", 2) for number in range(20))
    write(tree, "src/ferrule/long.py", module("Long") + shorter + function("table", 61))
    key = "src/ferrule/long.py:table"
    assert found(tree, {key: "one table, read from top to bottom"}) == []
    assert found(tree, {key: " "}) == [
        "src/ferrule/long.py:1: LONG_FUNCTIONS of scripts/gates.py gives no reason for table"
    ]


@pytest.mark.parametrize("name", ["Box.grow", "gone"])
def test_exception_that_is_no_longer_needed_is_found(tree: Path, name: str) -> None:
    assert found(tree, {f"{BOX_PATH}:{name}": "was long"}) == [
        f"{BOX_PATH}:1: LONG_FUNCTIONS of scripts/gates.py lists {name}, which is no longer too long; remove it"
    ]


def test_ninetieth_percentile_over_thirty_lines_is_found(tree: Path) -> None:
    write(tree, "src/ferrule/long.py", module("Long") + function("one", 31) + function("two", 40))
    (line,) = found(tree)
    assert line.startswith("src/ferrule:1: 90th percentile of function length is 40 lines, at most 30 are allowed")
    assert "src/ferrule/long.py:two (40), src/ferrule/long.py:one (31)" in line


@pytest.mark.parametrize(("lengths", "expected"), [([], 0), ([7], 7), ([*range(1, 11)], 9), ([*range(1, 21)], 18)])
def test_percentile_is_the_nearest_rank(lengths: list[int], expected: int) -> None:
    assert gates.percentile(lengths) == expected


def test_file_over_six_hundred_lines_is_found(tree: Path) -> None:
    write(tree, "src/ferrule/long.py", '"""Long."""\n' + "\n" * 599)
    assert found(tree) == []
    write(tree, "src/ferrule/long.py", '"""Long."""\n' + "\n" * 600)
    assert found(tree) == ["src/ferrule/long.py:1: file has 601 lines, at most 600 are allowed"]


# --- docstrings ---


def test_every_public_name_needs_a_docstring(tree: Path) -> None:
    write(tree, "src/ferrule/bare.py", "class A:\n    def m(self): ...\nif A:\n    async def f(): ...\n")
    assert found(tree) == [
        "src/ferrule/bare.py:1: A has no docstring",
        "src/ferrule/bare.py:1: module has no docstring",
        "src/ferrule/bare.py:2: A.m has no docstring",
        "src/ferrule/bare.py:4: f has no docstring",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "def _f(): ...",
        "class _A:\n    def m(self): ...",
        'class A:\n    """A."""\n    def __len__(self): ...',
        'class A:\n    """A."""\n    @override\n    def m(self): ...',
        'class A:\n    """A."""\n    @p.setter\n    def p(self, value): ...',
        'def f():\n    """F."""\n    def inner(): ...',
    ],
)
def test_private_and_inherited_names_need_none(tree: Path, text: str) -> None:
    write(tree, "src/ferrule/box2.py", f"{module('More')}{text}\n")
    assert found(tree) == []


def test_private_module_needs_none(tree: Path) -> None:
    write(tree, "src/ferrule/_inner.py", "def f(): ...\n")
    assert found(tree) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("        size: Its edge in metres.\n\n    Since 0.1.", "        size: Its edge.", "Box has no line 'Since"),
        ("    Args:\n        size: Its edge in metres.\n\n", "", "Box has no section 'Args:' for its constructor"),
        ("        Args:\n            by: Metres to add.\n\n", "", "Box.grow has no section 'Args:'"),
        ("        Raises:\n            ValueError: The box would shrink.\n", "", "'Raises:', but raises ValueError"),
        ("        box: The box.\n\n    Since 0.1.", "        box: The box.", "open_box has no line 'Since <version>'"),
        ("    Args:\n        box: The box.\n\n", "", "open_box has no section 'Args:'"),
    ],
)
def test_exported_name_needs_the_full_docstring(tree: Path, old: str, new: str, expected: str) -> None:
    change(tree, BOX_PATH, old, new)
    (line,) = found(tree)
    assert expected in line


INNER = """def f(x):
    \"\"\"Do.

    Args:
        x: What.

    Raises:
        ValueError: Always.

    Since 0.1.
    \"\"\"
    raise ValueError(x)
"""


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("    Args:\n        x: What.\n\n", "docstring of f has no section 'Args:'"),
        (
            "    Raises:\n        ValueError: Always.\n\n",
            "docstring of f has no section 'Raises:', but raises ValueError",
        ),
        ("    Since 0.1.\n", "docstring of f has no line 'Since <version>'"),
    ],
)
def test_name_that_is_not_exported_needs_the_full_docstring_too(tree: Path, old: str, expected: str) -> None:
    path = "src/ferrule/inner.py"
    write(tree, path, f'"""Inner."""\n{INNER}')
    assert found(tree) == []
    change(tree, path, old, "")
    assert found(tree) == [f"{path}:2: {expected}"]
    assert found(tree, short_docstrings={path: "a reason"}) == []


def test_what_a_module_or_a_class_says_of_since_holds_for_what_is_in_it(tree: Path) -> None:
    inner = 'class A:\n    """A.%s"""\n    def m(self):\n        """M."""\n'
    write(tree, "src/ferrule/inner.py", module("Inner") + inner % "")
    assert found(tree) == []
    write(tree, "src/ferrule/inner.py", '"""Inner."""\n' + inner % "\n\n    Since 0.1.\n    ")
    assert found(tree) == []
    write(tree, "src/ferrule/inner.py", '"""Inner."""\n' + inner % "")
    assert found(tree) == ["src/ferrule/inner.py:2: docstring of A has no line 'Since <version>'"]


def test_docstring_of_a_command_is_its_help_and_needs_no_sections(tree: Path) -> None:
    write(tree, "src/ferrule/inner.py", '"""Inner."""\n@command(group, "ls")\ndef f(x):\n    """List."""\n')
    assert found(tree) == []


def test_listed_file_may_leave_sections_out_but_no_docstring_and_only_with_a_reason(tree: Path) -> None:
    path = "src/ferrule/inner.py"
    write(tree, path, '"""Inner."""\ndef f(x):\n    """Do."""\ndef g(): ...\n')
    assert found(tree, short_docstrings={path: "a reason"}) == [f"{path}:4: g has no docstring"]
    write(tree, path, '"""Inner."""\ndef f(x):\n    """Do."""\n')
    told = f"{path}:1: SHORT_DOCSTRINGS of scripts/gates.py"
    assert found(tree, short_docstrings={path: " "}) == [f"{told} gives no reason for it"]
    write(tree, path, f'"""Inner."""\n{INNER}')
    assert found(tree, short_docstrings={path: "a reason"}) == [
        f"{told} lists it, though nothing is missing; remove it"
    ]


def test_dataclass_fields_may_be_described_below_each_field(tree: Path) -> None:
    change(tree, BOX_PATH, "    Args:\n        size: Its edge in metres.\n\n", "")
    change(tree, BOX_PATH, "    size: float\n", '    size: float\n    """Its edge in metres."""\n')
    assert found(tree) == []


def test_constructor_that_raises_is_described_by_class_or_constructor(tree: Path) -> None:
    raising = '    def __post_init__(self) -> None:\n        raise ValueError("no")\n\n    @property\n'
    change(tree, BOX_PATH, "    @property\n", raising)
    assert [line.partition(": ")[2] for line in found(tree)] == [
        "docstring of Box has no section 'Raises:', but its constructor raises ValueError"
    ]
    change(
        tree,
        BOX_PATH,
        '    Since 0.1.\n    """\n\n    size',
        '    Raises:\n        X: Y.\n\n    Since 0.1.\n    """\n\n    size',
    )
    assert found(tree) == []


@pytest.mark.parametrize(
    "statement", ["raise", "raise error", "raise NotImplementedError", "raise _Stop()", "def inner(): raise ValueError"]
)
def test_only_a_raised_public_class_needs_a_raises_section(tree: Path, statement: str) -> None:
    change(tree, BOX_PATH, "        Raises:\n            ValueError: The box would shrink.\n", "")
    change(tree, BOX_PATH, 'raise ValueError("a box only grows")', statement)
    assert found(tree) == []


def test_reexported_name_is_checked_where_it_is_defined(tree: Path) -> None:
    change(tree, FACE_PATH, '"open_box": "ferrule.box"', '"open_box": "ferrule.tool"')
    write(tree, "src/ferrule/tool/__init__.py", '"""Tools."""\nfrom ..box import open_box as open_box\n')
    assert found(tree) == []
    change(tree, BOX_PATH, "        box: The box.\n\n    Since 0.1.", "        box: The box.")
    (line,) = found(tree)
    assert line.startswith(f"{BOX_PATH}:42: docstring of open_box has no line")


# --- the face ---


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"Box", "__version__", "open_box"', '"Box", "open_box", "__version__"', "__all__ is not sorted"),
        ('"Box", "__version__"', '"Box", "Box", "__version__"', "__all__ names something twice"),
        ('"Box", "__version__"', '"Box"', "__version__ is missing in __all__"),
        ('"Box", "__version__"', '"Box", "Cup", "__version__"', "Cup of __all__ has no entry in _HOME"),
        ('"Box", "__version__"', '"__version__"', "Box is missing in __all__"),
        ('"open_box": "ferrule.box"', '"open_box": "ferrule.lid"', "open_box lives in ferrule.lid, where it is not"),
        ("_HOME", "_PLACES", "no dict literal _HOME"),
        ("__all__", "names", "no list literal __all__"),
    ],
)
def test_face_that_disagrees_with_itself_is_found(tree: Path, old: str, new: str, expected: str) -> None:
    change(tree, FACE_PATH, old, new)
    (line,) = found(tree)
    assert line.startswith(f"{FACE_PATH}:1: ")
    assert expected in line


def test_missing_face_is_found(tree: Path) -> None:
    (tree / FACE_PATH).unlink()
    assert found(tree) == [f"{FACE_PATH}:1: the public face is missing"]


def test_face_has_at_most_sixty_names(tree: Path) -> None:
    names = sorted([*(f"n{number:02}" for number in range(60)), "__version__"])
    homes = {name: "ferrule.many" for name in names if name != "__version__"}
    write(tree, "src/ferrule/many.py", '"""Many."""\n' + "".join(f"{name} = 1\n" for name in homes))
    write(tree, FACE_PATH, f'"""Values."""\n_HOME = {homes}\n__all__ = {names}\n')
    assert found(tree) == [f"{FACE_PATH}:1: __all__ has 61 names, at most 60 are allowed"]


# --- the whole tree ---


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"see https://{HOST}/project", "a registry host"),
        ("https://registry." + "npm" + "js.org", "a registry host"),
        (f"path = '{ROOT_PATH}'", "a path of some machine"),
        ("file://" + ROOT_PATH, "a path of some machine"),
        ("open " + "/" + "home/me/file", "a path of some machine"),
        ("open C:" + "\\" + "Users" + "\\me\\file", "a path of some machine"),
    ],
)
def test_registry_host_or_machine_path_is_found_in_any_file(tree: Path, text: str, kind: str) -> None:
    write(tree, "docs/page.md", f"A page.\n{text}\n")
    (line,) = found(tree)
    assert line.startswith(f"docs/page.md:2: names {kind}: ")


@pytest.mark.parametrize(
    "text", ["https://example.org" + ROOT_PATH, "./work/file", "~/work/file", "{base}/tmp/file", "/etc/passwd"]
)
def test_urls_and_relative_paths_are_no_machine_paths(tree: Path, text: str) -> None:
    write(tree, "docs/page.md", text)
    assert found(tree) == []


def test_without_git_hidden_directories_and_caches_are_not_searched(tree: Path) -> None:
    for directory in (".venv", "node_modules", "docs/__pycache__"):
        write(tree, f"{directory}/file", HOST)
    assert found(tree) == []
    write(tree, ".ci/run", HOST)
    assert found(tree) == [f".ci/run:1: names a registry host: {HOST}"]


@pytest.mark.needs("git")
def test_with_git_ignored_files_are_not_searched_and_new_ones_are(tree: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    write(tree, ".gitignore", "local\n")
    write(tree, "local/file", HOST)
    write(tree, "new/file", HOST)
    assert found(tree) == [f"new/file:1: names a registry host: {HOST}"]


# -- records ----------------------------------------------------------------------------------------------------


def test_a_version_of_records_without_runs_in_the_corpus_is_found(tree: Path) -> None:
    path = "src/ferrule/journal/record.py"
    write(tree, "src/ferrule/journal/__init__.py", '"""The journal."""\n')
    write(tree, path, '"""Records."""\n\nfrom typing import Final\n\nVERSION: Final = 2\n')
    write(tree, "tests/corpus/v1/done.jsonl", "{}\n")
    (tree / "tests/corpus/v2").mkdir()
    mend = "put version 2 back, or run: python -m tests.corpus.make"
    assert found(tree) == [f"{path}:5: records of version 2 have no runs in tests/corpus; {mend}"]
    write(tree, "tests/corpus/v2/done.jsonl", "{}\n")
    assert found(tree) == []
