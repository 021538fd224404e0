"""A queue against a simple model: whatever is put, received, acknowledged, split, merged, expired or restarted.

The model knows each record's state. A receive may return any record that the model has as visible, and returns fewer
than asked only when there are no more; so nothing is lost, and nothing stays invisible for ever.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule

from headrace.services.kinesis.queues.deliveries import Deliveries, WrongRecord
from headrace.services.kinesis.queues.state import Queue, Received
from headrace.services.kinesis.queues.store import QueueStore
from headrace.services.kinesis.resharding import reshard
from headrace.store import sequence
from headrace.store.database import Database
from tests.api.kinesis.streams import arn_of
from tests.support.clock import HandClock
from tests.support.cloud import InProcessCloud

MAX_RECEIVES = 2
Place = tuple[int, int]


@dataclass
class ModelRecord:
    """A record as the model has it: `state` is new, flight, visible, dead, dead flight or gone."""

    state: str = "new"
    receives: int = 0
    visible_ms: int = 0
    receipt: int = 0


class QueueMachine(RuleBasedStateMachine):
    """The rules."""

    cloud: InProcessCloud
    clock: HandClock
    store: QueueStore
    made = 0

    receipts = Bundle("receipts")

    @initialize()
    def create(self) -> None:
        kind = type(self)
        kind.made += 1
        self.name = f"s{kind.made}"
        self.client = self.cloud.client("kinesis")
        self.client.create_stream(
            StreamName=self.name, StreamModeDetails={"StreamMode": "ON_DEMAND"}
        )
        self.backend = self.cloud.cloud.kinesis
        stream = self.backend.registry.find_arn(arn_of(self.name))
        assert stream is not None
        self.stream = stream
        # Without the cloud's own worker, so that only the rules do something.
        self.queue = Queue(
            name=self.name,
            account=stream.account,
            region=stream.region,
            queue_id=self.name,
            number=self.store.free_number(),
            stream_id=stream.stream_id,
            created_ms=0,
            start_type="TRIM_HORIZON",
            start_ms=None,
            effective_ms=0,
        )
        self.store.add(self.queue, {})
        self.deliveries = Deliveries(stream, {}, max_receives=MAX_RECEIVES)
        self.records: dict[Place, ModelRecord] = {}

    # --- the stream ---------------------------------------------------------------------------

    @rule(count=st.integers(1, 25), key=st.integers(0, 3))
    def put(self, count: int, key: int) -> None:
        records = [{"Data": b"x", "PartitionKey": f"{key}-{n % 5}"} for n in range(count)]
        answer = self.client.put_records(StreamName=self.name, Records=records)
        for one in answer["Records"]:
            number = sequence.parse(one["SequenceNumber"])
            self.records[number.base.shard_number, number.index] = ModelRecord()

    @rule(which=st.integers(0, 7))
    def split(self, which: int) -> None:
        shards = self.stream.open_shards
        shard = shards[which % len(shards)]
        if len(shards) > 12 or shard.ending_hash_key - shard.starting_hash_key < 4:
            return
        middle = (shard.starting_hash_key + shard.ending_hash_key) // 2
        halves = [(shard.starting_hash_key, middle), (middle + 1, shard.ending_hash_key)]
        with self.backend.lock:
            reshard(self.backend, self.stream, [([shard], halves)], self.clock.now_ms())

    @rule(which=st.integers(0, 7))
    def merge(self, which: int) -> None:
        shards = self.stream.open_shards
        if len(shards) < 2:
            return
        at = which % (len(shards) - 1)
        both = shards[at : at + 2]
        whole = [(both[0].starting_hash_key, both[1].ending_hash_key)]
        with self.backend.lock:
            reshard(self.backend, self.stream, [(both, whole)], self.clock.now_ms())

    @rule()
    def expire(self) -> None:
        """Let retention delete the oldest shard's records."""
        shard = self.stream.shards[0]
        assert shard.log is not None
        shard.log.trim(self.clock.now_ms() + 1)
        for (number, index), record in self.records.items():
            if number == shard.number and index < shard.log.first_index:
                record.state = "gone"

    @rule()
    def forget_closed_shards(self) -> None:
        """Let retention remove closed shards that are empty."""
        for shard in list(self.stream.shards):
            log = shard.log
            assert log is not None
            if shard.closed_ms is not None and log.first_index == log.next_index:
                self.stream.shards = [one for one in self.stream.shards if one is not shard]

    # --- the queue ----------------------------------------------------------------------------

    @rule(
        target=receipts,
        limit=st.integers(1, 10),
        visibility_s=st.sampled_from([0, 0, 5, 30]),
        dead=st.booleans(),
    )
    def receive(self, limit: int, visibility_s: int, *, dead: bool) -> Any:
        self.pass_time()
        now_ms = self.clock.now_ms()
        received = self.deliveries.receive(limit, visibility_s * 1000, now_ms, dead=dead)
        for one in received:
            self.note(one, now_ms + visibility_s * 1000, dead=dead)
        if len(received) < limit:
            states = ("dead",) if dead else ("new", "visible")
            left = [p for p, r in self.records.items() if r.state in states]
            assert not left, f"not received: {left}"
        return multiple(*received)

    def note(self, one: Received, visible_ms: int, *, dead: bool) -> None:
        record = self.records[one.shard_number, one.index]
        assert record.state in (("dead",) if dead else ("new", "visible"))
        record.receives += 1
        assert one.receives == record.receives
        record.state = "dead flight" if dead else "flight"
        record.visible_ms, record.receipt = visible_ms, one.receipt

    @rule(one=consumes(receipts), dead=st.booleans())
    def acknowledge(self, one: Received, *, dead: bool) -> None:
        self.pass_time()
        place = (one.shard_number, one.index)
        done = self.attempt(self.deliveries.acknowledge, place, one.receipt, dead=dead)
        record = self.records[place]
        assert done == (self.is_valid(record, one, dead=dead)), record
        if done:
            record.state = "gone"

    @rule(one=receipts, visibility_s=st.sampled_from([0, 3, 60]), dead=st.booleans())
    def change_visibility(self, one: Received, visibility_s: int, *, dead: bool) -> None:
        self.pass_time()
        place, record = (one.shard_number, one.index), self.records[one.shard_number, one.index]
        in_flight = record.state in ("flight", "dead flight")
        expected = self.is_valid(record, one, dead=dead) and in_flight
        done = self.attempt(
            self.deliveries.change_visibility, place, one.receipt, visibility_s * 1000, dead=dead
        )
        assert done == expected, record
        if done:
            record.visible_ms = self.clock.now_ms() + visibility_s * 1000

    @rule(one=receipts)
    def restore(self, one: Received) -> None:
        self.pass_time()
        place, record = (one.shard_number, one.index), self.records[one.shard_number, one.index]
        done = self.attempt(self.deliveries.restore, place, one.receipt)
        assert done == self.is_valid(record, one, dead=True), record
        if done:
            record.state, record.receives, record.receipt = "visible", 0, 0

    def attempt(self, call: Any, *arguments: Any, **more: Any) -> bool:
        try:
            call(*arguments, self.clock.now_ms(), **more)
        except WrongRecord:
            return False
        return True

    @staticmethod
    def is_valid(record: ModelRecord, one: Received, *, dead: bool) -> bool:
        states = ("dead", "dead flight") if dead else ("flight", "visible")
        return record.state in states and record.receipt == one.receipt

    @rule(seconds=st.sampled_from([0, 1, 4, 31]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    def pass_time(self) -> None:
        """Let the model's records become visible whose time has come; drop those that the queue drops."""
        # A receive of nothing lets the queue see what retention deleted.
        counts = self.deliveries.counts(self.clock.now_ms())
        for record in self.records.values():
            if record.visible_ms > self.clock.now_ms():
                continue
            if record.state == "flight":
                record.state = "dead" if record.receives >= MAX_RECEIVES else "visible"
            elif record.state == "dead flight":
                record.state = "dead"
        states = [record.state for record in self.records.values()]
        assert counts == (
            states.count("new") + states.count("visible"),
            states.count("flight"),
            states.count("dead"),
            states.count("dead flight"),
        )

    @rule()
    def restart(self) -> None:
        """Store what changed, and read it again."""
        self.store.commit([(self.queue.number, self.deliveries.take_changes())])
        stored = self.store.deliveries(self.queue)
        self.deliveries = Deliveries(
            self.stream, stored.positions, stored.entries, max_receives=MAX_RECEIVES
        )

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.clock.advance(100)
        self.pass_time()
        while received := self.deliveries.receive(10, 60_000, self.clock.now_ms()):
            for one in received:
                self.note(one, self.clock.now_ms() + 60_000, dead=False)
        assert not [r for r in self.records.values() if r.state in ("new", "visible")]
        self.client.delete_stream(StreamName=self.name)


def test_a_queue_does_what_the_model_does():
    with tempfile.TemporaryDirectory() as folder:
        QueueMachine.clock = HandClock()
        # The cloud's own clock stands still, so that its workers split and trim nothing of their own accord.
        QueueMachine.cloud = InProcessCloud(Path(folder) / "data", clock=HandClock())
        database = Database(Path(folder) / "queues.db")
        QueueMachine.store = QueueStore(database)
        case = QueueMachine.TestCase
        case.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
        try:
            case("runTest").runTest()
        finally:
            QueueMachine.cloud.stop()
            database.close()
