"""The batch tree is for people: when it cannot be kept, the batches go on all the same."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.core.ports import StreamRecord
from headrace.services.lambda_.mappings.batch import Batch, History
from headrace.services.lambda_.mappings.store import SUCCESS, BatchSource, Trace
from headrace.store import disk_space
from headrace.store.database import Database


def test_a_full_disk_costs_the_trace_and_not_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    trace = Trace(Database(tmp_path / "state.sqlite"))
    batch = Batch((StreamRecord("1", "k", b"", 0),))
    place = BatchSource("mapping", "shardId-000000000000", 0, 1)
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 0)
    with caplog.at_level(logging.WARNING):
        trace.write(place, History(), batch, SUCCESS)
    assert "the batch tree of mapping mapping could not be stored" in caplog.text
    monkeypatch.setattr(disk_space, "free_bytes", lambda _: 1 << 40)
    trace.write(place, History(), batch, SUCCESS)
    assert len(trace.nodes("mapping")) == 1
