"""`headrace plan`: sizes a pipeline for the load of a capture or of a live stream, with its cost."""

from __future__ import annotations

import base64
import gzip
import json
import math
import zlib
from collections import Counter
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from headrace.cli.options import NumberRange, client, endpoint_option, fail
from headrace.cli.stream_names import explain_stream_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.shards.loads import KeySketch
    from headrace.shards.planning import Load, Prices


# More than any stream takes.
_MOST = 1e9


@click.command()
@click.argument("source", metavar="STREAM|FILE")
@click.option(
    "--rate",
    "rate",
    type=NumberRange(0, _MOST, min_open=True),
    help="Records a second on average; needed for a FILE without times.",
)
@click.option(
    "--peak",
    type=NumberRange(0, _MOST, min_open=True),
    help="Records in the busiest second. Default: the FILE's, by its times; else twice the average.",
)
@click.option(
    "--times",
    type=NumberRange(0, _MOST, min_open=True),
    default=10.0,
    show_default=True,
    help="The what-if's load.",
)
@click.option(
    "--readers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Applications that read everything.",
)
@click.option(
    "--prices",
    "price_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with your Region's prices.",
)
@endpoint_option
def plan(
    source: str, *, rate: float | None, peak: float | None, times: float, readers: int, price_file: Path | None,
    endpoint_url: str, region: str, aws: bool,
) -> None:  # fmt: skip
    """Plan for the records of a capture, FILE, or of a live STREAM. A STREAM's are those of its last seconds.

    A FILE of `headrace tail STREAM --json` has its rate, its busiest second and its hottest key in it. It may be gzip.
    """
    from headrace.shards.planning import US_EAST_1
    from headrace.shards.planning import plan as make_plan

    prices = US_EAST_1 if price_file is None else _read_prices(price_file, US_EAST_1)
    path = Path(source)
    if path.is_file():
        load = _of_file(path, rate, readers)
    elif "/" in source and not source.startswith("arn:"):
        raise fail(f"{source} is {'a folder' if path.is_dir() else 'no file'}, and no stream.")
    else:
        load = _of_stream(
            source, rate, readers, {"endpoint_url": endpoint_url, "region": region, "aws": aws}
        )
    load = replace(load, peak_records_per_s=peak or load.peak_records_per_s)
    if load.peak_records_per_s < load.records_per_s:
        raise fail("--peak is less than the average.")
    for factor in dict.fromkeys((1.0, times)):
        scaled = load.times(factor)
        click.echo(
            f"{'' if factor == 1 else f'What if {factor:g} times: '}{_in_words(scaled.records_per_s)} records/s of"
            f" {scaled.mean_bytes:,.0f} bytes, peak {_in_words(scaled.peak_records_per_s)}"
        )
        result = make_plan(scaled, prices)
        for choice in (*result.modes, *result.readers):
            mark = "*" if choice is result.mode else " "
            click.echo(
                f" {mark} {choice.what:20} ${choice.dollars:>12,.2f}/month  {choice.size}; {choice.why}"
            )
        for warning in result.warnings:
            click.echo(f"   ! {warning}")
    click.echo(f"Prices: {prices.source}. * costs least.")


def _in_words(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _read_prices(path: Path, default: Prices) -> Prices:
    names = {field.name for field in fields(default)}
    try:
        content: Any = json.loads(path.read_text())
        unknown = sorted(set(content) - names)
        if unknown:
            raise fail(
                f"{path}: there is no price {unknown[0]!r}; there are {', '.join(sorted(names))}."
            )
        for name, value in content.items():
            is_text = isinstance(value, str)
            is_price = type(value) in (int, float) and 0 <= value < math.inf
            if not (is_text if name == "source" else is_price):
                raise fail(
                    f"{path}: {name} is {'a text' if name == 'source' else 'dollars'}, not {value!r}."
                )
        given: dict[str, Any] = {"source": str(path), **content}
        return replace(default, **given)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise fail(f"{path} is no JSON object of prices: {error}") from error
    except OSError as error:
        raise fail(f"{path} cannot be read: {error.strerror}.") from error


def _of_file(path: Path, rate: float | None, readers: int) -> Load:
    from headrace.shards.planning import Load

    try:
        content = path.read_bytes()
    except OSError as error:
        raise fail(f"{path} cannot be read: {error.strerror}.") from error
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise fail(f"{path} is no whole gzip file: {error}") from error
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise fail(f"{path} has no records.")
    if b'"approximateArrivalTimestamp"' in lines[0]:
        return _of_tail(path, lines, rate, readers)
    if rate is None:
        raise fail("A file of bare records has no rate: give --rate, records a second.")
    return Load([len(line) for line in lines], rate, 2 * rate, readers=readers)


def _of_tail(path: Path, lines: list[bytes], rate: float | None, readers: int) -> Load:
    """Return the load of what `headrace tail --json` printed: each record's own size, key and time."""
    from headrace.shards.planning import Load

    sizes: list[int] = []
    keys: Counter[str] = Counter()
    seconds: Counter[int] = Counter()
    times: list[float] = []
    for number, line in enumerate(lines, 1):
        try:
            record: Any = json.loads(line)
            data = record.get("data")
            bare = base64.b64decode(record["dataBase64"]) if data is None else data.encode()
            at = datetime.fromisoformat(record["approximateArrivalTimestamp"]).timestamp()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise fail(
                f"{path}: line {number} is no record of headrace tail --json: {error}"
            ) from error
        key = str(record.get("partitionKey", ""))
        sizes.append(len(bare) + len(key.encode()))
        keys[key] += 1
        seconds[int(at)] += 1
        times.append(at)
    average = len(lines) / max(1.0, max(times) - min(times))
    burst = max(seconds.values()) / average
    share = max(keys.values()) / len(lines)
    average = rate or average
    return Load(sizes, average, max(1.0, burst) * average, share, readers=readers)


def _of_stream(stream: str, rate: float | None, readers: int, reach: dict[str, Any]) -> Load:
    from headrace.client.clock import SystemClock
    from headrace.client.hash_keys import name_member
    from headrace.shards.planning import Load
    from headrace.shards.scaling import Sampler

    kinesis = client("kinesis", **reach)
    with explain_stream_errors(kinesis, stream):
        seen = Sampler(kinesis, name_member(stream), SystemClock(), sample_s=10.0).look()
    if not seen.records_per_s:
        raise fail(
            f"{stream} had no records in the last 10 seconds: put load on it, or give a FILE and --rate."
        )
    average = rate or seen.records_per_s
    sketches = cast("Mapping[str, KeySketch]", seen.keys).values()
    total = sum(sketch.total for sketch in sketches)
    tops = [(key.share * s.total / total) for s in sketches for key in s.hottest(1)]
    hottest = max(tops, default=0.0)
    return Load(seen.record_bytes, average, 2 * average, hottest, readers=readers)
