"""For tests of your own: models that follow a script, a guard against the network, and checks of a store."""

from __future__ import annotations

from ferrule.provider.function import FunctionModel, call
from ferrule.testing.conformance import StoreConformance
from ferrule.testing.network import NetworkForbidden, forbid_network
from ferrule.testing.scripted import ScriptedModel, ScriptExhausted

__all__ = [
    "FunctionModel",
    "NetworkForbidden",
    "ScriptExhausted",
    "ScriptedModel",
    "StoreConformance",
    "call",
    "forbid_network",
]
