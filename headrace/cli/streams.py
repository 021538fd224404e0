"""`headrace put` and `headrace tail`: records into and out of a stream, here or on AWS (`--aws`)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from headrace.cli.options import client, endpoint_option, explain, fail
from headrace.core.clock import SystemClock

# AWS allows five reads a second and shard.
POLL_EVERY_S = 0.2
POLL_AWS_EVERY_S = 0.25
RECORDS_PER_PUT = 500
BYTES_PER_PUT = 4 * 1024 * 1024


@click.command()
@click.argument("stream")
@click.argument("data", required=False)
@click.option("--key", "-k", help="Partition key; default: a digest of the data.")
@endpoint_option
def put(
    stream: str, data: str | None, key: str | None, *, endpoint_url: str, region: str, aws: bool
) -> None:
    """Put DATA, or each line of standard input, into STREAM."""
    import hashlib

    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    lines = (
        [data.encode()] if data is not None else (line.rstrip(b"\n") for line in sys.stdin.buffer)
    )
    records = (
        {"Data": line, "PartitionKey": key or hashlib.md5(line, usedforsecurity=False).hexdigest()}
        for line in lines
    )
    count = 0
    try:
        for batch in batches(records):
            put_all(kinesis, stream, batch)
            count += len(batch)
    except Exception as error:
        raise explain(error) from error
    click.echo(f"{count} record{'s' if count != 1 else ''} put into {stream}")


def batches(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Group records into PutRecords requests by AWS's limits of count and bytes."""
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for record in records:
        record_bytes = len(record["Data"]) + len(record["PartitionKey"].encode())
        if batch and (len(batch) == RECORDS_PER_PUT or size_bytes + record_bytes > BYTES_PER_PUT):
            yield batch
            batch, size_bytes = [], 0
        batch.append(record)
        size_bytes += record_bytes
    if batch:
        yield batch


def put_all(kinesis: Any, stream: str, batch: list[dict[str, Any]]) -> list[str]:
    """Put a batch, retrying what was throttled; return the shard of each record.

    A retried record may land behind a later one of its key, as with AWS's own SDK. Raises ClickException
    when records still fail after ten tries.
    """
    clock, never = SystemClock(), threading.Event()
    shard_of: dict[int, str] = {}
    waiting = list(range(len(batch)))
    for attempt in range(10):
        answer = kinesis.put_records(StreamName=stream, Records=[batch[i] for i in waiting])
        failed: list[int] = []
        for index, result in zip(waiting, answer["Records"], strict=True):
            if result.get("ErrorCode"):
                failed.append(index)
            else:
                shard_of[index] = result["ShardId"]
        if not failed:
            return [shard_of[i] for i in range(len(batch))]
        waiting = failed
        clock.wait(never, min(0.05 * 2**attempt, 2.0))
    raise fail(f"{len(waiting)} records were refused ten times.")


@click.command()
@click.argument("stream")
@click.option(
    "--from",
    "start",
    default="LATEST",
    show_default=True,
    help="LATEST, TRIM_HORIZON, or an ISO time.",
)
@click.option("--limit", "-n", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--drain", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a record, with its metadata."
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
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    position = _position(start)
    printed = 0
    try:
        for shard_id, record in _follow(kinesis, stream, position, drain=drain, aws=aws):
            click.echo(_line(shard_id, record, as_json=as_json))
            printed += 1
            if printed == limit:
                return
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        sys.stderr.close()
    except click.ClickException:
        raise
    except Exception as error:
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
    clock, never = SystemClock(), threading.Event()
    shards = _list_shards(kinesis, stream)
    known = {shard["ShardId"] for shard in shards}
    waiting = {s["ShardId"]: s for s in shards if _parents(s) & known}
    iterators = {
        s["ShardId"]: kinesis.get_shard_iterator(
            StreamName=stream, ShardId=s["ShardId"], **position
        )["ShardIterator"]
        for s in shards
        if s["ShardId"] not in waiting
    }
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
                iterators[shard_id] = kinesis.get_shard_iterator(
                    StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
                )["ShardIterator"]
        if idle and iterators:
            clock.wait(never, POLL_AWS_EVERY_S if aws else POLL_EVERY_S)


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


def _line(shard_id: str, record: dict[str, Any], *, as_json: bool) -> str:
    text = record["Data"].decode("utf-8", "replace")
    if not as_json:
        return text
    return json.dumps(
        {
            "shardId": shard_id,
            "sequenceNumber": record["SequenceNumber"],
            "partitionKey": record["PartitionKey"],
            "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"]
            .astimezone(UTC)
            .isoformat(timespec="milliseconds"),
            "data": text,
        }
    )
