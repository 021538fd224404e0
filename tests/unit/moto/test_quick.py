"""The quick way of plain requests answers and stores what moto's way does; everything else is left to moto."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.aws.calls.http import HttpResponse
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.composition.moto_patches import QUICK_CALLS
from headrace.moto import engine
from tests.support.clock import FakeClock
from tests.support.moto_lab import ACCOUNT, MotoLab
from tests.unit.moto.item_requests import (
    COUNT,
    MOTOS_WAY,
    REQUESTS,
    form_request,
    request_of,
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    folder, sessions = tmp_path_factory.mktemp("quick") / "data", RoleSessions(b"s" * 32)
    with MotoLab(folder, clock=FakeClock(), sessions=sessions) as lab:
        yield lab


def ask(lab: MotoLab, service: str, operation: str, params: Any, agent: str = "sdk") -> Any:
    """Return an answer's status, its headers' names and its body."""
    answer = lab.handle(request_of(service, operation, params, agent))
    return answer.status, sorted(name.lower() for name, _ in answer.headers), body_of(answer)


def body_of(answer: HttpResponse) -> Any:
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


@pytest.fixture
def motos_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that went moto's way."""
    went: list[str] = []
    run: Callable[..., Any] = engine.run_entry

    def run_entry(entry: Any, *more: Any) -> Any:
        went.append(entry.headers.get("x-amz-target", ""))
        return run(entry, *more)

    monkeypatch.setattr(engine, "run_entry", run_entry)
    return went


# --- DynamoDB -------------------------------------------------------------------------------------

ITEM = {"h": {"S": "a"}, "r": {"N": "1"}, "c": {"S": "x"}, "n": {"L": [{"M": {"a": {"N": "1"}}}]}}
RENEWAL = {
    "Key": {"h": {"S": "a"}, "r": {"N": "1"}},
    "UpdateExpression": "SET #n = :v",
    "ConditionExpression": "c = :w AND attribute_exists(h)",
    "ExpressionAttributeNames": {"#n": "n"},
    "ExpressionAttributeValues": {":v": {"N": "2"}, ":w": {"S": "x"}},
}
LEASE = {
    "Key": RENEWAL["Key"],
    "AttributeUpdates": {"c": {"Value": {"S": "x"}, "Action": "PUT"}},
    "Expected": {"c": {"Value": {"S": "x"}}},
}
ROUND = [
    ("PutItem", {"Item": ITEM}),
    ("UpdateItem", LEASE),
    ("UpdateItem", RENEWAL),
    ("GetItem", {"Key": RENEWAL["Key"]}),
    (
        "Query",
        {"KeyConditionExpression": "h = :v", "ExpressionAttributeValues": {":v": {"S": "a"}}},
    ),
    ("DeleteItem", {"Key": RENEWAL["Key"]}),
    ("GetItem", {"Key": RENEWAL["Key"]}),
]


def make_table(lab: MotoLab, name: str) -> None:
    lab.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "h", "KeyType": "HASH"},
            {"AttributeName": "r", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "h", "AttributeType": "S"},
            {"AttributeName": "r", "AttributeType": "N"},
            {"AttributeName": "g", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by-g",
                "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def state_of(lab: MotoLab, name: str) -> Any:
    """Return a table's items and its stream's records, as they are in memory and in the database."""
    table = _table(name)
    items = ask(lab, "dynamodb", "Scan", {"TableName": name})[2]["Items"]
    records = [msgspec.msgpack.decode(packed) for packed, _ in table.stream_shard.kept.records]
    for record, _ in records:
        record.pop("eventID")
        record.pop("eventSourceARN", None)
    return items, records, stored(lab, table.kept.id)


def _table(name: str) -> Any:
    from moto.dynamodb.models import dynamodb_backends

    return dynamodb_backends[ACCOUNT]["us-east-1"].tables[name]


def stored(lab: MotoLab, rows_id: int) -> list[Any]:
    sql = "SELECT key, value FROM fallback_rows WHERE rows_id = ? ORDER BY rowid"
    return lab.database.query(sql, (rows_id,))


# Numbers may be written in several ways; AWS refuses an empty name.
ODD_ROUND = [
    ("PutItem", {"Item": {**ITEM, "n": {"M": {"": {"S": "a"}}}}}),
    ("GetItem", {"Key": RENEWAL["Key"]}),
    ("PutItem", {"Item": ITEM}),
    ("UpdateItem", {**RENEWAL, "Key": {"h": {"S": "a"}, "r": {"N": "1.0"}}}),
    ("PutItem", {"Item": {**ITEM, "r": {"N": "-0"}}}),
    ("DeleteItem", {"Key": {"h": {"S": "a"}, "r": {"N": "0"}}}),
]


@given(REQUESTS)
@example(ROUND)
@example(ODD_ROUND)
@settings(max_examples=40)
def test_requests_for_items_are_answered_and_stored_as_by_moto(
    lab: MotoLab, requests: list[tuple[str, dict[str, Any]]]
):
    number = next(COUNT)
    # As long as each other, so that sizes agree.
    quick, slow = f"quick-{number}", f"motos-{number}"
    make_table(lab, quick)
    make_table(lab, slow)
    for operation, params in requests:
        first = ask(lab, "dynamodb", operation, {"TableName": quick, **params})
        second = ask(lab, "dynamodb", operation, {"TableName": slow, **params}, MOTOS_WAY)
        assert json.dumps(first).replace(quick, slow) == json.dumps(second)
    assert state_of(lab, quick) == state_of(lab, slow)
    for name in (quick, slow):
        lab.client("dynamodb").delete_table(TableName=name)


def test_plain_requests_for_items_do_not_go_motos_way(lab: MotoLab, motos_way: list[str]):
    make_table(lab, "plain")
    motos_way.clear()
    for operation, params in ROUND:
        assert ask(lab, "dynamodb", operation, {"TableName": "plain", **params})[0] == 200
    assert motos_way == []


# --- SQS ------------------------------------------------------------------------------------------

BODIES = st.sampled_from(["a", "ü", "", "\x00", "x" * 1100, "\ud800"])
SENDS = st.builds(
    lambda body, more: ("SendMessage", {"MessageBody": body, **more}),
    BODIES | st.just("a"),
    st.sampled_from([{}, {}, {"DelaySeconds": 0}, {"DelaySeconds": 5}, {"DelaySeconds": 901},
        {"DelaySeconds": None}, {"MessageGroupId": "g"},
        {"MessageAttributes": {"a": {"DataType": "String", "StringValue": "b"}}}]),
)  # fmt: skip
RECEIVES = st.builds(
    lambda *parts: ("ReceiveMessage", {name: part for some in parts for name, part in some.items()}),
    st.sampled_from([{}, {"MaxNumberOfMessages": 2}, {"MaxNumberOfMessages": 0}, {"MaxNumberOfMessages": 11}]),
    st.sampled_from([{}, {"VisibilityTimeout": 0}, {"VisibilityTimeout": 3}, {"VisibilityTimeout": 43_201}]),
    st.sampled_from([{}, {"WaitTimeSeconds": 0}, {"WaitTimeSeconds": 21}]),
    st.sampled_from([{}, {"AttributeNames": ["All"]}, {"MessageSystemAttributeNames": ["SentTimestamp", "x"]},
        {"AttributeNames": ["DeadLetterQueueSourceArn"]},
        {"MessageAttributeNames": ["All"]}]),
)  # fmt: skip
REMOVALS = st.tuples(st.just("DeleteMessage"), st.integers(-1, 3))
WAITS = st.tuples(st.just("wait"), st.sampled_from([1, 4, 90]))


def make_queue(lab: MotoLab, name: str) -> str:
    attributes = {"MessageRetentionPeriod": "60", "MaximumMessageSize": "1024"}
    client = lab.client("sqs")
    return str(client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


class Queue:
    """A queue, asked one of the two ways, with the receipt handles that it gave."""

    def __init__(self, lab: MotoLab, name: str, agent: str) -> None:
        self.lab, self.agent, self.name = lab, agent, name
        self.url = make_queue(lab, name)
        self.handles: list[str] = ["not a handle"]

    def ask(self, operation: str, params: Any) -> Any:
        if operation == "DeleteMessage":
            params = {"ReceiptHandle": self.handles[(params + 1) % len(self.handles)]}
        answer = ask(self.lab, "sqs", operation, {"QueueUrl": self.url, **params}, self.agent)
        for message in answer[2].get("Messages", ()):
            self.handles.append(message["ReceiptHandle"])
        text = json.dumps(answer)
        for number, handle in enumerate(self.handles):
            text = text.replace(handle, f"handle {number}")
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "an id", text)

    def state(self) -> Any:
        from moto.sqs.models import sqs_backends

        backends: Any = sqs_backends
        store = backends[ACCOUNT]["us-east-1"].queues[self.name].store
        store.advance(self.lab.clock.now_ms())
        rows = [msgspec.msgpack.decode(value) for _, value in stored(self.lab, store.id)]
        # Without the ids.
        return +store.counts, [row[1:] if isinstance(row, list) else row for row in rows]


@given(st.lists(SENDS | SENDS | RECEIVES | REMOVALS | WAITS, max_size=8))
@settings(max_examples=40)
def test_requests_for_messages_are_answered_and_stored_as_by_moto(
    lab: MotoLab, requests: list[tuple[str, Any]]
):
    number = next(COUNT)
    quick = Queue(lab, f"quick-{number}", "sdk")
    slow = Queue(lab, f"motos-{number}", MOTOS_WAY)
    for operation, params in requests:
        if operation == "wait":
            lab.clock.advance(params)
        else:
            assert quick.ask(operation, params) == slow.ask(operation, params)
    assert quick.state() == slow.state()
    for queue in (quick, slow):
        lab.client("sqs").delete_queue(QueueUrl=queue.url)


def test_plain_requests_for_messages_do_not_go_motos_way(lab: MotoLab, motos_way: list[str]):
    url = make_queue(lab, "plain")
    motos_way.clear()
    ask(lab, "sqs", "SendMessage", {"QueueUrl": url, "MessageBody": "a"})
    received = ask(lab, "sqs", "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})[2]
    handle = received["Messages"][0]["ReceiptHandle"]
    assert ask(lab, "sqs", "DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})[0] == 200
    assert motos_way == []


# --- SNS, EventBridge, STS ------------------------------------------------------------------------


# Of what differs between two equal answers: ids, signatures, credentials, times.
RANDOM = re.compile(
    "|".join(
        [
            *(
                "[0-9a-f]{8}-[0-9a-f-]{20,}",
                "<RequestId>[A-Z0-9]+",
                '(?<=Signature" : ")[^"]+',
                "<AccessKeyId>[A-Z0-9]+",
                "AROA[A-Z0-9]+",
            ),
            *("<SecretAccessKey>[^<]+", "<SessionToken>[^<]+"),
        ]
    )
)


def ask_form(lab: MotoLab, service: str, fields: Any, agent: str = "sdk") -> Any:
    answer = lab.handle(form_request(service, fields, agent))
    assert isinstance(answer.body, bytes)
    names = sorted(name.lower() for name, _ in answer.headers)
    return answer.status, names, RANDOM.sub("", answer.body.decode())


@pytest.fixture(scope="module")
def topics(lab: MotoLab) -> dict[str, str]:
    """Topics by a name of the same length: each has a raw queue of its name, and one for notifications."""
    sns, arns = lab.client("sns"), {}
    for name in ("quick", "motos"):
        arns[name] = sns.create_topic(Name=name)["TopicArn"]
        for queue, raw in ((f"raw-{name}", "true"), (f"notes-{name}", "false")):
            make_queue(lab, queue)
            arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"
            attributes = {"RawMessageDelivery": raw}
            sns.subscribe(TopicArn=arns[name], Protocol="sqs", Endpoint=arn, Attributes=attributes)
    return arns


def arrived(lab: MotoLab, name: str) -> list[str]:
    """Return what the topic's queues got."""
    urls = [make_queue(lab, f"{kind}-{name}") for kind in ("raw", "notes")]
    sqs = lab.client("sqs")
    answers = [sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10) for url in urls]
    bodies = [message["Body"] for answer in answers for message in answer.get("Messages", ())]
    return [RANDOM.sub("", body).replace("motos", "quick") for body in bodies]


@pytest.mark.parametrize(
    "fields",
    [
        {"Message": "ü & <a>"},
        {"Message": ""},
        {},
        {"Message": "a", "Subject": "b"},
        {"Message": "a", "Unknown": "b"},
        {"Message": "x" * 40_000},
        {"Message": "a", "TopicArn": "arn:aws:sns:us-east-1:000000000000:missing"},
    ],
    ids=["plain", "empty", "without", "subject", "unknown", "large", "missing"],
)
def test_a_published_message_is_answered_and_sent_as_by_moto(
    lab: MotoLab, topics: dict[str, str], fields: dict[str, str]
):
    answers: list[Any] = []
    for name, agent in (("quick", "sdk"), ("motos", MOTOS_WAY)):
        whole = {"Action": "Publish", "Version": "2010-03-31", "TopicArn": topics[name], **fields}
        answers.append(ask_form(lab, "sns", whole, agent))
    assert answers[0] == answers[1]
    assert arrived(lab, "quick") == arrived(lab, "motos")


EVENT = {"Source": "a", "DetailType": "b", "Detail": '{"c": "ü"}'}


@pytest.mark.parametrize(
    "entries",
    [
        [EVENT],
        [EVENT, {**EVENT, "Detail": "no"}, {**EVENT, "Source": ""}, {**EVENT, "Detail": "[]"}],
        [{**EVENT, "EventBusName": "missing"}],
        [{**EVENT, "EventBusName": "default", "Resources": ["r"]}],
        [{"Source": "a"}],
        [EVENT] * 11,
        [],
        [{**EVENT, "Detail": 1}],
        [{**EVENT, "Detail": "[" * 30_000}],
    ],
    ids=["plain", "wrong", "bus", "resources", "part", "many", "none", "type", "deep"],
)
def test_events_are_answered_and_sent_as_by_moto(lab: MotoLab, entries: list[Any]):
    url = make_queue(lab, "events")
    events = lab.client("events")
    events.put_rule(Name="r", EventPattern='{"source": ["a"]}')
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:events"
    events.put_targets(Rule="r", Targets=[{"Id": "t", "Arn": arn}])
    answers: list[Any] = []
    for agent in ("sdk", MOTOS_WAY):
        answer = ask(lab, "events", "PutEvents", {"Entries": entries}, agent)
        lab.outbox.step()
        messages = lab.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        bodies = [message["Body"] for message in messages.get("Messages", ())]
        answers.append(RANDOM.sub("", json.dumps([answer, sorted(bodies)])))
    assert answers[0] == answers[1]


LINES = [{"timestamp": FakeClock().now_ms() + n, "message": f"line ü {n}"} for n in range(3)]


@pytest.mark.parametrize(
    "params",
    [
        {"logEvents": LINES},
        {"logEvents": LINES, "logStreamName": "missing"},
        {"logEvents": LINES, "logGroupName": "missing"},
        {"logEvents": LINES[::-1]},
        {"logEvents": [{**LINES[0], "timestamp": 1}, *LINES]},
        {"logEvents": [{**LINES[0], "message": ""}]},
        {"logEvents": []},
        {"logEvents": LINES, "sequenceToken": "1"},
        {"logEvents": LINES[:2]},
    ],
    ids=["plain", "stream", "group", "order", "old", "empty", "none", "token", "filtered"],
)
def test_log_events_are_stored_as_by_moto(
    lab: MotoLab, params: dict[str, Any], request: pytest.FixtureRequest
):
    is_filtered = "filtered" in request.node.name
    logs, answers = lab.client("logs"), list[Any]()
    for name, agent in (("quick", "sdk"), ("motos", MOTOS_WAY)):
        named = {"logGroupName": f"g{next(COUNT)}-{name}", "logStreamName": "s"}
        logs.create_log_group(logGroupName=named["logGroupName"])
        logs.create_log_stream(**named)
        if is_filtered:
            transformation = {"metricName": "m", "metricNamespace": "n", "metricValue": "1"}
            logs.put_metric_filter(
                logGroupName=named["logGroupName"], filterName="f", filterPattern="line",
                metricTransformations=[transformation],
            )  # fmt: skip
        answer = ask(lab, "logs", "PutLogEvents", {**named, **params}, agent)
        events = logs.get_log_events(**named)["events"]
        answers.append((answer, [(one["timestamp"], one["message"]) for one in events]))
    assert answers[0] == answers[1]


def test_the_clouds_own_log_lines_go_without_a_client(lab: MotoLab, motos_way: list[str]):
    logs, named = lab.client("logs"), {"logGroupName": f"g{next(COUNT)}", "logStreamName": "s"}
    logs.create_log_group(logGroupName=named["logGroupName"])
    logs.create_log_stream(**named)
    motos_way.clear()
    answer = lab.moto.call(
        "logs", "PutLogEvents", {**named, "logEvents": LINES}, account=ACCOUNT, region="us-east-1"
    )
    assert answer["nextSequenceToken"]
    assert motos_way == []
    assert len(logs.get_log_events(**named)["events"]) == len(LINES)


HEAD = {
    "MetricName": "m",
    "Unit": "Count",
    "Timestamp": datetime.fromtimestamp(FakeClock().now_ms() / 1000 + 0.25, UTC),
    "Dimensions": [{"Name": "a", "Value": "ü"}],
}
DATA = [
    {**HEAD, "Value": 1.5},
    {**HEAD, "Values": [1.0, 2.0], "Counts": [2.0, 30.0], "Dimensions": []},
    {
        **HEAD,
        "StatisticValues": {"SampleCount": 2.0, "Sum": 3.0, "Minimum": 1.0, "Maximum": 2.0},
    },
]


def test_the_clouds_own_metrics_are_those_of_the_long_way(lab: MotoLab, motos_way: list[str]):
    from moto.cloudwatch.models import cloudwatch_backends

    kept: list[Any] = []
    for account, own in (("1" * 12, {}), ("2" * 12, {"StorageResolution": 60})):
        # Whatever else a request has is moto's to read.
        data = [{**one, **own} for one in DATA]
        where = {"account": account, "region": "us-east-1"}
        lab.moto.call("cloudwatch", "ListMetrics", {}, **where)
        backend = cloudwatch_backends[account]["us-east-1"]
        motos_way.clear()
        params = {"Namespace": "AWS/X", "MetricData": data}
        lab.moto.call("cloudwatch", "PutMetricData", params, **where)
        assert bool(motos_way) == bool(own)
        shown = [
            {**vars(datum), "dimensions": [vars(one) for one in datum.dimensions]}
            for datum in backend.metric_data
        ]
        kept.append(shown)
    assert len(kept[0]) == 5
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"RoleSessionName": "session"},
        {"RoleSessionName": "s"},
        {"RoleSessionName": "session", "DurationSeconds": "1800"},
        {"RoleSessionName": "session", "DurationSeconds": "4000"},
        {"RoleSessionName": "session", "DurationSeconds": "x"},
        {"RoleSessionName": "session", "RoleArn": "arn:aws:iam::000000000000:role/none"},
        {"RoleSessionName": "session", "ExternalId": "abc"},
        {"RoleSessionName": "session", "Version": ""},
        {},
    ],
    ids=["plain", "short", "half", "long", "word", "missing", "external", "version", "part"],
)
def test_a_role_s_credentials_are_those_of_the_long_way(lab: MotoLab, fields: dict[str, str]):
    iam = lab.client("iam")
    if not any(role["RoleName"] == "r" for role in iam.list_roles()["Roles"]):
        trust = '{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}'
        iam.create_role(RoleName="r", AssumeRolePolicyDocument=trust)
    role = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/r"}
    whole = {"Action": "AssumeRole", "Version": "2011-06-15", **role, **fields}
    whole = {name: text for name, text in whole.items() if text}
    assert ask_form(lab, "sts", whole) == ask_form(lab, "sts", whole, MOTOS_WAY)


@pytest.mark.parametrize("call", QUICK_CALLS, ids=lambda call: call.name)
def test_a_body_without_sense_is_left_to_moto(lab: MotoLab, call: Any):
    service, operation = call.service, call.name.partition(".")[2]
    if operation:
        first = ask(lab, service, operation, {"No": "sense"})
        assert first == ask(lab, service, operation, {"No": "sense"}, MOTOS_WAY)
