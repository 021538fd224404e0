"""Functions of times and dates; `headrace/sql/function.py` says what the fields mean."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# A value of SQL is of any type until it is computed.
from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headrace.sql import java_times
from headrace.sql.conversions import millis
from headrace.sql.function import Function
from headrace.sql.operators import moment
from headrace.sql.types import BIGINT, DATE, INT, STRING, TIMESTAMP

_EPOCH_DAY = date(1970, 1, 1)
# KSQL's units, in what timedelta takes; months and years have no fixed length.
_UNITS = {
    "MILLISECONDS": ("milliseconds", 1), "SECONDS": ("seconds", 1), "MINUTES": ("minutes", 1), "HOURS": ("hours", 1),
    "DAYS": ("days", 1), "WEEKS": ("weeks", 1), "MONTHS": ("", 1), "YEARS": ("", 12),
}  # fmt: skip
FIELDS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})
UNITS = frozenset(_UNITS) | {unit.removesuffix("S") for unit in _UNITS}
DATE_UNITS = frozenset({"DAYS", "WEEKS", "MONTHS", "YEARS", "DAY", "WEEK", "MONTH", "YEAR"})


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


# From the year 1 to 9999, as Python's times are: what is beyond is NULL, where Spark would end the job.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MOST_OF_UNIT = {
    "MILLISECONDS": _LAST_MS - _FIRST_MS, "SECONDS": 315_537_897_599, "MINUTES": 5_258_964_959, "HOURS": 87_649_415,
    "DAYS": 3_652_058, "WEEKS": 521_722, "MONTHS": 119_987, "YEARS": 9_998,
}  # fmt: skip


def spark_moment(since_1970_ms: str) -> str:
    """Return the text of the time of some milliseconds since 1970; NULL beyond the years that there are."""
    return f"timestamp_millis(CASE WHEN {since_1970_ms} BETWEEN {_FIRST_MS}L AND {_LAST_MS}L THEN {since_1970_ms} END)"


def _spark_day(number: str) -> str:
    return f"date_from_unix_date(CASE WHEN {number} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN {number} END)"


def _spark_add(sign: str) -> Callable[[str, str, str], str]:
    def written(unit: str, count: str, time: str) -> str:
        unit = _plural(unit.strip("'"))
        most = _MOST_OF_UNIT[unit]
        added = f"timestampadd({unit.removesuffix('S')}, {sign}{count}, {time})"
        return f"CASE WHEN {count} BETWEEN -{most}L AND {most}L THEN {added} END"

    return written


def _spark_add_date(sign: str) -> Callable[[str, str, str], str]:
    add = _spark_add(sign)
    return lambda unit, count, time: (
        f"cast({add(unit, count, f'cast({time} AS TIMESTAMP)')} AS DATE)"
    )


def _in_zone(time: datetime, zone: str) -> datetime:
    """Return a time whose UTC clock shows what the zone's clock shows."""
    return time.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)


def _from_zone(time: datetime, zone: str) -> datetime:
    return time.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def _write(time: datetime, pattern: str, zone: str = "UTC") -> str:
    return java_times.write(_in_zone(time, zone), pattern)


def _read(text: str, pattern: str, zone: str = "UTC") -> datetime:
    return _from_zone(java_times.read(text, pattern), zone)


def _spark_write(time: str, pattern: str, zone: str = "'UTC'") -> str:
    time = time if zone == "'UTC'" else f"from_utc_timestamp({time}, {zone})"
    return f"date_format({time}, {pattern})"


def _spark_read(text: str, pattern: str, zone: str = "'UTC'") -> str:
    time = f"to_timestamp({text}, {pattern})"
    return time if zone == "'UTC'" else f"to_utc_timestamp({time}, {zone})"


def _field(field: str, time: datetime) -> int:
    return int(getattr(time, field.lower()))


def _spark_field(field: str, time: str) -> str:
    field = field.strip("'").lower()
    return f"{field}({time})"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _day(number: int) -> date:
    return _EPOCH_DAY + timedelta(days=number)


def _days(day: date) -> int:
    return (day - _EPOCH_DAY).days


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
    Function("CONVERT_TZ", "TSS", TIMESTAMP, "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",
             lambda t, a, b: _in_zone(_from_zone(t, a), b)),
    Function("TIMESTAMPADD", "UIT", TIMESTAMP, _spark_add(""), _add),
    Function("TIMESTAMPSUB", "UIT", TIMESTAMP, _spark_add("-"), lambda u, n, t: _add(u, -n, t)),
    Function("DATEADD", "VID", DATE, _spark_add_date(""), _add),
    Function("DATESUB", "VID", DATE, _spark_add_date("-"), lambda u, n, t: _add(u, -n, t)),
    Function("FORMAT_DATE", "DS", STRING, "date_format({0}, {1})", lambda d, f: java_times.write(_midnight(d), f)),
    Function("PARSE_DATE", "SS", DATE, "to_date({0}, {1})", lambda s, f: java_times.read(s, f).date()),
    Function("DATETOSTRING", "IS", STRING, lambda n, f: f"date_format({_spark_day(n)}, {f})",
             lambda n, f: java_times.write(_midnight(_day(n)), f)),
    Function("STRINGTODATE", "SS", INT, "unix_date(to_date({0}, {1}))",
             lambda s, f: _days(java_times.read(s, f).date())),
    # Kinesis Analytics', whose pattern comes first.
    Function("TIMESTAMP_TO_CHAR", "ST", STRING, "date_format({1}, {0})", lambda f, t: _write(t, f)),
    Function("CHAR_TO_TIMESTAMP", "SS", TIMESTAMP, "to_timestamp({1}, {0})", lambda f, s: _read(s, f)),
    Function("DATE_TO_CHAR", "SD", STRING, "date_format({1}, {0})", lambda f, d: java_times.write(_midnight(d), f)),
    Function("CHAR_TO_DATE", "SS", DATE, "to_date({1}, {0})", lambda f, s: java_times.read(s, f).date()),
    Function("TSDIFF", "TT", BIGINT, "unix_millis({0}) - unix_millis({1})", lambda a, b: millis(a) - millis(b)),
    Function("EXTRACT", "FT", INT, _spark_field, _field),
    Function("FROM_DAYS", "I", DATE, _spark_day, _day),
    Function("UNIX_DATE", "D", INT, "unix_date({0})", _days),
)  # fmt: skip
