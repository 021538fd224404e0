"""`headrace tail`: prints the records of a stream as they come, here or on AWS (`--aws`)."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli.interrupts import reader_is_gone
from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.core.clock import SystemClock

# AWS allows five reads per second and shard.
POLL_EVERY_S = 0.2
POLL_AWS_EVERY_S = 0.25


@click.command()
@click.argument("stream")
@click.option(
    "--from",
    "start",
    default="LATEST",
    show_default=True,
    help="LATEST, TRIM_HORIZON, or an ISO time.",
)
@click.option("--limit", "-n", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--drain", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print each record as a JSON object with its metadata."
)
@endpoint_option
def tail(
    stream: str,
    start: str,
    limit: int | None,
    *,
    drain: bool,
    as_json: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Print the records of STREAM as they come, all shards, parents before children."""
    from botocore.exceptions import BotoCoreError, ClientError

    position = _position(start)
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    records = _follow(kinesis, stream, position, drain=drain, aws=aws)
    try:
        for shard_id, record in itertools.islice(records, limit):
            click.echo(_line(shard_id, record, as_json=as_json))
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error


def _position(start: str) -> dict[str, Any]:
    if start.upper() in ("LATEST", "TRIM_HORIZON"):
        return {"ShardIteratorType": start.upper()}
    try:
        at = datetime.fromisoformat(start)
    except ValueError as error:
        raise fail(f"--from is LATEST, TRIM_HORIZON or an ISO time, not {start!r}.") from error
    return {
        "ShardIteratorType": "AT_TIMESTAMP",
        "Timestamp": at if at.tzinfo else at.replace(tzinfo=UTC),
    }


def _follow(
    kinesis: Any, stream: str, position: dict[str, Any], *, drain: bool, aws: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield records: those of shards that exist now from `position` on, those of later shards from their start.

    So a child that exists already is not read from its start, which would show records from before `position`.
    """
    clock, never = SystemClock(), threading.Event()
    shards = _list_shards(kinesis, stream)
    known = {shard["ShardId"] for shard in shards}
    waiting = {s["ShardId"]: s for s in shards if _parents(s) & known}
    at_start = {s["ShardId"]: _iterator(kinesis, stream, s["ShardId"], position) for s in shards}
    iterators = {name: at_start[name] for name in at_start if name not in waiting}
    ended: set[str] = set()
    while iterators:
        idle = True
        for shard_id in list(iterators):
            answer = kinesis.get_records(ShardIterator=iterators[shard_id], Limit=10_000)
            for record in answer["Records"]:
                idle = False
                yield shard_id, record
            following = answer.get("NextShardIterator")
            if following:
                iterators[shard_id] = following
                if drain and not answer["MillisBehindLatest"] and not answer["Records"]:
                    del iterators[shard_id]
                continue
            del iterators[shard_id]
            ended.add(shard_id)
            idle = False
            for child in answer.get("ChildShards", []):
                waiting.setdefault(child["ShardId"], {**child, "parents": child["ParentShards"]})
        for shard_id, shard in list(waiting.items()):
            if _parents(shard) & known <= ended:
                del waiting[shard_id]
                known.add(shard_id)
                start = position if shard_id in at_start else {"ShardIteratorType": "TRIM_HORIZON"}
                # The end is that of the beginning; other positions are taken now, since iterators expire.
                is_end = start["ShardIteratorType"] == "LATEST"
                iterators[shard_id] = (
                    at_start[shard_id] if is_end else _iterator(kinesis, stream, shard_id, start)
                )
        if idle and iterators:
            if reader_is_gone():
                raise BrokenPipeError
            clock.wait(never, POLL_AWS_EVERY_S if aws else POLL_EVERY_S)


def _iterator(kinesis: Any, stream: str, shard_id: str, position: dict[str, Any]) -> str:
    answer = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard_id, **position)
    return answer["ShardIterator"]


def _list_shards(kinesis: Any, stream: str) -> list[dict[str, Any]]:
    answer = kinesis.list_shards(StreamName=stream)
    shards = list(answer["Shards"])
    while answer.get("NextToken"):
        answer = kinesis.list_shards(NextToken=answer["NextToken"])
        shards += answer["Shards"]
    return shards


def _parents(shard: dict[str, Any]) -> set[str]:
    if "parents" in shard:
        return set(shard["parents"])
    return {shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if shard.get(name)}


def _line(shard_id: str, record: dict[str, Any], *, as_json: bool) -> str | bytes:
    data: bytes = record["Data"]
    if not as_json:
        return data
    try:
        shown = {"data": data.decode()}
    except UnicodeDecodeError:
        shown = {"dataBase64": base64.b64encode(data).decode()}
    return json.dumps(
        {
            "shardId": shard_id,
            "sequenceNumber": record["SequenceNumber"],
            # A stream that distributes records itself also has records without a key.
            **({"partitionKey": record["PartitionKey"]} if "PartitionKey" in record else {}),
            "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"]
            .astimezone(UTC)
            .isoformat(timespec="milliseconds"),
            **shown,
        }
    )
