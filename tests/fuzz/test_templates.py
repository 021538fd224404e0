"""Broken templates: each is refused in one of AWS's sentences, or fails its stack with one; never a 500, never a hang.

Sound templates with seeded flaws: in the text (JSON and YAML), in the sections and references, and in the properties of
each type that headrace has. A few of each here, many with `--nightly`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from headrace.services.cloudformation.resources import resource_type
from tests.api.cloudformation.test_lifecycles import GROUPS
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

TEXTS, NIGHTLY_TEXTS = 150, 20_000
PROPERTIES, NIGHTLY_PROPERTIES = 60, 5_000
# Recorded: AWS does not delete a policy of nobody either.
_NOT_DELETED = "At least one of [Groups,Roles,Users] must be non-empty."
# What says that headrace broke, and not the template. That moto cannot answer is said as such.
_DEFECT = re.compile(r"Internal failure|unknown error|Traceback")
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1.5, "", "x", "\ud800", "\x00", "x" * 5000, [], [[]], {}, {"": ""}, {"a": {"b": []}},
    {"Ref": "None"}, {"Ref": "Q"}, {"Ref": ["Q"]}, {"Fn::GetAtt": "Q"}, {"Fn::GetAtt": ["Q", "No"]}, {"Fn::Sub": "${"},
    {"Fn::Sub": ["${a}", {}]}, {"Fn::Join": ["", "x"]}, {"Fn::Select": ["9", ["a"]]}, {"Fn::If": ["C", 1]},
    {"Fn::If": ["C", "a", "b"]}, {"Fn::Split": ["", "a"]}, {"Fn::FindInMap": ["M", "a", "none"]}, {"Fn::Base64": {}},
    {"Fn::Cidr": ["x", 1, 1]}, {"Fn::ImportValue": "none"}, {"Fn::Nothing": "x"}, {"Ref": "AWS::NoValue"},
    "{{resolve:ssm:none}}", "{{resolve:", ["a", {"Ref": "Q"}],
)  # fmt: skip
PIECES = (
    '"', "{", "]", ":", "\t", "\n", "&a ", "*a", "!Ref", "!!binary x", "<<: ", "\x00", "%", "- ", "? ", "---\n", "é",
    "\ufeff",
)  # fmt: skip
SOUND: dict[str, Any] = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Description": "d",
    "Parameters": {"P": {"Type": "String", "Default": "d", "AllowedValues": ["d", "e"]}},
    "Conditions": {"C": {"Fn::Equals": [{"Ref": "P"}, "d"]}},
    "Mappings": {"M": {"a": {"b": "c"}}},
    "Rules": {"R": {"Assertions": [{"Assert": {"Fn::Equals": ["a", "a"]}}]}},
    "Resources": {
        "Q": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 30, "Tags": [{"Key": "k", "Value": "v"}]}},
        "T": {"Type": "AWS::SNS::Topic", "Condition": "C", "DependsOn": "Q", "DeletionPolicy": "Delete"},
    },
    "Outputs": {"O": {"Value": {"Fn::GetAtt": ["Q", "Arn"]}, "Export": {"Name": "e"}, "Condition": "C"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    folder = tmp_path_factory.mktemp("templates")
    with InProcessCloud(folder / "data", spark="installed") as cloud:
        yield cloud


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (list or object, index or key) in a value."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def flawed(random: Random, value: Any) -> Any:
    """Return a copy with another value, another key, or without something, at one place."""
    copy = json.loads(json.dumps(value))
    inside, key = random.choice(list(places(copy)))
    way = random.randrange(4)
    if way == 0 and isinstance(inside, dict):
        inside[random.choice(("", "X", "Fn::Sub", "Ref", "x" * 300, "é"))] = inside.pop(key)
    elif way == 1:
        del inside[key]
    else:
        inside[key] = random.choice(ODD)
    return copy


def text_of(random: Random) -> str:
    """Return a template's text with a flaw in what it says or in how it is written."""
    value = flawed(random, SOUND) if random.random() < 0.7 else SOUND
    text = json.dumps(value)
    if random.random() < 0.5:
        text = yaml.safe_dump(json.loads(text)) if "\\ud800" not in text else text
    if random.random() < 0.4:
        at = random.randrange(len(text))
        piece = random.choice(PIECES)
        text = text[:at] + piece + text[at + random.randrange(2) :]
    return text


def outcome(cfn: Any, name: str, body: str) -> tuple[str, list[str]]:
    """Make a stack; return how it ended, or the error's code, with the reasons."""
    try:
        made = cfn.create_stack(
            StackName=name, TemplateBody=body, Capabilities=["CAPABILITY_NAMED_IAM"]
        )
    except ClientError as error:
        answer = error.response
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400, answer
        return str(answer["Error"]["Code"]), [str(answer["Error"]["Message"])]

    def status() -> str:
        return str(cfn.describe_stacks(StackName=made["StackId"])["Stacks"][0]["StackStatus"])

    wait_until(lambda: not status().endswith("IN_PROGRESS"), what="the stack")
    ended = status()
    events = cfn.describe_stack_events(StackName=made["StackId"])["StackEvents"]
    reasons = [
        f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason', '')}"
        for e in events
        if e["ResourceStatus"].endswith("FAILED") or e["ResourceStatus"] == "ROLLBACK_IN_PROGRESS"
    ]
    cfn.delete_stack(StackName=made["StackId"])
    wait_until(lambda: not status().endswith("IN_PROGRESS"), what="the deletion")
    if not any(_NOT_DELETED in reason for reason in reasons):
        assert status() == "DELETE_COMPLETE", reasons
    return ended, reasons


def test_no_text_breaks_it(
    templates: InProcessCloud, how_many: Callable[[int, int], int], seed: int
):
    random, cfn = Random(f"templates-{seed}"), templates.client("cloudformation")
    seen: set[str] = set()
    for number in range(how_many(TEXTS, NIGHTLY_TEXTS)):
        body = text_of(random)
        ended, reasons = outcome(cfn, f"s{number}", body)
        assert ended in ("CREATE_COMPLETE", "ROLLBACK_COMPLETE", "ValidationError"), (body, reasons)
        assert all(reasons), (body, reasons)
        assert not any(map(_DEFECT.search, reasons)), (body, reasons)
        seen.add(ended)
    assert len(seen) == 3


def resources() -> list[tuple[str, str]]:
    return [(group, name) for group, value in GROUPS.items() for name in value["resources"]]


def test_no_property_of_a_type_breaks_it(
    templates: InProcessCloud, how_many: Callable[[int, int], int], seed: int
):
    """The flaw is the template's: what the stack fails with names the property, or is the service's own refusal."""
    random, cfn = Random(f"templates-{seed}"), templates.client("cloudformation")
    chosen = resources()
    wrong: list[Any] = []
    for number in range(how_many(PROPERTIES, NIGHTLY_PROPERTIES)):
        group, name = random.choice(chosen)
        resource = GROUPS[group]["resources"][name]
        given = resource["Properties"]
        if not given:
            continue
        # Alone: what it refers to is the name of nothing, and so is every ARN.
        alone = json.loads(
            re.sub(r'\{"(Ref|Fn::GetAtt|Fn::Sub)": [^{}]*\}', '"x"', json.dumps(given))
        )
        changed = {"Type": resource["Type"], "Properties": flawed(random, alone)}
        body = json.dumps({"Resources": {"A": changed, "Q": {"Type": "AWS::SQS::Queue"}}})
        _, reasons = outcome(cfn, f"p{number}", body)
        if any(map(_DEFECT.search, reasons)) or not all(reasons):
            wrong.append((changed, reasons))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_value_of_another_type_is_named_with_the_type_that_it_should_have(
    templates: InProcessCloud,
):
    cfn = templates.client("cloudformation")
    for properties, sentence in (
        ({"VisibilityTimeout": {"a": 1}}, "/VisibilityTimeout} does not match type {Integer"),
        ({"VisibilityTimeout": "soon"}, "/VisibilityTimeout} does not match type {Integer"),
        ({"FifoQueue": "perhaps"}, "/FifoQueue} does not match type {Boolean"),
        ({"QueueName": ["a"]}, "/QueueName} does not match type {String"),
        ({"Tags": {"a": "b"}}, "/Tags} does not match type {Array"),
        ({"Tags": ["a"]}, "/Tags/0} does not match type {Object"),
        ({"Tags": [{"Key": [], "Value": "v"}]}, "/Tags/0/Key} does not match type {String"),
    ):
        body = {"Resources": {"A": {"Type": "AWS::SQS::Queue", "Properties": properties}}}
        ended, reasons = outcome(cfn, "types", json.dumps(body))
        assert ended == "ROLLBACK_COMPLETE"
        wanted = f"A: Property validation failure: [Value of property {{{sentence}}}]"
        assert wanted in reasons, reasons


def test_texts_for_numbers_and_truths_are_taken(templates: InProcessCloud):
    properties = {"VisibilityTimeout": "31", "FifoQueue": "true", "QueueName": "a.fifo"}
    body = {"Resources": {"A": {"Type": "AWS::SQS::Queue", "Properties": properties}}}
    assert outcome(templates.client("cloudformation"), "texts", json.dumps(body))[0] == (
        "CREATE_COMPLETE"
    )


@pytest.mark.parametrize(
    ("resources", "sentence"),
    [
        ({"A": {"DependsOn": "A"}}, "Circular dependency between resources: [A]"),
        (
            {"A": {"Properties": {"QueueName": {"Fn::Sub": "x${A}"}}}},
            "Circular dependency between resources: [A]",
        ),
        (
            {"A": {"Type": ["AWS::SQS::Queue"]}},
            "Template format error: [/Resources/A] Every Type member must be a string.",
        ),
    ],
)
def test_circles_of_one_and_types_that_are_no_text(
    templates: InProcessCloud, resources: dict[str, Any], sentence: str
):
    made = {name: {"Type": "AWS::SQS::Queue", **value} for name, value in resources.items()}
    ended, reasons = outcome(
        templates.client("cloudformation"), "circle", json.dumps({"Resources": made})
    )
    assert (ended, reasons) == ("ValidationError", [sentence])


def test_a_template_exports_a_name_once(templates: InProcessCloud):
    export = {"Value": "v", "Export": {"Name": "twice"}}
    body = {
        "Resources": {"A": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {"One": export, "Two": export},
    }
    ended, reasons = outcome(templates.client("cloudformation"), "exports", json.dumps(body))
    assert ended == "ROLLBACK_COMPLETE"
    assert any("Export with name twice is already exported" in reason for reason in reasons)


NOTHING = {"Ref": "AWS::NoValue"}


@pytest.mark.parametrize("where", ["Properties", "Metadata", "UpdatePolicy", "CreationPolicy"])
def test_a_resource_without_a_part_is_made(templates: InProcessCloud, where: str):
    """Assumed: where the whole of a part is no value, it is as if the part was left out."""
    body = {"Resources": {"A": {"Type": "AWS::SQS::Queue", where: NOTHING}}}
    cfn = templates.client("cloudformation")
    assert outcome(cfn, f"no-{where}", json.dumps(body)) == ("CREATE_COMPLETE", [])


@pytest.mark.parametrize("text", ["a${AWS::NoValue}b", ["a${AWS::NoValue}${v}", {"v": "b"}]])
def test_no_value_inside_a_text_is_empty(templates: InProcessCloud, text: Any):
    """Assumed; strangers' templates write `${AWS::NoValue}` where a text must be. As a variable it is refused."""
    body = {
        "Resources": {"A": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {"O": {"Value": {"Fn::Sub": text}}},
    }
    cfn = templates.client("cloudformation")
    name = f"empty-{type(text).__name__}"
    made = cfn.create_stack(StackName=name, TemplateBody=json.dumps(body))
    cfn.get_waiter("stack_create_complete").wait(StackName=name)
    (stack,) = cfn.describe_stacks(StackName=made["StackId"])["Stacks"]
    assert stack["Outputs"] == [{"OutputKey": "O", "OutputValue": "ab"}]


def test_properties_that_become_a_text_are_refused(templates: InProcessCloud):
    """Assumed: as properties that are written as a text."""
    body = {"Resources": {"A": {"Type": "AWS::SQS::Queue", "Properties": {"Ref": "AWS::Region"}}}}
    assert outcome(templates.client("cloudformation"), "text", json.dumps(body)) == (
        "ValidationError",
        ["Template format error: [/Resources/A/Properties] must be an object."],
    )


def test_every_type_is_known():
    assert all(resource_type(GROUPS[g]["resources"][n]["Type"]) for g, n in resources())


def test_no_value_takes_a_whole_member_away(templates: InProcessCloud):
    queue, nothing = {"Type": "AWS::SQS::Queue"}, {"Ref": "AWS::NoValue"}
    for number, member in enumerate(("Properties", "Metadata")):
        body = json.dumps({"Resources": {"A": {**queue, member: nothing}}})
        ended = outcome(templates.client("cloudformation"), f"nothing-{number}", body)
        assert ended == ("CREATE_COMPLETE", [])


def test_what_a_service_cannot_be_sent_is_named(templates: InProcessCloud):
    scaled = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling", "ScalingTargetId": "x"}
    layer = {"LayerVersionArn": "x", "Action": "lambda:GetLayerVersion", "Principal": "*"}
    keys = {"AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}]}
    half = {"GenerateSecretString": {"SecretStringTemplate": "{}"}}
    schema = {"Name": "s", "DataFormat": "AVRO", "Compatibility": "NONE", "Registry": {"x": "x"}}
    for number, (kind, properties, words) in enumerate(
        (
            ("AWS::SecretsManager::Secret", half, "GenerateStringKey"),
            ("AWS::Glue::Schema", schema, "registryArn has to be provided"),
            ("AWS::ApplicationAutoScaling::ScalingPolicy", scaled, "x is no scaling target"),
            ("AWS::Lambda::LayerVersionPermission", layer, "Invalid layer version ARN: x"),
            ("AWS::DynamoDB::Table", {**keys, "KeySchema": ["x"]}, "parameter KeySchema[0]"),
        )
    ):
        body = json.dumps({"Resources": {"A": {"Type": kind, "Properties": properties}}})
        ended, reasons = outcome(templates.client("cloudformation"), f"unsendable-{number}", body)
        assert ended == "ROLLBACK_COMPLETE"
        assert any(words in reason for reason in reasons), reasons
