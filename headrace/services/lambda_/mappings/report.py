"""Reports what happened to a mapping's records, as JSON: the batch trees, or the batches that had one record.

A row of a tree has a range of sequence numbers, which batches of several lanes may share. The partition key of a
record, which is read again from the shard, shows which of them had the record. If no batch had a record that the
checkpoint has passed, the record was filtered, or its tree is no longer stored.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace.core.ports import (
    AtSequence,
    ShardNotFound,
    StreamNotFound,
    StreamReader,
    StreamRecord,
)
from headrace.services.lambda_.mappings.filters import passes
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.mappings.progress import lane_of
from headrace.services.lambda_.mappings.store import MappingStore
from headrace.services.lambda_.mappings.trace import Node, Trace

_TREES_SHOWN = 20


def build_mapping_report(
    mapping: Mapping,
    *,
    trace: Trace,
    store: MappingStore,
    streams: StreamReader,
    sequence: str | None = None,
) -> dict[str, Any]:
    """Return the newest trees of a mapping, or the trees that had the record with the number `sequence`."""
    nodes = trace.nodes(mapping.uuid)
    report: dict[str, Any] = {
        "mapping": mapping.uuid,
        "function": mapping.function_arn,
        "source": mapping.stream_arn,
        "lastProcessingResult": mapping.last_result,
        "checkpoints": {
            shard_id: _render_position(kept.position)
            for shard_id, kept in store.checkpoints(mapping.uuid).items()
        },
    }
    if sequence is None:
        roots = [node for node in nodes if not node.parent]
        report["trees"] = [_build_tree(root, nodes) for root in roots[-_TREES_SHOWN:]]
        return report
    shard_id, record = _find(mapping, sequence, streams)
    with_it = [node for node in nodes if _has(node, sequence, record, shard_id)]
    known = {node.number for node in with_it}
    roots = [node for node in with_it if node.parent not in known]
    report["sequence"] = sequence
    report["shardId"] = shard_id
    report["outcome"] = _describe_outcome(mapping, record, with_it)
    report["trees"] = [_build_tree(root, nodes, known) for root in roots]
    return report


def _render_position(position: Any) -> str:
    if position is None:
        return "read to its end"
    return f"{type(position).__name__} {getattr(position, 'sequence_number', '')}".strip()


def _find(
    mapping: Mapping, sequence: str, streams: StreamReader
) -> tuple[str | None, StreamRecord | None]:
    """Return the shard that has a record, and the record, or None for both when the stream does not have it."""
    if not sequence.isdecimal():
        return None, None
    try:
        for shard in streams.shards(mapping.read_arn):
            record = _read(mapping, shard.shard_id, sequence, streams)
            if record is not None:
                return shard.shard_id, record
    except StreamNotFound:
        return None, None
    return None, None


def _read(
    mapping: Mapping, shard_id: str, sequence: str, streams: StreamReader
) -> StreamRecord | None:
    try:
        batch = streams.read(
            mapping.read_arn, shard_id, AtSequence(sequence), max_records=1, max_bytes=1
        )
    except (ShardNotFound, ValueError):
        return None
    first = batch.records[0] if batch.records else None
    return first if first is not None and first.sequence_number == sequence else None


def _has(node: Node, sequence: str, record: StreamRecord | None, shard_id: str | None) -> bool:
    if not node.first or not sequence.isdecimal():
        return False
    if shard_id is not None and node.shard_id != shard_id:
        return False
    if not int(node.first) <= int(sequence) <= int(node.last):
        return False
    return record is None or lane_of(record.partition_key, node.lanes) == node.lane


def _describe_outcome(mapping: Mapping, record: StreamRecord | None, nodes: list[Node]) -> str:
    """Return in a few words what happened to a record."""
    if record is not None and not passes(record, mapping.filters(), of_table=mapping.reads_table):
        return "filtered"
    leaves = [n for n in nodes if all(other.parent != n.number for other in nodes)]
    if not leaves:
        return (
            "not in the stream" if record is None else "no batch that is still kept had this record"
        )
    newest = leaves[-1]
    if newest.disposal == "partly done":
        return "success"
    return f"{newest.disposal}: {newest.detail}" if newest.detail else newest.disposal


def _build_tree(node: Node, nodes: list[Node], only: set[int] | None = None) -> dict[str, Any]:
    shown = asdict(node)
    del shown["parent"]
    shown["parts"] = [
        _build_tree(part, nodes, only)
        for part in nodes
        if part.parent == node.number and (only is None or part.number in only)
    ]
    return shown
