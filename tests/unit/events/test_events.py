"""EventBridge: what reaches a rule's targets, and what becomes of what does not.

Defaults of retries, errors that are not tried again, and the attributes of dead letters: documented ("Event retry
policy and using dead-letter queues" in EventBridge's user guide).
"""

from __future__ import annotations

import gzip
import json
import logging
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import CallerIdentity, NoGuard
from headrace.deliveries.outbox import OUTBOX, Delivery
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import MOTO_LOCK
from tests.support.moto_lab import MotoLab

ARN = "arn:aws:{}:us-east-1:000000000000:{}"
QUEUE = ARN.format("sqs", "q")
STREAM = ARN.format("kinesis", "stream/s")


def rule(lab: MotoLab, *targets: dict[str, Any], name: str = "r", **more: Any) -> str:
    events = lab.client("events")
    made = events.put_rule(Name=name, **{"EventPattern": '{"source":["x"]}', **more})["RuleArn"]
    events.put_targets(Rule=name, Targets=[{"Id": str(n), **t} for n, t in enumerate(targets)])
    return made


def put(lab: MotoLab, *details: Any) -> None:
    answer = lab.client("events").put_events(
        Entries=[
            {"Source": "x", "DetailType": "d", "Detail": json.dumps(detail), "Resources": ["res"]}
            for detail in details
        ]
    )
    assert answer["FailedEntryCount"] == 0
    assert all(entry["EventId"] for entry in answer["Entries"])


def queue(lab: MotoLab, name: str = "q") -> str:
    return lab.client("sqs").create_queue(QueueName=name)["QueueUrl"]


def received(lab: MotoLab, url: str) -> list[dict[str, Any]]:
    answer = lab.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    return answer.get("Messages", [])


def deliver(lab: MotoLab) -> None:
    """Have the outbox tried until nothing is due."""
    lab.moto.warm_up()
    lab.outbox.step()


def test_a_stream_gets_the_event_under_the_key_that_was_asked_for(lab: MotoLab):
    rule(
        lab,
        {"Arn": STREAM, "KinesisParameters": {"PartitionKeyPath": "$.detail.id"}},
        {"Arn": STREAM},
        {"Arn": STREAM, "InputPath": "$.detail"},
        {"Arn": STREAM, "Input": '{"fixed":1}'},
        {
            "Arn": STREAM,
            "InputTransformer": {
                "InputPathsMap": {"i": "$.detail.id"},
                "InputTemplate": '{"is": <i>}',
            },
        },
    )
    put(lab, {"id": 7})
    deliver(lab)
    assert {(service, operation) for service, operation, _ in lab.outside.calls} == {
        ("kinesis", "PutRecord")
    }
    sent = [params for _, _, params in lab.outside.calls]
    whole = json.loads(sent[0]["Data"])
    assert (whole["source"], whole["detail"], whole["resources"]) == ("x", {"id": 7}, ["res"])
    assert whole["time"].endswith("Z")
    assert "ingestion-time" not in whole
    assert sent[0]["PartitionKey"] == "7"
    assert sent[1]["PartitionKey"] == whole["id"]
    assert [json.loads(params["Data"]) for params in sent[2:]] == [
        {"id": 7},
        {"fixed": 1},
        {"is": 7},
    ]
    assert {params["StreamName"] for params in sent} == {"s"}


def test_a_delivery_stream_gets_the_event(lab: MotoLab):
    rule(lab, {"Arn": ARN.format("firehose", "deliverystream/d"), "InputPath": "$.detail"})
    put(lab, {"a": 1})
    deliver(lab)
    ((service, operation, params),) = lab.outside.calls
    assert (service, operation, params["DeliveryStreamName"]) == ("firehose", "PutRecord", "d")
    assert json.loads(params["Record"]["Data"]) == {"a": 1}


def test_moto_s_own_targets_get_the_event_at_once(lab: MotoLab):
    url = queue(lab)
    lab.client("sns").create_topic(Name="t")
    lab.client("sns").subscribe(
        TopicArn=ARN.format("sns", "t"),
        Protocol="sqs",
        Endpoint=QUEUE,
        Attributes={"RawMessageDelivery": "true"},
    )
    lab.client("logs").create_log_group(logGroupName="/aws/events/g")
    rule(
        lab,
        {"Arn": QUEUE, "InputPath": "$.detail"},
        {"Arn": ARN.format("sns", "t"), "InputPath": "$.detail"},
        {"Arn": ARN.format("logs", "log-group:/aws/events/g"), "InputPath": "$.detail"},
        {"Arn": ARN.format("lambda", "function:f"), "InputPath": "$.detail"},
    )
    put(lab, {"n": 1}, {"n": 2})
    assert sorted(m["Body"] for m in received(lab, url)) == [
        '{"n":1}',
        '{"n":1}',
        '{"n":2}',
        '{"n":2}',
    ]
    lines = lab.client("logs").filter_log_events(logGroupName="/aws/events/g")["events"]
    assert [line["message"] for line in lines] == ['{"n":1}', '{"n":2}']
    # A stream for the rule, not one for each event.
    streams = lab.client("logs").describe_log_streams(logGroupName="/aws/events/g")["logStreams"]
    assert len(streams) == 1
    assert [payload for _, payload in lab.invoked] == [b'{"n":1}', b'{"n":2}']


@pytest.mark.parametrize(
    "broken",
    [
        {"Arn": ARN.format("sqs", "nowhere")},
        {"Arn": ARN.format("sns", "nowhere")},
        {"Arn": ARN.format("logs", "log-group:nowhere")},
        {"Arn": ARN.format("ecs", "cluster/c")},
        {"Arn": ARN.format("events", "event-bus/nowhere")},
    ],
)
def test_a_target_that_fails_fails_nobody_else(
    lab: MotoLab, broken: dict[str, Any], caplog: pytest.LogCaptureFixture
):
    url, dead = queue(lab), queue(lab, "dead")
    made = rule(
        lab, {**broken, "DeadLetterConfig": {"Arn": ARN.format("sqs", "dead")}}, {"Arn": QUEUE}
    )
    with caplog.at_level(logging.WARNING):
        put(lab, {"n": 1}, {"n": 2})
    assert [json.loads(m["Body"])["detail"] for m in received(lab, url)] == [{"n": 1}, {"n": 2}]
    letters = received(lab, dead)
    assert [json.loads(m["Body"])["detail"] for m in letters] == [{"n": 1}, {"n": 2}]
    told = {name: each["StringValue"] for name, each in letters[0]["MessageAttributes"].items()}
    assert told["RULE_ARN"] == made
    assert told["TARGET_ARN"] == broken["Arn"]
    assert told["RETRY_ATTEMPTS"] == "0"
    assert told["ERROR_CODE"]
    assert told["ERROR_MESSAGE"]
    # Said once, in words, for the two events.
    said = [
        r
        for r in caplog.records
        if broken["Arn"] in r.getMessage() and r.levelno == logging.WARNING
    ]
    assert len(said) == 1


def test_a_stream_that_throttles_is_tried_again_and_one_that_is_gone_is_not(lab: MotoLab):
    dead = queue(lab, "dead")
    rule(lab, {"Arn": STREAM, "DeadLetterConfig": {"Arn": ARN.format("sqs", "dead")}})
    throttled = AwsError("ProvisionedThroughputExceededException", "Rate exceeded for shard")
    lab.outside.failures = [throttled, throttled]
    put(lab, {"n": 1})
    deliver(lab)
    assert lab.outside.calls == []
    # What waits is there after kill -9, and is then delivered.
    lab.restart()
    deliver(lab)
    lab.clock.advance(10)
    deliver(lab)
    assert len(lab.outside.calls) == 1
    assert received(lab, dead) == []
    lab.outside.failures = [AwsError("ResourceNotFoundException", "Stream s not found")]
    put(lab, {"n": 2})
    deliver(lab)
    (letter,) = received(lab, dead)
    assert json.loads(letter["Body"])["detail"] == {"n": 2}
    assert letter["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "ResourceNotFoundException"
    lab.restart()
    assert lab.database.query("SELECT count(*) FROM fallback_rows WHERE rows_id = 1") == [(0,)]


@pytest.mark.parametrize(
    ("policy", "condition", "retries"),
    [
        ({"MaximumRetryAttempts": 2}, "MaximumRetryAttempts", "2"),
        ({"MaximumRetryAttempts": 0}, "MaximumRetryAttempts", "0"),
        ({"MaximumEventAgeInSeconds": 60}, "MaximumEventAgeInSeconds", None),
    ],
)
def test_retries_end(lab: MotoLab, policy: dict[str, int], condition: str, retries: str | None):
    dead = queue(lab, "dead")
    rule(
        lab,
        {
            "Arn": STREAM,
            "RetryPolicy": policy,
            "DeadLetterConfig": {"Arn": ARN.format("sqs", "dead")},
        },
    )
    lab.outside.failures = [AwsError("ThrottlingException", "Rate exceeded", 400)] * 1000
    put(lab, {"n": 1})
    for _ in range(40):
        deliver(lab)
        lab.clock.advance(5)
    (letter,) = received(lab, dead)
    told = {name: each["StringValue"] for name, each in letter["MessageAttributes"].items()}
    assert told["EXHAUSTED_RETRY_CONDITION"] == condition
    assert retries is None or told["RETRY_ATTEMPTS"] == retries


def test_what_waits_is_bounded(lab: MotoLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.deliveries.outbox.MOST_WAITING", 3)
    dead = queue(lab, "dead")
    dead_letters = {"Arn": ARN.format("sqs", "dead")}
    rule(lab, {"Arn": STREAM, "InputPath": "$.detail.n", "DeadLetterConfig": dead_letters})
    lab.outside.failures = [AwsError("ThrottlingException", "Rate exceeded")] * 5
    put(lab, *({"n": n} for n in range(5)))
    lab.restart()
    lab.outside.failures = []
    deliver(lab)
    assert [call[2]["Data"] for call in lab.outside.calls] == [b"2", b"3", b"4"]
    assert [letter["Body"] for letter in received(lab, dead)] == ["0", "1"]


def test_a_disabled_rule_and_one_with_a_schedule_only_get_nothing(lab: MotoLab):
    url = queue(lab)
    rule(lab, {"Arn": QUEUE}, name="off", State="DISABLED")
    lab.client("events").put_rule(Name="timed", ScheduleExpression="rate(1 day)")
    lab.client("events").put_targets(Rule="timed", Targets=[{"Id": "1", "Arn": QUEUE}])
    put(lab, {})
    assert received(lab, url) == []


def test_buses_that_have_each_other_for_targets_come_to_an_end(lab: MotoLab):
    url = queue(lab)
    rule(lab, {"Arn": ARN.format("events", "event-bus/default")}, {"Arn": QUEUE})
    put(lab, {})
    assert 1 <= len(received(lab, url)) <= 10


def test_an_archive_keeps_events_within_its_retention(lab: MotoLab):
    events = lab.client("events")
    events.create_archive(
        ArchiveName="a", EventSourceArn=ARN.format("events", "event-bus/default"), RetentionDays=2
    )
    put(lab, {"n": 1})
    lab.restart()
    assert events.describe_archive(ArchiveName="a")["EventCount"] == 1
    put(lab, {"n": 2}, {"n": 3})
    lab.restart()
    assert events.describe_archive(ArchiveName="a")["EventCount"] == 3
    lab.clock.advance(3 * 86_400)
    put(lab, {"n": 4})
    assert events.describe_archive(ArchiveName="a")["EventCount"] == 1


def test_a_log_subscription_reaches_a_stream(lab: MotoLab):
    logs = lab.client("logs")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    logs.put_subscription_filter(
        logGroupName="g", filterName="f", filterPattern="ERROR", destinationArn=STREAM, roleArn="r"
    )
    now_ms = lab.clock.now_ms()
    logs.put_log_events(
        logGroupName="g",
        logStreamName="s",
        logEvents=[{"timestamp": now_ms, "message": m} for m in ("fine", "an ERROR")],
    )
    deliver(lab)
    ((_, _, params),) = lab.outside.calls
    told = json.loads(gzip.decompress(params["Data"]))
    assert (told["logGroup"], told["logStream"], told["messageType"]) == ("g", "s", "DATA_MESSAGE")
    assert [event["message"] for event in told["logEvents"]] == ["an ERROR"]


class Closed(NoGuard):
    """Lets nobody send to a queue."""

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Any = None
    ) -> str:
        return f"{acting.arn} may not" if action == "sqs:SendMessage" else ""


@pytest.mark.parametrize("why", ["deleted", "small", "closed", "open"])
def test_a_dead_letter_that_its_queue_refuses_is_counted_and_stops_nobody(
    lab: MotoLab, why: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Documented: InvocationsFailedToBeSentToDlq, for permissions, resources and size limits (eb-monitoring.html)."""
    dead, dead_arn = queue(lab, "dead"), ARN.format("sqs", "dead")
    made = rule(lab, {"Arn": STREAM, "DeadLetterConfig": {"Arn": dead_arn}})
    sqs = lab.client("sqs")
    if why == "deleted":
        sqs.delete_queue(QueueUrl=dead)
    if why == "small":
        sqs.set_queue_attributes(QueueUrl=dead, Attributes={"MaximumMessageSize": "1024"})
    if why == "closed":
        monkeypatch.setattr(CURRENT, "guard", Closed())
    lab.outside.failures = [AwsError("ResourceNotFoundException", "Stream s not found")]
    put(lab, {"n": "x" * 2000}, {"n": 2})
    deliver(lab)
    assert len(lab.outside.calls) == 1
    name = "InvocationsSentToDlq" if why == "open" else "InvocationsFailedToBeSentToDlq"
    assert {event: n for (arn, event), n in CURRENT.handled.events().items() if arn == made} == {
        name: 1
    }
    assert ("its dead-letter queue refused it" in caplog.text) is (why != "open")
    lab.restart()
    assert lab.database.query("SELECT count(*) FROM fallback_rows WHERE rows_id = 1") == [(0,)]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_schedules_dead_letter_is_sent_by_its_role(
    lab: MotoLab, is_closed: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    dead = queue(lab, "dead")
    if is_closed:
        monkeypatch.setattr(CURRENT, "guard", Closed())
    delivery = Delivery(
        what="a schedule",
        body=b"{}",
        service="kinesis",
        operation="PutRecord",
        account="000000000000",
        region="us-east-1",
        acting_arn=ARN.format("iam", "role/r"),
        dead_letter_arn=ARN.format("sqs", "dead"),
    )
    lab.outside.failures = [AwsError("ResourceNotFoundException", "Stream s not found")]
    with MOTO_LOCK:
        OUTBOX.add(delivery)
    deliver(lab)
    assert len(received(lab, dead)) == (0 if is_closed else 1)
    assert ("role/r may not" in caplog.text) is is_closed
