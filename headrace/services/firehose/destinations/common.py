"""What all destinations except S3 share: checks of configurations, secrets, and the outcome of a refused batch."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.values import get_mapping
from headrace.services.firehose.destinations.base import Attempt, DeliveryRefusal, Outcome
from headrace.services.firehose.errors import backup_stays, invalid
from headrace.services.firehose.failures import FailedRecord
from headrace.services.firehose.permits import find_secret_denial
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.processors import complete_processors
from headrace.services.firehose.records import Record
from headrace.services.firehose.s3_settings import check_plain_s3, hints_of
from headrace.services.firehose.state import DeliveryStream

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
        secret = json.loads(text)
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
