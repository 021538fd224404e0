"""Commands about the cloud of a folder: `headrace down`, `status`, `env`, `lag` and `top`."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import textwrap
import threading
import urllib.error
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import (
    NumberRange,
    data_dir_option,
    endpoint_url_option,
    fail,
    fetch_page,
    print_table,
    usable,
)
from headrace.cli.running_cloud import (
    LOOK_EVERY_S,
    STOP_WITHIN_S,
    find_region,
    health,
    health_at,
    held_data_dirs,
    missing_cloud,
    moto_phrase,
    print_losses,
    silent_cloud,
)
from headrace.client.pages import Keys, keys_of
from headrace.core.clock import SystemClock

if TYPE_CHECKING:
    from rich.table import Table
_AS_THEY_ARE = ("endpoint_url", "status", "pid", "data_dir", "version")
# Columns for a list in a terminal too narrow to be used.
_NARROWEST = 20
# Columns for a table that goes to a file or to grep.
_WIDEST = 200


@click.command()
@data_dir_option
def down(data_dir: Path) -> None:
    """Stop the cloud that runs on the data directory."""
    usable(data_dir)
    running = health(data_dir)
    if running is None:
        raise fail(silent_cloud(data_dir) or f"No headrace runs on {data_dir}.")
    pid = int(running["pid"])
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise fail(
            f"The cloud on {data_dir} (pid {pid}) belongs to another user; stop it as that user."
        ) from None
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + STOP_WITHIN_S
    while clock.monotonic_s() < deadline_s:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            click.echo("headrace is stopped")
            return
        clock.wait(never, LOOK_EVERY_S)
    raise fail(
        f"headrace (pid {pid}) did not stop within {STOP_WITHIN_S:.0f} s; end it: kill -9 {pid}"
    )


@click.command()
@data_dir_option
@click.option("--all", "of_all", is_flag=True, help="List every cloud of this user that runs here.")
@click.option("--endpoint-url", help="Show the cloud at this URL, whatever its data directory.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def status(data_dir: Path, endpoint_url: str | None, *, of_all: bool, as_json: bool) -> None:
    """Show the cloud that runs on the data directory, or at a URL. Exit 1 when none does."""
    if of_all:
        _print_all(as_json=as_json)
        return
    running = _find_running(data_dir, endpoint_url)
    pipeline: dict[str, Any]
    try:
        pipeline = read_pipeline(running["endpoint_url"])
        pipeline["addresses"] = read_addresses(running["endpoint_url"])
    except click.ClickException as error:
        # The cloud itself is described all the same.
        pipeline = {"resources": [], "refused": [], "problem": error.message}
    if as_json:
        click.echo(json.dumps({**running, "pipeline": pipeline}))
        return
    fields: list[tuple[str, str]] = [
        (name.replace("_", " "), str(running[name])) for name in _AS_THEY_ARE
    ]
    # An address or a path that is broken into lines cannot be copied; a list can be.
    lists = {
        "moto": moto_phrase(running),
        "services": ", ".join(running["services"]) + " (others: moto)",
        **describe_pipeline(pipeline),
    }
    label_width = max(map(len, [*_AS_THEY_ARE, *lists])) + 2
    width = max(shutil.get_terminal_size().columns - label_width, _NARROWEST)
    for name, text in lists.items():
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        fields += zip([name] + [""] * len(lines), lines, strict=False)
    for number, one in enumerate(pipeline.get("addresses", ())):
        label = "" if number else "addresses"
        fields.append((label, f"{one['url']}  {one['kind']} {one['name']}"))
    for label, text in fields:
        click.echo(f"{label:<{label_width}}{text}")
    print_losses(running)


def _find_running(data_dir: Path, endpoint_url: str | None) -> dict[str, Any]:
    """Return the health page of a cloud. Raises ClickException where none runs."""
    if endpoint_url is None:
        usable(data_dir)
        running = health(data_dir)
        if running is None:
            raise fail(missing_cloud(data_dir))
        # A cloud with --auth answers this only to requests with a key.
        return {"data_dir": str(data_dir.absolute()), **running}
    running = health_at(endpoint_url.rstrip("/"))
    if "pid" not in running:
        raise fail(f"No headrace answers at {endpoint_url}.")
    return {"data_dir": "unknown", **running, "endpoint_url": endpoint_url.rstrip("/")}


def _print_all(*, as_json: bool) -> None:
    """Print a line for each cloud of this machine: address, process, state, data directory."""
    try:
        folders = held_data_dirs()
    except OSError as error:
        raise fail(
            "This system does not list file locks, by which clouds are found; ask for one: headrace status --data-dir"
            " FOLDER"
        ) from error
    pages: list[dict[str, Any]] = []
    for folder in sorted(folders):
        page = health(folder) or {"endpoint_url": None, "pid": None, "status": "does not answer"}
        pages.append({**page, "data_dir": str(folder)})
    if as_json:
        click.echo(json.dumps(pages))
    if not pages:
        raise fail("No headrace of this user runs here; start one: headrace up")
    for page in [] if as_json else pages:
        url, pid = page["endpoint_url"] or "-", page["pid"] or "-"
        click.echo(f"{url:<26} {pid:>8} {page['status']:<8} {page['data_dir']}")


@click.command()
@data_dir_option
def env(data_dir: Path) -> None:
    """Print the exports for the cloud of the data directory. Use: eval "$(headrace env)".

    They are the address, the region and the keys, for sh, bash and zsh. A profile and a session token of before are
    unset: some SDKs would prefer them. Without a running cloud nothing is printed, and the exit code is 1.
    """
    usable(data_dir)
    running = health(data_dir)
    if running is None:
        raise fail(missing_cloud(data_dir))
    # Without --auth any key is accepted.
    keys = keys_of(data_dir) or Keys("test", "test")
    region = find_region(data_dir)
    exports = {
        "AWS_ENDPOINT_URL": running["endpoint_url"],
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
    }
    # Semicolons: in eval $(headrace env), without quotes, the line ends are lost.
    for name, value in exports.items():
        click.echo(f"export {name}={shlex.quote(value)};")
    click.echo("unset AWS_SESSION_TOKEN AWS_PROFILE;")


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
    """Show what reads and writes, how fast and how late. What fails comes first; exit 2 when something fails."""
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
    """Show live what moves: rates, heat, lag. What fails comes first; Ctrl-C ends it.

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
    return _read_api(endpoint_url, "resources")


def read_addresses(endpoint_url: str) -> list[dict[str, str]]:
    """Return kind, name and URL of every stage of an API and of every function URL. Raises ClickException."""
    found = _read_api(endpoint_url, "addresses")["addresses"]
    # http:// becomes ws://, and https:// wss://.
    base = {"WebSocket API": f"ws{endpoint_url.removeprefix('http')}"}
    return [
        {
            "kind": one["kind"],
            "name": one["name"],
            "url": base.get(one["kind"], endpoint_url) + one["path"],
        }
        for one in found
    ]


def _read_api(endpoint_url: str, name: str) -> dict[str, Any]:
    try:
        return fetch_page(endpoint_url, f"api/{name}")
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
    several = (
        f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}{'es' if kind.endswith('s') else 's'}"
    )
    return f"{number} {kind if number == 1 else several}"


def _title(row: dict[str, Any]) -> str:
    return f"{row['kind']} {_name(row)}"


def _is_late(row: dict[str, Any]) -> bool:
    return not row["problem"] and row["reading"] is not None and (row["reading"][4] or 0) > _LATE_MS


def _print(table: Table, refused: list[dict[str, str]]) -> None:
    print_table(table, _WIDEST)
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
