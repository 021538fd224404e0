"""`headrace tail`: prints the records of a stream, of a queue, or what a channel delivers, here or on AWS (`--aws`)."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from time import sleep
from typing import Any

import click

from headrace.cli.interrupts import reader_is_gone
from headrace.cli.options import (
    MOMENTS,
    client,
    client_options,
    endpoint_option,
    explain,
    fail,
    parse_moment,
)
from headrace.cli.stream_names import explain_stream
from headrace.client.group import ConsumerGroup, GroupError
from headrace.client.hash_keys import list_all_shards, name_member
from headrace.client.leases.stores import MemoryLeaseStore
from headrace.client.records import Record

# `headrace tail --queue`: receives the records of a queue, prints them, and acknowledges what it printed.

_MOST = 10
_WAIT_S = 20
_DRAIN_WAIT_S = 1


def tail_queue(kinesis: Any, queue: str, limit: int | None, *, drain: bool, as_json: bool) -> None:
    """Print up to `limit` records; with `drain` stop when none is visible. A record that is printed is acknowledged."""
    from botocore.exceptions import BotoCoreError, ClientError

    if not hasattr(kinesis, "receive_queue_records"):
        raise fail("The installed boto3 does not know queues: pip install --upgrade boto3")
    try:
        arn = queue if queue.startswith("arn:") else _arn_of(kinesis, queue)
        left = limit
        while left is None or left > 0:
            records = kinesis.receive_queue_records(
                QueueARN=arn,
                Limit=_MOST if left is None else min(_MOST, left),
                WaitTimeSeconds=_DRAIN_WAIT_S if drain else _WAIT_S,
            )["QueueRecords"]
            if not records:
                if drain:
                    return
                if reader_is_gone():
                    raise BrokenPipeError
                continue
            for record in records:
                click.echo(_queue_line(record, as_json=as_json))
            _acknowledge(kinesis, arn, records)
            left = None if left is None else left - len(records)
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error


def _arn_of(kinesis: Any, name: str) -> str:
    for page in kinesis.get_paginator("list_queues").paginate():
        for one in page["QueueSummaries"]:
            if one["QueueName"] == name:
                return str(one["QueueARN"])
    raise fail(f"There is no queue {name}.")


def _acknowledge(kinesis: Any, arn: str, records: list[dict[str, Any]]) -> None:
    entries = [{"ReceiptHandle": record["ReceiptHandle"]} for record in records]
    failed = kinesis.acknowledge_queue_records(QueueARN=arn, Entries=entries)["Failed"]
    for one in failed:
        click.echo(f"not acknowledged: {one['ErrorCode']}: {one.get('ErrorMessage', '')}", err=True)


def _queue_line(record: dict[str, Any], *, as_json: bool) -> str | bytes:
    if not as_json:
        return record["Data"]
    return json.dumps(
        {
            "recordId": record["RecordId"],
            "partitionKey": record.get("PartitionKey"),
            "approximateArrivalTimestamp": _iso(record["ApproximateArrivalTimestamp"]),
            "firstReceiveTimestamp": _iso(record["FirstReceiveTimestamp"]),
            "receiveCount": record["ReceiveCount"],
            **data_shown(record["Data"]),
        }
    )


def data_shown(data: bytes) -> dict[str, str]:
    """Return a record's data for JSON: as text, or in base64 when it is not UTF-8."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"dataBase64": base64.b64encode(data).decode()}


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


# `headrace tail --channel`: prints the objects that a channel delivers, as they come.

# The cloud's clock and S3's have whole seconds; objects come minutes apart.
_LOOK_EVERY_S = 1.0
_NAME_IN_KEY = re.compile(r"!\{(channel-name|channel-id|stream-name)\}")


def tail_channel(
    options: dict[str, Any],
    channel: str,
    start: Any,
    limit: int | None,
    *,
    drain: bool,
    as_json: bool,
) -> None:
    """Print up to `limit` objects, each when it is there; with `drain` stop after those that are there now."""
    from botocore.exceptions import BotoCoreError, ClientError

    kinesis, s3 = client("kinesis", **options), client("s3", **options)
    if not hasattr(kinesis, "list_channels"):
        raise fail("The installed boto3 does not know channels: pip install --upgrade boto3")
    try:
        arn = channel if channel.startswith("arn:") else _channel_arn(kinesis, channel)
        described = kinesis.describe_channel(ChannelARN=arn)["ChannelDescription"]
        if "S3DestinationConfiguration" not in described:
            raise fail(f"Channel {channel} delivers to a table: query that.")
        storage = described["S3DestinationConfiguration"]["StorageConfiguration"]
        objects = _iterate_deliveries(
            s3, storage, _key_prefix(described, storage), start, drain=drain
        )
        for key, at in itertools.islice(objects, limit):
            bucket = storage["BucketARN"].rpartition(":")[2]
            body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
            data = _decompress(body, storage["CompressionType"])
            click.echo(_object_line(bucket, key, at, data, as_json=as_json))
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error


def _channel_arn(kinesis: Any, name: str) -> str:
    token: dict[str, str] = {}
    while True:
        page = kinesis.list_channels(**token)
        for one in page["ChannelSummaries"]:
            if one["ChannelName"] == name:
                return str(one["ChannelARN"])
        if "NextToken" not in page:
            raise fail(f"There is no channel {name}.")
        token = {"NextToken": page["NextToken"]}


def _key_prefix(described: dict[str, Any], storage: dict[str, Any]) -> str:
    """Return what all keys of the channel begin with: its template up to the first time."""
    stream = described["StreamConfigurationList"][0]["StreamARN"].rpartition("/")[2]
    names = {
        "channel-name": described["ChannelName"],
        "channel-id": described["ChannelId"],
        "stream-name": stream,
    }
    template = _NAME_IN_KEY.sub(lambda match: names[match[1]], storage["OutputKeyTemplate"])
    return template.partition("!{")[0]


def _iterate_deliveries(
    s3: Any, storage: dict[str, Any], prefix: str, start: Any, *, drain: bool
) -> Iterator[tuple[str, datetime]]:
    """Yield the key and time of each object of the channel, the oldest first, each once."""
    bucket = storage["BucketARN"].rpartition(":")[2]
    known: set[str] = set()
    is_first = True
    while True:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        listed = {
            one["Key"]: one["LastModified"] for page in pages for one in page.get("Contents", [])
        }
        for key, at in sorted(listed.items(), key=lambda item: (item[1], item[0])):
            if key not in known and not (is_first and _is_before(at, start)):
                yield key, at
        # An object that was deleted does not come back.
        known, is_first = set(listed), False
        if drain:
            return
        if reader_is_gone():
            raise BrokenPipeError
        sleep(_LOOK_EVERY_S)


def _is_before(at: datetime, start: Any) -> bool:
    """Return whether an object that is there at first lies before the start. S3's times have whole seconds."""
    return start == "LATEST" if isinstance(start, str) else at < start.replace(microsecond=0)


def _decompress(body: bytes, compression: str) -> bytes:
    if compression == "GZIP":
        return gzip.decompress(body)
    if compression == "ZSTD":
        import cramjam

        return bytes(cramjam.zstd.decompress(body))
    return body


def _object_line(bucket: str, key: str, at: datetime, data: bytes, *, as_json: bool) -> str | bytes:
    if not as_json:
        return data
    return json.dumps({"bucket": bucket, "key": key, "lastModified": _iso(at), **data_shown(data)})


# AWS allows five reads per second and shard.
POLL_EVERY_S = 0.2
POLL_AWS_EVERY_S = 0.25


@click.command()
@click.argument("stream")
@click.option(
    "--queue",
    "from_queue",
    is_flag=True,
    help="STREAM is a queue, by name or ARN: receive its records, and acknowledge those that were printed.",
)
@click.option(
    "--channel",
    "from_channel",
    is_flag=True,
    help="STREAM is a channel, by name or ARN: print the objects that it delivers to its bucket.",
)
@click.option(
    "--from",
    "start",
    default="LATEST",
    show_default=True,
    help=f"LATEST, TRIM_HORIZON, {MOMENTS}.",
)
@click.option("--key", help="Print only the records with this partition key.")
@click.option(
    "--shard", help="Print only the records of this shard: its id, or the number at its end."
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
    key: str | None,
    shard: str | None,
    limit: int | None,
    *,
    from_queue: bool,
    from_channel: bool,
    drain: bool,
    as_json: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Print the records of STREAM as they come. All shards, parents before children."""
    from botocore.exceptions import BotoCoreError, ClientError

    position = _position(start)
    if from_queue and from_channel:
        raise fail("STREAM is a queue or a channel, not both.")
    if (from_queue or from_channel) and not (key is None and shard is None):
        raise fail("--key and --shard are of a stream's records.")
    if from_queue:
        if start != "LATEST":
            raise fail("A queue has its own position: --from does not go with --queue.")
        kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
        tail_queue(kinesis, stream, limit, drain=drain, as_json=as_json)
        return
    if from_channel:
        where = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
        tail_channel(where, stream, position, limit, drain=drain, as_json=as_json)
        return
    options = client_options(endpoint_url=endpoint_url, region=region, aws=aws)
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    try:
        only = None if shard is None else _find_shard(kinesis, stream, shard)
        records = (
            (shard_id, record)
            for shard_id, record in _follow(stream, position, options, drain=drain, aws=aws)
            if only in (None, shard_id) and key in (None, record.key)
        )
        for shard_id, record in itertools.islice(records, limit):
            click.echo(_line(shard_id, record, as_json=as_json))
    except (BotoCoreError, ClientError) as error:
        raise explain_stream(error, kinesis, stream) from error
    except (GroupError, ValueError) as error:
        if isinstance(error.__cause__, ClientError):
            raise explain_stream(error.__cause__, kinesis, stream) from error
        raise fail(str(error)) from error


def _position(start: str) -> Any:
    if start.upper() in ("LATEST", "TRIM_HORIZON"):
        return start.upper()
    return parse_moment(start, "--from")


def _find_shard(kinesis: Any, stream: str, name: str) -> str:
    """Return the id of a shard, which may be named by the number at its end."""
    ids = [one["ShardId"] for one in list_all_shards(kinesis, **name_member(stream))]
    wanted = f"shardId-{int(name):012}" if name.isascii() and name.isdecimal() else name
    if wanted not in ids:
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        raise fail(f"{stream} has no shard {name}; it has {shown}.")
    return wanted


def _follow(
    stream: str, position: Any, options: dict[str, Any], *, drain: bool, aws: bool
) -> Iterator[tuple[str, Record]]:
    # A group of one, which keeps its leases to itself.
    with ConsumerGroup(
        "headrace-tail",
        stream,
        start=position,
        store=MemoryLeaseStore(),
        idle_s=POLL_AWS_EVERY_S if aws else POLL_EVERY_S,
        **options,
    ) as group:
        while True:
            batch = group.next_batch(POLL_EVERY_S)
            if batch is not None:
                for record in batch:
                    yield batch.shard_id, record
                group.finish(batch)
            elif drain and group.is_at_the_end():
                return
            elif reader_is_gone():
                raise BrokenPipeError


def _line(shard_id: str, record: Record, *, as_json: bool) -> str | bytes:
    data = record.data
    if not as_json:
        return data
    shown = data_shown(data)
    return json.dumps(
        {
            "shardId": shard_id,
            "sequenceNumber": record.sequence_number,
            # A stream that distributes records itself also has records without a key.
            **({"partitionKey": record.key} if record.key else {}),
            "approximateArrivalTimestamp": datetime.fromtimestamp(record.arrival_s, UTC).isoformat(
                timespec="milliseconds"
            ),
            **shown,
        }
    )
