"""`plain` and `typed` on what nobody would wish for: how often they raise, how long they take, how much they hold."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from ferrule.strict_json import dumps, parse, plain, restore, typed

VALUES = 10_000
SECONDS = 1.0
MEGABYTES = 50.0
DEEP = 1_000_000


class Itself:
    """An object whose every attribute is itself again."""

    dtype = None

    def __getattr__(self, name: str) -> Itself:
        return self

    def tolist(self) -> Itself:
        return self


class Raising:
    """An object whose text raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def _leaf(dice: random.Random) -> Any:
    return dice.choice(
        (None, True, dice.getrandbits(200), -dice.random(), float("nan"), "text", "\udc97", "$int", b"\xff", Itself(),
         Raising(), ValueError("no"), dice, print, 1j)
    )  # fmt: skip


def _hashable(dice: random.Random, depth: int = 0) -> Any:
    if depth > 3 or dice.random() < 0.5:
        return _leaf(dice)
    return dice.choice((tuple, frozenset))(_hashable(dice, depth + 1) for _ in range(dice.randrange(4)))


def _sequence(dice: random.Random, depth: int = 0) -> Any:
    if depth > 2 or dice.random() < 0.3:
        return _hashable(dice)
    return dice.choice((list, tuple))(_sequence(dice, depth + 1) for _ in range(dice.randrange(5)))


def _mapping(dice: random.Random, depth: int = 0) -> Any:
    if depth > 2 or dice.random() < 0.3:
        return _sequence(dice)
    return {_hashable(dice): _mapping(dice, depth + 1) for _ in range(dice.randrange(5))}


def _graph(dice: random.Random) -> Any:
    nodes: list[Any] = [dice.choice((list[Any], dict[Any, Any]))() for _ in range(5)]
    for node in nodes:
        for _ in range(2):
            other = dice.choice(nodes)
            if isinstance(node, list):
                node.append(other)  # pyright: ignore[reportUnknownMemberType]
            else:
                node[_hashable(dice)] = other
    return nodes


KINDS: dict[str, Callable[[random.Random], Any]] = {
    "leaves": _leaf, "hashables": _hashable, "sequences": _sequence, "mappings": _mapping, "graphs with cycles": _graph,
}  # fmt: skip


def _cyclic() -> Any:
    x: list[Any] = []
    x.extend([x] * 1_000)
    return x


def _deep() -> Any:
    x: list[Any] = []
    for _ in range(DEEP):
        x = [x]
    return x


def _shared() -> Any:
    x: list[Any] = []
    for _ in range(40):
        x = [x, x]
    return x


HARD: dict[str, Callable[[], Any]] = {
    "a list that holds itself 1,000 times": _cyclic,
    "lists a million deep": _deep,
    "objects that return themselves": lambda: [Itself()] * 1_000,
}


def _count(make: Callable[[random.Random], Any]) -> int:
    """How many of VALUES random values make encoding raise, or the output unreadable."""
    dice = random.Random(7)
    raised = 0
    for _ in range(VALUES):
        value = make(dice)
        try:
            parse(dumps(plain(value)))
            restore(parse(dumps(typed(value))))
        except Exception:  # counted, whatever it is
            raised += 1
    return raised


def _measure(encode: Callable[[Any], Any], value: Any) -> tuple[float, float]:
    """Seconds, and megabytes at the peak, that encoding and writing one value takes."""
    start = time.perf_counter()
    dumps(encode(value))
    seconds = time.perf_counter() - start
    tracemalloc.start()
    dumps(encode(value))
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return seconds, peak


def _dismantle(value: Any) -> None:
    """Take nested lists apart from the outside, so that Python does not free them by recursion."""
    while isinstance(value, list) and value:
        value = value.pop()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def main() -> None:
    """Print the figures."""
    for name, make in KINDS.items():
        print(f"{name:40} {VALUES:,} random values: {_count(make)} raised")
    print(f"\n{'':50} {'seconds':>8} {'MB':>6}   (at most {SECONDS:g} s and {MEGABYTES:g} MB)")
    for name, build in HARD.items():
        value = build()
        for encode in (plain, typed):
            seconds, peak = _measure(encode, value)
            kept = "" if seconds <= SECONDS and peak <= MEGABYTES else "   MISSED"
            print(f"{encode.__name__ + ', ' + name:50} {seconds:8.3f} {peak:6.1f}{kept}")
        _dismantle(value)
    seconds, peak = _measure(plain, _shared())
    print(f"{'plain, a graph of 2^40 places, cut at its bound':50} {seconds:8.3f} {peak:6.1f}   (as large as it gets)")


if __name__ == "__main__":
    main()
