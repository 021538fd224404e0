"""What DESCRIBE and SHOW CREATE TABLE say of a table of Glue's, line by line. Pure functions."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEADING = {"Name": "# col_name", "Type": "data_type", "Comment": "comment"}


def detail_lines(table: Mapping[str, Any], *, is_formatted: bool) -> Iterator[str]:
    """Yield what DESCRIBE EXTENDED or FORMATTED says beside the columns, in Hive's form (assumed)."""
    storage: Mapping[str, Any] = table.get("StorageDescriptor") or {}
    serde: Mapping[str, Any] = storage.get("SerdeInfo") or {}
    details = {
        "Database:": table["DatabaseName"],
        "Location:": storage.get("Location", ""),
        "Table Type:": table.get("TableType", ""),
    }
    stored = {
        "SerDe Library:": serde.get("SerializationLibrary", ""),
        "InputFormat:": storage.get("InputFormat", ""),
        "OutputFormat:": storage.get("OutputFormat", ""),
    }
    parameters = sorted((table.get("Parameters") or {}).items())
    if not is_formatted:
        pairs = {"tableName:": table["Name"], **details, **stored}.items()
        text = ", ".join(f"{name.replace(' ', '')}{value}" for name, value in pairs)
        yield f"Detailed Table Information\tTable({text}, parameters:{dict(parameters)})\t "
        return
    yield "# Detailed Table Information\t \t "
    yield from (f"{name:<20}\t{value:<20}\t " for name, value in details.items())
    yield "Table Parameters:\t \t "
    yield from (f"\t{name:<20}\t{value:<20}" for name, value in parameters)
    yield "\t \t "
    yield "# Storage Information\t \t "
    yield from (f"{name:<20}\t{value:<20}\t " for name, value in stored.items())


def described_line(column: Mapping[str, str]) -> str:
    """Return a column's line of DESCRIBE."""
    return f"{column['Name']:<20}\t{column.get('Type', ''):<20}\t{column.get('Comment', ''):<20}"


def create_hive_lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the lines of SHOW CREATE TABLE, for a table of Hive's."""
    storage, serde = table["StorageDescriptor"], table["StorageDescriptor"].get("SerdeInfo") or {}

    def columns(items: Sequence[Mapping[str, str]]) -> Iterator[str]:
        for number, column in enumerate(items):
            comment = f" COMMENT '{column['Comment']}'" if column.get("Comment") else ""
            yield f"  `{column['Name']}` {column['Type']}{comment}{')' if number == len(items) - 1 else ', '}"

    def pairs(items: Mapping[str, str]) -> Iterator[str]:
        for number, (key, value) in enumerate(sorted(items.items())):
            yield f"  '{key}'='{value}'{')' if number == len(items) - 1 else ', '}"

    yield f"CREATE EXTERNAL TABLE `{name}`("
    yield from columns(storage["Columns"])
    if table.get("PartitionKeys"):
        yield "PARTITIONED BY ( "
        yield from columns(table["PartitionKeys"])
    yield "ROW FORMAT SERDE "
    yield f"  '{serde.get('SerializationLibrary', '')}' "
    if serde.get("Parameters"):
        yield "WITH SERDEPROPERTIES ( "
        yield from pairs(serde["Parameters"])
    yield from itertools.chain(
        ("STORED AS INPUTFORMAT ", f"  '{storage.get('InputFormat', '')}' "),
        ("OUTPUTFORMAT ", f"  '{storage.get('OutputFormat', '')}'"),
        ("LOCATION", f"  '{storage.get('Location', '')}'"),
    )
    if table.get("Parameters"):
        yield "TBLPROPERTIES ("
        yield from pairs(table["Parameters"])
