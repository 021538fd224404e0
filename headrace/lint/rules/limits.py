"""Rules for quotas: a deployment needs more than an account has in a region; each quota can be set.

A quota is set by `cfn-lint -x W9070:shards=1000`, or in .cfnlintrc under configure_rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from headrace.lint.template import (
    CONSUMER,
    STREAM,
    Finding,
    Resource,
    StreamingRule,
    Template,
    shards_of,
)

_STREAMS_PAGE = "https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"
# Documented, read 2026: 500 in three regions, 200 in the others; 50 on-demand streams; 20 consumers a stream.
_LARGE_REGIONS = ("us-east-1", "us-west-2", "eu-west-1")
_SHARDS_LARGE = 500
_SHARDS = 200
_ON_DEMAND_STREAMS = 50
_CONSUMERS = 20
_CONCURRENCY = 1000
_UNRESERVED = 100


def _quota(default: int) -> dict[str, Any]:
    return {"default": default, "type": "integer"}


class _QuotaRule(StreamingRule):
    """A rule with quotas that `-x` sets."""

    quotas: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.config_definition = {name: _quota(value) for name, value in self.quotas.items()}
        self.config = dict(self.quotas)

    def quota(self, name: str) -> int:
        """Return a quota: AWS's default, or what it is set to."""
        return int(self.config[name])


class TooManyShards(_QuotaRule):
    """W9070: the streams of a deployment, or their shards, exceed an account's default quota."""

    id = "W9070"
    shortdesc = "The streams of a deployment, or their shards, exceed an account's default quota"
    description = (
        "An account has 500 provisioned shards in us-east-1, us-west-2 and eu-west-1 and 200 elsewhere, and 50"
        " on-demand streams, unless it asked for more; beyond, CreateStream fails with LimitExceededException."
        " Settings: shards (0: the region's default), on_demand_streams."
    )
    source_url = _STREAMS_PAGE
    quotas: ClassVar[dict[str, int]] = {"shards": 0, "on_demand_streams": _ON_DEMAND_STREAMS}
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 501}
"""
    good = bad.replace("501", "200")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the last of the streams that together exceed the quota."""
        mine = template.of_type(STREAM)
        if not mine:
            return
        streams = [one for other in template.around() for one in other.of_type(STREAM)]
        shards = sum(shards_of(one) or 0 for one in streams)
        default = _SHARDS_LARGE if self.region in _LARGE_REGIONS else _SHARDS
        quota = self.quota("shards") or default
        if shards > quota:
            yield Finding(
                mine[-1],
                f"{shards} shards; an account in {self.region} has {quota} by default",
                ("ShardCount",),
            )
        on_demand = [
            one for one in streams if "ON_DEMAND" in one.possible("StreamModeDetails", "StreamMode")
        ]
        most = self.quota("on_demand_streams")
        if len(on_demand) > most:
            yield Finding(
                mine[-1], f"{len(on_demand)} on-demand streams; an account has {most} by default"
            )


class TooManyConsumers(_QuotaRule):
    """W9071: A stream takes at most 20 registered consumers."""

    id = "W9071"
    shortdesc = "A stream takes at most 20 registered consumers"
    description = (
        "RegisterStreamConsumer refuses the one after: LimitExceededException. Setting: consumers, which is 50 for"
        " accounts with On-demand Advantage."
    )
    source_url = _STREAMS_PAGE
    quotas: ClassVar[dict[str, int]] = {"consumers": _CONSUMERS}
    bad = "Clicks: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}\n" + "".join(
        f"Reader{number}: {{Type: 'AWS::Kinesis::StreamConsumer',"
        f" Properties: {{ConsumerName: reader-{number}, StreamARN: !GetAtt Clicks.Arn}}}}\n"
        for number in range(_CONSUMERS + 1)
    )
    good = bad.partition("Reader3:")[0]

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the streams with too many consumers."""
        counts: dict[tuple[str, str], int] = {}
        for other in template.around():
            for consumer in other.of_type(CONSUMER):
                for stream in consumer.targets("StreamARN"):
                    counts[stream.key] = counts.get(stream.key, 0) + 1
        for stream in template.of_type(STREAM):
            if counts.get(stream.key, 0) > self.quota("consumers"):
                yield Finding(
                    stream,
                    f"{stream.name} has {counts[stream.key]} registered consumers;"
                    f" Kinesis takes {self.quota('consumers')}",
                )


class TooMuchConcurrency(_QuotaRule):
    """W9072: the functions of a deployment reserve more concurrency than an account can give."""

    id = "W9072"
    shortdesc = "The functions of a deployment reserve more concurrency than an account can give"
    description = (
        "Of an account's concurrent executions, 1000 by default, 100 must stay unreserved: PutFunctionConcurrency"
        " refuses what goes beyond. Setting: concurrency."
    )
    source_url = "https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html"
    quotas: ClassVar[dict[str, int]] = {"concurrency": _CONCURRENCY}
    bad = """\
Count:
  Type: AWS::Lambda::Function
  Properties:
    Role: arn:aws:iam::123456789012:role/count
    Code: {S3Bucket: code, S3Key: count.zip}
    ReservedConcurrentExecutions: 950
"""
    good = bad.replace("950", "100")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the last of the functions that together reserve too much."""
        last: Resource | None = None
        reserved = 0
        for other in template.around():
            for function in other.of_type("AWS::Lambda::Function"):
                reserved_here = function.number("ReservedConcurrentExecutions")
                reserved += reserved_here or 0
                if reserved_here and other is template:
                    last = function
        most = self.quota("concurrency") - _UNRESERVED
        if last is not None and reserved > most:
            yield Finding(
                last,
                f"{reserved} concurrent executions are reserved; an account can give {most} of"
                f" {self.quota('concurrency')}",
                ("ReservedConcurrentExecutions",),
            )
