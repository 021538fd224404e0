"""What moto fails at is refused in AWS's words and form, without a traceback."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.moto_lab import MotoLab

DYNAMODB = "DynamoDB_20120810"


def ask(
    lab: MotoLab, service: str, target: str, body: bytes, version: str = "1.0"
) -> tuple[int, dict[str, Any]]:
    headers = {
        "x-amz-target": target,
        "content-type": f"application/x-amz-json-{version}",
        "authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, x",
    }
    response = lab.handle(HttpRequest("POST", "/", "", headers, body))
    return response.status, json.loads(bytes(response.body) or b"{}")


@pytest.mark.parametrize(
    ("service", "target", "body", "code"),
    [
        ("dynamodb", "DynamoDB_20120810.PutItem", b"{", "SerializationException"),
        ("dynamodb", "DynamoDB_20120810.PutItem", b"", "SerializationException"),
        ("dynamodb", "DynamoDB_20120810.PutItem", b"{}", "ValidationException"),
        (
            "dynamodb",
            "DynamoDB_20120810.PutItem",
            b'{"TableName": 5, "Item": []}',
            "SerializationException",
        ),
        ("dynamodb", "DynamoDB_20120810.CreateTable", b'{"TableName": "t"}', "ValidationException"),
        ("sqs", "AmazonSQS.SendMessage", b"[]", "SerializationException"),
        ("sqs", "AmazonSQS.CreateQueue", b"{}", "ValidationException"),
        ("ssm", "AmazonSSM.PutParameter", b"{}", "ValidationException"),
        ("kms", "TrentService.Encrypt", b"{}", "ValidationException"),
        ("glue", "AWSGlue.CreateTable", b"{}", "ValidationException"),
        ("events", "AWSEvents.PutRule", b"{}", "ValidationException"),
    ],
)
def test_a_bad_request_is_the_caller_s_fault(
    lab: MotoLab,
    caplog: pytest.LogCaptureFixture,
    service: str,
    target: str,
    body: bytes,
    code: str,
):
    with caplog.at_level(logging.INFO):
        status, answer = ask(lab, service, target, body)
    assert status == 400, answer
    assert answer["__type"].rpartition("#")[2] == code
    assert "Traceback" not in caplog.text


def test_a_failure_of_the_query_protocol_is_said_in_xml(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch
):
    from moto.iam.models import IAMBackend

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("moto's own")

    lab.client("iam").list_roles()
    monkeypatch.setattr(IAMBackend, "create_role", broken)
    for name, status, code in (("r", 501, b"InternalFailure"), ("", 400, b"ValidationError")):
        headers = {
            "content-type": "application/x-www-form-urlencoded",
            "authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/iam/aws4_request, x",
        }
        params = {"Action": "CreateRole", "Version": "2010-05-08", "AssumeRolePolicyDocument": "{}"}
        body = urlencode({**params, **({"RoleName": name} if name else {})}).encode()
        response = lab.handle(HttpRequest("POST", "/", "", headers, body))
        assert response.status == status
        assert b"<Code>" + code + b"</Code>" in bytes(response.body)


def test_what_moto_cannot_do_says_so_once(
    lab: MotoLab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    from moto.sqs.models import SQSBackend

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("moto's own")

    lab.client("sqs").create_queue(QueueName="q")
    monkeypatch.setattr(SQSBackend, "tag_queue", broken)
    body = b'{"QueueUrl": "http://x/000000000000/q", "Tags": {"a": "b"}}'
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            status, answer = ask(lab, "sqs", "AmazonSQS.TagQueue", body)
            assert status == 501
            assert "moto's own" in answer["message"]
    said = [record.getMessage() for record in caplog.records if "moto's own" in record.getMessage()]
    assert said == ["moto cannot answer a sqs:TagQueue (ZeroDivisionError: moto's own)"]
    assert "Traceback" not in caplog.text


def test_an_operation_that_moto_has_not_is_refused(lab: MotoLab):
    status, answer = ask(lab, "dynamodb", "DynamoDB_20120810.ListContributorInsights", b"{}")
    assert (status, answer["__type"]) == (501, "UnknownOperationException")


def test_what_botocore_does_not_know_is_named(lab: MotoLab):
    status, answer = ask(lab, "dynamodb", "DynamoDB_20120810.MakeCoffee", b"{}")
    assert (status, answer["__type"]) == (400, "UnknownOperationException")
    assert answer["message"] == "headrace does not implement dynamodb:MakeCoffee"
    for service in ("ec2", "sqs", "monitoring"):
        status, text = form(lab, service, Action="MakeCoffee")
        assert status in (400, 501)
        assert "MakeCoffee" in text
        assert "POST" not in text


def test_a_service_that_nobody_has_is_refused(lab: MotoLab):
    status, answer = ask(lab, "nonsense", "Nonsense_1.Do", b"{}")
    assert (status, answer["__type"]) == (400, "UnknownOperationException")


def form(lab: MotoLab, service: str, **params: str) -> tuple[int, str]:
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, x",
    }
    response = lab.handle(HttpRequest("POST", "/", "", headers, urlencode(params).encode()))
    return response.status, bytes(response.body).decode()


def test_what_moto_cannot_read_is_refused_by_name(lab: MotoLab):
    lab.client("dynamodb").create_table(
        TableName="t",
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    counted = {"ApproximateNumberOfMessages": "1"}
    wrong = {
        "TableName": "t",
        "KeyConditionExpression": "k = :a",
        "FilterExpression": "(((",
        "ExpressionAttributeValues": {":a": {"S": "a"}},
    }
    query = "DynamoDB_20120810.Query"
    events, ssm, sqs = (
        "AWSEvents.ListRules",
        "AmazonSSM.DescribeParameters",
        "AmazonSQS.CreateQueue",
    )
    scan, partiql = "DynamoDB_20120810.Scan", "DynamoDB_20120810.ExecuteStatement"
    for service, target, asked, code, words in (
        ("events", events, {"NextToken": "MQ=="}, "ValidationException", "token"),
        ("ssm", ssm, {"NextToken": "MQ=="}, "InvalidNextToken", "token"),
        ("sqs", sqs, {"QueueName": "q", "Attributes": counted}, "InvalidAttributeName", "Approx"),
        ("sqs", sqs, {"QueueName": "q", "Attributes": {"RedrivePolicy": "x"}}, "InvalidParameterValue", "JSON"),
        ("dynamodb", scan, {"TableName": "t", "FilterExpression": "k = :a"}, "ValidationException", ":a"),
        ("dynamodb", query, wrong, "ValidationException", "expression: Syntax"),
        ("dynamodb", partiql, {"Statement": "no PartiQL"}, "ValidationException", "well formed"),
    ):  # fmt: skip
        status, answer = ask(lab, service, target, json.dumps(asked).encode())
        said = answer.get("__type", "").rpartition("#")[2]
        assert (status, said) == (400, code), (target, answer)
        assert words in (answer.get("message") or answer.get("Message")), answer


def test_forms_are_refused_that_moto_cannot_read(lab: MotoLab):
    for service, params, code in (
        ("iam", {}, "MissingAction"),
        ("iam", {"Action": "SimulateCustomPolicy", "Version": "2010-05-08"}, "ValidationError"),
        ("iam", {"Action": "ListPolicies", "Version": "2010-05-08", "Marker": "x"}, "ValidationError"),
        ("sns", {"Action": "DeleteTopic", "Version": "2010-03-31", "TopicArn": "x"}, "InvalidParameter"),
        (
            "sts",
            {
                "Action": "AssumeRoleWithSAML",
                "Version": "2011-06-15",
                "RoleArn": "arn:aws:iam::000000000000:role/r",
                "PrincipalArn": "arn:aws:iam::000000000000:saml-provider/p",
                "SAMLAssertion": "aaaa",
            },
            "InvalidIdentityToken",
        ),
    ):  # fmt: skip
        status, text = form(lab, service, **params)
        assert (status, f"<Code>{code}</Code>" in text) == (400, True), text


def test_an_error_holds_no_character_that_xml_may_not(lab: MotoLab):
    status, text = form(lab, "iam", Action="GetRole", Version="2010-05-08", RoleName="a\x01b")
    assert status >= 400
    assert "\x01" not in text


def test_members_are_refused_that_are_missing_or_of_another_type(lab: MotoLab):
    """What moto takes for a success. Recorded: the sentence, for SNS, EventBridge and DynamoDB."""
    for service, target, asked, code, words in (
        ("events", "AWSEvents.TagResource", {"ResourceARN": "a"}, "ValidationException", "'tags'"),
        ("events", "AWSEvents.DeleteRule", {"Name": 5}, "SerializationException", "String"),
        ("logs", "Logs_20140328.CreateLogStream", {"logGroupName": "g"}, "InvalidParameterException", "null at"),
        ("kms", "TrentService.ListKeys", {"Marker": {}}, "SerializationException", "Start of structure"),
        ("cloudwatch", "GraniteServiceVersion20100801.DeleteAlarms", {}, "ValidationError", "'alarmNames'"),
        ("sqs", "AmazonSQS.CreateQueue", {"QueueName": 5}, "SerializationException", "String"),
    ):  # fmt: skip
        status, answer = ask(lab, service, target, json.dumps(asked).encode())
        said = answer.get("__type", "").rpartition("#")[2]
        assert (status, said) == (400, code), (target, answer)
        assert words in (answer.get("message") or answer.get("Message")), answer
    for service, action, version in (
        ("iam", "CreateInstanceProfile", "2010-05-08"),
        ("sns", "Unsubscribe", "2010-03-31"),
        ("sts", "AssumeRoleWithWebIdentity", "2011-06-15"),
    ):
        status, text = form(lab, service, Action=action, Version=version)
        assert (status, "<Code>ValidationError</Code>" in text) == (400, True), text
        assert "Member must not be null" in text


def test_what_only_moto_takes_is_refused(lab: MotoLab):
    lab.client("sqs").create_queue(QueueName="q")
    lab.client("sns").create_topic(Name="t")
    lab.client("logs").create_log_group(logGroupName="g")
    lab.client("dynamodb").create_table(
        TableName="t",
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    sqs, logs, glue, states = "AmazonSQS", "Logs_20140328", "AWSGlue", "AWSStepFunctions"
    keyed = {"KeyConditionExpression": "k = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}}
    half = {"TableName": "t", "ProjectionExpression": "k,", **keyed}
    unindexed = {
        "TableName": "t",
        "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "none"}}],
    }
    queue, schema = (
        {"QueueUrl": "http://x/000000000000/q"},
        {"SchemaName": "s", "DataFormat": "AVRO"},
    )
    unregistered = {**schema, "RegistryId": {"Colour": 1}, "SchemaDefinition": "x"}
    half_filter = {
        "logGroupName": "g",
        "filterName": "f",
        "filterPattern": "",
        "destinationArn": "none",
    }
    unknown = "InvalidAttributeName"
    for service, target, asked, code in (
        ("sqs", f"{sqs}.CreateQueue", {"QueueName": "n", "Attributes": {"QueueArn": "a"}}, unknown),
        ("sqs", f"{sqs}.SetQueueAttributes", {**queue, "Attributes": {"Colour": "a"}}, unknown),
        ("sqs", f"{sqs}.SetQueueAttributes", queue, "MissingRequiredParameterException"),
        ("dynamodb", f"{DYNAMODB}.Query", {"TableName": "t"}, "ValidationException"),
        ("dynamodb", f"{DYNAMODB}.Query", half, "ValidationException"),
        ("dynamodb", f"{DYNAMODB}.TransactWriteItems", {"TransactItems": [{}]}, "ValidationException"),
        ("dynamodb", f"{DYNAMODB}.UpdateTable", unindexed, "ResourceNotFoundException"),
        ("logs", f"{logs}.PutSubscriptionFilter", half_filter, "InvalidParameterException"),
        ("glue", f"{glue}.CreateSchema", schema, "InvalidInputException"),
        ("glue", f"{glue}.CreateSchema", unregistered, "InvalidInputException"),
        ("glue", f"{glue}.CreateTable", {"DatabaseName": "d"}, "InvalidInputException"),
        ("stepfunctions", f"{states}.ListExecutions", {}, "ValidationException"),
        ("stepfunctions", f"{states}.ListExecutions", {"mapRunArn": "a"}, "InvalidArn"),
    ):  # fmt: skip
        status, answer = ask(lab, service, target, json.dumps(asked).encode())
        said = answer.get("__type", "").rpartition("#")[2]
        assert (status, said) == (400, code), (target, answer)
    topic = "arn:aws:sns:us-east-1:000000000000:t"
    for code, action, params in (
        ("InvalidParameter", "Subscribe", {"Protocol": "sqs"}),
        ("EmptyBatchRequest", "PublishBatch", {}),
    ):
        status, text = form(
            lab, "sns", Action=action, Version="2010-03-31", TopicArn=topic, **params
        )
        assert (status, f"<Code>{code}</Code>" in text) == (400, True), text


@pytest.mark.parametrize("detail", ["[1]", '"text"', "5", "{"])
def test_an_event_whose_detail_is_no_object_fails_alone(lab: MotoLab, detail: str):
    """Recorded by LocalStack: test_put_event_malformed_detail."""
    sound = {"Source": "a", "DetailType": "b", "Detail": "{}"}
    found = lab.client("events").put_events(Entries=[{**sound, "Detail": detail}, sound])
    assert found["FailedEntryCount"] == 1
    assert found["Entries"][0] == {
        "ErrorCode": "MalformedDetail",
        "ErrorMessage": "Detail is malformed.",
    }
    assert found["Entries"][1]["EventId"]


def test_members_that_are_null_are_not_there(lab: MotoLab):
    lab.client("logs").create_log_group(logGroupName="g")
    for service, target, asked in (
        ("logs", "Logs_20140328.DescribeLogStreams", {"logGroupName": "g", "limit": None}),
        ("ssm", "AmazonSSM.GetParametersByPath", {"Path": "/a", "MaxResults": None}),
        ("sqs", "AmazonSQS.CreateQueue", {"QueueName": "q", "Attributes": {"Policy": None}}),
    ):
        assert ask(lab, service, target, json.dumps(asked).encode())[0] == 200, target
    status, _ = ask(lab, "ssm", "AmazonSSM.GetParametersByPath", b'{"Path":"\x81","N":null}')
    assert status == 400


def test_a_value_of_no_type_and_a_statement_of_no_kind_are_refused(lab: MotoLab):
    lab.client("dynamodb").create_table(
        TableName="t",
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for operation, asked in (
        ("GetItem", {"TableName": "t", "Key": {"z": {}}}),
        ("TransactGetItems", {"TransactItems": [{"Get": {"Key": {"k": {}}, "TableName": "t"}}]}),
        ("ExecuteStatement", {"Statement": "insert into t valqe {'k': 'b'}"}),
    ):
        status, answer = ask(lab, "dynamodb", f"{DYNAMODB}.{operation}", json.dumps(asked).encode())
        assert (status, answer["__type"].rpartition("#")[2]) == (400, "ValidationException")


@pytest.mark.parametrize(
    ("service", "target", "body", "version"),
    [
        ("events", "AWSEvents.PutEvents", b'{"Entries": [{"Source": "a", "Detail": "{}", "DetailType": "d"}]}', "1.1"),
        ("events", "AWSEvents.ListRules", b"{}", "1.1"),
        ("dynamodb", "DynamoDB_20120810.ListTables", b"{}", "1.0"),
        ("dynamodb", "DynamoDB_20120810.DescribeTable", b'{"TableName": "none"}', "1.0"),
        ("states", "AWSStepFunctions.ListStateMachines", b"{}", "1.0"),
        ("logs", "Logs_20140328.DescribeLogGroups", b"{}", "1.1"),
        ("sqs", "AmazonSQS.GetQueueUrl", b'{"QueueName": "none"}', "1.0"),
        ("kms", "TrentService.ListKeys", b"{}", "1.1"),
    ],
)  # fmt: skip
def test_an_answer_in_json_has_its_protocols_type(
    lab: MotoLab, service: str, target: str, body: bytes, version: str
):
    kind = f"application/x-amz-json-{version}"
    headers = {
        "x-amz-target": target,
        "content-type": kind,
        "authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, x",
    }
    answer = lab.handle(HttpRequest("POST", "/", "", headers, body))
    kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
    assert kinds == [kind]


HUGE = "9" * 400


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}", "9" * 5000, "1e400"])
def test_a_number_beyond_a_double_is_refused_in_each_protocol(lab: MotoLab, number: str):
    """The sentences are assumed."""
    body = '{"Namespace": "n", "MetricData": [{"MetricName": "m", "Value": %s}]}'
    target = "GraniteServiceVersion20100801.PutMetricData"
    status, answer = ask(lab, "cloudwatch", target, (body % number).encode())
    assert (status, answer["__type"].rpartition("#")[2]) == (400, "SerializationException")
    status, text = form(
        lab, "monitoring", Action="PutMetricData", Version="2010-08-01", Namespace="n",
        **{"MetricData.member.1.MetricName": "m", "MetricData.member.1.Value": number},
    )  # fmt: skip
    assert (status, "<Code>InvalidParameterValue</Code>" in text) == (400, True)
    status, answer = ask(
        lab, "dynamodb", f"{DYNAMODB}.ListTables", f'{{"Limit": {number}}}'.encode()
    )
    assert (status, answer["__type"].rpartition("#")[2]) == (400, "SerializationException")


def test_what_a_request_names_and_nobody_made_has_the_model_s_error(lab: MotoLab):
    for service, call, params, code in (
        ("ecs", "describe_container_instances", {"containerInstances": ["a"]}, "ClusterNotFoundException"),
        ("efs", "describe_file_system_policy", {"FileSystemId": "fs-12345678"}, "FileSystemNotFound"),
        ("appsync", "create_api_key", {"apiId": "a"}, "NotFoundException"),
        ("rds", "delete_global_cluster", {"GlobalClusterIdentifier": "a"}, "GlobalClusterNotFoundFault"),
        ("autoscaling", "set_desired_capacity", {"AutoScalingGroupName": "a", "DesiredCapacity": 1}, "ValidationError"),
        ("ec2", "delete_transit_gateway", {"TransitGatewayId": "tgw-1"}, "InvalidTransitGatewayID.NotFound"),
        ("kms", "list_grants", {"KeyId": "00000000-0000-0000-0000-000000000000"}, "NotFoundException"),
    ):  # fmt: skip
        with pytest.raises(ClientError) as refused:
            getattr(lab.client(service), call)(**params)
        assert refused.value.response["Error"]["Code"] == code, call


def test_what_a_request_may_leave_out_has_aws_s_meaning(lab: MotoLab):
    ecs = lab.client("ecs")
    ecs.create_capacity_provider(name="own")
    shown = {one["name"]: one for one in ecs.describe_capacity_providers()["capacityProviders"]}
    assert list(shown) == ["own", "FARGATE", "FARGATE_SPOT"]
    arn = shown["FARGATE_SPOT"]["capacityProviderArn"]
    named = ecs.describe_capacity_providers(capacityProviders=[arn, "none"])
    assert [one["name"] for one in named["capacityProviders"]] == ["FARGATE_SPOT"]
    assert [one["reason"] for one in named["failures"]] == ["MISSING"]
    assert lab.client("rds").describe_option_groups()["OptionGroupsList"] == []
    config = lab.client("config").describe_organization_conformance_packs()
    assert config["OrganizationConformancePacks"] == []
    assert "accounts" in lab.client("inspector2").disable()
    assert "throttleSettings" in lab.client("apigateway").update_account()
    with pytest.raises(ClientError) as refused:
        lab.client("kms").retire_grant()
    assert "'grantToken'" in refused.value.response["Error"]["Message"]
