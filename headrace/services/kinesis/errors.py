"""Kinesis's errors with AWS's messages, and the translation of the store's errors to them.

Quotas of Kinesis Data Streams.

Source: docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html (documented, read 2026).
"""

from __future__ import annotations

import errno
import logging
from typing import NotRequired, TypedDict

from headrace.aws.calls.errors import AwsError
from headrace.store.losses import LogDamaged
from headrace.store.shard_log import LogClosed, LogFull

PUT_RECORDS_COUNT = 500
# Data and partition keys together. The limit was 5 MiB until AWS raised the record size to 10 MiB.
PUT_RECORDS_BYTES = 10 * 1024 * 1024
PARTITION_KEY_CHARS = 256
GET_RECORDS_COUNT = 10_000
GET_RECORDS_BYTES = 10 * 1024 * 1024
SHARD_ITERATOR_CHARS = 512
ITERATOR_LIFE_MS = 300_000
NEXT_TOKEN_LIFE_MS = 300_000
MIN_RETENTION_HOURS = 24
MAX_RETENTION_HOURS = 8760
TAGS_PER_STREAM = 50
LIST_STREAMS_DEFAULT = 100
DESCRIBE_STREAM_DEFAULT = 100
LIST_SHARDS_DEFAULT = 1000
ON_DEMAND_SHARDS = 4
# 200 MiB/s of writes, in most regions.
ON_DEMAND_SHARD_QUOTA = 200
SHARD_QUOTA = 500
ON_DEMAND_STREAM_QUOTA = 50
CONSUMERS_PER_STREAM = 20
CONSUMERS_PER_ADVANTAGE_STREAM = 50
CONSUMERS_CREATING = 5
STREAMS_CREATING = 5
LIST_CONSUMERS_DEFAULT = 100
# Queues: queues-quotas.html. Those that are CREATING or DELETING are counted over an account and Region.
QUEUES_CHANGING = 5
QUEUE_IN_FLIGHT = 120_000
QUEUE_VISIBLE_SHOWN = 1_000_000
# Assumed: the page that ListQueues returns without MaxResults.
LIST_QUEUES_DEFAULT = 100
# Channels: data-delivery-quotas.md. Each stream has one to a bucket, and one to a table.
CHANNELS_PER_STREAM = 2
LIST_CHANNELS_MOST = 100
MIN_FRESHNESS_S = 300
MAX_FRESHNESS_S = 900
SUBSCRIPTION_LIFE_MS = 300_000
# AWS refuses a second SubscribeToShard within this time; after it, the second one takes over.
SUBSCRIPTION_EXCLUSIVE_MS = 5_000
SUBSCRIPTION_IDLE_MS = 5_000
SUBSCRIPTION_EVENT_BYTES = 1024 * 1024
WARM_THROUGHPUT_MIBPS = 10 * 1024
SHARD_COUNT_UPDATES_PER_DAY = 10
MODE_CHANGES_PER_DAY = 2
ENCRYPTION_CHANGES_PER_DAY = 25
POLICY_CHARS = 20 * 1024
DAY_MS = 86_400_000
HASH_KEYS = 1 << 128


log = logging.getLogger(__name__)


def stream_not_found(name: str, account: str) -> AwsError:
    """No stream of that name."""
    return AwsError(
        "ResourceNotFoundException", f"Stream {name} under account {account} not found."
    )


def shard_not_found(shard_id: str, name: str, account: str) -> AwsError:
    """No such shard in the stream."""
    return AwsError(
        "ResourceNotFoundException",
        f"Could not find shard {shard_id} in stream {name} under account {account}.",
    )


def shard_absent(shard_id: str, name: str, account: str) -> AwsError:
    """The shard id is well formed, but no such shard or stream exists. Source: kinesalite (observed)."""
    return AwsError(
        "ResourceNotFoundException",
        f"Shard {shard_id} in stream {name} under account {account} does not exist",
    )


def consumer_not_found(name: str, stream_name: str, account: str) -> AwsError:
    """No such consumer of the stream."""
    return AwsError(
        "ResourceNotFoundException",
        f"Consumer {name} under stream {stream_name} under account {account} not found.",
    )


def invalid_argument(message: str) -> AwsError:
    """The argument passes the API model's checks, but the service does not allow it."""
    return AwsError("InvalidArgumentException", message)


def in_use(message: str) -> AwsError:
    """The stream exists already, or is not in the state that the request needs."""
    return AwsError("ResourceInUseException", message)


def not_active(name: str, account: str, status: str) -> AwsError:
    """The stream is CREATING, UPDATING or DELETING. Source: kinesalite (observed)."""
    return in_use(f"Stream {name} under account {account} not ACTIVE, instead in state {status}")


def consumer_not_active(name: str, created_s: int, stream_name: str, account: str) -> AwsError:
    """The consumer is CREATING or DELETING."""
    return in_use(
        f"Consumer {name} with creation timestamp {created_s} under stream:"
        f" {stream_name} , account {account} is not in ACTIVE status."
    )


def limit_exceeded(message: str) -> AwsError:
    """A quota is used up."""
    return AwsError("LimitExceededException", message)


class DryRunMember(TypedDict):
    """The member by which a request only asks whether it would succeed."""

    DryRun: NotRequired[bool]


def check_dry_run(request: DryRunMember) -> None:
    """Raise DryRunOperationException when the request only asks whether it would succeed."""
    if request.get("DryRun"):
        raise AwsError(
            "DryRunOperationException", "Request would have succeeded, but DryRun is set."
        )


def translate(error: Exception) -> AwsError | None:
    """Return the AwsError for an error of the store or the operating system, or None for any other error."""
    if isinstance(error, LogFull):
        return AwsError("InternalFailure", f"The record could not be stored: {error}", 500)
    if isinstance(error, LogDamaged):
        # API_GetRecords lists this code for errors that the client cannot correct (documented).
        return AwsError(
            "InternalFailureException",
            f"{error}; stop the cloud and run: headrace check --repair",
            500,
        )
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        log.error("no more files can be opened: %s", error)
        return limit_exceeded(
            "This machine lets headrace open no more files, and each open shard has one; see ulimit -n."
        )
    if isinstance(error, OSError):
        log.error("not stored: %s", error)
        return AwsError("InternalFailure", f"Nothing was stored: {error.strerror}", 500)
    if isinstance(error, LogClosed):
        # The shard was split while the request was under way: the client tries again.
        return AwsError("InternalFailure", "The shard was closed; try again", 500)
    return None
