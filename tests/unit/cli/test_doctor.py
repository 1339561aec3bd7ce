"""`ferrule doctor`: each finding names its mend."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.support import ferrule
from tests.unit.projects import Write

from ferrule.cli.doctor import model_keys


def findings(*words: str) -> dict[str, dict[str, Any]]:
    """The findings by the name of their check."""
    return {row["check"]: row for row in ferrule("doctor", *words).data}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in model_keys():
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("shop")
def test_a_sound_project_passes_with_code_0_and_the_documented_fields() -> None:
    ran = ferrule("doctor")
    assert (ran.code, ran.stderr) == (0, "")
    assert all(set(row) == {"check", "status", "detail", "mend"} for row in ran.data)
    assert {row["check"] for row in ran.data} >= {
        "python",
        "ferrule",
        "project",
        "schemas",
        "effect classes",
        "model keys",
    }
    assert findings()["project"]["detail"].endswith("ferrule.toml, 8 tools")
    assert findings()["schemas"] == {"check": "schemas", "status": "ok", "detail": "all 8 build", "mend": ""}


@pytest.mark.usefixtures("shop")
def test_a_table_shows_every_finding() -> None:
    lines = ferrule("doctor", "-o", "table").stdout.splitlines()
    assert lines[0].split() == ["check", "status", "detail", "mend"]
    assert any(line.startswith("python") and " ok " in line for line in lines)


@pytest.mark.usefixtures("shop")
def test_agents_are_named_with_their_models(write: Write) -> None:
    assert "agents" not in findings()
    head = "from ferrule import Agent\nfrom ferrule.testing import ScriptedModel\n"
    write("desks.py", f'{head}desk = Agent("desk", ScriptedModel([]))\nbell = Agent("bell", "ollama:x")\n')
    write("ferrule.toml", 'modules = ["shop", "desks"]\n')
    assert findings()["agents"]["detail"] == "desk (scripted), bell (ollama:x)"


@pytest.mark.usefixtures("shop")
def test_tools_that_may_run_as_once_unawares_are_named_with_the_word_to_declare() -> None:
    found = findings()["effect classes"]
    assert (found["status"], found["detail"]) == (
        "info",
        "run as once, never repeated without a person's decision: pay",
    )
    assert found["mend"].startswith('Declare effect="read" on those that change nothing')


def test_a_declared_class_tool_and_a_tool_with_a_check_are_not_named(write: Write) -> None:
    write(
        "sure.py",
        """
        from typing import Any

        from ferrule import Tool, tool

        @tool(check=lambda ctx, arguments: None)
        def proven() -> None:
            "Be."

        class Declared(Tool):
            "Be."

            name = "declared"
            effect = "once"

            def execute(self, context: Any) -> str:
                return ""

        class Silent(Tool):
            "Be."

            name = "silent"

            def execute(self, context: Any) -> str:
                return ""

        declared, silent = Declared(), Silent()
        """,
    )
    assert findings("--app", "sure.py")["effect classes"]["detail"].endswith("decision: silent")


def test_a_project_that_does_not_load_fails_with_code_1(write: Write) -> None:
    file = write("ferrule.toml", 'modulse = ["x"]')
    ran = ferrule("doctor")
    assert ran.code == 1
    found = {row["check"]: row for row in ran.data}["project"]
    assert (found["status"], found["detail"]) == ("fail", f"{file} does not load")
    assert found["mend"] == f"{file}: unknown key 'modulse'. Did you mean 'modules'?"


def test_a_schema_that_cannot_be_made_fails_and_names_the_tool(write: Write) -> None:
    write(
        "bad.py",
        """
        from typing import Any

        from ferrule import Tool

        class Bad(Tool):
            "Be."

            name = "bad"
            effect = "read"

            @property
            def definition(self) -> Any:
                return {"type": "no such type"}

            def execute(self, context: Any) -> str:
                return ""

        bad = Bad()
        """,
    )
    ran = ferrule("doctor", "--app", "bad.py")
    found = {row["check"]: row for row in ran.data}["schemas"]
    assert (ran.code, found["status"]) == (1, "fail")
    assert found["detail"].startswith("bad: the schema of tool 'bad' is no usable JSON Schema")


@pytest.mark.usefixtures("folder")
def test_a_folder_without_a_project_is_a_warning() -> None:
    ran = ferrule("doctor")
    found = {row["check"]: row for row in ran.data}["project"]
    assert (ran.code, found["status"]) == (0, "warn")
    assert found["mend"] == 'Create a ferrule.toml that says modules = ["your_module"], or name the app with --app.'


@pytest.mark.usefixtures("shop")
def test_keys_are_told_by_name_and_never_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings()["model keys"]["detail"] == "none set"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    ran = ferrule("doctor")
    assert "set: OPENAI_API_KEY" in ran.stdout
    assert "very-secret" not in ran.stdout + ran.stderr


@pytest.mark.usefixtures("folder")
def test_an_extra_is_told_with_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "pydantic>=2.12",
        "pytest>=1; extra == 'tests'",
        "no-such-distribution>=1; extra == 'rare'",
        "ferrule[tests]; extra == 'all'",
    ]

    def requires(name: str) -> list[str]:
        return lines

    monkeypatch.setattr("ferrule.cli.doctor.metadata.requires", requires)
    found = findings()
    assert (found["extra tests"]["status"], found["extra tests"]["detail"]) == ("ok", "installed: pytest")
    assert found["extra rare"]["detail"] == "not installed: no-such-distribution"
    assert found["extra rare"]["mend"] == "If you need it: pip install 'ferrule[rare]'"
    assert "extra all" not in found


@pytest.mark.usefixtures("folder")
def test_sources_that_are_not_installed_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("ferrule.cli.about.metadata.version", missing)
    monkeypatch.setattr("ferrule.cli.doctor.metadata.requires", missing)
    found = findings()["ferrule"]
    assert (found["status"], found["detail"], found["mend"]) == (
        "warn",
        "runs from its sources, not installed",
        "Install it with pip.",
    )


def test_a_named_app_is_examined_in_place_of_the_project(shop: Path, write: Write) -> None:
    write("one.py", 'from ferrule import tool\n\n\n@tool(effect="read")\ndef one() -> None:\n    """Be."""\n')
    assert findings("--app", "one.py")["project"]["detail"] == "one.py, 1 tool"
