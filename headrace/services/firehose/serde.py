"""The options of record format conversion: how JSON keys map to columns, and how Parquet and ORC are written."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.extras import install_command
from headrace.core.values import get_mapping, section
from headrace.services.firehose import joda
from headrace.services.firehose.errors import invalid

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
        if pattern != joda.MILLIS:
            joda.check_pattern(pattern)


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
