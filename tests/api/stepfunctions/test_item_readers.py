"""Where the items of a distributed Map come from, and in which form its results leave it."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.evaluation import Ledger, TooMuch
from headrace.services.stepfunctions.interpreter import item_readers
from tests.api.stepfunctions.test_state_machines import (
    ended,
    mapping,
    reading,
)
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

INVENTORY = {
    "sourceBucket": "lake",
    "destinationBucket": "arn:aws:s3:::lake",
    "version": "2016-11-30",
    "fileFormat": "CSV",
    "fileSchema": "Bucket, Key, Size",
    "files": [{"key": "inventory/data.csv.gz", "size": 1, "MD5checksum": "x"}],
}
ROWS = {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}


def wait_until_nothing_is_held() -> None:
    """Wait until no Map of this process holds items: one of an earlier test may have been stopped a moment ago."""
    wait_until(lambda: item_readers.ITEMS._total == 0, within_s=30, what="the items' release")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("readers") / "data") as started:
        started.client("s3").create_bucket(Bucket="lake")
        yield started


def put(cloud: InProcessCloud, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        cloud.client("s3").put_object(Bucket="lake", Key=key, Body=body)


def run_over(
    cloud: InProcessCloud, name: str, config: dict[str, Any], key: str, operation: str = "getObject"
) -> dict[str, Any]:
    """Run a Map that gives its items back; return its description."""
    place = {"Prefix": key} if operation == "listObjectsV2" else {"Key": key}
    reader = {
        "Resource": f"arn:aws:states:::s3:{operation}",
        "ReaderConfig": config,
        "Arguments": {"Bucket": "lake", **place},
    }
    state = mapping(ItemReader=reader)
    state["ItemProcessor"]["States"]["P"]["Output"] = "{% $states.input %}"
    return ended(cloud, name, state)


@pytest.mark.parametrize(
    ("delimiter", "body"),
    [
        ("PIPE", b"b|a\n1|x,y\n2|"),
        ("SEMICOLON", b"b;a\n1;x,y\n2;"),
        ("TAB", b"b\ta\n1\tx,y\n2\t"),
        ("SPACE", b"b a\n1 x,y\n2 "),
        ("COMMA", b'b,a\n1,"x,y"\n2'),
    ],
)
def test_a_text_has_the_delimiter_that_its_reader_names(
    cloud: InProcessCloud, delimiter: str, body: bytes
):
    put(cloud, {f"csv/{delimiter}": body})
    config = {**ROWS, "CSVDelimiter": delimiter}
    done = run_over(cloud, f"csv-{delimiter}", config, f"csv/{delimiter}")
    assert json.loads(done["output"]) == [{"a": "x,y", "b": "1"}, {"a": "", "b": "2"}]


@pytest.mark.parametrize(
    ("pointer", "outcome"),
    [
        ("/shop/items", [1, 2]),
        ("/shop/by~1name/0", [7]),
        ("/shop", "Attempting to map over non-iterable node"),
        ("/nothing", "The ItemsPointer /nothing names nothing"),
        ("/shop/items/9", "The ItemsPointer /shop/items/9 names nothing"),
    ],
)
def test_a_pointer_finds_the_items_in_a_file(cloud: InProcessCloud, pointer: str, outcome: Any):
    put(cloud, {"shop": json.dumps({"shop": {"items": [1, 2], "by/name": [[7]]}}).encode()})
    config = {"InputType": "JSON", "ItemsPointer": pointer}
    dashes = str.maketrans("/~", "--")
    done = run_over(cloud, f"pointer-{pointer.strip('/').translate(dashes)}", config, "shop")
    if isinstance(outcome, str):
        assert (done["status"], done["error"]) == ("FAILED", "States.ItemReaderFailed")
        assert outcome in done["cause"]
    else:
        assert json.loads(done["output"]) == outcome
    wait_until_nothing_is_held()


@pytest.mark.parametrize("config", [{"ManifestType": "S3_INVENTORY"}, {"InputType": "MANIFEST"}])
def test_the_rows_of_an_inventory_are_items(cloud: InProcessCloud, config: dict[str, Any]):
    data = gzip.compress(b'"lake","k1","3"\n"lake","k2","4"\n')
    put(
        cloud,
        {"inventory/manifest.json": json.dumps(INVENTORY).encode(), "inventory/data.csv.gz": data},
    )
    name = f"inventory-{next(iter(config))}"
    done = run_over(cloud, name, {**config, "MaxItems": 1}, "inventory/manifest.json")
    assert json.loads(done["output"]) == [{"Bucket": "lake", "Key": "k1", "Size": "3"}]


@pytest.mark.parametrize(
    ("manifest", "cause"),
    [
        ({**INVENTORY, "fileFormat": "ORC"}, "An inventory's files must be CSV, and not ORC"),
        ({"files": []}, "The file is no manifest of an inventory of S3"),
        ([], "The file is no manifest of an inventory of S3"),
    ],
)
def test_what_is_no_inventory_fails_the_map(cloud: InProcessCloud, manifest: Any, cause: str):
    put(cloud, {"bad-manifest": json.dumps(manifest).encode()})
    done = run_over(cloud, f"bad-{len(str(manifest))}", {"InputType": "MANIFEST"}, "bad-manifest")
    assert (done["error"], done["cause"]) == ("States.ItemReaderFailed", f"{cause}.")


def test_the_files_of_a_manifest_of_athena_are_read_together(cloud: InProcessCloud):
    put(cloud, {"u/a.gz": gzip.compress(b'{"n":1}\n{"n":2}'), "u/b": b'{"n":3}\n{"n":4}'})
    put(cloud, {"u-manifest.csv": b"s3://lake/u/a.gz\ns3://lake/u/b\n"})
    config = {"InputType": "JSONL", "ManifestType": "ATHENA_DATA", "MaxItems": 3}
    done = run_over(cloud, "athena", config, "u-manifest.csv")
    assert json.loads(done["output"]) == [{"n": 1}, {"n": 2}, {"n": 3}]
    put(cloud, {"u-manifest.csv": b"lake/u/a.gz"})
    done = run_over(cloud, "athena-bad", config, "u-manifest.csv")
    assert "a line that is no address in S3: lake/u/a.gz" in done["cause"]


def test_all_parts_of_a_compressed_file_are_read_or_none(cloud: InProcessCloud):
    whole = gzip.compress(b'{"n":1}\n') + gzip.compress(b'{"n":2}\n')
    put(cloud, {"parts.gz": whole, "cut.gz": whole[:-9]})
    done = run_over(cloud, "parts", {"InputType": "JSONL"}, "parts.gz")
    assert json.loads(done["output"]) == [{"n": 1}, {"n": 2}]
    done = run_over(cloud, "cut", {"InputType": "JSONL"}, "cut.gz")
    assert done["error"] == "States.ItemReaderFailed"


def test_a_map_that_misses_one_of_its_files_leaves_room_for_others(cloud: InProcessCloud):
    put(cloud, {"there": b'{"n":1}', "some.csv": b"s3://lake/there\ns3://lake/gone\n"})
    config = {"InputType": "JSONL", "ManifestType": "ATHENA_DATA"}
    done = run_over(cloud, "misses", config, "some.csv")
    assert done["error"] == "States.ItemReaderFailed"
    wait_until_nothing_is_held()


def test_the_objects_of_a_listing_are_read_together(cloud: InProcessCloud):
    put(cloud, {"flat/": b"", "flat/1": b"a\nx\ny", "flat/2": b"a\nz"})
    config = {**ROWS, "Transformation": "LOAD_AND_FLATTEN"}
    done = run_over(cloud, "flat", config, "flat/", "listObjectsV2")
    assert json.loads(done["output"]) == [{"a": "x"}, {"a": "y"}, {"a": "z"}]
    unflat = run_over(cloud, "unflat", {"MaxItems": 2}, "flat/", "listObjectsV2")
    assert [each["Key"] for each in json.loads(unflat["output"])] == ["flat/", "flat/1"]


def test_the_rows_of_a_parquet_file_are_items(cloud: InProcessCloud):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    at = datetime(2026, 11, 27, 12, tzinfo=UTC)
    values = [
        {"n": n, "text": "é" * n, "at": at, "sum": Decimal("1.50"), "raw": b"\xff", "tags": ["a"]}
        for n in range(5)
    ]
    written = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(values), written, row_group_size=2)
    put(cloud, {"rows.parquet": written.getvalue()})
    done = run_over(cloud, "parquet", {"InputType": "PARQUET", "MaxItems": 4}, "rows.parquet")
    plain = {"at": "2026-11-27T12:00:00+00:00", "sum": 1.5, "raw": "/w==", "tags": ["a"]}
    expected = [{"n": n, "text": "é" * n, **plain} for n in range(4)]
    assert json.loads(done["output"]) == expected
    put(cloud, {"no.parquet": b"PAR1 no"})
    done = run_over(cloud, "no-parquet", {"InputType": "PARQUET"}, "no.parquet")
    assert "The file is no PARQUET" in done["cause"]


def test_more_parquet_than_one_answer_of_the_reader_holds():
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    written = io.BytesIO()
    table = pyarrow.table({"text": [f"{n}" + "x" * 3_000_000 for n in range(4)]})
    parquet.write_table(table, written, row_group_size=3)
    items = item_readers._Items(type("Env", (), {})(), 100)
    item_readers._read_parquet(written.getvalue(), {}, items)
    assert [row["text"][0] for row in items.values] == ["0", "1", "2", "3"]
    item_readers.ITEMS.give_back(items._holder)


def test_a_compressed_bomb_fails_the_map(cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(item_readers, "_MOST_INFLATED_BYTES", 1000)
    put(cloud, {"bomb": gzip.compress(b"1\n" * 100_000)})
    done = run_over(cloud, "bomb", {"InputType": "JSONL"}, "bomb")
    assert "more items than headrace keeps in memory" in done["cause"]
    wait_until_nothing_is_held()


WHOLE = {"Status": "SUCCEEDED", "Input": "[5]", "Output": "[5]"}


@pytest.mark.parametrize(
    ("config", "body"),
    [
        ({"Transformation": "FLATTEN", "OutputType": "JSONL"}, "1\n2\n5"),
        ({"Transformation": "FLATTEN", "OutputType": "JSON"}, "[1, 2, 5]"),
        ({"Transformation": "COMPACT", "OutputType": "JSONL"}, "[1, 2]\n[5]"),
        ({"Transformation": "COMPACT"}, "[[1, 2], [5]]"),
        ({"OutputType": "JSON"}, None),
    ],
)
@pytest.mark.parametrize("language", ["JSONata", "JSONPath"])
def test_results_are_written_in_the_form_of_the_writers_config(
    cloud: InProcessCloud, config: dict[str, Any], body: str | None, language: str
):
    s3 = cloud.client("s3")
    arguments = "Arguments" if language == "JSONata" else "Parameters"
    writer = {
        "Resource": "arn:aws:states:::s3:putObject",
        arguments: {"Bucket": "lake", "Prefix": "out"},
        "WriterConfig": config,
    }
    state = mapping(ResultWriter=writer, QueryLanguage=language)
    state["ItemProcessor"]["States"] = {"P": {"Type": "Pass", "End": True}}
    given = {"Items": [[1, 2], [5]]} if language == "JSONata" else {"ItemsPath": "$.items"}
    name = f"write-{language}-{'-'.join(config.values())}"
    done = ended(cloud, name, {**state, **given}, {"items": [[1, 2], [5]]})
    where = json.loads(done["output"])["ResultWriterDetails"]
    manifest = json.loads(s3.get_object(**where)["Body"].read())
    (file,) = manifest["ResultFiles"]["SUCCEEDED"]
    written = s3.get_object(Bucket="lake", Key=file["Key"])["Body"].read().decode()
    assert file["Key"].endswith(".jsonl" if config.get("OutputType") == "JSONL" else ".json")
    if body is None:
        assert json.loads(written)[1].items() >= WHOLE.items()
    else:
        assert written == body


@pytest.mark.parametrize(
    ("form", "kept"), [("NONE", None), ("COMPACT", [[1, 2], [5]]), ("FLATTEN", [1, 2, 5])]
)
def test_a_writer_without_a_bucket_forms_the_states_own_result(
    cloud: InProcessCloud, form: str, kept: Any
):
    writer = {"WriterConfig": {"Transformation": form, "OutputType": "JSON"}}
    state = mapping(ResultWriter=writer, Items=[[1, 2], [5], 6], ToleratedFailureCount=1)
    fails = {"Type": "Fail", "Error": "Six"}
    choice = {
        "Type": "Choice",
        "Choices": [{"Condition": "{% $states.input = 6 %}", "Next": "F"}],
        "Default": "P",
    }
    passes = {"P": {"Type": "Pass", "End": True}}
    state["ItemProcessor"] |= {"StartAt": "C", "States": {"C": choice, "F": fails, **passes}}
    done = ended(cloud, f"form-{form}", state)
    *results, failed = json.loads(done["output"])
    assert (failed["Status"], failed["Error"]) == ("FAILED", "Six")
    assert failed["StateMachineArn"].partition(":stateMachine:")[2].count("/") == 1
    if kept is None:
        assert results[1].items() >= WHOLE.items()
    else:
        assert results == kept


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"ItemReader": {"ReaderConfig": {"InputType": "XML"}}},
            "one of the following: [CSV, JSON",
        ),
        ({"ItemReader": {"ReaderConfig": {"Colour": 1}}}, "Field 'Colour' is not supported"),
        ({"ItemReader": {"ReaderConfig": 5}}, "Expected value of type [Object]"),
        ({"ResultWriter": {"WriterConfig": {"Transformation": "X"}}}, "[NONE, COMPACT, FLATTEN]"),
        ({"ResultWriter": {}}, "These fields are required: [Resource or WriterConfig]"),
    ],
)
def test_a_reader_or_writer_that_no_map_can_have_is_refused(
    cloud: InProcessCloud, fields: dict[str, Any], message: str
):
    machine = {"QueryLanguage": "JSONata", "StartAt": "M", "States": {"M": mapping(**fields)}}
    answer = cloud.client("stepfunctions").validate_state_machine_definition(
        definition=json.dumps(machine)
    )
    assert answer["result"] == "FAIL"
    assert any(message in each["message"] for each in answer["diagnostics"])


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    little = Ledger(one=1_000_000, all_together=2_000_000)
    monkeypatch.setattr(item_readers, "ITEMS", little)


@pytest.mark.usefixtures("little_memory")
def test_lines_are_refused_before_all_are_in_memory():
    items = item_readers._Items(SimpleNamespace(), None)
    tracemalloc.start()
    try:
        with pytest.raises(TooMuch):
            item_readers._read_lines(b"12\n" * 600_000, {}, items)
        assert tracemalloc.get_traced_memory()[1] < 18_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("little_memory")
def test_a_manifest_of_countless_objects_is_refused():
    asked: list[str] = []

    def get(bucket: str, key: str) -> bytes:
        asked.append(key)
        return b"[]"

    items = item_readers._Items(SimpleNamespace(), None)
    places = item_readers._split_uris("s3://lake/empty\n" * 10_000)
    with pytest.raises(TooMuch):
        item_readers._read_all(SimpleNamespace(get=get), places, {"InputType": "JSON"}, items)  # type: ignore[arg-type]
    assert 0 < len(asked) < 2000


@pytest.mark.usefixtures("little_memory")
def test_a_manifest_that_swells_as_it_is_parsed_is_refused():
    items = item_readers._Items(SimpleNamespace(), None)
    with pytest.raises(TooMuch):
        item_readers._read_inventory(
            SimpleNamespace(),  # type: ignore[arg-type]
            b'{"fileFormat": "CSV", "fileSchema": [%s[]]}' % (b"[]," * 100_000),
            items,
        )


def test_an_object_that_is_too_large_is_not_read(
    cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch
):
    put(cloud, {"large.json": b"[1, 2, 3, 4, 5, 6]"})
    monkeypatch.setattr(item_readers, "_MOST_INFLATED_BYTES", 10)
    done = run_over(cloud, "large", {"InputType": "JSON"}, "large.json")
    assert done["error"] == "States.ItemReaderFailed"
    assert done["cause"] == "The file is larger than headrace keeps in memory."


COLUMNS = b",".join(b"%d" % n for n in range(3000))
FIRST_ROW = {"InputType": "CSV", "CSVHeaderLocation": "FIRST_ROW"}


@pytest.mark.parametrize(
    ("name", "body", "config", "cause"),
    [
        ("wide-rows", COLUMNS + b"\nx" * 2000, FIRST_ROW, "more items"),
        ("hidden-header", b'"\n",' + COLUMNS + b"\nx" * 2000, FIRST_ROW, "more items"),
        ("many-rows", b"a" + b"\nx" * 500_000, FIRST_ROW, "more items"),
        ("many-objects", b"[" + b"{}," * 3_000_000 + b"{}]", {"InputType": "JSON"}, "more items"),
        ("many-lines", b"{}\n" * 300_000, {"InputType": "JSONL"}, "more items"),
        ("deep", b"[" * 200_000, {"InputType": "JSON"}, "The file is no JSON"),
        ("deep-line", b"[" * 200_000, {"InputType": "JSONL"}, "A line of the file is no JSON value"),
        ("no-json", b"[1", {"InputType": "JSON"}, "The file is no JSON"),
    ],
)  # fmt: skip
def test_items_that_cannot_be_held_fail_the_map(
    cloud: InProcessCloud, name: str, body: bytes, config: dict[str, Any], cause: str, monkeypatch: pytest.MonkeyPatch
):  # fmt: skip
    if name == "many-lines":  # lines are dear to read; the others meet the real bound
        monkeypatch.setattr(item_readers.ITEMS, "_one", 2**24)
    done = reading(cloud, name, body, config)
    assert (done["status"], done["error"]) == ("FAILED", "States.ItemReaderFailed")
    assert cause in done["cause"]
    wait_until_nothing_is_held()


@pytest.mark.parametrize(
    ("name", "body", "config"),
    [
        ("some-rows", b"a,b" + b"\nx,y" * 600_000, {**FIRST_ROW, "MaxItems": 3}),
        ("some-lines", b"1\n\n2\n3\nno json", {"InputType": "JSONL", "MaxItems": 3}),
        ("three", b"[1,2,3]", {"InputType": "JSON"}),
    ],
)
def test_max_items_are_what_counts(
    cloud: InProcessCloud, name: str, body: bytes, config: dict[str, Any]
):
    done = reading(cloud, name, body, config)
    assert (done["status"], done.get("output")) == ("SUCCEEDED", "[1,1,1]"), done
    wait_until_nothing_is_held()
