"""`headrace lag` and `headrace top`: the resources of a pipeline with their rates and lag, those that fail first."""

from __future__ import annotations

import json
import urllib.error
from collections import Counter
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import NumberRange, endpoint_url_option, fail, fetch_page
from headrace.core.clock import SystemClock

if TYPE_CHECKING:
    from rich.table import Table

# What a shard takes in a second (documented: Kinesis' quotas).
_SHARD_RECORDS = 1_000
_SHARD_BYTES = 1_048_576
# From this lag on a resource is late, on the page as here.
_LATE_MS = 60_000
_BARS = "▁▂▃▄▅▆▇█"
_SPARK_POINTS = 12


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@endpoint_url_option
def lag(*, as_json: bool, endpoint_url: str) -> None:
    """Show what reads and writes, how fast and how late, what fails first; exit 2 when something fails."""
    answer = read_pipeline(endpoint_url)
    rows: list[dict[str, Any]] = answer["resources"]
    if as_json:
        click.echo(json.dumps(answer))
    else:
        _print(_list_table(rows), answer["refused"])
    if any(row["problem"] for row in rows):
        raise SystemExit(2)


@click.command()
@click.option("--once", is_flag=True, help="Print one table and end.")
@click.option(
    "--every",
    "every_s",
    type=NumberRange(0.2, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@endpoint_url_option
def top(*, once: bool, every_s: float, endpoint_url: str) -> None:
    """Show live what moves: rates, heat, lag, what fails first; Ctrl-C ends it.

    Heat is the share of a stream's write limits (1,000 records and 1 MiB a second for each shard) that is in use.
    """
    answer = read_pipeline(endpoint_url)
    if once:
        _print(_top_table(answer), answer["refused"])
        return
    from rich.live import Live

    clock, never = SystemClock(), Event()
    with Live(_top_table(answer), auto_refresh=False, screen=True) as live:
        while not clock.wait(never, every_s):
            live.update(_top_table(read_pipeline(endpoint_url)), refresh=True)


def read_pipeline(endpoint_url: str) -> dict[str, Any]:
    """Return what the page's API says of all resources, failing and late ones first. Raises ClickException."""
    try:
        return fetch_page(endpoint_url, "api/resources")
    except urllib.error.HTTPError as error:
        with error:
            try:
                reason = json.load(error)["message"]
            except (ValueError, TypeError, KeyError):
                reason = f"{error.reason}."
            raise fail(f"{endpoint_url} answered {error.code}: {reason}") from error


def describe_pipeline(answer: dict[str, Any]) -> dict[str, str]:
    """Return the answer of `read_pipeline` in words: how many of which kind, what fails, is late, and is refused."""
    if problem := answer.get("problem"):
        return {"pipeline": str(problem)}
    rows: list[dict[str, Any]] = answer["resources"]
    kinds = Counter(str(row["kind"]) for row in rows)
    words = {
        "pipeline": ", ".join(_count(kind, number) for kind, number in kinds.items()) or "empty",
        "failing": "; ".join(f"{_title(row)}: {row['problem']}" for row in rows if row["problem"]),
        "late": "; ".join(
            f"{_title(row)}: {_seconds(row['reading'][4])}" for row in rows if _is_late(row)
        ),
        "not read": "; ".join(
            f"{one['service']}:{one['operation']}: {one['code']}" for one in answer["refused"]
        ),
    }
    return {label: text for label, text in words.items() if text}


def _count(kind: str, number: int) -> str:
    several = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return f"{number} {kind if number == 1 else several}"


def _title(row: dict[str, Any]) -> str:
    return f"{row['kind']} {_name(row)}"


def _is_late(row: dict[str, Any]) -> bool:
    return not row["problem"] and row["reading"] is not None and (row["reading"][4] or 0) > _LATE_MS


def _print(table: Table, refused: list[dict[str, str]]) -> None:
    from rich.console import Console

    Console(soft_wrap=True).print(table)
    for one in refused:
        click.echo(
            f"{one['service']}:{one['operation']}: {one['code']}: {one['message']}", err=True
        )


def _name(row: dict[str, Any]) -> str:
    if row["kind"] == "mapping":
        return f"{row['facts']['source']} → {row['facts']['function']}"
    return str(row["facts"].get("title") or row["name"])


def _list_table(rows: list[dict[str, Any]]) -> Table:
    table = _new_table("kind", "name", "state", "records/s", "waiting", "lag", "problem")
    for row in rows:
        rate, _, _, waiting, lag_ms, _ = row["reading"] or [None] * 6
        figures = (_figure(rate, ".1f"), _figure(waiting), _seconds(lag_ms))
        _add(table, row["kind"], _name(row), row["state"], *figures, row["problem"])
    return table


def _top_table(answer: dict[str, Any]) -> Table:
    table = _new_table(
        "kind", "name", "rec/s", "KiB/s", "minute", "heat", "waiting", "lag", "problem"
    )
    # Names and problems give way in a narrow terminal, figures do not.
    for column in table.columns:
        column.no_wrap = column.header not in ("name", "problem")
    time = datetime.fromtimestamp(answer["timeMs"] / 1000, UTC)
    table.title = f"{time:%H:%M:%S} UTC"
    for row in answer["resources"]:
        rate, size, _, waiting, lag_ms, _ = row["reading"] or [None] * 6
        figures = (
            _figure(rate, ".1f"),
            _figure(None if size is None else size / 1024, ".1f"),
            _spark(row),
            _heat(row, rate, size),
            _figure(waiting),
            _seconds(lag_ms),
        )
        _add(table, row["kind"], _name(row), *figures, row["problem"])
    return table


def _new_table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None)
    for heading in headings:
        table.add_column(heading)
    return table


def _add(table: Table, *cells: object) -> None:
    from rich.markup import escape

    table.add_row(*(escape(str(cell)) for cell in cells))


def _figure(value: float | None, form: str = "") -> str:
    return "" if value is None else format(value, f",{form}")


def _seconds(lag_ms: float | None) -> str:
    return "" if lag_ms is None else f"{lag_ms / 1000:,.1f} s"


def _spark(row: dict[str, Any]) -> str:
    """Return the rates of the last minute as bars; nothing when nothing moved."""
    rates = [point[0] or 0 for point in row["spark"]][-_SPARK_POINTS:]
    most = max(rates, default=0)
    if not most:
        return ""
    return "".join(_BARS[round(rate / most * (len(_BARS) - 1))] for rate in rates)


def _heat(row: dict[str, Any], rate: float | None, size: float | None) -> str:
    shards = row["facts"].get("shards") if row["kind"] == "stream" else None
    if not shards:
        return ""
    used = max((rate or 0) / _SHARD_RECORDS, (size or 0) / _SHARD_BYTES) / shards
    return f"{used:.0%}"
