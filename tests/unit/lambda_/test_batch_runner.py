"""Several lanes of a shard, stepped in any order: order per key, no gap, a lead that a restart keeps."""

from __future__ import annotations

import base64
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.ports import AfterSequence, AtSequence, FunctionThrottled, InvokeResult
from headrace.core.workers import WorkerDone
from headrace.services.lambda_.mappings.store import lane_of
from tests.support.streams import sequence_number
from tests.unit.lambda_.test_poller import Rig, rig


class Keyed:
    """An invoker that keeps what each key saw; fails as its script says."""

    def __init__(self, script: Iterator[str]) -> None:
        self._script = script
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.calls: list[list[int]] = []
        self.faults = 0

    def invoke(self, function_arn: str, payload: bytes) -> InvokeResult:
        records = json.loads(payload)["Records"]
        action = next(self._script, "ok")
        if action == "throttle":
            self.faults += 1
            raise FunctionThrottled
        self.calls.append([int(base64.b64decode(r["kinesis"]["data"])) for r in records])
        for record in records:
            place = int(base64.b64decode(record["kinesis"]["data"]))
            self.seen[record["kinesis"]["partitionKey"]].append(place)
        if action == "raise":
            self.faults += 1
            return InvokeResult(b"{}", "Unhandled", "$LATEST", "id")
        return InvokeResult(b"null", None, "$LATEST", "id")


def put(made: Rig, keys: list[str]) -> None:
    for place, key in enumerate(keys, 1):
        made.streams.put(str(place).encode(), key=key, now_ms=made.clock.now_ms())


def step_all(made: Rig, draw: random.Random, most: int) -> bool:
    """Step the poller and the lanes in a random order; return whether all came to rest."""
    resting = 0
    for _ in range(most):
        workers = [made.poller, *made.lanes]
        draw.shuffle(workers)
        delays: list[float] = []
        for worker in workers:
            try:
                delays.append(worker.step())
            except WorkerDone:
                if worker is made.poller:
                    return True
        if min(delays, default=math.inf) < math.inf:
            resting = 0
            made.clock.advance(min(delays))
            continue
        # Whoever rested first may have been given something by the others since.
        resting += 1
        if resting == 2:
            return True
    return False


def check_orders(function: Keyed, keys: list[str]) -> None:
    for key in set(keys):
        wanted = [place for place, one in enumerate(keys, 1) if one == key]
        newest = 0
        fresh: list[int] = []
        for place in function.seen[key]:
            if place > newest:
                fresh.append(place)
                newest = place
        assert fresh == wanted, key


@settings(max_examples=120, deadline=None)
@given(
    keys=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40),
    lanes=st.integers(1, 10),
    next_lanes=st.integers(1, 10),
    batch_size=st.integers(1, 6),
    script=st.lists(st.sampled_from(["ok", "raise", "throttle"]), max_size=20),
    kills=st.lists(st.integers(1, 6), max_size=3),
    bisect=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_each_key_sees_its_records_in_order_whatever_fails(
    keys: list[str],
    lanes: int,
    next_lanes: int,
    batch_size: int,
    script: list[str],
    kills: list[int],
    bisect: bool,
    seed: int,
) -> None:
    function, draw = Keyed(iter(script)), random.Random(seed)
    members = {"BatchSize": batch_size, "BisectBatchOnFunctionError": bisect}
    with rig(function, ParallelizationFactor=lanes, **members) as made:  # type: ignore[arg-type]
        put(made, keys)
        made.streams.replace("shardId-0")
        for steps in kills:
            step_all(made, draw, steps)
            made.mapping.change(made.mapping.members | {"ParallelizationFactor": next_lanes})
            made.restart()
        assert step_all(made, draw, 5000)
        check_orders(function, keys)
        assert made.drained
        if not function.faults and not kills:
            assert sorted(p for call in function.calls for p in call) == list(
                range(1, len(keys) + 1)
            )


def keys_of_lanes(lanes: int) -> list[str]:
    """Return a key for each lane."""
    found: dict[int, str] = {}
    for number in range(1000):
        found.setdefault(lane_of(f"k{number}", lanes), f"k{number}")
    return [found[lane] for lane in range(lanes)]


def test_a_failing_key_holds_back_the_checkpoint_but_not_the_other_lanes() -> None:
    slow, quick = keys_of_lanes(2)
    function = Keyed(iter(()))
    invoke = function.invoke

    def poisoned(function_arn: str, payload: bytes) -> InvokeResult:
        result = invoke(function_arn, payload)
        key = json.loads(payload)["Records"][0]["kinesis"]["partitionKey"]
        return InvokeResult(b"{}", "Unhandled", "$LATEST", "id") if key == slow else result

    function.invoke = poisoned  # type: ignore[method-assign]
    with rig(function, ParallelizationFactor=2, BatchSize=1) as made:  # type: ignore[arg-type]
        put(made, [slow, quick, quick, quick])
        step_all(made, random.Random(1), 12)
        assert function.seen[quick] == [2, 3, 4]
        assert set(function.seen[slow]) == {1}
        kept = made.ports.store.load_checkpoint(made.mapping.uuid, "shardId-0")
        assert kept.position == AtSequence(sequence_number(1))
        # After a restart the lane that was ahead does not begin again.
        function.seen.clear()
        made.restart()
        step_all(made, random.Random(1), 12)
        assert function.seen[quick] == []
        function.invoke = invoke  # type: ignore[method-assign]
        step_all(made, random.Random(1), 50)
        kept = made.ports.store.load_checkpoint(made.mapping.uuid, "shardId-0")
        assert kept.position == AfterSequence(sequence_number(4))
        assert kept.marks == ()


def test_lanes_are_followed_when_the_factor_changes_while_running() -> None:
    function = Keyed(iter(()))
    keys = list("abcdefgh" * 4)
    with rig(function, ParallelizationFactor=1, BatchSize=2) as made:  # type: ignore[arg-type]
        put(made, keys)
        for _ in range(4):
            made.poller.step()
        made.mapping.change(made.mapping.members | {"ParallelizationFactor": 4})
        assert step_all(made, random.Random(2), 500)
        assert len(made.lanes) == 4
        check_orders(function, keys)
