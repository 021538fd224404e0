"""Checks a mapping's settings by its kind of source, as AWS does beyond its API model and with AWS's messages.

Filter criteria: decides which records or messages a mapping passes to its function. No I/O.

Sources (documented): https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html for the pattern
language, .../with-kinesis-filtering.html for the members of a Kinesis record. A pattern on `data` that is an object
matches only records whose data is a JSON object; a pattern that is a list matches only data that is plain text, not
JSON. Data that is not UTF-8 matches no pattern on `data`. For a DynamoDB stream, a pattern may use any member
(.../with-ddb-filtering.html names only `dynamodb`, but AWS's own examples use `eventName`).

Writes the events that functions receive for batches of Kinesis and DynamoDB records, directly as JSON text.

Source: the developer guide's examples for Kinesis, DynamoDB and tumbling windows (documented). For small records,
making the event takes longer than sending it, so the text that is the same for every record is made only once.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.core.arn import Arn, InvalidArn
from headrace.core.event_patterns import (
    BadEventPattern,
    compile_pattern,
    matches_event,
    matches_payload,
)
from headrace.core.ports import StreamRecord
from headrace.core.values import section
from headrace.services.lambda_.async_events import check_destination
from headrace.services.lambda_.errors import invalid_parameter, validation

log = logging.getLogger(__name__)

_SHARED = (
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "FunctionResponseTypes",
    "FilterCriteria",
    "MetricsConfig",
    "LoggingConfig",
    "KMSKeyArn",
)
_STREAM_ONLY = (
    "ParallelizationFactor",
    "DestinationConfig",
    "MaximumRecordAgeInSeconds",
    "BisectBatchOnFunctionError",
    "MaximumRetryAttempts",
    "TumblingWindowInSeconds",
)
_QUEUE_ONLY = ("ScalingConfig", "ProvisionedPollerConfig")
_OTHER_SOURCES = (
    "Topics",
    "Queues",
    "SourceAccessConfigurations",
    "SelfManagedEventSource",
    "AmazonManagedKafkaEventSourceConfig",
    "SelfManagedKafkaEventSourceConfig",
    "DocumentDBEventSourceConfig",
)
_SHORTEST_RECORD_AGE_S = 60
_FILTERS = 10
_FIFO_BATCH = 10
_UNBATCHED = 10
_CONCURRENCY = (2, 1000)
_FEWEST_POLLERS = 2
_STREAM_DESTINATIONS = ("sqs", "sns", "s3")


def list_settable(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a request that a mapping stores."""
    names = (*_SHARED, *_STREAM_ONLY, *_QUEUE_ONLY)
    return {name: request[name] for name in names if name in request}


def check_kafka(request: Mapping[str, Any]) -> None:
    """Refuse mappings of Apache Kafka by name. Raises AwsError."""
    mode = section(request, "SelfManagedKafkaEventSourceConfig").get("ConsumptionMode")
    if mode == "Queue":
        raise invalid_parameter(
            "headrace does not support Kafka's share groups (SelfManagedKafkaEventSourceConfig.ConsumptionMode)."
        )
    if mode or request.get("SelfManagedEventSource"):
        raise invalid_parameter(
            "headrace does not support self-managed Apache Kafka as an event source (SelfManagedEventSource)."
        )


def check_source(arn_text: str | None) -> Arn:
    """Return the source's ARN. Raises AwsError for a malformed ARN, and for a source that headrace does not support."""
    if not arn_text:
        raise invalid_parameter("Unrecognized event source.")
    try:
        arn = Arn.parse(arn_text)
    except InvalidArn:
        raise invalid_parameter(f"The event source ARN {arn_text} is invalid.") from None
    if arn.service not in ("kinesis", "dynamodb", "sqs"):
        raise invalid_parameter(
            f"headrace does not support event sources of {arn.service}, only Kinesis streams, their registered"
            " consumers, streams of DynamoDB tables, and SQS queues"
        )
    return arn


def check_settings(source: Arn, members: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Check the settings as AWS does for the kind of source. Raises AwsError.

    Args:
        source: the ARN of the event source.
        members: all settings that the mapping will have.
        request: the settings that change now.
    """
    foreign = (*_OTHER_SOURCES, *(_STREAM_ONLY if source.service == "sqs" else _QUEUE_ONLY))
    for name in foreign:
        if request.get(name):
            raise invalid_parameter(
                f"Unsupported {name} parameter for given event source mapping type."
            )
    failures = section(request, "DestinationConfig").get("OnFailure")
    if failures is not None and "Destination" not in failures:
        raise invalid_parameter("The Destination field is required for an OnFailure configuration.")
    _check_filters(members)
    if source.service == "sqs":
        _check_queue(source, members)
    else:
        _check_stream(members)


def _check_stream(members: Mapping[str, Any]) -> None:
    age_s = members.get("MaximumRecordAgeInSeconds", -1)
    if -1 < age_s < _SHORTEST_RECORD_AGE_S:
        raise invalid_parameter(
            f"Invalid MaximumRecordAgeInSeconds: {age_s}. "
            f"It must be -1 or at least {_SHORTEST_RECORD_AGE_S}."
        )
    check_destination(
        section(members, "DestinationConfig", "OnFailure").get("Destination"), _STREAM_DESTINATIONS
    )
    if section(members, "DestinationConfig", "OnSuccess").get("Destination"):
        raise invalid_parameter("OnSuccess destinations are not supported for event sources.")


def _check_queue(source: Arn, members: Mapping[str, Any]) -> None:
    size = members.get("BatchSize", _UNBATCHED)
    window_s = members.get("MaximumBatchingWindowInSeconds", 0)
    if source.resource.endswith(".fifo"):
        if window_s:
            raise invalid_parameter("Batching window is not supported for FIFO queues")
        if size > _FIFO_BATCH:
            raise invalid_parameter(
                f"BatchSize must be less than or equal to {_FIFO_BATCH} for FIFO queues"
            )
    if size > _UNBATCHED and not window_s:
        raise invalid_parameter(
            "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater "
            f"than {_UNBATCHED}"
        )
    _check_pollers(members)
    concurrency = section(members, "ScalingConfig").get("MaximumConcurrency")
    least, most = _CONCURRENCY
    if concurrency is not None and not least <= concurrency <= most:
        bound = "greater" if concurrency < least else "less"
        raise validation(
            f"Value '{concurrency}' at 'scalingConfig.maximumConcurrency' failed to satisfy constraint: "
            f"Member must have value {bound} than or equal to {least if concurrency < least else most}"
        )


def _check_pollers(members: Mapping[str, Any]) -> None:
    """Check the provisioned mode of a queue. Documented: API_ProvisionedPollerConfig; the sentences are assumed."""
    pollers = section(members, "ProvisionedPollerConfig")
    if not pollers:
        return
    if section(members, "ScalingConfig").get("MaximumConcurrency") is not None:
        raise invalid_parameter(
            "You can't use provisioned mode with the maximum concurrency setting."
        )
    if pollers.get("PollerGroupName"):
        raise invalid_parameter(
            "Unsupported PollerGroupName parameter for given event source mapping type."
        )
    least, most = (pollers.get(name) for name in ("MinimumPollers", "MaximumPollers"))
    for name, value in (("MinimumPollers", least), ("MaximumPollers", most)):
        if value is not None and value < _FEWEST_POLLERS:
            raise invalid_parameter(f"{name} must be at least {_FEWEST_POLLERS} for Amazon SQS.")
    if least is not None and most is not None and most < least:
        raise invalid_parameter("MaximumPollers must be greater than or equal to MinimumPollers.")


def _check_filters(members: Mapping[str, Any]) -> None:
    filters: list[dict[str, str]] = section(members, "FilterCriteria").get("Filters") or []
    if len(filters) > _FILTERS:
        raise invalid_parameter(
            f"Number of filters {len(filters)} exceeds the maximum of {_FILTERS} filters."
        )
    for one in filters:
        try:
            Filter.parse(one.get("Pattern", ""))
        except InvalidPattern as error:
            log.info("the filter pattern %s is refused: %s", one.get("Pattern"), error)
            raise invalid_parameter("Invalid filter pattern definition.") from None


class InvalidPattern(ValueError):
    """The text is not a valid filter pattern."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One checked pattern."""

    alternatives: tuple[dict[str, list[Any]], ...]

    @staticmethod
    def parse(text: str) -> Filter:
        """Read a pattern. Raises InvalidPattern."""
        try:
            return Filter(compile_pattern(text))
        except BadEventPattern as error:
            raise InvalidPattern(str(error)) from error

    def matches(self, record: StreamRecord) -> bool:
        """Whether a record passes the filter."""
        metadata = {
            "kinesisSchemaVersion": "1.0",
            **key_of(record),
            "sequenceNumber": record.sequence_number,
            "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
        }
        return matches_payload(self.alternatives, metadata, "data", record.data)

    def matches_change(self, record: StreamRecord) -> bool:
        """Whether a change of a table passes the filter. The record's data is the whole record of the event."""
        return matches_event(self.alternatives, json.loads(record.data))

    def matches_message(self, message: dict[str, Any]) -> bool:
        """Whether a message of a queue passes the filter. `message` has the form of messages in events."""
        return matches_payload(self.alternatives, message, "body", message["body"].encode())


@functools.lru_cache(maxsize=1000)
def parse_filters(patterns: tuple[str, ...]) -> tuple[Filter, ...]:
    """Read a mapping's patterns. Raises InvalidPattern."""
    return tuple(map(Filter.parse, patterns))


def passes(record: StreamRecord, filters: Sequence[Filter], *, of_table: bool = False) -> bool:
    """Whether any filter matches a record of a Kinesis or a DynamoDB stream. Without filters, every record passes."""
    if of_table:
        return not filters or any(one.matches_change(record) for one in filters)
    return not filters or any(one.matches(record) for one in filters)


_encode = msgspec.json.Encoder().encode
# A record whose numbers have their greatest length; `count_overhead_bytes` measures it.
_SAMPLE = StreamRecord("0" * 128, "", b"", 1_700_000_000_123)


class EventWriter:
    """Writes the events of one shard of one mapping of a Kinesis stream. Immutable, thread-safe.

    Args:
        source_arn: the ARN of the stream, or of the registered consumer if the mapping uses one.
    """

    def __init__(self, *, source_arn: str, shard_id: str, region: str, role_arn: str) -> None:
        self._shard_id, self._source_arn = shard_id, source_arn
        self.role_arn = role_arn
        self._overhead_bytes = count_overhead_bytes(
            stream_arn=source_arn, shard_id=shard_id, region=region, role_arn=role_arn
        )
        self._middle = (
            b'"eventSource":"aws:kinesis","eventVersion":"1.0","eventID":"'
            + shard_id.encode()
            + b":"
        )
        self._tail = (
            b'","eventName":"aws:kinesis:record","invokeIdentityArn":'
            + _encode(role_arn)
            + b',"awsRegion":'
            + _encode(region)
            + b',"eventSourceARN":'
            + _encode(source_arn)
            + b"}"
        )

    def record_bytes(self, record: StreamRecord) -> int:
        """Return the least number of bytes that a record takes in the event."""
        return count_event_bytes(record, self._overhead_bytes)

    def records(self, records: Iterable[StreamRecord]) -> bytes:
        """Return the JSON list of a batch's records."""
        middle, tail = self._middle, self._tail
        parts: list[bytes] = []
        for record in records:
            number = record.sequence_number.encode()
            parts.append(
                b'{"kinesis":{"kinesisSchemaVersion":"1.0",%b"sequenceNumber":"%b",'
                b'"data":"%b","approximateArrivalTimestamp":%b},%b%b%b'
                % (
                    b'"partitionKey":%b,' % _encode(key) if (key := record.partition_key) else b"",
                    number,
                    binascii.b2a_base64(record.data, newline=False),
                    repr(record.approximate_arrival_ms / 1000).encode(),
                    middle,
                    number,
                    tail,
                )
            )
        return b"[" + b",".join(parts) + b"]"

    def event(self, records: Iterable[StreamRecord]) -> bytes:
        """Return the event of a batch."""
        return b'{"Records":' + self.records(records) + b"}"

    def window_event(
        self,
        records: Iterable[StreamRecord],
        *,
        start: str,
        end: str,
        state: bytes,
        final: bool,
        early: bool,
    ) -> bytes:
        """Return the event of a batch in a tumbling window. `state` is JSON."""
        rest = {
            "window": {"start": start, "end": end},
            "state": msgspec.Raw(state),
            "shardId": self._shard_id,
            "eventSourceARN": self._source_arn,
            "isFinalInvokeForWindow": final,
            "isWindowTerminatedEarly": early,
        }
        return b'{"Records":' + self.records(records) + b"," + _encode(rest)[1:]


class TableEventWriter(EventWriter):
    """Writes the events of a mapping from a DynamoDB stream, whose records' data is already the JSON of the event."""

    def record_bytes(self, record: StreamRecord) -> int:
        """See `EventWriter.record_bytes`."""
        return len(record.data) + 1

    def records(self, records: Iterable[StreamRecord]) -> bytes:
        """See `EventWriter.records`."""
        return b"[" + b",".join(record.data for record in records) + b"]"


def count_event_bytes(record: StreamRecord, overhead_bytes: int) -> int:
    """Return the least number of bytes that a record takes in the event."""
    key = record.partition_key
    # A character that JSON must escape takes up to six bytes.
    key_bytes = len(key) if key.isascii() and key.isalnum() else 6 * len(key)
    return (len(record.data) + 2) // 3 * 4 + key_bytes + overhead_bytes


def key_of(record: StreamRecord) -> dict[str, str]:
    """Return the member of an event that has a record's partition key, if the record has one."""
    return {"partitionKey": record.partition_key} if record.partition_key else {}


def build_kinesis_event(
    records: Iterable[StreamRecord], *, stream_arn: str, shard_id: str, region: str, role_arn: str
) -> dict[str, Any]:
    """Return the event that a function receives. Source: the developer guide's example (documented)."""
    return {
        "Records": [
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    **key_of(record),
                    "sequenceNumber": record.sequence_number,
                    "data": base64.b64encode(record.data).decode("ascii"),
                    "approximateArrivalTimestamp": record.approximate_arrival_ms / 1000,
                },
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": f"{shard_id}:{record.sequence_number}",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": role_arn,
                "awsRegion": region,
                "eventSourceARN": stream_arn,
            }
            for record in records
        ]
    }


def count_overhead_bytes(*, stream_arn: str, shard_id: str, region: str, role_arn: str) -> int:
    """Return how many bytes a record takes in the event in addition to its data and partition key."""
    event = build_kinesis_event(
        (_SAMPLE,),
        stream_arn=stream_arn,
        shard_id=shard_id,
        region=region,
        role_arn=role_arn,
    )
    return len(json.dumps(event))
