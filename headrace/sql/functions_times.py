"""Functions of times, dates and times of day; `headrace/sql/types.py` says what the fields mean."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# A value of SQL is of any type until it is computed.
from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

from headrace.sql.conversions import (
    DAY_MICROS,
    FIRST_MS,
    LAST_MS,
    clock_of,
    day_of,
    days_of,
    midnight,
    millis,
    offset_zone,
    read,
    read_clock,
    spark_clock_of,
    spark_day,
    spark_moment,
    spark_on_first_day,
    write,
)
from headrace.sql.operators import EPOCH, moment
from headrace.sql.types import BIGINT, DATE, INT, STRING, TIME, TIMESTAMP, Function

# KSQL's units, in what timedelta takes; months and years have no fixed length.
_UNITS = {
    "MILLISECONDS": ("milliseconds", 1), "SECONDS": ("seconds", 1), "MINUTES": ("minutes", 1), "HOURS": ("hours", 1),
    "DAYS": ("days", 1), "WEEKS": ("weeks", 1), "MONTHS": ("", 1), "YEARS": ("", 12),
}  # fmt: skip
FIELDS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})
UNITS = frozenset(_UNITS) | {unit.removesuffix("S") for unit in _UNITS}
DATE_UNITS = frozenset({"DAYS", "WEEKS", "MONTHS", "YEARS", "DAY", "WEEK", "MONTH", "YEAR"})
CLOCK_UNITS = UNITS - DATE_UNITS


def _plural(unit: str) -> str:
    return unit.upper().removesuffix("S") + "S"


def _add(unit: str, count: int, time: Any) -> Any:
    """Return a time or date that much later; a month after the 31st is the next month's last day."""
    name, factor = _UNITS[_plural(unit)]
    if name:
        return time + timedelta(**{name: count * factor})
    months = time.year * 12 + time.month - 1 + count * factor
    year, month = months // 12, months % 12 + 1
    return time.replace(
        year=year, month=month, day=min(time.day, calendar.monthrange(year, month)[1])
    )


def _add_to_date(unit: str, count: int, day: date) -> date:
    """Return the day of the time that much after a day's midnight."""
    return cast(datetime, _add(unit, count, midnight(day))).date()


_MOST_OF_UNIT = {
    "MILLISECONDS": LAST_MS - FIRST_MS, "SECONDS": 315_537_897_599, "MINUTES": 5_258_964_959, "HOURS": 87_649_415,
    "DAYS": 3_652_058, "WEEKS": 521_722, "MONTHS": 119_987, "YEARS": 9_998,
}  # fmt: skip


def _spark_within(time: str) -> str:
    """Return Spark's text of a time or a date; NULL beyond the years 1 to 9999. `time` stands there once."""
    is_within = "_t >= DATE '0001-01-01' AND _t < DATE '+10000-01-01'"
    return f"get(filter(array({time}), _t -> {is_within}), 0)"


def _spark_add(sign: str) -> Callable[[str, str, str], str]:
    def written(unit: str, count: str, time: str) -> str:
        unit = _plural(unit.strip("'"))
        most = _MOST_OF_UNIT[unit]
        added = f"timestampadd({unit.removesuffix('S')}, {sign}{count}, {time})"
        return f"CASE WHEN {count} BETWEEN -{most}L AND {most}L THEN {_spark_within(added)} END"

    return written


def _spark_add_date(sign: str) -> Callable[[str, str, str], str]:
    add = _spark_add(sign)
    return lambda unit, count, time: (
        f"cast({add(unit, count, f'cast({time} AS TIMESTAMP)')} AS DATE)"
    )


def is_zone(name: str) -> bool:
    """Return whether a text is a zone's name, or an offset such as +02:00."""
    is_offset = re.fullmatch(r"[+-](0\d|1[0-7]):?[0-5]\d", name) is not None
    return is_offset or name in available_timezones()


def _zone_by_name(name: str) -> tzinfo:
    return offset_zone(name) if name[0] in "+-" else ZoneInfo(name)


def spark_zone(name: str) -> str:
    """Return a zone's constant as Spark reads it: with a colon."""
    return re.sub(r"^'([+-]\d\d)(\d\d)'$", r"'\1:\2'", name)


def _in_zone(time: datetime, zone: str) -> datetime:
    """Return a time whose UTC clock shows what the zone's clock shows."""
    return time.astimezone(_zone_by_name(zone)).replace(tzinfo=UTC)


def _from_zone(time: datetime, zone: str) -> datetime:
    return time.replace(tzinfo=_zone_by_name(zone)).astimezone(UTC)


def _write(time: datetime, pattern: str, zone: str = "UTC") -> str:
    return write(_in_zone(time, zone), pattern)


def _read(text: str, pattern: str, zone: str = "UTC") -> datetime:
    return _from_zone(read(text, pattern), zone)


def _spark_write(time: str, pattern: str, zone: str = "'UTC'") -> str:
    time = time if zone == "'UTC'" else f"from_utc_timestamp({time}, {spark_zone(zone)})"
    return f"date_format({time}, {pattern})"


def _spark_read(text: str, pattern: str, zone: str = "'UTC'") -> str:
    time = f"to_timestamp({text}, {pattern})"
    return time if zone == "'UTC'" else f"to_utc_timestamp({time}, {spark_zone(zone)})"


def _field(field: str, time: datetime) -> int:
    return int(getattr(time, field.lower()))


def _spark_field(field: str, time: str) -> str:
    field = field.strip("'").lower()
    return f"{field}({time})"


def _add_to_clock(unit: str, count: int, text: str) -> str:
    """Return a time of day that much later, on the next day where it is past midnight."""
    size = _clock_unit(unit)
    return clock_of((read_clock(text) + count % (DAY_MICROS // size) * size) % DAY_MICROS)


def _clock_unit(unit: str) -> int:
    """Return a unit in microseconds."""
    name, _ = _UNITS[_plural(unit)]
    return timedelta(**{name: 1}) // timedelta(microseconds=1)


def _spark_add_to_clock(sign: str) -> Callable[[str, str, str], str]:
    def written(unit: str, count: str, text: str) -> str:
        size = _clock_unit(unit.strip("'"))
        # Whole days change nothing, and their micros may be more than a BIGINT has.
        step = f"pmod({count}, {DAY_MICROS // size}L) * {size}L"
        micros = f"pmod(unix_micros({spark_on_first_day(text)}) {sign} {step}, {DAY_MICROS}L)"
        return spark_clock_of(f"timestamp_micros({micros})")

    return written


def _on_first_day(text: str) -> datetime:
    return EPOCH + timedelta(microseconds=read_clock(text))


def _time_of_day(time: datetime) -> str:
    return clock_of((time - EPOCH) // timedelta(microseconds=1) % DAY_MICROS)


TIME_FUNCTIONS: tuple[Function, ...] = (
    Function("FROM_UNIXTIME", "I", TIMESTAMP, spark_moment, moment),
    Function("UNIX_TIMESTAMP", "T", BIGINT, "unix_millis({0})", millis),
    Function("FORMAT_TIMESTAMP", "TSS?", STRING, _spark_write, _write),
    Function("PARSE_TIMESTAMP", "SSS?", TIMESTAMP, _spark_read, _read),
    Function("TIMESTAMPTOSTRING", "ISS?", STRING,
             lambda ms, *rest: _spark_write(spark_moment(ms), *rest),
             lambda ms, *rest: _write(moment(ms), *rest)),
    Function("STRINGTOTIMESTAMP", "SSS?", BIGINT,
             lambda *a: f"unix_millis({_spark_read(*a)})", lambda *a: millis(_read(*a))),
    Function("CONVERT_TZ", "TSS", TIMESTAMP,
             lambda t, a, b: f"from_utc_timestamp(to_utc_timestamp({t}, {spark_zone(a)}), {spark_zone(b)})",
             lambda t, a, b: _in_zone(_from_zone(t, a), b)),
    Function("TIMESTAMPADD", "UIT", TIMESTAMP, _spark_add(""), _add),
    Function("TIMESTAMPSUB", "UIT", TIMESTAMP, _spark_add("-"), lambda u, n, t: _add(u, -n, t)),
    Function("DATEADD", "UID", DATE, _spark_add_date(""), _add_to_date),
    Function("DATESUB", "UID", DATE, _spark_add_date("-"), lambda u, n, d: _add_to_date(u, -n, d)),
    Function("FORMAT_DATE", "DS", STRING, "date_format({0}, {1})", lambda d, f: write(midnight(d), f)),
    Function("PARSE_DATE", "SS", DATE, "to_date({0}, {1})", lambda s, f: read(s, f).date()),
    Function("DATETOSTRING", "IS", STRING, lambda n, f: f"date_format({spark_day(n)}, {f})",
             lambda n, f: write(midnight(day_of(n)), f)),
    Function("STRINGTODATE", "SS", INT, "unix_date(to_date({0}, {1}))",
             lambda s, f: days_of(read(s, f).date())),
    Function("FORMAT_TIME", "OS", STRING, lambda t, f: f"date_format({spark_on_first_day(t)}, {f})",
             lambda t, f: write(_on_first_day(t), f)),
    Function("PARSE_TIME", "SS", TIME, lambda s, f: spark_clock_of(f"to_timestamp({s}, {f})"),
             lambda s, f: _time_of_day(read(s, f))),
    Function("TIMEADD", "GIO", TIME, _spark_add_to_clock("+"), _add_to_clock),
    Function("TIMESUB", "GIO", TIME, _spark_add_to_clock("-"), lambda u, n, t: _add_to_clock(u, -n, t)),
    # Kinesis Analytics', whose pattern comes first.
    Function("TIME_TO_CHAR", "SO", STRING, lambda f, t: f"date_format({spark_on_first_day(t)}, {f})",
             lambda f, t: write(_on_first_day(t), f)),
    Function("CHAR_TO_TIME", "SS", TIME, lambda f, s: spark_clock_of(f"to_timestamp({s}, {f})"),
             lambda f, s: _time_of_day(read(s, f))),
    Function("TIMESTAMP_TO_CHAR", "ST", STRING, "date_format({1}, {0})", lambda f, t: _write(t, f)),
    Function("CHAR_TO_TIMESTAMP", "SS", TIMESTAMP, "to_timestamp({1}, {0})", lambda f, s: _read(s, f)),
    Function("DATE_TO_CHAR", "SD", STRING, "date_format({1}, {0})", lambda f, d: write(midnight(d), f)),
    Function("CHAR_TO_DATE", "SS", DATE, "to_date({1}, {0})", lambda f, s: read(s, f).date()),
    Function("TSDIFF", "TT", BIGINT, "unix_millis({0}) - unix_millis({1})", lambda a, b: millis(a) - millis(b)),
    Function("EXTRACT", "FT", INT, _spark_field, _field),
    Function("FROM_DAYS", "I", DATE, spark_day, day_of),
    Function("UNIX_DATE", "D", INT, "unix_date({0})", days_of),
)  # fmt: skip
