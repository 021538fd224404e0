"""Receiving, acknowledging, visibility, dead letters: what a consumer of a queue sees."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import cbor2
import pytest

from headrace.aws.protocols.codec_json import CBOR_1_1, decode_body
from headrace.services.kinesis.queues.store import QueueStore
from headrace.store.disk_space import DiskFull
from tests.api.kinesis.queues.lab import STREAM, QueueLab, configuration, entries, texts_of
from tests.api.kinesis.streams import failure
from tests.support.clock import HandClock
from tests.support.cloud import InProcessCloud

NOW = datetime.fromtimestamp(1_700_000_000, UTC)


class TestReceiving:
    def test_a_record_as_it_is_delivered(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("late")
        lab.clock.advance(3)
        (record,) = lab.receive(queue)
        assert record.pop("ReceiptHandle")
        number = record.pop("RecordId")
        assert record == {
            "PartitionKey": "late",
            "Data": b"late",
            "ApproximateArrivalTimestamp": NOW,
            "FirstReceiveTimestamp": NOW + timedelta(seconds=3),
            "ReceiveCount": 1,
        }
        assert number.isdigit()
        assert len(number) <= 64

    def test_each_record_is_received_once_however_many_receive(self, lab: QueueLab):
        queue = lab.queue()
        texts = {str(number) for number in range(95)}
        lab.put(*texts)
        found: list[str] = []
        while records := lab.receive(queue):
            assert len(records) <= 10
            found += texts_of(records)
        assert sorted(found) == sorted(texts)

    def test_the_limit_of_a_request(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a", "b", "c")
        assert len(lab.receive(queue, Limit=2)) == 2

    def test_the_record_id_is_the_same_in_every_queue_and_delivery(self, lab: QueueLab):
        queues = [lab.queue(name) for name in ("one", "two")]
        lab.put("a")
        ids = [lab.receive(queue, VisibilityTimeoutSeconds=0)[0]["RecordId"] for queue in queues]
        ids.append(lab.receive(queues[0])[0]["RecordId"])
        assert len(set(ids)) == 1

    def test_a_record_without_a_key(self, lab: QueueLab, kinesis: Any):
        kinesis.update_stream_record_distribution_strategy(
            StreamARN=f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}",
            RecordDistributionStrategy="AUTO",
        )
        queue = lab.queue()
        kinesis.put_record(StreamName=STREAM, Data=b"x")
        (record,) = lab.receive(queue)
        assert record["Data"] == b"x"

    @pytest.mark.parametrize(
        ("position", "expected"),
        [
            ({"Type": "LATEST"}, ["after"]),
            ({"Type": "TRIM_HORIZON"}, ["after", "before", "between"]),
            (
                {"Type": "AT_TIMESTAMP", "Timestamp": NOW + timedelta(seconds=5)},
                ["after", "between"],
            ),
        ],
    )
    def test_where_a_queue_begins(
        self, lab: QueueLab, position: dict[str, Any], expected: list[str]
    ):
        lab.put("before")
        lab.clock.advance(5)
        lab.put("between")
        queue = lab.queue(start=position)
        lab.put("after")
        assert sorted(lab.drain(queue)) == expected

    def test_cbor(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        answer = lab.cloud.json_request(
            "Kinesis_20131202.ReceiveQueueRecords",
            cbor2.dumps({"QueueARN": queue}),
            content_type=CBOR_1_1,
        )
        assert isinstance(answer.body, bytes)
        (record,) = decode_body(answer.body, CBOR_1_1)["QueueRecords"]
        assert (record["Data"], record["ReceiveCount"]) == (b"a", 1)

    def test_a_call_in_process(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        control = lab.cloud.cloud.gateway
        answer = control.call("kinesis", "ReceiveQueueRecords", {"QueueARN": queue})
        (record,) = answer["QueueRecords"]
        answer = control.call(
            "kinesis",
            "AcknowledgeQueueRecords",
            {"QueueARN": queue, "Entries": entries([record])},
        )
        assert len(answer["Successful"]) == 1


class TestWaiting:
    def waiting(self, lab: QueueLab, queue: str, **more: Any) -> tuple[threading.Thread, list[Any]]:
        """Start a receive that waits."""
        received: list[Any] = []
        opened = lab.cloud.cloud.kinesis.queues.by_arn(queue)
        assert opened is not None
        before = len(opened.waiting)

        def receive() -> None:
            answer = lab.kinesis.receive_queue_records(QueueARN=queue, **more)
            received.extend(texts_of(answer["QueueRecords"]))

        thread = threading.Thread(target=receive)
        thread.start()
        while len(opened.waiting) == before:
            thread.join(0.002)
        return thread, received

    def test_it_ends_without_a_record_when_its_time_is_over(self, lab: QueueLab):
        queue = lab.queue()
        thread, received = self.waiting(lab, queue, WaitTimeSeconds=20)
        lab.clock.advance(19)
        thread.join(0.05)
        assert thread.is_alive()
        lab.clock.advance(1)
        thread.join(10)
        assert (thread.is_alive(), received) == (False, [])

    def test_a_put_ends_it(self, lab: QueueLab):
        queue = lab.queue()
        thread, received = self.waiting(lab, queue)
        lab.put("a")
        thread.join(10)
        assert received == ["a"]

    def test_those_who_wait_are_served_in_order(self, lab: QueueLab):
        queue = lab.queue()
        first, received = self.waiting(lab, queue)
        second, none = self.waiting(lab, queue)
        lab.put("a")
        first.join(10)
        assert (received, none) == (["a"], [])
        lab.put("b")
        second.join(10)
        assert none == ["b"]

    def test_a_visibility_timeout_that_ends_ends_it(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        lab.receive(queue, VisibilityTimeoutSeconds=3)
        thread, received = self.waiting(lab, queue)
        lab.clock.advance(3)
        thread.join(10)
        assert received == ["a"]

    def test_a_record_that_is_made_visible_ends_it(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        lab.put("a")
        records = lab.receive(queue)
        thread, received = self.waiting(lab, queue)
        kinesis.update_queue_records_visibility(
            QueueARN=queue, Entries=entries(records, VisibilityTimeoutSeconds=0)
        )
        thread.join(10)
        assert received == ["a"]

    def test_records_of_a_new_shard_end_it(self, lab: QueueLab):
        queue = lab.queue()
        thread, received = self.waiting(lab, queue)
        lab.split()
        lab.put(*"abcdefgh")
        thread.join(10)
        assert received

    def test_a_stop_of_the_cloud_ends_it(self, lab: QueueLab):
        queue = lab.queue()
        thread, received = self.waiting(lab, queue)
        lab.cloud.stop()
        thread.join(10)
        assert (thread.is_alive(), received) == (False, [])

    def test_the_deletion_of_the_queue_ends_it(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        errors: list[str] = []
        opened = lab.cloud.cloud.kinesis.queues.by_arn(queue)
        assert opened is not None
        thread = threading.Thread(
            target=lambda: errors.append(
                failure(kinesis.receive_queue_records, QueueARN=queue).code
            )
        )
        thread.start()
        while not opened.waiting:
            thread.join(0.002)
        kinesis.delete_queue(QueueARN=queue)
        thread.join(10)
        assert errors == ["InvalidArgumentException"]


class TestVisibility:
    def test_a_record_in_flight_is_invisible_for_the_time_of_the_queue(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        (first,) = lab.receive(queue)
        lab.clock.advance(28)
        assert lab.receive(queue) == []
        lab.clock.advance(1)
        (again,) = lab.receive(queue)
        assert again["ReceiveCount"] == 2
        assert again["FirstReceiveTimestamp"] == first["FirstReceiveTimestamp"]
        assert again["ReceiptHandle"] != first["ReceiptHandle"]

    def test_the_time_of_the_request_goes_before_that_of_the_queue(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        lab.receive(queue, VisibilityTimeoutSeconds=100)
        lab.clock.advance(98)
        assert lab.receive(queue) == []
        lab.clock.advance(1)
        assert len(lab.receive(queue)) == 1

    def test_a_clock_that_goes_back_hides_no_record_for_longer(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        lab.receive(queue)
        lab.clock.advance(-600)
        assert lab.receive(queue) == []
        lab.clock.advance(29)
        assert texts_of(lab.receive(queue)) == ["a"]

    def test_nor_does_one_that_goes_back_while_the_cloud_is_stopped(self, data_dir: Path):
        clock = HandClock()
        with InProcessCloud(data_dir, clock=clock) as cloud:
            lab = QueueLab(cloud, clock)
            lab.stream()
            queue = lab.queue()
            lab.put("a")
            lab.receive(queue)
        clock.advance(-600)
        with InProcessCloud(data_dir, clock=clock) as cloud:
            lab = QueueLab(cloud, clock)
            assert lab.receive(queue) == []
            lab.clock.advance(29)
            assert texts_of(lab.receive(queue)) == ["a"]

    def test_no_time_at_all(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a")
        lab.receive(queue, VisibilityTimeoutSeconds=0)
        assert len(lab.receive(queue)) == 1

    def test_it_can_be_extended_and_ended(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        lab.put("a")
        records = lab.receive(queue)
        lab.clock.advance(20)
        changed = {"QueueARN": queue, "Entries": entries(records, VisibilityTimeoutSeconds=60)}
        assert kinesis.update_queue_records_visibility(**changed)["Failed"] == []
        lab.clock.advance(50)
        assert lab.receive(queue) == []
        changed["Entries"] = entries(records, VisibilityTimeoutSeconds=0)
        answer = kinesis.update_queue_records_visibility(**changed)
        assert answer["Successful"] == entries(records)
        assert len(lab.receive(queue)) == 1

    def test_an_update_of_the_queue_leaves_records_in_flight_as_they_are(
        self, lab: QueueLab, kinesis: Any
    ):
        queue = lab.queue()
        lab.put("a")
        lab.receive(queue)
        kinesis.update_queue(QueueARN=queue, QueueAttributes={"VisibilityTimeoutSeconds": 1})
        lab.clock.advance(10)
        assert lab.receive(queue) == []

    def test_new_records_are_not_starved_by_one_that_always_comes_back(self, lab: QueueLab):
        queue = lab.queue(QueueAttributes={"DeadLetterConfiguration": {"TargetType": "NONE"}})
        lab.put("poison")
        seen: set[str] = set()
        for number in range(4):
            seen.update(texts_of(lab.receive(queue, Limit=1, VisibilityTimeoutSeconds=0)))
            lab.put(f"good {number}")
        assert len(seen) >= 2

    def test_no_more_than_120000_records_are_in_flight(
        self, lab: QueueLab, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("headrace.services.kinesis.queues.deliveries.QUEUE_IN_FLIGHT", 3)
        queue = lab.queue()
        lab.put(*"abcde")
        records = lab.receive(queue)
        assert len(records) == 3
        assert lab.receive(queue) == []
        lab.acknowledge(queue, records[:1])
        assert len(lab.receive(queue)) == 1


class TestAcknowledging:
    def test_an_acknowledged_record_never_comes_again(self, lab: QueueLab):
        queue, other = lab.queue(), lab.queue("other")
        lab.put("a", "b")
        assert lab.acknowledge(queue, lab.receive(queue)) == []
        lab.clock.advance(100)
        assert lab.receive(queue) == []
        assert len(lab.receive(other)) == 2

    def test_each_entry_has_its_own_result(self, lab: QueueLab, kinesis: Any):
        queue, other = lab.queue(), lab.queue("other")
        lab.put("a")
        (record,) = lab.receive(queue)
        (foreign,) = lab.receive(other)
        answer = kinesis.acknowledge_queue_records(
            QueueARN=queue,
            Entries=entries([record, foreign, {"ReceiptHandle": "wrong"}, record]),
        )
        assert answer["Successful"] == entries([record])
        assert [(e["ReceiptHandle"], e["ErrorCode"]) for e in answer["Failed"]] == [
            (foreign["ReceiptHandle"], "InvalidArgumentException"),
            ("wrong", "InvalidArgumentException"),
            (record["ReceiptHandle"], "ResourceNotFoundException"),
        ]

    def test_a_handle_is_good_until_the_next_receive(self, lab: QueueLab):
        queue = lab.queue()
        lab.put("a", "b")
        late = lab.receive(queue)
        lab.clock.advance(40)
        assert lab.acknowledge(queue, late[:1]) == []
        (again,) = lab.receive(queue)
        (failed,) = lab.acknowledge(queue, late[1:])
        assert failed["ErrorCode"] == "InvalidArgumentException"
        assert lab.acknowledge(queue, [again]) == []

    def test_the_visibility_of_a_record_that_is_not_in_flight_cannot_change(
        self, lab: QueueLab, kinesis: Any
    ):
        queue = lab.queue()
        lab.put("a")
        late = lab.receive(queue)
        lab.clock.advance(40)
        changed = entries(late, VisibilityTimeoutSeconds=60)
        (failed,) = kinesis.update_queue_records_visibility(QueueARN=queue, Entries=changed)[
            "Failed"
        ]
        assert failed["ErrorCode"] == "InvalidArgumentException"

    def test_handles_of_a_deleted_queue(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        lab.put("a")
        records = lab.receive(queue)
        kinesis.delete_queue(QueueARN=queue)
        again = lab.queue(start={"Type": "TRIM_HORIZON"})
        lab.receive(again)
        (failed,) = lab.acknowledge(again, records)
        assert failed["ErrorCode"] == "InvalidArgumentException"

    @pytest.mark.parametrize(
        ("call", "params"),
        [
            ("receive_queue_records", {"WaitTimeSeconds": 21}),
            ("receive_queue_records", {"WaitTimeSeconds": 0}),
            ("receive_queue_records", {"Limit": 11}),
            ("receive_queue_records", {"VisibilityTimeoutSeconds": 43_201}),
            ("acknowledge_queue_records", {"Entries": entries([{"ReceiptHandle": "x"}] * 11)}),
            ("acknowledge_queue_records", {"Entries": []}),
            ("restore_dead_letter_queue_records", {"Entries": []}),
        ],
    )
    def test_requests_beyond_the_model(
        self, lab: QueueLab, kinesis: Any, call: str, params: dict[str, Any]
    ):
        error = failure(getattr(kinesis, call), QueueARN=lab.queue(), **params)
        assert error.code == "ValidationException"

    def test_an_arn_that_is_none(self, lab: QueueLab, kinesis: Any):
        error = failure(kinesis.receive_queue_records, QueueARN="jobs")
        assert error.code == "ValidationException"


class TestTheStream:
    def test_a_reshard_loses_nothing(self, lab: QueueLab):
        queue = lab.queue()
        texts = [str(number) for number in range(90)]
        lab.put(*texts[:30])
        records = lab.receive(queue)
        lab.split()
        lab.put(*texts[30:60])
        lab.acknowledge(queue, records[:4])
        lab.split()
        lab.put(*texts[60:])
        lab.clock.advance(31)
        assert sorted([*texts_of(records[:4]), *lab.drain(queue)]) == sorted(texts)

    def test_retention_ends_records_acknowledged_or_not(self, lab: QueueLab):
        queue = lab.queue()
        lab.put(*[str(number) for number in range(20)])
        lab.receive(queue, VisibilityTimeoutSeconds=43_200)
        backend = lab.cloud.cloud.kinesis
        lab.clock.advance(26 * 3600)
        for stream in backend.streams.values():
            for shard in stream.shards:
                assert shard.log is not None
                shard.log.trim(lab.clock.now_ms() - 24 * 3_600_000)
        lab.put("fresh")
        assert texts_of(lab.receive(queue)) == ["fresh"]
        opened = backend.queues.by_arn(queue)
        assert opened is not None
        assert opened.deliveries.counts(lab.clock.now_ms()) == (0, 1, 0, 0)

    def test_state_is_kept_over_a_restart(self, data_dir: Path):
        clock = HandClock()
        with InProcessCloud(data_dir, clock=clock) as cloud:
            lab = QueueLab(cloud, clock)
            lab.stream()
            queue = lab.dead_letters_after(2)
            lab.put("dead")
            for _ in range(2):
                lab.receive(queue, VisibilityTimeoutSeconds=0)
            lab.put("done", "busy", "new")
            records = {r["Data"]: r for r in lab.receive(queue)}
            lab.acknowledge(queue, [records[b"done"]])
        with InProcessCloud(data_dir, clock=clock) as cloud:
            lab = QueueLab(cloud, clock)
            assert lab.receive(queue) == []
            assert texts_of(lab.receive(queue, dead=True)) == ["dead"]
            assert lab.acknowledge(queue, [records[b"new"]]) == []
            clock.advance(30)
            (again,) = lab.receive(queue)
            assert (again["Data"], again["ReceiveCount"]) == (b"busy", 2)


class TestFailures:
    def test_what_cannot_be_stored_is_refused_and_stored_later(
        self, lab: QueueLab, kinesis: Any, monkeypatch: pytest.MonkeyPatch
    ):
        queue = lab.queue()
        lab.put("a")
        (record,) = lab.receive(queue)
        with monkeypatch.context() as patch:
            patch.setattr(QueueStore, "commit", _full_disk)
            error = failure(
                kinesis.acknowledge_queue_records, QueueARN=queue, Entries=entries([record])
            )
            assert error.status == 500
        lab.clock.advance(2)
        lab.put("b")
        # The acknowledgement is stored with the next round, at the latest with this one.
        assert texts_of(lab.receive(queue)) == ["b"]
        backend = lab.cloud.cloud.kinesis
        opened = backend.queues.by_arn(queue)
        assert opened is not None
        assert not opened.deliveries.has_changes
        lab.clock.advance(60)
        assert texts_of(lab.receive(queue)) == ["b"]

    def test_a_fault_on_the_stream_concerns_its_queues(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        faults = lab.cloud.cloud.gateway.faults
        for name, code in (("throttle", "ThrottlingException"), ("error", "InternalFailure")):
            faults.add({"fault": name, "service": "kinesis", "stream": STREAM, "count": 1})
            error = failure(kinesis.receive_queue_records, QueueARN=queue)
            assert code in error.code
        lab.stream("other")
        faults.add({"fault": "throttle", "service": "kinesis", "stream": "other", "count": 1})
        lab.put("a")
        assert len(lab.receive(queue)) == 1

    def test_a_stream_that_is_being_deleted_takes_no_queue(self, data_dir: Path, clock: HandClock):
        with InProcessCloud(data_dir / "slow", clock=clock, state_delay_ms=5000) as cloud:
            lab = QueueLab(cloud, clock)
            lab.stream()
            clock.advance(6)
            lab.kinesis.delete_stream(StreamName=STREAM)
            params = {"QueueName": "jobs", "StreamConfigurationList": configuration()}
            error = failure(lab.kinesis.create_queue, **params)
            assert error.code == "ResourceInUseException"


def _full_disk(*_: object) -> None:
    raise DiskFull
