"""The tables of event source mappings do not grow for ever."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings import store as trace_module
from headrace.services.lambda_.mappings.batch import Attempt, Batch, History
from headrace.services.lambda_.mappings.mappings import MappingRunner
from headrace.services.lambda_.mappings.store import SUCCESS, BatchSource, Trace
from headrace.store.database import Database
from tests.unit.lambda_.test_batch_runner import Keyed
from tests.unit.lambda_.test_poller import Rig
from tests.unit.lambda_.test_resharding import Stream, Supervisor


def test_batches_of_all_mappings_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_module, "ALL_KEPT", 300)
    monkeypatch.setattr(trace_module, "_PRUNE_EVERY", 50)
    database = Database(tmp_path / "state.sqlite")
    trace = Trace(database)
    batch = Batch((StreamRecord("1", "k", b"", 0),))
    for number in range(2000):
        story = History()
        story.attempts.append(Attempt(0, 1, "success", "r"))
        trace.write(BatchSource(f"m{number % 40}", "shardId-0", 0, 1), story, batch, SUCCESS)
    kept = database.query("SELECT COUNT(*), MAX(number) FROM lambda_trace")[0]
    assert kept[0] <= 350
    assert kept[1] == 2000
    for number in range(40):
        trace.forget(f"m{number}")
    assert database.query("SELECT COUNT(*) FROM lambda_trace") == [(0,)]
    assert not trace._written
    # What an older headrace has left is bounded at the start.
    for _ in range(499):
        trace.write(BatchSource("m", "shardId-0", 0, 1), History(), batch, SUCCESS)
    monkeypatch.setattr(trace_module, "ALL_KEPT", 10)
    Trace(database)
    assert database.query("SELECT COUNT(*) FROM lambda_trace") == [(10,)]
    database.close()


def test_shards_that_retention_has_taken_leave_nothing(tmp_path: Path) -> None:
    stream, supervisor, draw = Stream(), Supervisor(), random.Random(1)
    made = Rig(tmp_path, Keyed(iter(())), streams=stream)  # type: ignore[arg-type]
    runner = MappingRunner(made.mapping, made.ports, supervisor)  # type: ignore[arg-type]
    for _ in range(20):
        for key in "abcdef":
            stream.add(key)
        stream.split(draw)
        stream.merge(draw)
        for _ in range(30):
            supervisor.step_all(draw)
            made.clock.advance(1)
        for shard in [each for each in stream.shards(stream.arn) if each.closed]:
            # Read to its end, and then gone.
            del stream._shards[shard.shard_id]
    runner.step()
    open_shards = len(stream.shards(stream.arn))
    assert len(made.ports.store.checkpoints(made.mapping.uuid)) <= open_shards
    assert len(runner._pollers) <= open_shards
    made.database.close()
