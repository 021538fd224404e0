"""What does not pile up, however long a cloud runs and whatever its functions do."""

from __future__ import annotations

import base64
import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.errors import ASYNC_PAYLOAD_BYTES
from headrace.services.lambda_.invocations import dispatcher
from headrace.services.lambda_.invocations.dispatcher import AnswerStream, Part, ReaderGone
from headrace.services.lambda_.names import FunctionRef
from tests.support.lambda_lab import LambdaLab, zipped
from tests.support.server import wait_until

WAITS = (
    "import pathlib, time\ndef handler(event, context):\n"
    "    place = pathlib.Path(event['place'])\n"
    "    (place / context.aws_request_id).touch()\n"
    "    while not (place / 'go').exists(): time.sleep(0.005)\n"
    "    return pathlib.Path(__file__).read_text()[:9]\n"
)
MIB = 1024 * 1024


@pytest.fixture
def place(lab: LambdaLab) -> Path:
    place = lab.place / "place"
    place.mkdir()
    return place


def ref(name: str) -> FunctionRef:
    return FunctionRef("000000000000", "us-east-1", name)


# --- asynchronous events ----------------------------------------------------------------------


def test_events_that_wait_are_on_the_disk_and_not_in_memory(lab: LambdaLab, place: Path) -> None:
    lab.create("slow", WAITS, Timeout=60)
    lab.client().put_function_concurrency(FunctionName="slow", ReservedConcurrentExecutions=1)
    event = json.dumps({"place": str(place)}).encode()
    lab.lambda_.waiting.add(ref("slow"), event, client_context="", request_id="first")
    wait_until((place / "first").exists, what="the first event")
    large = json.dumps({"place": str(place), "x": "x" * (ASYNC_PAYLOAD_BYTES - 300)}).encode()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(24):
            lab.lambda_.waiting.add(ref("slow"), large, client_context="", request_id=f"e{number}")
        # Those that were tried and throttled have let go of theirs; as Base64 all would be 32 MiB.
        wait_until(
            lambda: tracemalloc.get_traced_memory()[0] - before < 8 * MIB, what="little memory"
        )
    finally:
        tracemalloc.stop()
    assert len(lab.database.documents("lambda_async").items()) == 25


def test_events_that_waited_behind_others_run_after_a_restart(lab: LambdaLab, place: Path) -> None:
    lab.create("slow", WAITS, Timeout=60)
    event = json.dumps({"place": str(place)}).encode()
    for number in range(30):
        lab.lambda_.waiting.add(ref("slow"), event, client_context="", request_id=f"e{number}")
    wait_until(lambda: list(place.iterdir()), what="the first event")
    lab.restart()
    (place / "go").touch()
    wait_until(lambda: not lab.database.documents("lambda_async").items(), what="the end")
    assert len(list(place.iterdir())) == 31
    wait_until(lambda: not lab.lambda_.events._running, what="rest")
    assert not lab.lambda_.events._behind


def test_a_function_that_comes_and_goes_leaves_nothing_in_memory(lab: LambdaLab) -> None:
    lambda_, client = lab.lambda_, lab.client()
    for number in range(3):
        name = f"f{number}"
        lab.create(name, "def handler(e, c):\n    return 1\n")
        client.publish_version(FunctionName=name)
        client.put_provisioned_concurrency_config(
            FunctionName=name, Qualifier="1", ProvisionedConcurrentExecutions=1
        )
        lambda_.invoker.invoke(f"{name}:1", b"{}")
        lambda_.waiting.add(ref(name), b"{}", client_context="", request_id=f"r{number}")
        wait_until(lambda: not lab.database.documents("lambda_async").items(), what="the event")
        lambda_.pools.step()
        client.delete_function(FunctionName=name)
    wait_until(lambda: not lambda_.events._running, what="the event's end")
    concurrency = lambda_.pools.concurrency
    assert not concurrency._running
    assert not concurrency._on_provisioned
    lambda_.pools.step()
    assert not lambda_.pools._provisioned
    assert not lambda_.pools._entries
    # A process is given back a moment after what it did is known.
    wait_until(lambda: not _retired(lambda_), what="the end of the processes")


def _retired(lambda_: Any) -> list[Any]:
    lambda_.pools.folders_in_use()
    return list(lambda_.pools._retired)


# --- packages ---------------------------------------------------------------------------------


def packages(lab: LambdaLab) -> set[str]:
    return {path.name.removesuffix(".zip") for path in (lab.data_dir / "lambda" / "code").iterdir()}


def digest(lab: LambdaLab, name: str) -> str:
    shown = lab.client().get_function(FunctionName=name)["Configuration"]["CodeSha256"]
    return base64.b64decode(shown).hex()


def test_packages_that_nobody_has_are_removed_while_the_cloud_runs(lab: LambdaLab) -> None:
    lab.create("f", "# first\n")
    for number in range(5):
        package = zipped({"app.py": f"# {number}\n"})
        lab.client().update_function_code(FunctionName="f", ZipFile=package)
        lab.settled("f")
    layer = lab.client().publish_layer_version(
        LayerName="l", Content={"ZipFile": zipped({"python/a.py": ""})}
    )
    assert len(packages(lab)) == 7
    lab.lambda_.tidy(older_than_s=600)
    assert len(packages(lab)) == 7
    lab.lambda_.tidy(older_than_s=0)
    kept = base64.b64decode(layer["Content"]["CodeSha256"]).hex()
    assert packages(lab) == {digest(lab, "f"), kept}


def test_a_package_that_still_runs_is_kept(lab: LambdaLab, place: Path) -> None:
    lab.create("f", f"# old...\n{WAITS}", Timeout=60)
    old = digest(lab, "f")
    event = json.dumps({"place": str(place)}).encode()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(lab.lambda_.invoker.invoke, "f", event)
        wait_until(lambda: list(place.iterdir()), what="the invocation")
        lab.client().update_function_code(FunctionName="f", ZipFile=zipped({"app.py": "# new\n"}))
        lab.lambda_.tidy(older_than_s=0)
        assert packages(lab) == {old, digest(lab, "f")}
        (place / "go").touch()
        assert running.result(20).payload == b'"# old...\\n"'
    lab.lambda_.tidy(older_than_s=0)
    assert packages(lab) == {digest(lab, "f")}


# --- what functions send ----------------------------------------------------------------------


def test_a_function_that_writes_for_ever_fills_no_memory(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.services.lambda_.runtime.platform_log.LOG_INVOCATION_BYTES", 100 * 1000
    )
    lab.create("floods", "def handler(e, c):\n    for n in range(e): print('x' * 900)\n")
    for _ in range(2):
        lab.logs.lines.clear()
        lab.lambda_.invoker.invoke("floods", b"1000")
        messages = lab.logs.messages()
        assert messages.count("x" * 900) == 100
        assert messages[-1] == "headrace dropped 900 more lines of this invocation"
        assert any(line.startswith("REPORT") for line in messages)


def test_connections_to_the_runtime_api_are_few(lab: LambdaLab) -> None:
    lab.create(
        "greedy",
        "import os, socket\n"
        "def handler(event, context):\n"
        "    host, port = os.environ['AWS_LAMBDA_RUNTIME_API'].split(':')\n"
        "    global held\n"
        "    held = [socket.create_connection((host, int(port))) for _ in range(200)]\n"
        "    head = b'GET /' + b'x' * (4 << 20)\n"
        "    try:\n"
        "        held[0].sendall(head); held[0].recv(1)\n"
        "    except OSError:\n"
        "        pass\n",
        Timeout=20,
    )
    for _ in range(2):
        assert lab.lambda_.invoker.invoke("greedy", b"{}").function_error is None
    ((entry,),) = [list(lab.lambda_.pools._entries.values())]
    assert len(entry.pool._idle[0].channel._connections) <= 16


# --- answers that nobody reads ------------------------------------------------------------------


class Answering:
    """A dispatcher whose function answers in parts of a megabyte."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.sent = 0
        self.ended = threading.Event()

    def invoke(self, *_: object, on_start: object, sink: object, **__: object) -> InvokeResult:
        assert callable(on_start)
        assert callable(sink)
        on_start("$LATEST")
        for _number in range(self.parts):
            sink("text/plain", bytes(MIB))
            self.sent += 1
        self.ended.set()
        return InvokeResult(b"", None, "$LATEST", "r")


def stream_of(answering: Answering) -> AnswerStream:
    stream = AnswerStream(answering, ref("f"), b"{}")  # type: ignore[arg-type]
    stream.start()
    return stream


def test_an_answer_waits_for_its_reader() -> None:
    answering = Answering(50)
    stream = stream_of(answering)
    wait_until(lambda: answering.sent >= 4, what="the first parts")
    assert not answering.ended.wait(0.05)
    assert answering.sent <= 5
    parts = [item for item in stream.items() if isinstance(item, Part)]
    assert sum(len(part.data) for part in parts) == 50 * MIB


def test_a_function_runs_to_its_end_when_its_reader_goes_away() -> None:
    answering = Answering(50)
    items = stream_of(answering).items()
    next(items)
    items.close()
    assert answering.ended.wait(10)


def test_a_reader_that_stalls_is_told_that_the_end_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "STALLED_S", 0.02)
    answering = Answering(50)
    stream = stream_of(answering)
    assert answering.ended.wait(10)
    with pytest.raises(ReaderGone):
        list(stream.items())
    # What came before the end was cut off was passed on, and nothing more was kept.
    assert answering.sent == 50
    assert stream._results.qsize() <= 1
