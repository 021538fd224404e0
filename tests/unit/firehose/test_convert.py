"""JSON to Parquet."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.ports import TableSchema
from headrace.services.firehose import convert
from headrace.services.firehose.convert import UnknownType
from headrace.services.firehose.serde import JsonReadOptions, ParquetWriteOptions
from tests.unit.firehose.helpers import record_of


def rows(datas: list[bytes], *columns: tuple[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    records = [record_of(str(i), "k", data, 1000 + i) for i, data in enumerate(datas)]
    made = convert.convert(records, TableSchema(columns))
    table = pq.read_table(io.BytesIO(made.data))
    assert table.num_rows == made.rows
    return table.to_pylist(), [failure.message for failure in made.failed]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "x", "x"),
        ("string", 5, "5"),
        ("string", {"a": 1}, '{"a":1}'),
        ("int", 5, 5),
        ("int", "5", 5),
        ("int", 5.0, 5),
        ("bigint", 2**40, 2**40),
        ("double", 1, 1.0),
        ("boolean", True, True),
        ("boolean", "false", False),
        ("timestamp", "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5)),
        ("timestamp", 0, datetime(1970, 1, 1)),
        ("timestamp", 1518033528.5, datetime(2018, 2, 7, 19, 58, 48, 500000)),
        ("timestamp", 1518033528123, datetime(2018, 2, 7, 19, 58, 48, 123000)),
        ("timestamp", "2017-2-7 15:13:01.14", datetime(2017, 2, 7, 15, 13, 1, 140000)),
        ("timestamp", "2017-02-07T15:13:01.39256Z", datetime(2017, 2, 7, 15, 13, 1, 392560)),
        ("timestamp", "2017-02-07T15:13:01+02:00", datetime(2017, 2, 7, 13, 13, 1)),
        ("timestamp", "2026-9-7 1:2:3", datetime(2026, 9, 7, 1, 2, 3)),
        ("timestamp", "1518033528", datetime(2018, 2, 7, 19, 58, 48)),
        ("timestamp", "1518033528123", datetime(2018, 2, 7, 19, 58, 48, 123000)),
        ("timestamp", 10**12, datetime(2001, 9, 9, 1, 46, 40)),
        ("timestamp", 5 * 10**9, datetime(2128, 6, 11, 8, 53, 20)),
        ("date", "2026-9-7", date(2026, 9, 7)),
        ("string", {"Outer": [{"Inner": 1}]}, '{"outer":[{"inner":1}]}'),
        ("array<string>", "alone", ["alone"]),
        ("array<struct<sku:string>>", {"SKU": "x"}, [{"sku": "x"}]),
        ("struct<name:string,age:int>", ["Zoe", "9", "too much"], {"name": "Zoe", "age": 9}),
        ("struct<name:string,age:int>", ["Zoe"], {"name": "Zoe", "age": None}),
        ("struct<`order`:string>", {"Order": "x"}, {"order": "x"}),
        ("map<string,array<string>>", {"MixedKey": "v"}, [("mixedkey", ["v"])]),
        ("date", "2026-01-02", date(2026, 1, 2)),
        ("decimal(6,2)", "12.345", Decimal("12.34")),
        ("array<int>", [1, None], [1, None]),
        ("struct<a:int,b:array<string>>", {"A": 1, "b": ["x"]}, {"a": 1, "b": ["x"]}),
        ("map<string,int>", {"x": 1}, [("x", 1)]),
        ("map<int,double>", {"5": 1}, [(5, 1.0)]),
    ],
)
def test_a_value_fits_its_column(kind: str, value: Any, expected: Any):
    found, failed = rows([json.dumps({"c": value}).encode()], ("c", kind))
    assert (found, failed) == ([{"c": expected}], [])


def test_keys_match_without_case_missing_ones_are_null_and_unknown_ones_dropped():
    found, _ = rows([b'{"Carrier": "AA", "x": 1}'], ("carrier", "string"), ("flight", "int"))
    assert found == [{"carrier": "AA", "flight": None}]


def test_a_bad_record_is_left_out_whole_and_stops_nobody():
    datas = [b'{"a": 1}', b"not json", b'{"a": 3000000000}', b"[1]", b"", b'{"a": 2}']
    found, failed = rows(datas, ("a", "int"))
    assert found == [{"a": 1}, {"a": 2}]
    assert len(failed) == 4
    assert failed[1].startswith("Data does not match the schema. 3000000000 is not")


def test_several_objects_in_a_record_are_several_rows():
    found, failed = rows([b'{"a": 1}{"a": 2}\n{"a": 3}'], ("a", "int"))
    assert ([row["a"] for row in found], failed) == ([1, 2, 3], [])


def test_an_unknown_column_type_is_said():
    with pytest.raises(UnknownType):
        rows([b"{}"], ("a", "interval"))


def test_types_nested_without_end_are_said():
    with pytest.raises(UnknownType, match="50 deep"):
        rows([b"{}"], ("a", "array<" * 20_000 + "int" + ">" * 20_000))


def test_options_of_the_openx_serde():
    records = [record_of("1", "k", b'{"Is.Late": true, "at": 5}', 0)]
    schema = TableSchema((("is_late", "boolean"), ("when_", "int")))
    reading = JsonReadOptions(dots_to_underscores=True, key_of={"when_": "at"})
    made = convert.convert(records, schema, reading)
    assert read(made.data).to_pylist() == [{"is_late": True, "when_": 5}]
    made = convert.convert(records, schema, JsonReadOptions(case_insensitive=False, key_of={}))
    assert read(made.data).to_pylist() == [{"is_late": None, "when_": None}]


OPENX, HIVE = JsonReadOptions(), JsonReadOptions(hive=True)
EXACT = JsonReadOptions(case_insensitive=False)


@pytest.mark.parametrize(
    ("reading", "kind", "value", "message"),
    [
        (HIVE, "array<string>", "solo", "java.io.IOException: Start of Array expected"),
        (
            HIVE,
            "map<string,array<string>>",
            {"k": "v"},
            "java.io.IOException: Start of Array expected",
        ),
        (HIVE, "struct<a:int>", [1], "java.io.IOException: Start of Object expected"),
        (HIVE, "struct<a:int>", 42, "java.io.IOException: Start of Object expected"),
        (HIVE, "map<string,int>", [], "java.io.IOException: Start of Object expected"),
        *(
            (
                HIVE,
                kind,
                "7",
                "Current token (VALUE_STRING) not numeric, can not use numeric value accessors",
            )
            for kind in ("tinyint", "int", "bigint", "double", "float", "decimal(4,2)")
        ),
        (HIVE, "timestamp", 1518033528, 'For input string: "1518033528"'),
        (HIVE, "timestamp", "2026-09-07T12:00:02Z", 'For input string: "2026-09-07T12:00:02Z"'),
        (OPENX, "struct<a:int>", 42, "Data is not JSONObject  but java.lang.Long with value 42"),
        (OPENX, "array<struct<q:int>>", [{"q": "oops"}], 'For input string: "oops"'),
        (OPENX, "double", "oops", 'For input string: "oops"'),
    ],
)
def test_a_serde_refuses_a_value_in_awss_words(
    reading: JsonReadOptions, kind: str, value: Any, message: str
):
    made = convert.convert(
        [record_of("1", "k", json.dumps({"c": value}).encode(), 0)],
        TableSchema((("c", kind),)),
        reading,
    )
    (failure,) = made.failed
    assert failure.code == "DataFormatConversion.MalformedData"
    assert failure.message == f"Data does not match the schema. {message}"


@pytest.mark.parametrize(("kind", "value"), [("string", {"a": 1}), ("array<string>", [[1]])])
def test_the_hive_serde_makes_no_text_of_objects_and_lists(kind: str, value: Any):
    record = record_of("1", "k", json.dumps({"c": value}).encode(), 0)
    made = convert.convert([record], TableSchema((("c", kind),)), HIVE)
    assert made.failed[0].message == (
        "One or more fields have incorrect format. Exception when validating field (root)"
    )


@pytest.mark.parametrize(
    ("reading", "kind", "value", "expected"),
    [
        (HIVE, "array<string>", [1, None], ["1", None]),
        (
            HIVE,
            "struct<name:string,age:int>",
            {"NAME": "Bob", "x": 1},
            {"name": "Bob", "age": None},
        ),
        (HIVE, "map<string,int>", {"MixedKey": 1}, [("MixedKey", 1)]),
        (HIVE, "map<int,int>", {"5": 1}, [(5, 1)]),
        (HIVE, "timestamp", "2026-9-7 1:2:3.5", datetime(2026, 9, 7, 1, 2, 3, 500000)),
        (EXACT, "struct<name:string,age:int>", {"NAME": "Bob", "age": 2}, {"name": None, "age": 2}),
        (EXACT, "map<string,int>", {"MixedKey": 1}, [("MixedKey", 1)]),
        (EXACT, "string", {"Key": 1}, '{"Key":1}'),
    ],
)
def test_a_serde_keeps_or_lowers_keys_by_its_options(
    reading: JsonReadOptions, kind: str, value: Any, expected: Any
):
    record = record_of("1", "k", json.dumps({"c": value}).encode(), 0)
    made = convert.convert([record], TableSchema((("c", kind),)), reading)
    assert (read(made.data).to_pylist(), made.failed) == ([{"c": expected}], [])


def test_options_of_the_parquet_serde():
    records = [record_of("1", "k", b'{"a": "x"}', 0)]
    schema = TableSchema((("a", "string"),))
    for compression, expected in (("GZIP", "GZIP"), ("NONE", "UNCOMPRESSED")):
        made = convert.convert(
            records, schema, None, ParquetWriteOptions(compression=compression, dictionary=False)
        )
        chunk = pq.ParquetFile(io.BytesIO(made.data)).metadata.row_group(0).column(0)
        assert (chunk.compression, made.encoding) == (expected, None)
        assert not chunk.has_dictionary_page
    assert convert.convert(records, schema).encoding == "hadoop-snappy"


def test_timestamps_are_instants_as_firehose_writes_them():
    records = [record_of("1", "k", b'{"a": 0}', 0)]
    made = convert.convert(records, TableSchema((("a", "timestamp"),)))
    (column,) = [pq.ParquetFile(io.BytesIO(made.data)).schema.column(0)]
    assert column.physical_type == "INT96"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", '"0001-01-01T00:00:00Z"'),
        ("timestamp", "1e300"),
        ("timestamp", '"2026-13-01 00:00:00"'),
        ("date", '"yesterday"'),
        ("string", '"\\ud800"'),
        ("decimal(4,2)", "12345678"),
        ("decimal(4,2)", '"NaN"'),
        ("bigint", "1e30"),
        ("int", "true"),
        ("double", '"1e"'),
        ("boolean", "1"),
        ("array<tinyint>", "[1, 300]"),
        ("struct<a:timestamp>", '{"a": "0001-01-01"}'),
        ("map<int,int>", '{"x": 1}'),
        ("array<int>", "[" * 5000 + "]" * 5000),
        ("array<int>", "{}"),
        ("int", '"5.0"'),
        ("int", '"1_0"'),
        ("double", '"1_0"'),
        ("timestamp", '"2026-9-7T12:00:02Z"'),
        ("timestamp", '"2026-09-07"'),
        ("timestamp", "true"),
        ("date", '"20180207"'),
        ("date", "20180207"),
        ("date", '"2026-09-07T12:00:00"'),
        ("struct<a:int>", "42"),
        ("map<string,int>", "[]"),
    ],
)
def test_a_value_that_no_column_takes_costs_its_record_and_nothing_else(kind: str, value: str):
    datas = [b'{"c": null, "n": 1}', f'{{"c": {value}, "n": 2}}'.encode(), b'{"n": 3}']
    found, failed = rows(datas, ("n", "int"), ("c", kind))
    assert [row["n"] for row in found] == [1, 3]
    assert len(failed) == 1


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "a": st.none() | st.integers() | st.text() | st.floats() | st.booleans(),
                "B": st.none() | st.text() | st.lists(st.integers()),
                "other": st.integers(),
            },
        ),
        max_size=20,
    )
)
def test_any_json_is_a_row_or_a_failure_and_one_record_does_not_touch_another(
    items: list[dict[str, Any]],
):
    columns = (("a", "bigint"), ("b", "string"))
    datas = [json.dumps(item).encode() for item in items]
    together, failed = rows(datas, *columns)
    apart = [rows([data], *columns) for data in datas]
    assert together == [row for found, _ in apart for row in found]
    assert failed == [message for _, messages in apart for message in messages]


def read(data: bytes) -> Any:
    return pq.read_table(io.BytesIO(data))
