"""Writes an application's input whose columns are JSON paths as SQL: an in-application stream that pumps fill.

Documented (AWS's developer guide, Working with JSONPath): [0:] is the one index; with a path after it each item of the
array is a row, at a path's end the whole array is one value. Assumed: what is outside of the array is in each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from headrace.sql.types import Place, SqlError

_PATH = re.compile(r"\$(?:\.\w+|\[0:\])*")
_STEPS = re.compile(r"\w+|\[0:\]")
_ARRIVAL = "APPROXIMATE_ARRIVAL_TIME"
# The column of a record that is an array, and that of an item of an array whose items are rows.
_RECORD, _ROW = "record", "row"
_ITEMS = "[0:]"
# A type is written, and read, in so many levels.
_MOST_STEPS = 50


def is_mapped(schema: dict[str, Any]) -> bool:
    """Return whether a column is read of another place of a record than of the member of its name."""
    if schema["RecordFormat"]["RecordFormatType"] != "JSON":
        return False
    return _row_path(schema) != "$" or any(
        (one.get("Mapping") or f"$.{one['Name']}").lower() != f"$.{one['Name']}".lower()
        for one in _columns(schema)
    )


def mapped_stream(name: str, schema: dict[str, Any], source: str, code: str) -> str:
    """Return the statements of the in-application stream `name`; raises SqlError for a path that is none.

    `code` is the application's: only where it reads APPROXIMATE_ARRIVAL_TIME the stream has it.
    """
    paths, row = _paths(schema)
    tree: dict[str, Any] = {}
    for column, path in zip(_columns(schema), paths, strict=True):
        _put(tree, path, column)
    arrival = [_ARRIVAL] * (_ARRIVAL.lower() in code.lower())
    origin = f"{name}_records"
    alone = ", wrap_single_value = false" * (_RECORD in tree)
    fields = ", ".join(_field(one, of) for one, of in tree.items())
    parts = [f"CREATE STREAM \"{origin}\" ({fields}) WITH ({source}, format = 'JSON'{alone});"]
    if row:
        outside = [one for one in tree if one != row[0]]
        of_row = [_field(_ROW, _at(tree, row)), *(_field(one, tree[one]) for one in outside)]
        chosen = [f'EXPLODE({_expression(row[:-1])}) AS "{_ROW}"', *(f'"{one}"' for one in outside)]
        parts += _pumped(f"{name}_rows", of_row, chosen, origin, arrival)
        origin, size = f"{name}_rows", len(row)
        paths = [[_ROW, *path[size:]] if path[:size] == row else path for path in paths]
    declared: list[str] = []
    values: list[str] = []
    for column, path in zip(_columns(schema), paths, strict=True):
        declared.append(_field(column["Name"], column["SqlType"]))
        values.append(f'{_expression(path)} AS "{column["Name"]}"')
    parts += _pumped(name, declared, values, origin, arrival)
    return "\n".join(parts) + "\n"


def _columns(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema["RecordColumns"]


def _pumped(
    name: str, columns: list[str], values: list[str], origin: str, arrival: list[str]
) -> list[str]:
    """Return an in-application stream and the pump that fills it from another stream."""
    declared = ", ".join([*columns, *(f"{one} TIMESTAMP" for one in arrival)])
    chosen = ", ".join([*values, *arrival])
    pump = (
        f'CREATE PUMP "{name}_pump" AS INSERT INTO "{name}" SELECT STREAM {chosen} FROM "{origin}";'
    )
    return [f'CREATE STREAM "{name}" ({declared});', pump]


def _row_path(schema: dict[str, Any]) -> str:
    """Return the path of the items that are rows each; $ if a record is one."""
    mapping = schema["RecordFormat"].get("MappingParameters", {})
    path = str(mapping.get("JSONMappingParameters", {}).get("RecordRowPath", "$"))
    return path if path == "$" or path.endswith(_ITEMS) else path + _ITEMS


def _paths(schema: dict[str, Any]) -> tuple[list[list[str]], list[str]]:
    """Return the columns' paths, and the path of the items that are rows; an empty one if a record is a row."""
    base = _row_path(schema)
    rows = [_steps(base, "RecordRowPath")] if base != "$" else []
    paths: list[list[str]] = []
    for one in _columns(schema):
        path = _steps(one.get("Mapping") or f"{base}.{one['Name']}", f"column {one['Name']}")
        inner = [path[: index + 1] for index, step in enumerate(path[:-1]) if step == _ITEMS]
        rows += [row for row in inner if row not in rows]
        paths.append(path[:-1] if path[-1] == _ITEMS and path not in rows else path)
    if len(rows) > 1:
        raise SqlError(
            "the items of one array are rows, and the columns' paths name several", Place()
        )
    row = rows[0] if rows else []
    if row and not any(path[: len(row)] == row for path in paths):
        raise SqlError(f"RecordRowPath {base}: no column is read of it", Place())
    return paths, row


def _steps(path: str, what: str) -> list[str]:
    if _PATH.fullmatch(path) is None or path == "$":
        raise SqlError(
            f"{what}: {path} is no path of names, and of [0:] for an array's items", Place()
        )
    steps = [_RECORD] * path.startswith("$[") + _STEPS.findall(path)
    if len(steps) > _MOST_STEPS:
        raise SqlError(f"{what}: a path has at most {_MOST_STEPS} steps", Place())
    return steps


def _put(tree: dict[str, Any], path: Sequence[str], column: dict[str, Any]) -> None:
    """Add the place of a column to what is known of a record: objects by names, arrays by their items."""
    node: Any = tree
    for step in path[:-1]:
        node = cast(dict[str, Any], node).setdefault(step, {}) if isinstance(node, dict) else None
    known = None
    if isinstance(node, dict):
        known = cast(dict[str, Any], node).setdefault(path[-1], column["SqlType"])
    if known != column["SqlType"]:
        raise SqlError(
            f"column {column['Name']}: another column reads the same place as another type", Place()
        )


def _at(tree: dict[str, Any], path: Sequence[str]) -> Any:
    node: Any = tree
    for step in path:
        node = node[step]
    return node


def _field(name: str, node: Any) -> str:
    return f'"{name}" {_type(node)}'


def _type(node: Any) -> str:
    if isinstance(node, str):
        return node
    of = cast(dict[str, Any], node)
    if _ITEMS in of:
        return f"ARRAY<{_type(of[_ITEMS])}>"
    return f"STRUCT<{', '.join(_field(name, part) for name, part in of.items())}>"


def _expression(path: Sequence[str]) -> str:
    return "->".join(f'"{step}"' for step in path)
