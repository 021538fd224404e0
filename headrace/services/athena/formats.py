"""The formats in which statements write files, as Glue's tables name them."""

from __future__ import annotations

from typing import Any

_HIVE = "org.apache.hadoop.hive.ql.io."
# What an INSERT can write, by the end of the SerDe's class.
WRITTEN = {
    "ParquetHiveSerDe": "PARQUET", "OrcSerde": "ORC", "JsonSerDe": "JSON", "LazySimpleSerDe": "TEXTFILE",
}  # fmt: skip
# A format -> its input format, its output format and its SerDe.
_TEXT = ("org.apache.hadoop.mapred.TextInputFormat", f"{_HIVE}HiveIgnoreKeyTextOutputFormat")
_CLASSES = {
    "PARQUET": (
        f"{_HIVE}parquet.MapredParquetInputFormat",
        f"{_HIVE}parquet.MapredParquetOutputFormat",
        f"{_HIVE}parquet.serde.ParquetHiveSerDe",
    ),
    "ORC": (
        f"{_HIVE}orc.OrcInputFormat", f"{_HIVE}orc.OrcOutputFormat", f"{_HIVE}orc.OrcSerde",
    ),
    "JSON": (*_TEXT, "org.apache.hive.hcatalog.data.JsonSerDe"),
    "TEXTFILE": (*_TEXT, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
}  # fmt: skip


def storage_of(form: str, delimiter: str) -> dict[str, Any]:
    """Return the classes of a new table's StorageDescriptor; the delimiter is between a text's fields."""
    input_format, output_format, serde = _CLASSES[form]
    settings = {"field.delim": delimiter} if form == "TEXTFILE" else {}
    if form in ("PARQUET", "ORC"):
        settings = {"serialization.format": "1"}
    return {
        "InputFormat": input_format,
        "OutputFormat": output_format,
        "SerdeInfo": {"SerializationLibrary": serde, "Parameters": settings},
    }
