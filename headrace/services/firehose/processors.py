"""The processors of a destination: a Lambda function, and the delimiter after each record. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.arn import Arn, InvalidArn
from headrace.core.values import listed, mapped
from headrace.services.firehose.errors import invalid, not_built
from headrace.services.firehose.limits import (
    LAMBDA_BUFFER_MIB,
    LAMBDA_MAX_BUFFER_MIB,
    LAMBDA_MIN_BUFFER_MIB,
    LAMBDA_RETRIES,
)
from headrace.services.firehose.transform import Function

MIB = 1024 * 1024
_KNOWN = frozenset({"Lambda", "AppendDelimiterToRecord"})


def check(destination: Mapping[str, Any]) -> None:
    """Refuse processors that cannot be run. Raises AwsError."""
    found = _enabled(destination)
    for kind in found:
        if kind not in _KNOWN:
            raise not_built(f"the processor {kind}")
    processing = mapped(destination, "ProcessingConfiguration")
    if processing.get("Enabled") and len(found) != len(listed(processing, "Processors")):
        raise invalid("A processor type can occur only once.")
    function(destination)


def function(destination: Mapping[str, Any]) -> Function | None:
    """Return the function that transforms records, if any. Raises AwsError for bad parameters."""
    values = _enabled(destination).get("Lambda")
    if values is None:
        return None
    arn = values.get("LambdaArn", "")
    try:
        if Arn.parse(arn).service != "lambda":
            raise InvalidArn(arn)
        retries = int(values.get("NumberOfRetries", LAMBDA_RETRIES))
        size_mib = float(values.get("BufferSizeInMBs", LAMBDA_BUFFER_MIB))
    except InvalidArn as error:
        raise invalid(f"Invalid Lambda ARN: {arn}") from error
    except ValueError as error:
        raise invalid("NumberOfRetries and BufferSizeInMBs must be numbers.") from error
    if not LAMBDA_MIN_BUFFER_MIB <= size_mib <= LAMBDA_MAX_BUFFER_MIB:
        raise invalid(
            f"BufferSizeInMBs must be between {LAMBDA_MIN_BUFFER_MIB} and {LAMBDA_MAX_BUFFER_MIB}."
        )
    if retries < 0:
        raise invalid("NumberOfRetries must not be negative.")
    return Function(arn, retries, int(size_mib * MIB))


def delimiter(destination: Mapping[str, Any]) -> bytes:
    """Return what follows each record; nothing without the processor."""
    values = _enabled(destination).get("AppendDelimiterToRecord")
    if values is None:
        return b""
    return values.get("Delimiter", "\\n").replace("\\n", "\n").replace("\\t", "\t").encode()


def _enabled(destination: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the parameters of the processors that are on, by type."""
    processing = mapped(destination, "ProcessingConfiguration")
    if not processing.get("Enabled"):
        return {}
    return {
        processor["Type"]: {
            parameter["ParameterName"]: parameter["ParameterValue"]
            for parameter in listed(processor, "Parameters")
        }
        for processor in listed(processing, "Processors")
    }
