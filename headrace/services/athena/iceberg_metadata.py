"""Iceberg's metadata tables, such as `"t$snapshots"`: what a table's own metadata holds, as rows.

Source: docs.aws.amazon.com/athena/latest/ug/querying-iceberg-table-metadata.html (documented). It runs in the child
process of `headrace.services.athena.child` alone.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table import Table


def _snapshots(stored: Table) -> pa.Table:
    return _with_zones(stored.inspect.snapshots())


def _history(stored: Table) -> pa.Table:
    return _with_zones(stored.inspect.history())


def _with_zones(rows: pa.Table) -> pa.Table:
    kinds = [
        pa.field(field.name, pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(kinds))


def _of_files(stored: Table) -> pa.Table:
    rows = stored.inspect.files()
    schema = stored.schema()
    names = [
        "content", "file_path", "file_format", "record_count", "file_size_in_bytes", "column_sizes", "value_counts",
        "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata", "split_offsets",
        "equality_ids",
    ]  # fmt: skip
    kept = rows.select(names)
    kind = pa.map_(pa.int32(), pa.string())
    for name in ("lower_bounds", "upper_bounds"):
        bounds = [
            None if items is None else [(key, _bound(schema, key, item)) for key, item in items]
            for items in kept[name].to_pylist()
        ]
        kept = kept.set_column(kept.schema.get_field_index(name), name, pa.array(bounds, kind))
    return kept


def _bound(schema: Schema, field_id: int, value: bytes | None) -> str | None:
    try:
        kind: Any = schema.find_type(field_id)
    except ValueError:  # a column that is no more
        return None
    return None if value is None else str(from_bytes(kind, value))


def _partitions(stored: Table) -> pa.Table:
    if stored.current_snapshot() is None:
        names = ["record_count", "file_count", "total_size"]
        return pa.table({name: pa.array([], pa.int64()) for name in names})
    rows = stored.inspect.partitions()
    names = ["record_count", "file_count", "total_data_file_size_in_bytes"]
    if "partition" in rows.column_names:
        names = ["partition", *names]
    return rows.select(names).rename_columns(
        [name.replace("total_data_file_size_in_bytes", "total_size") for name in names]
    )


def _manifests(stored: Table) -> pa.Table:
    return stored.inspect.manifests()


def _refs(stored: Table) -> pa.Table:
    return stored.inspect.refs()


METADATA_TABLES: dict[str, Any] = {
    "files": _of_files,
    "history": _history,
    "snapshots": _snapshots,
    "partitions": _partitions,
    "manifests": _manifests,
    "refs": _refs,
}
