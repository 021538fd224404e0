"""Writes a query's result as Athena stores it in S3, and reads pages of it. Pure but for the file.

A SELECT's result is CSV: every value in double quotes, a NULL as nothing. A statement on the catalogue has lines.
Source: docs.aws.amazon.com/athena/latest/ug/querying-finding-output-files.html (documented); the values' forms are
those of Trino's text (observed in Athena's public examples).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, cast

# A value in quotes, in which a quote stands twice; or nothing, which is NULL.
_FIELD = re.compile(r'"((?:[^"]|"")*)"')
PAGE_ROWS = 1000


def render(value: Any) -> str | None:
    """Return a value of DuckDB's as Athena writes it; None for NULL."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03d}"
        return text if value.tzinfo is None else f"{text} UTC"
    if isinstance(value, bytes | bytearray):
        return " ".join(f"{byte:02x}" for byte in value)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return f"[{', '.join(_inner(item) for item in items)}]"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        return f"{{{', '.join(f'{_inner(key)}={_inner(item)}' for key, item in pairs.items())}}}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


def _inner(value: Any) -> str:
    text = render(value)
    return "null" if text is None else text


def _float(value: float) -> str:
    """Return a double as Java writes it: 1.0, 1.0E10, NaN."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return format(Decimal(text), "f") if "e" in text else text
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    figures = "".join(str(digit) for digit in digits)
    power = int(exponent) + len(figures) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


def csv_line(values: Iterable[str | None]) -> str:
    """Return a line of a result's file."""
    return (
        ",".join("" if value is None else '"' + value.replace('"', '""') + '"' for value in values)
        + "\n"
    )


class NoRow(ValueError):
    """No row begins at an offset: the token is not one that an answer gave."""


def _seek_row(source: BinaryIO, offset: int) -> None:
    """Go to where a row may begin: after a line's end. Raises NoRow."""
    source.seek(max(offset - 1, 0))
    if offset and source.read(1) != b"\n":
        raise NoRow(offset)


def read_rows(path: Path, offset: int, count: int) -> tuple[list[list[str | None]], int]:
    """Return at most `count` rows of CSV from a byte's offset on, and where the next begins; -1 at the end.

    Raises NoRow.
    """
    rows: list[list[str | None]] = []
    with path.open("rb") as source:
        _seek_row(source, offset)
        while len(rows) < count:
            line = source.readline()
            if not line:
                return rows, -1
            # A value may have line breaks: then its quotes are not in pairs yet. Each line is counted once.
            lines, quotes = [line], line.count(b'"')
            while quotes % 2 and (line := source.readline()):
                lines.append(line)
                quotes += line.count(b'"')
            rows.append(_parse_line(b"".join(lines).decode().rstrip("\n")))
        end = source.tell()
        return rows, end if source.read(1) else -1


def _parse_line(line: str) -> list[str | None]:
    values: list[str | None] = []
    at = 0
    while True:
        match = _FIELD.match(line, at)
        values.append(None if match is None else match[1].replace('""', '"'))
        at = at if match is None else match.end()
        if at >= len(line) or line[at] != ",":
            return values
        at += 1


def read_lines(path: Path, offset: int, count: int) -> tuple[list[list[str | None]], int]:
    """Return the rows of a result of text: a line each. As `read_rows`."""
    rows: list[list[str | None]] = []
    with path.open("rb") as source:
        _seek_row(source, offset)
        while len(rows) < count:
            line = source.readline()
            if not line:
                return rows, -1
            rows.append([line.decode().rstrip("\n")])
        end = source.tell()
        return rows, end if source.read(1) else -1


def render_row(values: Sequence[str | None]) -> dict[str, Any]:
    """Return a row as GetQueryResults shows it: a NULL has no value."""
    return {"Data": [{} if value is None else {"VarCharValue": value} for value in values]}
