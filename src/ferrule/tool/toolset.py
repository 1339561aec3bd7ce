"""A set of tools by name: what a run, a server or a command line offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

from ferrule.errors import ToolDefinitionError, ToolNameError, UnknownToolError, UsageError
from ferrule.lazy import LazyModule
from ferrule.result import ToolResult
from ferrule.tool.context import Context
from ferrule.tool.names import wire_name
from ferrule.tool.tool import FunctionTool, Tool, ToolDefinition

if TYPE_CHECKING:
    import difflib
else:
    difflib = LazyModule("difflib")

Several: TypeAlias = Union[Tool, Callable[..., Any], "Toolset"]


class Toolset:
    """An immutable set of tools, each under one name and one wire name.

    `names`, `wire_names`, `definitions` and `call` speak of the names in the set. Iteration gives the tools as they
    are, whose own `name` may differ: `prefix` and a mapping rename a tool for the set only. For both together,
    `[(name, tools[name]) for name in tools.names]`.

    Args:
        tools: Tools, plain functions or other sets, whose names stay; a mapping gives the names.

    Raises:
        ToolNameError: Two would answer to one name, or one wire name.
        ToolDefinitionError: Something that is neither a tool nor a function, or no list of them.

    Since 0.1.
    """

    __slots__ = ("__weakref__", "_by_wire", "_tools")

    def __init__(self, tools: Iterable[Several] | Mapping[str, Tool | Callable[..., Any]] = ()) -> None:
        """Take the tools under their names."""
        self._tools: dict[str, Tool] = {}
        self._by_wire: dict[str, str] = {}
        if isinstance(tools, Mapping):
            for name, tool in cast("Mapping[str, Any]", tools).items():
                self._put(name, as_tool(tool))
        elif isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._put_all([tools] if isinstance(tools, Toolset) else tools)
        else:
            raise ToolDefinitionError(f"{type(tools).__name__} is no list of tools. Write Toolset([...]).")

    def _put_all(self, tools: Iterable[Several]) -> None:
        for tool in tools:
            named = tool._tools if isinstance(tool, Toolset) else {(made := as_tool(tool)).name: made}
            for name, one in named.items():
                self._put(name, one)

    def _put(self, name: str, tool: Tool) -> None:
        if name in self._tools:
            raise ToolNameError(f"two tools are named {name!r}. Rename one, or give its set a prefix.")
        wire = wire_name(name)
        if wire in self._by_wire:
            other = self._by_wire[wire]
            raise ToolNameError(f"tools {other!r} and {name!r} share the wire name {wire!r}. Rename one.")
        self._tools[name] = tool
        self._by_wire[wire] = name

    def add(self, *tools: Several) -> Toolset:
        """A set with more tools.

        Args:
            tools: Tools, plain functions or other sets.

        Raises:
            ToolNameError: A name is taken.
        """
        return Toolset([self, *tools])

    def filter(self, keep: Callable[[Tool], bool] | Iterable[str]) -> Toolset:
        """A set with only some of the tools, under the names they have here.

        Args:
            keep: A test of the tool itself, or the names or wire names to keep.

        Raises:
            UnknownToolError: A name to keep is not there.
            UsageError: `keep` is neither a test nor names.
        """
        if not callable(keep) and not isinstance(keep, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"filter of a Toolset needs a test of a tool, or names, not {type(keep).__name__}.")
        if callable(keep):
            return Toolset({n: t for n, t in self._tools.items() if keep(t)})
        names = [keep] if isinstance(keep, str) else list(keep)
        return Toolset({self._by_wire.get(name, name): self[name] for name in names})

    def prefix(self, prefix: str) -> Toolset:
        """A set whose names begin with a prefix; the tools stay what they are, their own names included.

        Args:
            prefix: For example `github_`.

        Raises:
            UsageError: `prefix` is no text.
        """
        if not isinstance(prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"the prefix of a Toolset must be text, not {type(prefix).__name__}.")
        return Toolset({prefix + n: t for n, t in self._tools.items()})

    def find(self, name: str) -> Tool | None:
        """The tool of a name or wire name, or None.

        Args:
            name: Either.
        """
        return self._tools.get(self._by_wire.get(name, name))

    def close_names(self, name: str) -> list[str]:
        """Names that somebody may have meant, the closest first; at most three.

        Args:
            name: What they said.
        """
        spoken: dict[str, list[str]] = {}  # a name may be known by its end, after the server's
        for n in self._tools:
            for form in (n.lower(), n.lower().rpartition("__")[2]):
                spoken.setdefault(form, []).append(n)
        close = difflib.get_close_matches(name[:200].lower(), spoken, n=3, cutoff=0.5)
        return list(dict.fromkeys(n for c in close for n in spoken[c]))[:3]

    def definitions(self) -> list[ToolDefinition]:
        """What to tell about each tool, under the names of this set."""
        return [ToolDefinition(n, t.description, t.parameters.schema) for n, t in self._tools.items()]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        context: Context[Any] | None = None,
    ) -> ToolResult:
        """Call a tool by name or wire name; an unknown name gives a failed result that lists close ones.

        Args:
            name: As asked for, by a model perhaps.
            arguments: As for `Tool.call`.
            context: As for `Tool.call`.

        Raises:
            UsageError: `name` is no text, `arguments` is neither a mapping nor text, or `context` is no Context.
        """
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - anything may be sent
            raise UsageError(f"the name of a tool to call must be text, not {type(name).__name__}.")
        tool = self.find(name)
        if tool is None:
            return self.unknown(name)
        return await tool.call(arguments, context)

    def unknown(self, name: str) -> ToolResult:
        """The result of a call of a tool that is not there: it offers close names.

        Args:
            name: As asked for.
        """
        return ToolResult.failed(self._unknown(name), code="unknown_tool")

    def _unknown(self, name: str) -> str:
        close = self.close_names(name)
        offer = (
            f"Close names: {', '.join(close)}."
            if close
            else f"There are: {', '.join(list(self._tools)[:20]) or 'none'}."
        )
        return f"There is no tool {name[:100]!r}. {offer}"

    def __getitem__(self, name: str) -> Tool:
        """The tool of a name or wire name that must be there."""
        tool = self.find(name)
        if tool is None:
            raise UnknownToolError(self._unknown(name))
        return tool

    def __contains__(self, name: object) -> bool:
        """Whether a name or wire name is there."""
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        """Go through the tools in order of registration; `names` has the names they have here."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tools)

    @property
    def wire_names(self) -> tuple[str, ...]:
        """The names that providers see, in order of registration."""
        return tuple(self._by_wire)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order of registration."""
        return tuple(self._tools)

    def __repr__(self) -> str:
        """The names."""
        return f"Toolset({', '.join(self._tools)})"


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """A tool as it is; a plain function made into one.

    Args:
        value: Either.

    Raises:
        ToolDefinitionError: It is neither.

    Since 0.1.
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, type):
        raise ToolDefinitionError(f"{value.__name__} is neither a tool nor a function. Make an instance of it first.")
    if callable(value):
        return FunctionTool(value)
    raise ToolDefinitionError(f"{type(value).__name__} is neither a tool nor a function. Give one or the other.")
