"""The threads that sync tools run in."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from ferrule.tool.body.thread import ThreadPool


def test_work_beyond_the_bound_waits_for_a_thread() -> None:
    pool, release = ThreadPool(limit=2), threading.Event()
    done: list[int] = []
    held = [pool.submit(lambda: release.wait(30)) for _ in range(2)]
    queued = [pool.submit(lambda i=i: done.append(i)) for i in range(5)]
    assert pool.threads == 2
    assert not any(f.done() for f in queued)
    release.set()
    wait([*held, *queued], 30)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert pool.threads <= 2


def test_cancelled_before_its_start_work_is_never_done() -> None:
    pool, release = ThreadPool(limit=1), threading.Event()
    done: list[int] = []
    held = pool.submit(lambda: release.wait(30))
    queued = pool.submit(lambda: done.append(1))
    assert queued.cancel()
    release.set()
    wait([held], 30)
    wait([pool.submit(lambda: None)], 30)
    assert done == []


def test_an_idle_thread_is_used_again() -> None:
    pool = ThreadPool()
    for _ in range(20):
        pool.submit(lambda: None).result(30)
    assert pool.threads < 20


@pytest.mark.parametrize("error", [ValueError("v"), SystemExit(2)])
def test_whatever_a_function_raises_reaches_who_waits_and_the_thread_lives_on(error: BaseException) -> None:
    def broken() -> None:
        raise error

    pool = ThreadPool(limit=1)
    with pytest.raises(type(error)):
        pool.submit(broken).result(30)
    assert pool.submit(lambda: 7).result(30) == 7


def test_work_that_gets_no_thread_is_refused_and_never_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, done = ThreadPool(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(done.set)
    pool.submit(lambda: None).result(30)
    assert not done.is_set()
    assert pool.threads == 1
