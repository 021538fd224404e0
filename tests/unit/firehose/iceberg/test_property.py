"""Random insertions, updates and deletions, through kills and lost commits, end in the same table as in a dict."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.services.firehose.destinations.iceberg_commit import DELIVERY_ID
from tests.unit.firehose.iceberg.helpers import IcebergLab, query

FATES = ("ok", "ok", "die before", "die after")
STORE_FATES = ("ok", "ok", "ok", "ok", "die before", "die after", "refuse")


class Model:
    """A table as a dict: by key, the values of its rows. Insertions may repeat a key, as in Iceberg."""

    def __init__(self) -> None:
        self.rows: dict[int, list[str]] = {}

    def take(self, record: dict[str, Any]) -> None:
        key = record["id"]
        if record["op"] != "insert":
            self.rows.pop(key, None)
        if record["op"] != "delete":
            self.rows.setdefault(key, []).append(record["v"])

    @property
    def as_rows(self) -> list[dict[str, Any]]:
        return [{"id": key, "v": v} for key in sorted(self.rows) for v in sorted(self.rows[key])]


def run(tmp_path: Path, seed: int, rounds: int) -> None:
    """Deliver random records, in buffers of random size; fail by the seed's words."""
    rng = random.Random(seed)
    lab, model = IcebergLab(tmp_path, ProcessingConfiguration=query("{operation: .op}")), Model()

    def other(name: str) -> None:
        """Another writer adds a row that no record of ours touches."""
        key = 1000 + len(lab.table(name).metadata.snapshots)
        rows = lab.table(name).scan().to_arrow().slice(0, 0)
        lab.table(name).append(rows.from_pylist([{"id": key, "v": "other"}], schema=rows.schema))
        model.take({"op": "insert", "id": key, "v": "other"})

    lab.glue.other_commit = other
    for _ in range(rounds):
        records = [
            {
                "op": rng.choice(("insert", "update", "update", "delete")),
                "id": rng.randrange(12),
                "v": f"{rng.randrange(1000):03d}",
            }
            for _ in range(rng.randrange(1, 30))
        ]
        for record in records:
            model.take(record)
        lab.put_json(*records)
        lab.glue.fates = [rng.choice(FATES) for _ in range(3)]
        if rng.random() < 0.3:
            lab.glue.fates = ["lose", "ok", *lab.glue.fates]
        lab.disk.fates = [rng.choice(STORE_FATES) for _ in range(6)]
        lab.settle_through_kills()
        lab.clock.advance(60)
        lab.settle_through_kills()
        while not lab.is_drained:
            lab.clock.advance(60)
            lab.settle_through_kills()
        assert lab.rows() == model.as_rows, f"seed {seed}"
    ids = [
        snapshot.summary.additional_properties.get(DELIVERY_ID)
        for snapshot in lab.table().metadata.snapshots
        if snapshot.summary is not None
    ]
    counts = Counter(filter(None, ids))
    assert counts
    assert set(counts.values()) == {1}, f"seed {seed}: a delivery was committed twice"


@pytest.mark.parametrize("seed", range(2))
def test_a_table_is_what_a_dict_is(tmp_path: Path, seed: int):
    run(tmp_path, seed, rounds=6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_table_is_what_a_dict_is_for_many_seeds(tmp_path: Path, seed: int):
    run(tmp_path, seed, rounds=15)
