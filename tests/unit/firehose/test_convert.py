"""JSON to Parquet."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.core.ports import StreamRecord, TableSchema
from headrace.services.firehose import convert
from headrace.services.firehose.hive import UnknownType


def rows(datas: list[bytes], *columns: tuple[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    records = [StreamRecord(str(i), "k", data, 1000 + i) for i, data in enumerate(datas)]
    made = convert.to_parquet(records, TableSchema(columns), compression="SNAPPY")
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
        ("date", "2026-01-02", date(2026, 1, 2)),
        ("decimal(6,2)", "12.345", Decimal("12.34")),
        ("array<int>", [1, None], [1, None]),
        ("struct<a:int,b:array<string>>", {"A": 1, "b": ["x"]}, {"a": 1, "b": ["x"]}),
        ("map<string,int>", {"x": 1}, [("x", 1)]),
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
    assert failed[1] == "a: 3000000000 is not an integer of 32 bits"


def test_several_objects_in_a_record_are_several_rows():
    found, failed = rows([b'{"a": 1}{"a": 2}\n{"a": 3}'], ("a", "int"))
    assert ([row["a"] for row in found], failed) == ([1, 2, 3], [])


def test_an_unknown_column_type_is_said():
    with pytest.raises(UnknownType):
        rows([b"{}"], ("a", "interval"))
