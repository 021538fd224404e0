"""Checks S3 configurations and fills in AWS's defaults. Pure functions.

The sentences are AWS's (observed by others, us-east-1, 2026) unless marked as assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.values import mapped
from headrace.services.firehose import prefix, serde
from headrace.services.firehose.errors import backup_stays, invalid
from headrace.services.firehose.limits import (
    CONVERSION_DEFAULT_BUFFER_MIB,
    CONVERSION_MIN_BUFFER_MIB,
    DEFAULT_BUFFER_MIB,
    DEFAULT_INTERVAL_S,
    MAX_BUFFER_MIB,
    MAX_INTERVAL_S,
    MIN_BUFFER_MIB,
    PARTITIONED_MIN_BUFFER_MIB,
    PARTITIONED_MIN_INTERVAL_S,
    RETRY_DEFAULT_S,
)
from headrace.services.firehose.partitions import check_keys
from headrace.services.firehose.processors import check_processors, complete_processors
from headrace.services.firehose.ranges import check_between
from headrace.services.firehose.state import is_partitioned

__all__ = ["PLAIN_MEMBERS", "check_processors", "checked", "checked_s3", "updated"]

# The members of a plain (not extended) S3 configuration.
PLAIN_MEMBERS = (
    "RoleARN",
    "BucketARN",
    "Prefix",
    "ErrorOutputPrefix",
    "BufferingHints",
    "CompressionFormat",
    "EncryptionConfiguration",
    "CloudWatchLoggingOptions",
)


def checked_s3(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain S3 configuration, such as another destination's backup, with defaults. Raises AwsError."""
    made = dict(given)
    _check_common(made)
    made["BufferingHints"] = hints_of(mapped(made, "BufferingHints"))
    made.setdefault("CompressionFormat", "UNCOMPRESSED")
    prefix.check(str(made.get("Prefix") or ""), str(made.get("ErrorOutputPrefix") or ""))
    return made


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an extended S3 configuration with defaults. Raises AwsError."""
    made = dict(given)
    _check_common(made)
    conversion = mapped(made, "DataFormatConversionConfiguration")
    converts = bool(conversion) and bool(conversion.get("Enabled", True))
    partitioned = is_partitioned(made)
    compression = made.setdefault("CompressionFormat", "UNCOMPRESSED")
    if converts and compression != "UNCOMPRESSED":
        raise invalid(
            "The S3 destination's compression format must be set to UNCOMPRESSED when data format conversion is"
            " enabled. To enable compression within the converted output format, set the appropriate serialization"
            " option in the output format configuration."
        )
    made["BufferingHints"] = hints_of(
        mapped(made, "BufferingHints"), converts=converts, partitioned=partitioned
    )
    if converts:
        serde.check(conversion)
    _check_backup(made)
    complete_processors(made)
    _check_prefixes(made, partitioned=partitioned)
    if partitioned:
        made["DynamicPartitioningConfiguration"] = {
            "RetryOptions": {"DurationInSeconds": RETRY_DEFAULT_S},
            **mapped(made, "DynamicPartitioningConfiguration"),
        }
        check_keys(made)
    return made


def updated(present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an extended S3 configuration after an update, member by member. Raises AwsError."""
    change = dict(update)
    if "S3BackupUpdate" in change:
        change["S3BackupConfiguration"] = {
            **mapped(present, "S3BackupConfiguration"),
            **change.pop("S3BackupUpdate"),
        }
    if "DynamicPartitioningConfiguration" in change:
        now = bool(mapped(change, "DynamicPartitioningConfiguration").get("Enabled"))
        if now != is_partitioned(present):
            raise invalid(
                "Dynamic Partitioning cannot be enabled or disabled after the delivery stream is created."
            )  # assumed
    if "DataFormatConversionConfiguration" in change:
        change["DataFormatConversionConfiguration"] = serde.merged(
            mapped(present, "DataFormatConversionConfiguration"),
            mapped(change, "DataFormatConversionConfiguration"),
        )
    if present.get("S3BackupMode") == "Enabled" and change.get("S3BackupMode") == "Disabled":
        raise backup_stays()
    return checked({**present, **change})


def hints_of(
    given: Mapping[str, Any],
    *,
    converts: bool = False,
    partitioned: bool = False,
    most_mib: int = MAX_BUFFER_MIB,
    most_interval_s: int = MAX_INTERVAL_S,
    default_interval_s: int = DEFAULT_INTERVAL_S,
) -> dict[str, int]:
    """Return BufferingHints with defaults. Raises AwsError if one is out of AWS's range.

    Samples that AWS publishes give only one of the two, against the sentence of API_BufferingHints.
    """
    large = converts or partitioned
    default_mib = min(CONVERSION_DEFAULT_BUFFER_MIB if large else DEFAULT_BUFFER_MIB, most_mib)
    size_mib = int(given.get("SizeInMBs", default_mib))
    interval_s = int(given.get("IntervalInSeconds", default_interval_s))
    if partitioned and size_mib < PARTITIONED_MIN_BUFFER_MIB:
        raise invalid(
            f"BufferingHints.SizeInMBs must be at least {PARTITIONED_MIN_BUFFER_MIB} when Dynamic Partitioning is"
            " enabled."
        )
    if partitioned and interval_s < PARTITIONED_MIN_INTERVAL_S:
        raise invalid(
            f"BufferingHints.IntervalInSeconds must be at least {PARTITIONED_MIN_INTERVAL_S} seconds when Dynamic"
            " Partitioning is enabled."
        )
    if converts and size_mib < CONVERSION_MIN_BUFFER_MIB:
        raise invalid(
            f"BufferingHints.SizeInMBs must be at least {CONVERSION_MIN_BUFFER_MIB} when data format conversion is"
            " enabled."
        )
    check_between("BufferingHints.SizeInMBs", size_mib, MIN_BUFFER_MIB, most_mib)
    check_between("BufferingHints.IntervalInSeconds", interval_s, 0, most_interval_s)
    return {"SizeInMBs": size_mib, "IntervalInSeconds": interval_s}


def _check_common(made: dict[str, Any]) -> None:
    if not str(made.get("BucketARN", "")).startswith("arn:"):
        raise invalid("BucketARN is not a valid ARN.")
    encryption = made.setdefault("EncryptionConfiguration", {"NoEncryptionConfig": "NoEncryption"})
    if len({"NoEncryptionConfig", "KMSEncryptionConfig"} & set(encryption)) != 1:
        raise invalid("Exactly one of NoEncryptionConfig or KMSEncryptionConfig must be specified")
    logging = made.setdefault("CloudWatchLoggingOptions", {"Enabled": False})
    if logging.get("Enabled"):
        for member, words in (("LogGroupName", "Log Group"), ("LogStreamName", "Log Stream")):
            if not logging.get(member):
                raise invalid(
                    f"CloudWatch {words} Name is required if CloudWatch Logging is enabled"
                )


def _check_backup(made: dict[str, Any]) -> None:
    if made.setdefault("S3BackupMode", "Disabled") == "Enabled":
        backup = mapped(made, "S3BackupConfiguration")
        if not backup:
            raise invalid(
                "S3BackupConfiguration is required when S3BackupMode is Enabled."
            )  # assumed
        made["S3BackupConfiguration"] = checked_s3(backup)


def _check_prefixes(made: Mapping[str, Any], *, partitioned: bool) -> None:
    prefix.check(
        str(made.get("Prefix") or ""),
        str(made.get("ErrorOutputPrefix") or ""),
        time_zone=str(made.get("CustomTimeZone") or "UTC"),
        partitioned=partitioned,
    )
