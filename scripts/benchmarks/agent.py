"""Measures `headrace agent`: lines of a file into a stream, beside our producer alone with the same lines in memory.

Neither Kinesis Agent (Maven), nor Fluent Bit, nor Vector can be had from PyPI, npm or Debian:
the producer is the ceiling.
The server is on the first processor, the agent on the second; the turns alternate, and their medians count.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
from rich.console import Console
from rich.table import Table

from headrace.agent.flume.building import FlumeRun, build
from headrace.agent.kinesis_agent import read_agent_json
from headrace.agent.positions import PositionStore
from headrace.agent.running import FlowRunner, KinesisSender
from headrace.cli.main import collect_garbage_seldom
from headrace.cli.options import client_options
from headrace.client import Producer
from headrace.core.clock import SystemClock
from scripts.benchmarks.sdk import client_of
from scripts.benchmarks.servers import processors, running

GOAL = 200_000
LINE = b'127.0.0.1 - - [27/Nov/2026:06:00:00 +0000] "GET /%07d HTTP/1.1" 200 512\n'


def _producer(port: int, *, aggregate: bool) -> Producer:
    options = client_options(endpoint_url=f"http://127.0.0.1:{port}", region="us-east-1", aws=False)
    return Producer("logs", aggregate=aggregate, give_up_after_s=None, **options)


def _agent_rate(folder: Path, turn: str, lines: int, port: int, *, aggregate: bool) -> float:
    """Return the lines per second of the agent: from its first look to the stored position."""
    configuration = folder / "agent.json"
    stop, clock = threading.Event(), SystemClock()
    flow = read_agent_json(configuration).flows[0]
    store = PositionStore(folder / f"{turn}.json")
    runner = FlowRunner(
        flow, store,
        lambda _: KinesisSender(_producer(port, aggregate=aggregate), stop, is_random_key=True),
        clock, stop,
    )  # fmt: skip
    started = time.perf_counter()
    runner.run(once=True)
    took_s = time.perf_counter() - started
    if runner.counts.records != lines:
        raise click.ClickException(f"{runner.counts.records} of {lines} lines were sent")
    return lines / took_s


def _flume_rate(folder: Path, turn: str, lines: int, port: int, channel: str) -> float:
    """Return the lines per second of Flume's TAILDIR through a channel into Kinesis, aggregated."""
    configuration, stop, clock = folder / f"{turn}.conf", threading.Event(), SystemClock()
    configuration.write_text(
        f"a.sources = s\na.channels = c\na.sinks = k\na.channels.c.type = {channel}\n"
        "a.channels.c.capacity = 200000\na.channels.c.transactionCapacity = 20000\n"
        + (f"a.channels.c.dataDirs = {folder}/{turn}\n" if channel == "file" else "")
        + "a.sources.s.type = TAILDIR\na.sources.s.channels = c\na.sources.s.filegroups = f\n"
        f"a.sources.s.filegroups.f = {folder}/app.log\na.sources.s.positionFile = {folder}/{turn}.positions\n"
        "a.sinks.k.type = kinesis\na.sinks.k.channel = c\na.sinks.k.streamName = logs\na.sinks.k.batchSize = 20000\n"
    )
    started = time.perf_counter()
    agent = build(configuration, "a", _Reach(port), clock, stop)
    FlumeRun(agent, clock, stop).run(once=True)
    took_s = time.perf_counter() - started
    if agent.sinks["k"].counts.events != lines:
        raise click.ClickException(f"{agent.sinks['k'].counts.events} of {lines} events were sent")
    return lines / took_s


class _Reach:
    def __init__(self, port: int) -> None:
        self._port = port

    def producer(self, stream: str, options: object) -> Producer:
        del stream, options
        return _producer(self._port, aggregate=True)

    def client(self, service: str, options: object) -> NoReturn:
        del options
        raise NotImplementedError(service)


def _ceiling(lines: int, port: int) -> float:
    records = [LINE % number for number in range(lines)]
    started = time.perf_counter()
    with _producer(port, aggregate=True) as producer:
        for at in range(0, lines, 500):
            for record in records[at : at + 500]:
                producer.put(record, f"{at:016x}")
    return lines / (time.perf_counter() - started)


@click.command()
@click.option("--lines", default=500_000, show_default=True)
@click.option("--turns", default=3, show_default=True)
def main(lines: int, turns: int) -> None:
    """Run the turns and print the table."""
    # As the command does.
    collect_garbage_seldom()
    first, second = processors()
    os.sched_setaffinity(0, {second})
    rates: dict[str, list[float]] = {}
    spent_us: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, running("headrace", first) as server:
        folder = Path(name)
        log = folder / "app.log"
        log.write_bytes(b"".join(LINE % number for number in range(lines)))
        (folder / "agent.json").write_text(
            f'{{"flows": [{{"filePattern": "{log}", "kinesisStream": "logs", "initialPosition": "START_OF_FILE"}}]}}'
        )
        kinesis = client_of("kinesis", server.port)
        kinesis.create_stream(StreamName="logs", ShardCount=4)
        kinesis.get_waiter("stream_exists").wait(StreamName="logs")
        for turn in range(turns):
            of_turn: dict[str, Callable[[], float]] = {}
            for label, aggregate in (("agent, --aggregate", True), ("agent", False)):
                of_turn[label] = partial(
                    _agent_rate,
                    folder,
                    f"{turn}-{aggregate}",
                    lines,
                    server.port,
                    aggregate=aggregate,
                )
            for channel in ("memory", "file"):
                of_turn[f"Flume's TAILDIR, {channel} channel, --aggregate"] = partial(
                    _flume_rate, folder, f"{turn}-{channel}", lines, server.port, channel
                )
            of_turn["the producer alone, aggregated"] = partial(_ceiling, lines, server.port)
            for label, measure in of_turn.items():
                before_s = time.process_time()
                rates.setdefault(label, []).append(measure())
                spent_us.setdefault(label, []).append(
                    (time.process_time() - before_s) / lines * 1e6
                )
    table = Table("what", "lines/s", "µs of processor time a line", "goal")
    for label, of_turns in rates.items():
        rate = statistics.median(of_turns)
        goal = (
            f">= {GOAL:,}: {'met' if rate >= GOAL else 'NOT MET'}"
            if label.endswith("--aggregate")
            else ""
        )
        table.add_row(label, f"{rate:,.0f}", f"{statistics.median(spent_us[label]):.2f}", goal)
    Console().print(table)


if __name__ == "__main__":
    main()
