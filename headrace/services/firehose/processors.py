"""Checks a destination's processors. Sentences are AWS's (observed by others, us-east-1, 2026) unless marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.values import get_list, get_mapping
from headrace.services.firehose import transform
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.limits import (
    LAMBDA_BUFFER_MIB,
    LAMBDA_INTERVAL_S,
    LAMBDA_RETRIES,
    MOST_PROCESSORS,
)
from headrace.services.firehose.splitting import delimiter_of_parameter
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
