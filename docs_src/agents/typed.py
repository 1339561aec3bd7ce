from dataclasses import dataclass

from ferrule import Agent, Limits
from ferrule.message import UserMessage
from ferrule.testing import ScriptedModel


@dataclass
class Order:
    part: str
    count: int


script = ScriptedModel(['{"part": "ring"}', '{"part": "ring", "count": 3}'])
reader = Agent("reader", script, output=Order, limits=Limits(turns=5, tokens=20_000))
result = reader.run_sync("Three rings, please.")
print(result.value.count, result.usage.requests)
complaint = script.requests[1].messages[-1]
print(complaint.text if isinstance(complaint, UserMessage) else None)
