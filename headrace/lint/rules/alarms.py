"""Rules for alarms: only one metric, IteratorAge, shows that a mapping falls behind."""

from __future__ import annotations

import json
from collections.abc import Iterator

from headrace.lint.rule import Finding, StreamingRule
from headrace.lint.sources import function_of, stream_mappings, stream_of
from headrace.lint.template import NOT_SET, Resource, Template

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
