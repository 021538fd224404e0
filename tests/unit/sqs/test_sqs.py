"""Queues: what is received when, how often, in which order; the same after kill -9."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from headrace.core.clock import SystemClock
from headrace.moto.storage.changes import CHANGES
from headrace.services.sqs.messages import Messages
from tests.support.moto_lab import MotoLab
from tests.support.server import wait_until


def queue(lab: MotoLab, name: str = "q", **attributes: str) -> str:
    return lab.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def send(lab: MotoLab, url: str, *bodies: str, **more: Any) -> None:
    for body in bodies:
        lab.client("sqs").send_message(QueueUrl=url, MessageBody=body, **more)


def receive(lab: MotoLab, url: str, count: int = 10, **more: Any) -> list[dict[str, Any]]:
    answer = lab.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=count, AttributeNames=["All"],
        MessageAttributeNames=["All"], **more,
    )  # fmt: skip
    return answer.get("Messages", [])


def bodies(lab: MotoLab, url: str, count: int = 10, **more: Any) -> list[str]:
    return [message["Body"] for message in receive(lab, url, count, **more)]


def counts(lab: MotoLab, url: str) -> tuple[int, int, int]:
    """Return how many messages are visible, delayed, and in flight."""
    found = lab.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
        "Attributes"
    ]
    names = ("", "Delayed", "NotVisible")
    visible, delayed, hidden = (int(found[f"ApproximateNumberOfMessages{n}"]) for n in names)
    return visible, delayed, hidden


@pytest.mark.parametrize("killed", [False, True])
def test_a_message_is_out_of_sight_for_its_visibility_timeout(lab: MotoLab, killed: bool):
    url = queue(lab, VisibilityTimeout="30")
    send(lab, url, "1", "2", "3")
    (first,) = receive(lab, url, 1)
    assert (first["Body"], first["Attributes"]["ApproximateReceiveCount"]) == ("1", "1")
    if killed:
        lab.restart()
    assert counts(lab, url) == (2, 0, 1)
    assert bodies(lab, url) == ["2", "3"]
    lab.clock.advance(31)
    again = receive(lab, url)
    assert [m["Body"] for m in again] == ["1", "2", "3"]
    assert again[0]["Attributes"]["ApproximateReceiveCount"] == "2"
    assert again[0]["MessageId"] == first["MessageId"]
    old = first["Attributes"]["ApproximateFirstReceiveTimestamp"]
    assert again[0]["Attributes"]["ApproximateFirstReceiveTimestamp"] == old


@pytest.mark.parametrize("killed", [False, True])
def test_a_delayed_message_comes_when_its_time_has_come(lab: MotoLab, killed: bool):
    url = queue(lab, DelaySeconds="5")
    send(lab, url, "of the queue")
    send(lab, url, "its own", DelaySeconds=60)
    if killed:
        lab.restart()
    assert counts(lab, url) == (0, 2, 0)
    lab.clock.advance(6)
    assert bodies(lab, url) == ["of the queue"]
    lab.clock.advance(60)
    assert sorted(bodies(lab, url)) == ["its own", "of the queue"]


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_received_too_often_goes_to_the_dead_letter_queue(lab: MotoLab, killed: bool):
    dead = queue(lab, "dead")
    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    url = queue(lab, RedrivePolicy=redrive, VisibilityTimeout="1")
    send(
        lab, url, "poison", MessageAttributes={"a": {"DataType": "Binary", "BinaryValue": b"\x00"}}
    )
    for _ in range(2):
        assert bodies(lab, url) == ["poison"]
        lab.clock.advance(2)
        if killed:
            lab.restart()
    assert bodies(lab, url) == []
    if killed:
        lab.restart()
    (message,) = receive(lab, dead)
    assert message["MessageAttributes"]["a"]["BinaryValue"] == b"\x00"
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert counts(lab, url) == (0, 0, 0)


def test_a_fifo_group_waits_for_what_is_in_flight_and_others_do_not(lab: MotoLab):
    url = queue(lab, "f.fifo", FifoQueue="true", VisibilityTimeout="30")
    for n, group in enumerate("aabab"):
        send(lab, url, f"{group}{n}", MessageGroupId=group, MessageDeduplicationId=str(n))
    (first,) = receive(lab, url, 1)
    assert first["Body"] == "a0"
    assert bodies(lab, url) == ["b2", "b4"]
    assert bodies(lab, url) == []
    lab.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    lab.restart()
    assert bodies(lab, url) == ["a1", "a3"]
    lab.clock.advance(31)
    assert bodies(lab, url) == ["a1", "a3", "b2", "b4"]


def test_one_receive_takes_a_group_s_messages_together(lab: MotoLab):
    url = queue(lab, "f.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    for body in ("a1", "b1", "c1", "a2", "b2", "a3"):
        send(lab, url, body, MessageGroupId=body[0])
    assert bodies(lab, url, 4) == ["a1", "a2", "a3", "b1"]
    assert bodies(lab, url) == ["c1"]
    lab.clock.advance(31)
    assert bodies(lab, url, 2) == ["a1", "a2"]
    assert bodies(lab, url) == ["b1", "b2", "c1"]


def test_sequence_numbers_of_a_fifo_queue_grow(lab: MotoLab):
    url = queue(lab, "f.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    sqs = lab.client("sqs")
    numbers: list[str] = []
    for body in "abc":
        sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
        numbers.append(sent["SequenceNumber"])
        lab.restart()
    assert numbers == sorted(set(numbers))
    assert {len(number) for number in numbers} == {20}


def test_a_fifo_message_is_known_for_five_minutes_also_when_it_is_deleted(lab: MotoLab):
    url = queue(lab, "f.fifo", FifoQueue="true")
    sqs = lab.client("sqs")
    one = {"QueueUrl": url, "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sent = sqs.send_message(MessageBody="x", **one)
    (message,) = receive(lab, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    lab.restart()
    assert sqs.send_message(MessageBody="x", **one)["MessageId"] == sent["MessageId"]
    assert bodies(lab, url) == []
    lab.clock.advance(301)
    assert sqs.send_message(MessageBody="x", **one)["MessageId"] != sent["MessageId"]
    assert bodies(lab, url) == ["x"]


def test_deduplication_may_be_a_group_s(lab: MotoLab):
    url = queue(lab, "f.fifo", FifoQueue="true", DeduplicationScope="messageGroup",
                FifoThroughputLimit="perMessageGroupId")  # fmt: skip
    for group in "aab":
        send(lab, url, group, MessageGroupId=group, MessageDeduplicationId="same")
    assert bodies(lab, url) == ["a", "b"]


def test_messages_end_with_the_queue_s_retention(lab: MotoLab):
    url = queue(lab, MessageRetentionPeriod="60")
    send(lab, url, "old")
    lab.clock.advance(30)
    send(lab, url, "new")
    lab.clock.advance(31)
    assert counts(lab, url) == (1, 0, 0)
    assert bodies(lab, url) == ["new"]


def test_deleting_twice_succeeds_and_a_foreign_handle_is_refused(lab: MotoLab):
    url, other, sqs = queue(lab), queue(lab, "other"), lab.client("sqs")
    send(lab, url, "x")
    (message,) = receive(lab, url)
    handle = message["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    lab.restart()
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    send(lab, url, "another")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert bodies(lab, url) == ["another"]
    for wrong_url, wrong in ((other, handle), (url, handle[:-4] + "AAA="), (url, "nonsense")):
        with pytest.raises(ClientError, match="ReceiptHandleIsInvalid"):
            sqs.delete_message(QueueUrl=wrong_url, ReceiptHandle=wrong)


def test_visibility_changes_for_what_is_in_flight_only(lab: MotoLab):
    url, sqs = queue(lab), lab.client("sqs")
    send(lab, url, "x")
    (message,) = receive(lab, url)
    change = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    sqs.change_message_visibility(VisibilityTimeout=0, **change)
    lab.restart()
    assert counts(lab, url) == (1, 0, 0)
    sqs.change_message_visibility(VisibilityTimeout=10, **change)  # recorded: nothing happens
    assert counts(lab, url) == (1, 0, 0)
    (again,) = receive(lab, url)
    change["ReceiptHandle"] = again["ReceiptHandle"]
    lab.clock.advance(5)
    with pytest.raises(ClientError, match="beyond the limit"):
        sqs.change_message_visibility(VisibilityTimeout=43_200, **change)
    sqs.change_message_visibility(VisibilityTimeout=100, **change)
    lab.clock.advance(50)
    assert bodies(lab, url) == []
    lab.clock.advance(51)
    assert bodies(lab, url) == ["x"]


def test_a_visibility_timeout_of_nothing_hands_a_message_out_once_a_call(lab: MotoLab):
    url = queue(lab, VisibilityTimeout="0")
    send(lab, url, "a", "b")
    assert bodies(lab, url) == ["a", "b"]
    assert bodies(lab, url) == ["a", "b"]


def test_a_purged_queue_is_empty_and_stays_so(lab: MotoLab):
    url = queue(lab)
    send(lab, url, "a", "b")
    receive(lab, url, 1)
    lab.client("sqs").purge_queue(QueueUrl=url)
    assert counts(lab, url) == (0, 0, 0)
    send(lab, url, "c")
    lab.restart()
    assert bodies(lab, url) == ["c"]


def test_a_deleted_queue_leaves_no_rows(lab: MotoLab):
    url = queue(lab)
    send(lab, url, "a", "b")
    assert lab.database.query("SELECT count(*) FROM fallback_rows") == [(3,)]
    lab.client("sqs").delete_queue(QueueUrl=url)
    assert lab.database.query("SELECT count(*) FROM fallback_rows") == [(0,)]


# --- waiting --------------------------------------------------------------------------------------


def test_a_wait_ends_when_its_time_is_up(lab: MotoLab):
    url = queue(lab)
    before_ms = lab.clock.now_ms()
    assert bodies(lab, url, WaitTimeSeconds=20) == []
    assert lab.clock.now_ms() - before_ms == 20_000


def test_a_wait_is_the_queue_s_when_the_request_names_none(lab: MotoLab):
    url = queue(lab, ReceiveMessageWaitTimeSeconds="7")
    before_ms = lab.clock.now_ms()
    assert bodies(lab, url) == []
    assert lab.clock.now_ms() - before_ms == 7_000
    assert bodies(lab, url, WaitTimeSeconds=0) == []
    assert lab.clock.now_ms() - before_ms == 7_000


def test_a_wait_ends_when_a_message_becomes_ready_by_time(lab: MotoLab):
    url = queue(lab)
    send(lab, url, "later", DelaySeconds=3)
    before_ms = lab.clock.now_ms()
    assert bodies(lab, url, WaitTimeSeconds=20) == ["later"]
    assert lab.clock.now_ms() - before_ms < 4_000


def test_the_query_protocol_waits_too(lab: MotoLab):
    url = queue(lab)
    before_ms = lab.clock.now_ms()
    body = f"Action=ReceiveMessage&Version=2012-11-05&WaitTimeSeconds=5&QueueUrl={url}".encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = lab.handle(HttpRequest("POST", "/000000000000/q", "", headers, body))
    assert (response.status, b"ReceiptHandle" in bytes(response.body)) == (200, False)
    assert lab.clock.now_ms() - before_ms == 5_000


def test_a_message_wakes_who_waits_and_others_are_served_meanwhile(tmp_path_factory: Any):
    with MotoLab(tmp_path_factory.mktemp("wait"), clock=SystemClock()) as lab:
        url, found = queue(lab), list[list[str]]()
        waiting = threading.Thread(
            target=lambda: found.append(bodies(lab, url, WaitTimeSeconds=20)), daemon=True
        )
        waiting.start()
        topic = lab.client("sns").create_topic(Name="t")["TopicArn"]
        lab.client("sns").subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:000000000000:q",
            Attributes={"RawMessageDelivery": "true"},
        )  # fmt: skip
        # Not by a request of SQS: the wait must see it all the same.
        lab.client("sns").publish(TopicArn=topic, Message="hello")
        waiting.join(15)
        assert found == [["hello"]]
        wait_until(lambda: not waiting.is_alive())


def refusal(call: Any, **params: Any) -> list[str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error = caught.value.response["Error"]
    return [error["Code"], error["Message"]]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ContentBasedDeduplication", "Unknown Attribute ContentBasedDeduplication."),
        ("DeduplicationScope", "You can specify the DeduplicationScope only when FifoQueue is set to true."),
        ("FifoThroughputLimit", "You can specify the FifoThroughputLimit only when FifoQueue is set to true."),
    ],
)  # fmt: skip
def test_a_standard_queue_has_none_of_a_fifo_queue_s_attributes(
    lab: MotoLab, name: str, sentence: str
):
    """Reported by users of AWS, such as cloudfoundry's csb-brokerpak-aws."""
    url, sqs = queue(lab, "plain"), lab.client("sqs")
    expected = ["InvalidAttributeName", sentence]
    given = {name: "true"}
    assert refusal(sqs.set_queue_attributes, QueueUrl=url, Attributes=given) == expected
    assert refusal(sqs.create_queue, QueueName="other", Attributes=given) == expected


def test_a_dead_letter_queue_says_whose_it_is(lab: MotoLab):
    sqs = lab.client("sqs")
    arns = {
        name: f"arn:aws:sqs:us-east-1:000000000000:{name}" for name in ("dead", "mine", "theirs")
    }
    dead = queue(lab, "dead")

    def allow(**policy: Any) -> None:
        given = {"RedriveAllowPolicy": json.dumps(policy) if policy else ""}
        sqs.set_queue_attributes(QueueUrl=dead, Attributes=given)

    def shown() -> str | None:
        found = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])
        return found["Attributes"].get("RedriveAllowPolicy")

    redrive = {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arns["dead"], "maxReceiveCount": 2})
    }
    mine = queue(lab, "mine")
    allow(redrivePermission="byQueue", sourceQueueArns=[arns["mine"]])
    lab.restart()
    assert json.loads(shown() or "")["redrivePermission"] == "byQueue"
    sqs.set_queue_attributes(QueueUrl=mine, Attributes=redrive)
    code, _ = refusal(sqs.create_queue, QueueName="theirs", Attributes=redrive)
    assert code == "InvalidParameterValue"
    allow(redrivePermission="denyAll")
    code, message = refusal(sqs.set_queue_attributes, QueueUrl=mine, Attributes=redrive)
    assert (code, arns["mine"] in message) == ("InvalidParameterValue", True)
    allow()
    assert shown() is None
    queue(lab, "theirs", **redrive)


@pytest.mark.parametrize(
    "policy",
    [
        "[]",
        "no",
        "{}",
        '{"redrivePermission": "some"}',
        '{"redrivePermission": "byQueue"}',
        '{"redrivePermission": "denyAll", "sourceQueueArns": ["a"]}',
    ],
)
def test_a_redrive_allow_policy_of_another_form_is_refused(lab: MotoLab, policy: str):
    given = {"QueueUrl": queue(lab, "dead"), "Attributes": {"RedriveAllowPolicy": policy}}
    assert refusal(lab.client("sqs").set_queue_attributes, **given) == [
        "InvalidAttributeValue",
        "Invalid value for the parameter RedriveAllowPolicy.",
    ]


def test_a_look_tells_whether_there_is_a_message(lab: MotoLab):
    url = queue(lab, VisibilityTimeout="30")

    def is_empty() -> bool:
        return lab.moto.memory.queue_is_empty("000000000000", "us-east-1", "q")

    assert is_empty()
    send(lab, url, "later", DelaySeconds=5)
    assert is_empty()
    lab.clock.advance(6)
    assert not is_empty()
    assert bodies(lab, url) == ["later"]
    assert is_empty()
    lab.restart()
    assert is_empty()  # nothing is said before moto is loaded
    lab.moto.warm_up()
    lab.clock.advance(31)
    assert not is_empty()
    with pytest.raises(LookupError):
        lab.moto.memory.queue_is_empty("000000000000", "us-east-1", "none")


# --- the store by itself --------------------------------------------------------------------------


class _Message:
    """What the store needs of moto's."""

    def __init__(self, body: str) -> None:
        self.body = body
        self.visible_at = self.delayed_until = 0.0
        self.approximate_receive_count = 0
        self.approximate_first_receive_timestamp = None
        self.sent_timestamp = 0
        self.receipt_handle = self.received_ms = None


def test_a_store_keeps_nothing_of_what_was_deleted():
    store = Messages()
    for round_ in range(20):
        for n in range(500):
            store.add(_Message(f"{round_}-{n}"), 0.0)
        while taken := store.receive(10, 0.0, 43_200, lambda _: False):
            for message in taken:
                number = store.number_of(message.receipt_handle)
                assert number is not None
                store.remove(number)
    CHANGES.take()
    assert not store.messages
    assert not store.counts.total()
    # Times of visibility that are out of date are swept.
    assert len(store._later) < 5_000
    assert not store._ready


def test_a_measure_counts_a_message_once():
    store = Messages()
    for name in ("a", "b", "c"):
        store.add(_Message(name), 0.0)
    first, second = store.receive(2, 0.0, 30, lambda _: False)
    numbers = [store.number_of(message.receipt_handle) or 0 for message in (first, second)]
    # The same end twice, and another one for the second message.
    store.change_visibility(numbers[0], 0.0, 30)
    store.change_visibility(numbers[1], 0.0, 60)
    measures = [store.measure(now_ms)[:3] for now_ms in (0.0, 30_000.0, 60_000.0)]
    assert measures == [(1, 2, 0), (2, 1, 0), (3, 0, 0)]
    CHANGES.take()
