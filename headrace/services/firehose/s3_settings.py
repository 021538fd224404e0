"""Checks S3 configurations and fills in AWS's defaults. Pure functions.

The sentences are AWS's (observed by others, us-east-1, 2026) unless marked as assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.values import get_mapping
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

__all__ = [
    "PLAIN_MEMBERS",
    "check_extended_s3",
    "check_plain_s3",
    "check_processors",
    "update_extended_s3",
]

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


def check_plain_s3(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain S3 configuration, such as another destination's backup, with defaults. Raises AwsError."""
    checked = dict(configuration)
    _check_common(checked)
    checked["BufferingHints"] = hints_of(get_mapping(checked, "BufferingHints"))
    checked.setdefault("CompressionFormat", "UNCOMPRESSED")
    prefix.check(str(checked.get("Prefix") or ""), str(checked.get("ErrorOutputPrefix") or ""))
    return checked


def check_extended_s3(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return an extended S3 configuration with defaults. Raises AwsError."""
    checked = dict(configuration)
    _check_common(checked)
    conversion = get_mapping(checked, "DataFormatConversionConfiguration")
    converts = bool(conversion) and bool(conversion.get("Enabled", True))
    partitioned = is_partitioned(checked)
    compression = checked.setdefault("CompressionFormat", "UNCOMPRESSED")
    if converts and compression != "UNCOMPRESSED":
        raise invalid(
            "The S3 destination's compression format must be set to UNCOMPRESSED when data format conversion is"
            " enabled. To enable compression within the converted output format, set the appropriate serialization"
            " option in the output format configuration."
        )
    checked["BufferingHints"] = hints_of(
        get_mapping(checked, "BufferingHints"), converts=converts, partitioned=partitioned
    )
    if converts:
        serde.check(conversion)
    _check_backup(checked)
    complete_processors(checked)
    _check_prefixes(checked, partitioned=partitioned)
    if partitioned:
        checked["DynamicPartitioningConfiguration"] = {
            "RetryOptions": {"DurationInSeconds": RETRY_DEFAULT_S},
            **get_mapping(checked, "DynamicPartitioningConfiguration"),
        }
        check_keys(checked)
    return checked


def update_extended_s3(present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an extended S3 configuration after an update, member by member. Raises AwsError."""
    change = dict(update)
    if "S3BackupUpdate" in change:
        change["S3BackupConfiguration"] = {
            **get_mapping(present, "S3BackupConfiguration"),
            **change.pop("S3BackupUpdate"),
        }
    if "DynamicPartitioningConfiguration" in change:
        now = bool(get_mapping(change, "DynamicPartitioningConfiguration").get("Enabled"))
        if now != is_partitioned(present):
            raise invalid(
                "Dynamic Partitioning cannot be enabled or disabled after the delivery stream is created."
            )  # assumed
    if "DataFormatConversionConfiguration" in change:
        change["DataFormatConversionConfiguration"] = serde.merge(
            get_mapping(present, "DataFormatConversionConfiguration"),
            get_mapping(change, "DataFormatConversionConfiguration"),
        )
    if present.get("S3BackupMode") == "Enabled" and change.get("S3BackupMode") == "Disabled":
        raise backup_stays()
    return check_extended_s3({**present, **change})


def hints_of(
    hints: Mapping[str, Any],
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
    size_mib = int(hints.get("SizeInMBs", default_mib))
    interval_s = int(hints.get("IntervalInSeconds", default_interval_s))
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


def _check_common(configuration: dict[str, Any]) -> None:
    if not str(configuration.get("BucketARN", "")).startswith("arn:"):
        raise invalid("BucketARN is not a valid ARN.")
    encryption = configuration.setdefault(
        "EncryptionConfiguration", {"NoEncryptionConfig": "NoEncryption"}
    )
    if len({"NoEncryptionConfig", "KMSEncryptionConfig"} & set(encryption)) != 1:
        raise invalid("Exactly one of NoEncryptionConfig or KMSEncryptionConfig must be specified")
    logging = configuration.setdefault("CloudWatchLoggingOptions", {"Enabled": False})
    if logging.get("Enabled"):
        for member, words in (("LogGroupName", "Log Group"), ("LogStreamName", "Log Stream")):
            if not logging.get(member):
                raise invalid(
                    f"CloudWatch {words} Name is required if CloudWatch Logging is enabled"
                )


def _check_backup(configuration: dict[str, Any]) -> None:
    if configuration.setdefault("S3BackupMode", "Disabled") == "Enabled":
        backup = get_mapping(configuration, "S3BackupConfiguration")
        if not backup:
            raise invalid(
                "S3BackupConfiguration is required when S3BackupMode is Enabled."
            )  # assumed
        configuration["S3BackupConfiguration"] = check_plain_s3(backup)


def _check_prefixes(configuration: Mapping[str, Any], *, partitioned: bool) -> None:
    prefix.check(
        str(configuration.get("Prefix") or ""),
        str(configuration.get("ErrorOutputPrefix") or ""),
        time_zone=str(configuration.get("CustomTimeZone") or "UTC"),
        partitioned=partitioned,
    )
