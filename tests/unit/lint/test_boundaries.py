"""What the rules turn on: conditions, parameters, policies wherever they are written, and neighbours' templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cfnlint.config import ConfigMixIn, ManualArgs
from cfnlint.decode import decode
from cfnlint.decode.decode import decode_str
from cfnlint.rules import Rules
from cfnlint.runner.template import run_template_by_file_paths
from cfnlint.template import Template

from headrace.lint.inputs import remember_templates
from headrace.lint.rules import (
    RULES,
    MappingRetriesForEver,
    PartitionedBufferTooSmall,
    RoleAllowsUnused,
    RoleLacksTrigger,
    TooManyShards,
    VisibilityBelowSixTimeouts,
    VisibilityBelowTimeout,
)
from tests.unit.lint.support import findings, found

MAPPING = MappingRetriesForEver.bad
QUEUE = VisibilityBelowTimeout.bad
PARTITIONED = PartitionedBufferTooSmall.good


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("MaximumRetryAttempts: -1", True),
        ("MaximumRetryAttempts: 0", False),
        ("MaximumRecordAgeInSeconds: 60", False),
        ("MaximumRecordAgeInSeconds: -1", True),
        ("MaximumRetryAttempts: !If [IsTest, 3, !Ref AWS::NoValue]", True),
        ("MaximumRetryAttempts: !If [IsTest, 3, 5]", False),
        ("MaximumRetryAttempts: !Ref Retries", False),
    ],
)
def test_a_mapping_blocks_when_it_may_have_no_limit(line: str, is_found: bool) -> None:
    head = (
        "Parameters: {Retries: {Type: Number, Default: 3}}\nConditions: {IsTest: !Equals [a, b]}\n"
    )

    assert ("W9001" in found(f"{MAPPING}    {line}\n", head=head)) is is_found


@pytest.mark.parametrize(
    ("visibility_s", "ids"),
    [(59, ["E9010"]), (60, ["W9010"]), (359, ["W9010"]), (360, [])],
)
def test_a_queue_hides_for_one_timeout_or_is_refused_and_for_six_at_best(
    visibility_s: int, ids: list[str]
) -> None:
    template = QUEUE.replace("VisibilityTimeout: 30", f"VisibilityTimeout: {visibility_s}")

    assert found(template) == ids


def test_a_queue_that_says_nothing_hides_for_thirty_seconds() -> None:
    assert found(QUEUE.replace("VisibilityTimeout: 30", "DelaySeconds: 0")) == ["E9010"]


def test_the_batching_window_counts_on_top_of_six_timeouts() -> None:
    template = VisibilityBelowSixTimeouts.good.replace(
        "FunctionName: !Ref Pack", "FunctionName: !Ref Pack, MaximumBatchingWindowInSeconds: 1"
    )

    assert found(template) == ["W9010"]


@pytest.mark.parametrize(
    ("hints", "count"),
    [
        ("{SizeInMBs: 64, IntervalInSeconds: 60}", 0),
        ("{SizeInMBs: 63, IntervalInSeconds: 60}", 1),
        ("{SizeInMBs: 64, IntervalInSeconds: 59}", 1),
        ("{SizeInMBs: !Ref Size, IntervalInSeconds: 60}", 1),
    ],
)
def test_the_hints_of_a_partitioned_delivery(hints: str, count: int) -> None:
    template = PARTITIONED.replace("{SizeInMBs: 64, IntervalInSeconds: 60}", hints)

    ids = found(template, head="Parameters: {Size: {Type: Number, Default: 5}}\n")

    assert ids.count("E9020") == count


@pytest.mark.parametrize(
    ("prefix", "errors", "is_found"),
    [
        ("plain/", "errors/", False),
        ("plain/", None, False),
        ("!{timestamp:yyyy}/", None, True),
        ("!{timestamp:yyyy}/", "errors/!{firehose:error-output-type}/", False),
        # Without an expression of its own it is taken, and the type is a folder of its own.
        ("!{timestamp:yyyy}/", "errors/", False),
        ("!{firehose:error-output-type}/", "!{firehose:error-output-type}/", True),
        ("plain/", "!{partitionKeyFromQuery:a}/!{firehose:error-output-type}/", True),
    ],
)
def test_prefixes_as_firehose_takes_them(prefix: str, errors: str | None, is_found: bool) -> None:
    template = PARTITIONED.replace("clicks/!{partitionKeyFromQuery:country}/", f"'{prefix}'")
    line = "      ErrorOutputPrefix: errors/!{firehose:error-output-type}/\n"
    template = template.replace(line, f"      ErrorOutputPrefix: '{errors}'\n" if errors else "")

    assert ("E9023" in found(template)) is is_found


@pytest.mark.parametrize(
    "place", ["S3DestinationConfiguration", "SplunkDestinationConfiguration: {S3Configuration"]
)
def test_the_prefixes_of_every_bucket_are_looked_at(place: str) -> None:
    properties = "Prefix: '!{timestamp:yyyy}/'"
    ends = "}" * place.count("{")
    delivery = "Lake: {Type: 'AWS::KinesisFirehose::DeliveryStream', Properties:"

    assert "E9023" in found(f"{delivery} {{{place}: {{{properties}}}}}{ends}}}")


@pytest.mark.parametrize(
    "policy",
    [
        "AWS::IAM::Policy",
        "AWS::IAM::ManagedPolicy",
    ],
)
def test_a_policy_beside_the_role_counts(policy: str) -> None:
    template = (
        RoleLacksTrigger.bad
        + f"""\
More:
  Type: {policy}
  Properties:
    PolicyName: more
    Roles: [!Ref Role]
    PolicyDocument:
      Version: "2012-10-17"
      Statement:
        Effect: Allow
        Action: [kinesis:GetShardIterator, kinesis:DescribeStream]
        Resource: !Sub "${{Clicks.Arn}}"
"""
    )

    assert "E9050" not in found(template)


def test_a_policy_about_another_stream_does_not_count() -> None:
    template = RoleLacksTrigger.good.replace(
        "Resource: !GetAtt Clicks.Arn", "Resource: !GetAtt Other.Arn"
    )
    other = "Other: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}\n"

    assert "E9050" in found(template + other)


@pytest.mark.parametrize(
    ("arn", "is_found"),
    [
        ("arn:aws:iam::aws:policy/service-role/AWSLambdaKinesisExecutionRole", False),
        ("arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole", True),
        # One whose text we do not know may allow it.
        ("arn:aws:iam::123456789012:policy/ours", False),
    ],
)
def test_managed_policies_count_by_what_they_allow(arn: str, is_found: bool) -> None:
    template = RoleLacksTrigger.bad.replace(
        "    Policies:", f'    ManagedPolicyArns: ["{arn}"]\n    Policies:'
    )

    assert ("E9050" in found(template)) is is_found


@pytest.mark.parametrize(
    ("name", "resource", "is_found"),
    [
        ("Name: clicks, ", "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", False),
        ("Name: clicks, ", "arn:aws:kinesis:us-east-1:123456789012:stream/orders", True),
        ("Name: clicks, ", "arn:aws:kinesis:us-east-1:123456789012:stream/cl*", False),
        ("Name: !Ref Named, ", "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", False),
        ("", "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", True),
        ("", "!Ref Named", False),
    ],
)
def test_a_statement_by_name_counts_when_it_may_be_meant(
    name: str, resource: str, is_found: bool
) -> None:
    template = RoleLacksTrigger.good.replace(
        "Resource: !GetAtt Clicks.Arn", f"Resource: {resource}"
    ).replace("Properties: {ShardCount: 1}", f"Properties: {{{name}ShardCount: 1}}")

    assert ("E9050" in found(template, head="Parameters: {Named: {Type: String}}\n")) is is_found


def test_a_statement_about_what_a_mapping_reads_is_used() -> None:
    assert "W9053" not in found(RoleLacksTrigger.good)
    assert "W9053" in found(RoleAllowsUnused.bad)


def test_who_takes_failed_batches_may_fetch_their_records() -> None:
    template = (
        RoleAllowsUnused.bad.replace("kinesis:PutRecord", "kinesis:GetRecords")
        + """\
Failed: {Type: 'AWS::SQS::Queue'}
Failing:
  Type: AWS::Lambda::EventSourceMapping
  Properties:
    EventSourceArn: !GetAtt Old.Arn
    FunctionName: another
    StartingPosition: LATEST
    DestinationConfig: {OnFailure: {Destination: !GetAtt Failed.Arn}}
"""
    )
    redrive = """\
Redrive:
  Type: AWS::Lambda::EventSourceMapping
  Properties: {EventSourceArn: !GetAtt Failed.Arn, FunctionName: !Ref Count}
"""

    assert "W9053" in found(template)
    assert "W9053" not in found(template + redrive)


@pytest.mark.parametrize(("region", "is_found"), [("us-east-1", False), ("eu-central-1", True)])
def test_the_quota_of_shards_is_the_regions(region: str, is_found: bool) -> None:
    template = TooManyShards.good.replace("200", "201")

    assert ("W9070" in found(template, region=region)) is is_found


def test_a_finding_stands_at_the_line_of_its_property() -> None:
    (finding,) = [one for one in findings(QUEUE) if one.rule.id == "E9010"]

    # Two lines stand before the resources.
    line = (
        2
        + [*QUEUE.splitlines()].index(next(x for x in QUEUE.splitlines() if "EventSourceArn" in x))
        + 1
    )
    assert finding.linenumber == line


SAM = """\
Clicks: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 1}}
Orders: {Type: 'AWS::SQS::Queue'}
Count:
  Type: AWS::Serverless::Function
  Properties:
    Timeout: 60
    Events:
      Stream: {Type: Kinesis, Properties: {Stream: !GetAtt Clicks.Arn, StartingPosition: LATEST}}
      Queue: {Type: SQS, Properties: {Queue: !GetAtt Orders.Arn}}
      Web: {Type: Api, Properties: {Path: /, Method: get}}
"""


def test_the_events_of_a_sam_function_are_mappings() -> None:
    matches = findings(SAM, head="Transform: AWS::Serverless-2016-10-31\n")

    ids = {one.rule.id for one in matches}
    assert ids == {"E9010", "W9001", "W9002", "W9003", "W9030", "W9040"}
    # Three lines stand before the resources.
    lines = {one.rule.id: one.linenumber - 3 for one in matches}
    written = SAM.splitlines()
    assert "Stream: {Type: Kinesis" in written[lines["W9001"] - 1]
    assert "Queue: {Type: SQS" in written[lines["E9010"] - 1]


STREAM = {
    "Resources": {"Clicks": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}}},
    "Outputs": {
        "Arn": {"Value": {"Fn::GetAtt": ["Clicks", "Arn"]}, "Export": {"Name": "clicks-arn"}}
    },
}
READER = {
    "Resources": {
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::ImportValue": "clicks-arn"},
                "FunctionName": "count",
                "StartingPosition": "LATEST",
                "MaximumRecordAgeInSeconds": 604_800,
            },
        }
    }
}


def together(folder: Path, *templates: dict[str, object]) -> list[str]:
    files: list[str] = []
    for number, body in enumerate(templates):
        path = folder / f"{number}.template.json"
        path.write_text(json.dumps(body))
        files.append(str(path))
    remember_templates({file: decode(file)[0] for file in files})  # type: ignore[arg-type]
    rules = Rules.create_from_module("headrace.lint.rules")
    config = ConfigMixIn([], **ManualArgs(templates=files, regions=["us-east-1"]))
    return [match.rule.id for match in run_template_by_file_paths(config, rules)]


def test_an_import_is_followed_into_the_template_that_exports_it(tmp_path: Path) -> None:
    assert "W9004" in together(tmp_path, STREAM, READER)
    assert "W9004" not in together(tmp_path, READER)


def test_a_stream_that_a_neighbour_reads_is_read(tmp_path: Path) -> None:
    assert "W9041" not in together(tmp_path, STREAM, READER)


def test_a_stream_that_no_neighbour_reads_is_not_read_though_it_is_exported(tmp_path: Path) -> None:
    other: dict[str, object] = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}}

    assert "W9041" in together(tmp_path, STREAM, other)
    assert "W9041" not in together(tmp_path, STREAM)


@pytest.mark.parametrize(
    "resources",
    [
        "Clicks: {Type: 'AWS::Kinesis::Stream'}",
        "Clicks: {Type: 'AWS::Kinesis::Stream', Properties: []}",
        "Mapping: {Type: 'AWS::Lambda::EventSourceMapping', Properties: {EventSourceArn: [1, {a: b}]}}",
        "Role: {Type: 'AWS::IAM::Role', Properties: {Policies: 3, ManagedPolicyArns: {a: b}}}",
        "Role: {Type: 'AWS::IAM::Role', Properties: {Policies: [1, {PolicyDocument: {Statement: [1]}}]}}",
        "Lake: {Type: 'AWS::KinesisFirehose::DeliveryStream', Properties: {ExtendedS3DestinationConfiguration: x}}",
        "Rule: {Type: 'AWS::Events::Rule', Properties: {Targets: {KinesisParameters: 1}}}",
        "Rule: {Type: 'AWS::IoT::TopicRule', Properties: {TopicRulePayload: {Actions: [{Kinesis: 1}]}}}",
        "Nothing: 3",
    ],
)
def test_what_is_no_right_template_breaks_no_rule(resources: str) -> None:
    remember_templates({})
    mapping = "" if resources.startswith("Mapping") else MAPPING
    text = "".join(f"  {line}\n" for line in f"{resources}\n{mapping}".splitlines())
    body, errors = decode_str(f"Resources:\n{text}")
    assert errors == []
    template = Template("broken.yaml", body, ["us-east-1"])  # type: ignore[arg-type]

    # Through cfn-lint an exception would be one finding more.
    for rule in RULES:
        rule().match(template)


HOT = "Clicks: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: 4}}\n"


@pytest.mark.parametrize(
    ("key", "is_found"), [("all", True), ("$.customer", False), ("!Ref Key", False)]
)
@pytest.mark.parametrize(
    "writer",
    [
        (
            "Type: AWS::Pipes::Pipe, Properties: {Target: !GetAtt Clicks.Arn, TargetParameters:"
            " {KinesisStreamParameters: {PartitionKey: KEY}}}"
        ),
        (
            "Type: AWS::IoT::TopicRule, Properties: {TopicRulePayload: {Actions:"
            " [{Kinesis: {StreamName: !Ref Clicks, PartitionKey: KEY}}]}}"
        ),
    ],
    ids=["pipe", "topic rule"],
)
def test_a_constant_key_of_a_writer_is_hot(writer: str, key: str, is_found: bool) -> None:
    # IoT writes its expressions otherwise.
    key = key.replace("$.customer", "${customer}") if "IoT" in writer else key
    quoted = key if key.startswith("!") else f'"{key}"'
    template = HOT + f"Writer: {{{writer.replace('KEY', quoted)}}}\n"

    assert ("W9042" in found(template, head="Parameters: {Key: {Type: String}}\n")) is is_found
    assert "W9042" not in found(template.replace("ShardCount: 4", "ShardCount: 1"))


@pytest.mark.parametrize(("key", "is_found"), [("all", True), ("$input.path('$.customer')", False)])
def test_a_constant_key_in_a_request_template_is_hot(key: str, is_found: bool) -> None:
    body = json.dumps({"StreamName": "clicks", "Data": "x", "PartitionKey": key})
    template = HOT + (
        "Put: {Type: 'AWS::ApiGateway::Method', Properties: {Integration: {RequestTemplates:"
        f" {{application/json: {json.dumps(body)}}}}}}}}}\n"
    )

    assert ("W9042" in found(template)) is is_found


REGIONAL = """\
Parameters: {Stage: {Type: String, Default: dev}}
Conditions:
  China: !Or [!Equals [!Ref 'AWS::Region', cn-north-1], !Equals [cn-northwest-1, !Ref 'AWS::Region']]
  Elsewhere: !Not [!Condition China]
  Both: !And [!Condition Elsewhere, !Equals [!Ref 'AWS::Partition', aws]]
  Dev: !Equals [!Ref Stage, dev]
  Perhaps: !And [!Condition Elsewhere, !Condition Dev]
  Loop: !Not [!Condition Loop]
"""
KMS = "{EncryptionType: KMS, KeyId: alias/aws/kinesis}"


@pytest.mark.parametrize(
    ("encryption", "region", "is_found"),
    [
        (f"!If [China, !Ref 'AWS::NoValue', {KMS}]", "us-east-1", False),
        (f"!If [China, !Ref 'AWS::NoValue', {KMS}]", "cn-north-1", True),
        (f"!If [Elsewhere, {KMS}, !Ref 'AWS::NoValue']", "us-east-1", False),
        (f"!If [Both, {KMS}, !Ref 'AWS::NoValue']", "eu-west-1", False),
        (f"!If [Both, {KMS}, !Ref 'AWS::NoValue']", "cn-north-1", True),
        # A deployment may give the parameter another value.
        (f"!If [Dev, {KMS}, !Ref 'AWS::NoValue']", "us-east-1", True),
        (f"!If [Perhaps, {KMS}, !Ref 'AWS::NoValue']", "us-east-1", True),
        (f"!If [Loop, {KMS}, !Ref 'AWS::NoValue']", "us-east-1", True),
        (f"!If [Missing, {KMS}, !Ref 'AWS::NoValue']", "us-east-1", True),
    ],
)
def test_conditions_are_those_of_the_region(encryption: str, region: str, is_found: bool) -> None:
    stream = f"{{Type: 'AWS::Kinesis::Stream', Properties: {{StreamEncryption: {encryption}}}}}"
    ids = found(f"S: {stream}", head=REGIONAL, region=region)
    assert ("W9040" in ids) is is_found


def test_a_resource_that_the_region_does_not_get_has_no_findings() -> None:
    stream = "{Type: 'AWS::Kinesis::Stream', Condition: %s, Properties: {ShardCount: 1}}"
    for condition, ids in (("China", []), ("Elsewhere", ["W9040", "W9041"])):
        assert sorted(found(f"S: {stream % condition}", head=REGIONAL)) == ids


def test_a_finding_names_the_construct_that_made_the_resource() -> None:
    metadata = "Metadata: {'aws:cdk:path': Clicks/Stream/Resource}"
    (finding,) = [
        one
        for one in findings(f"S: {{Type: 'AWS::Kinesis::Stream', {metadata}}}")
        if one.rule.id == "W9040"
    ]
    assert finding.message.endswith(" (Clicks/Stream)")
