"""The interface of destinations: the worker reads, processes and buffers records; a destination delivers a buffer.

The worker (`delivery.py`) gives a destination one buffer at a time, after it has stored the intent. The worker handles
the retry clock, the error output and the backup bucket; the destination returns which records failed and whether
another try can help.

Beside it: the reasons why a destination refuses, and the delays before it tries again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.records import Record
from headrace.services.firehose.state import DeliveryStream, Intent

_FIRST_S = 1.0
_MOST_S = 120.0
_JITTER = 0.15
# Documented for OpenSearch and Redshift: every five minutes.
EVERY_FIVE_MINUTES_S = 300.0


def compute_backoff_s(retry: int, random: float) -> float:
    """Return the seconds before the `retry`-th retry, 1 for the first. `random` is in [0, 1).

    Source: docs.aws.amazon.com/firehose/latest/dev/httpdeliveryrequestresponse.html: one second, doubled each time, two
    minutes at most, with 15 % of jitter (documented; the formula has MAX where the text describes an upper limit).
    """
    wait_s = min(_MOST_S, _FIRST_S * 2.0 ** min(retry - 1, 16))
    return wait_s * (1 - _JITTER + 2 * _JITTER * random)


@dataclass(frozen=True, slots=True)
class DeliveryRefusal:
    """Why a record or a batch was not delivered.

    Attributes:
        code: AWS's error code, in the error output and the log.
        message: AWS's sentence, in the error output.
        is_retryable: whether another try may succeed.
        is_dropped: whether the error output leaves it out (AWS's rule for a batch that an endpoint found too large).
    """

    code: str
    message: str
    is_retryable: bool = True
    is_dropped: bool = False


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hints:
    """When a buffer is due: at this size, or this long after its first record."""

    size_bytes: int
    interval_s: float

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> Hints:
        """Return a configuration's; Redshift's has them in that of its objects."""
        hints = (
            configuration.get("BufferingHints")
            or configuration["S3Configuration"]["BufferingHints"]
        )
        return cls(int(hints["SizeInMBs"]) * MIB, float(hints["IntervalInSeconds"]))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to deliver a buffer.

    Attributes:
        stream: the delivery stream with the intent's destination and version, not its current ones.
        intent: stored before the first try; `intent.keys` has the object keys, `intent.partition` names the buffer.
        records: the records left to deliver, in order; after a kill, all records of the intent.
        ports: the rest of the cloud; `ports.stopping` is set when the cloud stops.
        number: 1 for the first try.
        again: whether an earlier try may have delivered some: True after a kill, and when `number` is above 1.
    """

    stream: DeliveryStream
    intent: Intent
    records: Sequence[Record]
    ports: Ports
    number: int
    again: bool


@dataclass(slots=True)
class Outcome:
    """The result of an attempt. A record in none of the lists is delivered.

    Attributes:
        failed: records that no further try can deliver: they go to the error output.
        retry: records to try again until the retry duration is over; then they go to the error output.
        size_bytes: what was delivered, for the metrics.
        objects: how many objects were written; of S3 only.
        dropped: records that are neither delivered nor put into the error output, only logged (an HTTP endpoint's
            413).
        end_ms: when the try ended, for the retry duration: waiting for an answer does not count (0: now).
        measured: values of the metrics that only this destination has.
    """

    failed: list[FailedRecord] = field(default_factory=list[FailedRecord])
    retry: list[FailedRecord] = field(default_factory=list[FailedRecord])
    size_bytes: int = 0
    objects: int = 0
    dropped: list[FailedRecord] = field(default_factory=list[FailedRecord])
    end_ms: int = 0
    measured: list[Measure] = field(default_factory=list[Measure])


class Destination(Protocol):
    """One kind of destination. It has no state of its own. Thread-safe.

    Attributes:
        kind: the prefix of the API's members: `<kind>DestinationConfiguration`, `...Update`, `...Description`.
        error_type: the error-output type of undeliverable records, such as `http-endpoint-failed`.
        metrics: the prefix of its CloudWatch metrics, such as `DeliveryToHttpEndpoint`.
    """

    kind: str
    error_type: str
    metrics: str

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Check a configuration and return it with AWS's defaults. Raises AwsError."""
        ...

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration after an UpdateDestination. Raises AwsError for an invalid change."""
        ...

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members of a DestinationDescription, without secrets."""
        ...

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """Return how long after the first failure records of `Outcome.retry` are tried again."""
        ...

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """Return how long to wait after attempt `number`; `ids_random`, in [0, 1), is for jitter."""
        ...

    def deliver(self, attempt: Attempt) -> Outcome:
        """Deliver records. An exception means a fault of the cloud; the delivery is then tried again without limit."""
        ...

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """Return the error output's line for a record, with AWS's members."""
        ...


@runtime_checkable
class ErrorFile(Protocol):
    """A destination whose error output is one file, not a line for each record."""

    def error_body(self, failures: Sequence[FailedRecord], attempt: Attempt) -> bytes:
        """Return the error output of records that could not be delivered."""
        ...


@runtime_checkable
class ObjectNames(Protocol):
    """A destination that names its objects itself."""

    def name_objects(
        self, stream: DeliveryStream, kinds: Sequence[str], ports: Ports
    ) -> dict[str, str]:
        """Return a delivery's object keys by kind. Their random parts are drawn here, once."""
        ...
