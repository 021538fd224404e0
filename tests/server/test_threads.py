"""The threads of requests when the machine refuses more of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from headrace.aws.server.thread_pool import FairPool, Job, NoThread
from tests.api.kinesis.live import LiveCloud


def refuse(monkeypatch: pytest.MonkeyPatch, *, from_number: int) -> None:
    """Refuse threads of the pool as the machine does, all but the first ones."""
    start, numbers = threading.Thread.start, iter(range(1000))

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("refused") and next(numbers) >= from_number:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)


def run(pool: FairPool, call: Callable[[], object]) -> object:
    async def submit() -> object:
        return await asyncio.wait_for(pool.submit("o", "s", call).done, 20)

    return asyncio.run(submit())


@pytest.fixture
def pool() -> FairPool:
    return FairPool(9, per_service=9, per_owner=9, name="refused")


def test_jobs_wait_for_the_threads_that_there_are(
    pool: FairPool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(monkeypatch, from_number=1)
    others_are_submitted = threading.Event()
    ran: list[int] = []

    def first() -> None:
        assert others_are_submitted.wait(10)
        ran.append(0)

    async def submit() -> list[None]:
        calls = [first, lambda: ran.append(1), lambda: ran.append(2)]
        jobs = [pool.submit(number, "s", call) for number, call in enumerate(calls)]
        others_are_submitted.set()
        return await asyncio.wait_for(asyncio.gather(*(job.done for job in jobs)), 20)

    asyncio.run(submit())
    assert ran == [0, 1, 2]
    assert "requests wait for a thread: can't start new thread" in caplog.text


def test_without_any_thread_a_job_is_refused_and_never_runs(
    pool: FairPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    with monkeypatch.context() as patched:
        refuse(patched, from_number=0)
        with pytest.raises(NoThread, match="can't start new thread"):
            run(pool, lambda: ran.append("refused"))
    run(pool, lambda: ran.append("accepted"))
    assert ran == ["accepted"]


def test_a_request_without_a_thread_gets_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveCloud(tmp_path / "data") as live:
        monkeypatch.setattr(live._server._pool, "submit", no_thread)
        with pytest.raises(ClientError, match=r"\(ServiceUnavailable\).*temporary failure"):
            live.client("cloudformation").list_stacks()


def no_thread(*_: object) -> Job:
    raise NoThread("can't start new thread")
