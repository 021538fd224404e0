"""What a micro-batch of the distributed mode is to read, and where its tasks stopped: pure values and their JSON.

The driver writes a plan before Spark stores the batch's offset, and the offset names the plan:

    {"v": 2, "stream": "flights", "plan": "5f0c…/000000012-9b1d…", "batch": 12, "shards": 4, "records": 6000}

A plan says where the batch *begins* in each shard, which task reads which shards, and the limits. Each task decides
where it stops, and writes that to a file beside the plan before it gives Spark a record. So a repeated task finds the
file and reads exactly the same records, and the next plan begins where the files say. A shard without one was not read:
the next plan has it again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.spark.offsets import InvalidOffset, Offset, ShardOffset
from headrace.spark.spans import Shard

VERSION = 2


@dataclass(frozen=True)
class Plan:
    """One micro-batch.

    Attributes:
        begin: where it begins in each shard.
        groups: each task's shards, parents before their children.
        parents: for each planned shard whose parents are in the same group, these: it is read if they end.
        until_ms: a task stops at the first record that arrived later (epoch milliseconds).
        most_records, most_bytes: limits for each shard; None for none.
        patient: whether tasks wait for a shard's allowance as long as it takes.
    """

    begin: Offset
    groups: Sequence[Sequence[str]]
    until_ms: int
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    most_records: int | None = None
    most_bytes: int | None = None
    patient: bool = False

    @property
    def shards(self) -> set[str]:
        """The shards that the batch reads."""
        return {name for group in self.groups for name in group}

    def to_bytes(self) -> bytes:
        """Return the file."""
        return _pack(
            {
                "begin": self.begin.to_json(), "groups": [list(group) for group in self.groups],
                "until": self.until_ms, "parents": {n: list(p) for n, p in self.parents.items()},
                "records": self.most_records, "bytes": self.most_bytes, "patient": self.patient,
            }
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes, stream: str) -> Plan:
        """Return the plan in a file. Raises InvalidOffset when it is of another stream."""
        value = _unpack(data)
        return cls(
            Offset.from_json(value["begin"], stream), value["groups"], value["until"], value["parents"],
            value["records"], value["bytes"], value["patient"],
        )  # fmt: skip


@dataclass(frozen=True)
class Stop:
    """Where a task stopped in one shard.

    Attributes:
        offset: the position; None when the shard has not had a record yet.
        rows: the records of the batch.
        behind_ms: the lag behind the shard's end, in milliseconds.
        done: whether all records up to the plan's `until_ms` are read.
        iterator: the shard iterator at this position, as of `at_ms`; None when there is none exactly here.
        full_ms: when the shard's read allowance is whole again (epoch milliseconds).
    """

    offset: ShardOffset | None
    rows: int
    behind_ms: int
    done: bool
    iterator: str | None = None
    at_ms: int = 0
    full_ms: int = 0


def stops_to_bytes(stops: Mapping[str, Stop]) -> bytes:
    """Return a task's file."""
    return _pack(
        {
            name: [
                None if stop.offset is None else stop.offset.to_json(),
                stop.rows, stop.behind_ms, stop.done, stop.iterator, stop.at_ms, stop.full_ms,
            ]
            for name, stop in stops.items()
        }
    )  # fmt: skip


def stops_from_bytes(data: bytes) -> dict[str, Stop]:
    """Return where a task stopped, by shard."""
    return {
        name: Stop(None if offset is None else ShardOffset.from_json(offset), *rest)
        for name, (offset, *rest) in _unpack(data).items()
    }


def after(plan: Plan, stops: Mapping[str, Stop]) -> Offset:
    """Return the position after a batch."""
    shards = dict(plan.begin.shards)
    shards |= {name: stop.offset for name, stop in stops.items() if stop.offset is not None}
    return Offset(plan.begin.stream, plan.begin.init, shards)


@dataclass(frozen=True)
class PlanOffset:
    """The offset that Spark stores: the name of a batch's plan.

    Attributes:
        plan: the plan's folder in the metadata store: `<lineage>/<number>-<token>`.
        batch: its number, from 0.
        shards, records: how many shards the batch reads, and how many records the batches before it have read.
    """

    stream: str
    plan: str
    batch: int
    shards: int
    records: int

    @property
    def lineage(self) -> str:
        """The folder of all plans of the query."""
        return self.plan.partition("/")[0]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for Spark to store."""
        return {"v": VERSION, **self.__dict__}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], stream: str) -> PlanOffset:
        """Return the offset that `to_json` wrote. Raises InvalidOffset when it is of another stream."""
        if value.get("stream") != stream:
            raise InvalidOffset(
                f"The checkpoint is of stream {value.get('stream')!r}, and the query reads {stream!r}: "
                "use another checkpoint for another stream."
            )
        return cls(
            stream,
            str(value["plan"]),
            int(value["batch"]),
            int(value["shards"]),
            int(value["records"]),
        )


def is_plan(value: Mapping[str, Any]) -> bool:
    """Return whether an offset's JSON names a plan (else it has the positions themselves)."""
    return value.get("v") == VERSION


def reaches(offset: dict[str, Any], other: dict[str, Any], stream: str) -> bool:
    """Return whether an offset is at or beyond another one of the same query, in the JSON of either mode."""
    if is_plan(offset) and is_plan(other):
        first, second = (PlanOffset.from_json(one, stream) for one in (offset, other))
        return first.batch >= second.batch
    if is_plan(offset) or is_plan(other):
        # The mode has changed between the two, and a later offset is only compared with an earlier one.
        return True
    return Offset.from_json(offset, stream).reaches(Offset.from_json(other, stream))


def groups_of(weights: Mapping[str, int], tasks: int) -> list[list[str]]:
    """Deal shards to `tasks` groups of about the same weight; a shard's weight is its records in the batch before."""
    names = sorted(weights, key=lambda name: (-weights[name], name))
    count = max(1, min(tasks, len(names)))
    groups: list[list[str]] = [[] for _ in range(count)]
    for index, name in enumerate(names):
        turn, at = divmod(index, count)
        groups[at if turn % 2 == 0 else count - 1 - at].append(name)
    return [sorted(group) for group in groups if group]


def kin_of(
    names: Collection[str], shards: Collection[Shard], weights: Mapping[str, int], tasks: int
) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Deal shards to groups that have every child with its parents; return also each one's parents among `names`."""
    known_ids = set(names)
    parents = {
        shard.shard_id: [parent for parent in shard.parent_ids if parent in known_ids]
        for shard in shards
        if shard.shard_id in known_ids
    }
    root = {name: name for name in known_ids}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for name, above in parents.items():
        for parent in above:
            root[find(name)] = find(parent)
    families: dict[str, list[str]] = {}
    # A child's number is higher than its parents'.
    for name in sorted(known_ids):
        families.setdefault(find(name), []).append(name)
    heavy = {name: sum(weights.get(one, 0) for one in kin) for name, kin in families.items()}
    dealt = groups_of(heavy, tasks)
    groups = [[name for head in group for name in families[head]] for group in dealt]
    return groups, {name: above for name, above in parents.items() if above}


def _pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def _unpack(data: bytes) -> Any:
    return json.loads(zlib.decompress(data))
