"""The process of the command line, for `python -m ferrule` and the `ferrule` script: its signals and its streams."""

import os
import signal
import sys

_HEARD = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where Ctrl-C is ignored, as under nohup
if _HEARD:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while this loads, Ctrl-C ends it without a traceback

from ferrule.cli import main  # noqa: E402

if _HEARD:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker that a tool starts may import this as well


def run() -> int:
    """Run the command line that the process was started with.

    Returns:
        The exit code.

    Since 0.1.
    """
    try:
        _settle_streams()
        return main()
    except KeyboardInterrupt:  # pressed once more while the first one was being told
        return 130
    finally:
        if _HEARD:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what a tool left running may keep the process from ending


def _settle_streams() -> None:
    """Let a standard stream that is closed lead nowhere, and no byte that is no text end a chat."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is the missing one
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, "w" if number else "r", encoding="utf-8"))
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(run())
