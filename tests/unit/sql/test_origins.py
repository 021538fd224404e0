"""Columns that a text does not name: of records, of Glue's tables and schemas; and records of Avro."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sql.analysis import Analysis
from headrace.sql.avro import BAD, avro_decoder, avro_encoder
from headrace.sql.fold import run
from headrace.sql.inference import GlueTable, Nothing, Schema, columns_of_records
from headrace.sql.parsing import parse
from headrace.sql.records import Record
from headrace.sql.types import Location, SqlError

OLD = {"type": "record", "name": "f", "fields": [{"name": "id", "type": "string"}]}
NEW: dict[str, Any] = {
    "type": "record", "name": "f", "namespace": "x",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}},
        {"name": "next", "type": ["null", "k"]},
    ],
}  # fmt: skip
VERSIONS = tuple(
    (str(uuid.UUID(int=number)), json.dumps(one)) for number, one in enumerate((OLD, NEW), 1)
)
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"}, "n": {"type": ["integer", "null"]}, "tags": {"type": "array", "items": {"type": "string"}},
        "any": {}, "counts": {"type": "object", "additionalProperties": {"type": "number"}},
    },
}  # fmt: skip


@dataclass
class Known(Nothing):
    """A cloud of one stream, one table and one schema."""

    data: Sequence[bytes] = ()
    failures: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    glue_table: GlueTable = field(default_factory=lambda: GlueTable((), "", ""))
    glue_schema: Schema = field(default_factory=lambda: Schema("AVRO", VERSIONS))

    def records(self, stream: str, location: Location) -> Sequence[bytes]:
        return self.data

    def table(self, database: str, name: str, location: Location) -> GlueTable:
        assert (database, name) == ("lake", "flights")
        return self.glue_table

    def schema(self, registry: str, name: str, version: int | None, location: Location) -> Schema:
        assert name == "f"
        return Schema(self.glue_schema.format, self.glue_schema.versions[:version])


def analyse(text: str, outside: Known) -> Analysis:
    analysis = Analysis(outside=outside)
    for statement in parse(text, analysis.words):
        analysis.take(statement)
    return analysis


def columns(analysis: Analysis, name: str) -> dict[str, str]:
    return {one.name: str(one.type) for one in analysis.relations[name].columns}


def test_columns_are_inferred_from_records() -> None:
    records = [
        b'{"id": "a", "n": 1, "m": 2, "of": {"x": [1, 2.5], "none": null}, "mixed": 1}', b"no JSON", b"[]",
        b'{"id": "b", "m": 2.5, "late": true, "mixed": {"a": 1}, "of": {"y": "q"}, "empty": {}, "big": 9223372036854775808}',
    ]  # fmt: skip
    text = """CREATE STREAM flights FROM STREAM 'flights' INFER WITH (key = 'id', timestamp = 'n');
    CREATE STREAM x AS SELECT id, of->y, mixed FROM flights WHERE late;"""
    analysis = analyse(text, Known(records))
    assert columns(analysis, "flights") == {
        "id": "STRING", "n": "BIGINT", "m": "DOUBLE", "of": "STRUCT<x ARRAY<DOUBLE>, none STRING, y STRING>",
        "mixed": "STRING", "late": "BOOLEAN", "empty": "STRING", "big": "DOUBLE",
    }  # fmt: skip
    assert "inferred from 4 records of flights" in analysis.notes[0]
    late = b'{"id": "b", "n": 1, "late": true, "mixed": {"a": 1}, "of": {"y": "q"}}'
    fold = run(analysis.script(), [("flights", Record(one)) for one in (late, b'{"n": "x"}')])
    assert [row.columns for row in fold.results["x"]] == [{"id": "b", "y": "q", "mixed": '{"a":1}'}]
    # A record that does not fit any more is counted.
    assert fold.unreadable == {"flights": 1}


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([], "the stream s has no records to infer columns from"),
        ([b"x", b"5", b"[" * 100_000], "none of the first 3 records of s is an object of JSON"),
        ([b'{"a": 1, "A": 2}'], "which are one name to SQL"),
        ([b"{}"], "s has no columns"),
        ([json.dumps({f"c{i}": i for i in range(2000)}).encode()], "1,000 members or more"),
    ],
)
def test_records_without_columns_are_refused_with_the_place(
    records: list[bytes], sentence: str
) -> None:
    with pytest.raises(SqlError, match=f"line 2, column 29: .*{sentence}"):
        analyse("\nCREATE STREAM x FROM STREAM 's' INFER;", Known(records))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=20)
@given(st.lists(st.dictionaries(st.text("cde", min_size=1), JSON_VALUES, min_size=1), min_size=1))
def test_every_record_that_columns_are_inferred_from_can_be_read(records: list[Any]) -> None:
    data = [json.dumps(one).encode() for one in records]
    columns_of_records("s", data, Location())
    analysis = analyse(
        "CREATE STREAM s FROM STREAM 's' INFER; CREATE STREAM x AS SELECT * FROM s;", Known(data)
    )
    fold = run(analysis.script(), [("s", Record(one)) for one in data])
    assert (len(fold.results["x"]), fold.unreadable) == (len(data), {})


def test_a_table_of_glue_gives_columns_stream_and_format() -> None:
    table = GlueTable(
        (("id", "string"), ("n", "int"), ("d", "decimal(5, 2)"), ("s", "struct<a:int,b:array<map<string,double>>>")),
        "arrivals", "JSON",
    )  # fmt: skip
    text = "CREATE STREAM x (id VARCHAR KEY) WITH (glue_table = 'lake.flights');"
    analysis = analyse(text, Known(glue_table=table))
    relation = analysis.relations["x"]
    assert columns(analysis, "x") == {
        "id": "STRING", "n": "INT", "d": "DECIMAL(5, 2)", "s": "STRUCT<a INT, b ARRAY<MAP<STRING, DOUBLE>>>",
    }  # fmt: skip
    assert (relation.stream, relation.format) == ("arrivals", "JSON")
    of_lines = Known(glue_table=GlueTable((("id", "string"), ("n", "int")), "lines", "CSV", "|"))
    lines = analyse(text, of_lines).relations["x"]
    assert (lines.stream, lines.format, lines.delimiter) == ("lines", "CSV", "|")
    with pytest.raises(SqlError, match="a line of CSV has no STRUCT, such as s"):
        analyse(text.replace("WITH (", "WITH (format = 'CSV', "), Known(glue_table=table))
    assert [one.name for one in relation.key_columns()] == ["id"]
    for type_ in ("interval", "array<int", "struct<a>", "uniontype<int,string>", "map<int>", ""):
        with pytest.raises(SqlError, match="which SQL has not"):
            analyse(text, Known(glue_table=GlueTable((("q", type_),), "s", "JSON")))
    for format_ in ("AVRO", "PARQUET"):
        known = Known(glue_table=GlueTable((("q", "int"),), "s", format_))
        with pytest.raises(SqlError, match=f"the table lake.flights is {format_}, not"):
            analyse(text, known)
        relation = analyse(text.replace("WITH (", "WITH (format = 'JSON', "), known).relations["x"]
        assert relation.format == "JSON"


def test_records_are_read_by_the_version_of_the_schema_that_they_name() -> None:
    text = """CREATE STREAM x WITH (stream = 'x', registry_name = 'r', schema_name = 'f');
    CREATE STREAM y AS SELECT * FROM x;"""
    analysis = analyse(text, Known())
    assert columns(analysis, "x") == {
        "id": "STRING", "at": "TIMESTAMP", "price": "DECIMAL(6, 2)", "kind": "STRING", "next": "STRING",
    }  # fmt: skip
    old, unknown = (bytes([3, 0]) + uuid.UUID(int=number).bytes for number in (1, 9))
    plain = b"\x02q\x02\x02\x04\x04\xd2\x02\x02\x00"
    records = [old + b"\x04hi", plain, unknown + b"\x04hi", b"", b"{}"]
    fold = run(analysis.script(), [("x", Record(one)) for one in records])
    assert [row.columns for row in fold.results["y"]] == [
        {"id": "hi", "at": None, "price": None, "kind": None, "next": None},
        {"id": "q", "at": "1970-01-01T00:00:00.000Z", "price": 12.34, "kind": "B", "next": "A"},
    ]
    assert fold.unreadable == {"x": 3}
    first = analyse(text.replace("'f')", "'f', schema_version = 1)"), Known())
    assert columns(first, "x") == {"id": "STRING"}


def test_a_json_schema_gives_columns() -> None:
    known = Known(glue_schema=Schema("JSON", (("v", json.dumps(JSON_SCHEMA)),)))
    analysis = analyse("CREATE STREAM x WITH (stream = 'x', schema_name = 'f');", known)
    assert columns(analysis, "x") == {
        "id": "STRING", "n": "BIGINT", "tags": "ARRAY<STRING>", "any": "STRING", "counts": "MAP<STRING, DOUBLE>",
    }  # fmt: skip
    assert analysis.relations["x"].format == "JSON"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("CREATE STREAM x WITH (stream = 'x');", "x has no columns: name them, or FROM STREAM"),
        ("CREATE STREAM x WITH (glue_table = 'lake.flights', schema_name = 'f');", "both give columns"),
        ("CREATE STREAM x WITH (schema_name = 'f', schema_version = 'a');", "is a number from 1 on"),
        ("CREATE STREAM x WITH (stream = 's', schema_nam = 'f');", "did you mean 'schema_name'"),
        ("CREATE STREAM x FROM STREAM 's' INFER WITH (format = 'AVRO');", "INFER reads JSON"),
        ("CREATE STREAM x FROM STREAM 's' INFER WITH (stream = 't');", "FROM STREAM names the stream"),
        ("CREATE STREAM x (`a b` INT) WITH (stream = 's', format = 'AVRO');", "'a b' of x is no name in Avro"),
        ("CREATE STREAM x (a MAP<INT, INT>) WITH (stream = 's', format = 'AVRO');", "has keys of STRING"),
        ("CREATE STREAM s (a INT) WITH (stream = 's'); CREATE STREAM x WITH (schema_name = 'f') AS SELECT a FROM s;",
         "a query's columns are those that it selects"),
    ],
)  # fmt: skip
def test_what_gives_no_columns_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(SqlError, match=sentence):
        analyse(text, Known([b'{"a": 1}']))


@pytest.mark.parametrize(
    "schema",
    [Schema("PROTOBUF", (("v", ""),)), Schema("AVRO", (("v", '"int"'),)), Schema("AVRO", (("v", "{"),)),
     Schema("AVRO", (("v", '{"type": "record", "name": "f", "fields": [{"name": "a", "type": "q"}]}'),)),
     Schema("AVRO", (("v", "[" * 50_000),))],
)  # fmt: skip
def test_a_schema_that_is_no_record_is_refused(schema: Schema) -> None:
    with pytest.raises(SqlError, match="the schema f "):
        analyse(
            "CREATE STREAM x WITH (stream = 'x', schema_name = 'f');", Known(glue_schema=schema)
        )


@pytest.fixture(scope="module")
def decode() -> Callable[[bytes], Any]:
    return avro_decoder({VERSIONS[0][0]: VERSIONS[0][1], "": VERSIONS[1][1]})


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_of_avro_or_none(
    decode: Callable[[bytes], Any], data: bytes
) -> None:
    try:
        json.dumps(decode(data))
    except BAD:
        return


ROWS = st.fixed_dictionaries({
    "a": st.none() | st.integers(-(2**31), 2**31 - 1), "b": st.none() | st.integers(-(2**63), 2**63 - 1),
    "c": st.none() | st.text(), "d": st.none() | st.floats(allow_nan=False), "e": st.none() | st.booleans(),
    "f": st.none() | st.lists(st.none() | st.text(max_size=3)),
    "g": st.none() | st.dictionaries(st.text(max_size=3), st.none() | st.fixed_dictionaries({"x": st.integers(0, 9)})),
    "h": st.none() | st.decimals(-999, 999, places=2).map(str), "i": st.none() | st.dates().map(str),
})  # fmt: skip


@given(ROWS)
def test_what_is_written_as_avro_is_read_again(row: dict[str, Any]) -> None:
    text = """CREATE STREAM s (a INT, b BIGINT, c VARCHAR, d DOUBLE, e BOOLEAN, f ARRAY<VARCHAR>,
      g MAP<VARCHAR, STRUCT<x INT>>, h DECIMAL(5, 2), i DATE) WITH (stream = 's', format = 'AVRO');"""
    ((_, schema),) = analyse(text, Known()).relations["s"].schemas
    assert avro_decoder({"": schema})(avro_encoder(schema)(row)) == row
