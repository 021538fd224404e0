"""Splits the files of a COPY into rows of text fields: JSON, CSV and delimited lines.

A row with missing or extra fields has a `Problem`, with the code and the sentence of STL_LOAD_ERRORS
(docs.aws.amazon.com/redshift/latest/dg/r_Load_Error_Reference.html: codes documented, words assumed).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.ports.warehouses import WarehouseError
from headrace.services.redshift.copy_command import Copy

# A CSV field may hold a SUPER of up to 16 MB.
csv.field_size_limit(1 << 25)


class Problem(Exception):
    """The reason why a row is not loaded."""

    def __init__(self, code: int, reason: str, column: str = "", value: str = "") -> None:
        super().__init__(reason)
        self.code, self.reason, self.column, self.value = code, reason, column, value


@dataclass(slots=True)
class Row:
    """A row of a file: its line number, its raw text, and its fields or its problem."""

    line: int
    raw: str
    fields: list[Any]
    problem: Problem | None = None


class Number(str):
    """A number of a JSON document, as its original text, so that a float cannot change its digits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Nested:
    """An object or a list of a JSON document."""

    value: Any

    def text(self) -> str:
        """Return the value as JSON without blanks."""
        return plain_json(self.value)


def plain_json(value: Any) -> str:
    """Return JSON with the numbers' original text."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        parts = (f"{json.dumps(k, ensure_ascii=False)}:{plain_json(v)}" for k, v in members.items())
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(plain_json(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value, ensure_ascii=False)


DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Number)


def rows_of(text: str, copy: Copy, columns: Sequence[str], paths: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of a file, each with one field for each column."""
    if copy.format == "json":
        return _json_rows(text, copy, columns, paths)
    lines = _csv_rows(text, copy) if copy.format == "csv" else _text_rows(text, copy)
    return (_fit_row(row, copy, len(columns)) for row in _without_header(lines, copy))


def _without_header(rows: Iterator[Row], copy: Copy) -> Iterator[Row]:
    return (row for row in rows if row.line > copy.ignore_header)


def _fit_row(row: Row, copy: Copy, count: int) -> Row:
    if row.problem is None and len(row.fields) > count:
        row.problem = Problem(1202, "Extra column(s) found")
    elif row.problem is None and len(row.fields) < count:
        if copy.has("fill_record"):
            row.fields += [None] * (count - len(row.fields))
        else:
            row.problem = Problem(1214, "Delimiter not found")
    return row


# --- lines -----------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        yield text[start:end].removesuffix("\r")
        start = end + 1


def _text_rows(text: str, copy: Copy) -> Iterator[Row]:
    lines = enumerate(_lines(text), 1)
    for number, line in lines:
        if not line.strip() and copy.has("ignore_blank_lines"):
            continue
        # An escaped line end belongs to the field.
        while copy.has("escape") and (len(line) - len(line.rstrip("\\"))) % 2:
            more = next(lines, None)
            if more is None:
                break
            line = f"{line}\n{more[1]}"
        yield Row(number, line, [_text_field(field, copy) for field in _cut(line, copy)])


def _cut(line: str, copy: Copy) -> list[str]:
    if not copy.has("escape") and not copy.has("remove_quotes"):
        return line.split(copy.delimiter)
    fields = [""]
    quote = ""
    chars = iter(line)
    for char in chars:
        if char == "\\" and copy.has("escape"):
            fields[-1] += char + next(chars, "")
        elif copy.has("remove_quotes") and char in "'\"" and (char == quote or not fields[-1]):
            quote = "" if quote else char
            fields[-1] += char
        elif char == copy.delimiter and not quote:
            fields.append("")
        else:
            fields[-1] += char
    return fields


def _text_field(field: str, copy: Copy) -> str | None:
    if field == copy.null_as:
        return None
    if copy.has("remove_quotes") and len(field) > 1 and field[0] == field[-1] and field[0] in "'\"":
        field = field[1:-1]
    if copy.has("escape"):
        chars = iter(field)
        field = "".join(next(chars, "") if char == "\\" else char for char in chars)
    return field


def _csv_rows(text: str, copy: Copy) -> Iterator[Row]:
    taken: list[str] = []

    def lines() -> Generator[str]:
        for line in text.splitlines(keepends=True) if "\r" not in text else _split_lines(text):
            taken.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=copy.delimiter, quotechar=copy.quote, strict=True)
    number = 0
    while True:
        before = number
        try:
            fields = next(reader, None)
        except csv.Error:
            number = reader.line_num
            yield Row(
                before + 1, "".join(taken).rstrip("\r\n"), [], Problem(1214, "Delimiter not found")
            )
            taken.clear()
            continue
        if fields is None:
            return
        number = reader.line_num
        raw = "".join(taken).rstrip("\r\n")
        taken.clear()
        if not fields and copy.has("ignore_blank_lines"):
            continue
        yield Row(before + 1, raw, [None if f == copy.null_as else f for f in fields or [""]])


def _split_lines(text: str) -> Iterator[str]:
    """Yield lines with their ends. Only line feeds separate lines: a field may contain other line ends."""
    return (f"{line}\n" for line in _lines(text))


# --- JSON ------------------------------------------------------------------------------------

Path = list[str | int]


def parse_paths(data: bytes) -> list[Path]:
    """Parse a JSONPaths file. Raises WarehouseError."""
    try:
        jsonpaths = json.loads(data)["jsonpaths"]
        if not isinstance(jsonpaths, list):
            raise TypeError
        return [_path(str(path)) for path in cast("list[Any]", jsonpaths)]
    except (ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            "IncorrectJsonPathsFile", "ERROR: Invalid JSONPath format: Member is not an object."
        ) from error


def _path(text: str) -> Path:
    """Return the steps of a path such as `$.a.b`, `$['a']['b']` or `$.a[0]`. Raises ValueError."""
    if not text.startswith("$"):
        raise ValueError(text)
    steps: Path = []
    at = 1
    while at < len(text):
        if text[at] == ".":
            end = min(
                [n for n in (text.find(".", at + 1), text.find("[", at + 1)) if n > 0]
                or [len(text)]
            )
            steps.append(text[at + 1 : end])
            at = end
        elif text[at] == "[":
            end = text.find("]", at)
            inside = text[at + 1 : end].strip()
            if end < 0:
                raise ValueError(text)
            steps.append(int(inside) if inside.isdecimal() else inside.strip("'\""))
            at = end + 1
        else:
            raise ValueError(text)
    return steps


def _json_rows(
    text: str, copy: Copy, columns: Sequence[str], paths: Sequence[Path]
) -> Iterator[Row]:
    at, line, seen = 0, 1, 0
    pick = _picker(copy, columns, paths)
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text):
            return
        line += text.count("\n", seen, at)
        seen = at
        try:
            document, end = DECODER.raw_decode(text, at)
            is_document = isinstance(document, (dict, list))
        except (ValueError, RecursionError):
            document, end, is_document = None, at, False
        if not is_document:
            # Continue at the next line.
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            yield Row(line, text[at:end], [], Problem(1216, "Invalid JSON"))  # words assumed
            at = end
            continue
        yield Row(line, text[at:end], pick(document))
        at = end


def _picker(
    copy: Copy, columns: Sequence[str], paths: Sequence[Path]
) -> Callable[[Any], list[Any]]:
    if copy.json == "noshred":
        return lambda found: [Nested(found)]
    if copy.json == "auto":
        return lambda found: [_leaf(_members(found).get(name)) for name in columns]
    if copy.json == "auto ignorecase":

        def find_ignoring_case(document: Any) -> list[Any]:
            lower = {name.lower(): value for name, value in _members(document).items()}
            return [_leaf(lower.get(name.lower())) for name in columns]

        return find_ignoring_case
    return lambda found: [_leaf(_follow_path(found, path)) for path in paths]


def _members(document: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else {}


def _follow_path(document: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, int) and isinstance(document, list):
            items = cast("list[Any]", document)
            document = items[step] if step < len(items) else None
        elif isinstance(step, str) and isinstance(document, dict):
            document = cast("dict[str, Any]", document).get(step)
        else:
            return None
    return document


def _leaf(value: Any) -> Any:
    """Return a JSON value as text, a Number, a Nested, or None."""
    if isinstance(value, bool):
        return Number("true" if value else "false")
    if isinstance(value, (dict, list)):
        return Nested(value)
    return value
