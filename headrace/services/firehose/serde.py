"""The options of record format conversion: how JSON keys map to columns, and how Parquet and ORC are written.

Parses timestamps with Joda-Time patterns, which the Hive JSON SerDe uses.

Source: joda.org/joda-time/apidocs/org/joda/time/format/DateTimeFormat.html (documented).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace.core.extras import install_command
from headrace.core.values import get_mapping, section
from headrace.services.firehose.errors import invalid

MILLIS = "millis"
_RUN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# The regular expression for each letter; numbers match as many digits as the next part allows.
_NUMBERS = {
    "y": "year",
    "Y": "year",
    "u": "year",
    "M": "month",
    "d": "day",
    "H": "hour",
    "h": "half",
    "m": "minute",
    "s": "second",
}


def check_pattern(pattern: str) -> str:
    """Return a valid pattern. Raises AwsError."""
    try:
        _build_expression(pattern)
    except ValueError as error:
        raise invalid(f"Invalid timestamp format: {pattern}") from error  # assumed
    return pattern


def _build_expression(pattern: str) -> re.Pattern[str]:
    parts: list[str] = []
    for match in _RUN.finditer(pattern):
        text, letter = match.group(0), match.group(2)
        if match.group(1) is not None:
            parts.append(re.escape(match.group(1).replace("''", "'") or "'"))
        elif letter is None:
            parts.append(re.escape(text))
        elif letter == "M" and len(text) >= 3:
            parts.append(r"(?P<name>[A-Za-z]{3,9})\.?")
        elif letter == "E":
            parts.append(r"(?P<weekday>[A-Za-z]{3,9})")
        elif letter == "a":
            parts.append(r"(?P<noon>[AaPp][Mm])")
        elif letter == "S":
            parts.append(rf"(?P<part>\d{{1,{max(len(text), 9)}}})")
        elif letter in ("Z", "z", "X"):
            parts.append(r"(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)")
        elif letter in _NUMBERS:
            most = 4 if _NUMBERS[letter] == "year" else 2
            parts.append(rf"(?P<{_NUMBERS[letter]}>\d{{1,{most}}})")
        else:
            raise ValueError(pattern)
    try:
        # Each named group may occur once, which bounds the work on any text; a second one raises re.error.
        return re.compile("".join(parts))
    except re.error as error:
        raise ValueError(pattern) from error


def build_reader(pattern: str) -> Callable[[str], datetime | None]:
    """Return a parser for a pattern; it returns a UTC time without a zone, or None for text that does not match."""
    expression = _build_expression(pattern)

    def read(text: str) -> datetime | None:
        match = expression.fullmatch(text.strip())
        if match is None:
            return None
        try:
            return _build_time(match.groupdict())
        except ValueError:
            return None

    return read


def _build_time(fields: dict[str, str | None]) -> datetime:
    def number(name: str, default: int) -> int:
        value = fields.get(name)
        return default if value is None else int(value)

    year = number("year", 1970)
    if len(fields.get("year") or "1970") <= 2:
        year += 2000 if year < 70 else 1900
    month = number("month", 1)
    name = fields.get("name")
    if name:
        month = _MONTHS.index(name[:3].lower()) + 1
    hour = number("hour", 0)
    if fields.get("half") is not None:
        hour = number("half", 12) % 12 + (12 if (fields.get("noon") or "").lower() == "pm" else 0)
    micros = int((fields.get("part") or "0").ljust(6, "0")[:6])
    zone = fields.get("zone") or "Z"
    offset = "+00:00" if zone in ("Z", "UTC", "GMT") else zone
    day, minute, second = number("day", 1), number("minute", 0), number("second", 0)
    at = datetime(year, month, day, hour, minute, second, micros, UTC).replace(tzinfo=None)
    shifted = datetime.fromisoformat(f"{at.isoformat()}{offset}")
    return shifted.astimezone(UTC).replace(tzinfo=None)


_PADDING_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class JsonReadOptions:
    """How keys map to columns, and which values fit: the options of the OpenX SerDe, or the Hive SerDe.

    Attributes:
        case_insensitive: whether the case of a key says nothing: the OpenX SerDe converts keys to lower case first.
        dots_to_underscores: whether a dot in a key becomes `_`.
        key_of: the JSON key of each column whose key differs from its name.
        time_formats: more Joda-Time patterns for timestamps as text; `millis` is a number of milliseconds. Only the
            Hive SerDe has them.
        hive: whether this is the Hive SerDe, which converts less and keeps keys as they are.
    """

    case_insensitive: bool = True
    dots_to_underscores: bool = False
    key_of: Mapping[str, str] = field(default_factory=dict[str, str])
    time_formats: tuple[str, ...] = ()
    hive: bool = False

    @property
    def lowers_keys(self) -> bool:
        """Whether keys within values, such as a map's, become lower case."""
        return self.case_insensitive and not self.hive


@dataclass(frozen=True, slots=True)
class ParquetWriteOptions:
    """The Parquet SerDe's options for writing a file."""

    compression: str = "SNAPPY"
    dictionary: bool = True
    page_size_bytes: int | None = None
    data_page_version: str = "1.0"


@dataclass(frozen=True)
class OrcWriting:
    """The ORC SerDe's options for writing a file. Defaults are AWS's (documented)."""

    compression: str = "SNAPPY"
    stripe_bytes: int = 64 * 1024 * 1024
    row_index_stride: int = 10_000
    padding_tolerance: float = 0.0
    dictionary_threshold: float = 0.0
    bloom_columns: tuple[str, ...] = ()
    bloom_rate: float = 0.05
    version: str = "0.12"


def check_can_convert() -> None:
    """Raise AwsError when pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise invalid(
            f"Record format conversion needs pyarrow, which is not installed here: {install_command('parquet')}"
        )


def check(conversion: Mapping[str, Any]) -> None:
    """Raise AwsError for an invalid DataFormatConversionConfiguration; sentences and order observed by others, 2026."""
    check_can_convert()
    for member in ("InputFormatConfiguration", "OutputFormatConfiguration", "SchemaConfiguration"):
        if not conversion.get(member):
            raise invalid(f"{member} must not be null")
    deserializer = _deserializer(conversion)
    serializer = get_mapping(get_mapping(conversion, "OutputFormatConfiguration"), "Serializer")
    for name, chosen in (("deserializer", deserializer), ("serializer", serializer)):
        if len(chosen) > 1:
            raise invalid(f"More than one {name} specified. Only one may be chosen.")
        if not chosen:
            raise invalid(f"{name.capitalize()} must not be null")
    schema = get_mapping(conversion, "SchemaConfiguration")
    for member, name in (
        ("RoleARN", "RoleArn"),
        ("DatabaseName", "DatabaseName"),
        ("TableName", "TableName"),
    ):
        if not schema.get(member):
            raise invalid(f"SchemaConfiguration.{name} must not be null or empty")
    for pattern in get_mapping(deserializer, "HiveJsonSerDe").get("TimestampFormats") or ():
        if pattern != MILLIS:
            check_pattern(pattern)


def merge(present: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a conversion after an update, member by member, also within the schema (observed by others, 2026-09-07).

    An input or output format in the update replaces the present one, since each has one SerDe.
    """
    merged_settings = {**present, **change}
    if "SchemaConfiguration" in change:
        merged_settings["SchemaConfiguration"] = {
            **get_mapping(present, "SchemaConfiguration"),
            **get_mapping(change, "SchemaConfiguration"),
        }
    return merged_settings


def options_of(
    conversion: Mapping[str, Any],
) -> tuple[JsonReadOptions, ParquetWriteOptions | OrcWriting]:
    """Return how a conversion reads JSON and writes its files."""
    serializer = section(conversion, "OutputFormatConfiguration", "Serializer")
    orc = serializer.get("OrcSerDe")
    return _reading(conversion), _writing(conversion) if orc is None else _orc_writing(orc)


def _reading(conversion: Mapping[str, Any]) -> JsonReadOptions:
    hive = get_mapping(_deserializer(conversion), "HiveJsonSerDe")
    openx = get_mapping(_deserializer(conversion), "OpenXJsonSerDe")
    return JsonReadOptions(
        case_insensitive=openx.get("CaseInsensitive", True),
        dots_to_underscores=openx.get("ConvertDotsInJsonKeysToUnderscores", False),
        key_of={
            name.lower(): key for name, key in get_mapping(openx, "ColumnToJsonKeyMappings").items()
        },
        time_formats=tuple(hive.get("TimestampFormats") or ()),
        hive="HiveJsonSerDe" in _deserializer(conversion),
    )


def _writing(conversion: Mapping[str, Any]) -> ParquetWriteOptions:
    serializer = get_mapping(get_mapping(conversion, "OutputFormatConfiguration"), "Serializer")
    parquet = get_mapping(serializer, "ParquetSerDe")
    compression = parquet.get("Compression") or "SNAPPY"
    return ParquetWriteOptions(
        compression="NONE" if compression == "UNCOMPRESSED" else compression,
        dictionary=parquet.get("EnableDictionaryCompression", True),
        page_size_bytes=parquet.get("PageSizeBytes"),
        data_page_version="2.0" if parquet.get("WriterVersion") == "V2" else "1.0",
    )


def _orc_writing(orc: Mapping[str, Any]) -> OrcWriting:
    padded = bool(orc.get("EnablePadding", False))
    return OrcWriting(
        compression="UNCOMPRESSED"
        if orc.get("Compression") == "NONE"
        else orc.get("Compression") or "SNAPPY",
        stripe_bytes=orc.get("StripeSizeBytes", OrcWriting.stripe_bytes),
        row_index_stride=orc.get("RowIndexStride", OrcWriting.row_index_stride),
        padding_tolerance=orc.get("PaddingTolerance", _PADDING_TOLERANCE) if padded else 0.0,
        dictionary_threshold=orc.get("DictionaryKeyThreshold", 0.0),
        bloom_columns=tuple(name.lower() for name in orc.get("BloomFilterColumns") or ()),
        bloom_rate=orc.get("BloomFilterFalsePositiveProbability", OrcWriting.bloom_rate),
        version="0.11" if orc.get("FormatVersion") == "V0_11" else "0.12",
    )


def _deserializer(conversion: Mapping[str, Any]) -> dict[str, Any]:
    return get_mapping(get_mapping(conversion, "InputFormatConfiguration"), "Deserializer")
