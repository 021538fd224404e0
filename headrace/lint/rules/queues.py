"""Rules for queues that invoke functions: a message must stay hidden while its function works on it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lint.rule import Finding, StreamingRule
from headrace.lint.sources import MAPPING, QUEUE, function_of, source_of, timeout_s
from headrace.lint.template import NOT_SET, Resource, Template

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
