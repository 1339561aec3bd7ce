import asyncio
import sqlite3
from threading import Lock
from typing import Any

from ferrule import Context, Tool, ToolDefinition, Toolset


class Dictionary(Tool):
    """Look a word up."""

    effect = "read"
    timeout = 5

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = Lock()  # calls side by side come from different threads
        self._db: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        return "dictionary"

    @property
    def definition(self) -> ToolDefinition:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return ToolDefinition(self.name, self.description, {**schema, "additionalProperties": False})

    def execute(self, context: Context[Any]) -> str:
        with self._lock:
            found = self._open().execute("SELECT meaning FROM words WHERE word = ?", [context.variables["word"]])
            row = found.fetchone()
        return row[0] if row else "There is no such word."

    def _open(self) -> sqlite3.Connection:
        if self._db is None:  # at the first call: the command line makes the instance to list it, too
            self._db = sqlite3.connect(self._path, check_same_thread=False)
            self._db.execute("CREATE TABLE words (word, meaning)")
            self._db.execute("INSERT INTO words VALUES ('ring', 'a round thing')")
        return self._db


dictionary = Dictionary(":memory:")

if __name__ == "__main__":
    tools = Toolset([dictionary])
    for arguments in ({"word": "ring"}, {"word": "screw"}, {"words": "ring"}):
        print(asyncio.run(tools.call("dictionary", arguments)).output)
