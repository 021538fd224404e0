"""What the event loop answers itself, and what it leaves to a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.aws.calls.http import HttpResponse, NeedsThread
from headrace.aws.gateway.entrance import Entrance
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.composition.foundation import build_moto
from headrace.core.ids import Ids
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.dynamodb import quick as dynamodb_quick
from headrace.services.sns import signatures
from headrace.store.database import Database
from tests.support.clock import FakeClock
from tests.support.moto_lab import ACCOUNT, MotoLab
from tests.unit.moto.item_requests import MOTOS_WAY, answer_at_once, form_request, request_of


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    folder, sessions = tmp_path_factory.mktemp("at-once") / "data", RoleSessions(b"s" * 32)
    with MotoLab(folder, clock=FakeClock(), sessions=sessions) as lab:
        yield lab


def make_queue(lab: MotoLab, name: str) -> str:
    return str(lab.client("sqs").create_queue(QueueName=name)["QueueUrl"])


def test_a_request_on_the_event_loop_does_not_wait_for_another_one(lab: MotoLab):
    request = request_of(
        "sqs", "SendMessage", {"QueueUrl": make_queue(lab, "b"), "MessageBody": "a"}
    )
    request.at_once = True
    assert lab.handle(request).status == 200
    is_held, goes_on = threading.Event(), threading.Event()

    def hold() -> None:
        with MOTO_LOCK:
            is_held.set()
            goes_on.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert is_held.wait(30)
        with pytest.raises(NeedsThread):
            lab.handle(request)
    finally:
        goes_on.set()
        other.join()
    assert lab.handle(request).status == 200


def test_a_request_on_the_event_loop_that_is_not_plain_needs_a_thread(lab: MotoLab):
    url = make_queue(lab, "c")
    request = request_of("sqs", "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 1})
    request.at_once = True
    with pytest.raises(NeedsThread):
        lab.handle(request)


def test_the_entrance_answers_at_once_or_names_what_answers_on_a_thread(lab: MotoLab):
    url, nobody = make_queue(lab, "d"), cast("Any", None)
    door = cast("Any", SimpleNamespace(hosts=SimpleNamespace(known={"127.0.0.1:4566"})))
    parts = {"own_addresses": nobody, "pages": nobody, "page_guard": None, "clock": lab.clock}
    entrance = Entrance(door, gateway=lab.gateway, **parts)
    sent = entrance.answer_at_once(
        request_of("sqs", "SendMessage", {"QueueUrl": url, "MessageBody": "a"})
    )
    assert isinstance(sent, HttpResponse)
    assert sent.status == 200
    for operation, more in (("GetQueueAttributes", {}), ("SendMessage", {"MessageBody": "\x00"})):
        request = request_of("sqs", operation, {"QueueUrl": url, **more})
        handler = entrance.answer_at_once(request)
        assert callable(handler)
        assert cast("Any", handler(request)).status in (200, 400)


@pytest.mark.parametrize("fsync", [False, True])
def test_what_waits_for_the_disk_needs_a_thread(tmp_path: Path, fsync: bool):
    database = Database(tmp_path / "state.sqlite", fsync=fsync)
    moto = build_moto(database=database, clock=FakeClock(), ids=Ids(1)).engine
    moto.warm_up()
    request = request_of("sqs", "SendMessage", {"QueueUrl": "", "MessageBody": "a"})
    assert moto.may_be_quick(request) is not fsync
    database.close()


@pytest.mark.parametrize("size", ["items", "values"])
def test_a_large_answer_is_not_encoded_on_the_event_loop(
    lab: MotoLab, monkeypatch: pytest.MonkeyPatch, size: str
):
    table = f"large-{size}"
    lab.client("dynamodb").create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "h", "KeyType": "HASH"},
            {"AttributeName": "r", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "h", "AttributeType": "S"},
            {"AttributeName": "r", "AttributeType": "N"},
        ],
    )
    count, value = {"items": (201, {"S": "x"}), "values": (2, {"L": [{"N": "1"}] * 5_000})}[size]
    for number in range(count):
        item = {"h": {"S": "a"}, "r": {"N": str(number)}, "c": value}
        lab.client("dynamodb").put_item(TableName=table, Item=item)
    condition = {
        "KeyConditionExpression": "h = :v",
        "ExpressionAttributeValues": {":v": {"S": "a"}},
    }
    asked = {"TableName": table, **condition}
    with monkeypatch.context() as patch:
        patch.setattr(dynamodb_quick, "_ENCODE", None)
        with pytest.raises(NeedsThread):
            answer_at_once(lab, request_of("dynamodb", "Query", asked))
    assert lab.client("dynamodb").query(**asked)["Count"] == count


def test_a_long_poll_waits_past_the_time_of_a_deleted_message(lab: MotoLab):
    sqs, url = lab.client("sqs"), make_queue(lab, "deleted")
    sqs.send_message(QueueUrl=url, MessageBody="a")
    (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=3)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    lab.clock.advance(4)
    poll = {"QueueUrl": url, "WaitTimeSeconds": 20}
    with pytest.raises(NeedsThread):
        answer_at_once(lab, request_of("sqs", "ReceiveMessage", poll))


def test_the_event_loop_makes_no_signing_key(lab: MotoLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signatures, "_KEYS", {})
    sns = lab.client("sns")
    arn = sns.create_topic(Name="signed")["TopicArn"]
    make_queue(lab, "signed")
    queue = f"arn:aws:sqs:us-east-1:{ACCOUNT}:signed"
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue)
    fields = {"Action": "Publish", "Version": "2010-03-31", "TopicArn": arn, "Message": "a"}
    with pytest.raises(NeedsThread):
        answer_at_once(lab, form_request("sns", fields))
    assert lab.handle(form_request("sns", fields)).status == 200
    assert answer_at_once(lab, form_request("sns", fields)).status == 200


EVENT = {"Source": "a", "DetailType": "b", "Detail": "{}"}


@pytest.mark.parametrize(("targets", "rules"), [("sns", 1), ("events", 1), ("sqs", 3)])
def test_the_event_loop_does_not_send_events_to_any_number_of_targets(
    lab: MotoLab, targets: str, rules: int
):
    events, bus = lab.client("events"), f"far-{targets}"
    events.create_event_bus(Name=bus)
    resource = "event-bus/default" if targets == "events" else "far"
    arn = f"arn:aws:{targets}:us-east-1:{ACCOUNT}:{resource}"
    asked = {"Entries": [{**EVENT, "EventBusName": bus}] * (1 if rules == 1 else 10)}
    assert answer_at_once(lab, request_of("events", "PutEvents", asked)).status == 200
    for number in range(rules):
        name = f"r{number}"
        events.put_rule(Name=name, EventBusName=bus, EventPattern='{"source": ["other"]}')
        target = {"Id": "t", "Arn": arn}
        events.put_targets(Rule=name, EventBusName=bus, Targets=[target])
    with pytest.raises(NeedsThread):
        answer_at_once(lab, request_of("events", "PutEvents", asked))


def test_a_plain_request_for_credentials_is_answered_at_once(lab: MotoLab):
    role = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/none", "RoleSessionName": "session"}
    fields = {"Action": "AssumeRole", "Version": "2011-06-15", **role}
    lab.handle(form_request("sts", fields, MOTOS_WAY))
    answer = answer_at_once(lab, form_request("sts", fields))
    assert answer.status == 200
    assert b":assumed-role/none/session" in cast("bytes", answer.body)
