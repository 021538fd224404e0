"""Rules for event source mappings and the retention of their streams and failure queues.

Rules for alarms: only one metric, IteratorAge, shows that a mapping falls behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from headrace.lint.template import (
    NOT_SET,
    Finding,
    Resource,
    StreamingRule,
    Template,
    function_of,
    retention_hours,
    stream_mappings,
    stream_of,
    timeout_s,
)

_METRICS = ("IteratorAge", "OffsetLag", "GetRecords.IteratorAgeMilliseconds")
_MAPPED = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1}
Count:
  Type: AWS::Lambda::Function
  Properties:
    Role: arn:aws:iam::123456789012:role/count
    Code: {S3Bucket: code, S3Key: count.zip}
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {EventSourceArn: !GetAtt Clicks.Arn, FunctionName: !Ref Count, StartingPosition: LATEST}
"""


class NoAlarmOnIteratorAge(StreamingRule):
    """W9030: no alarm watches how far a mapping is behind its stream."""

    id = "W9030"
    shortdesc = "No alarm watches how far a mapping is behind its stream"
    description = (
        "A function that is too slow or fails for ever shows in IteratorAge alone; once it reaches the stream's"
        " retention, records are lost."
    )
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html"
    bad = _MAPPED
    good = (
        _MAPPED
        + """\
Behind:
  Type: AWS::CloudWatch::Alarm
  Properties:
    Namespace: AWS/Lambda
    MetricName: IteratorAge
    Dimensions: [{Name: FunctionName, Value: !Ref Count}]
    Statistic: Maximum
    Period: 60
    EvaluationPeriods: 5
    Threshold: 3600000
    ComparisonOperator: GreaterThanThreshold
"""
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings whose function and stream no alarm names."""
        watched: set[tuple[str, str]] = set()
        for other in template.around():
            for alarm in other.of_type("AWS::CloudWatch::Alarm"):
                text = json.dumps(alarm.properties, default=str)
                if any(f'"{metric}"' in text for metric in _METRICS):
                    watched.update(one.key for one in other.list_named_in(alarm.properties))
                    # Without a dimension, Lambda's metric covers all functions.
                    if '"AWS/Lambda"' in text and '"Dimensions"' not in text:
                        return
        for mapping in stream_mappings(template):
            function = function_of(mapping)
            if function is None:
                continue
            both: tuple[Resource | None, ...] = (function, stream_of(mapping))
            if not any(one is not None and one.key in watched for one in both):
                yield Finding(
                    mapping,
                    f"No alarm watches IteratorAge of {function.name}, nor of the stream that {mapping.name} reads",
                )


_WITH_DIMENSION = {"AWS/Kinesis": "StreamName", "AWS/Firehose": "DeliveryStreamName"}


class AlarmWatchesNothing(StreamingRule):
    """W9031: an alarm on a metric of Kinesis or Firehose that names no stream watches nothing."""

    id = "W9031"
    shortdesc = "An alarm on a metric of Kinesis or Firehose that names no stream watches nothing"
    description = (
        "AWS/Kinesis and AWS/Firehose have their metrics by stream alone. An alarm without the dimension stays in"
        " INSUFFICIENT_DATA, however far behind the readers are."
    )
    source_url = "https://docs.aws.amazon.com/streams/latest/dev/monitoring-with-cloudwatch.html"
    bad = """\
Behind:
  Type: AWS::CloudWatch::Alarm
  Properties:
    Namespace: AWS/Kinesis
    MetricName: GetRecords.IteratorAgeMilliseconds
    Statistic: Maximum
    Period: 60
    EvaluationPeriods: 5
    Threshold: 3600000
    ComparisonOperator: GreaterThanThreshold
"""
    good = bad + "    Dimensions: [{Name: StreamName, Value: clicks}]\n"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the alarms without a dimension."""
        for alarm in template.of_type("AWS::CloudWatch::Alarm"):
            namespace = alarm.get("Namespace")
            needed = _WITH_DIMENSION.get(namespace) if isinstance(namespace, str) else None
            if needed is not None and alarm.get("Dimensions") in (NOT_SET, []):
                yield Finding(
                    alarm,
                    f"{alarm.name} watches {namespace} without the dimension {needed}, under which there is no metric",
                    ("MetricName",),
                )


_ERRORS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html"
_PARAMETERS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-parameters.html"
_HOUR_S = 3600


class RecordAgeBeyondRetention(StreamingRule):
    """W9004: A mapping's record age beyond the stream's retention has no effect."""

    id = "W9004"
    shortdesc = "A mapping's record age beyond the stream's retention has no effect"
    description = (
        "A record leaves the stream after its retention. One that expires before it reaches"
        " MaximumRecordAgeInSeconds is never sent to the OnFailure destination for its age."
    )
    source_url = _PARAMETERS_PAGE
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1, RetentionPeriodHours: 24}
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: !GetAtt Clicks.Arn
    FunctionName: count
    StartingPosition: LATEST
    MaximumRecordAgeInSeconds: 604800
"""
    good = bad.replace("RetentionPeriodHours: 24", "RetentionPeriodHours: 192")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings whose record age exceeds the stream's retention."""
        for mapping in stream_mappings(template):
            age_s, kept_hours = (
                mapping.number("MaximumRecordAgeInSeconds"),
                retention_hours(mapping),
            )
            if age_s is not None and kept_hours is not None and age_s > kept_hours * _HOUR_S:
                yield Finding(
                    mapping,
                    f"{mapping.name} takes records until they are {age_s} s old,"
                    f" and its stream keeps them {kept_hours * _HOUR_S} s",
                    ("MaximumRecordAgeInSeconds",),
                )


class RetriesOutlastRetention(StreamingRule):
    """W9005: A stream that keeps records no longer than their retries take loses the records behind them."""

    id = "W9005"
    shortdesc = "A stream that keeps records no longer than their retries take loses the records behind them"
    description = (
        "The retries of one batch may take the function's timeout each, and with BisectBatchOnFunctionError of each"
        " half again; what lies behind it in the shard waits, and expires."
    )
    source_url = _PARAMETERS_PAGE
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1}
Count:
  Type: AWS::Lambda::Function
  Properties:
    Role: arn:aws:iam::123456789012:role/count
    Code: {S3Bucket: code, S3Key: count.zip}
    Timeout: 900
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: !GetAtt Clicks.Arn
    FunctionName: !Ref Count
    StartingPosition: LATEST
    MaximumRetryAttempts: 500
"""
    good = bad.replace("MaximumRetryAttempts: 500", "MaximumRetryAttempts: 5")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings whose retries may take as long as the stream's retention, or longer."""
        for mapping in stream_mappings(template):
            attempts, kept_hours = mapping.number("MaximumRetryAttempts"), retention_hours(mapping)
            function = function_of(mapping)
            each_s = timeout_s(function) if function is not None else None
            if attempts is None or kept_hours is None or each_s is None or attempts < 0:
                continue
            window_s = (attempts + 1) * each_s
            age_s = mapping.number("MaximumRecordAgeInSeconds")
            if age_s is not None and age_s >= 0:
                window_s = min(window_s, age_s)
            if window_s >= kept_hours * _HOUR_S:
                yield Finding(
                    mapping,
                    f"{mapping.name} may retry one batch for {window_s} s,"
                    f" and its stream keeps what waits behind it {kept_hours * _HOUR_S} s",
                    ("MaximumRetryAttempts",),
                )


def _lasting(seconds: float) -> str:
    """Return a duration in the largest unit in which it is a whole number."""
    for unit_s, unit in ((86_400, "days"), (_HOUR_S, "hours"), (60, "minutes")):
        if seconds >= unit_s and seconds % unit_s == 0:
            count = int(seconds // unit_s)
            return f"{count} {unit if count != 1 else unit[:-1]}"
    return f"{seconds:g} seconds"


class FailuresOutliveRecords(StreamingRule):
    """W9006: A failure queue keeps its messages longer than the stream keeps the records that they name."""

    id = "W9006"
    shortdesc = (
        "A failure queue keeps its messages longer than the stream keeps the records that they name"
    )
    description = (
        "A message to a queue or topic on failure names the shard and the sequence numbers, not the data. Who reads it"
        " after the stream's retention finds no record to process again. A bucket as destination gets the data too."
    )
    source_url = _ERRORS_PAGE
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1, RetentionPeriodHours: 24}
Failed:
  Type: AWS::SQS::Queue
  Properties: {MessageRetentionPeriod: 1209600}
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: !GetAtt Clicks.Arn
    FunctionName: count
    StartingPosition: LATEST
    DestinationConfig: {OnFailure: {Destination: !GetAtt Failed.Arn}}
"""
    good = bad.replace("RetentionPeriodHours: 24", "RetentionPeriodHours: 336")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings whose failure queue keeps messages longer than their stream keeps records."""
        for mapping in stream_mappings(template):
            kept_hours = retention_hours(mapping)
            for queue in mapping.targets("DestinationConfig", "OnFailure", "Destination"):
                if queue.type != "AWS::SQS::Queue" or kept_hours is None:
                    continue
                # SQS's default is four days.
                is_default = queue.get("MessageRetentionPeriod") is NOT_SET
                kept_s = 345_600 if is_default else queue.number("MessageRetentionPeriod")
                if kept_s is not None and kept_s > kept_hours * _HOUR_S:
                    yield Finding(
                        mapping,
                        f"The messages of {mapping.name} in {queue.name} have no data, only the records' numbers: they"
                        f" stay for {_lasting(kept_s)}, and after {_lasting(kept_hours * _HOUR_S)} the stream no longer"
                        " has the records; raise its RetentionPeriodHours, or name a bucket as the destination",
                        ("DestinationConfig", "OnFailure", "Destination"),
                    )
