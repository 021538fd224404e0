"""Invocations that the event loop waits for without a thread: they end as those on a thread do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse, NeedsThread
from headrace.aws.server.server import finish_waits, when_done
from headrace.services.lambda_.invocations.sandbox_pool import SandboxPool
from headrace.services.lambda_.names import parse_function
from headrace.services.lambda_.runtime.platform_log import OutputLog
from headrace.services.lambda_.runtime.steps import Watch
from tests.support.clients import client_of
from tests.support.lambda_lab import LambdaLab
from tests.support.server import wait_until

SOURCE = """
import base64, logging, os, subprocess, time
def handler(event, context):
    do = (event or {}).get("do")
    print("did", do)
    if do == "raise": raise ValueError("no")
    if do == "exit": os._exit(3)
    if do == "sleep": time.sleep(60)
    if do == "grow":
        kept = bytearray(200 << 20)
        time.sleep(60)
    if do == "write":
        for _ in range(40): print("y\\n" * 50000)
    if do == "wait":
        while not os.path.exists(event["file"]): time.sleep(0.01)
    return {"pid": os.getpid(), "event": event, "arn": context.invoked_function_arn,
            "custom": context.client_context.custom if context.client_context else None}
"""


@dataclass
class Loop:
    """Requests as the server handles them: on the event loop's thread if that is possible, else on another one."""

    lab: LambdaLab
    ways: list[str] = field(default_factory=list[str])

    def handle(self, request: HttpRequest) -> HttpResponse:
        return asyncio.run(self.answered(request))

    async def answered(self, request: HttpRequest) -> HttpResponse:
        request.at_once = self.lab.gateway.inline.has(request)
        try:
            answer: Any = self.lab.gateway.handle(request) if request.at_once else None
        except NeedsThread:
            answer, request.at_once = None, False
        self.ways.append("loop" if answer is not None else "thread")
        if answer is None:
            return await asyncio.to_thread(self.lab.handle, request)
        for wait in list(answer.waits or ()):
            done = asyncio.Event()
            wait.add_done_callback(lambda _, done=done: done.set())
            await done.wait()
        return finish_waits(answer)

    def invoke(self, name: str, event: Any = None, **members: Any) -> dict[str, Any]:
        client = client_of("lambda", self.handle, account="000000000000", region="us-east-1")
        answer = client.invoke(FunctionName=name, Payload=json.dumps(event).encode(), **members)
        return {**answer, "Payload": json.loads(answer["Payload"].read() or b"null")}


@pytest.fixture
def loop(shared_lab: LambdaLab) -> Loop:
    return Loop(shared_lab)


@pytest.fixture
def warm(loop: Loop, request: pytest.FixtureRequest) -> str:
    name = f"warm-{abs(hash(request.node.name))}"
    timeout_s = 1 if "sleep" in request.node.name else 300
    loop.lab.create(name, SOURCE, Timeout=timeout_s, MemorySize=128)
    loop.invoke(name)
    assert loop.ways == ["thread"]
    return name


def test_a_warm_function_is_answered_by_the_loop(loop: Loop, warm: str) -> None:
    context = "eyJjdXN0b20iOiB7ImEiOiAiYiJ9fQ=="
    logged, counted = len(loop.lab.logs.lines), len(loop.lab.metrics.metrics)
    answer = loop.invoke(warm, {"a": "ü"}, LogType="Tail", ClientContext=context)
    assert loop.ways[-1] == "loop"
    assert answer["Payload"]["event"] == {"a": "ü"}
    assert answer["Payload"]["custom"] == {"a": "b"}
    assert answer["Payload"]["arn"].endswith(f":function:{warm}")
    assert answer["ExecutedVersion"] == "$LATEST"
    assert "FunctionError" not in answer
    assert "did None" in [line for _, _, line in loop.lab.logs.lines[logged:]]
    assert "LogResult" in answer
    names = {metric.name for metric in loop.lab.metrics.metrics[counted:]}
    assert names == {"Invocations", "Errors", "Duration", "ConcurrentExecutions"}
    assert answer["ResponseMetadata"]["RequestId"] in loop.lab.logs.lines[-1][2]
    assert loop.invoke(warm)["Payload"]["pid"] == answer["Payload"]["pid"]


@pytest.mark.parametrize(
    ("do", "kind", "is_over"),
    [
        ("raise", "ValueError", False),
        ("exit", "Runtime.ExitError", True),
        ("sleep", "Sandbox.Timedout", True),
        ("grow", "Runtime.OutOfMemory", True),
    ],
)
def test_what_goes_wrong_is_told_as_on_a_thread(
    loop: Loop, warm: str, do: str, kind: str, *, is_over: bool
) -> None:
    answer = loop.invoke(warm, {"do": do})
    assert loop.ways[-1] == "loop"
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == kind
    # A process that is over is replaced, by a thread.
    assert loop.invoke(warm)["Payload"]["event"] is None
    assert loop.ways[-1] == ("thread" if is_over else "loop")


def test_a_killed_process_is_replaced(loop: Loop, warm: str) -> None:
    os.kill(pid_outside(loop.invoke(warm)["Payload"]["pid"], warm), signal.SIGKILL)
    idle = [
        environment
        for entry in loop.lab.lambda_.pools._entries.values()
        for environment in entry.pool._idle
        if environment.spec.name == warm
    ]
    wait_until(lambda: not any(environment.usable for environment in idle), what="its end")
    assert loop.invoke(warm)["Payload"]["event"] is None
    assert loop.ways[-1] == "thread"


def pid_outside(pid: int, name: str) -> int:
    """Return the id of a function's process outside its namespace."""
    variable = f"AWS_LAMBDA_FUNCTION_NAME={name}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (folder / "environ").read_bytes().split(b"\0"):
                status = (folder / "status").read_text()
                if status.partition("NSpid:")[2].split("\n")[0].split()[-1] == str(pid):
                    return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"{name} does not run")


@pytest.mark.parametrize(
    "members",
    [{"InvocationType": "Event"}, {"InvocationType": "DryRun"}, {"Payload": b'"%s"' % (b"x" * 40_000)}],
)  # fmt: skip
def test_other_invocations_need_a_thread(loop: Loop, warm: str, members: dict[str, Any]) -> None:
    client = client_of("lambda", loop.handle, account="000000000000", region="us-east-1")
    client.invoke(FunctionName=warm, **members)
    assert loop.ways[-1] == "thread"


def test_refusals_are_those_of_a_thread(loop: Loop, warm: str) -> None:
    client = client_of("lambda", loop.handle, account="000000000000", region="us-east-1")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.invoke(FunctionName="none")
    with pytest.raises(client.exceptions.InvalidRequestContentException):
        client.invoke(FunctionName=warm, Payload=b"{")
    loop.lab.client().put_function_concurrency(FunctionName=warm, ReservedConcurrentExecutions=0)
    with pytest.raises(client.exceptions.TooManyRequestsException):
        client.invoke(FunctionName=warm)
    assert loop.ways[-3:] == ["loop"] * 3


def test_an_update_ends_the_process_once_its_invocation_has_ended(
    loop: Loop, warm: str, tmp_path: Path
) -> None:
    async def updated() -> tuple[HttpResponse, Any]:
        event = {"do": "wait", "file": str(tmp_path / "go")}
        path = f"/2015-03-31/functions/{warm}/invocations"
        running = asyncio.create_task(
            loop.answered(HttpRequest("POST", path, body=json.dumps(event).encode()))
        )
        await asyncio.sleep(0)
        client = loop.lab.client()
        await asyncio.to_thread(
            lambda: client.update_function_configuration(FunctionName=warm, Timeout=2)
        )
        (tmp_path / "go").touch()
        return await running, event

    answer, event = asyncio.run(updated())
    assert isinstance(answer.body, bytes)
    answered = json.loads(answer.body)
    assert answered["event"] == event
    loop.lab.settled(warm)
    assert loop.invoke(warm)["Payload"]["pid"] != answered["pid"] or loop.ways[-1] == "thread"


def test_the_loop_leaves_a_large_output_to_a_thread(
    loop: Loop, warm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_threads: dict[bool, int] = {True: 0, False: 0}
    add = OutputLog._add

    def count(log: OutputLog, line: bytes) -> None:
        on_threads[threading.current_thread() is not threading.main_thread()] += 1
        add(log, line)

    monkeypatch.setattr(OutputLog, "_add", count)
    assert loop.invoke(warm, {"do": "write"})["Payload"]["event"] == {"do": "write"}
    assert loop.ways[-1] == "loop"
    assert sum(on_threads.values()) > 2_000_000
    assert on_threads[True] > on_threads[False]


def idle_environments(loop: Loop, name: str) -> list[Any]:
    return [
        environment
        for entry in loop.lab.lambda_.pools._entries.values()
        for environment in entry.pool._idle
        if environment.spec.name == name
    ]


@pytest.mark.parametrize("way", ["loop", "thread"])
def test_a_channel_that_fails_ends_the_invocation_and_its_process(
    loop: Loop, warm: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (environment,) = idle_environments(loop, warm)

    def poll(timeout_s: float, *, briefly: bool = False) -> list[Any]:
        raise OSError("too many open files")

    monkeypatch.setattr(environment.channel, "poll", poll)
    path, body = f"/2015-03-31/functions/{warm}/invocations", b'{"do": "sleep"}'
    request = HttpRequest("POST", path, body=body)
    if way == "loop":

        async def answered() -> HttpResponse:
            return await asyncio.wait_for(loop.answered(request), 20)

        assert asyncio.run(answered()).status == 500
    else:
        with pytest.raises(OSError, match="too many"):
            loop.lab.lambda_.dispatcher.invoke(
                parse_function(warm, account="000000000000", region="us-east-1"), body
            )
    assert environment.is_killed
    assert idle_environments(loop, warm) == []
    monkeypatch.undo()
    assert loop.invoke(warm)["Payload"]["event"] is None


def test_a_process_that_is_closed_as_soon_as_it_is_free_leaves_its_answer(
    loop: Loop, warm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = SandboxPool.release

    def release_and_drain(pool: SandboxPool, sandbox: Any) -> None:
        release(pool, sandbox)
        pool.drain()

    monkeypatch.setattr(SandboxPool, "release", release_and_drain)
    request = HttpRequest("POST", f"/2015-03-31/functions/{warm}/invocations", body=b'{"a": 1}')

    async def answered() -> HttpResponse:
        return await asyncio.wait_for(loop.answered(request), 20)

    answer = asyncio.run(answered())
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["event"] == {"a": 1}
    assert loop.ways[-1] == "loop"


def test_the_loop_keeps_looking_at_a_process_until_it_says_something_unasked(
    loop: Loop, warm: str
) -> None:
    added: list[int] = []
    removed: list[int] = []

    async def answered() -> list[int]:
        here = asyncio.get_running_loop()
        add, remove = here.add_reader, here.remove_reader

        def add_reader(descriptor: Any, *args: Any) -> None:
            added.append(descriptor)
            add(descriptor, *args)

        def remove_reader(descriptor: Any) -> bool:
            removed.append(descriptor)
            return remove(descriptor)

        here.add_reader, here.remove_reader = add_reader, remove_reader
        body = json.dumps({}).encode()
        path = f"/2015-03-31/functions/{warm}/invocations"
        statuses = [
            (await loop.answered(HttpRequest("POST", path, body=body))).status for _ in range(5)
        ]
        assert (len(added), removed) == (1, [])
        (environment,) = idle_environments(loop, warm)
        environment.kill()
        while not removed:
            await asyncio.sleep(0)
        # The loop's descriptor is its own until it has left it.
        own = os.fstat(added[0])
        await asyncio.to_thread(environment.close)
        while len(removed) < 2:
            await asyncio.sleep(0)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(added[0])
        assert own.st_ino
        return statuses

    assert asyncio.run(asyncio.wait_for(answered(), 60)) == [200] * 5
    assert set(loop.ways[-5:]) == {"loop"}


def test_each_invocation_has_a_trace_of_its_own(loop: Loop, warm: str) -> None:
    version = loop.lab.lambda_.functions.all("000000000000", "us-east-1")[0].latest
    headers = [loop.lab.lambda_.dispatcher.build_trace_header(version) for _ in range(50)]
    for part in range(2):
        assert len({header.split(";")[part] for header in headers}) == 50
    assert all(re.fullmatch(r"Root=1-\w{8}-\w{24};Parent=\w{16};Sampled=0", one) for one in headers)


def test_an_invocation_ends_in_peace_when_nobody_waits_for_its_answer_any_more() -> None:
    async def left() -> None:
        watch = Watch()
        waiting = asyncio.ensure_future(
            asyncio.wrap_future(when_done(HttpResponse(200, waits=[watch])))
        )
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        watch.end()

    asyncio.run(left())
