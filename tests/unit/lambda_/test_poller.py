"""Pollers over a stream in memory, with a function that fails as hypothesis likes. No threads, no sleeps."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.ids import Ids
from headrace.core.ports import FunctionThrottled, InvokeResult, ReadResult
from headrace.core.workers import Worker, WorkerDone
from headrace.services.lambda_.async_events import Destinations
from headrace.services.lambda_.mappings import store
from headrace.services.lambda_.mappings.checks import InvalidPattern
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.mappings.poller import ShardPoller
from headrace.services.lambda_.mappings.store import MappingStore, Ports, Trace
from headrace.store.database import Database
from tests.support.clock import FakeClock
from tests.support.lambda_lab import QUEUE, Box, Metrics
from tests.support.streams import STREAM_ARN, MemoryStreams

FUNCTION_ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"


class Function:
    """An invoker: succeeds, raises, throttles or answers partially, as its script says."""

    def __init__(self, script: Iterator[str], poison: frozenset[int]) -> None:
        self._script = script
        self._poison = poison
        self.calls: list[list[int]] = []
        self.faults = 0

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        records = json.loads(payload)["Records"]
        places = [int(base64.b64decode(record["kinesis"]["data"])) for record in records]
        action = next(self._script, "ok")
        if action == "throttle":
            self.faults += 1
            raise FunctionThrottled
        self.calls.append(places)
        if action == "raise":
            self.faults += 1
            return InvokeResult(b"{}", "Unhandled", "$LATEST", "id")
        bad = [place for place in places if place in self._poison]
        failures = [
            {"itemIdentifier": record["kinesis"]["sequenceNumber"]}
            for record, place in zip(records, places, strict=True)
            if place in bad
        ]
        answer = json.dumps({"batchItemFailures": failures}).encode()
        return InvokeResult(answer, None, "$LATEST", "id")


class Handle:
    """A `WorkerHandle` of a lane that the test itself steps."""

    def wake(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout_s: float) -> None: ...


class Rig:
    """One shard's poller and all around it; `restart` forgets what is in memory."""

    def __init__(
        self,
        root: Path,
        function: Function,
        *,
        streams: MemoryStreams | None = None,
        **members: Any,
    ) -> None:
        self.clock = FakeClock()
        self.streams = streams or MemoryStreams()
        self.box = Box(root)
        self.function = function
        self.mapping = Mapping(
            uuid="00000000-0000-0000-0000-000000000000",
            account="000000000000",
            region="us-east-1",
            function_arn=FUNCTION_ARN,
            stream_arn=STREAM_ARN,
            starting_position="TRIM_HORIZON",
            starting_timestamp_ms=None,
            enabled=True,
            last_modified_ms=0,
            members={
                "DestinationConfig": {"OnFailure": {"Destination": QUEUE}},
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                **members,
            },
        )
        self.database = Database(root / "state.sqlite")
        self.drained = False
        self.ports = Ports(
            clock=self.clock,
            ids=Ids(),
            streams=self.streams,
            queues=self.box,
            invoker=function,
            destinations=Destinations(self.box, self.box),
            metrics=Metrics(),
            store=MappingStore(self.database),
            trace=Trace(self.database),
            role_of=lambda _: "role",
        )
        self.restart()

    def restart(self) -> None:
        self.lanes: list[Worker] = []
        self.poller = ShardPoller(
            self.mapping,
            "shardId-0",
            self.ports,
            on_drained=self._set_drained,
            spawn=self._spawn,
        )

    def _spawn(self, worker: Worker) -> Any:
        """Take a lane to be stepped by hand, in place of a thread."""
        self.lanes.append(worker)
        return Handle()

    def _set_drained(self) -> None:
        self.drained = True

    def put(self, *places: int) -> None:
        payloads = [str(place).encode() for place in places]
        self.streams.put(*payloads, now_ms=self.clock.now_ms())

    def step(self) -> float:
        delay_s = self.poller.step()
        if math.isfinite(delay_s):
            self.clock.advance(delay_s)
        return delay_s

    def run(self, *, most_steps: int = 100_000) -> None:
        """Step until there is nothing to do."""
        for _ in range(most_steps):
            try:
                if self.step() == math.inf:
                    return
            except WorkerDone:
                return
        raise AssertionError("the poller does not come to rest")

    def given_up(self) -> list[int]:
        infos = [json.loads(body)["KinesisBatchInfo"] for body in self.box.messages[QUEUE]]
        return [
            place
            for info in infos
            for place in range(int(info["startSequenceNumber"]), int(info["endSequenceNumber"]) + 1)
        ]


@contextmanager
def rig(function: Function, **members: Any) -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as root:
        made = Rig(Path(root), function, **members)
        try:
            yield made
        finally:
            made.database.close()


ACTIONS = st.lists(st.sampled_from(["ok", "raise", "throttle", "ok"]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(1, 30),
    poison=st.frozensets(st.integers(1, 30), max_size=4),
    script=ACTIONS,
    batch_size=st.integers(1, 12),
    bisect=st.booleans(),
    restarts=st.lists(st.integers(1, 25), max_size=3),
)
def test_every_record_is_seen_in_order_and_ends(
    count: int,
    poison: frozenset[int],
    script: list[str],
    batch_size: int,
    bisect: bool,
    restarts: list[int],
) -> None:
    """Whatever fails, and whenever the cloud is killed: no gap, order kept, the good are never given up."""
    function = Function(iter(script), poison)
    members = {"BatchSize": batch_size, "BisectBatchOnFunctionError": bisect}
    # Enough retries to outlast the script's faults, so that only poison is given up.
    with rig(function, MaximumRetryAttempts=40, **members) as made:
        made.put(*range(1, count + 1))
        for steps in restarts:
            for _ in range(steps):
                if made.step() == math.inf:
                    break
            made.restart()
        made.run()
        seen: set[int] = set()
        for call in function.calls:
            assert call == list(range(call[0], call[-1] + 1))
            # A call begins at the next new record, or repeats some after a failure or a restart.
            assert call[0] <= max(seen, default=0) + 1
            seen.update(call)
        assert seen == set(range(1, count + 1))
        real_poison = {place for place in poison if place <= count}
        if bisect:
            assert set(made.given_up()) == real_poison
        else:
            assert real_poison <= set(made.given_up())
        if not restarts and not function.faults and not real_poison:
            assert [place for call in function.calls for place in call] == list(range(1, count + 1))


@given(st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_a_closed_shard_is_read_to_its_end_and_marked_done(count: int, batch_size: int) -> None:
    with rig(Function(iter(()), frozenset()), BatchSize=batch_size) as made:
        made.put(*range(1, count + 1))
        made.streams.replace("shardId-0")
        made.run()
        assert made.drained
        assert made.ports.store.load_checkpoint(made.mapping.uuid, "shardId-0").position is None
        assert sum(map(len, made.function.calls)) == count


def test_a_window_waits_and_then_takes_what_there_is() -> None:
    with rig(
        Function(iter(()), frozenset()), BatchSize=10, MaximumBatchingWindowInSeconds=5
    ) as made:
        made.put(1)
        assert made.poller.step() == 5.0
        made.clock.advance(2)
        made.put(2)
        assert made.poller.step() == 3.0
        assert made.function.calls == []
        made.clock.advance(3)
        made.run()
        assert made.function.calls == [[1, 2]]


class LargeRecords(MemoryStreams):
    """A stream of records so large that a read returns two of them."""

    def read(self, *args: Any, max_records: int, max_bytes: int) -> ReadResult:
        following = super().read(*args, max_records=1_000, max_bytes=max_bytes).records
        read = super().read(*args, max_records=min(2, max_records), max_bytes=max_bytes)
        return replace(read, millis_behind_latest=int(len(following) > len(read.records)))


def test_large_records_that_a_filter_drops_do_not_hold_up_those_behind_them() -> None:
    criteria = {"Filters": [{"Pattern": json.dumps({"partitionKey": ["last"]})}]}
    function = Function(iter(()), frozenset())
    with rig(function, streams=LargeRecords(), BatchSize=10, FilterCriteria=criteria) as made:
        made.put(*range(1, 7))
        made.streams.put(b"7", key="last", now_ms=made.clock.now_ms())
        made.run()
        assert function.calls == [[7]]


def test_a_window_does_not_wait_for_records_that_are_there() -> None:
    members = {"BatchSize": 6, "MaximumBatchingWindowInSeconds": 300}
    with rig(Function(iter(()), frozenset()), streams=LargeRecords(), **members) as made:
        made.put(*range(1, 7))
        while not made.function.calls:
            assert made.poller.step() == 0.0
        assert made.function.calls == [[1, 2, 3, 4, 5, 6]]


def test_retries_wait_longer_and_longer_without_blocking() -> None:
    function = Function(iter(["raise"] * 3), frozenset())
    with rig(function, BatchSize=10) as made:
        made.put(1)
        delays: list[float] = []
        for _ in range(8):
            delay_s = made.poller.step()
            if math.isfinite(delay_s) and delay_s > 0:
                delays.append(delay_s)
                made.clock.advance(delay_s)
        assert delays == [0.1, 0.2, 0.4]
        assert function.calls == [[1]] * 4


def test_a_wake_does_not_cut_a_retrys_delay_short() -> None:
    function = Function(iter(["raise"]), frozenset())
    with rig(function, BatchSize=10) as made:
        made.put(1)
        made.poller.step()
        assert made.poller.step() == 0.1
        made.put(2)
        made.clock.advance(0.04)
        assert 0.05 < made.poller.step() < 0.07
        assert function.calls == [[1]]


def test_a_throttle_uses_up_no_retry() -> None:
    function = Function(iter(["throttle"] * 5), frozenset())
    with rig(function, BatchSize=10, MaximumRetryAttempts=0) as made:
        made.put(1)
        made.run()
        assert function.calls == [[1]]
        assert made.given_up() == []


def test_a_failing_destination_is_tried_again_before_going_on() -> None:
    function = Function(iter(()), frozenset({1}))
    with rig(function, BatchSize=1, MaximumRetryAttempts=0) as made:
        made.put(1, 2)
        sends = iter([RuntimeError("down")])
        send = made.box.send

        def flaky(queue_arn: str, body: str) -> str:
            for error in sends:
                raise error
            return send(queue_arn, body)

        made.box.send = flaky  # type: ignore[method-assign]
        made.poller.step()
        try:
            made.poller.step()
            raise AssertionError("the failure was swallowed")
        except RuntimeError:
            assert made.box.messages[QUEUE] == []
        made.run()
        assert made.given_up() == [1]
        assert function.calls[-1] == [2]


def fail_once(made: Rig) -> None:
    """Step until the function has been called once more."""
    calls = len(made.function.calls)
    while len(made.function.calls) == calls:
        made.step()


def test_records_that_expire_are_not_tried_again_and_those_behind_them_are() -> None:
    function = Function(iter(["raise"] * 3), frozenset())
    with rig(function, BatchSize=2) as made:
        made.put(1, 2, 3, 4, 5)
        fail_once(made)
        made.clock.advance(24 * 3600)
        fail_once(made)
        assert function.calls == [[1, 2], [1, 2]]
        # The batch that failed, and what was not read yet behind it.
        made.streams.expire(3)
        made.run()
        assert function.calls[2:] == [[4, 5], [4, 5]]
        assert made.mapping.expired == 3
        assert made.given_up() == []


def test_a_batch_of_which_a_part_expires_goes_on_with_the_rest() -> None:
    function = Function(iter(["raise"]), frozenset())
    with rig(function, BatchSize=3) as made:
        made.put(1, 2, 3)
        fail_once(made)
        made.clock.advance(24 * 3600)
        made.streams.expire(2)
        made.run()
        assert function.calls == [[1, 2, 3], [3]]
        assert made.mapping.expired == 2


def test_a_mapping_that_begins_at_the_trim_horizon_misses_nothing_that_was_gone() -> None:
    function = Function(iter([]), frozenset())
    with rig(function, BatchSize=3) as made:
        made.put(1, 2, 3)
        made.streams.expire(2)
        made.run()
        assert function.calls == [[3]]
        assert made.mapping.expired == 0


def test_the_expired_part_of_a_batch_and_its_rest_each_have_a_node_of_the_tree() -> None:
    function = Function(iter(["raise"]), frozenset())
    with rig(function, BatchSize=3) as made:
        made.put(1, 2, 3)
        fail_once(made)
        made.clock.advance(24 * 3600)
        made.streams.expire(2)
        made.run()
        nodes = made.ports.trace.nodes(made.mapping.uuid)
        whole, gone = sorted(nodes, key=lambda node: node.number)
        assert (int(whole.first), whole.records, whole.disposal) == (3, 1, store.SUCCESS)
        assert (gone.records, gone.disposal) == (2, store.DROPPED)
        assert (gone.parent, gone.part) == (whole.number, "expired part")


def test_new_records_that_are_too_old_have_a_node_of_their_own() -> None:
    function = Function(iter([]), frozenset())
    with rig(function, BatchSize=3, MaximumRecordAgeInSeconds=60) as made:
        made.put(1, 2)
        made.clock.advance(61)
        made.put(3)
        made.run()
        gone, rest = made.ports.trace.nodes(made.mapping.uuid)
        assert (int(gone.first), int(gone.last), gone.disposal) == (1, 2, store.SENT)
        assert (int(rest.first), rest.records, rest.disposal) == (3, 1, store.SUCCESS)
        assert function.calls == [[3]]


def test_a_stored_pattern_that_is_refused_now_stops_its_mapping_alone() -> None:
    function = Function(iter([]), frozenset())
    criteria = {"Filters": [{"Pattern": "{"}]}
    with rig(function, FilterCriteria=criteria) as made:
        made.ports.store.put(made.mapping)
        (loaded,) = made.ports.store.load()
        assert loaded.members["FilterCriteria"] == criteria
        made.put(1)
        with pytest.raises(InvalidPattern):
            made.step()
        assert function.calls == []
