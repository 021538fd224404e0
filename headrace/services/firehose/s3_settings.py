"""Checks S3 configurations and fills in AWS's defaults. Pure functions.

The sentences are AWS's (observed by others, us-east-1, 2026) unless marked as assumed.

Checks a destination's processors. Sentences are AWS's (observed by others, us-east-1, 2026) unless marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.values import get_list, get_mapping
from headrace.services.firehose import prefix, serde, transform
from headrace.services.firehose.errors import (
    CONVERSION_DEFAULT_BUFFER_MIB,
    CONVERSION_MIN_BUFFER_MIB,
    DEFAULT_BUFFER_MIB,
    DEFAULT_INTERVAL_S,
    LAMBDA_BUFFER_MIB,
    LAMBDA_INTERVAL_S,
    LAMBDA_RETRIES,
    MAX_BUFFER_MIB,
    MAX_INTERVAL_S,
    MIN_BUFFER_MIB,
    MOST_PROCESSORS,
    PARTITIONED_MIN_BUFFER_MIB,
    PARTITIONED_MIN_INTERVAL_S,
    RETRY_DEFAULT_S,
    backup_stays,
    check_between,
    invalid,
)
from headrace.services.firehose.prefix import check_keys
from headrace.services.firehose.processing import delimiter_of_parameter
from headrace.services.firehose.state import is_partitioned, processors_of

# Processors that need dynamic partitioning, with the class names in AWS's sentences.
_PARTITIONED_ONLY = ("MetadataExtraction", "RecordDeAggregation")
_MODEL = "class com.amazonaws.services.firehose.internal.model"


def complete_processors(destination: dict[str, Any], *, has_queries: bool = False) -> None:
    """Check a destination's processors, and set their defaults; see `check_processors`. Raises AwsError."""
    check_processors(destination, has_queries=has_queries)
    if "ProcessingConfiguration" in destination:
        destination["ProcessingConfiguration"] = with_defaults(destination)


def check_processors(destination: Mapping[str, Any], *, has_queries: bool = False) -> None:
    """Raise AwsError for invalid processors. `has_queries`: MetadataExtraction may be used to route to tables."""
    processing = get_mapping(destination, "ProcessingConfiguration")
    if not processing.get("Enabled"):
        return
    for processor in get_list(processing, "Processors"):
        names = [parameter["ParameterName"] for parameter in get_list(processor, "Parameters")]
        if len(set(names)) < len(names):
            raise invalid("Duplicate ProcessorParameter passed to ProcessingConfiguration.")
    processors = get_list(processing, "Processors")
    if not 1 <= len(processors) <= MOST_PROCESSORS:
        raise invalid(
            f"A maximum of {MOST_PROCESSORS} and a minimum of 1 processor needs to be supplied when processing is"
            " enabled."
        )
    kinds = [processor["Type"] for processor in processors]
    if kinds.count("Lambda") > 1:
        raise invalid("Cannot have more than 1 Lambda processor.")
    parameters_by_type = processors_of(destination)
    if "Lambda" in parameters_by_type:
        transform.function_of(parameters_by_type["Lambda"])
    if not is_partitioned(destination):
        for kind in _PARTITIONED_ONLY:
            if kind in parameters_by_type and not (has_queries and kind == "MetadataExtraction"):
                raise invalid(
                    f"{_MODEL}.{kind}Processor can only be present when Dynamic Partitioning is enabled."
                )
    if "RecordDeAggregation" in parameters_by_type:
        _check_de_aggregation(parameters_by_type["RecordDeAggregation"])
    if "MetadataExtraction" in parameters_by_type:
        _check_extraction(parameters_by_type["MetadataExtraction"])
    _check_logs(parameters_by_type)


def with_defaults(destination: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked destination's ProcessingConfiguration as AWS stores it (observed by others, 2026).

    Without `Enabled` it is disabled; an enabled Lambda processor has all its parameters, in AWS's order.
    """
    processing = get_mapping(destination, "ProcessingConfiguration")
    filled: dict[str, Any] = {**processing, "Enabled": bool(processing.get("Enabled"))}
    if filled["Enabled"]:
        filled["Processors"] = [
            _lambda_with_defaults(processor, str(destination.get("RoleARN", "")))
            if processor["Type"] == "Lambda"
            else processor
            for processor in get_list(processing, "Processors")
        ]
    return filled


def _lambda_with_defaults(processor: Mapping[str, Any], role: str) -> dict[str, Any]:
    parameter_values = {
        one["ParameterName"]: one["ParameterValue"] for one in get_list(processor, "Parameters")
    }
    defaults = {
        "LambdaArn": "",
        "NumberOfRetries": str(LAMBDA_RETRIES),
        "RoleArn": role,
        "BufferSizeInMBs": f"{LAMBDA_BUFFER_MIB:g}",
        "BufferIntervalInSeconds": str(LAMBDA_INTERVAL_S),
    }
    values = {
        name: parameter_values.get(name, value) for name, value in defaults.items()
    } | parameter_values
    return {
        **processor,
        "Parameters": [
            {"ParameterName": name, "ParameterValue": value} for name, value in values.items()
        ],
    }


def _check_de_aggregation(parameters: Mapping[str, str]) -> None:
    kind = parameters.get("SubRecordType")
    if kind not in ("JSON", "DELIMITED"):
        raise invalid("SubRecordType has to be one of JSON, DELIMITED")
    if kind == "DELIMITED":
        delimiter_of_parameter(parameters)


def _check_extraction(parameters: Mapping[str, str]) -> None:
    if parameters.get("JsonParsingEngine") != "JQ-1.6":
        raise invalid("JsonParsingEngine has to be one of JQ-1.6")  # assumed
    if not parameters.get("MetadataExtractionQuery"):
        raise invalid("MetadataExtractionQuery should be present for MetadataExtraction")  # assumed


def _check_logs(parameters_by_type: Mapping[str, Mapping[str, str]]) -> None:
    if "CloudWatchLogProcessing" in parameters_by_type:
        if "Decompression" not in parameters_by_type:
            raise invalid(
                "CloudWatchLogProcessingProcessor can only be enabled with DecompressionProcessor"
            )
        value = parameters_by_type["CloudWatchLogProcessing"].get("DataMessageExtraction", "")
        if value.lower() not in ("true", "false"):
            raise invalid("DataMessageExtraction has to be one of true, false")  # assumed
    if parameters_by_type.get("Decompression", {}).get("CompressionFormat", "GZIP") != "GZIP":
        raise invalid("CompressionFormat has to be one of GZIP")  # assumed


def find_query(destination: Mapping[str, Any]) -> str:
    """Return the query of a destination's MetadataExtraction, empty without one."""
    return (
        processors_of(destination).get("MetadataExtraction", {}).get("MetadataExtractionQuery", "")
    )


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
