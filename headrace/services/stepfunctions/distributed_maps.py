"""Finds the problems of a distributed Map's ItemReader and ResultWriter before its machine runs.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html and
input-output-resultwriter.html there; which of these AWS refuses when the machine is created: assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from headrace.services.stepfunctions.query_languages import SCHEMA, Problem

CSV_DELIMITERS = {"COMMA": ",", "PIPE": "|", "SEMICOLON": ";", "SPACE": " ", "TAB": "\t"}
# The values of each field; an empty list stands for any.
_READER: Mapping[str, tuple[str, ...]] = {
    "InputType": ("CSV", "JSON", "JSONL", "PARQUET", "MANIFEST"),
    "Transformation": ("NONE", "LOAD_AND_FLATTEN"),
    "ManifestType": ("ATHENA_DATA", "S3_INVENTORY"),
    "CSVHeaderLocation": ("FIRST_ROW", "GIVEN"),
    "CSVDelimiter": tuple(CSV_DELIMITERS),
    **dict.fromkeys(("CSVHeaders", "MaxItems", "MaxItemsPath", "ItemsPointer"), ()),
}
_WRITER: Mapping[str, tuple[str, ...]] = {
    "Transformation": ("NONE", "COMPACT", "FLATTEN"),
    "OutputType": ("JSON", "JSONL"),
}


def problems_of_map(state: dict[str, Any], at: str) -> Iterator[Problem]:
    """Return the problems of a Map's reader and writer; `at` is the state's path."""
    for owner, name, fields in (
        ("ItemReader", "ReaderConfig", _READER),
        ("ResultWriter", "WriterConfig", _WRITER),
    ):
        members = _object(state.get(owner))
        if members is not None and name in members:
            yield from _of_config(members[name], fields, f"{at}/{owner}/{name}")
    writer = _object(state.get("ResultWriter"))
    if writer is not None and not {"Resource", "WriterConfig"} & writer.keys():
        message = "These fields are required: [Resource or WriterConfig]"
        yield Problem(SCHEMA, message, f"{at}/ResultWriter")


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _of_config(value: Any, fields: Mapping[str, tuple[str, ...]], at: str) -> Iterator[Problem]:
    config = _object(value)
    if config is None:
        yield Problem(SCHEMA, "Expected value of type [Object]", at)
        return
    for name, chosen in config.items():
        if name not in fields:
            yield Problem(SCHEMA, f"Field '{name}' is not supported", at)
        elif fields[name] and chosen not in fields[name]:
            values = ", ".join(fields[name])
            message = f"Value should be one of the following: [{values}]"
            yield Problem(SCHEMA, message, f"{at}/{name}")
