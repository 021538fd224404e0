"""A table's stored state is the fold of its changelog, and the changelog of the state folds to it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.sql
from headrace.sql import views
from headrace.sql.analysis import Analysis
from headrace.sql.parsing import parse
from headrace.sql.plan import QueryPlan
from headrace.sql.statements import Query
from headrace.sql.views import Bounds, View, ViewError, bounds_of, pull, push

DECLARED = """
CREATE STREAM flights (id VARCHAR KEY, origin VARCHAR, number INT, delay INT) WITH (stream = 'flights');
CREATE TABLE delays AS SELECT origin, number, SUM(delay) AS total FROM flights
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR) GROUP BY origin, number;
"""
HOUR_MS = 3_600_000
SCHEMA = pa.schema([
    ("origin", pa.string()), ("number", pa.int32()), ("total", pa.int64()),
    ("WINDOWSTART", pa.int64()), ("WINDOWEND", pa.int64()), ("_key", pa.string()),
    ("_rowtime", pa.timestamp("us", tz="UTC")), ("_id", pa.string()), ("_batch", pa.int32()), ("_deleted", pa.bool_()),
])  # fmt: skip
Key = tuple[str, int, int]
State = dict[Key, int]


def writer() -> dict[str, Any]:
    """Return what the job decides about runs and manifests, which needs no Spark."""
    frame = Path(headrace.sql.__file__).with_name("job_frame.py.txt").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(frame.split("# --- views ---\n")[1], names)
    return names


class Memory:
    """A folder in memory, which a view's query writes as the job does."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.runs: dict[int, list[dict[str, Any]]] = {}
        self.manifest: dict[str, Any] = {"batch": -1, "previous": -1, "runs": [], "replaced": []}
        self.job = writer()

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self.files if path.startswith(f"{folder}/")]

    def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write(self, batch: int, changes: dict[Key, int | None], rows_of_file: int) -> None:
        runs = self.manifest["runs"]
        taken = self.job["runs_taken"](runs, len(changes))
        rows = {
            row["_id"]: row for run in runs[len(runs) - taken :] for row in self.runs[run["batch"]]
        }
        for key, total in changes.items():
            rows[json.dumps(key)] = {
                "origin": key[0], "number": key[1], "total": total, "WINDOWSTART": key[2], "WINDOWEND": key[2] + HOUR_MS,
                "_key": f"{key[0]}|{key[1]}", "_rowtime": None, "_id": json.dumps(key), "_batch": batch,
                "_deleted": total is None,
            }  # fmt: skip
        kept = [
            row
            for row in rows.values()
            if taken < len(runs) or not row["_deleted"] or row["_batch"] == batch
        ]
        kept.sort(key=lambda row: (row["origin"], row["number"], row["WINDOWSTART"]))
        files = []
        for index in range(0, len(kept), rows_of_file):
            part, name = kept[index : index + rows_of_file], f"part-{index}.parquet"
            buffer = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist(part, SCHEMA), buffer)
            self.files[f"runs/{batch}/{name}"] = buffer.getvalue().to_pybytes()
            files.append(
                {
                    "name": name,
                    "rows": len(part),
                    "least": part[0]["origin"],
                    "most": part[-1]["origin"],
                }
            )
        self.runs[batch] = kept
        self.manifest = self.job["next_manifest"](self.manifest, batch, taken, files)
        self.files[f"manifests/{batch:020}.json"] = json.dumps(self.manifest).encode()


def analysis() -> Analysis:
    result = Analysis()
    for statement in parse(DECLARED):
        result.take(statement)
    return result


def plan(text: str) -> QueryPlan:
    (statement,) = parse(text)
    assert isinstance(statement, Query)
    return analysis().plan(statement)


def view_of(files: Memory) -> View:
    return View(analysis().relations["delays"], files)


def state_of(rows: Any) -> State:
    return {
        (r.columns["origin"], r.columns["number"], r.columns["WINDOWSTART"]): r.columns["total"]
        for r in rows
    }


keys = st.tuples(
    st.sampled_from(["EWR", "JFK", "LGA"]), st.integers(0, 5), st.sampled_from([0, HOUR_MS])
)
changelogs = st.lists(
    st.dictionaries(keys, st.none() | st.integers(0, 9), min_size=1), min_size=1, max_size=14
)


@settings(max_examples=20, deadline=None)
@given(changelogs, st.integers(1, 4), keys, st.data())
def test_the_state_is_the_fold_of_the_changes_and_its_changes_fold_to_it(
    changelog: list[dict[Key, int | None]], rows_of_file: int, key: Key, data: st.DataObject
) -> None:
    files, folds = Memory(), [dict[Key, int]()]
    # Micro-batches without a change leave no manifest.
    batches = sorted(
        data.draw(
            st.sets(st.integers(0, 30), min_size=len(changelog), max_size=len(changelog)),
            label="batches",
        )
    )
    for batch, changes in zip(batches, changelog, strict=True):
        files.write(batch, changes, rows_of_file)
        fold = {**folds[-1], **changes}
        folds.append({one: total for one, total in fold.items() if total is not None})
        assert state_of(view_of(files).rows({})[1]) == folds[-1]

    one = pull(plan(f"SELECT * FROM delays WHERE origin = '{key[0]}' AND number = {key[1]};"), view_of(files))  # fmt: skip
    assert state_of(one) == {k: total for k, total in folds[-1].items() if k[:2] == key[:2]}
    some = pull(plan(f"SELECT * FROM delays WHERE origin >= 'JFK' AND WINDOWSTART IN ({key[2]});"), view_of(files))  # fmt: skip
    assert state_of(some) == {
        k: total for k, total in folds[-1].items() if k[0] >= "JFK" and k[2] == key[2]
    }

    since = data.draw(st.integers(0, len(changelog)), label="since")
    state = dict(folds[since])
    for _, rows in view_of(files).changes(batches[since - 1] if since else -1, {}):
        for row in rows:
            (row_key,) = state_of([row])
            state.pop(row_key, None)
            if not row.deleted:
                state[row_key] = row.columns["total"]
    assert state == folds[-1]


def test_a_follower_sees_each_change_once_and_a_row_that_goes() -> None:
    files = Memory()
    files.write(3, {("EWR", 1, 0): 5, ("JFK", 1, 0): 7}, 2)
    later: Iterator[dict[Key, int | None]] = iter(
        [{("EWR", 1, 0): 6}, {("JFK", 1, 0): 8}, {("EWR", 1, 0): None}]
    )
    batches = count(4)

    def wait() -> None:
        files.write(next(batches), next(later), 2)

    query = plan("SELECT origin, total FROM delays WHERE origin = 'EWR' EMIT CHANGES;")
    rows = list(islice(push(query, view_of(files), wait), 3))
    assert [(row.columns["total"], row.deleted) for row in rows] == [
        (5, False),
        (6, False),
        (None, True),
    ]


def test_runs_are_few_and_what_is_replaced_stays_for_a_while() -> None:
    files = Memory()
    for batch in range(200):
        files.write(batch, {(f"A{batch:03}", 0, 0): batch}, 50)
    runs = files.manifest["runs"]
    assert len(runs) <= 5
    assert sum(run["rows"] for run in runs) == 200
    assert all(one["at"] > 199 - 10 for one in files.manifest["replaced"])
    read: list[str] = []
    content = files.read
    files.read = lambda path: (read.append(path), content(path))[1]  # type: ignore[method-assign]
    (row,) = pull(plan("SELECT total FROM delays WHERE origin = 'A007';"), view_of(files))
    assert row.columns == {"total": 7}
    assert len(read) == 2  # the manifest and one file


@pytest.mark.parametrize(
    ("where", "bounds"),
    [
        ("origin = 'A' AND total > 3", {"origin": Bounds(frozenset({"A"}))}),
        ("'A' <= origin AND origin < 'B'", {"origin": Bounds(None, "A", "B")}),
        ("origin IN ('A', 'B') AND origin = 'B'", {"origin": Bounds(frozenset({"B"}))}),
        ("WINDOWSTART BETWEEN 5 AND 3 + 4", {"WINDOWSTART": Bounds(None, 5, 7)}),
        ("WINDOWSTART >= '1970-01-01T01:00:00'", {"WINDOWSTART": Bounds(None, HOUR_MS)}),
        ("origin = 'A' OR origin = 'B'", {}),
        ("NOT origin = 'A'", {}),
        ("origin <> 'A'", {"origin": Bounds()}),
        ("number > 1.5", {}),
    ],
)
def test_a_condition_bounds_what_is_read(where: str, bounds: dict[str, Bounds]) -> None:
    columns = {column.name: column.type for column in analysis().relations["delays"].key_columns()}
    assert bounds_of(plan(f"SELECT * FROM delays WHERE {where};").where, columns) == bounds


def test_a_state_that_is_not_there_or_gone_on_is_said() -> None:
    with pytest.raises(ViewError, match=r"delays has no state yet: .* a window when it is closed"):
        view_of(Memory()).rows({})
    files = Memory()
    for batch in range(4):
        files.write(batch, {("EWR", 1, 0): batch}, 2)
    del files.files[f"manifests/{1:020}.json"]
    with pytest.raises(ViewError, match="more changes than it keeps"):
        list(view_of(files).changes(0, {}))
    del files.files["runs/3/part-0.parquet"]
    with pytest.raises(ViewError, match="changes faster than it is read"):
        view_of(files).rows({})


def test_a_file_that_unfolds_to_too_much_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Memory()
    files.write(0, {("EWR", 1, 0): 0}, 2)
    monkeypatch.setattr(views, "_MOST_VALUES", 1)
    with pytest.raises(ViewError, match="unfolds to more than"):
        view_of(files).rows({})
    (tmp_path / "large").write_bytes(b"12345")
    monkeypatch.setattr(views, "_MOST_FILE_BYTES", 4)
    with pytest.raises(ViewError, match="large has 5 bytes; headrace reads at most 4"):
        views.LocalFiles(tmp_path).read("large")


@pytest.mark.parametrize(
    "manifest",
    [
        {
            "runs": [
                {"batch": 1, "files": [{"name": "../../../secret", "least": None, "most": None}]}
            ]
        },
        {"runs": [{"batch": 1, "files": [{"name": "/etc/secret", "least": None, "most": None}]}]},
        {"runs": [{"batch": 1, "files": [{"name": "..", "least": None, "most": None}]}]},
        {"runs": [{"batch": "../..", "files": [{"name": "a", "least": None, "most": None}]}]},
        {"runs": [{"batch": 1, "files": [{"name": "a"}]}]},
        {"runs": 7},
        {"runs": [], "previous": "x"},
        [],
    ],
)
def test_a_manifest_names_only_files_of_its_state(manifest: Any):
    if isinstance(manifest, dict):
        manifest = {"batch": 1, "previous": 0, **manifest}
    read: list[str] = []

    class Planted:
        def names(self, folder: str) -> list[str]:
            return [f"{1:020}.json"]

        def read(self, path: str) -> bytes:
            read.append(path)
            return json.dumps(manifest).encode()

    with pytest.raises(ViewError, match="damaged state"):
        view_of(cast("Memory", Planted())).rows({})
    assert set(read) == {f"manifests/{1:020}.json"}
