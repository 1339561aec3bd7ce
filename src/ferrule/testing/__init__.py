"""For tests of your own: models that follow a script, crashes at points of a journal, a guard against the network."""

from __future__ import annotations

from ferrule.provider.function import FunctionModel, call
from ferrule.testing.crash import CrashingStore, CrashPoint, kill
from ferrule.testing.network import NetworkForbidden, forbid_network
from ferrule.testing.scripted import ScriptedModel, ScriptExhausted

__all__ = [
    "CrashPoint",
    "CrashingStore",
    "FunctionModel",
    "NetworkForbidden",
    "ScriptExhausted",
    "ScriptedModel",
    "call",
    "forbid_network",
    "kill",
]
