"""Finds a mapping's event source: a stream, a table's stream, a registered consumer, or a queue."""

from __future__ import annotations

from headrace.lint.template import NOT_SET, Resource, Template

MAPPING = "AWS::Lambda::EventSourceMapping"
STREAM = "AWS::Kinesis::Stream"
CONSUMER = "AWS::Kinesis::StreamConsumer"
QUEUE = "AWS::SQS::Queue"
TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
DEFAULT_RETENTION_HOURS = 24
TABLE_RETENTION_HOURS = 24
# A function's default. Documented: API_CreateFunction.
DEFAULT_TIMEOUT_S = 3


def source_of(mapping: Resource) -> Resource | None:
    """Return a mapping's event source if these templates contain it; a registered consumer stands for itself."""
    kinds = (STREAM, CONSUMER, QUEUE, *TABLES)
    targets = [one for one in mapping.targets("EventSourceArn") if one.type in kinds]
    return targets[0] if len(targets) == 1 else None


def stream_of(mapping: Resource) -> Resource | None:
    """Return the Kinesis stream that a mapping reads, directly or through a registered consumer."""
    source = source_of(mapping)
    if source is not None and source.type == CONSUMER:
        streams = [one for one in source.targets("StreamARN") if one.type == STREAM]
        source = streams[0] if len(streams) == 1 else None
    return source if source is not None and source.type == STREAM else None


def function_of(mapping: Resource) -> Resource | None:
    """Return the function that a mapping invokes."""
    targets = [
        one for one in mapping.targets("FunctionName") if one.type == "AWS::Lambda::Function"
    ]
    if not targets:
        through = [one for one in mapping.targets("FunctionName") if "Lambda" in one.type]
        targets = [two for one in through for two in one.targets("FunctionName")]
    return targets[0] if len(targets) == 1 else None


def stream_mappings(template: Template) -> list[Resource]:
    """Return the mappings that read shards: of Kinesis streams and of tables' streams."""
    return [one for one in template.of_type(MAPPING) if _reads_shards(one)]


def _reads_shards(mapping: Resource) -> bool:
    source = source_of(mapping)
    if source is not None:
        return source.type != QUEUE
    # Only streams and Kafka have a starting position, and Kafka has topics.
    has_topics = mapping.get("Topics") is not NOT_SET
    return mapping.get("StartingPosition") is not NOT_SET and not has_topics


def retention_hours(mapping: Resource) -> int | None:
    """Return the retention of a mapping's source; None if unknown."""
    source = source_of(mapping)
    if source is not None and source.type in TABLES:
        return TABLE_RETENTION_HOURS
    stream = stream_of(mapping)
    if stream is None:
        return None
    if stream.get("RetentionPeriodHours") is NOT_SET:
        return DEFAULT_RETENTION_HOURS
    return stream.number("RetentionPeriodHours")


def shards_of(stream: Resource) -> int | None:
    """Return a provisioned stream's shard count; None if it is on-demand or unknown."""
    if "ON_DEMAND" in stream.possible("StreamModeDetails", "StreamMode"):
        return None
    return stream.number("ShardCount")


def timeout_s(function: Resource) -> int | None:
    """Return a function's timeout; None if unknown."""
    return DEFAULT_TIMEOUT_S if function.get("Timeout") is NOT_SET else function.number("Timeout")
