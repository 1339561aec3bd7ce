"""Structured output: from a type to the JSON that an answer must be, and back to a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ferrule.errors import JSONSyntaxError
from ferrule.lazy import LazyModule
from ferrule.provider.base import OutputSchema
from ferrule.tool.schema.arguments import Fault, fault_text, read_kindly
from ferrule.tool.schema.signature import read_type

if TYPE_CHECKING:
    from ferrule.provider import schema as schemas
else:
    schemas = LazyModule("ferrule.provider.schema")

AGAIN: Final = " Answer again with JSON that fits, and nothing else."
"""How a complaint about an answer ends, and how one is known from what the user says."""


class InvalidOutput(Exception):
    """An answer does not fit; the text says how, for the model.

    Since 0.1.
    """


class Output:
    """What an agent's answers must be.

    Args:
        type: Any annotation that a tool's parameter may have: a model, a dataclass, a union, a list, a number.
        agent: The agent's name, for errors.

    Raises:
        ToolDefinitionError: JSON cannot describe the type.

    Since 0.1.
    """

    def __init__(self, type: Any, agent: str) -> None:
        """Read the type."""
        self._signature, self._wrapped = read_type(type, f"the output of agent {agent!r}")
        self.schema = OutputSchema("output", self._signature.schema)

    def check(self, text: str) -> Any:
        """The value in an answer.

        Args:
            text: The answer.

        Raises:
            InvalidOutput: It does not fit.
        """
        try:
            found = self._found(schemas.without_nulls(self._signature.schema, text))
        except JSONSyntaxError as error:
            raise InvalidOutput(f"The answer is not valid JSON: {error}.") from None
        except Fault as error:
            raise InvalidOutput(f"The answer does not fit the schema. {fault_text(error)}.") from None
        return found["result"] if self._wrapped else found

    def _found(self, text: str) -> Any:
        try:
            return self._signature.check(text)
        except Fault as fault:
            problem = fault
        return read_kindly(self._signature, text, problem)[0]
