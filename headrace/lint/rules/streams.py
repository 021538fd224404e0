"""Rules for streams: encryption, readers, and partition keys that send everything to one shard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from headrace.lint.permissions import permissions_of
from headrace.lint.rule import Finding, StreamingRule
from headrace.lint.rules.firehose import DELIVERY
from headrace.lint.sources import STREAM, shards_of
from headrace.lint.template import NOT_SET, UNKNOWN, Resource, Template, as_list

_READS = ("kinesis:GetRecords", "kinesis:SubscribeToShard")


class StreamNotEncrypted(StreamingRule):
    """W9040: A stream stores its records unencrypted."""

    id = "W9040"
    shortdesc = "A stream stores its records unencrypted"
    description = (
        "Kinesis, and Firehose with direct puts, encrypt at rest only if the template asks for it;"
        " with alias/aws/kinesis it costs nothing but the KMS requests."
    )
    source_url = "https://docs.aws.amazon.com/streams/latest/dev/server-side-encryption.html"
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 1}
"""
    good = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties:
    ShardCount: 1
    StreamEncryption: {EncryptionType: KMS, KeyId: alias/aws/kinesis}
"""

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the streams without encryption."""
        for stream in template.of_type(STREAM):
            if NOT_SET in stream.template.possible(stream.get("StreamEncryption")):
                yield Finding(
                    stream,
                    f"{stream.name} has no StreamEncryption: its records are stored unencrypted",
                )
        for delivery in template.of_type(DELIVERY):
            kind = delivery.get("DeliveryStreamType")
            encryption = delivery.get("DeliveryStreamEncryptionConfigurationInput")
            if kind in (NOT_SET, "DirectPut") and encryption is NOT_SET:
                yield Finding(
                    delivery,
                    f"{delivery.name} has no DeliveryStreamEncryptionConfigurationInput:"
                    " its buffers are stored unencrypted",
                )


class StreamNobodyReads(StreamingRule):
    """W9041: nobody reads a stream."""

    id = "W9041"
    shortdesc = "Nobody reads a stream"
    description = (
        "No mapping, consumer, delivery or pipe names the stream, no role may read it, and no output exports its name:"
        " its shards cost money, and its records expire unread."
    )
    source_url = "https://docs.aws.amazon.com/streams/latest/dev/building-consumers.html"
    bad = StreamNotEncrypted.good
    good = (
        bad
        + """\
Mapping:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {EventSourceArn: !GetAtt Clicks.Arn, FunctionName: count, StartingPosition: LATEST}
"""
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the streams that nothing reads, here or in a template of the same run."""
        streams = template.of_type(STREAM)
        if not streams:
            return
        read: set[tuple[str, str]] = set()
        for other in template.around():
            for one in other.resources.values():
                if not _only_writes(one):
                    read.update(neighbour.key for neighbour in one.neighbours)
            for role in other.of_type("AWS::IAM::Role"):
                for statement in permissions_of(role).statements:
                    if any(statement.allows(action) for action in _READS):
                        read.update(one.key for one in streams if statement.covers(one))
        if len(template.around()) == 1:
            # The reader may be in a stack that is not linted in this run.
            read.update(one.key for one in template.list_named_in(template.body.get("Outputs", {})))
        for stream in streams:
            if stream.key not in read:
                yield Finding(
                    stream, f"Nobody reads {stream.name}: no mapping, consumer, delivery or role"
                )


# These types name a stream without reading it; another check looks at what a role allows.
_WRITERS = (
    "AWS::IAM::",
    "AWS::CloudWatch::",
    "AWS::ApiGateway",
    "AWS::Events::Rule",
    "AWS::IoT::",
    "AWS::KMS::",
)
# A function may read the stream that its environment names, if its role lets it.
_BY_ROLE = ("AWS::Lambda::Function", "AWS::Kinesis::ResourcePolicy", "AWS::Logs::")


def _only_writes(resource: Resource) -> bool:
    return resource.type.startswith((*_WRITERS, *_BY_ROLE))


_PUT_TEMPLATE = re.compile(r'"PartitionKey"\s*:\s*"([^"]*)"')
_CONSTANT_PATHS = ("$.source", "$.account", "$.region", "$.version", "$.detail-type")


class OneHotShard(StreamingRule):
    """W9042: A constant partition key sends every record to one shard."""

    id = "W9042"
    shortdesc = "A constant partition key sends every record to one shard"
    description = (
        "The shard is chosen by the partition key's hash. A key that never changes uses one shard, 1 MB/s, however"
        " many the stream has."
    )
    source_url = "https://docs.aws.amazon.com/streams/latest/dev/key-concepts.html"
    bad = """\
Clicks:
  Type: AWS::Kinesis::Stream
  Properties: {ShardCount: 4}
Forward:
  Type: AWS::Events::Rule
  Properties:
    EventPattern: {source: [shop]}
    Targets:
      - Id: stream
        Arn: !GetAtt Clicks.Arn
        RoleArn: arn:aws:iam::123456789012:role/forward
        KinesisParameters: {PartitionKeyPath: $.source}
"""
    good = bad.replace("$.source", "$.detail.customer")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the writers whose key is the same for all records."""
        for rule in template.of_type("AWS::Events::Rule"):
            for number, target in enumerate(as_list(rule.get("Targets"))):
                path = _at(target, "KinesisParameters", "PartitionKeyPath")
                if path in _CONSTANT_PATHS and self._has_many(
                    template.list_named_in(_at(target, "Arn"))
                ):
                    members = ("Targets", number, "KinesisParameters", "PartitionKeyPath")
                    yield Finding(
                        rule,
                        f"{rule.name} takes {path} as partition key, the same for all",
                        members,
                    )
        yield from self._pipes(template)
        yield from self._topic_rules(template)
        for method in template.of_type("AWS::ApiGateway::Method"):
            text = json.dumps(method.get("Integration", "RequestTemplates"), default=str)
            for key in _PUT_TEMPLATE.findall(text.replace('\\"', '"')):
                if "$" not in key and self._has_many(template.of_type(STREAM)):
                    members = ("Integration", "RequestTemplates")
                    yield Finding(
                        method, f"{method.name} puts every record with the key {key!r}", members
                    )

    def _pipes(self, template: Template) -> Iterator[Finding]:
        for pipe in template.of_type("AWS::Pipes::Pipe"):
            members = ("TargetParameters", "KinesisStreamParameters", "PartitionKey")
            key = pipe.get(*members)
            if isinstance(key, str) and "$" not in key and self._has_many(pipe.targets("Target")):
                yield Finding(pipe, f"{pipe.name} puts every record with the key {key!r}", members)

    def _topic_rules(self, template: Template) -> Iterator[Finding]:
        for rule in template.of_type("AWS::IoT::TopicRule"):
            for number, action in enumerate(as_list(rule.get("TopicRulePayload", "Actions"))):
                key = _at(action, "Kinesis", "PartitionKey")
                streams = template.list_named_in(_at(action, "Kinesis", "StreamName"))
                if isinstance(key, str) and "${" not in key and self._has_many(streams):
                    members = ("TopicRulePayload", "Actions", number, "Kinesis", "PartitionKey")
                    yield Finding(
                        rule, f"{rule.name} puts every record with the key {key!r}", members
                    )

    def _has_many(self, streams: list[Resource]) -> bool:
        """Return whether one of these streams has, or may have, more than one shard."""
        return any(one.type == STREAM and shards_of(one) != 1 for one in streams)


def _at(value: Any, *members: str) -> Any:
    for member in members:
        if not isinstance(value, dict):
            return UNKNOWN
        value = cast("dict[str, Any]", value).get(member, NOT_SET)
    return value
