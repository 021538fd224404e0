"""Message move tasks: from a dead-letter queue to its source or elsewhere, at once or by a limit, cancelled, failed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.clock import ShiftedClock
from tests.support.cloud import InProcessCloud

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def sqs(tmp_path: Path, clock: ShiftedClock) -> Iterator[Any]:
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        yield cloud.client("sqs")


def fill_dead_letters(sqs: Any, count: int) -> dict[str, str]:
    """Make the queues `dead`, `source` and `other`; return their URLs. `dead` has messages from `source`."""
    urls = {"dead": sqs.create_queue(QueueName="dead")["QueueUrl"]}
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}dead", "maxReceiveCount": 1})
    attributes = {"RedrivePolicy": policy, "VisibilityTimeout": "0"}
    urls["source"] = sqs.create_queue(QueueName="source", Attributes=attributes)["QueueUrl"]
    urls["other"] = sqs.create_queue(QueueName="other")["QueueUrl"]
    for start in range(0, count, 10):
        numbers = range(start, min(start + 10, count))
        entries = [{"Id": str(number), "MessageBody": str(number)} for number in numbers]
        sqs.send_message_batch(QueueUrl=urls["source"], Entries=entries)
    while sqs.receive_message(QueueUrl=urls["source"], MaxNumberOfMessages=10).get("Messages"):
        pass
    assert count_of(sqs, urls["dead"]) == count
    return urls


def count_of(sqs: Any, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"]
    return int(attributes[name])


def last_task(sqs: Any) -> dict[str, Any]:
    (task,) = sqs.list_message_move_tasks(SourceArn=f"{ARN}dead")["Results"]
    return task


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_messages_go_back_to_their_source_as_new_ones(sqs: Any) -> None:
    urls = fill_dead_letters(sqs, 2)
    (dead,) = sqs.receive_message(
        QueueUrl=urls["dead"], AttributeNames=["All"], VisibilityTimeout=0
    )["Messages"]
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == f"{ARN}source"
    handle = sqs.start_message_move_task(SourceArn=f"{ARN}dead")["TaskHandle"]
    assert json.loads(base64.b64decode(handle))["sourceArn"] == f"{ARN}dead"
    assert (count_of(sqs, urls["dead"]), count_of(sqs, urls["source"])) == (0, 2)
    task = last_task(sqs)
    assert task.pop("StartedTimestamp")
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": f"{ARN}dead",
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    (moved,) = sqs.receive_message(
        QueueUrl=urls["source"], AttributeNames=["All"], VisibilityTimeout=30
    )["Messages"]
    assert moved["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in moved["Attributes"]
    assert moved["MessageId"] != dead["MessageId"]


def test_a_limit_moves_messages_as_time_goes_on_until_it_is_cancelled(
    sqs: Any, clock: ShiftedClock
) -> None:
    urls = fill_dead_letters(sqs, 1000)
    handle = sqs.start_message_move_task(
        SourceArn=f"{ARN}dead", DestinationArn=f"{ARN}other", MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    assert count_of(sqs, urls["other"]) >= 1
    # A long poll waits for what the task moves next.
    got: list[str] = []
    while len(got) < 4:
        answer = sqs.receive_message(QueueUrl=urls["other"], WaitTimeSeconds=20)
        got += [message["Body"] for message in answer["Messages"]]
    assert got[:4] == ["0", "1", "2", "3"]
    running = last_task(sqs)
    assert running["TaskHandle"] == handle
    assert (running["Status"], running["MaxNumberOfMessagesPerSecond"]) == ("RUNNING", 1)
    assert (running["DestinationArn"], running["ApproximateNumberOfMessagesToMove"]) == (
        f"{ARN}other",
        1000,
    )
    assert refusal(sqs.start_message_move_task, SourceArn=f"{ARN}dead") == (
        "InvalidParameterValue",
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    )
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    assert moved >= 4
    clock.advance(60)
    assert last_task(sqs)["Status"] == "CANCELLED"
    assert count_of(sqs, urls["dead"]) == 1000 - moved
    assert refusal(sqs.cancel_message_move_task, TaskHandle=handle)[0] == "InvalidParameterValue"


def test_a_task_fails_when_its_destination_goes_and_the_rest_stays(
    sqs: Any, clock: ShiftedClock
) -> None:
    urls = fill_dead_letters(sqs, 500)
    sqs.start_message_move_task(
        SourceArn=f"{ARN}dead", DestinationArn=f"{ARN}other", MaxNumberOfMessagesPerSecond=1
    )
    sqs.delete_queue(QueueUrl=urls["other"])
    clock.advance(2)
    task = last_task(sqs)
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert count_of(sqs, urls["dead"]) == 500 - task["ApproximateNumberOfMessagesMoved"]
    assert count_of(sqs, urls["dead"]) > 0


def test_a_message_whose_source_nobody_knows_stays(sqs: Any) -> None:
    urls = fill_dead_letters(sqs, 0)
    sqs.send_message(QueueUrl=urls["dead"], MessageBody="sent here")
    sqs.start_message_move_task(SourceArn=f"{ARN}dead")
    assert last_task(sqs)["FailureReason"] == "CouldNotDetermineMessageSource"
    assert count_of(sqs, urls["dead"]) == 1


def test_tasks_that_cannot_be_are_refused(sqs: Any) -> None:
    fill_dead_letters(sqs, 0)
    start, cancel = sqs.start_message_move_task, sqs.cancel_message_move_task
    gone = "The resource that you specified for the {} parameter doesn't exist."
    assert refusal(start, SourceArn=f"{ARN}other") == (
        "InvalidParameterValue",
        "Source queue must be configured as a Dead Letter Queue.",
    )
    assert refusal(start, SourceArn=f"{ARN}no") == (
        "ResourceNotFoundException",
        gone.format("SourceArn"),
    )
    assert refusal(start, SourceArn=f"{ARN}dead", DestinationArn=f"{ARN}no") == (
        "ResourceNotFoundException",
        gone.format("DestinationArn"),
    )
    assert refusal(sqs.list_message_move_tasks, SourceArn=f"{ARN}no")[1] == gone.format("SourceArn")
    invalid = ("InvalidParameterValue", "Value for parameter TaskHandle is invalid.")
    for handle in ("foobared", base64.b64encode(b"[]").decode()):
        assert refusal(cancel, TaskHandle=handle) == invalid

    def handle_of(name: str) -> str:
        return base64.b64encode(
            json.dumps({"taskId": "x", "sourceArn": f"{ARN}{name}"}).encode()
        ).decode()

    assert refusal(cancel, TaskHandle=handle_of("no"))[1] == gone.format("SourceArn")
    assert refusal(cancel, TaskHandle=handle_of("dead")) == (
        "ResourceNotFoundException",
        "Task does not exist.",
    )
    assert refusal(start, SourceArn=f"{ARN}dead", MaxNumberOfMessagesPerSecond=501)[0] == (
        "InvalidParameterValue"
    )


def test_fifo_messages_come_back_in_order_although_their_ids_are_known(sqs: Any) -> None:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    dead = sqs.create_queue(QueueName="dead.fifo", Attributes=fifo)["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}dead.fifo", "maxReceiveCount": 1})
    source = sqs.create_queue(
        QueueName="source.fifo",
        Attributes={**fifo, "RedrivePolicy": policy, "VisibilityTimeout": "0"},
    )["QueueUrl"]
    for body in ("a", "b", "c"):
        sqs.send_message(QueueUrl=source, MessageBody=body, MessageGroupId="g")
    for _ in range(2):
        while sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10).get("Messages"):
            pass
        sqs.start_message_move_task(SourceArn=f"{ARN}dead.fifo")
        assert count_of(sqs, dead) == 0
    answer = sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10, VisibilityTimeout=30)
    assert [message["Body"] for message in answer["Messages"]] == ["a", "b", "c"]


def test_tasks_outlast_a_restart(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        fill_dead_letters(cloud.client("sqs"), 300)
        cloud.client("sqs").start_message_move_task(
            SourceArn=f"{ARN}dead", MaxNumberOfMessagesPerSecond=1
        )
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        sqs = cloud.client("sqs")
        assert last_task(sqs)["Status"] == "RUNNING"
        clock.advance(500)
        assert last_task(sqs)["Status"] == "COMPLETED"
