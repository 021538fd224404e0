"""Commits of a query's process to an Iceberg table that another changes meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pa = pytest.importorskip("pyarrow")

from headrace.aws.calls.errors import AwsError  # noqa: E402
from headrace.services.athena import iceberg, iceberg_tables  # noqa: E402
from headrace.services.athena.catalog import CatalogRefused  # noqa: E402
from headrace.services.athena.iceberg_tables import IcebergTables  # noqa: E402
from headrace.services.athena.statements import StatementRefused  # noqa: E402

NAME = ("db", "t")
MOST_BYTES = 1_000_000


class Store:
    """The parent process: a catalogue of one table. `overtake` runs before a commit."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.current = ""
        self.overtake: Any = None

    def find_object(self, location: str) -> str:
        return self.paths[location]

    def ask(self, **message: Any) -> Any:
        if "tables" in message:
            return [{"metadata": self.current}]
        commit = message["commit"]
        if self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            overtake()
        if commit["base"] != self.current:
            return {"conflict": True}
        self.paths.update(commit["files"])
        self.current = commit["metadata"]
        return {}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store()
    catalog = open_catalog(store, tmp_path / "first")
    options = {"location": "s3://lake/t", "partitions": [], "properties": {}}
    stored = iceberg.stage(catalog, NAME, [("a", "int")], options)
    iceberg.create(stored, iceberg.write(stored, batches(1), MOST_BYTES)[0])
    return store


def open_catalog(store: Store, folder: Path) -> iceberg.Catalog:
    folder.mkdir()
    return iceberg.Catalog(store, folder)


def batches(*values: int) -> list[Any]:
    return [pa.record_batch([pa.array(values, pa.int32())], names=["a"])]


def rows_of(catalog: iceberg.Catalog) -> list[int]:
    _, batches = iceberg.read(catalog.load_table(NAME), None)
    return sorted(value for batch, _ in batches for value in batch.column(0).to_pylist())


def test_rows_that_another_overtakes_are_committed_again(store: Store, tmp_path: Path):
    mine, other = open_catalog(store, tmp_path / "mine"), open_catalog(store, tmp_path / "other")

    def add(catalog: iceberg.Catalog, value: int) -> None:
        stored = catalog.load_table(NAME)
        iceberg.append(catalog, stored, iceberg.write(stored, batches(value), MOST_BYTES)[0])

    store.overtake = lambda: add(other, 2)
    add(mine, 3)
    assert rows_of(mine) == [1, 2, 3]
    snapshots = mine.load_table(NAME).snapshots()
    assert len(snapshots) == 3
    # Of the lost try nothing is stored.
    assert sum("/metadata/snap-" in location for location in store.paths) == 3


def test_a_change_that_another_overtakes_fails(store: Store, tmp_path: Path):
    mine, other = open_catalog(store, tmp_path / "mine"), open_catalog(store, tmp_path / "other")
    stored = mine.load_table(NAME)
    uris = {task.file.file_path for task in stored.scan().plan_files()}

    def overtake() -> None:
        theirs = other.load_table(NAME)
        iceberg.append(other, theirs, iceberg.write(theirs, batches(2), MOST_BYTES)[0])

    store.overtake = overtake
    with pytest.raises(StatementRefused, match=r"ICEBERG_COMMIT_ERROR: .*: db\.t"):
        iceberg.replace(stored, [], iceberg.data_files(stored, uris))
    assert rows_of(mine) == [1, 2]


def test_without_pyiceberg_one_sentence_says_so(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from headrace.services.athena.query import open_catalog as open_of_query

    monkeypatch.setitem(sys.modules, "headrace.services.athena.iceberg", None)
    parent: Any = store
    with pytest.raises(StatementRefused) as refusal:
        open_of_query(parent, tmp_path)
    assert str(refusal.value) == "NOT_SUPPORTED: Iceberg tables need headrace's extra `iceberg`"


def test_a_required_column_takes_no_null(store: Store, tmp_path: Path):
    catalog = open_catalog(store, tmp_path / "mine")
    stored = catalog.load_table(NAME)
    with (
        stored.transaction() as transaction,
        transaction.update_schema(allow_incompatible_changes=True) as update,
    ):
        update.update_column("a", required=True)
    stored = catalog.load_table(NAME)
    with pytest.raises(StatementRefused, match="NULL value not allowed for NOT NULL column: a"):
        iceberg.write(
            stored, [pa.record_batch([pa.array([None], pa.int32())], names=["a"])], MOST_BYTES
        )


def test_a_table_names_no_code_that_runs(store: Store, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    catalog = open_catalog(store, tmp_path / "mine")
    hostile = catalog.load_table(NAME)
    named = {
        "location": str(script),
        "properties": {"write.py-location-provider.impl": "runpy.run_path"},
    }
    hostile.metadata = hostile.metadata.model_copy(update=named)
    with pytest.raises(ValueError, match=r"LocationProvider: runpy\.run_path"):
        iceberg.write(hostile, batches(2), MOST_BYTES)
    assert not (tmp_path / "ran").exists()
    assert rows_of(catalog) == [1]


def test_the_files_of_a_statement_have_a_bound_together(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(iceberg, "_CHUNK_BYTES", 1)  # a file a batch
    catalog = open_catalog(store, tmp_path / "mine")
    stored = catalog.load_table(NAME)
    ((file,), _) = iceberg.write(stored, batches(1), MOST_BYTES)
    rows = [*batches(1), *batches(2), *batches(3)]
    with pytest.raises(StatementRefused, match="EXCEEDED_RESOURCE_LIMIT"):
        iceberg.write(stored, rows, 2 * file.file_size_in_bytes)
    assert rows_of(catalog) == [1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"x" * 100_001, "at most 100000 bytes"),
        (b"no JSON", "ICEBERG_INVALID_METADATA"),
        (b"[" * 100_000, "ICEBERG_INVALID_METADATA"),
        (b"7", "ICEBERG_INVALID_METADATA"),
    ],
    ids=["large", "text", "deep", "number"],
)
def test_metadata_that_cannot_be_shown_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
):
    monkeypatch.setattr(iceberg_tables, "MOST_METADATA_BYTES", 100_000)
    path = tmp_path / "metadata.json"
    path.write_bytes(content)
    catalog: Any = SimpleNamespace(find_object=lambda _: {"path": str(path)})
    with pytest.raises(CatalogRefused, match=reason):
        IcebergTables(catalog).read_metadata({"Parameters": {"metadata_location": "s3://b/k"}})


class Glue:
    """The catalogue of the parent process, in which another commits between a read and an update."""

    def __init__(self) -> None:
        self.stored: list[str] = []

    def table(self, database: str, name: str) -> dict[str, Any]:
        return {
            "Name": name,
            "VersionId": "7",
            "Parameters": {"metadata_location": "s3://lake/old"},
        }

    def put(self, bucket: str, key: str, file: Path) -> None:
        self.stored.append(f"s3://{bucket}/{key}")

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        assert (operation, params["VersionId"]) == ("UpdateTable", "7")
        raise AwsError("ConcurrentModificationException", "Update table failed due to concurrency")

    def discard(self, uris: Iterable[str]) -> None:
        self.stored = [uri for uri in self.stored if uri not in set(uris)]


@pytest.mark.parametrize("base", ["s3://lake/old", "s3://lake/older"])
def test_of_a_commit_that_comes_too_late_nothing_is_stored(base: str):
    glue: Any = Glue()
    change = {
        "table": NAME, "base": base, "metadata": "s3://lake/new", "location": "s3://lake", "columns": [],
        "files": {"s3://lake/data/f": "/tmp/f"},
    }  # fmt: skip
    assert IcebergTables(glue).commit(change) == {"conflict": True}
    assert glue.stored == []
