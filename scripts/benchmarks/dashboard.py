"""Measures the page with a stream of 1,000 shards and a pipeline of 200 nodes, and what it costs the cloud.

`scripts/bench dashboard` prints the time that the page's script takes for an update (p50, p95, in milliseconds), the
processor time that the cloud takes without a page and with one open, in percent of a core, and what PutRecords costs
the cloud without a page, with an open list and with the page of the stream, by turns (processor time is little changed
by what else the machine does). `--puts` measures only the last.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3

from scripts.benchmarks.interleaved import kinesis as kinesis_call
from scripts.benchmarks.wire import Connection
from tests.dashboard.browser import Page
from tests.security.browser import find_chromium
from tests.support.server import ServerProcess

# Of PutRecords: turns, calls in a turn, records in a call, and their bytes.
TURNS, CALLS, RECORDS, RECORD_BYTES = 15, 3_000, 100, 200
SHARDS, NODES, UPDATES, IDLE_S = 1_000, 200, 30, 30
# Gives the page's own `apply` an event in which every figure differs, and waits for the frame that shows it.
UPDATE = """(async () => {
  const {apply, resources} = await import('/_headrace/dashboard/lib.js');
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const n = %d, readings = {}, shards = {};
  resources.value.forEach((one, i) => { readings[one.id] = [n * 7 + i, 100 * n, 0, n, n * 10, '']; });
  for (let i = 0; i < %d; i += 1) {
    shards[`shardId-${String(i).padStart(12, '0')}`] = [(n * 37 + i) %% 1000, 1000, 0, null, null, ''];
  }
  await frame();
  const start = performance.now();
  apply({timeMs: Date.now(), version: '', readings, shards});
  await frame();
  return performance.now() - start;
})()"""

# An account may have 500 shards, here as on AWS: the page is told of more.
WIDE = """(() => {
  const real = window.fetch, size = 2n ** 128n / %dn;
  window.fetch = async (...asked) => {
    const answer = await real(...asked);
    if (!/streams\\/wide$/.test(String(asked[0]))) return answer;
    const value = await answer.json();
    value.shards = Array.from({length: Number(2n ** 128n / size)}, (_, i) => ({
      shardId: `shardId-${String(i).padStart(12, '0')}`, parents: [], isOpen: true, startingSequenceNumber: '0',
      startingHashKey: String(BigInt(i) * size), endingHashKey: String(BigInt(i + 1) * size - 1n),
    }));
    return new Response(JSON.stringify(value));
  };
})()"""


def main() -> None:
    """Measure and print."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        ServerProcess(Path(folder) / "data") as server,
        Page(find_chromium()) as page,
    ):
        kinesis: Any = boto3.client(
            "kinesis",
            endpoint_url=server.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        if "--puts" in sys.argv:
            _puts(server, kinesis)
            return
        _idle(server, "without a page")
        page.visit(f"{server.endpoint_url}/_headrace/", "create-stream")
        _idle(server, "with an idle page")
        _puts(server, kinesis)
        kinesis.create_stream(StreamName="wide", ShardCount=1)
        page.do("init", code=WIDE % SHARDS)
        for number in range(NODES - 1):
            kinesis.create_stream(StreamName=f"stream-{number:03}", ShardCount=1)
        time.sleep(2)
        for path, text in (
            ("streams/wide", "1000 open shards"),
            ("map", "stream-100"),
            ("", "stream-100"),
        ):
            page.visit(f"{server.endpoint_url}/_headrace/#/{path}", text)
            _updates(page, path or "the list")
        _idle(server, f"with a page of {NODES} streams")


def _updates(page: Page, what: str) -> None:
    """Print how long updates take until they are seen, and their processor time, which holds under load too."""
    clock_ms, cpu_ms = list[float](), list[float]()
    for number in range(1, UPDATES + 1):
        before = page.do("cpu")
        clock_ms.append(page.do("eval", code=UPDATE % (number, SHARDS)))
        cpu_ms.append(page.do("cpu") - before)
    for values, words in ((clock_ms, "by the clock"), (cpu_ms, "of processor time")):
        values.sort()
        half, most = values[len(values) // 2], values[int(len(values) * 0.95)]
        print(f"update of {what}: p50 {half:.1f} ms, p95 {most:.1f} ms {words}")


# What the page of a stream asks for, and how often, in seconds; the list asks for its events alone.
_ASKED = {
    "api/streams/busy": 5.0,
    "api/history?id=stream:busy": 2.0,
    "api/streams/busy/keys": 10.0,
}


@contextlib.contextmanager
def _watching(server: ServerProcess, stream: str, asked: Mapping[str, float]) -> Iterator[None]:
    """Listen and ask as a page does, without a browser, whose own work would be measured too."""
    over = threading.Event()
    url = f"{server.endpoint_url}/_headrace/"

    def listen() -> None:
        events = f"{url}api/events" + (f"?stream={stream}" if stream else "")
        with urllib.request.urlopen(events, timeout=30) as answer:
            while not over.is_set():
                answer.readline()

    def ask() -> None:
        due = dict.fromkeys(asked, 0.0)
        while not over.wait(0.1):
            for path, every_s in asked.items():
                if time.monotonic() >= due[path]:
                    due[path] = time.monotonic() + every_s
                    with urllib.request.urlopen(url + path, timeout=30) as answer:
                        answer.read()

    threads = [threading.Thread(target=one, daemon=True) for one in (listen, ask)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def _puts(server: ServerProcess, kinesis: Any) -> None:
    """Print the processor time that the cloud takes for a record, by what is open, as medians over the turns."""
    kinesis.create_stream(StreamName="busy", ShardCount=4)
    kinesis.get_waiter("stream_exists").wait(StreamName="busy", WaiterConfig={"Delay": 1})
    data = "QUJD" * (RECORD_BYTES // 3)
    records = [{"Data": data, "PartitionKey": f"k{number}"} for number in range(RECORDS)]
    call = kinesis_call("PutRecords", "PutRecords", {"StreamName": "busy", "Records": records})
    request, connection = call.signed("test"), Connection(server.port)
    assert json.loads(connection.call(request))["FailedRecordCount"] == 0
    cpu_us: dict[str, list[float]] = {"no page": [], "the list": [], "the stream's page": []}
    call_ms: dict[str, list[float]] = {view: [] for view in cpu_us}
    for turn in range(TURNS + 1):
        for view in cpu_us:
            with contextlib.ExitStack() as stack:
                if view == "the list":
                    stack.enter_context(_watching(server, "", {}))
                elif view != "no page":
                    stack.enter_context(_watching(server, "busy", _ASKED))
                time.sleep(2)  # until the first requests are answered
                before, times = _cpu_s(server.pid), list[float]()
                for _ in range(CALLS):
                    start = time.perf_counter()
                    connection.exchange(request)
                    times.append(time.perf_counter() - start)
                spent_s = _cpu_s(server.pid) - before
            if turn:  # the first turn warms up
                cpu_us[view].append(1e6 * spent_s / (CALLS * RECORDS))
                call_ms[view].append(1e3 * statistics.median(times))
    for view, costs in cpu_us.items():
        ratios = [one / bare for one, bare in zip(costs, cpu_us["no page"], strict=True)]
        print(
            f"PutRecords with {view}: {statistics.median(costs):.3f} us of processor time a record"
            f" ({min(costs):.3f} to {max(costs):.3f}), {statistics.median(ratios):.3f} times that without a page;"
            f" a call {statistics.median(call_ms[view]):.2f} ms; load {os.getloadavg()[0]:.1f}"
        )


def _idle(server: ServerProcess, what: str) -> None:
    """Print the processor time that the cloud takes in a while."""
    time.sleep(5)
    before = _cpu_s(server.pid)
    time.sleep(IDLE_S)
    print(f"{what}: {100 * (_cpu_s(server.pid) - before) / IDLE_S:.2f} % of a core")


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process's threads, as the scheduler counts it: in nanoseconds, not in ticks."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()
