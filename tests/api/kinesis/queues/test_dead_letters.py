"""Records that were received too often become dead letters."""

from __future__ import annotations

from typing import Any

from tests.api.kinesis.queues.lab import QueueLab, entries


class TestDeadLetters:
    def receive_often(self, lab: QueueLab, queue: str, times: int) -> None:
        for _ in range(times):
            assert len(lab.receive(queue, VisibilityTimeoutSeconds=0)) == 1

    def test_a_record_that_is_never_acknowledged_becomes_one(self, lab: QueueLab):
        queue = lab.dead_letters_after(2)
        lab.put("a")
        assert lab.receive(queue, dead=True) == []
        self.receive_often(lab, queue, 2)
        assert lab.receive(queue) == []
        (dead,) = lab.receive(queue, dead=True)
        assert (dead["Data"], dead["ReceiveCount"]) == (b"a", 3)

    def test_it_is_in_flight_for_the_receiver_until_its_time(self, lab: QueueLab, kinesis: Any):
        queue = lab.dead_letters_after(1)
        lab.put("a")
        self.receive_often(lab, queue, 1)
        dead = lab.receive(queue, dead=True)
        assert lab.receive(queue, dead=True) == []
        changed = entries(dead, VisibilityTimeoutSeconds=0)
        answer = kinesis.update_dead_letter_queue_records_visibility(
            QueueARN=queue, Entries=changed
        )
        assert answer["Failed"] == []
        assert len(lab.receive(queue, dead=True)) == 1

    def test_it_can_be_discarded(self, lab: QueueLab):
        queue = lab.dead_letters_after(1)
        lab.put("a")
        self.receive_often(lab, queue, 1)
        dead = lab.receive(queue, dead=True)
        (failed,) = lab.acknowledge(queue, dead)
        assert failed["ErrorCode"] == "ResourceNotFoundException"
        assert lab.acknowledge(queue, dead, dead=True) == []
        lab.clock.advance(100)
        assert (lab.receive(queue), lab.receive(queue, dead=True)) == ([], [])

    def test_it_can_be_restored_and_counts_from_the_start(self, lab: QueueLab, kinesis: Any):
        queue = lab.dead_letters_after(2)
        lab.put("a")
        self.receive_often(lab, queue, 2)
        dead = lab.receive(queue, dead=True)
        answer = kinesis.restore_dead_letter_queue_records(QueueARN=queue, Entries=entries(dead))
        assert answer["Successful"] == entries(dead)
        (record,) = lab.receive(queue, VisibilityTimeoutSeconds=0)
        assert record["ReceiveCount"] == 1
        self.receive_often(lab, queue, 1)
        assert lab.receive(queue) == []
        assert len(lab.receive(queue, dead=True)) == 1
        again = kinesis.restore_dead_letter_queue_records(QueueARN=queue, Entries=entries(dead))
        assert again["Failed"][0]["ErrorCode"] == "InvalidArgumentException"

    def test_a_record_that_is_no_dead_letter_cannot_be_restored(self, lab: QueueLab, kinesis: Any):
        queue = lab.queue()
        lab.put("a")
        records = lab.receive(queue)
        answer = kinesis.restore_dead_letter_queue_records(QueueARN=queue, Entries=entries(records))
        assert answer["Failed"][0]["ErrorCode"] == "ResourceNotFoundException"

    def test_none_without_dead_letter_handling(self, lab: QueueLab):
        queue = lab.queue(QueueAttributes={"DeadLetterConfiguration": {"TargetType": "NONE"}})
        lab.put("a")
        self.receive_often(lab, queue, 20)

    def test_a_lower_limit_takes_effect_at_once(self, lab: QueueLab, kinesis: Any):
        queue = lab.dead_letters_after(9)
        lab.put("a")
        self.receive_often(lab, queue, 3)
        limit = {"TargetType": "BUILT_IN", "MaxReceiveCount": 2}
        kinesis.update_queue(QueueARN=queue, QueueAttributes={"DeadLetterConfiguration": limit})
        assert lab.receive(queue) == []
        assert len(lab.receive(queue, dead=True)) == 1
