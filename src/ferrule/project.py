"""How a project is found: a folder with a `ferrule.toml`.

It is looked for upward from where somebody stands, as git finds its repository:

    app = "shop.main:app"        # an App, an Agent, a Toolset or a tool
    modules = ["shop.tools"]     # or instead: every tool and agent at the top level of these modules
    paths = ["src"]              # put on sys.path, relative to the file; default the file's folder
    store = ".ferrule/runs.db"   # where durable runs live, relative to the file
    retention.older_than = "90d" # what workers remove of runs that are over, see ferrule.journal.retention
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ferrule.app import App, is_agent
from ferrule.errors import ConfigurationError, ToolNameError
from ferrule.importing import module_named, module_of_file, put_on_path
from ferrule.lazy import LazyModule
from ferrule.tool.tool import Tool
from ferrule.tool.toolset import Toolset

if TYPE_CHECKING:
    from ferrule.journal import retention as keeping
    from ferrule.journal.retention import Retention
    from ferrule.journal.store import Store
else:
    keeping = LazyModule("ferrule.journal.retention")

T = TypeVar("T")

PROJECT_FILE: Final = "ferrule.toml"
DEFAULT_STORE: Final = Path(".ferrule", "runs.db")
_KEYS: Final = ("app", "modules", "paths", "store", "retention")
_PYTHON_FILE: Final = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[\w.]+))?")


@dataclass(frozen=True, slots=True)
class Project:
    """What a `ferrule.toml` says.

    Args:
        file: The file.
        app: `module:name` of the app; "" when `modules` are given.
        modules: Modules whose tools and agents are offered.
        paths: Folders for `sys.path`.
        store: The file where durable runs live, if it names one.
        retention: What workers keep of runs that are over, if it says so.

    Since 0.1.
    """

    file: Path
    app: str
    modules: tuple[str, ...]
    paths: tuple[Path, ...]
    store: Path | None = None
    retention: Retention | None = None


def load_app(start: Path, *, target: str | None = None) -> App:
    """The app of a project, its modules imported; `sys.path` gets the project's folders.

    Args:
        start: Where to look, and upward from there; relative targets start here too.
        target: Look at this instead: `module`, `module:name`, a `.py` file, `file.py:name`, a `ferrule.toml` or
            its folder.

    Returns:
        The app that was named; without a name one that offers every tool and agent at the top level of the modules.

    Raises:
        ConfigurationError: There is no project, or it names what cannot be; the error of a module that cannot be
            imported is its cause.

    Since 0.1.
    """
    if target is not None:
        return _from_target(target, start)
    file = find_project(start)
    if file is None:
        raise ConfigurationError(
            f"there is no {PROJECT_FILE} in {start} or above. "
            f'Create one that says modules = ["your_module"], or name a module or a .py file with --app.'
        )
    return _from_project(read_project(file))


def stored(app: App, store: Store | str | Path | None, retention: Retention | None = None) -> App:
    """The same tools and agents, whose runs live in a store.

    Args:
        app: The app.
        store: As for `App`; None leaves them where they are.
        retention: As for `App`; None leaves it as it is.

    Since 0.1.
    """
    place = store or app._path or app._store  # pyright: ignore[reportPrivateUsage] - as it was given
    return App(tools=app.tools, agents=app.agents.values(), store=place, retention=retention or app.retention)


def find_project(start: Path) -> Path | None:
    """The nearest `ferrule.toml` upward from a folder, or None.

    Args:
        start: The folder.

    Since 0.1.
    """
    here = start.absolute()
    return next((file for folder in (here, *here.parents) if (file := folder / PROJECT_FILE).is_file()), None)


def default_store(start: Path, *, target: str | None = None) -> Path:
    """Where durable runs live when nothing says so: in `.ferrule`, beside the project's file.

    Args:
        start: Where to look for it, as for `load_app`; the place itself where there is none.
        target: As for `load_app`.

    Since 0.1.
    """
    named = None if target is None else start / target
    if named is not None and (named / PROJECT_FILE).is_file():
        return named / DEFAULT_STORE
    if named is not None and named.suffix == ".toml":
        return named.parent / DEFAULT_STORE
    file = find_project(start)
    return (start if file is None else file.parent) / DEFAULT_STORE


# -- ferrule.toml -----------------------------------------------------------------------------------------------


def read_project(file: Path) -> Project:
    """Read a `ferrule.toml`; imports nothing.

    Args:
        file: The file.

    Raises:
        ConfigurationError: It cannot be read, or says what cannot be.

    Since 0.1.
    """
    told = _read_toml(file)
    for key in told:
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, n=1)
            mend = f"Did you mean {close[0]!r}?" if close else f"Use {', '.join(_KEYS)}."
            raise ConfigurationError(f"{file}: unknown key {key!r}. {mend}")
    app, store = _text(file, told, "app", "pkg.main:app"), _text(file, told, "store", DEFAULT_STORE.as_posix())
    modules = _texts(file, told, "modules", '["pkg.tools"]')
    if (app is None) == (not modules):
        found = (
            "neither 'app' nor 'modules' names anything" if app is None else "'app' and 'modules' exclude each other"
        )
        raise ConfigurationError(f'{file}: {found}. Write either app = "pkg.main:app" or modules = ["pkg.tools"].')
    folders = _folders(file, _texts(file, told, "paths", '["src"]') or (".",))
    place = None if store is None else file.absolute().parent / store
    return Project(file, app or "", modules, folders, place, keeping.read_retention(file, told))


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}. Correct that line.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not UTF-8. Save it as UTF-8.") from error
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be read: {error.strerror}. Name another file, or mend its rights."
        ) from error


def _text(file: Path, told: Mapping[str, Any], key: str, example: str) -> str | None:
    given = told.get(key)
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise ConfigurationError(f'{file}: key {key!r} must be text. Write for example {key} = "{example}".')
    return given


def _texts(file: Path, told: Mapping[str, Any], key: str, example: str) -> tuple[str, ...]:
    given = told.get(key, [])
    if not isinstance(given, list) or not all(isinstance(v, str) and v.strip() for v in cast("list[Any]", given)):
        raise ConfigurationError(f"{file}: key {key!r} must be a list of texts. Write for example {key} = {example}.")
    return tuple(cast("list[str]", given))


def _folders(file: Path, names: Sequence[str]) -> tuple[Path, ...]:
    folders = tuple((file.absolute().parent / name).resolve() for name in names)
    for name, folder in zip(names, folders, strict=True):
        if not folder.is_dir():
            raise ConfigurationError(
                f"{file}: key 'paths' names {name!r}, but {folder} is no folder. Correct or remove it."
            )
    return folders


def _from_project(project: Project) -> App:
    put_on_path(project.paths)
    where = f"{project.file}: key 'app'" if project.app else f"{project.file}: key 'modules'"
    if project.app:
        name, _, attribute = project.app.partition(":")
        app = _one(module_named(name, where), attribute, where)
    else:
        app = _offered([module_named(name, where) for name in project.modules], where)
    store = None if app.is_durable else project.store  # what the app itself says goes before
    retention = app.retention or project.retention
    return app if store is None and retention is app.retention else stored(app, store, retention)


# -- targets ----------------------------------------------------------------------------------------------------


def _from_target(target: str, start: Path) -> App:
    path = start / target
    if path.is_dir() and ((path / PROJECT_FILE).is_file() or not target.isidentifier()):
        return _from_project(read_project(path / PROJECT_FILE))
    if target.endswith(".toml"):
        return _from_project(read_project(path))
    where = f"app {target!r}"
    if python_file := _PYTHON_FILE.fullmatch(target):
        return _one(module_of_file(start / python_file["file"], where), python_file["name"] or "", where)
    put_on_path([start.absolute()])
    name, _, attribute = target.partition(":")
    return _one(module_named(name, where), attribute, where)


# -- what modules offer ------------------------------------------------------------------------------------------


def _one(module: ModuleType, attribute: str, where: str) -> App:
    """The app that a name in a module stands for; all it offers without a name."""
    if not attribute:
        return _offered([module], where)
    try:
        found = functools.reduce(getattr, attribute.split("."), cast("object", module))
    except AttributeError as error:
        close = difflib.get_close_matches(attribute, list(vars(module)), n=1)
        mend = f"Did you mean {close[0]!r}?" if close else "Correct the name after the colon."
        raise ConfigurationError(f"{where}: module {module.__name__!r} has no {attribute!r}. {mend}") from error
    if isinstance(found, App):
        return found
    if isinstance(found, Toolset):
        return App(tools=found)
    if isinstance(found, Tool):
        return App(tools=[found])
    if is_agent(found):
        return App(agents=[found])
    kind = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
    raise ConfigurationError(f"{where}: {attribute!r} is {kind}. Name an App, an Agent, a Toolset or a tool.")


def _offered(modules: Sequence[ModuleType], where: str) -> App:
    """All tools and agents at the top level of modules, in order of definition; those of an App under its names."""
    tops = [(module.__name__, value) for module in modules for value in vars(module).values()]
    apps = [(m, a) for m, a in tops if isinstance(a, App)]
    found = [(m, n, a.tools[n]) for m, a in apps for n in a.tools.names]
    named = {id(tool) for _, _, tool in found}
    found += [(m, t.name, t) for m, t in tops if isinstance(t, Tool) and id(t) not in named]
    agents = [(m, n, agent) for m, a in apps for n, agent in a.agents.items()]
    agents += [(m, a.name, a) for m, a in tops if is_agent(a)]
    if not found and not agents:
        names = ", ".join(repr(m.__name__) for m in modules)
        raise ConfigurationError(f"{where}: there is no tool and no agent in {names}. {_mend_of(tops)}")
    stores = {id(a.store): a.store for _, a in apps if a.is_durable}
    if len(stores) > 1:
        raise ConfigurationError(f"{where}: there are Apps with different stores. Name one, as module:name.")
    store = next(iter(stores.values()), None)
    kept = next((a.retention for _, a in apps if a.retention is not None), None)
    try:
        made = _by_name(found, "tools", where), _by_name(agents, "agents", where).values()
        return App(tools=made[0], agents=made[1], store=store, retention=kept)
    except ToolNameError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _by_name(found: Iterable[tuple[str, str, T]], kind: str, where: str) -> dict[str, T]:
    """What modules offer, by name; one thing may be found several times, but no name stands for two."""
    kept: dict[str, tuple[str, T]] = {}
    for module, name, value in found:
        first, other = kept.setdefault(name, (module, value))
        if other is not value:
            both = f"{first!r} has two" if first == module else f"{first!r} and {module!r} each have one"
            raise ConfigurationError(f"{where}: two {kind} are named {name!r}; {both}. Rename one.")
    return {name: value for name, (_, value) in kept.items()}


def _mend_of(tops: Sequence[tuple[str, Any]]) -> str:
    """What to do about modules without a tool: often somebody wrote the class and forgot the instance."""
    classes = [v.__name__ for m, v in tops if isinstance(v, type) and issubclass(v, Tool) and v.__module__ == m]
    if classes:
        return f"Make an instance of {' or '.join(classes)} there, for example tool = {classes[0]}()."
    return "Put @tool on a function there, or name an App."
