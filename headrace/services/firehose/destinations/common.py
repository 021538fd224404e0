"""What all destinations share: their interface, checks of configurations and secrets, and outcomes.

The worker (`delivery.py`) gives a destination one buffer at a time, after it has stored the intent. The worker handles
the retry clock, the error output and the backup bucket; the destination returns which records failed and whether
another try can help. Beside it: the reasons why a destination refuses, and the delays before it tries again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from headrace.core.values import get_mapping, parse_json
from headrace.services.firehose.errors import backup_stays, invalid
from headrace.services.firehose.metrics import Measure
from headrace.services.firehose.permits import find_secret_denial
from headrace.services.firehose.records import FailedRecord, Ports, Record
from headrace.services.firehose.s3_settings import check_plain_s3, complete_processors, hints_of
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


# The namespace of the UUIDs of requests and channels.
_NAMES = uuid.UUID("5e0f1a5c-6c0b-5d8f-9d0a-3f6f2d1f4a77")


@dataclass(frozen=True, slots=True)
class KindRules:
    """A kind's ranges and defaults. `backup_modes`: the first is the default, the second backs up all records."""

    most_mib: int
    backup_modes: tuple[str, str]
    default_retry_s: int = 300
    most_interval_s: int = 900
    default_interval_s: int = 300


def check_configuration(
    configuration: Mapping[str, Any], rules: KindRules, *, has_queries: bool = False
) -> dict[str, Any]:
    """Check a configuration and return it with AWS's defaults. The API model has checked ranges. Raises AwsError.

    `has_queries`: it may have a MetadataExtraction processor, which otherwise needs dynamic partitioning.
    """
    checked = dict(configuration)
    checked["S3Configuration"] = check_plain_s3(get_mapping(checked, "S3Configuration"))
    checked["BufferingHints"] = hints_of(
        get_mapping(checked, "BufferingHints"),
        most_mib=rules.most_mib,
        most_interval_s=rules.most_interval_s,
        default_interval_s=rules.default_interval_s,
    )
    checked["RetryOptions"] = {
        "DurationInSeconds": rules.default_retry_s,
        **get_mapping(checked, "RetryOptions"),
    }
    checked.setdefault("S3BackupMode", rules.backup_modes[0])
    check_logging(checked)
    complete_processors(checked, has_queries=has_queries)
    return checked


def check_logging(configuration: dict[str, Any]) -> None:
    """Raise AwsError for logging without a log's name; set the default, which is no logging."""
    logging = configuration.setdefault("CloudWatchLoggingOptions", {"Enabled": False})
    if logging.get("Enabled"):
        for member, words in (("LogGroupName", "Log Group"), ("LogStreamName", "Log Stream")):
            if not logging.get(member):
                raise invalid(
                    f"CloudWatch {words} Name is required if CloudWatch Logging is enabled"
                )


def merge_update(present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with an update's members merged in, not yet checked."""
    change = dict(update)
    if "S3Update" in change:
        change["S3Configuration"] = {
            **get_mapping(present, "S3Configuration"),
            **change.pop("S3Update"),
        }
    return {**present, **change}


def check_backup_stays(
    present: Mapping[str, Any], configuration: Mapping[str, Any], rules: KindRules
) -> None:
    """Raise AwsError when an update disables the backup of all records. Source: the model's text of S3BackupMode."""
    first, every = rules.backup_modes
    if present.get("S3BackupMode") == every and configuration["S3BackupMode"] == first:
        raise backup_stays()


def describe_configuration(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the member names of a description."""
    shown = dict(configuration)
    shown["S3DestinationDescription"] = shown.pop("S3Configuration")
    return shown


def retry_s(configuration: Mapping[str, Any]) -> float:
    """Return RetryOptions' seconds."""
    return float(configuration["RetryOptions"]["DurationInSeconds"])


def build_stable_id(stream: DeliveryStream, *parts: str) -> str:
    """Return a GUID that is always the same for the same parts of a delivery stream, also after a kill."""
    return str(uuid.uuid5(_NAMES, "/".join([stream.stream_id, *parts])))


def batch_id(stream: DeliveryStream, records: Sequence[Record]) -> str:
    """Return a GUID for a batch, always the same for the same records."""
    return build_stable_id(stream, records[0].record_id, records[-1].record_id, str(len(records)))


def take(
    outcome: Outcome, attempt: Attempt, records: Sequence[Record], refused: DeliveryRefusal | None
) -> None:
    """Add to an outcome the result of a batch that a destination accepts or refuses as a whole."""
    if refused is None:
        outcome.size_bytes += sum(len(record.data) for record in records)
        return
    failed = [
        FailedRecord(record, refused.code, refused.message, attempt.number) for record in records
    ]
    if refused.is_dropped:
        outcome.dropped += failed
    elif refused.is_retryable:
        outcome.retry += failed
    else:
        outcome.failed += failed


class SecretMissing(LookupError):
    """The secret does not exist, cannot be read, or lacks the member; the message says which."""


def read_secret(
    configuration: Mapping[str, Any], ports: Ports, stream: DeliveryStream
) -> dict[str, str] | None:
    """Return the secret of a configuration; None when it has none. Raises SecretMissing."""
    secret_configuration = get_mapping(configuration, "SecretsManagerConfiguration")
    if not secret_configuration.get("Enabled"):
        return None
    arn = str(secret_configuration.get("SecretARN", ""))
    sentence = find_secret_denial(ports.guard, stream, arn)
    if sentence:
        raise SecretMissing(sentence)
    text = ports.secrets(arn, stream.account, stream.region)
    if text is None:
        raise SecretMissing(f"Secrets Manager can't find the specified secret: {arn}.")
    try:
        secret = parse_json(text)
    except ValueError:
        secret = None
    if not isinstance(secret, dict):
        raise SecretMissing(f"The secret {arn} is no JSON object.")
    return {name: str(value) for name, value in cast("dict[str, Any]", secret).items()}


def check_secret(configuration: Mapping[str, Any], member: str, *, is_needed: bool) -> None:
    """Raise AwsError when a required credential is in neither of its two places. The sentences are assumed."""
    manager = get_mapping(configuration, "SecretsManagerConfiguration")
    if manager.get("Enabled"):
        if not manager.get("SecretARN"):
            raise invalid("SecretARN is required when SecretsManagerConfiguration is enabled.")
    elif is_needed and not configuration.get(member):
        raise invalid(f"{member} is required when SecretsManagerConfiguration is not enabled.")
