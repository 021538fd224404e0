"""The options of record format conversion: how JSON keys become columns, and how Parquet is written."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.values import mapped
from headrace.services.firehose.errors import invalid, not_built


@dataclass(frozen=True, slots=True)
class Reading:
    """How keys become columns, as the OpenX SerDe's options say.

    Attributes:
        case_insensitive: keys are put into lower case first.
        dots_to_underscores: a dot in a key becomes `_`.
        key_of: by column, the key whose value it takes, where that is not its own name.
    """

    case_insensitive: bool = True
    dots_to_underscores: bool = False
    key_of: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Writing:
    """How the Parquet file is written, as the Parquet SerDe's options say."""

    compression: str = "SNAPPY"
    dictionary: bool = True
    page_size_bytes: int | None = None
    data_page_version: str = "1.0"


def check_can_convert() -> None:
    """Refuse what needs pyarrow where it is not installed. Raises AwsError."""
    if importlib.util.find_spec("pyarrow") is None:
        raise invalid(
            "Record format conversion needs pyarrow, which is not installed here: pip install 'headrace[parquet]'"
        )


def check(conversion: Mapping[str, Any]) -> None:
    """Refuse a DataFormatConversionConfiguration that cannot be carried out. Raises AwsError."""
    check_can_convert()
    schema = mapped(conversion, "SchemaConfiguration")
    if not schema.get("DatabaseName") or not schema.get("TableName"):
        raise invalid("SchemaConfiguration must name a database and a table.")
    if schema.get("VersionId", "LATEST") != "LATEST":
        raise not_built("a schema version other than LATEST")
    serializer = mapped(mapped(conversion, "OutputFormatConfiguration"), "Serializer")
    if "OrcSerDe" in serializer:
        raise not_built("conversion to ORC")
    if "ParquetSerDe" not in serializer:
        raise invalid("OutputFormatConfiguration must have exactly one serializer.")
    deserializer = _deserializer(conversion)
    if len(deserializer) > 1:
        raise invalid("InputFormatConfiguration must have exactly one deserializer.")
    if mapped(deserializer, "HiveJsonSerDe").get("TimestampFormats"):
        raise not_built("TimestampFormats of the Hive JSON SerDe")


def options_of(conversion: Mapping[str, Any]) -> tuple[Reading, Writing]:
    """Return how a conversion reads JSON and writes Parquet."""
    return _reading(conversion), _writing(conversion)


def _reading(conversion: Mapping[str, Any]) -> Reading:
    # The Hive SerDe has no options beyond those that `check` refuses.
    openx = mapped(_deserializer(conversion), "OpenXJsonSerDe")
    return Reading(
        case_insensitive=openx.get("CaseInsensitive", True),
        dots_to_underscores=openx.get("ConvertDotsInJsonKeysToUnderscores", False),
        key_of={
            name.lower(): key for name, key in mapped(openx, "ColumnToJsonKeyMappings").items()
        },
    )


def _writing(conversion: Mapping[str, Any]) -> Writing:
    serializer = mapped(mapped(conversion, "OutputFormatConfiguration"), "Serializer")
    parquet = mapped(serializer, "ParquetSerDe")
    compression = parquet.get("Compression") or "SNAPPY"
    return Writing(
        compression="NONE" if compression == "UNCOMPRESSED" else compression,
        dictionary=parquet.get("EnableDictionaryCompression", True),
        page_size_bytes=parquet.get("PageSizeBytes"),
        data_page_version="2.0" if parquet.get("WriterVersion") == "V2" else "1.0",
    )


def _deserializer(conversion: Mapping[str, Any]) -> dict[str, Any]:
    return mapped(mapped(conversion, "InputFormatConfiguration"), "Deserializer")
