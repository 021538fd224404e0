"""What one service sends to another of its own accord: changes of tables, messages, events and alarms arrive.

What the refusals say is in AWS's recorded answers (dynamodb, test_kinesis_streaming_destination_crud).
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("deliveries") / "data") as cloud:
        yield cloud


def stream(cloud: InProcessCloud, name: str) -> str:
    cloud.client("kinesis").create_stream(StreamName=name, ShardCount=1)
    return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{name}"


def records(cloud: InProcessCloud, name: str, count: int) -> list[Any]:
    """Return the JSON of a stream's records, once there are `count`."""
    kinesis = cloud.client("kinesis")
    shard = kinesis.list_shards(StreamName=name)["Shards"][0]["ShardId"]
    found: list[Any] = []

    def arrived() -> bool:
        iterator = kinesis.get_shard_iterator(
            StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        found[:] = kinesis.get_records(ShardIterator=iterator)["Records"]
        return len(found) >= count

    wait_until(arrived, within_s=20, what=f"{count} records in {name}")
    return [json.loads(each["Data"]) for each in found]


def table(cloud: InProcessCloud, name: str) -> None:
    cloud.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def refusal(error: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    found: Any = error.value.response.get("Error")
    return found["Code"], found["Message"]


# --- rules to HTTP --------------------------------------------------------------------------------


TRIED_AGAIN = "/in?q=1"


class Endpoint:
    """An HTTP server that keeps what it is sent."""

    def __init__(self) -> None:
        seen = self.seen = list[tuple[str, str, dict[str, str], bytes]]()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen.append((self.command, self.path, headers, body))
                answer = b'{"access_token": "secret"}' if self.path == "/token" else b"[7]"
                # The first event there is refused for now, and comes again.
                is_refused = self.path == TRIED_AGAIN and len(endpoint.requests(TRIED_AGAIN)) == 1
                self.send_response(429 if is_refused else 200)
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def requests(self, path: str) -> list[tuple[str, str, dict[str, str], bytes]]:
        """Return what came to a path."""
        return [each for each in self.seen if each[1] == path]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def destination(cloud: InProcessCloud, name: str, kind: str, url: str, auth: dict[str, Any]) -> str:
    events = cloud.client("events")
    connection = events.create_connection(Name=name, AuthorizationType=kind, AuthParameters=auth)
    return str(
        events.create_api_destination(
            Name=name,
            ConnectionArn=connection["ConnectionArn"],
            InvocationEndpoint=url,
            HttpMethod="PUT",
        )["ApiDestinationArn"]
    )


def rule(cloud: InProcessCloud, name: str, target: dict[str, Any]) -> None:
    events = cloud.client("events")
    events.put_rule(Name=name, EventPattern=json.dumps({"source": [name]}))
    targets: Any = [{"Id": "t", **target}]
    events.put_targets(Rule=name, Targets=targets)
    entry = {"Source": name, "DetailType": "d", "Detail": '{"a": 1}'}
    assert events.put_events(Entries=[entry])["FailedEntryCount"] == 0


def test_an_event_goes_to_an_api_destination_with_what_the_connection_says(
    cloud: InProcessCloud, endpoint: Endpoint
):
    auth = {
        "ApiKeyAuthParameters": {"ApiKeyName": "x-key", "ApiKeyValue": "v"},
        "InvocationHttpParameters": {
            "QueryStringParameters": [{"Key": "q", "Value": "1"}],
            "BodyParameters": [{"Key": "who", "Value": "me"}],
        },
    }
    arn = destination(cloud, "keyed", "API_KEY", f"{endpoint.url}/*", auth)
    http_parameters = {"PathParameterValues": ["in"], "HeaderParameters": {"x-more": "h"}}
    target = {
        "Arn": arn, "RoleArn": ROLE, "HttpParameters": http_parameters, "InputPath": "$.detail",
    }  # fmt: skip
    rule(cloud, "keyed", target)
    wait_until(lambda: len(endpoint.requests(TRIED_AGAIN)) >= 2, within_s=20, what="a second try")
    for method, _, headers, body in endpoint.requests(TRIED_AGAIN):
        assert method == "PUT"
        assert (headers["x-key"], headers["x-more"]) == ("v", "h")
        assert json.loads(body) == {"a": 1, "who": "me"}


def test_paths_in_a_targets_parameters_are_the_events_values(
    cloud: InProcessCloud, endpoint: Endpoint
):
    auth = {"ApiKeyAuthParameters": {"ApiKeyName": "x-key", "ApiKeyValue": "v"}}
    arn = destination(cloud, "pathed", "API_KEY", f"{endpoint.url}/of/*", auth)
    http_parameters = {
        "PathParameterValues": ["$.detail.a"],
        "HeaderParameters": {"x-from": "$.source", "x-text": "as $.source"},
        "QueryStringParameters": {"at": "$.detail-type"},
    }
    rule(cloud, "pathed", {"Arn": arn, "RoleArn": ROLE, "HttpParameters": http_parameters})
    wait_until(lambda: bool(endpoint.requests("/of/1?at=d")), within_s=20, what="the event")
    headers = endpoint.requests("/of/1?at=d")[0][2]
    assert (headers["x-from"], headers["x-text"]) == ("pathed", "as $.source")


def test_a_token_of_oauth_is_fetched_for_an_endpoint(cloud: InProcessCloud, endpoint: Endpoint):
    oauth = {
        "ClientParameters": {"ClientID": "c", "ClientSecret": "s"},
        "AuthorizationEndpoint": f"{endpoint.url}/token",
        "HttpMethod": "POST",
    }
    url = f"{endpoint.url}/in"
    arn = destination(cloud, "tokened", "OAUTH_CLIENT_CREDENTIALS", url, {"OAuthParameters": oauth})
    rule(cloud, "tokened", {"Arn": arn, "RoleArn": ROLE})

    def arrived() -> list[dict[str, str]]:
        return [headers for _, _, headers, _ in endpoint.requests("/in")]

    wait_until(lambda: bool(arrived()), within_s=20, what="the event")
    assert arrived()[0]["authorization"] == "Bearer secret"


# --- topics, alarms, state machines ---------------------------------------------------------------


def test_an_alarm_tells_its_topic_once_a_change(cloud: InProcessCloud):
    topic = cloud.client("sns").create_topic(Name="alarms")["TopicArn"]
    queue = cloud.client("sqs").create_queue(QueueName="alarms")["QueueUrl"]
    cloud.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:alarms",
        Attributes={"RawMessageDelivery": "true"},
    )  # fmt: skip
    cloudwatch = cloud.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="late", Namespace="n", MetricName="m", Period=60, EvaluationPeriods=1,
        Threshold=1, ComparisonOperator="GreaterThanThreshold", Statistic="Sum",
        # Its evaluation, which may come between, keeps the state.
        AlarmActions=[topic], TreatMissingData="ignore",
    )  # fmt: skip
    for _ in range(2):
        cloudwatch.set_alarm_state(AlarmName="late", StateValue="ALARM", StateReason="why")
    found: list[Any] = []

    def arrived() -> bool:
        answer = cloud.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found.extend(json.loads(each["Body"]) for each in answer.get("Messages", []))
        return bool(found)

    wait_until(arrived, within_s=20, what="the alarm's message")
    assert len(found) == 1
    assert (found[0]["NewStateValue"], found[0]["NewStateReason"]) == ("ALARM", "why")
    assert (found[0]["AlarmName"], found[0]["Trigger"]["Statistic"]) == ("late", "SUM")


def run(cloud: InProcessCloud, name: str, states: dict[str, Any], given: Any = None) -> Any:
    """Run a state machine; return how its execution ended."""
    machines = cloud.client("stepfunctions")
    definition = json.dumps({"StartAt": next(iter(states)), "States": states})
    arn = machines.create_state_machine(name=name, roleArn=ROLE, definition=definition)
    execution = machines.start_execution(
        stateMachineArn=arn["stateMachineArn"], input=json.dumps(given or {})
    )["executionArn"]
    wait_until(
        lambda: machines.describe_execution(executionArn=execution)["status"] != "RUNNING",
        # The first one waits for the interpreter's import, which takes long on a loaded machine.
        within_s=60,
        what="the end",
    )
    return machines.describe_execution(executionArn=execution)


def test_a_state_waits_for_another_machine_and_gets_its_output(cloud: InProcessCloud):
    inner = run(cloud, "inner", {"P": {"Type": "Pass", "Result": {"n": 7}, "End": True}})
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {"StateMachineArn": inner["stateMachineArn"], "Input": {"a": 1}},
        "End": True,
    }
    ended = run(cloud, "outer", {"S": task})
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    output = json.loads(ended["output"])
    assert (output["Status"], output["Input"], output["Output"]) == (
        "SUCCEEDED",
        {"a": 1},
        {"n": 7},
    )


def test_a_state_puts_text_into_a_stream_and_a_map_runs_few_at_a_time(cloud: InProcessCloud):
    stream(cloud, "stated")
    put = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:kinesis:putRecord",
        "Parameters": {"StreamName": "stated", "PartitionKey": "a", "Data.$": "$.text"},
        "End": True,
    }
    each = {
        "Type": "Map",
        "ItemProcessor": {"StartAt": "Put", "States": {"Put": put}},
        "End": True,
    }
    ended = run(cloud, "map", {"Each": each}, [{"text": str(n)} for n in range(60)])
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    assert sorted(records(cloud, "stated", 60)) == list(range(60))


def test_a_state_calls_an_http_endpoint_by_a_connection(cloud: InProcessCloud, endpoint: Endpoint):
    auth = {"BasicAuthParameters": {"Username": "me", "Password": "v"}}
    connection = cloud.client("events").create_connection(
        Name="stated", AuthorizationType="BASIC", AuthParameters=auth
    )
    task: dict[str, Any] = {
        "Type": "Task",
        "Resource": "arn:aws:states:::http:invoke",
        "Parameters": {
            "ApiEndpoint": f"{endpoint.url}/stated",
            "Method": "POST",
            "Authentication": {"ConnectionArn": connection["ConnectionArn"]},
            "RequestBody": {"a": 1},
        },
        "End": True,
    }
    ended = run(cloud, "calls", {"Call": task})
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    output = json.loads(ended["output"])
    assert (output["StatusCode"], output["ResponseBody"]) == (200, [7])
    ((_, _, headers, body),) = endpoint.requests("/stated")
    assert (headers["authorization"], json.loads(body)) == ("Basic bWU6dg==", {"a": 1})


def test_a_state_waits_for_a_query_and_fails_where_the_service_refuses(cloud: InProcessCloud):
    task: dict[str, Any] = {
        "Type": "Task",
        "Resource": "arn:aws:states:::athena:startQueryExecution.sync",
        "Parameters": {
            "QueryString": "SELECT 1",
            "ResultConfiguration": {"OutputLocation": "s3://results/"},
        },
        "End": True,
    }
    cloud.client("s3").create_bucket(Bucket="results")
    ended = run(cloud, "queries", {"Query": task})
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    assert json.loads(ended["output"])["QueryExecution"]["Status"]["State"] == "SUCCEEDED"
    step = {
        "Type": "Task",
        "Resource": "arn:aws:states:::elasticmapreduce:addStep.sync",
        "Parameters": {"ClusterId": "j-NONE", "Step": {"Name": "s", "HadoopJarStep": {"Jar": "x"}}},
        "End": True,
    }
    ended = run(cloud, "steps", {"Step": step})
    assert (ended["status"], ended["error"].split(".")[0]) == ("FAILED", "ElasticMapReduce")


def test_versions_of_a_machine_are_published_once_a_change(cloud: InProcessCloud):
    machines = cloud.client("stepfunctions")
    definition = json.dumps({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})
    arn = machines.create_state_machine(name="kept", roleArn=ROLE, definition=definition)
    named = {"stateMachineArn": arn["stateMachineArn"]}
    first = machines.publish_state_machine_version(**named)["stateMachineVersionArn"]
    again = machines.publish_state_machine_version(**named)["stateMachineVersionArn"]
    assert (first, again) == (f"{named['stateMachineArn']}:1", first)
    routes: Any = [{"stateMachineVersionArn": first, "weight": 100}]
    alias = machines.create_state_machine_alias(name="live", routingConfiguration=routes)
    with pytest.raises(ClientError) as error:
        machines.delete_state_machine_version(stateMachineVersionArn=first)
    assert refusal(error)[0] == "ConflictException"
    machines.delete_state_machine_alias(stateMachineAliasArn=alias["stateMachineAliasArn"])
    machines.delete_state_machine_version(stateMachineVersionArn=first)
    assert machines.list_state_machine_versions(**named)["stateMachineVersions"] == []


def test_a_rule_of_iot_acts_on_what_is_published(cloud: InProcessCloud):
    stream(cloud, "devices")
    kinesis = {"streamName": "devices", "partitionKey": "${topic(2)}", "roleArn": ROLE}
    cloud.client("iot").create_topic_rule(
        ruleName="hot",
        topicRulePayload={
            "sql": "SELECT *, topic(2) AS device FROM 'plant/+' WHERE t > 30",
            "actions": [{"kinesis": kinesis}],
        },
    )
    publish = cloud.client("iot-data").publish
    publish(topic="plant/d1", payload=b'{"t": 20}')
    publish(topic="plant/d2", payload=b'{"t": 40}')
    assert records(cloud, "devices", 1) == [{"t": 40, "device": "d2"}]


def test_a_log_destination_delivers_to_its_stream(cloud: InProcessCloud):
    logs = cloud.client("logs")
    stream(cloud, "logged")
    made = logs.put_destination(
        destinationName="d",
        targetArn=f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/logged",
        roleArn=ROLE,
    )["destination"]
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    logs.put_subscription_filter(
        logGroupName="g", filterName="f", filterPattern="", destinationArn=str(made.get("arn"))
    )
    now_ms = cloud.cloud.clock.now_ms()
    lines: Any = [{"timestamp": now_ms, "message": "hello"}]
    logs.put_log_events(logGroupName="g", logStreamName="s", logEvents=lines)
    kinesis = cloud.client("kinesis")
    shard = kinesis.list_shards(StreamName="logged")["Shards"][0]["ShardId"]

    def arrived() -> bool:
        iterator = kinesis.get_shard_iterator(
            StreamName="logged", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return bool(kinesis.get_records(ShardIterator=iterator)["Records"])

    wait_until(arrived, within_s=20, what="the log's record")


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("lambda:{}:function:no", "Could not execute the lambda function"),
        ("kinesis:{}:stream/no", "Check if the given kinesis stream is in ACTIVE state."),
        ("firehose:{}:deliverystream/no", "Check if the given Firehose stream is in ACTIVE state."),
    ],
)
def test_logs_do_not_go_to_what_is_not_there(cloud: InProcessCloud, target: str, sentence: str):
    logs, arn = cloud.client("logs"), "arn:aws:" + target.format(f"{REGION}:{ACCOUNT}")
    group = f"to-{target.partition(':')[0]}"
    logs.create_log_group(logGroupName=group)
    role = {} if "lambda" in target else {"roleArn": ROLE}
    with pytest.raises(ClientError, match=f"InvalidParameterException.*{sentence}"):
        logs.put_subscription_filter(
            logGroupName=group, filterName="f", filterPattern="", destinationArn=arn, **role
        )
    assert logs.describe_subscription_filters(logGroupName=group)["subscriptionFilters"] == []
    with pytest.raises(ClientError, match=f"InvalidParameterException.*{sentence}"):
        logs.put_destination(destinationName=group, targetArn=arn, roleArn=ROLE)


def test_a_message_of_a_topic_is_a_line_in_a_delivery_stream(cloud: InProcessCloud):
    cloud.client("s3").create_bucket(Bucket="lines")
    cloud.client("firehose").create_delivery_stream(
        DeliveryStreamName="lines",
        ExtendedS3DestinationConfiguration={
            "BucketARN": "arn:aws:s3:::lines",
            "RoleARN": ROLE,
            "BufferingHints": {"IntervalInSeconds": 0, "SizeInMBs": 1},
        },
    )
    topic = cloud.client("sns").create_topic(Name="lines")["TopicArn"]
    cloud.client("sns").subscribe(
        TopicArn=topic,
        Protocol="firehose",
        Endpoint=f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/lines",
        Attributes={"SubscriptionRoleArn": ROLE},
    )
    for text in ("one", "two"):
        cloud.client("sns").publish(TopicArn=topic, Message=text)
    lines: list[bytes] = []

    def arrived() -> bool:
        found = cloud.client("s3").list_objects_v2(Bucket="lines").get("Contents", [])
        bodies = [
            cloud.client("s3").get_object(Bucket="lines", Key=each["Key"])["Body"].read()
            for each in found
        ]
        lines[:] = b"".join(bodies).splitlines()
        return len(lines) == 2

    wait_until(arrived, within_s=20, what="two lines")
    shown = json.loads(lines[0])
    assert {"Type", "MessageId", "TopicArn", "Message", "Timestamp"} <= set(shown)
    assert "Signature" not in shown


def test_apis_pass_requests_on_to_an_http_endpoint(cloud: InProcessCloud, endpoint: Endpoint):
    apis = cloud.client("apigatewayv2")
    api = apis.create_api(Name="a", ProtocolType="HTTP")["ApiId"]
    integration = apis.create_integration(
        ApiId=api,
        IntegrationType="HTTP_PROXY",
        IntegrationMethod="ANY",
        IntegrationUri=f"{endpoint.url}/on/{{p}}",
        PayloadFormatVersion="1.0",
    )["IntegrationId"]
    apis.create_route(ApiId=api, RouteKey="POST /x/{p}", Target=f"integrations/{integration}")
    apis.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
    path = f"/_aws/execute-api/{api}/x/y%20z"
    answer = cloud.handle(HttpRequest("POST", path, "q=1", {"host": "localhost"}, b"in"))
    assert (answer.status, answer.body) == (200, b"[7]")
    assert ("POST", "/on/y%20z?q=1", b"in") in [(m, p, b) for m, p, _, b in endpoint.seen]
