"""Which JSON values become which values of a column. The sound ones are the examples of AWS's guide.

docs.aws.amazon.com/firehose/latest/dev/apache-iceberg-destination-supp.html (documented, read 2026).
"""

from __future__ import annotations

import base64
import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import types
from pyiceberg.schema import Schema

from headrace.services.firehose.destinations.iceberg_values import convert_rows

AT = datetime(2024, 9, 4, 18, 56, 15, 99000)
DATA = bytes(range(256)) * 2
STRUCT = types.StructType(
    types.NestedField(2, "n", types.IntegerType(), required=False),
    types.NestedField(3, "s", types.StringType(), required=True),
)
LIST = types.ListType(2, types.IntegerType(), element_required=False)
MAP = types.MapType(2, types.StringType(), 3, types.LongType(), value_required=True)
UUID = "21c5521c-a6d4-48d4-b2c8-7f6d842f72c3"
SOUND: list[tuple[Any, Any, Any]] = [
    (types.BooleanType(), True, True),
    (types.BooleanType(), "false", False),
    (types.BooleanType(), 1, True),
    (types.BooleanType(), 0, False),
    (types.IntegerType(), 7, 7),
    (types.IntegerType(), "7", 7),
    (types.IntegerType(), -(2**31), -(2**31)),
    (types.LongType(), "8", 8),
    (types.FloatType(), "0.5", 0.5),
    (types.DoubleType(), 9.18477568715142, 9.18477568715142),
    (types.DoubleType(), "9.18477568715142", 9.18477568715142),
    (types.DoubleType(), 3, 3.0),
    (types.DecimalType(5, 2), "123.4", Decimal("123.40")),
    (types.DecimalType(5, 2), 1.25, Decimal("1.25")),
    (types.DateType(), 19970, date(2024, 9, 4)),
    (types.DateType(), "2024-09-04", date(2024, 9, 4)),
    (types.TimeType(), 68175096000, time(18, 56, 15, 96000)),
    (types.TimeType(), "18:56:15.096", time(18, 56, 15, 96000)),
    (types.TimestampType(), 1725476175099000, AT),
    (types.TimestampType(), "2024-09-04T18:56:15.099", AT),
    (types.TimestampType(), "2024-09-04T18:56:15.099Z", AT),
    (types.TimestampType(), "2024-09-04T18:56:15.099-07:00", AT + timedelta(hours=7)),
    (types.TimestamptzType(), "2024-09-04T18:56:15.099Z", AT.replace(tzinfo=UTC)),
    (types.TimestamptzType(), 1725476175099000, AT.replace(tzinfo=UTC)),
    # Milliseconds are taken for microseconds, on AWS too.
    (types.TimestampType(), 1725476175099, datetime(1970, 1, 20, 23, 17, 56, 175099)),
    (types.StringType(), "a", "a"),
    (types.StringType(), {"a": 1}, '{"a":1}'),
    (types.UUIDType(), UUID, uuid.UUID(UUID)),
    (types.BinaryType(), base64.b64encode(DATA).decode(), DATA),
    (types.BinaryType(), base64.encodebytes(DATA).decode().replace("\n", "\r\n"), DATA),
    (types.BinaryType(), base64.urlsafe_b64encode(DATA).decode(), DATA),
    (types.BinaryType(), DATA.hex(), DATA),
    (types.FixedType(2), "abcd", b"\xab\xcd"),
    (LIST, [1, None, "3"], [1, None, 3]),
    (LIST, "[1, 2]", [1, 2]),
    (MAP, {"a": 1}, [("a", 1)]),
    (STRUCT, {"n": None, "s": "x", "more": 1}, {"n": None, "s": "x"}),
    (types.LongType(), None, None),
]
UNSOUND: list[tuple[Any, Any, str]] = [
    (types.BooleanType(), 2, "SchemaTypeMismatch"),
    (types.IntegerType(), 2**31, "SchemaTypeMismatch"),
    (types.IntegerType(), 1.5, "SchemaTypeMismatch"),
    (types.IntegerType(), True, "SchemaTypeMismatch"),
    (types.LongType(), "1_0", "SchemaTypeMismatch"),
    (types.LongType(), "9" * 400, "SchemaTypeMismatch"),
    (types.LongType(), 2**63, "SchemaTypeMismatch"),
    (types.DoubleType(), "one", "SchemaTypeMismatch"),
    (types.DoubleType(), 10**400, "SchemaTypeMismatch"),
    (types.DecimalType(3, 2), 12, "SchemaTypeMismatch"),
    (types.DecimalType(3, 2), "0.001", "SchemaTypeMismatch"),
    (types.DecimalType(3, 2), "NaN", "SchemaTypeMismatch"),
    (types.DateType(), "04.09.2024", "SchemaTypeMismatch"),
    (types.TimeType(), "25:00", "SchemaTypeMismatch"),
    (types.TimestampType(), "2024-09-04 18:56", "SchemaTypeMismatch"),
    (types.TimestampType(), 1.5, "SchemaTypeMismatch"),
    (types.UUIDType(), "x", "SchemaTypeMismatch"),
    (types.BinaryType(), "*", "SchemaTypeMismatch"),
    (types.FixedType(3), "abcd", "SchemaTypeMismatch"),
    (LIST, {"a": 1}, "SchemaTypeMismatch"),
    (MAP, {"a": None}, "SchemaTypeMismatch"),
    (STRUCT, {"n": "x", "s": "x"}, "SchemaTypeMismatch"),
    (STRUCT, {"n": 1}, "MissingColumnWithinRecord"),
]


def made(kind: Any, *values: Any) -> Any:
    schema = Schema(types.NestedField(1, "c", kind, required=False))
    return convert_rows([json.dumps({"c": value}).encode() for value in values], schema)


@pytest.mark.parametrize(("kind", "value", "expected"), SOUND, ids=str)
def test_a_value_of_the_type_is_taken(kind: Any, value: Any, expected: Any):
    rows = made(kind, value)
    assert rows.refused == {}
    (found,) = rows.columns["c"].to_pylist()
    assert found == expected


@pytest.mark.parametrize(("kind", "value", "code"), UNSOUND, ids=lambda value: str(value)[:40])
def test_another_value_is_refused_alone(kind: Any, value: Any, code: str):
    rows = made(kind, None, value, None)
    assert {place: reason[0] for place, reason in rows.refused.items()} == {1: f"Iceberg.{code}"}
    assert rows.columns["c"].to_pylist() == [None, None, None]


def test_a_required_column_must_be_there():
    schema = Schema(
        types.NestedField(1, "a", types.LongType(), required=True),
        types.NestedField(2, "b", types.LongType(), required=False),
    )
    rows = convert_rows([b'{"a": 1}', b'{"b": 1}', b'{"a": null, "b": 1}', b'{"A": 1}'], schema)
    codes = {place: code for place, (code, _) in rows.refused.items()}
    assert codes == dict.fromkeys((1, 2, 3), "Iceberg.MissingColumnWithinRecord")


def test_seventeen_levels_are_too_many():
    kind: Any = types.LongType()
    for level in range(17):
        kind = types.ListType(level + 2, kind, element_required=False)
    value: Any = 1
    for _ in range(17):
        value = [value]
    code, sentence = made(kind, value).refused[0]
    assert code == "Iceberg.SchemaTypeMismatch"
    assert "16 levels" in sentence
