"""Calls in the process send what botocore's clients send, and read what they read."""

from __future__ import annotations

from typing import Any

import boto3
import botocore
import pytest
from botocore.config import Config

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.core.clock import SystemClock
from headrace.core.ids import Ids
from headrace.moto.in_process import InProcessCalls
from headrace.testing.in_process import aws_response, http_request_of

ACCOUNT, REGION = "123456789012", "eu-west-3"
_JSON = [("Content-Type", "application/json"), ("ETag", "one"), ("ETag", "two")]
_XML = [("Content-Type", "text/xml")]
_POLICY = b"%7B%22Version%22%3A%20%222012-10-17%22%7D"
# Service, operation, parameters, answer: each protocol, and each kind of botocore's handlers.
CALLS: list[tuple[str, str, dict[str, Any], tuple[int, list[tuple[str, str]], bytes]]] = [
    ("ssm", "GetParameter", {"Name": "/a"}, (200, _JSON, b'{"Parameter":{"Value":"v"}}')),
    ("ssm", "GetParameter", {"Name": "/a"}, (400, _JSON, b'{"__type":"ParameterNotFound"}')),
    ("glue", "GetTables", {"DatabaseName": "d", "MaxResults": 3}, (200, _JSON, b"{}")),
    ("iam", "CreateRole", {"RoleName": "r", "AssumeRolePolicyDocument": '{"a": "é&"}'},
     (200, _XML, b"<R><CreateRoleResult><Role><RoleName>r</RoleName><AssumeRolePolicyDocument>" + _POLICY +
      b"</AssumeRolePolicyDocument></Role></CreateRoleResult></R>")),
    ("iam", "GetRole", {"RoleName": "r"},
     (404, _XML, b"<E><Error><Code>NoSuchEntity</Code><Message>none</Message></Error></E>")),
    ("cloudwatch", "PutMetricAlarm", {"AlarmName": "a", "EvaluationPeriods": 1, "Threshold": 1.5,
                                      "ComparisonOperator": "GreaterThanThreshold"}, (200, _JSON, b"{}")),
    ("logs", "CreateExportTask", {"logGroupName": "g", "fromTime": 1, "to": 2, "destination": "b"},
     (200, _JSON, b'{"taskId":"t"}')),
    ("sqs", "SendMessage", {"QueueUrl": "http://h/q", "MessageBody": "m"}, (200, _JSON, b'{"MessageId":"i"}')),
    ("sqs", "GetQueueUrl", {"QueueName": "q"},
     (400, [*_JSON, ("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender")],
      b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"m"}')),
    ("apigateway", "GetExport", {"restApiId": "a/b", "stageName": "s", "exportType": "oas30",
                                 "parameters": {"extensions": "x y"}},
     (200, [("Content-Type", "text/plain"), ("content-disposition", "d")], b"body")),
    ("route53", "ListResourceRecordSets", {"HostedZoneId": "/hostedzone/Z1", "StartRecordName": "a.b"},
     (200, _XML, b"<L><ResourceRecordSets/><IsTruncated>false</IsTruncated><MaxItems>1</MaxItems></L>")),
    ("route53", "CreateHostedZone", {"Name": "a.", "CallerReference": "c"},
     (201, [*_XML, ("Location", "/z")], b"<C><HostedZone><Id>/hostedzone/Z</Id></HostedZone></C>")),
    ("ec2", "RunInstances", {"MinCount": 1, "MaxCount": 2, "UserData": "text", "ClientToken": "t"},
     (200, _XML, b"<R><reservationId>r-1</reservationId></R>")),
    ("ec2", "DescribeVpcs", {"Filters": [{"Name": "n", "Values": ["v"]}]}, (200, _XML, b"<R><vpcSet/></R>")),
    ("glacier", "ListVaults", {}, (200, _JSON, b"{}")),
    ("autoscaling", "CreateLaunchConfiguration", {"LaunchConfigurationName": "n", "UserData": "text"},
     (200, _XML, b"<R/>")),
    ("lambda", "Invoke", {"FunctionName": "f", "Payload": b"{}"}, (200, _JSON, b'{"a":1}')),
    ("iot-data", "GetThingShadow", {"thingName": "t"}, (200, _JSON, b'{"a":1}')),
    ("kafka", "DescribeCluster", {"ClusterArn": "arn:aws:kafka:eu-west-3:1:cluster/c/1"}, (200, _JSON, b"{}")),
]  # fmt: skip
# What a client adds for others: attempts, the checksum of a body.
_CLIENTS = ("user-agent", "amz-sdk-", "content-md5", "x-amz-checksum", "x-amz-sdk", "host")


def _by_client(
    service: str, operation: str, params: dict[str, Any], answer: HttpResponse
) -> tuple[HttpRequest, Any]:
    """Return the request that a client of botocore's sends, and what it makes of an answer."""
    config = Config(
        retries={"total_max_attempts": 1},
        parameter_validation=False,
        inject_host_prefix=False,
        user_agent="headrace",
    )
    client: Any = boto3.client(
        service, region_name=REGION, aws_access_key_id=ACCOUNT, aws_secret_access_key="s",
        endpoint_url="http://h", config=config,
    )  # fmt: skip
    sent: list[HttpRequest] = []

    def send(request: Any, **_: Any) -> Any:
        sent.append(http_request_of(request))
        return aws_response(request.url, answer)

    client.meta.events.register_first("choose-signer.*", lambda **_: botocore.UNSIGNED)
    client.meta.events.register_first("before-send.*", send)
    try:
        output = getattr(client, botocore.xform_name(operation))(**params)
    except client.exceptions.ClientError as error:
        return sent[0], error.response["Error"]["Code"]
    del output["ResponseMetadata"]
    return sent[0], output


def _read(output: Any) -> Any:
    return {
        name: value.read() if hasattr(value, "read") else value for name, value in output.items()
    }


@pytest.mark.parametrize(("service", "operation", "params", "answer"), CALLS)
def test_a_call_is_a_clients(
    service: str,
    operation: str,
    params: dict[str, Any],
    answer: tuple[int, list[tuple[str, str]], bytes],
) -> None:
    status, headers, body = answer
    sent: list[HttpRequest] = []

    def handle(request: HttpRequest, _: str) -> HttpResponse:
        sent.append(request)
        return HttpResponse(status, list(headers), body)

    class NothingQuick:
        def request_of(self, *_: Any) -> None: ...

    calls = InProcessCalls(
        handle,
        Ids(),
        SystemClock(),
        quick=NothingQuick(),  # type: ignore[arg-type]
        answer_quickly=lambda *_: None,
    )
    expected, clients_output = _by_client(
        service, operation, dict(params), HttpResponse(status, list(headers), body)
    )
    if status < 300:
        output = calls.call(service, operation, params, account=ACCOUNT, region=REGION)
        assert _read(output) == _read(clients_output)
    else:
        with pytest.raises(AwsError) as refused:
            calls.call(service, operation, params, account=ACCOUNT, region=REGION)
        assert refused.value.code == clients_output
    made = sent[0]
    assert (made.method, made.path, made.query) == (expected.method, expected.path, expected.query)
    assert made.body == expected.body
    fields = {n: v for n, v in expected.headers.items() if not n.startswith(_CLIENTS)}
    assert {
        n: v for n, v in made.headers.items() if n not in ("authorization", "user-agent")
    } == fields
    assert made.call is not None
    assert (made.call.account, made.call.region) == (ACCOUNT, REGION)
