"""Event invocations: retries, age, destinations, dead letters, and that none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.errors import AwsError
from headrace.services.lambda_ import async_queue
from headrace.services.lambda_.async_events import AsyncEvent, record
from tests.support.lambda_lab import ROLE, LambdaLab, zipped
from tests.support.processes import WHO, is_running
from tests.support.server import ServerProcess, wait_until

ECHO = "def handler(event, context):\n    return event\n"
FAILS = "def handler(event, context):\n    raise ValueError('bad')\n"
ACCOUNT = "arn:aws:{}:us-east-1:000000000000:{}"
QUEUE = ACCOUNT.format("sqs", "results")
TOPIC = ACCOUNT.format("sns", "results")
BUS = ACCOUNT.format("events", "event-bus/results")


def send(lab: LambdaLab, name: str, event: Any, **members: Any) -> str:
    answer = lab.client().invoke(
        FunctionName=name, InvocationType="Event", Payload=json.dumps(event).encode(), **members
    )
    assert answer["StatusCode"] == 202
    return answer["ResponseMetadata"]["RequestId"]


def configure(lab: LambdaLab, name: str, **members: Any) -> dict[str, Any]:
    return lab.client().put_function_event_invoke_config(FunctionName=name, **members)


def queue_is_empty(lab: LambdaLab) -> bool:
    return not lab.database.documents("lambda_async").items()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries follow at once."""
    monkeypatch.setattr(async_queue, "ASYNC_RETRY_DELAYS_SECONDS", (0, 0))


# --- destinations -----------------------------------------------------------------------------


def test_a_success_is_told_as_aws_does(lab: LambdaLab) -> None:
    lab.create("ok", ECHO)
    configure(lab, "ok", DestinationConfig={"OnSuccess": {"Destination": QUEUE}})
    request_id = send(lab, "ok", {"a": 1})
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    document = json.loads(message)
    assert document.pop("timestamp").endswith("Z")
    assert document == {
        "version": "1.0",
        "requestContext": {
            "requestId": request_id,
            "functionArn": ACCOUNT.format("lambda", "function:ok:$LATEST"),
            "condition": "Success",
            "approximateInvokeCount": 1,
        },
        "requestPayload": {"a": 1},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST"},
        "responsePayload": {"a": 1},
    }
    wait_until(lambda: queue_is_empty(lab), what="the empty queue")


@pytest.mark.usefixtures("hasty")
def test_a_failing_event_is_tried_three_times(lab: LambdaLab) -> None:
    lab.create("fails", FAILS)
    configure(lab, "fails", DestinationConfig={"OnFailure": {"Destination": TOPIC}})
    send(lab, "fails", {})
    (message,) = wait_until(lambda: lab.box.messages[TOPIC], what="the message")
    context = json.loads(message)["requestContext"]
    assert (context["condition"], context["approximateInvokeCount"]) == ("RetriesExhausted", 3)
    dropped = [m for m in lab.metrics.metrics if m.name == "AsyncEventsDropped"]
    assert len(dropped) == 1


def test_another_function_takes_the_record(lab: LambdaLab) -> None:
    lab.create("first", ECHO)
    lab.create(
        "second", "def handler(event, context):\n    print('GOT', event['requestPayload'])\n"
    )
    second = ACCOUNT.format("lambda", "function:second")
    configure(lab, "first", DestinationConfig={"OnSuccess": {"Destination": second}})
    send(lab, "first", 7)
    wait_until(lambda: "GOT 7" in lab.logs.messages(), what="the second function")


def test_an_event_bus_is_told_source_type_and_resources(lab: LambdaLab) -> None:
    lab.create("bus", FAILS)
    configure(
        lab, "bus", MaximumRetryAttempts=0, DestinationConfig={"OnFailure": {"Destination": BUS}}
    )
    send(lab, "bus", {})
    (event,) = wait_until(lambda: lab.box.bus_events[BUS], what="the event")
    assert event.source == "lambda"
    assert event.detail_type == "Lambda Function Invocation Result - Failure"
    assert event.resources == (BUS, ACCOUNT.format("lambda", "function:bus:$LATEST"))
    assert json.loads(event.detail)["responsePayload"]["errorMessage"] == "bad"


def test_a_bucket_gets_an_object_by_function_and_day(lab: LambdaLab) -> None:
    lab.create("kept", FAILS)
    lab.box.put_object("bucket", "other", b"")
    configure(
        lab, "kept", MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": "arn:aws:s3:::bucket"}},
    )  # fmt: skip
    send(lab, "kept", {})
    folder = lab.box.buckets()["bucket"] / "aws/lambda/async/kept"
    (file,) = wait_until(lambda: list(folder.glob("*/*/*/*")), what="the object")
    assert json.loads(file.read_text())["requestContext"]["condition"] == "RetriesExhausted"


def test_a_dead_letter_queue_gets_the_event_and_its_error(lab: LambdaLab) -> None:
    lab.create("dead", FAILS, DeadLetterConfig={"TargetArn": QUEUE})
    configure(lab, "dead", MaximumRetryAttempts=0)
    request_id = send(lab, "dead", {"a": 1})
    wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    assert lab.box.messages[QUEUE] == ['{"a": 1}']
    assert lab.box.attributes[QUEUE] == [
        {"RequestID": request_id, "ErrorCode": 200, "ErrorMessage": "bad"}
    ]


def test_a_missing_destination_is_counted_and_the_event_is_over(lab: LambdaLab) -> None:
    lab.create("lost", ECHO)
    lab.box.missing.add(QUEUE)
    configure(lab, "lost", DestinationConfig={"OnSuccess": {"Destination": QUEUE}})
    send(lab, "lost", {})
    wait_until(lambda: queue_is_empty(lab), what="the empty queue")
    assert "DestinationDeliveryFailures" in {m.name for m in lab.metrics.metrics}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("dead_letters", [False, True])
def test_a_busy_destination_is_asked_again_also_after_a_restart(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch, dead_letters: bool
) -> None:
    monkeypatch.setattr(async_queue, "_THROTTLE_FIRST_S", 3_600.0)
    lab.create("f", FAILS, **({"DeadLetterConfig": {"TargetArn": QUEUE}} if dead_letters else {}))
    configure(
        lab, "f", MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": BUS if dead_letters else QUEUE}},
    )  # fmt: skip
    lab.box.refusals[QUEUE].append(AwsError("ThrottlingException", "Rate exceeded"))
    send(lab, "f", {"a": 1})
    events = lab.database.documents("lambda_async")
    wait_until(lambda: any(e["owed"] for _, e in events.items()), what="the refusal")
    assert lab.box.messages[QUEUE] == []
    lab.restart()
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    assert ("requestContext" in json.loads(message)) is not dead_letters
    wait_until(lambda: queue_is_empty(lab), what="the empty queue")
    # The function has run once, and what its bus took is not sent twice.
    assert len([m for m in lab.logs.messages() if m.startswith("END RequestId")]) == 1
    assert len(lab.box.bus_events[BUS]) == int(dead_letters)
    lost = {m.name for m in lab.metrics.metrics}
    assert not lost & {"DestinationDeliveryFailures", "DeadLetterErrors"}


def test_a_destination_that_refuses_for_good_is_asked_once(lab: LambdaLab) -> None:
    lab.create("f", ECHO)
    configure(lab, "f", DestinationConfig={"OnSuccess": {"Destination": QUEUE}})
    lab.box.refusals[QUEUE].append(AwsError("InvalidMessageContents", "too long"))
    send(lab, "f", {})
    wait_until(lambda: queue_is_empty(lab), what="the empty queue")
    assert "DestinationDeliveryFailures" in {m.name for m in lab.metrics.metrics}
    assert lab.box.messages[QUEUE] == []


# --- age and concurrency ----------------------------------------------------------------------


def test_an_event_that_waited_for_too_long_is_not_run(
    lab: LambdaLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.create("old", "def handler(event, context):\n    print('RAN')\n")
    configure(
        lab, "old", MaximumEventAgeInSeconds=60,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )  # fmt: skip
    monkeypatch.setattr(async_queue.AsyncQueue, "_age_limit_ms", lambda *_: -1)
    send(lab, "old", {})
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    document = json.loads(message)
    assert document["requestContext"]["condition"] == "EventAgeExceeded"
    assert document["requestContext"]["approximateInvokeCount"] == 0
    assert "responsePayload" not in document
    assert "RAN" not in lab.logs.messages()


def test_a_retry_that_would_come_too_late_is_given_up(lab: LambdaLab) -> None:
    lab.create("late", FAILS)
    # The first retry would follow after 60 seconds.
    configure(
        lab, "late", MaximumEventAgeInSeconds=60,
        DestinationConfig={"OnFailure": {"Destination": QUEUE}},
    )  # fmt: skip
    send(lab, "late", {})
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    assert json.loads(message)["requestContext"]["condition"] == "EventAgeExceeded"


def test_a_function_that_is_shut_off_gives_events_up_at_once(lab: LambdaLab) -> None:
    lab.create("off", ECHO)
    lab.client().put_function_concurrency(FunctionName="off", ReservedConcurrentExecutions=0)
    configure(lab, "off", DestinationConfig={"OnFailure": {"Destination": QUEUE}})
    send(lab, "off", {})
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    assert json.loads(message)["requestContext"]["condition"] == "ZeroReservedConcurrency"


def test_a_slow_function_does_not_hold_up_others(lab: LambdaLab) -> None:
    lab.create("slow", WAITS, Timeout=60)
    lab.create("quick", "def handler(event, context):\n    print('QUICK')\n")
    place = lab.place / "place"
    place.mkdir()
    for _ in range(100):
        send(lab, "slow", str(place))
    wait_until((place / "started").exists, what="the slow function")
    send(lab, "quick", {})
    wait_until(lambda: "QUICK" in lab.logs.messages(), what="the quick function")
    assert not (place / "done").exists()
    (place / "go").touch()
    wait_until(lambda: queue_is_empty(lab), what="the empty queue")
    ends = [m for m in lab.logs.messages() if m.startswith("END RequestId")]
    assert len(ends) == 101


def test_an_alias_has_a_configuration_of_its_own(lab: LambdaLab) -> None:
    lab.create("f", ECHO)
    client = lab.client()
    client.publish_version(FunctionName="f")
    client.create_alias(FunctionName="f", Name="live", FunctionVersion="1")
    configure(lab, "f", Qualifier="live", DestinationConfig={"OnSuccess": {"Destination": QUEUE}})
    send(lab, "f", 1)
    send(lab, "f", 2, Qualifier="live")
    (message,) = wait_until(lambda: lab.box.messages[QUEUE], what="the message")
    document = json.loads(message)
    assert document["requestPayload"] == 2
    assert document["requestContext"]["functionArn"].endswith(":f:live")
    assert document["responseContext"]["executedVersion"] == "1"


# --- validation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "at least one of error handling or destination setting"),
        ({"DestinationConfig": {"OnSuccess": {"Destination": "arn:aws:s3:::b"}}}, "is invalid"),
        (
            {"DestinationConfig": {"OnFailure": {"Destination": ACCOUNT.format("ec2", "x")}}},
            "is invalid",
        ),
        (
            {"DestinationConfig": {"OnFailure": {"Destination": ACCOUNT.format("lambda", "function:f")}}},
            "as a destination for itself",
        ),
        ({"MaximumRetryAttempts": 3}, "less than or equal to 2"),
        ({"MaximumEventAgeInSeconds": 59}, "greater than or equal to 60"),
    ],
)  # fmt: skip
def test_bad_configurations_are_refused(
    lab: LambdaLab, members: dict[str, Any], message: str
) -> None:
    lab.create("f", ECHO)
    with pytest.raises(ClientError) as caught:
        configure(lab, "f", **members)
    assert message in caught.value.response["Error"]["Message"]
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_record_of_text_that_is_no_json_keeps_the_text() -> None:
    event = AsyncEvent("id", "0" * 12, "us-east-1", "f", None, "eA==", "", 0)
    assert (
        record(event, condition="EventAgeExceeded", result=None, now_ms=0)["requestPayload"] == "x"
    )


# --- it lasts ---------------------------------------------------------------------------------

WAITS = (
    f"{WHO}import pathlib, time\ndef handler(event, context):\n"
    "    place = pathlib.Path(event)\n"
    "    mine = place / context.aws_request_id\n"
    "    mine.write_text(who())\n"
    "    mine.replace(place / 'started')\n"
    "    while not (place / 'go').exists(): time.sleep(0.005)\n"
    "    (place / 'done').touch()\n"
)


@pytest.mark.crash
def test_an_accepted_event_survives_a_kill(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with ServerProcess(tmp_path / "cloud") as server:
        client = server.client("lambda")
        client.create_function(
            FunctionName="waits", Runtime="python3.11", Role=ROLE, Handler="app.handler",
            Timeout=60, Code={"ZipFile": zipped({"app.py": WAITS})},
        )  # fmt: skip
        client.invoke(
            FunctionName="waits", InvocationType="Event", Payload=json.dumps(str(place)).encode()
        )
        wait_until((place / "started").exists, what="the invocation")
        name = (place / "started").read_text()
        server.kill9()
        wait_until(lambda: not is_running(name), what="the function's end")
        (place / "go").touch()
        assert not (place / "done").exists()
        server.start()
        wait_until((place / "done").exists, what="the event after the kill")
