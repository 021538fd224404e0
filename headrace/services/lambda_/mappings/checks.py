"""Checks a mapping's settings by its kind of source, as AWS does beyond its API model and with AWS's messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from headrace.core.arn import Arn, InvalidArn
from headrace.core.values import section
from headrace.services.lambda_.destinations import check_destination
from headrace.services.lambda_.errors import invalid_parameter, validation
from headrace.services.lambda_.mappings.filters import Filter, InvalidPattern

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
