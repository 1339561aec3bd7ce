"""For tests of your own: scripted models, crashes at points of a journal, checks of a store, no network."""

from __future__ import annotations

from ferrule.provider.function import FunctionModel, call
from ferrule.testing.conformance import StoreConformance
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
    "StoreConformance",
    "call",
    "forbid_network",
    "kill",
]
