"""Reads rows of JSON, text and CSV as the SerDes of Hive do that Athena has.

Source: docs.aws.amazon.com/athena/latest/ug/supported-serdes.html and serde-about.html (documented).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import bz2
import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from headrace.services.athena.hive_types import HiveType
from headrace.services.athena.statements import StatementRefused, Table, read_scalar

_MOST_FIELD_CHARACTERS = 2**31 - 1
_OPENX = "org.openx.data.jsonserde.JsonSerDe"


def read_rows(table: Table, file: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Yield an object's rows, each with the table's columns in order. Raises StatementRefused, ValueError."""
    csv.field_size_limit(_MOST_FIELD_CHARACTERS)
    readers = {"json": _json_rows, "text": _text_rows, "csv": _csv_rows}
    return readers[table.format](table, file)


def _open(file: Mapping[str, Any]) -> BinaryIO:
    """Open an object; Athena knows its compression by the end of its key."""
    path, uri = Path(file["path"]), str(file["uri"]).lower()
    if uri.endswith(".gz"):
        return cast("BinaryIO", gzip.open(path, "rb"))
    if uri.endswith(".bz2"):
        return cast("BinaryIO", bz2.open(path, "rb"))
    if uri.endswith((".zst", ".lz4", ".snappy")):
        return io.BytesIO(_decompress(path, uri))
    return path.open("rb")


def _decompress(path: Path, uri: str) -> bytes:
    import cramjam

    codec = {"zst": cramjam.zstd, "lz4": cramjam.lz4, "snappy": cramjam.snappy}[
        uri.rsplit(".", 1)[1]
    ]
    return bytes(codec.decompress(path.read_bytes()))


def _lines(table: Table, file: Mapping[str, Any]) -> Iterator[bytes]:
    header = int(table.parameters.get("skip.header.line.count") or 0)
    with _open(file) as source:
        for number, line in enumerate(source):
            if number >= header:
                yield line.rstrip(b"\r\n")


def _json_rows(table: Table, file: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    is_openx = table.serde == _OPENX
    parameters = table.parameters
    # OpenX: `mapping.column` names the key that a column has in the data.
    keys = [(parameters.get(f"mapping.{name}") or name).lower() for name, _ in table.columns]
    kinds = [hive for _, hive in table.columns]
    skips = parameters.get("ignore.malformed.json", "false").lower() == "true"
    decoder = msgspec.json.Decoder()
    for line in _lines(table, file):
        if not line.strip():
            continue
        try:
            row = decoder.decode(_first_object(line))
            if not isinstance(row, dict):
                raise msgspec.DecodeError("it is no object")
        except (msgspec.DecodeError, RecursionError) as error:
            if is_openx and skips:
                yield [None] * len(keys)
                continue
            raise StatementRefused(
                f"HIVE_CURSOR_ERROR: Row is not a valid JSON Object - JSONException: {error} in {file['uri']}"
            ) from error
        lowered = {key.lower(): value for key, value in cast("dict[str, Any]", row).items()}
        values: list[Any] = []
        for key, hive in zip(keys, kinds, strict=True):
            value = lowered.get(key)
            try:
                values.append(None if value is None else _json_value(hive, value))
            except (ValueError, OverflowError) as error:
                written = value if isinstance(value, str) else msgspec.json.encode(value).decode()
                raise StatementRefused(
                    f"HIVE_BAD_DATA: Error parsing field value '{written[:200]}' for field {len(values)}: "
                    f'For input string: "{written[:200]}" in {file["uri"]}'
                ) from error
        yield values


def _first_object(line: bytes) -> bytes:
    """Return a line's first object: what follows it on the line is not read, as on Athena."""
    if b"}{" not in line:
        return line
    depth, in_text, escaped = 0, False, False
    for at, sign in enumerate(line):
        if in_text:
            if escaped:
                escaped = False
            elif sign == 0x5C:
                escaped = True
            elif sign == 0x22:
                in_text = False
        elif sign == 0x22:
            in_text = True
        elif sign == 0x7B:
            depth += 1
        elif sign == 0x7D:
            depth -= 1
            if depth == 0:
                return line[: at + 1]
    return line


def _json_value(hive: HiveType, value: Any) -> Any:
    """Convert a value of JSON; one that is not of its type is an error, as for Athena."""
    if value is None:
        return None
    if hive.name == "array":
        items = value if isinstance(value, list) else [value]
        return [_json_value(hive.children[0], item) for item in items]
    if hive.name == "map" and isinstance(value, dict):
        return [
            (read_scalar(hive.children[0], key), _json_value(hive.children[1], item))
            for key, item in value.items()
        ]
    if hive.name == "struct" and isinstance(value, dict):
        lowered = {key.lower(): item for key, item in value.items()}
        return {
            name: _json_value(child, lowered.get(name))
            for name, child in zip(hive.fields, hive.children, strict=True)
        }
    if hive.name in ("map", "struct"):
        raise ValueError(f"a value of type {hive.name} is no object")
    if hive.name in ("string", "varchar", "char"):
        if isinstance(value, str):
            return value
        return msgspec.json.encode(value).decode()
    if isinstance(value, (list, dict)):
        raise ValueError(f"a value of type {hive.name} is an object or an array")  # noqa: TRY004 - the data's
    if hive.name == "boolean" and isinstance(value, bool):
        return value
    if isinstance(value, bool):
        value = int(value)
    if hive.name == "timestamp" and isinstance(value, int | float):
        return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC).replace(
            tzinfo=None
        )
    return read_scalar(hive, value if isinstance(value, str) else repr(value))


def _text_rows(table: Table, file: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    parameters = table.parameters
    field = _delimiter(
        parameters.get("field.delim") or parameters.get("serialization.format"), "\x01"
    )
    item, key = (
        _delimiter(parameters.get(name) or parameters.get(other), default)
        for name, other, default in (
            ("collection.delim", "colelction.delim", "\x02"),
            ("mapkey.delim", "mapkey.delim", "\x03"),
        )
    )
    escape = parameters.get("escape.delim", "")
    null = parameters.get("serialization.null.format", "\\N")
    kinds = [hive for _, hive in table.columns]
    for line in _lines(table, file):
        text = line.decode("utf-8", "replace")
        parts = _split(text, field, escape)
        yield [
            None if i >= len(parts) or parts[i] == null else _text_value(hive, parts[i], item, key)
            for i, hive in enumerate(kinds)
        ]


def _delimiter(text: str | None, default: str) -> str:
    """Return a delimiter: a character, or its number, which Hive writes as text."""
    if not text:
        return default
    if text.isdecimal() and len(text) <= 3:
        return default if text == "1" and default == "\x01" else chr(int(text))
    return text


def _split(text: str, delimiter: str, escape: str) -> list[str]:
    if not escape or escape not in text:
        return text.split(delimiter)
    reader = csv.reader(
        [text], delimiter=delimiter, escapechar=escape, quoting=csv.QUOTE_NONE, quotechar=None
    )
    return next(iter(reader), [])


def _text_value(hive: HiveType, text: str, item: str, key: str) -> Any:
    """Convert a field of text; one that is not of its type is NULL, as for Hive's LazySimpleSerDe."""
    try:
        if hive.name == "array":
            return [_text_value(hive.children[0], part, item, key) for part in text.split(item)]
        if hive.name == "map":
            pairs = [part.partition(key) for part in text.split(item)]
            return [
                (read_scalar(hive.children[0], k), read_scalar(hive.children[1], v))
                for k, _, v in pairs
            ]
        if hive.name == "struct":
            parts = text.split(item)
            return {
                name: _text_value(child, parts[i], item, key) if i < len(parts) else None
                for i, (name, child) in enumerate(zip(hive.fields, hive.children, strict=True))
            }
        return read_scalar(hive, text)
    except ValueError:
        return None


def _csv_rows(table: Table, file: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    parameters = table.parameters
    kinds = [hive for _, hive in table.columns]
    escape = parameters.get("escapeChar", "\\")
    quotes = parameters.get("quoteChar", '"')
    for line in _lines(table, file):
        # A reader for each line: for Hive a row ends with its line, also within quotes.
        reader = csv.reader(
            [line.decode("utf-8", "replace")], delimiter=parameters.get("separatorChar", ","), quotechar=quotes,
            escapechar=escape if escape != quotes else None, doublequote=True,
        )  # fmt: skip
        parts = next(reader, [])
        if not parts:
            continue
        yield [
            None if i >= len(parts) else _csv_value(hive, parts[i]) for i, hive in enumerate(kinds)
        ]


def _csv_value(hive: HiveType, text: str) -> Any:
    """Convert a field of OpenCSVSerde: dates and timestamps are numbers since 1970 (documented)."""
    if hive.name in ("string", "varchar", "char"):
        return text
    if not text.strip():
        return None
    if hive.name == "date" and text.strip().lstrip("-").isdecimal():
        return date.fromordinal(date(1970, 1, 1).toordinal() + int(text))
    if hive.name == "timestamp" and text.strip().isdecimal():
        return datetime.fromtimestamp(int(text) / 1000, UTC).replace(tzinfo=None)
    return read_scalar(hive, text)
