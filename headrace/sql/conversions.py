"""Converts values between types as Spark casts them, and to JSON.

Reads numbers of texts as Java, and so Spark, reads them: Python takes 1_0 and inf too, and no 1.5d. Reads and writes
times in Java's patterns, as Spark does: the letters that both know alike.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false

from __future__ import annotations

# A value of SQL is of any type until it is computed; re2 has no types.
import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from headrace.sql.operators import EPOCH, moment
from headrace.sql.types import TIME, TIMESTAMP, SqlType

# What Java takes away around a text.
BLANKS = "".join(map(chr, range(33)))
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)([fFdD]?)")
# The words for no number of digits: Java's own, those of JSON's texts, and of delimited fields in Spark.
_INFINITIES = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_OF_JAVA = {**_INFINITIES, "NaN": math.nan, "+NaN": math.nan, "-NaN": math.nan}
OF_JSON = {**_INFINITIES, "NaN": math.nan, "INF": math.inf, "+INF": math.inf, "-INF": -math.inf}
OF_LINES = {**_OF_JAVA, "Inf": math.inf, "-Inf": -math.inf}


def read_whole(text: str) -> int | None:
    """Return a whole number, in as many digits as there are; None for a text that is none."""
    return int(text) if _WHOLE.fullmatch(text) else None


def read_decimal(text: str) -> Decimal | None:
    """Return a number as it is written; None for a text that is none."""
    match = _NUMBER.fullmatch(text)
    return None if match is None or match[2] else Decimal(match[1])


def read_double(text: str, words: Mapping[str, float]) -> float | None:
    """Return a DOUBLE, of `words` too; None for a text that is none."""
    text = text.strip(BLANKS)
    if text in words:
        return words[text]
    match = _NUMBER.fullmatch(text)
    return None if match is None else float(match[1])


def cast_double(text: str) -> float | None:
    """Return what CAST makes of a text, with the words of any letter case; None for a text that is none."""
    number = read_double(text, _OF_JAVA)
    if number is not None:
        return number
    word = text.strip(BLANKS).lower()
    infinite = word.removeprefix(word[:1]) if word[:1] in ("+", "-") else word
    if infinite in ("inf", "infinity"):
        return -math.inf if word.startswith("-") else math.inf
    return math.nan if word == "nan" else None


_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_BOUNDS = {"INT": 2**31, "BIGINT": 2**63}


# A DECIMAL has up to 38 digits, and Python's numbers have 28 if nothing is said.
MANY_DIGITS = Context(prec=76)


def millis(moment: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def text(value: Any) -> str:
    """Return a value as text, as Spark's cast writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, datetime):
        written = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "seconds")
        return written + (f".{value.microsecond:06}".rstrip("0") if value.microsecond else "")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _double_text(value: float) -> str:
    """Return a DOUBLE as Java writes it: 1.0E10, not 1e+10."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    if len(mantissa.lstrip("-")) == 1:
        # Of two digits Java writes the nearest ones, 4.9E-324.
        mantissa, _, exponent = f"{value:.1E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def cast(value: Any, type_: SqlType) -> Any:  # noqa: C901 - one case for each type
    """Return a value as another type; None if it is none of that type's. Raises ValueError for some of them."""
    match type_.name:
        case "STRING":
            return text(value)
        case "BOOLEAN":
            return _boolean(value)
        case "INT" | "BIGINT":
            return _whole(value, _BOUNDS[type_.name])
        case "DOUBLE":
            return cast_double(value) if isinstance(value, str) else float(value)
        case "DECIMAL":
            return decimal(value, type_)
        case "TIMESTAMP":
            if isinstance(value, str):
                return _read_time(value)
            return value if isinstance(value, datetime) else midnight(value)
        case "DATE":
            if isinstance(value, str):
                return _read_day(value)[0]
            return value.date() if isinstance(value, datetime) else value
        case "TIME":
            return read_time_of_day(text(value))
        case "BYTES":
            return value if isinstance(value, bytes) else value.encode()
        case "ARRAY":
            return [None if item is None else cast(item, type_.of[0]) for item in value]
        case "MAP":
            return {
                cast(k, type_.of[0]): None if v is None else cast(v, type_.of[1])
                for k, v in value.items()
            }
        case "STRUCT":
            parts = zip(type_.fields, type_.of, strict=False)
            return {
                name: None if value.get(name) is None else cast(value[name], of)
                for name, of in parts
            }
        case _:
            return value


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(value)


def _whole(value: Any, bound: int) -> int | None:
    whole = read_whole(value.strip(BLANKS)) if isinstance(value, str) else int(value)
    return whole if whole is not None and -bound <= whole < bound else None


def decimal(value: Any, type_: SqlType) -> Decimal | None:
    """Return a number as a DECIMAL of that many digits; None if it has more."""
    precision, scale = type_.digits
    value = int(value) if isinstance(value, bool) else value
    number = read_decimal(str(value).strip(BLANKS))
    if number is None:
        return None
    try:
        number = number.quantize(
            Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP", context=MANY_DIGITS
        )
    except InvalidOperation:
        return None
    # A DECIMAL has one zero.
    return (number or abs(number)) if len(number.as_tuple().digits) <= precision else None


# As Spark casts a text: of a day's time what is not said is 0, and a zone may follow.
_DAY_TEXT = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](.*))?)?)?", re.DOTALL)
_CLOCK_TEXT = re.compile(
    r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)? ?((?:UTC|GMT)?[+-]\d.*|[A-Za-z].*)?"
)
_OFFSET_TEXT = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{1,2}))?")


def _read_day(text: str) -> tuple[date, str]:
    match = _DAY_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day, rest = match.groups()
    return date(int(year), int(month or 1), int(day or 1)), rest or ""


def _read_time(text: str) -> datetime:
    day, rest = _read_day(text)
    match = _CLOCK_TEXT.fullmatch(rest or "0")
    if match is None:
        raise ValueError(f"{text!r} is no time")
    hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    clock = (int(hour), int(minute or 0), int(second or 0), micros)
    return datetime(day.year, day.month, day.day, *clock, _zone_of(zone or "Z")).astimezone(UTC)


def _zone_of(text: str) -> tzinfo:
    offset = _OFFSET_TEXT.fullmatch(text)
    if offset is not None:
        return offset_zone(f"{offset[1]}{int(offset[2]):02}:{int(offset[3] or 0):02}")
    try:
        return UTC if text in ("Z", "UTC", "GMT") else ZoneInfo(text)
    except (LookupError, OSError) as error:
        raise ValueError(f"{text!r} is no zone") from error


# From the year 1 to 9999, as Python's times are: what is beyond is NULL, where Spark would end the job.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def spark_moment(since_1970_ms: str) -> str:
    """Return the text of the time of some milliseconds since 1970; NULL beyond the years that there are."""
    return f"timestamp_millis(CASE WHEN {since_1970_ms} BETWEEN {FIRST_MS}L AND {LAST_MS}L THEN {since_1970_ms} END)"


def spark_day(number: str) -> str:
    """Return the text of the date of some days since 1970."""
    is_day = f"{number} BETWEEN {_FIRST_DAY} AND {_LAST_DAY}"
    return f"date_from_unix_date(CASE WHEN {is_day} THEN cast({number} AS INT) END)"


def midnight(day: date) -> datetime:
    """Return when a day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def day_of(number: int) -> date:
    """Return the date of some days since 1970."""
    return EPOCH.date() + timedelta(days=number)


def days_of(day: date) -> int:
    """Return a date as days since 1970."""
    return (day - EPOCH.date()).days


# A TIME is a text, HH:mm:ss and such digits of a fraction as it needs: texts are then ordered as the times are. Spark
# before 4.1 has no type for it.
DAY_MICROS = 86_400_000_000
_DAY_BEFORE, _MINUTES = r"\s*(?:\d{4}-\d{2}-\d{2}[ T])?", r"((?:[01]\d|2[0-3]):[0-5]\d)"
_TIME_OF_DAY = rf"{_DAY_BEFORE}{_MINUTES}(:[0-5]\d(?:\.\d{{0,9}})?)?\s*"


def read_time_of_day(text: str) -> str:
    """Return the TIME that a text says, perhaps after a date. Raises ValueError."""
    match = re.fullmatch(_TIME_OF_DAY, text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is no time of day")
    seconds, _, fraction = (match[2] or ":00").partition(".")
    fraction = fraction.rstrip("0")
    return f"{match[1]}{seconds}{'.' * bool(fraction)}{fraction}"


def spark_time_of_day(text: str) -> str:
    """Return the Spark text that reads the same; NULL of what is none."""
    with_seconds = rf"regexp_replace({text}, r'\A{_DAY_BEFORE}{_MINUTES}\s*\z', '$1:00')"
    ending = r"(:\d{2})(?:(\.\d*?[1-9])0*|\.0*)?\s*\z"
    shortest = rf"regexp_replace({with_seconds}, r'\A{_DAY_BEFORE}{_MINUTES}{ending}', '$1$2$3')"
    return rf"CASE WHEN {text} RLIKE r'\A{_TIME_OF_DAY}\z' THEN {shortest} END"


def read_clock(text: str) -> int:
    """Return a TIME as microseconds since midnight."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    micros = int(fraction.ljust(6, "0")[:6])
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + micros


def clock_of(micros: int) -> str:
    """Return the TIME of some microseconds since midnight."""
    seconds, fraction = divmod(micros, 1_000_000)
    written = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return written + (f".{fraction:06}".rstrip("0") if fraction else "")


def spark_on_first_day(text: str) -> str:
    """Return the Spark text of a TIME's time on 1 January 1970."""
    return f"cast(concat('1970-01-01 ', {text}) AS TIMESTAMP)"


def spark_clock_of(time: str) -> str:
    """Return the Spark text of a time's TIME."""
    return f"regexp_replace(date_format({time}, 'HH:mm:ss.SSSSSS'), '[.]?0+$', '')"


def spark_cast(text: str, type_: SqlType) -> str:
    """Return the Spark text of a value as another type; NULL if it is none of that type's."""
    if type_ == TIME:
        return spark_time_of_day(f"cast({text} AS STRING)")
    return f"try_cast({text} AS {type_.spark()})"


# In a record a number for a time counts milliseconds, or days, as in ksqlDB, also where it stands in quotes.
NUMBER = r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*"
WRITTEN_TIME = r"\s*\d{4}-.*"


def read_written(value: Any, type_: SqlType) -> datetime | date | str:
    """Return a TIMESTAMP, a DATE or a TIME as a record has it. Raises ValueError or OverflowError."""
    text = value if isinstance(value, str) else json.dumps(value)
    if re.fullmatch(NUMBER, text):
        number = int(float(text))
        if type_ == TIME:
            return _clock_of_millis(number)
        return moment(number) if type_ == TIMESTAMP else day_of(number)
    if type_ == TIME:
        return read_time_of_day(text)
    if not re.fullmatch(WRITTEN_TIME, text, re.DOTALL):
        raise ValueError(f"{text!r} is no {type_}")
    return _read_time(text) if type_ == TIMESTAMP else _read_day(text)[0]


def _clock_of_millis(number: int) -> str:
    if not 0 <= number * 1000 < DAY_MICROS:
        raise ValueError(f"{number} milliseconds are no time of day")
    return clock_of(number * 1000)


def spark_written(text: str, type_: SqlType) -> str:
    """Return the Spark text that reads the same; NULL of what is none."""
    number = f"cast(cast({text} AS DOUBLE) AS BIGINT)"
    is_number = f"{text} RLIKE r'\\A{NUMBER}\\z'"
    if type_ == TIME:
        is_within = f"{number} BETWEEN 0 AND {DAY_MICROS // 1000 - 1}"
        of_number = (
            f"CASE WHEN {is_within} THEN {spark_clock_of(f'timestamp_millis({number})')} END"
        )
        return f"CASE WHEN {is_number} THEN {of_number} ELSE {spark_time_of_day(text)} END"
    of_number = spark_moment(number) if type_ == TIMESTAMP else spark_day(number)
    return (
        f"CASE WHEN {is_number} THEN {of_number}"
        f" WHEN {text} RLIKE r'(?s)\\A{WRITTEN_TIME}\\z' THEN try_cast({text} AS {type_}) END"
    )


def as_json(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return (
            int(value)
            if value == value.to_integral_value() and value.as_tuple().exponent == 0
            else float(value)
        )
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return _double_text(value)
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {text(key): as_json(item) for key, item in value.items()}
    return value


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Each run of letters: the expression that reads it, and its part of a time.
_READERS = {
    "yyyy": (r"(\d{4})", "year"),
    # Of this century.
    "yy": (r"(\d{2})", "year of 100"),
    "MMM": (f"((?i:{'|'.join(MONTHS)}))", "month"),
    "MM": (r"(\d{2})", "month"),
    "M": (r"(\d{1,2})", "month"),
    "dd": (r"(\d{2})", "day"),
    "d": (r"(\d{1,2})", "day"),
    "HH": (r"(\d{2})", "hour"),
    "H": (r"(\d{1,2})", "hour"),
    "hh": (r"(\d{2})", "hour of 12"),
    "h": (r"(\d{1,2})", "hour of 12"),
    "mm": (r"(\d{2})", "minute"),
    "m": (r"(\d{1,2})", "minute"),
    "ss": (r"(\d{2})", "second"),
    "s": (r"(\d{1,2})", "second"),
    **{"S" * n: (rf"(\d{{{n}}})", "fraction") for n in range(1, 10)},
    "X": (r"([Zz]|[+-]\d{2}(?:\d{2})?)", "zone"),
    "XX": (r"([Zz]|[+-]\d{4})", "zone"),
    "XXX": (r"([Zz]|[+-]\d{2}:\d{2})", "zone"),
    "Z": (r"([+-]\d{4})", "zone"),
}
_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


@lru_cache(256)
def pieces(pattern: str) -> tuple[tuple[bool, str], ...]:
    """Return a pattern's pieces: whether it is a letter's run, and its text; raises ValueError for one not known."""
    result: list[tuple[bool, str]] = []
    position = 0
    for piece in _PIECES.finditer(pattern):
        if piece.start() != position:
            break
        position = piece.end()
        if piece[2]:
            if piece.group() not in _READERS:
                raise ValueError(f"a time's pattern has no {piece.group()!r}")
            result.append((True, piece.group()))
        else:
            literal = piece.group() if piece[1] is None else piece[1].replace("''", "'") or "'"
            result.append((False, literal))
    if position != len(pattern):
        raise ValueError(f"{pattern!r} is no pattern of a time")
    return tuple(result)


@lru_cache(256)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    parts: list[str] = []
    names: list[str] = []
    for is_letters, text in pieces(pattern):
        if is_letters:
            expression, name = _READERS[text]
            parts.append(expression)
            names.append(name)
        else:
            parts.append(re.escape(text))
    return re.compile("".join(parts)), tuple(names)


def read(text: str, pattern: str) -> datetime:
    """Return the time that `text` says; UTC where it names no zone. Raises ValueError."""
    expression, names = _reader(pattern)
    match = expression.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not like {pattern!r}")
    parts = dict(zip(names, match.groups(), strict=False))
    zone = parts.pop("zone", "Z")
    if "year of 100" in parts:
        parts["year"] = f"20{parts.pop('year of 100')}"
    micros = int(parts.pop("fraction", "0").ljust(9, "0")[:6])
    moment = {
        "year": 1970,
        "month": 1,
        "day": 1,
        **{
            name: int(value) if value.isdigit() else MONTHS.index(value.capitalize()) + 1
            for name, value in parts.items()
        },
    }
    return datetime(**moment, microsecond=micros, tzinfo=offset_zone(zone)).astimezone(UTC)  # type: ignore[arg-type]


def offset_zone(text: str) -> timezone:
    """Return the zone of an offset, such as +02:00, or of Z."""
    if text in ("Z", "z"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def write(moment: datetime, pattern: str) -> str:
    """Return `moment` in UTC as the pattern says. Raises ValueError."""
    moment = moment.astimezone(UTC)
    values = {
        "y": moment.year, "M": moment.month, "d": moment.day,
        "H": moment.hour, "h": (moment.hour + 11) % 12 + 1, "m": moment.minute, "s": moment.second,
    }  # fmt: skip
    written: list[str] = []
    for is_letters, text in pieces(pattern):
        if not is_letters:
            written.append(text)
        elif text[0] == "S":
            written.append(f"{moment.microsecond:06}000"[: len(text)])
        elif text[0] == "X":
            written.append("Z")
        elif text == "Z":
            written.append("+0000")
        elif text == "MMM":
            written.append(MONTHS[moment.month - 1])
        elif text == "yy":
            written.append(f"{moment.year % 100:02}")
        else:
            written.append(f"{values[text[0]]:0{len(text)}}")
    return "".join(written)
