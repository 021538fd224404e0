"""Rules for event source mappings on shards: stopped shards, lost records, and too many parallel invocations.

Rules for queues that invoke functions: a message must stay hidden while its function works on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.template import (
    MAPPING,
    NOT_SET,
    QUEUE,
    Finding,
    Resource,
    StreamingRule,
    Template,
    function_of,
    shards_of,
    source_of,
    stream_mappings,
    stream_of,
    timeout_s,
)

_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"
# A queue's default. Documented: API_SetQueueAttributes.
_DEFAULT_VISIBILITY_S = 30
# AWS's recommendation, which leaves time for retries when a batch is throttled.
_TIMES = 6
_EXAMPLE = """\
Orders:
  Type: AWS::SQS::Queue
  Properties: {VisibilityTimeout: 30}
Pack:
  Type: AWS::Lambda::Function
  Properties:
    Role: arn:aws:iam::123456789012:role/pack
    Code: {S3Bucket: code, S3Key: pack.zip}
    Timeout: 60
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {EventSourceArn: !GetAtt Orders.Arn, FunctionName: !Ref Pack}
"""


def _pairs(template: Template) -> Iterator[tuple[Resource, Resource, int, int]]:
    """Yield each mapping on a queue with the queue, its visibility timeout, and the function's timeout."""
    for mapping in template.of_type(MAPPING):
        queue, function = source_of(mapping), function_of(mapping)
        if queue is None or queue.type != QUEUE or function is None:
            continue
        is_default = queue.get("VisibilityTimeout") is NOT_SET
        hidden_s = _DEFAULT_VISIBILITY_S if is_default else queue.number("VisibilityTimeout")
        working_s = timeout_s(function)
        if hidden_s is not None and working_s is not None:
            yield mapping, queue, hidden_s, working_s


class VisibilityBelowTimeout(StreamingRule):
    """E9010: A queue that hides a message for less time than its function may work is refused."""

    id = "E9010"
    shortdesc = "A queue that hides a message for less time than its function may work is refused"
    description = (
        "AWS refuses the mapping: the message would come back, and be processed a second time, while the function is"
        " still at work on it."
    )
    source_url = _PAGE
    bad = _EXAMPLE
    good = _EXAMPLE.replace("VisibilityTimeout: 30", "VisibilityTimeout: 360")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings that AWS refuses."""
        for mapping, queue, hidden_s, working_s in _pairs(template):
            if hidden_s < working_s:
                yield Finding(
                    mapping,
                    f"{queue.name} hides a message for {hidden_s} s, less than the function's Timeout of {working_s} s",
                    ("EventSourceArn",),
                )


class VisibilityBelowSixTimeouts(StreamingRule):
    """W9010: A queue that hides a message for less than six timeouts of its function leaves no time for retries."""

    id = "W9010"
    shortdesc = "A queue that hides a message for less than six timeouts of its function leaves no time for retries"
    description = (
        "AWS recommends six times the function's timeout, and the batching window on top, so that Lambda can try a"
        " throttled batch again before its messages come back."
    )
    source_url = _PAGE
    bad = _EXAMPLE.replace("VisibilityTimeout: 30", "VisibilityTimeout: 90")
    good = VisibilityBelowTimeout.good

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings that AWS accepts although they leave too little time."""
        for mapping, queue, hidden_s, working_s in _pairs(template):
            window_s = mapping.number("MaximumBatchingWindowInSeconds") or 0
            wanted_s = _TIMES * working_s + window_s
            if working_s <= hidden_s < wanted_s:
                yield Finding(
                    mapping,
                    f"{queue.name} hides a message for {hidden_s} s; six times the function's Timeout"
                    f" and the batching window are {wanted_s} s",
                    ("EventSourceArn",),
                )


_ERRORS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html"
_PARAMETERS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-parameters.html"
_FOR_EVER = (NOT_SET, -1, "-1")


class MappingRetriesForEver(StreamingRule):
    """W9001: A mapping without a limit of retries lets one bad record stop its shard."""

    id = "W9001"
    shortdesc = "A mapping without a limit of retries lets one bad record stop its shard"
    description = (
        "Without MaximumRetryAttempts and MaximumRecordAgeInSeconds Lambda retries a failing batch until its records"
        " expire, and reads nothing else of the shard meanwhile."
    )
    source_url = _PARAMETERS_PAGE
    bad = """\
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: arn:aws:kinesis:us-east-1:123456789012:stream/clicks
    FunctionName: count
    StartingPosition: LATEST
"""
    good = bad + "    MaximumRetryAttempts: 3\n"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings that have neither limit."""
        for mapping in stream_mappings(template):
            attempts = mapping.possible("MaximumRetryAttempts")
            ages = mapping.possible("MaximumRecordAgeInSeconds")
            if any(one in _FOR_EVER for one in attempts) and any(one in _FOR_EVER for one in ages):
                yield Finding(
                    mapping,
                    f"{mapping.name} retries a failing batch until its records expire, and its shard waits;"
                    " set MaximumRetryAttempts or MaximumRecordAgeInSeconds",
                    ("MaximumRetryAttempts",),
                )


class MappingTakesBatchesWhole(StreamingRule):
    """W9002: a mapping that neither splits a failing batch nor learns which record failed gives up good records too."""

    id = "W9002"
    shortdesc = "A mapping that neither splits a failing batch nor learns which record failed gives up good records too"
    description = (
        "Without BisectBatchOnFunctionError or ReportBatchItemFailures every retry is of the whole batch, and what is"
        " given up in the end is the whole batch."
    )
    source_url = _PARAMETERS_PAGE
    bad = MappingRetriesForEver.good
    good = bad + "    BisectBatchOnFunctionError: true\n"

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings that have neither."""
        for mapping in stream_mappings(template):
            reports = "ReportBatchItemFailures" in str(mapping.get("FunctionResponseTypes"))
            if mapping.is_true("BisectBatchOnFunctionError") is False and not reports:
                # A batch of one record cannot be split.
                if mapping.number("BatchSize") == 1:
                    continue
                yield Finding(
                    mapping,
                    f"{mapping.name} gives up the whole batch for one bad record;"
                    " set BisectBatchOnFunctionError, or FunctionResponseTypes to ReportBatchItemFailures",
                    ("BisectBatchOnFunctionError",),
                )


class MappingDropsSilently(StreamingRule):
    """W9003: A mapping without a destination on failure drops records silently."""

    id = "W9003"
    shortdesc = "A mapping without a destination on failure drops records silently"
    description = (
        "What Lambda gives up after the last retry, or because it is too old, is named in the OnFailure destination"
        " and nowhere else."
    )
    source_url = _ERRORS_PAGE
    bad = MappingRetriesForEver.good
    good = (
        bad
        + """\
    DestinationConfig:
      OnFailure:
        Destination: arn:aws:sqs:us-east-1:123456789012:failed-clicks
"""
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the mappings that give records up without a destination."""
        for mapping in stream_mappings(template):
            if NOT_SET in mapping.possible("DestinationConfig", "OnFailure", "Destination"):
                yield Finding(
                    mapping,
                    f"{mapping.name} has no DestinationConfig.OnFailure: it drops failed records silently",
                    ("DestinationConfig",),
                )


class ParallelBatchesAboveConcurrency(StreamingRule):
    """W9007: the mappings of a function invoke it more often at once than its reserved concurrency allows."""

    id = "W9007"
    shortdesc = "The mappings of a function invoke it more often at once than its reserved concurrency allows"
    description = (
        "A mapping invokes for each shard as many times at once as ParallelizationFactor says. What is above the"
        " function's ReservedConcurrentExecutions is throttled, retried, and counts against the record's age."
    )
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/services-kinesis-create.html"
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 8}
Count:
  Type: AWS::Lambda::Function
  Properties:
    Role: arn:aws:iam::123456789012:role/count
    Code: {S3Bucket: code, S3Key: count.zip}
    ReservedConcurrentExecutions: 10
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: !GetAtt Clicks.Arn
    FunctionName: !Ref Count
    StartingPosition: LATEST
    ParallelizationFactor: 4
"""
    good = bad.replace("ReservedConcurrentExecutions: 10", "ReservedConcurrentExecutions: 32")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the functions that are too small for their mappings together."""
        at_once_of: dict[tuple[str, str], tuple[Resource, int]] = {}
        for mapping in stream_mappings(template):
            function, stream = function_of(mapping), stream_of(mapping)
            shards = shards_of(stream) if stream is not None else None
            if function is None or shards is None:
                continue
            before = at_once_of.get(function.key, (function, 0))[1]
            factor = mapping.number("ParallelizationFactor") or 1
            at_once_of[function.key] = (function, before + shards * factor)
        for function, at_once in at_once_of.values():
            reserved = function.number("ReservedConcurrentExecutions")
            if reserved is not None and at_once > reserved:
                yield Finding(
                    function,
                    f"The mappings of {function.name} invoke it {at_once} times at once,"
                    f" and ReservedConcurrentExecutions is {reserved}",
                    ("ReservedConcurrentExecutions",),
                )


# Words by which a parameter's name shows the setting that it is for.
_SETTINGS = {
    "MaximumRetryAttempts": ("retr", "attempt"),
    "ParallelizationFactor": ("parallel",),
    "BatchSize": ("batchsize", "recordsperbatch"),
    "MaximumBatchingWindowInSeconds": ("batchwindow", "batchingwindow"),
    "MaximumRecordAgeInSeconds": ("recordage", "maxage"),
    "TumblingWindowInSeconds": ("tumbling",),
}


class SwappedSettings(StreamingRule):
    """W9008: A setting of a mapping takes the parameter that is named after another setting."""

    id = "W9008"
    shortdesc = "A setting of a mapping takes the parameter that is named after another setting"
    description = (
        "Retries, parallel batches, sizes and windows are all plain numbers: CloudFormation takes one for the other,"
        " and the mapping runs with both wrong."
    )
    source_url = (
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
        "aws-resource-lambda-eventsourcemapping.html"
    )
    bad = """\
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: arn:aws:kinesis:us-east-1:123456789012:stream/clicks
    FunctionName: count
    StartingPosition: LATEST
    MaximumRetryAttempts: !Ref ParallelizationFactor
    ParallelizationFactor: !Ref RetryAttempts
"""
    good = (
        bad.replace("!Ref ParallelizationFactor", "!Ref Swap")
        .replace("!Ref RetryAttempts", "!Ref ParallelizationFactor")
        .replace("!Ref Swap", "!Ref RetryAttempts")
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the settings that take another setting's parameter."""
        for mapping in template.of_type("AWS::Lambda::EventSourceMapping"):
            for setting, own_words in _SETTINGS.items():
                value = mapping.get(setting)
                if not isinstance(value, dict) or "Ref" not in value:
                    continue
                parameter = str(value["Ref"])  # pyright: ignore[reportUnknownArgumentType]
                name = parameter.lower()
                other = next(
                    (
                        one
                        for one, words in _SETTINGS.items()
                        if one != setting and any(word in name for word in words)
                    ),
                    None,
                )
                if other is not None and not any(word in name for word in own_words):
                    yield Finding(
                        mapping,
                        f"{mapping.name} takes {setting} from {parameter}, which is named after {other}",
                        (setting,),
                    )


class TooManyPollers(StreamingRule):
    """W9009: more than five readers share each shard's five reads a second."""

    id = "W9009"
    shortdesc = "More than five readers share each shard's five reads a second"
    description = (
        "A shard serves five GetRecords a second and 2 MB/s to all readers together, and a mapping polls it once a"
        " second. A reader through a registered consumer has a share of its own."
    )
    source_url = "https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"
    bad = "Clicks: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}\n" + "".join(
        f"""\
Mapping{number}:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {{EventSourceArn: !GetAtt Clicks.Arn, FunctionName: f{number}, StartingPosition: LATEST}}
"""
        for number in range(6)
    )
    good = bad[: bad.index("Mapping5")]

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the streams that more than five mappings poll."""
        pollers: dict[tuple[str, str], list[Resource]] = {}
        for one in (
            stream_mapping
            for other in template.around()
            for stream_mapping in stream_mappings(other)
        ):
            source = source_of(one)
            if source is not None and source.type == "AWS::Kinesis::Stream":
                pollers.setdefault(source.key, []).append(one)
        for stream in template.of_type("AWS::Kinesis::Stream"):
            count = len(pollers.get(stream.key, ()))
            if count > 5:
                yield Finding(
                    stream,
                    f"{count} mappings poll {stream.name}; a shard serves five reads a second:"
                    " give some of them an AWS::Kinesis::StreamConsumer",
                )
