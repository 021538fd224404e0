"""The job compact: the table is the integral of its stream, whatever comes again and whenever it is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.cdc.events import CaptureError, Compaction
from headrace.cdc.iceberg import IcebergRows
from headrace.client.clock import SystemClock
from spark_jobs import compact
from spark_jobs.common import iceberg
from spark_jobs.common.day_tables import DayTable
from spark_jobs.common.files import Files
from spark_jobs.common.iceberg import LINES
from tests.spark_jobs.feed import Feed, arguments
from tests.support.cloud import InProcessCloud

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

Event = dict[str, Any]


def change(op: str, lsn: int, id_: int, **row: Any) -> Event:
    event: Event = {"id": f"0/{lsn:X}/0", "op": op, "table": "public.t", "origin": str(id_)}
    if op != "t":
        event["before" if op == "d" else "after"] = {"id": id_, **row}
    return event


def history(chance: random.Random, count: int) -> list[list[Event]]:
    """Micro-batches of changes, in which some come again, some late, and tables are truncated."""
    events: list[Event] = []
    for i in range(count):
        op = chance.choices("cudt", [3, 5, 2, 0.2])[0]
        events.append(change(op, 16 + 8 * i, chance.randrange(12), v=i))
        if chance.random() < 0.3:
            events.append(chance.choice(events))
    return [events[i : i + 20] for i in range(0, len(events), 20)]


def run(spark: SparkSession, feed: Feed, folder: Path, *more: str) -> dict[str, int]:
    return compact.JOB.run(spark, compact.JOB.parse(arguments(folder, *more)), feed.stream())


def rows(spark: SparkSession, folder: Path) -> dict[tuple[str, str], Any]:
    output = (folder / "output").as_uri()
    manifest = json.loads((folder / "output" / "manifest.json").read_text())
    table = spark.read.schema(LINES).parquet(*(f"{output}/{f}" for f in manifest["files"]))
    lines = table.where("not is_deleted").collect()
    found = {(line["table"], line["key"]): json.loads(line["row"]) for line in lines}
    assert len(found) == len(lines)
    return found


def integral(batches: list[list[Event]]) -> dict[tuple[str, str], Any]:
    whole = Compaction()
    for event in (event for batch in batches for event in batch):
        whole.take(json.dumps(event).encode(), event["origin"], 0)
    keys = ((t, k, v.row) for t, keys in whole.tables.items() for k, v in keys.items())
    return {(table, key): row for table, key, row in keys if row is not None}


@pytest.mark.slow
def test_an_iceberg_table_is_the_integral_of_the_stream_whatever_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        location = (tmp_path / "lake").as_uri()
        glue = cloud.client("glue")
        glue.create_database(DatabaseInput={"Name": "lake", "LocationUri": location})
        catalog = GlueCatalog("glue", client=glue)
        monkeypatch.setattr(iceberg, "open_catalog", lambda _: catalog)
        output = ("--output", "iceberg://lake/shop")
        batches, feed = history(random.Random(37), 45), Feed(spark, tmp_path / "input")
        for batch in batches:
            feed.put(batch)
        real, deaths = GlueCatalog.commit_table, ["before", "", "after"]

        def commit(self: GlueCatalog, *arguments: Any) -> Any:
            death = deaths.pop(0) if deaths else ""
            if death == "before":
                raise OSError("killed before the commit")
            answer = real(self, *arguments)
            if death == "after":
                raise OSError("killed after the commit")
            return answer

        monkeypatch.setattr(GlueCatalog, "commit_table", commit)
        for step in ("before", "after"):
            with pytest.raises(StreamingQueryException, match=f"killed {step} the commit"):
                run(spark, feed, tmp_path / "job", *output)
        counts = run(spark, feed, tmp_path / "job", *output)
        table = catalog.load_table(("lake", "shop"))
        lines = [line for line in table.scan().to_arrow().to_pylist() if not line["is_deleted"]]
        rows = {(line["table"], line["key"]): json.loads(line["row"]) for line in lines}
        assert rows == integral(batches)
        assert counts["rows"] == len(rows) == len(lines)
        # What died left no files, and a second process that is late with a micro-batch replaces nothing.
        late = iceberg.IcebergOutput(spark, "lake", "shop", "r")
        manifest = late.manifest()
        assert manifest is not None
        folders = [path.name[:-33] for path in tmp_path.glob("lake/shop/data/*")]
        assert len(folders) == len(set(folders)) == manifest["batch"] + 1
        with pytest.raises(CaptureError, match="Another process has stored rows"):
            late.put(spark.createDataFrame([], LINES), manifest)
        assert sum(not line["is_deleted"] for line in table.scan().to_arrow().to_pylist()) == len(
            rows
        )
        # Another checkpoint, and another program, do not take it over.
        with pytest.raises(ValueError, match="does not belong to the checkpoint"):
            run(spark, feed, tmp_path / "other", *output)
        kinesis = cloud.client("kinesis")
        kinesis.create_stream(StreamName="s", ShardCount=1)
        with pytest.raises(CaptureError, match="is the output of the Spark job compact"):
            IcebergRows(catalog, "lake", "shop", SystemClock()).advance(kinesis, "s")


@pytest.mark.parametrize("output", ["iceberg://lake", "iceberg://lake/a/b", "iceberg:///t"])
def test_a_table_is_named_with_its_database(tmp_path: Path, output: str) -> None:
    with pytest.raises(SystemExit, match="--output is a folder or iceberg://DATABASE/TABLE"):
        compact.JOB.parse(arguments(tmp_path, "--output", output))


@pytest.mark.slow
def test_the_table_is_the_integral_of_the_stream_whatever_dies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, feed = history(random.Random(36), 45), Feed(spark, tmp_path / "input")
    for batch in batches:
        feed.put(batch)
    real, count = Files.write, [0]

    def write(self: Files, uri: str, content: bytes) -> None:
        count[0] += 1
        if count[0] == 2:
            raise OSError("killed before the manifest")
        real(self, uri, content)
        if count[0] == 4:
            raise OSError("killed after the manifest, before Spark notes the micro-batch")

    monkeypatch.setattr(Files, "write", write)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="killed"):
            run(spark, feed, tmp_path)
    run(spark, feed, tmp_path)
    assert rows(spark, tmp_path) == integral(batches)
    assert len(rows(spark, tmp_path)) > 3
    # The one before stays for its readers, the others are gone.
    kept = sorted(path.name for path in (tmp_path / "output").glob("batch=*"))
    assert kept == [f"batch={n}" for n in (len(batches) - 2, len(batches) - 1)]
    other = ("--checkpoint", (tmp_path / "other").as_uri())
    with pytest.raises(ValueError, match="does not belong to the checkpoint"):
        run(spark, feed, tmp_path, *other)


@pytest.mark.slow
def test_what_an_update_left_alone_stays_and_keys_are_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "input")
    feed.put([change("c", 16, 1, big="x" * 1000, v=1)])
    run(spark, feed, tmp_path, "--key", "public.t=id")
    feed.put([{**change("u", 24, 1, v=2), "unchanged": ["big"]}])
    run(spark, feed, tmp_path, "--key", "public.t=id")
    assert rows(spark, tmp_path) == {("public.t", "[1]"): {"id": 1, "big": "x" * 1000, "v": 2}}


@pytest.mark.slow
def test_another_record_fails_the_run_or_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "input")
    feed.put([change("c", 16, 1), b"hello"])
    with pytest.raises(StreamingQueryException, match="no event of headrace cdc"):
        run(spark, feed, tmp_path)
    aside = (tmp_path / "aside").as_uri()
    assert run(spark, feed, tmp_path, "--quarantine", aside) == {
        "read": 2,
        "unreadable": 1,
        "rows": 1,
    }
    (row,) = DayTable(spark, f"{aside}/").read().collect()
    assert bytes(row["data"]) == b"hello"


@pytest.mark.slow
def test_an_output_that_is_gone_is_not_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "input")
    feed.put([change("c", 16, 1)])
    run(spark, feed, tmp_path)
    Files(spark).delete((tmp_path / "output").as_uri())
    feed.put([change("c", 24, 2)])
    with pytest.raises(StreamingQueryException, match="is at micro-batch -1"):
        run(spark, feed, tmp_path)


def test_a_folder_of_headrace_compact_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Files:
        def __init__(self, _: Any) -> None:
            pass

        def read(self, uri: str) -> bytes | None:
            # Its manifest; the checkpoint is empty yet.
            return b'{"files": [], "offsets": {}}' if uri.endswith("manifest.json") else None

    monkeypatch.setattr(compact, "Files", _Files)
    options = compact.JOB.parse(arguments(tmp_path))
    spark: Any = None
    with pytest.raises(ValueError, match="does not belong to the checkpoint"):
        compact.Table(spark, options, 0).check()


@pytest.mark.parametrize("seed", range(5))
def test_the_fold_of_stored_lines_and_events_is_the_integral(seed: int) -> None:
    chance = random.Random(seed)
    batches, stored = history(chance, 80), list[Any]()
    truncated: dict[str, Any] = {}
    for batch in batches:
        events: list[Any] = []
        for event in chance.sample(batch, len(batch)):
            data = json.dumps(event).encode()
            table, key, lsn, place, *_ = compact._place(Compaction(), data, event["origin"])
            if key is None:
                truncated[table] = max((lsn, place), truncated.get(table, (0, 0)))
            else:
                events.append((table, key, None, None, lsn, place, None, data))
        # As Spark sorts them: stored lines of the same place before or after.
        rows = sorted([*((*line, None) for line in stored), *events], key=lambda row: (row[:2], row[4:6]))  # fmt: skip
        stored = list(compact._folded(rows, truncated, 0, 1))
    found = {line[:2]: json.loads(line[2]) for line in stored if not line[3]}
    assert found == integral(batches)


def test_old_tombstones_go() -> None:
    event = json.dumps(change("d", 16, 1)).encode()
    row = ("public.t", "1", None, None, 2, 0, None, event)
    old = ("public.t", "2", None, True, 1, 0, 1000, None)
    lines = list(compact._folded([row, old], {}, 5000, 3000))
    assert [line[:2] for line in lines] == [("public.t", "1")]
