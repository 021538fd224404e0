"""Shard logs for tests, filled with batches that can be recognised."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from headrace.store import frame
from headrace.store.check import STREAMS_FOLDER
from headrace.store.sequence import SequenceBase
from headrace.store.shard_log import ShardLog, identity_of

STREAM_ID = "0" * 32
SHARD_ID = "shardId-000000000000"
BASE = SequenceBase(created_s=1_700_000_000, shard_number=0)
NOW_MS = 1_700_000_000_000
EVERYTHING = 1 << 40


def open_log(data_dir: Path, *, shard_id: str = SHARD_ID, roll_at_bytes: int = 1 << 30) -> ShardLog:
    """Open a shard's log where `headrace check` looks for it."""
    return ShardLog(
        data_dir / STREAMS_FOLDER / STREAM_ID / shard_id,
        BASE,
        identity_of(STREAM_ID, shard_id),
        roll_at_bytes=roll_at_bytes,
    )


def put(log: ShardLog, texts: list[str], now_ms: int = NOW_MS) -> list[str]:
    """Append one batch; returns the sequence numbers."""
    data = [base64.b64encode(text.encode()).decode() for text in texts]
    data_bytes = sum(len(text.encode()) + 1 for text in texts)
    return log.append_columns(data, ["k"] * len(texts), data_bytes, now_ms)


def records(log: ShardLog, index: int = 0, max_records: int = 10_000) -> list[dict[str, Any]]:
    """Return records as GetRecords would, from `index` to the end."""
    found: list[dict[str, Any]] = []
    while True:
        batch = log.read(index, max_records, EVERYTHING)
        if not batch.count:
            return found
        got = [
            json.loads(text) for payload in batch.payloads for text in frame.split(bytes(payload))
        ]
        assert len(got) == batch.count
        found.extend(got)
        index = batch.next_index


def texts(log: ShardLog, index: int = 0) -> list[str]:
    """Return the records' data from `index` to the end."""
    return [base64.b64decode(record["Data"]).decode() for record in records(log, index)]


def segments(log: ShardLog) -> list[Path]:
    """Return the log's files, oldest first."""
    return sorted(log.folder.glob("*.log"))
