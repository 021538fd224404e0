"""`headrace.client.QueueConsumer` on queues of a cloud in process."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.client import GroupError, Poison, Processor, QueueConsumer, run
from headrace.client.records import Batch, Record
from tests.api.kinesis.queues.lab import QueueLab
from tests.support.server import wait_until


def texts(batch: Batch | None) -> list[str]:
    assert batch is not None
    return sorted(record.data.decode() for record in batch)


def consumer_of(lab: QueueLab, queue: str = "jobs", **options: Any) -> QueueConsumer:
    return QueueConsumer(queue, client=lab.kinesis, **options)


def is_empty(lab: QueueLab, consumer: QueueConsumer, queue: str) -> bool:
    """Whether a receive finds nothing; it ends when the cloud's clock moves on."""
    batches: list[Batch | None] = []
    thread = threading.Thread(target=lambda: batches.append(consumer.next_batch(0)))
    thread.start()
    while thread.is_alive():
        thread.join(0.01)
        opened = lab.cloud.cloud.kinesis.queues.by_arn(queue)
        if opened is not None and opened.waiting:
            lab.clock.advance(1)
            thread.join(10)
    return batches == [None]


def test_what_was_processed_is_acknowledged_when_the_next_is_asked_for(lab: QueueLab) -> None:
    arn = lab.queue(start={"Type": "TRIM_HORIZON"})
    lab.put(*[f"r{i}" for i in range(25)])
    seen: list[str] = []
    with consumer_of(lab) as consumer:
        for batch in consumer:
            seen += [record.data.decode() for record in batch]
            if len(seen) == 25:
                # What the loop has not come back for is not acknowledged.
                consumer.finish(batch)
                break
    assert sorted(seen) == sorted(f"r{i}" for i in range(25))
    lab.clock.advance(3600)
    assert lab.receive(arn) == []


def test_records_have_their_keys_and_times(lab: QueueLab) -> None:
    lab.queue(start={"Type": "TRIM_HORIZON"})
    lab.put("a")
    with consumer_of(lab, lab.kinesis.list_queues()["QueueSummaries"][0]["QueueARN"]) as consumer:
        batch = consumer.next_batch(0)
    assert batch is not None
    (record,) = batch.records
    assert (record.data, record.key) == (b"a", "a")
    assert record.arrival_s == pytest.approx(lab.clock.now_ms() / 1000, abs=5)


def test_what_is_given_back_comes_again_at_once(lab: QueueLab) -> None:
    queue = lab.queue(start={"Type": "TRIM_HORIZON"})
    lab.put("a", "b")
    with consumer_of(lab) as consumer:
        first = consumer.next_batch(0)
        assert texts(first) == ["a", "b"]
        assert is_empty(lab, consumer, queue)
        consumer.finish(first, is_processed=False)  # type: ignore[arg-type]
        assert texts(consumer.next_batch(0)) == ["a", "b"]


def test_a_crash_hides_records_for_the_visibility_time_alone(lab: QueueLab) -> None:
    queue = lab.queue(start={"Type": "TRIM_HORIZON"})
    lab.put("a")
    with consumer_of(lab, visibility_s=30) as crashed:
        crashed.next_batch(0)
    with consumer_of(lab) as other:
        assert is_empty(lab, other, queue)
        lab.clock.advance(31)
        assert texts(other.next_batch(0)) == ["a"]


class Orders(Processor):
    def __init__(self, consumer: QueueConsumer, count: int) -> None:
        self._consumer, self._left = consumer, count
        self.seen: list[str] = []

    def process(self, batch: Batch) -> None:
        if any(record.data == b"bad" for record in batch):
            raise ValueError("bad")
        self.seen += [record.data.decode() for record in batch]
        if len(self.seen) == self._left:
            self._consumer.close()


def test_run_takes_a_queue_and_skips_a_poisoned_record(lab: QueueLab) -> None:
    arn = lab.queue(start={"Type": "TRIM_HORIZON"})
    lab.put("a", "bad", "c")
    skipped: list[Record] = []
    consumer = consumer_of(lab)
    orders = Orders(consumer, 2)
    poison = Poison(retries=0, then="skip", on_skip=lambda record, _: skipped.append(record))
    run(consumer, orders, poison=poison)
    assert sorted(orders.seen) == ["a", "c"]
    assert [record.data for record in skipped] == [b"bad"]
    lab.clock.advance(3600)
    assert lab.receive(arn) == []


class Client:
    """A client whose calls fail or are noted."""

    def __init__(self, *codes: str) -> None:
        self.codes, self.calls = list(codes), list[str]()

    def _answer(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(name)
        if self.codes:
            raise ClientError({"Error": {"Code": self.codes.pop(0), "Message": "no"}}, name)
        return answer

    def receive_queue_records(self, **_: Any) -> dict[str, Any]:
        return self._answer("receive", {"QueueRecords": []})


class Jumps:
    """A clock whose waits end at once."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        self._now_s += 0.1
        return self._now_s

    def wait(self, condition: Any, timeout_s: float | None) -> bool:
        condition.wait(0.001)
        return False


def test_what_passes_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    client = Client("ProvisionedThroughputExceededException", "ExpiredTokenException")
    consumer = QueueConsumer("arn:q", client=client, clock=Jumps())
    with caplog.at_level(logging.WARNING, "headrace.client"), consumer:
        assert consumer.next_batch(2) is None
    assert client.calls.count("receive") >= 3
    assert caplog.text.count("is asked again in a moment") == 2


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "AccessDeniedException"])
def test_what_does_not_pass_is_an_error_of_the_loop(code: str) -> None:
    consumer = QueueConsumer("arn:q", client=Client(code), clock=Jumps())
    with consumer, pytest.raises(GroupError, match=f"the queue arn:q cannot be used.*{code}"):
        consumer.next_batch(2)


def test_a_queue_that_is_missing_is_an_error(lab: QueueLab) -> None:
    with consumer_of(lab, "none") as consumer, pytest.raises(GroupError, match="no queue none"):
        consumer.next_batch(0)


def test_an_old_botocore_is_an_error() -> None:
    with pytest.raises(GroupError, match="does not know queues"):
        QueueConsumer("arn:q", client=object()).next_batch(0)


def test_a_batch_in_process_stays_hidden() -> None:
    class Renewing(Client):
        def receive_queue_records(self, **_: Any) -> dict[str, Any]:
            row = {"Data": b"a", "RecordId": "1", "ReceiptHandle": "h"}
            return {"QueueRecords": [{**row, "ApproximateArrivalTimestamp": datetime.now(UTC)}]}

        def update_queue_records_visibility(self, *, QueueARN: str, Entries: list[Any]) -> Any:
            self.calls += [f"{e['ReceiptHandle']} {e['VisibilityTimeoutSeconds']}" for e in Entries]
            return {"Successful": [], "Failed": []}

    client = Renewing()
    with QueueConsumer("arn:q", client=client, clock=Jumps(), visibility_s=30) as consumer:
        assert consumer.next_batch() is not None
        wait_until(lambda: client.calls.count("h 30") >= 2)
