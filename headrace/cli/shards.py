"""`headrace shards`: shows a stream's shards and their load, splits and merges them, here or on AWS (`--aws`)."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.options import NumberRange, client, endpoint_option, fail
from headrace.cli.shards_simulate import simulate
from headrace.cli.stream_names import explain_stream_errors
from headrace.client.clock import SystemClock
from headrace.client.hash_keys import ShardRange, hash_key_of
from headrace.client.record_checks import check_record
from headrace.client.streams import name_member
from headrace.shards.loads import StreamLoad
from headrace.shards.policy import Action, Merge, Split, name_of
from headrace.shards.scaling import Resharder, Sampler, pause

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
    """Show the shards of a stream as `headrace shards STREAM`; split and merge them; simulate the policy."""


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
    """Show the ring of STREAM's hash keys with heat, lineage and hottest keys, live."""
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
