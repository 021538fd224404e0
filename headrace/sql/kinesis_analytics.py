"""Turns what DescribeApplication gave for an application into a text for `--dialect kinesis-analytics`."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# What JSON gives is of any type until it is looked at.
from __future__ import annotations

import re
from typing import Any

from headrace.sql.kinesis_mappings import is_mapped, mapped_stream
from headrace.sql.types import Place, SqlError

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
            "this is no description of an application with SQL code and an input", Place()
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
            Place(),
        )
    source = one.get("KinesisStreamsInputDescription")
    if source is None:
        raise SqlError(
            "an input from Firehose is not built: read the stream that feeds it", Place()
        )
    names = one.get("InAppStreamNames") or [f"{one['NamePrefix']}_001"]
    if len(names) > 1:
        raise SqlError(
            "an input with parallelism is one stream here: set InputParallelism to 1", Place()
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
            f"column {column['Name']}: only a field of its own name is read, not {mapping}", Place()
        )
    return match[1]


def _format(schema: dict[str, Any]) -> str:
    record_format = schema["RecordFormat"]
    mapping = record_format.get("MappingParameters", {})
    path = mapping.get("JSONMappingParameters", {}).get("RecordRowPath", "$")
    if path != "$":
        raise SqlError(f"RecordRowPath {path}: a record is one row, whose path is $", Place())
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
            Place(),
        )
    name = re.escape(output["Name"])
    pattern = rf'CREATE\s+(?:OR\s+REPLACE\s+)?STREAM\s+(?:"{name}"|{name})\s*\('
    match = re.search(pattern, code, re.IGNORECASE)
    if match is None:
        raise SqlError(f"the code creates no stream {output['Name']}, which is an output", Place())
    depth, end = 1, match.end()
    while depth and end < len(code):
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    form = output.get("DestinationSchema", {}).get("RecordFormatType", "JSON")
    stream = target["ResourceARN"].rpartition("/")[2]
    return f"{code[:end]} WITH (stream = '{stream}', format = '{form}'){code[end:]}"
