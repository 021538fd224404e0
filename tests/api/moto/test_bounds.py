"""What moto's services match with clients' patterns, now that they do it in bounded time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(Path(tmp_path_factory.mktemp("data"))) as cloud:
        yield cloud


def refused(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def messages(cloud: InProcessCloud, url: str) -> list[str]:
    answer = cloud.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]


def test_queue_and_rule_names_are_found_by_literal_prefix(cloud: InProcessCloud):
    sqs, events = cloud.client("sqs"), cloud.client("events")
    for name in ("a-1", "a-2", "b-1"):
        sqs.create_queue(QueueName=name)
        events.put_rule(Name=name, EventPattern='{"source":["x"]}')
    found = sqs.list_queues(QueueNamePrefix="a-")["QueueUrls"]
    assert [url.rsplit("/", 1)[-1] for url in found] == ["a-1", "a-2"]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="..1")
    assert [r["Name"] for r in events.list_rules(NamePrefix="a-")["Rules"]] == ["a-1", "a-2"]
    assert events.list_rules(NamePrefix="..1")["Rules"] == []


def test_an_event_reaches_the_rule_whose_wildcard_it_matches(cloud: InProcessCloud):
    events = cloud.client("events")
    url = cloud.client("sqs").create_queue(QueueName="wild")["QueueUrl"]
    pattern = {"detail": {"key": [{"wildcard": "*/in/*.png"}, {"wildcard": r"\*"}]}}
    events.put_rule(Name="wild", EventPattern=json.dumps(pattern))
    target = {
        "Id": "1",
        "Arn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:wild",
        "InputPath": "$.detail.key",
    }
    events.put_targets(Rule="wild", Targets=[target])
    for key in ("a/in/b.png", "a/out/b.png", "*", "x"):
        entry = {"Source": "s", "DetailType": "d", "Detail": json.dumps({"key": key})}
        events.put_events(Entries=[entry])
    found = messages(cloud, url) + messages(cloud, url)
    assert sorted(json.loads(body) for body in found) == ["*", "a/in/b.png"]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [  # recorded: tests/aws/services/events/test_events_patterns.py of LocalStack, 2025-01-22
        ('{"x": [{"wildcard": 123}]}', "wildcard match pattern must be a string"),
        ('{"x": [{"wildcard": ["a*"]}]}', "wildcard match pattern must be a string"),
        ('{"x": [{"anything-but": {"wildcard": [1, "a"]}}]}', "wildcard match pattern must be a string"),
        ('{"x": [{"wildcard": "arn:**:x"}]}', "Consecutive wildcard characters at pos 5"),
        ('["x"]', "Filter is not an object"),
        ('{"x": []}', "Empty arrays are not allowed"),
    ],
)  # fmt: skip
def test_eventbridge_refuses_a_pattern_with_its_reason(
    cloud: InProcessCloud, pattern: str, reason: str
):
    code, message = refused(cloud.client("events").put_rule, Name="r", EventPattern=pattern)
    assert code == "InvalidEventPatternException"
    assert message.partition("\n")[0] == f"Event pattern is not valid. Reason: {reason}"


def test_a_filter_policy_holds_when_any_item_of_a_list_does(cloud: InProcessCloud):
    sns = cloud.client("sns")
    url = cloud.client("sqs").create_queue(QueueName="filtered")["QueueUrl"]
    topic = sns.create_topic(Name="filtered")["TopicArn"]
    policy = {"orders": {"state": [{"prefix": "paid"}], "price": [{"numeric": [">", 10]}]}}
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:filtered",
        Attributes={
            "FilterPolicy": json.dumps(policy),
            "FilterPolicyScope": "MessageBody",
            "RawMessageDelivery": "true",
        },
    )
    bodies = {
        "yes": {"orders": [{"state": "new", "price": 20}, {"state": "paid-1", "price": 11}]},
        "also": {"orders": {"state": "paid", "price": 12}},
        "no": {"orders": [{"state": "new", "price": 20}, {"state": "old", "price": 11}]},
        "none": {"other": 1},
    }
    for body in bodies.values():
        sns.publish(TopicArn=topic, Message=json.dumps(body))
    assert [json.loads(body) for body in messages(cloud, url)] == [bodies["yes"], bodies["also"]]


def test_glue_finds_tables_and_partitions(cloud: InProcessCloud):
    glue = cloud.client("glue")
    glue.create_database(DatabaseInput={"Name": "d"})
    keys = [{"Name": "k", "Type": "string"}]
    for name in ("flights", "flows", "planes"):
        glue.create_table(DatabaseName="d", TableInput={"Name": name, "PartitionKeys": keys})
    names = {
        expression: [
            table["Name"]
            for table in glue.get_tables(DatabaseName="d", Expression=expression)["TableList"]
        ]
        for expression in ("fl*", "fl.*s", "pl(a|b)nes", "nothing")
    }
    assert names == {
        "fl*": ["flights", "flows"],
        "fl.*s": ["flights", "flows"],
        "pl(a|b)nes": ["planes"],
        "nothing": [],
    }
    code, message = refused(glue.get_tables, DatabaseName="d", Expression="(a")
    assert (code, message) == (
        "InvalidInputException",
        "Expression cannot be used: Unclosed group near index 2",
    )
    for value in ("2013-01", "2013-12", "2014-01"):
        part = {"Values": [value], "StorageDescriptor": {}}
        glue.create_partition(DatabaseName="d", TableName="flights", PartitionInput=part)
    found = glue.get_partitions(
        DatabaseName="d", TableName="flights", Expression="k LIKE '2013-_2' OR k LIKE '2014%'"
    )
    assert [part["Values"] for part in found["Partitions"]] == [["2013-12"], ["2014-01"]]


@pytest.mark.parametrize(
    ("size", "tier", "sentence"),
    [
        (4096, "Standard", ""),
        (4097, "Standard", "Standard tier parameters support a maximum parameter value of 4096 characters."),
        (8192, "Advanced", ""),
        (8193, "Advanced", "Advanced tier parameters support a maximum parameter value of 8192 characters."),
    ],
)  # fmt: skip
def test_an_ssm_value_is_as_large_as_its_tier_allows(
    cloud: InProcessCloud, size: int, tier: str, sentence: str
):
    params = {"Name": f"p{size}", "Type": "String", "Tier": tier, "Value": "x" * size}
    put = cloud.client("ssm").put_parameter
    if not sentence:
        assert put(**params)["Version"] == 1
        return
    code, message = refused(put, **params)
    assert code == "ValidationException"
    assert message.startswith(sentence)


def test_an_ssm_value_keeps_to_its_allowed_pattern(cloud: InProcessCloud):
    put = cloud.client("ssm").put_parameter
    params = {"Name": "allowed", "Type": "String", "AllowedPattern": r"^\d+$"}
    assert refused(put, Value="x", **params) == (
        "ParameterPatternMismatchException",
        r"Parameter value, cannot be validated against allowedPattern: ^\d+$",
    )
    assert put(Value="1", **params)["Version"] == 1
    assert refused(put, Name="b", Type="String", Value="x", AllowedPattern="(")[0] == (
        "InvalidAllowedPatternException"
    )


def test_a_security_group_is_found_by_wildcard(cloud: InProcessCloud):
    ec2 = cloud.client("ec2")
    ec2.create_security_group(GroupName="web", Description="for the web")
    for value, found in (("for*web", 1), ("for ???? web", 0), ("for ??? web", 1), ("(f+)+", 0)):
        filters = [{"Name": "description", "Values": [value]}]
        assert len(ec2.describe_security_groups(Filters=filters)["SecurityGroups"]) == found


def test_dynamodb_refuses_an_expression_of_4_097_bytes(cloud: InProcessCloud):
    dynamodb = cloud.client("dynamodb")
    dynamodb.create_table(
        TableName="expressions",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    expression = "attribute_exists(k)"
    fits = expression + " " * (4096 - len(expression))
    assert dynamodb.scan(TableName="expressions", FilterExpression=fits)["Count"] == 0
    code, message = refused(dynamodb.scan, TableName="expressions", FilterExpression=fits + " ")
    assert code == "ValidationException"
    assert message == (
        "Invalid FilterExpression: Expression size has exceeded the maximum allowed size;"
        " expression size: 4097"
    )
    put = {"TableName": "expressions", "Item": {"k": {"S": "a"}}, "ConditionExpression": fits + " "}
    code, message = refused(dynamodb.transact_write_items, TransactItems=[{"Put": put}])
    assert (code, message.split(":")[0]) == ("ValidationException", "Invalid ConditionExpression")


def test_api_gateway_reads_aliases_that_do_not_explode(cloud: InProcessCloud):
    head = "openapi: 3.0.1\ninfo: {title: aliases, version: '1', description: d}\npaths: {}\n"
    text = head + "x-a: &a [1]\nx-b: [*a, *a]\n"
    gateway = cloud.client("apigateway")
    assert gateway.import_rest_api(body=text.encode())["name"] == "aliases"
    code, _ = refused(gateway.import_rest_api, body=b"openapi: [")
    assert code == "BadRequestException"


def test_ec2_makes_no_million_of_instances(cloud: InProcessCloud):
    million = {"ImageId": "ami-12345678", "MinCount": 1_000_000, "MaxCount": 1_000_000}
    code, message = refused(cloud.client("ec2").run_instances, **million)
    assert code == "InstanceLimitExceeded"
    assert message.startswith("You have requested more instances (1000000) than your current")
