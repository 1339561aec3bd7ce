"""The composition root, and how a project is found and read."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.projects import Write, forgotten, write_in

from ferrule import Agent, ConfigurationError, ToolNameError, Toolset, UsageError, tool
from ferrule.app import App
from ferrule.journal.retention import Retention
from ferrule.project import find_project, load_app, read_project
from ferrule.testing import ScriptedModel

ONE = (
    'from ferrule import tool\n\n\n@tool(effect="read")\ndef {name}() -> str:\n    """Say it."""\n    return "{name}"\n'
)


@pytest.fixture
def write(tmp_path: Path) -> Generator[Write]:
    with forgotten(tmp_path):
        yield write_in(tmp_path)


def refusal(start: Path, target: str | None = None) -> str:
    """The text of the ConfigurationError that loading raises."""
    with pytest.raises(ConfigurationError) as caught:
        load_app(start, target=target)
    return str(caught.value)


# -- App --------------------------------------------------------------------------------------------------------


def test_an_app_offers_tools_and_plain_functions_by_name() -> None:
    @tool(effect="read")
    def first() -> str:
        """One."""
        return "1"

    def second() -> str:
        """Two."""
        return "2"

    assert App(tools=[first, second]).tools.names == ("first", "second")
    assert App().tools.names == ()
    assert repr(App(tools=[first, second])) == "App(first, second)"


def test_an_app_keeps_the_names_that_a_toolset_or_mapping_gives() -> None:
    @tool(effect="read")
    def ping() -> str:
        """Ping."""
        return "pong"

    assert App(tools=Toolset([ping]).prefix("net_")).tools.names == ("net_ping",)
    assert App(tools={"other": ping}).tools.names == ("other",)


def test_two_tools_of_one_name_are_refused() -> None:
    @tool(effect="read")
    def ping() -> str:
        """Ping."""
        return "pong"

    with pytest.raises(ToolNameError, match="two tools are named 'ping'"):
        App(tools=[ping, ping])


def test_the_tools_of_an_app_cannot_be_replaced() -> None:
    with pytest.raises(AttributeError):
        App().tools = Toolset()  # pyright: ignore[reportAttributeAccessIssue]


def agent(name: str) -> Agent:
    return Agent(name, ScriptedModel([]))


def test_an_app_offers_agents_by_name() -> None:
    desk, clerk = agent("desk"), agent("clerk")
    app = App(agents=[desk, clerk, desk])
    assert {"desk": desk, "clerk": clerk} == dict(app.agents)
    assert app.agent("clerk") is clerk
    assert "App(desk, clerk)" == repr(app)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["desk", "clerk"], "There is no agent 'dekc'. Close names: desk."),
        (["auditor", "clerk"], "There is no agent 'dekc'. There are: auditor, clerk."),
        ([], "There is no agent 'dekc'. The app has none: put an Agent at the top level of a module, or name an App."),
    ],
)
def test_an_unknown_agent_is_refused_with_the_names_there_are(names: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        App(agents=map(agent, names)).agent("dekc")
    assert says == str(caught.value)


def test_two_agents_of_one_name_and_what_is_no_agent_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two agents are named 'desk'"):
        App(agents=[agent("desk"), agent("desk")])
    with pytest.raises(ConfigurationError, match=r"str is no agent\. Give App agents made by Agent"):
        App(agents=["desk"])  # pyright: ignore[reportArgumentType]


# -- finding and reading ferrule.toml ---------------------------------------------------------------------------


def test_the_nearest_file_upward_is_the_project(tmp_path: Path, write: Write) -> None:
    write("ferrule.toml", 'modules = ["outer_one"]')
    inner = write("a/ferrule.toml", 'modules = ["inner_one"]')
    write("a/b/c/file.txt", "")
    assert find_project(tmp_path / "a" / "b" / "c") == inner
    assert find_project(tmp_path / "a") == inner
    assert find_project(tmp_path) == tmp_path / "ferrule.toml"


def test_without_a_project_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"there is no ferrule.toml in {tmp_path} or above. "
        'Create one that says modules = ["your_module"], or name a module or a .py file with --app.'
    )


def test_paths_are_relative_to_the_file_and_default_to_its_folder(tmp_path: Path, write: Write) -> None:
    file = write("ferrule.toml", 'app = "x:app"')
    assert read_project(file).paths == (tmp_path.resolve(),)
    write("src/x.py", "")
    file = write("ferrule.toml", 'app = "x:app"\npaths = ["src", "."]')
    assert read_project(file).paths == ((tmp_path / "src").resolve(), tmp_path.resolve())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('modulse = ["x"]', "unknown key 'modulse'. Did you mean 'modules'?"),
        ('colour = "red"', "unknown key 'colour'. Use app, modules, paths, store, retention."),
        ('modules = "x"', "key 'modules' must be a list of texts. Write for example modules = [\"pkg.tools\"]."),
        ("modules = [1]", "key 'modules' must be a list of texts."),
        ("app = 1", "key 'app' must be text. Write for example app = \"pkg.main:app\"."),
        ("", "neither 'app' nor 'modules' names anything. Write either"),
        ("modules = []", "neither 'app' nor 'modules' names anything."),
        ('app = "x:a"\nmodules = ["x"]', "'app' and 'modules' exclude each other. Write either"),
        ('modules = ["x"]\npaths = "src"', "key 'paths' must be a list of texts. Write for example paths = [\"src\"]."),
        (
            'modules = ["x"]\nretention = "30d"',
            "[retention] has older_than, keep_size, blobs_older_than, each a text.",
        ),
        ('modules = ["x"]\n[retention]\nolder = "30d"', "[retention] has older_than, keep_size,"),
        ('modules = ["x"]\n[retention]\nolder_than = 30', "[retention] has older_than, keep_size,"),
        (
            'modules = ["x"]\n[retention]\nkeep_size = "2 pages"',
            "keep_size of [retention]: '2 pages' is not a size.",
        ),
        ('modules = ["x"]\npaths = ["nowhere"]', "key 'paths' names 'nowhere', but"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused_by_file_key_and_mend(
    tmp_path: Path, write: Write, text: str, says: str
) -> None:
    file = write("ferrule.toml", text)
    message = refusal(tmp_path)
    assert message.startswith(f"{file}: ")
    assert says in message


def test_what_is_kept_of_runs_stands_in_the_file_unless_the_app_itself_says_it(tmp_path: Path, write: Write) -> None:
    write(
        "kept_a.py",
        "from ferrule import App\nfrom ferrule.journal.retention import Retention\n\napp = App(store='here/runs.db', retention=Retention(keep_size=7))\n",
    )
    write("kept_b.py", "from ferrule import App\n\napp = App(store='here/runs.db')\n")
    rules = '[retention]\nolder_than = "90d"\nkeep_size = "2GB"\nblobs_older_than = "12h"\n'
    file = write("ferrule.toml", f'app = "kept_b:app"\n{rules}')
    assert read_project(file).retention == Retention(7_776_000, 2_000_000_000, 43_200)
    app = load_app(tmp_path)
    assert app.retention == Retention(7_776_000, 2_000_000_000, 43_200)
    assert "runs.db" in repr(app.store)
    write("ferrule.toml", f'app = "kept_a:app"\n{rules}')
    assert load_app(tmp_path).retention == Retention(keep_size=7)


def test_a_worker_of_an_app_removes_what_it_need_not_keep(tmp_path: Path) -> None:
    async def main() -> None:
        app = App(
            agents=[Agent("echo", ScriptedModel(["hello"]))],
            store=tmp_path / "runs.db",
            retention=Retention(older_than=0),
        )
        result = await app.run("echo", "hi")
        async with app.working(takes=False):
            assert await app.store.entry(result.run_id) is not None
        async with app.working(), asyncio.timeout(20):
            while await app.store.entry(result.run_id) is not None:
                await asyncio.sleep(0.005)

    asyncio.run(main())


def test_broken_toml_is_refused_with_its_line(tmp_path: Path, write: Write) -> None:
    file = write("ferrule.toml", 'modules = ["x"\napp\n')
    assert refusal(tmp_path).startswith(f"{file} is not valid TOML: ")
    assert "line 2" in refusal(tmp_path)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ferrule.toml").write_bytes(b'app = "caf\xe9:app"')
    assert refusal(tmp_path) == f"{tmp_path / 'ferrule.toml'} is not UTF-8. Save it as UTF-8."


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "ferrule.toml").write_bytes(b'\xef\xbb\xbfapp = "x:app"')
    assert read_project(tmp_path / "ferrule.toml").app == "x:app"


# -- what modules offer -----------------------------------------------------------------------------------------


def test_modules_offer_their_tools_in_order_of_definition(tmp_path: Path, write: Write) -> None:
    write("zoo_b.py", ONE.format(name="wolf") + ONE.format(name="bear"))
    write("zoo_a.py", ONE.format(name="ant") + "alias = ant\n")
    write("ferrule.toml", 'modules = ["zoo_b", "zoo_a"]')
    assert load_app(tmp_path).tools.names == ("wolf", "bear", "ant")


def test_an_app_at_module_level_names_its_tools_and_others_follow(tmp_path: Path, write: Write) -> None:
    names = (
        'from ferrule import Toolset\nfrom ferrule.app import App\napp = App(tools=Toolset([ping]).prefix("net_"))\n'
    )
    write("net_one.py", ONE.format(name="ping") + ONE.format(name="loose") + names)
    write("ferrule.toml", 'modules = ["net_one"]')
    assert load_app(tmp_path).tools.names == ("net_ping", "loose")


def test_a_tool_imported_by_another_module_is_offered_once(tmp_path: Path, write: Write) -> None:
    write("base_one.py", ONE.format(name="ping"))
    write("more_one.py", "from base_one import ping as ping\n" + ONE.format(name="pong"))
    write("ferrule.toml", 'modules = ["base_one", "more_one"]')
    assert load_app(tmp_path).tools.names == ("ping", "pong")


def test_two_modules_with_one_name_are_refused_and_both_are_named(tmp_path: Path, write: Write) -> None:
    write("left_one.py", ONE.format(name="ping"))
    write("right_one.py", ONE.format(name="ping"))
    file = write("ferrule.toml", 'modules = ["left_one", "right_one"]')
    assert refusal(tmp_path) == (
        f"{file}: key 'modules': two tools are named 'ping'; 'left_one' and 'right_one' each have one. Rename one."
    )


AGENT = """
from ferrule import Agent
from ferrule.testing import ScriptedModel
{0} = Agent("{0}", ScriptedModel([]))
"""


def test_modules_offer_their_agents_and_those_of_their_apps(tmp_path: Path, write: Write) -> None:
    write("desk_one.py", AGENT.format("desk") + "again = desk\n")
    write(
        "more_two.py",
        f"from ferrule import App\nfrom desk_one import desk\n{AGENT.format('clerk')}app = App(agents=[desk])",
    )
    write("ferrule.toml", 'modules = ["desk_one", "more_two"]')
    assert ["desk", "clerk"] == list(load_app(tmp_path).agents)
    assert ["clerk"] == list(load_app(tmp_path, target="more_two:clerk").agents)


def test_two_modules_with_one_agents_name_are_refused_and_both_are_named(tmp_path: Path, write: Write) -> None:
    write("left_two.py", AGENT.format("desk"))
    write("right_two.py", AGENT.format("desk"))
    file = write("ferrule.toml", 'modules = ["left_two", "right_two"]')
    assert refusal(tmp_path) == (
        f"{file}: key 'modules': two agents are named 'desk'; 'left_two' and 'right_two' each have one. Rename one."
    )


def test_modules_without_a_tool_are_refused(tmp_path: Path, write: Write) -> None:
    write("empty_one.py", "")
    file = write("ferrule.toml", 'modules = ["empty_one"]')
    assert refusal(tmp_path) == (
        f"{file}: key 'modules': there is no tool and no agent in 'empty_one'. Put @tool on a function there, or name an App."
    )


def test_a_module_that_only_has_the_class_of_a_tool_is_refused_with_how_to_make_one(
    tmp_path: Path, write: Write
) -> None:
    text = """
        from ferrule import Tool


        class Multiply(Tool):
            name = "multiply"

            def execute(self, context): ...
        """
    write("class_one.py", text)
    assert refusal(tmp_path, "class_one") == (
        "app 'class_one': there is no tool and no agent in 'class_one'. "
        "Make an instance of Multiply there, for example tool = Multiply()."
    )
    assert refusal(tmp_path, "class_one:Multiply") == (
        "app 'class_one:Multiply': 'Multiply' is a class. Name an App, an Agent, a Toolset or a tool."
    )


@pytest.mark.parametrize(
    ("made", "names"),
    [("App(tools=[ping])", ("ping",)), ('Toolset([ping]).prefix("a_")', ("a_ping",)), ("ping", ("ping",))],
)
def test_app_names_an_app_a_toolset_or_a_tool(tmp_path: Path, write: Write, made: str, names: tuple[str, ...]) -> None:
    head = "from ferrule import Toolset\nfrom ferrule.app import App\n"
    write("src/main_one.py", ONE.format(name="ping") + f"{head}chosen = {made}\n")
    write("ferrule.toml", 'app = "main_one:chosen"\npaths = ["src"]')
    assert load_app(tmp_path).tools.names == names


def test_a_missing_attribute_is_refused_with_what_was_meant(tmp_path: Path, write: Write) -> None:
    write("main_two.py", ONE.format(name="lookup"))
    file = write("ferrule.toml", 'app = "main_two:lookpu"')
    assert refusal(tmp_path) == (f"{file}: key 'app': module 'main_two' has no 'lookpu'. Did you mean 'lookup'?")


def test_an_attribute_of_another_type_is_refused(tmp_path: Path, write: Write) -> None:
    write("main_three.py", "app = 5\n")
    file = write("ferrule.toml", 'app = "main_three:app"')
    assert refusal(tmp_path) == f"{file}: key 'app': 'app' is of type int. Name an App, an Agent, a Toolset or a tool."


# -- modules that cannot be imported ----------------------------------------------------------------------------


def test_a_missing_module_is_named_with_file_and_key(tmp_path: Path, write: Write) -> None:
    file = write("ferrule.toml", 'modules = ["no_such_module.tools"]')
    assert refusal(tmp_path) == (
        f"{file}: key 'modules': there is no module 'no_such_module.tools': 'no_such_module' is missing. "
        "Correct the name, or add the folder it is in to 'paths'."
    )


@pytest.mark.parametrize("name", ["", "../tools", ".tools", "my tools"])
def test_what_cannot_be_a_module_name_is_refused(tmp_path: Path, write: Write, name: str) -> None:
    write("ferrule.toml", f'app = "{name}:app"')
    assert f"{name!r} is no module name. Write it like pkg.tools" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("raise RuntimeError('no database')", "RuntimeError: no database"),
        ("def broken(:\n    pass", "SyntaxError: "),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class Halt(BaseException): ...\nraise Halt('no more')", "Halt: no more"),
    ],
)
def test_the_error_of_a_users_module_is_told_and_kept_as_cause(
    tmp_path: Path, write: Write, body: str, says: str
) -> None:
    write("sick_one.py", body)
    file = write("ferrule.toml", 'modules = ["sick_one"]')
    with pytest.raises(ConfigurationError) as caught:
        load_app(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{file}: key 'modules': module 'sick_one' cannot be imported")
    assert says in message
    assert "sick_one.py" in message
    assert type(caught.value.__cause__).__name__ == says.partition(":")[0]


def test_the_place_of_an_error_is_in_the_users_file_and_not_in_ours(tmp_path: Path, write: Write) -> None:
    broken = write("sick_three.py", "from ferrule import tool\n\n\n@tool\ndef f(rows): ...\n")
    file = write("ferrule.toml", 'modules = ["sick_three"]')
    assert refusal(tmp_path) == (
        f"{file}: key 'modules': module 'sick_three' cannot be imported, {broken}:4: ToolDefinitionError: parameter "
        "'rows' of tool 'f' has no annotation. Annotate it, for example rows: int, or pass schema= to @tool."
    )


def test_ctrl_c_while_a_module_is_imported_is_no_error_of_the_module(tmp_path: Path, write: Write) -> None:
    write("slow_one.py", "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        load_app(tmp_path, target="slow_one")
    assert before is signal.getsignal(signal.SIGINT)


def test_a_handler_of_ctrl_c_that_a_module_sets_stays(tmp_path: Path, write: Write) -> None:
    write("own_one.py", ONE.format(name="ping") + "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n")
    before = signal.getsignal(signal.SIGINT)
    try:
        load_app(tmp_path, target="own_one")
        assert signal.SIG_IGN is signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_app_loads_outside_the_main_thread_too(tmp_path: Path, write: Write) -> None:
    write("side_two.py", "raise KeyboardInterrupt")
    with ThreadPoolExecutor() as pool:
        told = pool.submit(refusal, tmp_path, "side_two").result()
    assert told.startswith("app 'side_two': module 'side_two' cannot be imported, ")


def test_an_import_error_shows_no_credential(tmp_path: Path, write: Write) -> None:
    write("sick_two.py", "raise RuntimeError('cannot reach https://h/?api_key=s3cret')")
    write("ferrule.toml", 'modules = ["sick_two"]')
    assert "s3cret" not in refusal(tmp_path)


# -- targets ----------------------------------------------------------------------------------------------------


def test_a_target_goes_before_the_project_file(tmp_path: Path, write: Write) -> None:
    write("ferrule.toml", 'modules = ["never_looked_at"]')
    write("side_one.py", ONE.format(name="ping") + ONE.format(name="pong"))
    assert load_app(tmp_path, target="side_one").tools.names == ("ping", "pong")
    assert load_app(tmp_path, target="side_one:pong").tools.names == ("pong",)
    assert load_app(tmp_path, target="side_one.py").tools.names == ("ping", "pong")
    assert load_app(tmp_path, target="side_one.py:ping").tools.names == ("ping",)
    assert load_app(tmp_path / "elsewhere", target=str(tmp_path / "side_one.py")).tools.names == ("ping", "pong")


def test_a_target_may_be_a_project_file_or_its_folder(tmp_path: Path, write: Write) -> None:
    write("deep/ferrule.toml", 'modules = ["deep_one"]')
    write("deep/deep_one.py", ONE.format(name="ping"))
    assert load_app(tmp_path, target="deep").tools.names == ("ping",)
    assert load_app(tmp_path, target="deep/ferrule.toml").tools.names == ("ping",)


def test_a_file_inside_a_package_is_imported_as_part_of_it(tmp_path: Path, write: Write) -> None:
    write("pack_one/__init__.py", "")
    write("pack_one/words.py", 'WORD = "hello"\n')
    write("pack_one/tools.py", "from .words import WORD as WORD\n" + ONE.format(name="ping"))
    assert load_app(tmp_path, target="pack_one/tools.py").tools.names == ("ping",)
    assert sys.modules["pack_one.tools"].WORD == "hello"


def test_a_file_whose_name_is_taken_by_another_module_is_refused(tmp_path: Path, write: Write) -> None:
    write("json.py", ONE.format(name="ping"))
    message = refusal(tmp_path, "json.py")
    assert message.startswith("app 'json.py': the name 'json' belongs to ")
    assert message.endswith("Rename the file.")


def test_a_target_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "gone.py") == f"app 'gone.py': there is no file {tmp_path / 'gone.py'}. Correct the path."
    assert "cannot be read: No such file" in refusal(tmp_path, "gone/ferrule.toml")
    assert refusal(tmp_path, ".").startswith(f"{tmp_path / 'ferrule.toml'} cannot be read: No such file")
    assert refusal(tmp_path, "gone_module").startswith("app 'gone_module': there is no module 'gone_module'.")
