"""Rules for streams: encryption, readers, and partition keys that send everything to one shard.

Rules for Firehose deliveries to S3: configurations that pass the schema, but that CreateDeliveryStream refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from headrace.lint.permissions import permissions_of
from headrace.lint.template import (
    NOT_SET,
    STREAM,
    UNKNOWN,
    Finding,
    Resource,
    StreamingRule,
    Template,
    as_list,
    shards_of,
)

DELIVERY = "AWS::KinesisFirehose::DeliveryStream"
_S3 = "ExtendedS3DestinationConfiguration"
_PREFIXES_PAGE = "https://docs.aws.amazon.com/firehose/latest/dev/s3-prefixes.html"
_PARTITIONS_PAGE = "https://docs.aws.amazon.com/firehose/latest/dev/dynamic-partitioning.html"
_CONVERSION_PAGE = (
    "https://docs.aws.amazon.com/firehose/latest/dev/enable-record-format-conversion.html"
)
_ERROR_TYPE = "!{firehose:error-output-type}"
_BY_KEY = re.compile(r"!\{(partitionKeyFromQuery|partitionKeyFromLambda):")
_LEAST_MIB = 64
_LEAST_S = 60
_EXAMPLE = """\
Lake:
  Type: AWS::KinesisFirehose::DeliveryStream
  Properties:
    ExtendedS3DestinationConfiguration:
      BucketARN: arn:aws:s3:::lake
      RoleARN: arn:aws:iam::123456789012:role/firehose
"""
_PARTITIONED = (
    _EXAMPLE
    + """\
      Prefix: clicks/!{partitionKeyFromQuery:country}/
      ErrorOutputPrefix: errors/!{firehose:error-output-type}/
      BufferingHints: {SizeInMBs: 5, IntervalInSeconds: 30}
      DynamicPartitioningConfiguration: {Enabled: true}
      ProcessingConfiguration:
        Enabled: true
        Processors: [{Type: MetadataExtraction}]
"""
)
_CONVERTED = (
    _EXAMPLE
    + """\
      CompressionFormat: GZIP
      BufferingHints: {SizeInMBs: 128, IntervalInSeconds: 300}
      DataFormatConversionConfiguration: {Enabled: true}
"""
)


def _is_partitioned(delivery: Resource) -> bool:
    return delivery.is_true(_S3, "DynamicPartitioningConfiguration", "Enabled") is True


def _is_converted(delivery: Resource) -> bool:
    configuration = delivery.get(_S3, "DataFormatConversionConfiguration")
    if configuration in (NOT_SET, UNKNOWN):
        return False
    # The default of Enabled is true: API_DataFormatConversionConfiguration.
    is_default = delivery.get(_S3, "DataFormatConversionConfiguration", "Enabled") is NOT_SET
    return (
        is_default or delivery.is_true(_S3, "DataFormatConversionConfiguration", "Enabled") is True
    )


def _text(delivery: Resource, *members: str) -> str | None:
    """Return a prefix whose value is certain; "" when it is not set."""
    values = delivery.template.possible(delivery.get(*members))
    if len(values) != 1 or values[0] is UNKNOWN:
        return None
    return "" if values[0] is NOT_SET else str(values[0])


class PartitionedBufferTooSmall(StreamingRule):
    """E9020: A delivery with dynamic partitioning needs a buffer of at least 64 MiB and 60 s."""

    id = "E9020"
    shortdesc = "A delivery with dynamic partitioning needs a buffer of at least 64 MiB and 60 s"
    description = "Firehose refuses a smaller buffer for dynamic partitioning, and has no zero buffering for it."
    source_url = _PARTITIONS_PAGE
    bad = _PARTITIONED
    good = _PARTITIONED.replace("SizeInMBs: 5", "SizeInMBs: 64").replace(
        "IntervalInSeconds: 30", "IntervalInSeconds: 60"
    )

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the hints that are too small."""
        for delivery in template.of_type(DELIVERY):
            if not _is_partitioned(delivery):
                continue
            hints = (("SizeInMBs", _LEAST_MIB, "MiB"), ("IntervalInSeconds", _LEAST_S, "s"))
            for member, least, unit in hints:
                hint = delivery.number(_S3, "BufferingHints", member)
                if hint is not None and hint < least:
                    yield Finding(
                        delivery,
                        f"{delivery.name} partitions dynamically with {member} {hint};"
                        f" Firehose takes at least {least} {unit}",
                        (_S3, "BufferingHints", member),
                    )


class ConvertedAndCompressed(StreamingRule):
    """E9021: A delivery that converts its records to Parquet or ORC must not compress its objects again."""

    id = "E9021"
    shortdesc = (
        "A delivery that converts its records to Parquet or ORC must not compress its objects again"
    )
    description = (
        "With data format conversion CompressionFormat must be UNCOMPRESSED; Parquet and ORC compress inside,"
        " by ParquetSerDe.Compression or OrcSerDe.Compression."
    )
    source_url = _CONVERSION_PAGE
    bad = _CONVERTED
    good = _CONVERTED.replace("GZIP", "UNCOMPRESSED")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the deliveries that do both."""
        for delivery in template.of_type(DELIVERY):
            if not _is_converted(delivery):
                continue
            for compression in delivery.possible(_S3, "CompressionFormat"):
                if compression not in (NOT_SET, "UNCOMPRESSED"):
                    yield Finding(
                        delivery,
                        f"{delivery.name} converts its records and has CompressionFormat {compression};"
                        " Firehose takes UNCOMPRESSED only",
                        (_S3, "CompressionFormat"),
                    )


class ConvertedBufferTooSmall(StreamingRule):
    """E9022: A delivery that converts its records to Parquet or ORC needs a buffer of at least 64 MiB."""

    id = "E9022"
    shortdesc = (
        "A delivery that converts its records to Parquet or ORC needs a buffer of at least 64 MiB"
    )
    description = (
        "Firehose refuses a smaller SizeInMBs with data format conversion; left out, it is 128."
    )
    source_url = _CONVERSION_PAGE
    bad = _CONVERTED.replace("GZIP", "UNCOMPRESSED").replace("SizeInMBs: 128", "SizeInMBs: 5")
    good = ConvertedAndCompressed.good

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the buffers that are too small."""
        for delivery in template.of_type(DELIVERY):
            size_mib = delivery.number(_S3, "BufferingHints", "SizeInMBs")
            if _is_converted(delivery) and size_mib is not None and size_mib < _LEAST_MIB:
                yield Finding(
                    delivery,
                    f"{delivery.name} converts its records with SizeInMBs {size_mib};"
                    f" Firehose takes at least {_LEAST_MIB}",
                    (_S3, "BufferingHints", "SizeInMBs"),
                )


class ErrorPrefixWithoutType(StreamingRule):
    """E9023: an error prefix is missing, or does not say the type of error."""

    id = "E9023"
    shortdesc = "An error prefix is missing, or does not say the type of error"
    description = (
        "Once Prefix holds an expression, ErrorOutputPrefix must be given; once ErrorOutputPrefix holds one, it must"
        " hold !{firehose:error-output-type}, which Prefix must not; and it cannot hold a record's partition keys."
    )
    source_url = _PREFIXES_PAGE
    bad = (
        _EXAMPLE
        + """\
      Prefix: clicks/!{timestamp:yyyy}/
      ErrorOutputPrefix: errors/!{timestamp:yyyy}/
"""
    )
    good = bad.replace("errors/", "errors/!{firehose:error-output-type}/")

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the prefixes that Firehose refuses."""
        for delivery in template.of_type(DELIVERY):
            for members in _buckets_of(delivery):
                prefix = _text(delivery, *members, "Prefix")
                errors = _text(delivery, *members, "ErrorOutputPrefix")
                reason = self._find_refusal(prefix, errors)
                if reason is not None:
                    yield Finding(
                        delivery, f"{delivery.name}: {reason}", (*members, "ErrorOutputPrefix")
                    )

    def _find_refusal(self, prefix: str | None, errors: str | None) -> str | None:
        if errors and "!{" in errors and _ERROR_TYPE not in errors:
            return f"ErrorOutputPrefix holds expressions, and not {_ERROR_TYPE}"
        if errors and _BY_KEY.search(errors):
            return "ErrorOutputPrefix cannot hold a record's partition keys"
        if prefix and "!{" in prefix and errors == "":
            return f"Prefix holds expressions, and no ErrorOutputPrefix with {_ERROR_TYPE} is given"
        if prefix and _ERROR_TYPE in prefix:
            return f"Prefix cannot hold {_ERROR_TYPE}"
        return None


def _buckets_of(delivery: Resource) -> Iterator[tuple[str, ...]]:
    """Yield the places where a delivery names a bucket: as its destination, or for another destination's failures."""
    for name, configuration in delivery.properties.items():
        if name in (_S3, "S3DestinationConfiguration"):
            yield (name,)
        elif name.endswith("DestinationConfiguration") and "S3Configuration" in str(configuration):
            yield (name, "S3Configuration")


class PartitionKeyFromNowhere(StreamingRule):
    """E9024: A prefix takes a partition key that nothing extracts."""

    id = "E9024"
    shortdesc = "A prefix takes a partition key that nothing extracts"
    description = (
        "partitionKeyFromQuery needs dynamic partitioning and a MetadataExtraction processor, partitionKeyFromLambda"
        " a Lambda processor."
    )
    source_url = _PARTITIONS_PAGE
    bad = PartitionedBufferTooSmall.good.replace("MetadataExtraction", "AppendDelimiterToRecord")
    good = PartitionedBufferTooSmall.good

    def check(self, template: Template) -> Iterator[Finding]:
        """Yield the prefixes whose partition key nothing extracts."""
        for delivery in template.of_type(DELIVERY):
            prefix = _text(delivery, _S3, "Prefix") or ""
            processors = str(delivery.get(_S3, "ProcessingConfiguration"))
            for source in sorted(set(_BY_KEY.findall(prefix))):
                processor = "MetadataExtraction" if source.endswith("Query") else "Lambda"
                if not _is_partitioned(delivery):
                    reason = "DynamicPartitioningConfiguration is not enabled"
                elif f"'{processor}'" not in processors:
                    reason = f"no processor of type {processor} extracts it"
                else:
                    continue
                yield Finding(
                    delivery,
                    f"{delivery.name} takes !{{{source}:...}} in its Prefix, and {reason}",
                    (_S3, "Prefix"),
                )


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
