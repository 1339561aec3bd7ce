"""`ferrule tool`: ls, show, call."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.support import Ran, ferrule
from tests.unit.projects import Write


def calls() -> list[Any]:
    """What the tools of the project that cause an effect were called with."""
    return sys.modules["shop"].CALLS


# -- ls ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_ls_gives_every_tool_with_the_documented_fields() -> None:
    ran = ferrule("tool", "ls")
    assert (ran.code, ran.stderr) == (0, "")
    assert [row["name"] for row in ran.data] == ["add", "echo", "draw", "fail", "sign_in", "loud", "pay", "book"]
    assert ran.data[0] == {
        "name": "add",
        "effect": "read",
        "approval": False,
        "preview": False,
        "check": False,
        "description": "Add two numbers.\n\nThe second one is optional.",
    }
    by_name = {row["name"]: row for row in ran.data}
    assert (by_name["pay"]["approval"], by_name["pay"]["effect"], by_name["pay"]["preview"]) == (True, "once", True)
    assert by_name["book"]["approval"] == "depends"


@pytest.mark.usefixtures("shop")
def test_ls_as_jsonl_gives_a_line_for_each_tool() -> None:
    lines = ferrule("tool", "ls", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines][:2] == ["add", "echo"]
    assert len(lines) == 8


@pytest.mark.usefixtures("shop")
def test_ls_on_a_terminal_is_a_table_with_the_first_line_of_each_description() -> None:
    ran = ferrule("tool", "ls", terminal=True)
    assert ran.stdout.splitlines()[0].split() == ["name", "effect", "approval", "description"]
    assert "Add two numbers." in ran.stdout
    assert "The second one" not in ran.stdout


def test_a_table_without_a_terminal_is_never_cut(write: Write) -> None:
    long = "word " * 200
    write("wide.py", f'from ferrule import tool\n\n\n@tool\ndef wide() -> None:\n    """{long}end."""\n')
    assert "word end." in ferrule("--app", "wide.py", "tool", "ls", "-o", "table").stdout.splitlines()[1]


# -- show -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_show_gives_the_whole_declaration() -> None:
    data = ferrule("tool", "show", "add").data
    assert list(data) == [
        "name", "effect", "approval", "preview", "check", "description", "wire_name", "timeout", "retries",
        "on_unknown", "concurrency", "serial", "runs", "max_output", "parameters", "output_schema",
    ]  # fmt: skip
    assert data["parameters"]["required"] == ["a"]
    assert data["output_schema"] == {"type": "integer"}
    assert (data["retries"], data["timeout"], data["runs"]) == (2, 60, "thread")


@pytest.mark.usefixtures("shop")
def test_show_as_a_table_lists_the_parameters() -> None:
    lines = ferrule("tool", "show", "add", "-o", "table").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("parameter"))
    assert lines[at + 1].split(maxsplit=3) == ["a", "integer", "yes", "The first number."]
    assert lines[at + 2].split(maxsplit=4) == ["b", "integer", "no", "1", "The second number."]


@pytest.mark.usefixtures("shop")
def test_show_as_a_table_says_what_is_declared_and_nothing_else() -> None:
    assert ferrule("tool", "show", "draw", "-o", "table").stdout.splitlines() == [
        "Draw a dot.",
        "",
        "name        draw",
        "effect      read",
        "approval    no",
        "preview     no",
        "check       no",
        "wire name   draw",
        "timeout     60 s",
        "retries     2",
        "serial      no",
        "runs        thread",
        "max output  50000",
        "",
        "It takes no parameters by name.",
    ]


@pytest.mark.parametrize(("timeout", "told"), [("0.5", "0.5 s"), ("float('inf')", "none")])
def test_a_tool_without_a_description_is_shown_from_its_name_on(write: Write, timeout: str, told: str) -> None:
    write("mute.py", f"from ferrule import tool\n\n\n@tool(timeout={timeout})\ndef mute() -> None: ...\n")
    lines = ferrule("--app", "mute.py", "tool", "show", "mute", "-o", "table").stdout.splitlines()
    assert ["name", "mute"] == lines[0].split()
    assert f"timeout     {told}" in lines


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("provider", "path"),
    [("openai", ("function", "parameters")), ("anthropic", ("input_schema",)), ("gemini", ("parametersJsonSchema",))],
)
def test_show_for_a_provider_gives_what_it_would_receive(provider: str, path: tuple[str, ...]) -> None:
    data = ferrule("tool", "show", "add", "--provider", provider, "--quiet").data
    head = data["function"] if provider == "openai" else data
    assert (head["name"], head["description"].splitlines()[0]) == ("add", "Add two numbers.")
    for key in path:
        data = data[key]
    assert data["type"] == "object"
    assert set(data["properties"]) == {"a", "b"}


@pytest.mark.usefixtures("shop")
def test_openai_gets_a_strict_definition_where_that_is_possible_and_the_changes_are_noted() -> None:
    ran = ferrule("tool", "show", "add", "--provider", "openai")
    assert ran.data["type"] == "function"
    assert ran.data["function"]["strict"] is True
    assert ran.data["function"]["parameters"]["required"] == ["a", "b"]
    assert "changed for openai: #/required: made nullable instead of optional: b\n" in ran.stderr


def test_a_tool_is_found_by_its_wire_name_and_shown_under_its_own(write: Write) -> None:
    write("odd.py", 'from ferrule import tool\n\n\n@tool(name="rd.file")\ndef read_it() -> None:\n    """Read."""\n')
    by_name = ferrule("--app", "odd.py", "tool", "show", "rd.file").data
    assert by_name["name"] == "rd.file"
    assert ferrule("--app", "odd.py", "tool", "show", by_name["wire_name"]).data == by_name


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("verb", ["show", "call"])
def test_an_unknown_tool_is_refused_with_close_names(verb: str) -> None:
    ran = ferrule("tool", verb, "ad")
    assert ran.code == 2
    assert ran.problem == {
        "type": "/problems/unknown_tool",
        "title": "There is no such tool",
        "detail": "There is no tool 'ad'. Close names: add.",
        "code": "unknown_tool",
    }


# -- call: the result -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_a_done_call_gives_the_whole_envelope_and_code_0() -> None:
    ran = ferrule("tool", "call", "add", "--set", "a=2", "--set", "b=3")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.data == {
        "status": "done",
        "output": "5",
        "value": 5,
        "parts": [],
        "error": None,
        "failure": None,
        "request": None,
        "metadata": {},
    }


@pytest.mark.usefixtures("shop")
def test_a_failed_call_is_data_with_code_1() -> None:
    ran = ferrule("tool", "call", "fail")
    assert (ran.code, ran.stderr) == (1, "")
    assert (ran.data["status"], ran.data["error"]) == ("failed", "the shelf is empty")
    assert ran.data["failure"]["code"] == "unavailable"
    assert ran.data["failure"]["retryable"] is True


@pytest.mark.usefixtures("shop")
def test_arguments_that_do_not_fit_give_a_failed_result_and_code_2() -> None:
    ran = ferrule("tool", "call", "add", "--set", "a=many")
    assert ran.code == 2
    assert ran.data["failure"]["code"] == "invalid_arguments"
    assert ran.data["error"].startswith("Tool 'add' was not called.")


@pytest.mark.usefixtures("shop")
def test_a_suspended_call_gives_code_5_and_its_request_on_both_streams() -> None:
    ran = ferrule("tool", "call", "sign_in", "--quiet")
    assert ran.code == 5
    assert ran.data["status"] == "suspended"
    request = ran.data["request"]
    assert (request["kind"], request["url"]) == ("authorization", "https://example.org/login")
    assert ran.data["metadata"] == {}
    assert ran.stderr == (
        f"suspended: request {request['id']} (authorization): Sign in, please.\nhttps://example.org/login\n"
    )


@pytest.mark.usefixtures("shop")
def test_a_table_shows_status_output_and_failure_code() -> None:
    assert ferrule("tool", "call", "add", "--set", "a=1", "-o", "table").stdout == "done\n2\n"
    assert ferrule("tool", "call", "fail", "-o", "table").stdout == (
        "failed\nthe shelf is empty\nfailure: unavailable, trying again can help\n"
    )


def test_a_table_keeps_the_lines_of_a_text_as_they_are(write: Write) -> None:
    write(
        "text.py",
        'from ferrule import tool\n\n\n@tool\ndef text() -> str:\n    """Be."""\n    return "a\\u2028b\\n\\nc"\n',
    )
    assert "done\na\u2028b\n\nc\n" == ferrule("--app", "text.py", "tool", "call", "text", "-o", "table").stdout


def test_control_characters_of_a_result_do_not_reach_a_terminal(write: Write) -> None:
    write(
        "evil.py",
        'from ferrule import tool\n\n\n@tool\ndef evil() -> str:\n    """Be."""\n    return "a\\x1b[2Jb\\u202ec"\n',
    )
    out = ferrule("--app", "evil.py", "tool", "call", "evil", terminal=True).stdout
    assert "a\\x1b[2Jb\\u202ec" in out
    assert "\x1b[2J" not in out


def test_output_that_was_cut_is_shown_whole_on_request(write: Write) -> None:
    write(
        "big.py",
        'from ferrule import tool\n\n\n@tool(max_output=500)\ndef big() -> str:\n    """Be."""\n    return "x" * 900\n',
    )
    assert "x" * 900 not in ferrule("--app", "big.py", "tool", "call", "big", "-o", "table").stdout
    assert "x" * 900 in ferrule("--app", "big.py", "tool", "call", "big", "-o", "table", "--full").stdout


# -- call: arguments --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["word=5"], {"word": "5"}),
        (["word=a=b"], {"word": "a=b"}),
        (["word="], {"word": ""}),
        (["flag=true"], {"flag": True}),
        (["many=[1,2]"], {"many": [1, 2]}),
        (["many=null"], {"many": None}),
        (["extra.a.b=1", "extra.a.c=x"], {"extra": {"a": {"b": 1, "c": "x"}}}),
        (['extra={"a":{"b":1}}', "extra.a.c=2"], {"extra": {"a": {"b": 1, "c": 2}}}),
    ],
)
def test_pairs_are_read_as_the_schema_wants_them(pairs: list[str], expected: dict[str, Any]) -> None:
    words = [word for pair in pairs for word in ("--set", pair)]
    value = ferrule("tool", "call", "echo", *words).data["value"]
    assert {key: value[key] for key in expected} == expected


@pytest.mark.usefixtures("shop")
def test_arguments_come_as_json_from_the_line_a_file_or_standard_input(shop: Path) -> None:
    (shop / "args.json").write_text('{"a": 40, "b": 2}', encoding="utf-8")
    assert ferrule("tool", "call", "add", "--args-json", '{"a": 1}').data["value"] == 2
    assert ferrule("tool", "call", "add", "--args-json", "@args.json").data["value"] == 42
    assert ferrule("tool", "call", "add", "--args-json", "-", stdin='{"a": 2, "b": 2}').data["value"] == 4


@pytest.mark.usefixtures("shop")
def test_pairs_add_to_json() -> None:
    assert ferrule("tool", "call", "add", "--args-json", '{"a": 1}', "--set", "b=9").data["value"] == 10
    value = ferrule("tool", "call", "echo", "--args-json", '{"extra": {"a": 1}}', "--set", "extra.b=2").data["value"]
    assert value["extra"] == {"a": 1, "b": 2}


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["--args-json", '{"word": "a"}', "--set", "word=a"], "--set 'word' gives what --args-json gives too."),
        (["--set", "word=b", "--args-json", '{"word": "a"}'], "--set 'word' gives what --args-json gives too."),
        (["--args-json", '{"word": null}', "--set", "word=a"], "--set 'word' gives what --args-json gives too."),
        (["--args-json", '{"extra": {}}', "--set", "extra=1"], "--set 'extra' gives what --args-json gives too."),
        (
            ["--args-json", '{"extra": {"a": 1}}', "--set", "extra.a=2"],
            "--set 'extra.a' gives what --args-json gives too.",
        ),
        (["--set", "extra.a=1", "--set", "extra={}"], "--set 'extra' gives what --set 'extra.a' gives too."),
        (["--set", 'extra={"a": 1}', "--set", "extra.a=2"], "--set 'extra.a' gives what --set 'extra' gives too."),
    ],
)
def test_what_is_given_twice_is_refused_by_its_key_before_anything_runs(words: list[str], detail: str) -> None:
    ran = ferrule("tool", "call", "echo", *words)
    assert (2, "usage", f"{detail} Give it once.") == (ran.code, ran.problem["code"], ran.problem["detail"])


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("words", "code", "detail"),
    [
        (["--args-json", '{"a": 1'], "invalid_json", "--args-json is not JSON: "),
        (["--args-json", '{"a": 1, "a": 2}'], "invalid_json", "--args-json is not JSON: "),
        (
            ["--args-json", "[1]"],
            "usage",
            '--args-json is array, not an object. Write for example \'{"name": "value"}\'.',
        ),
        (
            ["--args-json", "@gone.json"],
            "usage",
            "--args-json names the file 'gone.json', which cannot be read: No such",
        ),
        (["--set", "a"], "usage", "--set 'a' is no key=value. Write for example --set name=value."),
        (["--set", "=1"], "usage", "--set '=1' is no key=value."),
        (
            ["--set", "a=1", "--set", "a=2"],
            "usage",
            "--set gives 'a' twice. For a list write JSON: --set 'a=[\"a\",\"b\"]'.",
        ),
        (["--set", "a=1", "--set", "a.b=2"], "usage", "--set 'a.b' needs an object in 'a', which is integer."),
    ],
)
def test_arguments_that_cannot_be_read_are_refused_before_anything_runs(
    words: list[str], code: str, detail: str
) -> None:
    ran = ferrule("tool", "call", "add", *words)
    assert ran.code == 2
    assert ran.problem["code"] == code
    assert ran.problem["detail"].startswith(detail)


# -- call: parts ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("shop")
def test_parts_are_described_without_their_data_unless_all_is_wanted() -> None:
    short, full = ferrule("tool", "call", "draw").data, ferrule("tool", "call", "draw", "--full").data
    png = sys.modules["shop"].PNG
    expected = {"sha256": hashlib.sha256(png).hexdigest(), "size": len(png)}
    assert short["parts"][0]["data"] == expected
    assert short["value"] == {"type": "image", "mimeType": "image/png", "name": "../../dot.png", "size": len(png)}
    assert full["parts"][0]["data"].startswith("iVBOR")


@pytest.mark.usefixtures("shop")
def test_saved_parts_stay_in_the_folder_and_overwrite_nothing(shop: Path) -> None:
    words = ("tool", "call", "draw", "--save", "out/deep")
    first, second = ferrule(*words).data, ferrule(*words, "-o", "table").stdout
    folder = Path("out", "deep")
    assert first["parts"][0]["saved"] == str(folder / "dot.png")
    assert f"saved as {folder / 'dot-2.png'}" in second
    assert sorted(path.name for path in (shop / folder).iterdir()) == ["dot-2.png", "dot.png"]
    assert not (shop / "dot.png").exists()


def test_a_part_that_cannot_be_saved_does_not_cost_the_result(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ferrule.cli.parts._write_new", full)
    ran = ferrule("tool", "call", "draw", "--save", str(shop))
    assert (1, "done", None) == (ran.code, ran.data["status"], ran.data["parts"][0]["saved"])
    assert "part 1 was not saved: OSError: [Errno 28] No space left on device" in ran.stderr


@pytest.mark.usefixtures("shop")
def test_a_folder_that_cannot_be_made_is_refused_before_the_call(shop: Path) -> None:
    (shop / "taken").write_text("")
    ran = ferrule("tool", "call", "pay", "--yes", "--set", "amount=1", "--save", "taken")
    assert ran.code == 2
    assert ran.problem["detail"].startswith("--save names 'taken', which cannot be a folder: File exists.")
    assert calls() == []


# -- call: approval and preview ---------------------------------------------------------------------------------


def paying(*words: str, stdin: str = "", terminal: bool = False) -> Ran:
    return ferrule("tool", "call", "pay", "--set", "amount=7", "-o", "json", *words, stdin=stdin, terminal=terminal)


@pytest.mark.usefixtures("shop")
def test_a_tool_that_needs_approval_is_not_called_without_a_terminal() -> None:
    ran = paying()
    assert ran.code == 2
    assert ran.problem["detail"] == (
        "tool 'pay' needs approval, and there is no terminal to ask on. "
        "Approve the call with --yes, or look first with --preview."
    )
    assert calls() == []


@pytest.mark.usefixtures("shop")
def test_yes_approves_the_call() -> None:
    ran = paying("--yes")
    assert (ran.code, ran.data["value"], ran.stderr) == (0, "paid", "")
    assert calls() == [7]


@pytest.mark.usefixtures("shop")
def test_on_a_terminal_the_preview_is_shown_and_yes_calls() -> None:
    ran = paying(terminal=True, stdin="y\n")
    assert (ran.code, ran.data["value"]) == (0, "paid")
    assert ran.stderr == "would pay 7\nCall 'pay' like this? [y/N] "


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("terminal", [True, False])
def test_nobody_is_asked_about_arguments_that_do_not_fit(terminal: bool) -> None:
    ran = ferrule("tool", "call", "pay", "--set", "amount=x", "-o", "json", stdin="y\n", terminal=terminal)
    assert (2, "invalid_arguments", "") == (ran.code, ran.data["failure"]["code"], ran.stderr)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("typed", ["n\n", "\n", "", "yess\n"])
def test_anything_but_yes_declines(typed: str) -> None:
    ran = paying(terminal=True, stdin=typed)
    assert ran.code == 1
    assert ran.data["failure"]["code"] == "denied"
    assert ran.data["error"] == "The call of 'pay' was declined."
    assert calls() == []


@pytest.mark.usefixtures("shop")
def test_a_rule_of_the_tool_decides_by_the_checked_arguments() -> None:
    assert ferrule("tool", "call", "book", "--set", "amount=100").code == 0
    refused = ferrule("tool", "call", "book", "--set", "amount=101")
    assert refused.code == 2
    assert refused.problem["detail"].endswith("Approve the call with --yes.")
    assert ferrule("tool", "call", "book", "--set", "amount=x").data["failure"]["code"] == "invalid_arguments"
    assert calls() == [100]


@pytest.mark.usefixtures("shop")
def test_a_preview_shows_and_calls_nothing() -> None:
    ran = paying("--preview")
    assert (ran.code, ran.data["output"]) == (0, "would pay 7")
    assert calls() == []


@pytest.mark.usefixtures("shop")
def test_a_preview_of_a_tool_without_one_is_refused() -> None:
    ran = ferrule("tool", "call", "add", "--preview", "--set", "a=1")
    assert ran.code == 2
    assert ran.problem["detail"] == "tool 'add' has no preview. Declare one with preview= on @tool."


def test_a_rule_that_raises_is_a_failed_result_and_calls_nothing(write: Write) -> None:
    write(
        "rule.py",
        """
        from ferrule import tool

        @tool(approval=lambda arguments: 1 / 0)
        def act() -> str:
            "Act."
            raise AssertionError("called")
        """,
    )
    ran = ferrule("--app", "rule.py", "tool", "call", "act")
    assert (ran.code, ran.data["failure"]["code"]) == (1, "exception")
    assert ran.data["error"].startswith("ZeroDivisionError")


EXITS = """
import sys

from ferrule import tool

def leave(*given):
    sys.exit(5)

@tool(effect="read", thread=False)
def inline() -> None:
    "Leave."
    leave()

@tool(effect="read")
def thread() -> None:
    "Leave."
    leave()

@tool(effect="read")
async def step() -> None:
    "Leave."
    leave()

@tool(approval=leave)
def rule() -> None:
    "Never run."

@tool(preview=leave)
def shown() -> None:
    "Never run."
"""


@pytest.mark.parametrize(
    "words", [("inline",), ("thread",), ("step",), ("rule",), ("shown", "--preview")], ids=lambda words: words[0]
)
def test_a_tool_that_would_end_the_process_is_a_failed_result_and_not_its_exit_code(
    write: Write, words: tuple[str, ...]
) -> None:
    write("exits.py", EXITS)
    ran = ferrule("--app", "exits.py", "tool", "call", *words)
    assert (1, "failed", "SystemExit: 5", "") == (ran.code, ran.data["status"], ran.data["error"], ran.stderr)
