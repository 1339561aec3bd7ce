"""The house rules that no ready-made linter checks.

Usage: python scripts/gates.py [ROOT]

Prints one line `path:line: what` for each violation and exits with 1 if there is any.
The library is parsed, never imported.
"""

from __future__ import annotations

import ast
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "ferrule"
FACE = f"src/{PACKAGE}/__init__.py"
THIS = "scripts/gates.py"
RECORDS = f"{PACKAGE}.journal.record"
CORPUS = "tests/corpus"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_P90_LINES = 30
MAX_FACE_NAMES = 60

# Functions allowed to exceed MAX_FUNCTION_LINES: "src/ferrule/x.py:Class.method" -> the reason.
# The table may only shrink: an entry that is no longer needed is a violation.
LONG_FUNCTIONS: dict[str, str] = {}

# Files whose names carry the sections of a docstring only where they are exported: the path -> the reason.
# The table may only shrink, as above.
SHORT_DOCSTRINGS: dict[str, str] = {}

# Put together here so that this file does not contain what it looks for.
_HOSTS = "|".join(re.escape(".".join(labels)) for labels in (("pypi", "org"), ("pythonhosted", "org"), ("npm" + "js",)))
_HOST_PATTERN = re.compile(_HOSTS.encode(), re.IGNORECASE)
# A directory that exists on somebody's machine only; not the tail of a URL, a relative path or a substitution.
_PATH_PATTERN = re.compile(
    rb"(?:(?<![\w.:/~#\-)}\]>*])|(?<=file://))/(?:root|work|tmp|(?:home|Users)/[\w.-]+)/[\w.-]|\b[A-Z]:\\+Users\\+[\w.-]+\\"
)
_UNSEARCHED = {"__pycache__", "node_modules", "build", "dist", "htmlcov"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, order=True)
class Violation:
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Source:
    """One parsed module of the library."""

    path: str
    module: str
    lines: int
    tree: ast.Module

    def violation(self, node: ast.stmt | None, what: str) -> Violation:
        return Violation(self.path, node.lineno if node else 1, what)


Sources = Mapping[str, Source]


def load(root: Path) -> Iterator[Source | Violation]:
    """Parse every module of the library; a file that does not parse becomes a violation."""
    for file in sorted((root / "src" / PACKAGE).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        parts = file.relative_to(root / "src").with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = file.read_text(encoding="utf-8")
        try:
            yield Source(path, module, text.count("\n"), ast.parse(text))
        except SyntaxError as error:
            yield Violation(path, error.lineno or 1, f"does not parse: {error.msg}")


# --- size ---


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function below a node with its qualified name, nested ones too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            name = prefix + child.name
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from functions(child, name + ".")
        else:
            yield from functions(child, prefix)


def length(node: Function) -> int:
    """Lines from the signature on, the docstring not counted."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is None:
        return total
    first = node.body[0]
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def check_size(sources: Sources, allowed: Mapping[str, str]) -> Iterator[Violation]:
    lengths: list[tuple[int, str]] = []
    needed: set[str] = set()
    for source in sources.values():
        if source.lines > MAX_FILE_LINES:
            yield source.violation(None, f"file has {source.lines} lines, at most {MAX_FILE_LINES} are allowed")
        for name, node in functions(source.tree):
            key, lines = f"{source.path}:{name}", length(node)
            lengths.append((lines, key))
            if lines <= MAX_FUNCTION_LINES:
                continue
            needed.add(key)
            if key not in allowed:
                what = f"{name} has {lines} lines, at most {MAX_FUNCTION_LINES} are allowed; split it"
                yield source.violation(node, f"{what} or give a reason in LONG_FUNCTIONS of {THIS}")
    yield from check_exceptions(allowed, needed)
    yield from check_p90(sorted(lengths))


def check_exceptions(allowed: Mapping[str, str], needed: set[str]) -> Iterator[Violation]:
    for key, reason in allowed.items():
        path, _, name = key.partition(":")
        if key not in needed:
            yield Violation(path, 1, f"LONG_FUNCTIONS of {THIS} lists {name}, which is no longer too long; remove it")
        elif not reason.strip():
            yield Violation(path, 1, f"LONG_FUNCTIONS of {THIS} gives no reason for {name}")


def check_p90(lengths: Sequence[tuple[int, str]]) -> Iterator[Violation]:
    """Take the lengths in rising order."""
    p90 = percentile([lines for lines, _ in lengths])
    if p90 > MAX_P90_LINES:
        longest = ", ".join(f"{key} ({lines})" for lines, key in reversed(lengths[-5:]))
        what = f"90th percentile of function length is {p90} lines, at most {MAX_P90_LINES} are allowed"
        yield Violation(f"src/{PACKAGE}", 1, f"{what}; the longest: {longest}")


def percentile(lengths: Sequence[int]) -> int:
    """The 90th percentile of numbers in rising order, by nearest rank; 0 without any."""
    return lengths[math.ceil(0.9 * len(lengths)) - 1] if lengths else 0


# --- docstrings ---


def definitions(body: Sequence[ast.stmt]) -> Iterator[Definition]:
    """The functions and classes of a block, also under if, try and with."""
    for node in body:
        if isinstance(node, Definition):
            yield node
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from definitions(getattr(node, block, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from definitions(handler.body)


def decorators(node: Definition) -> set[str]:
    """The last part of each decorator's name."""
    found: set[str] = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Attribute):
            found.add(target.attr)
        elif isinstance(target, ast.Name):
            found.add(target.id)
    return found


def documents_itself(node: Definition) -> bool:
    """Whether a reader looks at this definition for its description, not at a sibling or a base class."""
    return not decorators(node) & {"overload", "override", "setter", "deleter"}


def is_private(source: Source) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in source.module.split("."))


def check_docstrings(source: Source, short: Mapping[str, str]) -> Iterator[Violation]:
    """Every public name of a public module has a docstring that says all a caller needs."""
    if is_private(source):
        return
    doc = ast.get_docstring(source.tree)
    if doc is None:
        yield source.violation(None, "module has no docstring")
    yield from missing_docstrings(source, source.tree.body, "")
    missing = list(missing_sections(source, source.tree.body, "", dated=says_since(doc)))
    if source.path not in short:
        yield from missing
    elif not missing:
        yield source.violation(None, f"SHORT_DOCSTRINGS of {THIS} lists it, though nothing is missing; remove it")
    elif not short[source.path].strip():
        yield source.violation(None, f"SHORT_DOCSTRINGS of {THIS} gives no reason for it")


def missing_docstrings(source: Source, body: Sequence[ast.stmt], prefix: str) -> Iterator[Violation]:
    for node in definitions(body):
        if node.name.startswith("_") or not documents_itself(node):
            continue
        name = prefix + node.name
        if ast.get_docstring(node) is None:
            yield source.violation(node, f"{name} has no docstring")
        if isinstance(node, ast.ClassDef):
            yield from missing_docstrings(source, node.body, name + ".")


def missing_sections(source: Source, body: Sequence[ast.stmt], prefix: str, *, dated: bool) -> Iterator[Violation]:
    """What docstrings leave out: `Args` of whatever takes arguments, `Raises` of what a body raises itself, and since.

    What a class or a module says of since holds for what is in it. The docstring of a command is its help, and says
    nothing in this form; its arguments have a help each.
    """
    for node in definitions(body):
        if node.name.startswith("_") or not documents_itself(node) or "command" in decorators(node):
            continue
        name, doc = prefix + node.name, ast.get_docstring(node)
        if doc is None:
            continue  # reported by missing_docstrings
        if not (dated or says_since(doc)):
            yield source.violation(node, f"docstring of {name} has no line 'Since <version>'")
        if isinstance(node, ast.ClassDef):
            yield from check_constructor(source, node)
            yield from missing_sections(source, node.body, name + ".", dated=True)
        else:
            yield from check_function(source, node, name, doc, method=bool(prefix))


def says_since(doc: str | None) -> bool:
    return re.search(r"^Since \d", doc or "", re.MULTILINE) is not None


def check_function(source: Source, node: Function, name: str, doc: str, *, method: bool) -> Iterator[Violation]:
    if parameters(node, method=method) and not has_section(doc, "Args"):
        yield source.violation(node, f"docstring of {name} has no section 'Args:'")
    if raises(node) and not has_section(doc, "Raises"):
        yield source.violation(node, f"docstring of {name} has no section 'Raises:', but raises {raises(node)[0]}")


def check_constructor(source: Source, node: ast.ClassDef) -> Iterator[Violation]:
    """What a constructor takes and raises is said by the class, or by the constructor itself."""
    methods = [child for child in definitions(node.body) if isinstance(child, Function) and documents_itself(child)]
    constructors = [method for method in methods if method.name in {"__init__", "__new__", "__post_init__"}]
    docs = [ast.get_docstring(place) or "" for place in (node, *constructors)]
    takes = any(parameters(method, method=True) for method in constructors if method.name != "__post_init__")
    takes = takes or bool(undescribed_fields(node))
    if takes and not any(has_section(doc, "Args") or has_section(doc, "Attributes") for doc in docs):
        yield source.violation(node, f"docstring of {node.name} has no section 'Args:' for its constructor")
    raised = [name for method in constructors for name in raises(method)]
    if raised and not any(has_section(doc, "Raises") for doc in docs):
        what = f"docstring of {node.name} has no section 'Raises:', but its constructor raises {raised[0]}"
        yield source.violation(node, what)


def undescribed_fields(node: ast.ClassDef) -> list[str]:
    """The public fields of a dataclass that no string literal below them describes."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    if "dataclass" not in decorators(node) and not bases & {"BaseModel", "NamedTuple"}:
        return []
    found: list[str] = []
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        hidden = "ClassVar" in ast.unparse(field.annotation) or "init=False" in ast.unparse(field)
        if not (described or hidden or field.target.id.startswith("_")):
            found.append(field.target.id)
    return found


def parameters(node: Function, *, method: bool) -> list[str]:
    """The names of the parameters, self and cls left out."""
    args = node.args
    names = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    if method and "staticmethod" not in decorators(node):
        names = names[1:]
    return names + [arg.arg for arg in (args.vararg, *args.kwonlyargs, args.kwarg) if arg]


def raises(node: Function) -> list[str]:
    """The exception classes raised by the function's own statements; private ones and NotImplementedError left out."""
    found: list[str] = []
    waiting: list[ast.AST] = [*node.body]
    while waiting:
        child = waiting.pop(0)
        if isinstance(child, Definition | ast.Lambda):
            continue
        waiting.extend(ast.iter_child_nodes(child))
        if not isinstance(child, ast.Raise) or child.exc is None:
            continue
        target = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
        name = ast.unparse(target).rpartition(".")[-1]
        if name[:1].isupper() and name != "NotImplementedError":
            found.append(name)
    return found


def has_section(doc: str, name: str) -> bool:
    return re.search(rf"^{name}:\s*$", doc, re.MULTILINE) is not None


# --- the face ---


@dataclass(frozen=True)
class Face:
    """What `ferrule/__init__.py` declares, read without importing it."""

    source: Source
    homes: Mapping[str, str]
    names: Sequence[str]


def assigned(tree: ast.Module, name: str) -> ast.Assign | ast.AnnAssign | None:
    """The module-level assignment to a name."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node
    return None


def literal(tree: ast.Module, name: str) -> object:
    """The value of a module-level assignment, or None if it is missing or not a literal."""
    node = assigned(tree, name)
    try:
        return ast.literal_eval(node.value) if node and node.value else None
    except ValueError:
        return None


def read_face(sources: Sources) -> Face | Violation:
    source = sources.get(PACKAGE)
    if source is None:
        return Violation(FACE, 1, "the public face is missing")
    homes: object = literal(source.tree, "_HOME")
    names: object = literal(source.tree, "__all__")
    if not isinstance(homes, dict):
        return Violation(FACE, 1, "no dict literal _HOME that maps each public name to its module")
    if not isinstance(names, list | tuple):
        return Violation(FACE, 1, "no list literal __all__")
    table: dict[object, object] = {**homes}
    entries: list[object] = [*names]
    return Face(source, {str(name): str(home) for name, home in table.items()}, [str(name) for name in entries])


def check_face(face: Face) -> Iterator[Violation]:
    if len(face.names) > MAX_FACE_NAMES:
        yield Violation(FACE, 1, f"__all__ has {len(face.names)} names, at most {MAX_FACE_NAMES} are allowed")
    if list(face.names) != sorted(face.names):
        first = next(have for have, want in zip(face.names, sorted(face.names), strict=True) if have != want)
        yield Violation(FACE, 1, f"__all__ is not sorted (as sorted() does), first at {first}")
    if len(set(face.names)) != len(face.names):
        yield Violation(FACE, 1, "__all__ names something twice")
    wanted = {*face.homes, "__version__"}
    for name in sorted(wanted - set(face.names)):
        yield Violation(FACE, 1, f"{name} is missing in __all__")
    for name in sorted(set(face.names) - wanted):
        yield Violation(FACE, 1, f"{name} of __all__ has no entry in _HOME")


def find(sources: Sources, module: str, name: str) -> tuple[Source, ast.stmt] | None:
    """The statement that defines a name, followed through re-exports."""
    source = sources.get(module)
    if source is None:
        return None
    named = [node for node in definitions(source.tree.body) if node.name == name]
    found = named[-1] if named else assigned(source.tree, name)  # the last: overloads precede the function itself
    if found is not None:
        return source, found
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return find(sources, imported_module(source, node), alias.name)
    return None


def imported_module(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    is_package = source.path.endswith("/__init__.py")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, node.module] if node.module else base)


def check_exports(face: Face, sources: Sources) -> Iterator[Violation]:
    """Exported names are where they are said to be, and carry the full docstring wherever that is."""
    for name, module in face.homes.items():
        found = find(sources, module, name)
        if found is None:
            yield Violation(FACE, 1, f"_HOME says {name} lives in {module}, where it is not defined")
            continue
        source, node = found
        yield from missing_sections(source, [node], "", dated=False)
        if isinstance(node, Definition) and ast.get_docstring(node) is None:
            yield source.violation(node, f"{node.name} has no docstring")


# --- the whole tree ---


def files(root: Path) -> Iterator[Path]:
    """What git tracks or would track; without git, everything but hidden directories, builds and caches."""
    command = ["git", "-C", str(root), "-c", "safe.directory=*", "ls-files", "-z"]
    try:
        run = subprocess.run([*command, "--cached", "--others", "--exclude-standard"], capture_output=True, check=True)
        names = [name for name in run.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        yield from walk(root)
    for name in sorted(set(names)):
        if (root / name).is_file():  # tracked files may have been deleted, or be links to directories
            yield root / name


def walk(root: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name == ".ci" or not (name[0] == "." or name in _UNSEARCHED))
        for name in sorted(names):
            yield Path(directory, name)


def check_tree(root: Path) -> Iterator[Violation]:
    """No file ties the repository to a registry or to somebody's machine."""
    for file in files(root):
        path, data = file.relative_to(root).as_posix(), file.read_bytes()
        for pattern, kind in ((_HOST_PATTERN, "a registry host"), (_PATH_PATTERN, "a path of some machine")):
            for match in pattern.finditer(data):
                line = data.count(b"\n", 0, match.start()) + 1
                yield Violation(path, line, f"names {kind}: {match.group().decode()}")


# --- records ---


def check_corpus(root: Path, sources: Sources) -> Iterator[Violation]:
    """Every version of records has runs that tests go on with."""
    if (source := sources.get(RECORDS)) is None:
        return
    for node in source.tree.body:
        if not isinstance(node, ast.AnnAssign) or ast.unparse(node.target) != "VERSION" or node.value is None:
            continue
        newest = ast.literal_eval(node.value)
        for version in range(1, newest + 1):
            if not any((root / CORPUS / f"v{version}").glob("*.jsonl")):
                mend = f"put version {newest} back, or run: python -m tests.corpus.make"
                yield source.violation(node, f"records of version {version} have no runs in {CORPUS}; {mend}")


def check(
    root: Path,
    long_functions: Mapping[str, str] = LONG_FUNCTIONS,
    short_docstrings: Mapping[str, str] = SHORT_DOCSTRINGS,
) -> list[Violation]:
    """All violations of a checkout, sorted by place."""
    loaded = list(load(root))
    found = {item for item in loaded if isinstance(item, Violation)}
    sources = {item.module: item for item in loaded if isinstance(item, Source)}
    found.update(check_size(sources, long_functions), check_tree(root))
    found.update(check_corpus(root, sources))
    for source in sources.values():
        found.update(check_docstrings(source, short_docstrings))
    face = read_face(sources)
    if isinstance(face, Violation):
        found.add(face)
    else:
        found.update(check_face(face), check_exports(face, sources))
    return sorted(found)


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0]).resolve() if arguments else Path(__file__).resolve().parent.parent
    found = check(root)
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
