"""Checks and converts the fields of a COPY to the types of a table's columns, as Redshift does.

Sources: docs.aws.amazon.com/redshift/latest/dg/copy-parameters-data-conversion.html and r_DATEFORMAT_and_TIMEFORMAT
strings (documented); the words of problems are assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from headrace.services.redshift.copy_command import Copy
from headrace.services.redshift.copy_rows import Nested, Number, Problem, plain_json

_RANGES = {"int2": (15, "Short"), "int4": (31, "Integer"), "int8": (63, "Long")}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_STAMP = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ ]\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,6})?)?)?", re.ASCII)
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_TEXTS = frozenset({"varchar", "bpchar", "text"})
# The formats that 'auto' accepts besides ISO 8601.
_AUTO = (
    "%Y%m%d", "%m/%d/%Y", "%d.%m.%Y", "%b %d %Y", "%b %d, %Y", "%d %b %Y", "%d-%b-%Y", "%Y-%b-%d", "%d %B %Y",
    "%B %d, %Y", "%Y.%m.%d", "%Y/%m/%d",
)  # fmt: skip
_AUTO_TIMES = ("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", " %I:%M:%S %p", " %H%M%S")
# The parts of a TIMEFORMAT or DATEFORMAT, longest first, and their strptime directives.
_PARTS = (
    ("YYYY", "%Y"), ("MONTH", "%B"), ("MON", "%b"), ("HH24", "%H"), ("HH12", "%I"), ("DAY", "%A"), ("YY", "%y"),
    ("MM", "%m"), ("DD", "%d"), ("DY", "%a"), ("HH", "%H"), ("MI", "%M"), ("SS", "%S"), ("US", "%f"), ("MS", "%f"),
    ("AM", "%p"), ("PM", "%p"), ("OF", "%z"), ("TZ", "%Z"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A column to load. `length` is the maximum bytes of a text column (0: no limit)."""

    name: str
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    not_null: bool = False
    has_default: bool = False
    is_identity: bool = False


# Sources: docs.aws.amazon.com/redshift/latest/dg/multi-byte-character-load-errors.html (both sentences, and the numbers
# of errors of UTF-8) and r_Load_Error_Reference.html (documented).
_NOT_UTF8 = "String contains invalid or unsupported UTF-8 codepoints"
_NOT_FOR_CHAR = (
    "Multibyte character not supported for CHAR (Hint: Try using VARCHAR). Invalid char: "
)


def convert(value: Any, target: Target, copy: Copy) -> str | None:
    """Return a field in the form of PostgreSQL's COPY. Raises Problem."""
    if target.type == "jsonb":
        converted = _super(value, copy)
    elif value is None:
        converted = None
    else:
        text = value.text() if isinstance(value, Nested) else str(value)
        converted = (
            _text(text, target, copy) if target.type in _TEXTS else _other(text, target, copy)
        )
    if converted is None and target.not_null:
        raise Problem(1213, "Missing data for not-null field", target.name)
    return converted


def _super(value: Any, copy: Copy) -> str | None:
    if value is None or isinstance(value, Number):
        return value
    if isinstance(value, Nested):
        return _without_nul(value.text())
    if copy.format == "json":
        return _without_nul(plain_json(value))
    return _without_nul(value) if value else None


def _without_nul(text: str) -> str:
    if "\\u0000" in text or "\x00" in text:
        raise Problem(1220, f"{_NOT_UTF8}.", value=text)
    return text


def _text(text: str, target: Target, copy: Copy) -> str | None:
    if not text:
        return None if copy.has("empty_as_null") else text
    if copy.has("blanks_as_null") and not text.strip():
        return None
    if copy.has("trim_blanks") and target.type != "bpchar":
        text = text.rstrip(" ")
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        if copy.accept_invalid is None:
            raise Problem(1220, f"{_NOT_UTF8}{_bad_sequence(text)}", target.name, text)
        text = _replace_invalid(text, copy.accept_invalid)
    data = text.encode()
    if target.type == "bpchar":
        if not data.isascii():
            raise Problem(1220, f"{_NOT_FOR_CHAR}{_multibyte(data)}", target.name, text)
        data = data.rstrip(b" ")
    if target.length and len(data) > target.length:
        if not copy.has("truncate_columns"):
            raise Problem(1204, "String length exceeds DDL length", target.name, text)
        return data[: target.length].decode("utf-8", "ignore")
    return text


def _bad_sequence(text: str) -> str:
    """Return Redshift's sentence on the first invalid UTF-8 bytes, with its error number."""
    if "\x00" in text:
        return "."
    # A lone surrogate stands for a byte that was not UTF-8, or comes from a JSON escape.
    escaped = next((char for char in text if "\ud800" <= char < "\udc80"), "")
    if escaped:
        return f". Bad UTF-8 hex sequence: {escaped.encode('utf-8', 'surrogatepass').hex(' ')} (error 5)"
    data = text.encode("utf-8", "surrogateescape")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        bad = data[error.start : error.end]
        if bad[0] == 0xED:
            number = 5
        elif error.reason == "unexpected end of data":
            number = 2
        elif error.reason == "invalid continuation byte":
            number = 4
        else:
            number = 1 if 0xF8 <= bad[0] <= 0xFD else 3
        return f". Bad UTF-8 hex sequence: {bad.hex(' ')} (error {number})"
    return "."


def _multibyte(data: bytes) -> str:
    """Return the first multibyte character in hexadecimal."""
    start = next(at for at, byte in enumerate(data) if byte > 0x7F)
    end = start + 1
    while end < len(data) and 0x80 <= data[end] < 0xC0:
        end += 1
    return data[start:end].hex(" ")


def _replace_invalid(text: str, by: str) -> str:
    """Return a text with `by` in place of each invalid UTF-8 byte (a lone surrogate) and of NUL."""
    return "".join(by if char == "\x00" or "\ud800" <= char <= "\udfff" else char for char in text)


def _other(text: str, target: Target, copy: Copy) -> str | None:
    stripped = text.strip()
    if not stripped:
        return None
    try:
        return _CONVERT.get(target.type, _as_it_is)(stripped, target, copy)
    except Problem as problem:
        problem.column, problem.value = target.name, text
        raise


def _integer(text: str, target: Target, copy: Copy) -> str:
    bits, name = _RANGES[target.type]
    if not _INTEGER.fullmatch(text):
        at = next(
            (
                n
                for n, char in enumerate(text)
                if not (char.isdecimal() or (char in "+-" and not n))
            ),
            0,
        )
        raise Problem(1207, f"Invalid digit, Value '{text[at]}', Pos {at}, Type: {name}")
    # Longer than any type allows, and int() may take long.
    if len(text) > 20 or not -(1 << bits) <= int(text) < 1 << bits:
        raise Problem(1222, f"Overflow, Type: {name}")  # words assumed
    return text


def _decimal(text: str, target: Target, copy: Copy) -> str:
    try:
        value = Decimal(text)
        if not value.is_finite():
            raise InvalidOperation
        if target.precision:
            rounding = ROUND_HALF_UP if copy.has("round_decimals") else ROUND_DOWN
            if value.adjusted() >= target.precision - target.scale:
                raise Problem(1209, f"Overflow for NUMERIC({target.precision},{target.scale})")
            value = value.quantize(Decimal(1).scaleb(-target.scale), rounding)
    except (InvalidOperation, ValueError) as error:
        raise Problem(1209, f"Invalid digit, Value '{text[:1]}', Pos 0, Type: Decimal") from error
    return f"{value:f}"


def _float(text: str, target: Target, copy: Copy) -> str:
    try:
        value = float(text)
    except ValueError as error:
        raise Problem(1208, f"Invalid digit, Value '{text[:1]}', Pos 0, Type: Double") from error
    if "_" in text:
        raise Problem(1208, "Invalid digit, Value '_', Pos 0, Type: Double")
    return repr(value)


def _boolean(text: str, target: Target, copy: Copy) -> str:
    lower = text.lower()
    if lower not in _TRUE and lower not in _FALSE:
        raise Problem(1210, "Unknown boolean format")
    return "t" if lower in _TRUE else "f"


def _stamp(text: str, target: Target, copy: Copy) -> str | None:
    shown = copy.time_format or "YYYY-MM-DD HH24:MI:SS"
    moment = _moment(text, copy.time_format)
    if moment is None:
        if copy.has("any_date"):
            return None
        raise Problem(1206, f"Invalid timestamp format or value [{shown}]")
    if target.type == "timestamp" and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(" ")


def _day(text: str, target: Target, copy: Copy) -> str | None:
    form = copy.date_format
    moment = _moment(text if form else text[:10], form)
    if moment is None:
        if copy.has("any_date"):
            return None
        if not form and len(text) < 10:
            raise Problem(1205, "Invalid Date Format - length must be 10 or more")
        raise Problem(1205, f"Invalid Date Format - [{form or 'YYYY-MM-DD'}]")
    return date(moment.year, moment.month, moment.day).isoformat()


def _moment(text: str, form: str) -> datetime | None:
    lower = form.lower()
    try:
        if lower in ("epochsecs", "epochmillisecs"):
            seconds = float(text) / (1000 if lower == "epochmillisecs" else 1)
            return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        if lower == "auto":
            return _auto(text)
        if form:
            return datetime.strptime(text, strptime_format(form))  # noqa: DTZ007 - columns have no zone
        return datetime.fromisoformat(_pad(text)) if _STAMP.fullmatch(text) else None
    except (ValueError, OverflowError, OSError):
        return None


def _pad(text: str) -> str:
    day, _, clock = text.partition(" ")
    year, month, number = day.split("-")
    parts = [*clock.partition(".")[0].split(":"), "0", "0", "0"][:3] if clock else ["0", "0", "0"]
    fraction = clock.partition(".")[2].ljust(6, "0") if "." in clock else "000000"
    hour, minute, second = (part.zfill(2) for part in parts)
    return f"{year}-{month.zfill(2)}-{number.zfill(2)} {hour}:{minute}:{second}.{fraction}"


def _auto(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    for day in _AUTO:
        for clock in _AUTO_TIMES:
            try:
                return datetime.strptime(text, day + clock)  # noqa: DTZ007
            except ValueError:
                continue
    return None


def strptime_format(form: str) -> str:
    """Return a TIMEFORMAT or DATEFORMAT as a format of `datetime.strptime`."""
    translated, at = "", 0
    while at < len(form):
        for part, letter in _PARTS:
            if form[at : at + len(part)].upper() == part:
                translated += letter
                at += len(part)
                break
        else:
            translated += "%%" if form[at] == "%" else form[at]
            at += 1
    return translated.replace("%S.%S", "%S.%f")


def _clock(text: str, target: Target, copy: Copy) -> str:
    try:
        return time.fromisoformat(text).isoformat()
    except ValueError as error:
        raise Problem(1206, "Invalid time format or value [HH24:MI:SS]") from error


def _bytes(text: str, target: Target, copy: Copy) -> str:
    try:
        return "\\x" + bytes.fromhex(text).hex()
    except ValueError as error:
        raise Problem(1200, "Invalid hexadecimal value") from error  # assumed


def _as_it_is(text: str, target: Target, copy: Copy) -> str:
    return text


_CONVERT = {
    "int2": _integer,
    "int4": _integer,
    "int8": _integer,
    "numeric": _decimal,
    "float4": _float,
    "float8": _float,
    "bool": _boolean,
    "timestamp": _stamp,
    "timestamptz": _stamp,
    "date": _day,
    "time": _clock,
    "timetz": _clock,
    "bytea": _bytes,
}
