"""Waits for conditions, never for a fixed time, and reads what a wait is for: records, objects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from headrace.client.hash_keys import list_all_shards

T = TypeVar("T")
DEFAULT_TIMEOUT_S = 30.0
# The pages that list what waits.
MAPPINGS, DELIVERIES = "lambda/mappings", "firehose"
QUEUES, CHANNELS = "kinesis/queues", "kinesis/channels"
_FIRST_LOOK_S = 0.005
_LONGEST_LOOK_S = 0.25
# How far to move a cloud's time when everything left only waits for time to pass.
_FIRST_STEP_S = 1.0
_LONGEST_STEP_S = 900.0
_LOOKS_BEFORE_STEP = 5


class NoSuchPage(LookupError):
    """The cloud has no such page: it is not headrace, or another version."""


class RecordsLost(AssertionError):
    """Mappings gave up records that no function has handled; the text names the mappings."""


class RecordsExpired(RecordsLost):
    """Records expired in their stream before a function handled them; the text names the mappings."""


class Watched(Protocol):
    """A cloud to wait for; see `CloudAccess`."""

    account: str
    endpoint_url: str | None

    @property
    def can_advance(self) -> bool:
        """Whether a test can move the cloud's time."""
        ...

    def page(self, path: str) -> Any:
        """Return the JSON of a page below /_headrace/. Raises NoSuchPage."""
        ...

    def advance(self, *, seconds: float = 0) -> None:
        """Move the cloud's time forward."""
        ...


class NotInTime(AssertionError):
    """A condition did not come true in time; the text names it and shows its last result."""


def until(
    condition: Callable[[], T],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    what: str = "",
    pause: Callable[[float], None] | None = None,
) -> T:
    """Call `condition` until it returns something true, and return that.

    Args:
        condition: raises AssertionError or returns a false value as long as it does not hold.
        timeout_s: how long to wait at most, in seconds of the machine's time.
        what: a name for the condition, for the message.
        pause: waits between two checks; the default is time.sleep.

    Raises NotInTime with the condition's last result or exception.
    """
    deadline_s = time.monotonic() + timeout_s
    look_s = _FIRST_LOOK_S
    while True:
        try:
            seen: Any = condition()
            if seen:
                return seen
        except AssertionError as error:
            seen = error
        if time.monotonic() >= deadline_s:
            name = what or getattr(condition, "__name__", "the condition")
            raise NotInTime(f"After {timeout_s:g} s {name} does not hold; last seen: {seen!r}")
        (pause or time.sleep)(look_s)
        look_s = min(look_s * 2, _LONGEST_LOOK_S)


def until_drained(
    cloud: Watched, *, timeout_s: float = DEFAULT_TIMEOUT_S, may_lose: int = 0
) -> None:
    """Wait until the account's mappings, delivery streams, channels and queues have handled all records put so far.

    Of mappings the enabled ones count, of channels those that deliver (not FAILED), of queues those that somebody has
    received from: their records must be acknowledged, or become dead letters. If the cloud's time can be moved, buffers
    need not reach their interval: the time is moved forward. Needs headrace; on other clouds use `until`.

    Args:
        cloud: the cloud to wait for.
        timeout_s: how long to wait at most, in seconds of the machine's time.
        may_lose: how many records the test expects the account's mappings to lose, counted since they were made, for
            example poison records. A record that reached a failure destination is not lost.

    Raises NotInTime with everything that still waits, and RecordsLost when a function has not handled some records:
    its mapping gave them up (retries, age), or, as RecordsExpired, they expired in the stream. Both name the function's
    last exception and the record with which it failed.
    """
    deadline_s = time.monotonic() + timeout_s
    step_s = _FIRST_STEP_S
    while time.monotonic() < deadline_s:
        # Work that waits for records or functions progresses within a few checks; work that waits for time does not.
        for look in range(_LOOKS_BEFORE_STEP):
            waiting = still_waiting(cloud)
            # After the check of what waits, because a loss is counted before its checkpoint moves.
            _check_losses(cloud, may_lose)
            if not waiting:
                return
            time.sleep(_FIRST_LOOK_S * 2**look)
        # A consumer of a queue works by the machine's time: what it has in flight must not become visible under it.
        if cloud.can_advance and not in_flight_in_queues(cloud):
            cloud.advance(seconds=step_s)
            step_s = min(step_s * 2, _LONGEST_STEP_S)
    waiting = still_waiting(cloud)
    _check_losses(cloud, may_lose)
    if waiting:
        raise NotInTime(f"After {timeout_s:g} s: {'; '.join(waiting)}.")


def still_waiting(cloud: Watched) -> list[str]:
    """Return a sentence for each mapping, delivery stream, channel and queue of the account with records waiting."""
    return [
        *mappings_waiting(cloud),
        *deliveries_waiting(cloud),
        *channels_waiting(cloud),
        *queues_waiting(cloud),
    ]


def queues_waiting(cloud: Watched) -> list[str]:
    """Return a sentence for each queue of the account with a consumer that still has records waiting."""
    return [
        f"{one['visible']} records of {one['stream']} wait in queue {one['queue']}, and {one['inFlight']} are in flight"
        for one in _page(cloud, QUEUES)
        if one["account"] == cloud.account
        and one["hasConsumer"]
        and (one["visible"] or one["inFlight"])
    ]


def in_flight_in_queues(cloud: Watched) -> bool:
    """Whether a consumer of one of the account's queues has records now."""
    return any(one["inFlight"] for one in _page(cloud, QUEUES) if one["account"] == cloud.account)


def mappings_waiting(cloud: Watched) -> list[str]:
    """Return a sentence for each mapping of the account that still has records waiting."""
    mappings = _page(cloud, MAPPINGS)["mappings"]
    return [
        f"{one['waiting']} {_describe_input(one['source'])} wait for"
        f" {one['function'].rpartition(':')[2]} ({_result_of(one)})"
        for one in mappings
        if one["enabled"] and one.get("waiting") and one["function"].split(":")[4] == cloud.account
    ]


def _describe_input(source: str) -> str:
    """Return a mapping's input in words: `records of orders`, `messages of failures`."""
    service, name = source.split(":")[2], source.rpartition("/")[2].rpartition(":")[2]
    return f"{'messages' if service == 'sqs' else 'records'} of {name}"


def _check_losses(cloud: Watched, may_lose: int) -> None:
    """Raise RecordsLost when the account's mappings have lost more records than the test allows."""
    mappings = [
        one
        for one in _page(cloud, MAPPINGS)["mappings"]
        if one["enabled"] and one["function"].split(":")[4] == cloud.account
    ]
    expired = sum(one.get("expired", 0) for one in mappings)
    if expired + sum(one.get("dropped", 0) for one in mappings) <= may_lose:
        return
    sentences = [f"{'; '.join(sentence for one in mappings for sentence in _losses(one))}."]
    if may_lose:
        sentences.append(f"The test expects {may_lose} to be lost.")
    raise (RecordsExpired if expired else RecordsLost)(" ".join(sentences))


def _losses(mapping: dict[str, Any]) -> list[str]:
    source, function = _describe_input(mapping["source"]), mapping["function"].rpartition(":")[2]
    sentences = [
        f"{mapping['expired']} {source} expired before {function} handled them"
        if mapping.get("expired")
        else "",
        f"{mapping['dropped']} {source} were given up: {function} never handled them,"
        " and no failure destination has them"
        if mapping.get("dropped")
        else "",
    ]
    return [f"{one} ({_result_of(mapping)})" for one in sentences if one]


def _result_of(mapping: dict[str, Any]) -> str:
    """Return a mapping's last result, and how its function failed last."""
    failure = mapping.get("lastFailure")
    return mapping["lastProcessingResult"] + (f"; last failure: {failure}" if failure else "")


def deliveries_waiting(cloud: Watched) -> list[str]:
    """Return a sentence for each delivery stream of the account that still has records waiting."""
    return _describe_deliveries(cloud, DELIVERIES, "delivery stream")


def channels_waiting(cloud: Watched) -> list[str]:
    """Return a sentence for each channel of the account that still has records waiting."""
    return _describe_deliveries(cloud, CHANNELS, "channel")


def _describe_deliveries(cloud: Watched, path: str, kind: str) -> list[str]:
    return [
        f"{one['buffered_records']} records wait in {kind} {one['name']}"
        + (f" ({one['last_error']})" if one["last_error"] else "")
        for one in _page(cloud, path)
        # A channel that does not deliver has no figures.
        if not one.get("is_drained", True) and one["account"] == cloud.account
    ]


def _page(cloud: Watched, path: str) -> Any:
    try:
        return cloud.page(path)
    except NoSuchPage as error:
        raise NotInTime(
            f"Only headrace says what still waits, and {cloud.endpoint_url} does not: use until() instead."
        ) from error


class Clients(Protocol):
    """Makes boto3 clients of a cloud."""

    def client(self, service: str) -> Any:
        """Return a client."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A record as GetRecords returns it; `partition_key` is empty for a record without one."""

    shard_id: str
    sequence_number: str
    partition_key: str
    data: bytes
    arrived: datetime

    @property
    def json(self) -> Any:
        """The record's data, parsed as JSON."""
        return json.loads(self.data)


def records_of(cloud: Clients, stream: str) -> list[Record]:
    """Return every record that a stream holds, by sequence number: within a key, in the order in which they came."""
    kinesis = cloud.client("kinesis")
    records: list[Record] = []
    for shard in list_all_shards(kinesis, StreamName=stream):
        shard_id = shard["ShardId"]
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = kinesis.get_records(ShardIterator=iterator)
            records += [
                Record(
                    shard_id,
                    one["SequenceNumber"],
                    one.get("PartitionKey", ""),
                    one["Data"],
                    one["ApproximateArrivalTimestamp"],
                )
                for one in page["Records"]
            ]
            # On AWS a page may be empty although more records follow.
            if not page["Records"] and not page.get("MillisBehindLatest"):
                break
            iterator = page.get("NextShardIterator")
    return sorted(records, key=lambda record: int(record.sequence_number))


def objects_under(cloud: Clients, bucket: str, prefix: str = "") -> dict[str, bytes]:
    """Return a bucket's objects under `prefix` as a dict from key to bytes, in key order."""
    s3 = cloud.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
    return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in sorted(keys)}
