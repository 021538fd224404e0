"""A table of Glue's catalogue as the parent process describes it to a query's process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.services.athena.hive_types import HiveType, parse_type
from headrace.services.athena.statements import StatementRefused

# The end of a SerDe's class -> how its files are read.
_FORMATS = {
    "ParquetHiveSerDe": "parquet",
    "OrcSerde": "orc",
    "JsonSerDe": "json",
    "LazySimpleSerDe": "text",
    "OpenCSVSerde": "csv",
}


class Table:
    """A table as the parent describes it.

    Attributes:
        columns: the names and types of its columns.
        keys: those of its partition keys.
        files: its objects: `path` in this machine's file system, `uri` in S3, `values` of the partition keys.
        parameters: those of its SerDe, and then those of the table.
        metadata: where an Iceberg table's metadata lies in S3; empty for others.
    """

    def __init__(self, database: str, name: str, described: Mapping[str, Any]) -> None:
        self.database, self.name = database, name
        self.columns = [(column, parse_type(kind)) for column, kind in described["columns"]]
        self.keys = [(column, parse_type(kind)) for column, kind in described["keys"]]
        self.files: list[dict[str, Any]] = described["files"]
        self.serde = str(described["serde"])
        self.parameters: dict[str, str] = described["parameters"]
        self.metadata: str = described.get("metadata", "")

    @property
    def format(self) -> str:
        """How its files are read. Raises StatementRefused."""
        if self.metadata:
            return "iceberg"
        kind = _FORMATS.get(self.serde.rsplit(".", 1)[-1])
        if kind is None:
            raise StatementRefused(
                f"NOT_SUPPORTED: headrace does not read tables of the SerDe {self.serde}"
            )
        return kind


_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}


def read_scalar(hive: HiveType, text: str) -> Any:
    """Convert a text to a type without parts. Raises ValueError."""
    kind = hive.name
    if kind in ("string", "varchar", "char"):
        return text
    if kind in _WHOLE:
        number = int(text)
        if not -(2 ** (_WHOLE[kind] - 1)) <= number < 2 ** (_WHOLE[kind] - 1):
            raise ValueError(f"{text[:50]} is no {kind}")
        return number
    if kind in ("double", "float", "real"):
        return float(text)
    if kind == "boolean":
        if text.strip().lower() not in ("true", "false"):
            raise ValueError(f"{text[:50]} is no boolean")
        return text.strip().lower() == "true"
    if kind == "decimal":
        return _decimal(hive, text)
    if kind == "date":
        return date.fromisoformat(text.strip())
    if kind == "timestamp":
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return text.encode()


def _decimal(hive: HiveType, text: str) -> Decimal:
    scale = hive.sizes[1] if len(hive.sizes) == 2 else 0
    try:
        number = Decimal(text.strip())
        if not math.isfinite(number) or number.adjusted() > 60:
            raise ValueError(f"{text[:50]} is no decimal")
        return number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation as error:
        raise ValueError(f"{text[:50]} is no decimal") from error
