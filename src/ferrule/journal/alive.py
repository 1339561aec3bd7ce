"""Whether a process that held a run is dead. Only proof counts: while it lives, what it began may have its effect."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps, where there is one.

    Since 0.1.
    """
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


def about_me() -> dict[str, Any]:
    """What tells this process from every other one: host, boot, pid and start time.

    Since 0.1.
    """
    pid = os.getpid()
    return {"host": socket.gethostname(), "boot": _boot(), "pid": pid, "start": _start_of(pid)}


def is_dead(about: Mapping[str, Any]) -> bool:
    """Whether a process is proven dead: it ran on this host since its last boot, and no process has its pid and start.

    Args:
        about: What it said of itself, by `about_me`.

    Since 0.1.
    """
    pid, start = about.get("pid"), about.get("start")
    if _boot() is None or start is None or not isinstance(pid, int):
        return False
    if (about.get("host"), about.get("boot")) != (socket.gethostname(), _boot()):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's, but there
        pass
    found = _start_of(pid)
    return found is not None and found != start


@cache
def _boot() -> str | None:
    """This boot of this machine, and among which processes a pid is one; None where nobody tells."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """When a process began, in ticks since boot: 0 for one that is dead and not buried, None where nobody tells."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *fields = told[told.rindex(b")") + 2 :].split()
    return 0 if state in (b"Z", b"X") else int(fields[18])
