"""Splits, merges, failures and kills while a mapping runs: per key every record, in order, whatever happens."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.workers import WorkerDone
from headrace.services.lambda_.mappings.mappings import MappingRunner
from tests.support.streams import MemoryStreams
from tests.unit.lambda_.test_batch_runner import Keyed, check_orders
from tests.unit.lambda_.test_poller import Rig

KEYS = "abcdef"


class Handle:
    """A worker that is stepped by hand."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.alive = True
        self.woken = False

    def wake(self) -> None:
        self.woken = True

    def stop(self) -> None:
        self.alive = False

    def join(self, timeout_s: float) -> None: ...


class Supervisor:
    """Keeps what a runner starts, to be stepped in any order."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def start(self, worker: Any) -> Handle:
        handle = Handle(worker)
        self.handles.append(handle)
        return handle

    def step_all(self, draw: random.Random) -> float:
        """Step everything that lives once; return the shortest wait."""
        before = len(self.handles)
        alive = [handle for handle in self.handles if handle.alive]
        draw.shuffle(alive)
        wait_s = math.inf
        for handle in alive:
            handle.woken = False
            try:
                wait_s = min(wait_s, handle.worker.step())
            except WorkerDone:
                handle.alive = False
                wait_s = 0.0
        if len(self.handles) != before or any(handle.alive and handle.woken for handle in alive):
            return 0.0
        return wait_s


class Stream(MemoryStreams):
    """Keys on shards that are split and merged."""

    def __init__(self) -> None:
        super().__init__()
        self.homes = dict.fromkeys(KEYS, "shardId-0")
        self.keys: list[str] = []
        self._made = 0

    def add(self, key: str) -> None:
        self.keys.append(key)
        self.put(str(len(self.keys)).encode(), shard_id=self.homes[key], key=key)

    def _new(self) -> str:
        self._made += 1
        return f"shardId-{self._made}"

    def split(self, draw: random.Random) -> None:
        parent = draw.choice(sorted(set(self.homes.values())))
        left, right = self._new(), self._new()
        self.replace(parent, left, right)
        for key, home in self.homes.items():
            if home == parent:
                self.homes[key] = draw.choice([left, right])

    def merge(self, draw: random.Random) -> None:
        homes = sorted(set(self.homes.values()))
        if len(homes) < 2:
            return
        first, second = draw.sample(homes, 2)
        child = self._new()
        self.replace(first, child)
        self.replace(second)
        self._shards[child].parents = (first, second)
        for key, home in self.homes.items():
            if home in (first, second):
                self.homes[key] = child


class Life:
    """A mapping's runner over a stream, killed and started again at will."""

    def __init__(self, rig: Rig, draw: random.Random) -> None:
        self.rig, self.draw = rig, draw
        self.kill()

    def kill(self) -> None:
        """Forget all that is in memory, as kill -9 does."""
        self.supervisor = Supervisor()
        MappingRunner(self.rig.mapping, self.rig.ports, self.supervisor)  # type: ignore[arg-type]

    def step(self) -> bool:
        wait_s = self.supervisor.step_all(self.draw)
        # The runner looks for shards by itself only every half minute, here at every round.
        self.rig.clock.advance(min(wait_s, 1.0))
        return wait_s >= 30.0


happenings = given(
    happenings=st.lists(
        st.sampled_from(["put", "put", "put", "step", "step", "split", "merge", "kill"]),
        max_size=60,
    ),
    script=st.lists(st.sampled_from(["ok", "raise", "throttle"]), max_size=20),
    lanes=st.integers(1, 4),
    batch_size=st.integers(1, 4),
    bisect=st.booleans(),
    seed=st.integers(0, 10_000),
)


@settings(max_examples=25, deadline=None)
@happenings
def test_no_gap_and_no_disorder_across_reshards_failures_and_kills(**drawn: Any) -> None:
    run(**drawn)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None)
@happenings
def test_no_gap_and_no_disorder_in_a_thousand_histories(**drawn: Any) -> None:
    run(**drawn)


def run(
    happenings: list[str],
    script: list[str],
    lanes: int,
    batch_size: int,
    bisect: bool,
    seed: int,
) -> None:
    draw, function, stream = random.Random(seed), Keyed(iter(script)), Stream()
    with tempfile.TemporaryDirectory() as root:
        members = {
            "ParallelizationFactor": lanes,
            "BatchSize": batch_size,
            "BisectBatchOnFunctionError": bisect,
        }
        made = Rig(Path(root), function, streams=stream, **members)  # type: ignore[arg-type]
        life = Life(made, draw)
        for happening in happenings:
            match happening:
                case "put":
                    stream.add(draw.choice(KEYS))
                case "step":
                    life.step()
                case "split":
                    stream.split(draw)
                case "merge":
                    stream.merge(draw)
                case _:
                    life.kill()
        while not life.step():
            pass
        check_orders(function, stream.keys)
        killed = "kill" in happenings
        if not function.faults and not killed:
            assert sum(map(len, function.calls)) == len(stream.keys)
        made.database.close()
