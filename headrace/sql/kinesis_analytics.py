"""Turns what DescribeApplication gave for an application into a text for `--dialect kinesis-analytics`.

An input whose columns are JSON paths becomes an in-application stream that pumps fill. Documented (AWS's developer
guide, Working with JSONPath): [0:] is the one index; with a path after it each item of the array is a row, at a path's
end the whole array is one value. Assumed: what is outside of the array is in each row.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# What JSON gives is of any type until it is looked at.
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from headrace.sql.types import Location, SqlError

_SIMPLE_PATH = re.compile(r"\$\.(\w+)")


def import_application(description: dict[str, Any]) -> str:
    """Return the application's SQL, with its inputs and outputs declared; raises SqlError for what has no SQL here."""
    detail = description.get("ApplicationDetail", description)
    sql = detail.get("ApplicationConfigurationDescription", {}).get(
        "SqlApplicationConfigurationDescription", detail
    )
    code = detail.get("ApplicationCode") or _code_of(detail)
    inputs = sql.get("InputDescriptions") or []
    if not code or not inputs:
        raise SqlError(
            "this is no description of an application with SQL code and an input", Location()
        )
    parts = [_input(one, code) for one in inputs]
    parts += [_reference(one) for one in sql.get("ReferenceDataSourceDescriptions") or []]
    for output in sql.get("OutputDescriptions") or []:
        code = _bind(code, output)
    return "\n".join([*parts, code.strip(), ""])


def _code_of(detail: dict[str, Any]) -> str:
    configuration = detail.get("ApplicationConfigurationDescription", {})
    content = configuration.get("ApplicationCodeConfigurationDescription", {}).get(
        "CodeContentDescription", {}
    )
    return str(content.get("TextContent", ""))


def _input(one: dict[str, Any], code: str) -> str:
    if one.get("InputProcessingConfigurationDescription"):
        processing = one["InputProcessingConfigurationDescription"]
        arn = processing.get("InputLambdaProcessorDescription", {}).get("ResourceARN", "")
        function = f" {arn.rpartition(':')[2]}" if arn else ""
        raise SqlError(
            f"InputProcessingConfiguration: the Lambda function{function} is not run in the job; let it put its "
            "records into a stream of their own, as an event-source mapping of the input's stream, and read that one",
            Location(),
        )
    source = one.get("KinesisStreamsInputDescription")
    if source is None:
        raise SqlError(
            "an input from Firehose is not built: read the stream that feeds it", Location()
        )
    names = one.get("InAppStreamNames") or [f"{one['NamePrefix']}_001"]
    if len(names) > 1:
        raise SqlError(
            "an input with parallelism is one stream here: set InputParallelism to 1", Location()
        )
    stream = source["ResourceARN"].rpartition("/")[2]
    schema, source = one["InputSchema"], f"stream = '{stream}'"
    if is_mapped(schema):
        return mapped_stream(names[0], schema, source, code)
    return _relation("STREAM", names[0], schema, source)


def _reference(one: dict[str, Any]) -> str:
    """Return the reference table of an object in S3."""
    source = one["S3ReferenceDataSourceDescription"]
    bucket = source.get("BucketARN", "").rpartition(":")[2] or source["BucketName"]
    key = (source.get("FileKey") or source["ReferenceKey"]).replace("'", "''")
    address = f"object = 's3://{bucket}/{key}'"
    return _relation("TABLE", one["TableName"], one["ReferenceSchema"], address)


def _relation(kind: str, name: str, schema: dict[str, Any], source: str) -> str:
    columns = ",\n".join(
        f'    "{_column(column)}" {column["SqlType"]}' for column in schema["RecordColumns"]
    )
    return f'CREATE {kind} "{name}" (\n{columns}\n) WITH ({source}, {_format(schema)});\n'


def _column(column: dict[str, Any]) -> str:
    """Return the column under its JSON field's spelling, in which SQL finds it in any letter case."""
    mapping = column.get("Mapping")
    if not mapping:
        return str(column["Name"])
    match = _SIMPLE_PATH.fullmatch(mapping)
    if match is None or match[1].lower() != column["Name"].lower():
        raise SqlError(
            f"column {column['Name']}: only a field of its own name is read, not {mapping}",
            Location(),
        )
    return match[1]


def _format(schema: dict[str, Any]) -> str:
    record_format = schema["RecordFormat"]
    mapping = record_format.get("MappingParameters", {})
    path = mapping.get("JSONMappingParameters", {}).get("RecordRowPath", "$")
    if path != "$":
        raise SqlError(f"RecordRowPath {path}: a record is one row, whose path is $", Location())
    if record_format["RecordFormatType"] == "JSON":
        return "format = 'JSON'"
    parameters = mapping.get("CSVMappingParameters", {})
    delimiter = parameters.get("RecordColumnDelimiter", ",").replace("'", "''")
    delimiter = {" ": "SPACE", "\t": "TAB"}.get(delimiter, delimiter)
    return f"format = 'CSV', value_delimiter = '{delimiter}'"


def _bind(code: str, output: dict[str, Any]) -> str:
    """Return the code with an output's stream after the statement that creates its in-application stream."""
    target = output.get("KinesisStreamsOutputDescription")
    if target is None:
        kind = next((key for key in output if key.endswith("OutputDescription")), "output")
        raise SqlError(
            f"{output.get('Name')}: a {kind} is not built: write to a stream, and deliver or process that",
            Location(),
        )
    name = re.escape(output["Name"])
    pattern = rf'CREATE\s+(?:OR\s+REPLACE\s+)?STREAM\s+(?:"{name}"|{name})\s*\('
    match = re.search(pattern, code, re.IGNORECASE)
    if match is None:
        raise SqlError(
            f"the code creates no stream {output['Name']}, which is an output", Location()
        )
    depth, end = 1, match.end()
    while depth and end < len(code):
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    form = output.get("DestinationSchema", {}).get("RecordFormatType", "JSON")
    stream = target["ResourceARN"].rpartition("/")[2]
    return f"{code[:end]} WITH (stream = '{stream}', format = '{form}'){code[end:]}"


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
        of_row = [_field(_ROW, _walk(tree, row)), *(_field(one, tree[one]) for one in outside)]
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
            "the items of one array are rows, and the columns' paths name several", Location()
        )
    row = rows[0] if rows else []
    if row and not any(path[: len(row)] == row for path in paths):
        raise SqlError(f"RecordRowPath {base}: no column is read of it", Location())
    return paths, row


def _steps(path: str, what: str) -> list[str]:
    if _PATH.fullmatch(path) is None or path == "$":
        raise SqlError(
            f"{what}: {path} is no path of names, and of [0:] for an array's items", Location()
        )
    steps = [_RECORD] * path.startswith("$[") + _STEPS.findall(path)
    if len(steps) > _MOST_STEPS:
        raise SqlError(f"{what}: a path has at most {_MOST_STEPS} steps", Location())
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
            f"column {column['Name']}: another column reads the same place as another type",
            Location(),
        )


def _walk(tree: dict[str, Any], path: Sequence[str]) -> Any:
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
