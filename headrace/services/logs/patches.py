"""CloudWatch Logs: keeps groups within their retention and a limit, and delivers to headrace's own services.

Events are in memory only, as is other data of moto's services that is bounded here. moto keeps all events of every
group for ever; those older than their group's retention are dropped.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import base64
import functools
import gzip
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.config import DEFAULT_LOG_GROUP_EVENTS, DEFAULT_LOG_GROUP_MIB
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT, use_clock
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, MOTO_LOCK, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as
from headrace.services.logs import checks, groups, metric_filters
from headrace.services.logs.filter_events import filter_log_events


@dataclass(slots=True)
class Bounds:
    """How much of a log group is kept; the oldest events are dropped first."""

    events: int = DEFAULT_LOG_GROUP_EVENTS
    bytes: int = DEFAULT_LOG_GROUP_MIB * 1024 * 1024


BOUNDS = Bounds()


def keep_log_groups_within(*, events: int, mib: int) -> None:
    """Set the limits of a log group, for all clouds of this process."""
    BOUNDS.events, BOUNDS.bytes = events, mib * 1024 * 1024


log = logging.getLogger(__name__)

DAY_MS = 86_400_000
# The most streams of a group; beyond it, the oldest streams without events are dropped.
MOST_STREAMS = 1_000


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.logs.models as models
    from moto.logs import responses

    use_clock(models)
    module: Any = models
    module.LogEvent = LogEvent
    group: Any = models.LogGroup
    group.__init__ = _with_kept(models.LogGroup.__init__)
    group.create_log_stream = _note_stream(group.create_log_stream)
    group.delete_log_stream = _note_stream(group.delete_log_stream)
    group.put_log_events = _bound_put(group.put_log_events)
    stream: Any = models.LogStream
    stream._send_log_events = _send_to_subscriber
    backend: Any = models.LogsBackend
    checks.run_insights()
    backend.put_subscription_filter = _to_own_services(backend.put_subscription_filter)
    backend.put_destination = _to_present_target(backend.put_destination)
    handler: Any = responses.LogsResponse
    handler.filter_log_events = filter_log_events
    backend._find_log_group = _find_group
    metric_filters.patch()
    groups.patch()
    checks.patch()
    checks.check_keys()
    checks.keep_query_definitions()
    pickles.register_reducer(models.LogGroup, _reduce_group)
    pickles.register_filter("logs", lambda _, state: {**state, "queries": {}})
    pickles.register_carrier("logs", _keep_events)


def _find_group(
    self: Any, log_group_id: str | None = None, log_group_name: str | None = None
) -> Any:
    """Return the group of a name or an ARN; of an identifier moto returns the last group, whatever it says."""
    from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException

    named = log_group_name or log_group_id
    if not named:
        raise InvalidParameterException("Should provider either name or id, but not both")
    group = self.groups.get(named.split(":log-group:", 1)[-1].removesuffix(":*"))
    if group is None or (
        named.startswith("arn:") and named.removesuffix(":*") != group.arn.removesuffix(":*")
    ):
        raise ResourceNotFoundException()
    return group


class LogEvent:
    """A log event with moto's interface, in less memory."""

    __slots__ = ("event_id", "ingestion_time", "message", "timestamp")
    _next_id = 0

    def __init__(self, ingestion_time: int, log_event: dict[str, Any]) -> None:
        self.ingestion_time = ingestion_time
        self.timestamp = log_event["timestamp"]
        self.message = log_event["message"]
        self.event_id = LogEvent._next_id
        LogEvent._next_id += 1

    def to_filter_dict(self) -> dict[str, Any]:
        """Return the event in FilterLogEvents' form."""
        return {"eventId": str(self.event_id), **self.to_response_dict()}

    def to_response_dict(self) -> dict[str, Any]:
        """Return the event in GetLogEvents' form."""
        return {
            "ingestionTime": self.ingestion_time,
            "message": self.message,
            "timestamp": self.timestamp,
        }


# --- bounds -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Batch:
    """The events of one PutLogEvents; when their turn comes, they are the oldest of their stream."""

    stream: Any
    count: int
    bytes: int
    newest_ms: int


@stored_as("logs_stream_rows")
class _Streams(Rows):
    """A group's streams: their names and times are stored, their events are not."""

    service = "logs"
    group: Any

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.batches: deque[_Batch] = deque()
        self.events = 0
        self.bytes = 0

    def add(self, stream: Any, events: Sequence[Any]) -> None:
        """Add a batch, and drop events beyond the limits."""
        size_bytes = sum(len(event["message"]) for event in events)
        self.events += len(events)
        self.bytes += size_bytes
        newest_ms = max(int(event["timestamp"]) for event in events)
        self.batches.append(_Batch(stream, len(events), size_bytes, newest_ms))
        self.trim()

    def trim(self) -> None:
        """Drop events that are older than the group's retention, or beyond the limits."""
        days = self.group.retention_in_days
        oldest_ms = CURRENT.clock.now_ms() - int(days) * DAY_MS if days else 0
        while self.batches:
            batch = self.batches[0]
            over = max(self.events - BOUNDS.events, 0)
            is_much = over > 0 or (self.bytes > BOUNDS.bytes and self.events > 1)
            if batch.newest_ms >= oldest_ms and not is_much:
                return
            # A large batch that has too many events is cut, not dropped whole.
            gone = batch.count if batch.newest_ms < oldest_ms else min(batch.count, max(over, 1))
            lost = batch.stream.events[:gone]
            lost_bytes = sum(len(event.message) for event in lost)
            del batch.stream.events[:gone]
            batch.stream.stored_bytes -= lost_bytes
            self.events -= gone
            self.bytes -= lost_bytes
            batch.count -= gone
            batch.bytes -= lost_bytes
            if not batch.count:
                self.batches.popleft()

    def forget(self, stream: Any) -> None:
        """Remove a deleted stream's events."""
        kept = deque(batch for batch in self.batches if batch.stream is not stream)
        self.events = sum(batch.count for batch in kept)
        self.bytes = sum(batch.bytes for batch in kept)
        self.batches = kept

    def take_over(self, before: _Streams) -> None:
        """Take the events of the same group's streams from before the group was loaded again."""
        streams = self.group.streams
        for name in streams:
            known = before.group.streams.get(name)
            if known is not None:
                known.log_group, streams[name] = self.group, known
        self.batches = deque(
            batch
            for batch in before.batches
            if streams.get(batch.stream.log_stream_name) is batch.stream
        )
        self.events = sum(batch.count for batch in self.batches)
        self.bytes = sum(batch.bytes for batch in self.batches)

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        stream = self.group.streams.get(key)
        return None if stream is None else stream.creation_time.isoformat().encode()

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return list(self.group.streams)

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        from moto.logs.models import LogStream

        for key, value in rows:
            make: Any = LogStream
            stream = make(self.group, str(key))
            stream.creation_time = datetime.fromisoformat(value.decode())
            self.group.streams[str(key)] = stream


def _keep_events(before: dict[str, Any], backend: Any) -> None:
    for name, group in backend.groups.items():
        known = before["groups"].get(name)
        if known is not None and known.kept.id == group.kept.id:
            group.kept.take_over(known.kept)


def _with_kept(init: Any) -> Any:
    @functools.wraps(init)
    def with_kept(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.kept = _Streams()
        self.kept.group = self

    return with_kept


def _reduce_group(group: Any) -> Any:
    pickles.note_rows(group.kept)
    state = {k: v for k, v in vars(group).items() if k not in ("kept", "streams")}
    return empty_group, (group.kept.id,), state


@stored_as("logs_group")
def empty_group(rows_id: int) -> Any:
    """Return a log group whose attributes and streams are still to be loaded."""
    from moto.logs.models import LogGroup

    rows: Any = pickles.rows_with_id(_Streams, rows_id)
    rows.group = pickles.shell(LogGroup, LogGroup, kept=rows, streams={})
    return rows.group


def _note_stream(method: Any) -> Any:
    @functools.wraps(method)
    def call_and_note(self: Any, log_stream_name: str) -> None:
        before = self.streams.get(log_stream_name)
        method(self, log_stream_name)
        CHANGES.row(self.kept, log_stream_name)
        if before is not None:
            self.kept.forget(before)
        while len(self.streams) > MOST_STREAMS:
            empty = next((n for n, s in self.streams.items() if not s.events), None)
            if empty is None or empty == log_stream_name:
                return
            del self.streams[empty]
            CHANGES.row(self.kept, empty)

    return call_and_note


def _bound_put(put: Any) -> Any:
    @functools.wraps(put)
    def put_log_events(self: Any, log_stream_name: str, log_events: list[dict[str, Any]]) -> str:
        answer = put(self, log_stream_name, log_events)
        if log_events:
            self.kept.add(self.streams[log_stream_name], log_events)
        return str(answer)

    return put_log_events


def trim_all() -> None:
    """Drop events past their retention in every group; the caller holds `MOTO_LOCK`."""
    from moto.logs.models import logs_backends

    backends: Any = logs_backends
    for regions in list(backends.values()):
        for backend in list(regions.values()):
            for group in list(backend.groups.values()):
                group.kept.trim()


# --- subscriptions ----------------------------------------------------------------------------------


# What AWS says when its test message does not arrive. Observed by users of all three.
_NOT_DELIVERED = {
    "lambda": (
        "Could not execute the lambda function. Make sure you have given CloudWatch Logs permission to execute your"
        " function."
    ),
    "kinesis": (
        "Could not deliver test message to specified Kinesis stream. Check if the given kinesis stream is in ACTIVE"
        " state."
    ),
    "firehose": (
        "Could not deliver test message to specified Firehose stream. Check if the given Firehose stream is in ACTIVE"
        " state."
    ),
}


def _check_target(arn: str, account: str) -> None:
    """Refuse a target of another account, and one that does not exist, or is being made. Raises AwsError."""
    parts = arn.split(":", 5)
    if CURRENT.control is None or len(parts) < 6 or parts[2] not in _NOT_DELIVERED:
        return
    if parts[4] != account:
        # Documented: API_PutSubscriptionFilter, API_PutDestination; the sentence is assumed.
        raise AwsError("InvalidParameterException", _NOT_DELIVERED[parts[2]])
    service, name = parts[2], parts[5].partition("/")[2]
    operation, params = {
        "lambda": ("GetFunctionConfiguration", {"FunctionName": arn}),
        "kinesis": ("DescribeStreamSummary", {"StreamName": name}),
        "firehose": ("DescribeDeliveryStream", {"DeliveryStreamName": name}),
    }[service]
    try:
        answer = CURRENT.control.call(service, operation, params, account=parts[4], region=parts[3])
    except AwsError as error:
        raise AwsError("InvalidParameterException", _NOT_DELIVERED[service]) from error
    described: Any = next(iter(answer.values()), None)
    if isinstance(described, dict) and "CREATING" in described.values():
        raise AwsError("InvalidParameterException", _NOT_DELIVERED[service])


def _to_present_target(put: Any) -> Any:
    @functools.wraps(put)
    def put_destination(
        self: Any, destination_name: str, role_arn: str, target_arn: str, tags: Any
    ) -> Any:
        _check_target(str(target_arn or ""), str(self.account_id))
        return put(self, destination_name, role_arn, target_arn, tags)

    return put_destination


def _to_own_services(put: Any) -> Any:
    """Accept a subscription to a resource that headrace owns: moto looks only among its own."""

    @functools.wraps(put)
    def put_subscription_filter(
        self: Any, log_group_name: str, filter_name: str, filter_pattern: str,
        destination_arn: str, role_arn: str,
    ) -> None:  # fmt: skip
        group = self.groups.get(log_group_name)
        service = destination_arn.split(":")[2] if destination_arn.count(":") >= 5 else ""
        needs_role = service in ("kinesis", "firehose")
        if needs_role != bool(role_arn) and (needs_role or service == "lambda"):
            # Recorded of a stream; of the others, observed by users.
            how = "without" if needs_role else "with"
            raise AwsError(
                "InvalidParameterException",
                f"destinationArn for vendor {service} cannot be used {how} roleArn",
            )
        if service == "logs" and group is not None and _destination(destination_arn) is None:
            # The sentence is assumed.
            raise AwsError(
                "InvalidParameterException",
                "Could not deliver test message to specified destination."
                " Check if the destination is valid.",
            )
        if group is None or service not in ("lambda", "kinesis", "firehose", "logs"):
            put(self, log_group_name, filter_name, filter_pattern, destination_arn, role_arn)
            return
        _check_target(destination_arn, str(self.account_id))
        group.put_subscription_filter(filter_name, filter_pattern, destination_arn, role_arn)

    return put_subscription_filter


def _destination(arn: str) -> Any:
    """Return moto's destination with an ARN; None when it does not exist."""
    from moto.logs.models import logs_backends

    parts = arn.split(":", 6)
    backends: Any = logs_backends
    backend = backends[parts[4]][parts[3]]
    return next((one for one in backend.destinations.values() if one.arn == arn), None)


def _send_to_subscriber(
    stream: Any,
    service: str,
    destination_arn: str,
    filter_name: str,
    log_events: list[dict[str, Any]],
) -> None:
    """Send events to a subscription's destination, in CloudWatch Logs' compressed form. Never raises."""
    group = stream.log_group
    subscription = group.subscription_filters[filter_name]
    role_arn = str(getattr(subscription, "role_arn", "") or "")
    if service == "logs":
        destination = _destination(destination_arn)
        if destination is None:
            log.warning("%s: the subscription's %s does not exist", group.arn, destination_arn)
            return
        # A destination delivers to its own target with its own role.
        destination_arn, role_arn = str(destination.target_arn), str(destination.role_arn or "")
        service = destination_arn.split(":")[2]
    pattern = subscription.filter_pattern or ""
    matches = metric_filters.match_events(
        pattern, log_events, what=f"{group.arn}: the subscription {filter_name}"
    )
    payload = {
        "messageType": "DATA_MESSAGE",
        "owner": stream.account_id,
        "logGroup": group.name,
        "logStream": stream.log_stream_name,
        "subscriptionFilters": [filter_name],
        "logEvents": [{**event, "id": str(event["id"])} for event, _ in matches or ()],
    }
    if not payload["logEvents"] or CURRENT.control is None:
        return
    packed = gzip.compress(json.dumps(payload).encode(), 1, mtime=0)
    if service == "lambda" and CURRENT.functions is not None:
        invocation = {"awslogs": {"data": base64.b64encode(packed).decode()}}
        CURRENT.functions(
            destination_arn,
            json.dumps(invocation).encode(),
            service="logs.amazonaws.com",
            source_arn=f"{group.arn}:*",
        )
        return
    key = checks.partition_key_of(subscription, stream)
    _put_record(group, key, service, destination_arn, role_arn, packed)


def _put_record(group: Any, key: str, service: str, arn: str, role: str, packed: bytes) -> None:
    """Put what a log stream sends into a stream of Kinesis or Firehose, soon; a warning says that it is neither."""
    parts, params = arn.split(":", 5), dict[str, Any]()
    name = parts[5].partition("/")[2]
    if service == "kinesis":
        params = {"StreamName": name, "PartitionKey": key, "Data": packed}
    elif service == "firehose":
        params = {"DeliveryStreamName": name, "Record": {"Data": packed}}
    else:
        log.warning("%s: headrace does not deliver logs to %s", group.arn, arn)
        return
    OUTBOX.add(
        Delivery(
            what=f"What {group.name} logs for {arn}",
            body=packed,
            service=service,
            operation="PutRecord",
            params=params,
            account=parts[4],
            region=parts[3],
            acting_arn=role,
            acting_session="CloudWatchLogs",
        )
    )


LOOK_AT_LOGS_EVERY_S = 60.0


class LogRetention:
    """A `Worker` that drops log events that are older than their group's retention."""

    name = "moto-retention"

    def __init__(self, is_loaded: Callable[[], bool]) -> None:
        self._is_loaded = is_loaded

    def step(self) -> float:
        """Check every group."""
        if self._is_loaded():
            with MOTO_LOCK:
                trim_all()
        return LOOK_AT_LOGS_EVERY_S
