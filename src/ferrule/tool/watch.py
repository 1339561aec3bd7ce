"""Ends commands whose caller was killed: whoever takes its work over may begin them again.

A process that dies can end nothing any more, and what Linux offers (PR_SET_PDEATHSIG) goes by the thread that began a
command, which may end long before its process. So a small shell is told of every command, through a pipe that only the
caller holds: when that is closed, by whatever end, it kills the process groups which have not ended.

Not covered: a caller killed between the start of a command and the word of it, a command that leaves its process group,
and a caller that was forked without exec while a command ran: the fork holds the pipe too.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from typing import IO, Final

_SCRIPT: Final = """\
exec 3<&0
{ all=
while read -r what id; do
  case $what in
    +) all="$all $id" ;;
    -) left=; for one in $all; do [ "$one" = "$id" ] || left="$left $one"; done; all=$left ;;
  esac
done
for id in $all; do kill -KILL "-$id"; done; } <&3 &
"""


class Watch:
    """The shell of this process, begun with its first command.

    Since 0.1.
    """

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._lock = threading.Lock()
        self._owner = 0
        self._pipe: IO[bytes] | None = None

    def begun(self, group: int) -> None:
        """Have a process group ended with this process.

        Args:
            group: Its id.
        """
        if sys.platform != "linux":
            return
        with self._lock:
            if self._pipe is None or self._owner != os.getpid():
                self._start()
            self._say(f"+ {group}\n")

    def ended(self, group: int) -> None:
        """Forget a process group: its id may soon be that of another.

        Args:
            group: Its id.
        """
        with self._lock:
            if self._owner == os.getpid():
                self._say(f"- {group}\n")

    def close(self) -> None:
        """End the shell, and what it still watches."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
        if pipe is not None and self._owner == os.getpid():
            pipe.close()

    def _start(self) -> None:
        null = subprocess.DEVNULL
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=null, stderr=null, cwd="/", env={},
                start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError:  # a system without a shell: commands run as ever, and may outlive a killed caller
            self._pipe = None
            return
        shell.wait()  # what it has left in the background is no child of ours, whom a caller may want to wait for
        self._pipe = shell.stdin
        if not self._owner:
            atexit.register(self.close)
        self._owner = os.getpid()

    def _say(self, line: str) -> None:
        if self._pipe is not None:
            try:
                self._pipe.write(line.encode())
            except OSError:  # somebody has ended it; the next command begins another
                self._pipe = None


WATCH: Final = Watch()
