"""Checking an S3 destination and filling in AWS's defaults. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.values import listed, mapped
from headrace.services.firehose import prefix, serde, transform
from headrace.services.firehose.errors import invalid, not_built
from headrace.services.firehose.limits import (
    CONVERSION_DEFAULT_BUFFER_MIB,
    CONVERSION_MIN_BUFFER_MIB,
    DEFAULT_BUFFER_MIB,
    DEFAULT_INTERVAL_S,
    MAX_BUFFER_MIB,
    MAX_INTERVAL_S,
    MIN_BUFFER_MIB,
)
from headrace.services.firehose.state import processors_of

_PROCESSORS = frozenset({"Lambda", "AppendDelimiterToRecord"})


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the destination with defaults. Raises AwsError."""
    destination = dict(given)
    if not str(destination.get("BucketARN", "")).startswith("arn:"):
        raise invalid("BucketARN is not a valid ARN.")
    conversion = mapped(destination, "DataFormatConversionConfiguration")
    converts = bool(conversion) and bool(conversion.get("Enabled", True))
    destination["BufferingHints"] = _hints(mapped(destination, "BufferingHints"), converts=converts)
    compression = destination.setdefault("CompressionFormat", "UNCOMPRESSED")
    if compression not in ("UNCOMPRESSED", "GZIP"):
        raise not_built(f"the compression format {compression}")
    if converts:
        _check_conversion(conversion, compression)
    destination.setdefault("EncryptionConfiguration", {"NoEncryptionConfig": "NoEncryption"})
    destination.setdefault("CloudWatchLoggingOptions", {"Enabled": False})
    if destination.setdefault("S3BackupMode", "Disabled") != "Disabled":
        raise not_built("S3 backup")
    if mapped(destination, "DynamicPartitioningConfiguration").get("Enabled"):
        raise not_built("dynamic partitioning")
    check_processors(destination)
    prefix.check(
        str(destination.get("Prefix") or ""),
        str(destination.get("ErrorOutputPrefix") or ""),
        time_zone=str(destination.get("CustomTimeZone") or "UTC"),
    )
    return destination


def check_processors(destination: Mapping[str, Any]) -> None:
    """Refuse processors that cannot be run. Raises AwsError."""
    found = processors_of(destination)
    for kind in found:
        if kind not in _PROCESSORS:
            raise not_built(f"the processor {kind}")
    processing = mapped(destination, "ProcessingConfiguration")
    if processing.get("Enabled") and len(found) != len(listed(processing, "Processors")):
        raise invalid("A processor type can occur only once.")
    if "Lambda" in found:
        transform.function_of(found["Lambda"])


def _hints(given: dict[str, Any], *, converts: bool) -> dict[str, int]:
    default = CONVERSION_DEFAULT_BUFFER_MIB if converts else DEFAULT_BUFFER_MIB
    size = int(given.get("SizeInMBs", default))
    interval = int(given.get("IntervalInSeconds", DEFAULT_INTERVAL_S))
    least = CONVERSION_MIN_BUFFER_MIB if converts else MIN_BUFFER_MIB
    if not least <= size <= MAX_BUFFER_MIB:
        if converts:
            raise invalid(
                f"BufferingHints.SizeInMBs must be at least {CONVERSION_MIN_BUFFER_MIB} when data format conversion is"
                " enabled."
            )
        raise invalid(
            f"BufferingHints.SizeInMBs must be between {MIN_BUFFER_MIB} and {MAX_BUFFER_MIB}."
        )
    if not 0 <= interval <= MAX_INTERVAL_S:
        raise invalid(f"BufferingHints.IntervalInSeconds must be between 0 and {MAX_INTERVAL_S}.")
    return {"SizeInMBs": size, "IntervalInSeconds": interval}


def _check_conversion(conversion: dict[str, Any], compression: str) -> None:
    if compression != "UNCOMPRESSED":
        raise invalid(
            "Data format conversion is enabled, CompressionFormat must be UNCOMPRESSED or absent."
        )
    serde.check(conversion)
