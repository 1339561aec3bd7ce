"""The face: the names, where they live, and what importing them costs in modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ferrule
from ferrule import errors


def test_every_public_name_can_be_had_and_is_listed() -> None:
    for name in ferrule.__all__:
        assert getattr(ferrule, name) is not None
    assert dir(ferrule) == sorted(ferrule.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ferrule' has no attribute 'nope'"):
        ferrule.nope  # pyright: ignore  # noqa: B018


@pytest.mark.parametrize(
    "before",
    ["", "from ferrule import Context", "import ferrule.tool.schema.signature", "from ferrule.tool import Tool"],
)
def test_tool_is_the_decorator_whatever_was_imported_before(before: str) -> None:
    code = f"{before}\nfrom ferrule import tool\n@tool\ndef f(): ...\nprint(type(f).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "FunctionTool\n"


def test_importing_the_face_loads_nothing_dear() -> None:
    code = "import sys\nfrom ferrule import ToolResult, tool\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    dear = {"docstring_parser", "filetype", "httpx2", "importlib.metadata", "jsonschema_rs", "rich", "typer", "numpy"}
    dear |= {"asyncio", "concurrent.futures", "difflib", "hashlib", "logging", "subprocess", "ferrule.tool.process"}
    assert dear.isdisjoint(loaded)


def test_every_error_derives_from_one_base() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert len(classes) >= 10
    assert all(issubclass(c, errors.FerruleError) for c in classes)


def test_an_unknown_tool_error_reads_like_a_sentence() -> None:
    assert str(ferrule.UnknownToolError("There is no tool 'x'.")) == "There is no tool 'x'."
    assert isinstance(ferrule.UnknownToolError("x"), KeyError)


def test_a_syntax_error_tells_where() -> None:
    error = ferrule.JSONSyntaxError("a bad word", 2, 7)
    assert (str(error), error.line, error.column) == ("a bad word at line 2 column 7", 2, 7)
