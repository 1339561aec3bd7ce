"""Optional needs of tests, and how many examples property tests try."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import settings
from tests.store import postgres

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# No deadline: a slow machine is not a bug.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# Started in the background by a shell, we would hand an ignored SIGINT on to the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REQUIRE_ALL = os.environ.get("FERRULE_REQUIRE") == "all"


@dataclass(frozen=True)
class Need:
    """Something a test needs that a machine may lack."""

    present: Callable[[], bool]
    get_it: str


def _command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _package(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


NEEDS = {
    "git": Need(_command("git"), "install the package git"),
    "numpy": Need(_package("numpy"), "pip install -r requirements/dev.txt"),
    "pandas": Need(_package("pandas"), "pip install -r requirements/dev.txt"),
    "postgres": Need(postgres.present, postgres.GET_IT),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if name not in NEEDS:
                pytest.fail(f"needs({name!r}) is unknown; add it to NEEDS in tests/conftest.py", pytrace=False)
            if not NEEDS[name].present():
                pytest.skip(f"needs {name}: {NEEDS[name].get_it}")


def _refuse_skip(report: Report) -> Report:
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (FERRULE_REQUIRE=all allows no skipped test)"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refuse_skip((yield))
