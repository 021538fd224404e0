"""Reads and checks `firehose/<delivery>/delivery.json`, the settings of one delivery."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3

from cdk.parts.checks import check_between, check_name
from cdk.parts.delivery_options import INTERVAL_S, NAME_PATTERN, DeliveryOptions

# Source: API_ExtendedS3DestinationConfiguration and API_BufferingHints; converting to Parquet needs 64 MiB.
GLUE_NAME_PATTERN = r"[a-z0-9_]{1,255}"
SIZE_MIB = (64, 128)
MAX_PREFIX = 1024
COMPRESSIONS = ("SNAPPY", "GZIP", "UNCOMPRESSED")
PLAIN_TYPES = frozenset(
    {"string", "boolean", "tinyint", "smallint", "int", "bigint"}
    | {"float", "double", "timestamp", "date", "binary"}
)
_EXPRESSION = re.compile(r"!\{([^}]*)\}")
_PREFIX_EXPRESSION = re.compile(r"timestamp:[^}]+|firehose:(random-string|shard-id)")
_ERROR_EXPRESSION = re.compile(r"timestamp:[^}]+|firehose:(random-string|error-output-type)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table: its name in lower case and its Hive type."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryConfig:
    """A delivery of JSON records to Parquet in S3. Raises ValueError when AWS would refuse it.

    Attributes:
        name: the delivery stream's name.
        size_mib, interval_s: the buffer is written when either is reached.
        prefix, error_prefix: the prefixes of the objects' keys, with Firehose's `!{...}` expressions.
        parquet_compression: SNAPPY, GZIP or UNCOMPRESSED.
        database, table: names in the Glue catalogue; the table's columns are the files' schema.
        table_location: the part of the prefix that all objects share, ending in a slash.
        partition_name, projection: the one partition column, and how Athena derives its values.
        columns: the table's columns.
    """

    name: str
    size_mib: int
    interval_s: int
    prefix: str
    error_prefix: str
    parquet_compression: str
    database: str
    table: str
    table_location: str
    partition_name: str
    projection: dict[str, str]
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_name("A delivery stream's name", self.name, NAME_PATTERN)
        check_between("A buffer that is converted to Parquet", self.size_mib, *SIZE_MIB, "MiB")
        check_between("A buffering interval", self.interval_s, *INTERVAL_S, "seconds")
        check_name("A Glue database's name", self.database, GLUE_NAME_PATTERN)
        check_name("A Glue table's name", self.table, GLUE_NAME_PATTERN)
        if self.parquet_compression not in COMPRESSIONS:
            raise ValueError(
                f"Parquet's compression must be one of {', '.join(COMPRESSIONS)}, "
                f"not {self.parquet_compression!r}."
            )
        _check_prefix("The prefix", self.prefix, _PREFIX_EXPRESSION)
        _check_prefix("The error prefix", self.error_prefix, _ERROR_EXPRESSION)
        if "!{firehose:error-output-type}" not in self.error_prefix:
            raise ValueError("The error prefix must hold !{firehose:error-output-type}.")
        if not self.prefix.startswith(f"{self.table_location}{self.partition_name}="):
            raise ValueError(
                "The prefix must begin with the table's location and its partition, "
                f"{self.table_location}{self.partition_name}=, and {self.prefix!r} does not."
            )
        if self.error_prefix.startswith(self.table_location):
            raise ValueError("The error prefix must not lie in the table's location.")
        _check_columns(self.columns, self.partition_name)

    def options(self, source: kinesis.IStream, bucket: s3.IBucket) -> DeliveryOptions:
        """Return the options of this delivery from `source`, with `bucket` for what cannot be delivered."""
        return DeliveryOptions(
            name=self.name,
            source=source,
            bucket=bucket,
            error_prefix=self.error_prefix,
            size_mib=self.size_mib,
            interval_s=self.interval_s,
        )


def _check_prefix(what: str, prefix: str, allowed: re.Pattern[str]) -> None:
    if len(prefix) > MAX_PREFIX:
        raise ValueError(f"{what} must have at most {MAX_PREFIX} characters, not {len(prefix)}.")
    for expression in _EXPRESSION.findall(prefix):
        if allowed.fullmatch(expression) is None:
            raise ValueError(f"{what} may not hold !{{{expression}}}.")


def _check_columns(columns: tuple[Column, ...], partition_name: str) -> None:
    if not columns:
        raise ValueError("A delivery's table must have a column.")
    seen = {partition_name}
    for column in columns:
        check_name("A column's name", column.name, GLUE_NAME_PATTERN)
        if column.type not in PLAIN_TYPES and not re.fullmatch(
            r"(array|map|struct)<.+>|decimal\(\d+,\d+\)", column.type
        ):
            raise ValueError(f"Column {column.name} has no Hive type: {column.type!r}.")
        if column.name in seen:
            raise ValueError(f"Column {column.name} occurs twice.")
        seen.add(column.name)


def load_delivery(path: Path) -> DeliveryConfig:
    """Read a delivery.json. Raises ValueError, which names the file, when its content is invalid."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return DeliveryConfig(
            name=data["name"],
            size_mib=data["buffering"]["size_mib"],
            interval_s=data["buffering"]["interval_s"],
            prefix=data["prefix"],
            error_prefix=data["error_prefix"],
            parquet_compression=data["parquet_compression"],
            database=data["database"],
            table=data["table"],
            table_location=data["table_location"],
            partition_name=data["partition"]["name"],
            projection=data["partition"]["projection"],
            columns=tuple(Column(**column) for column in data["columns"]),
        )
    except KeyError as error:
        raise ValueError(f"{path} lacks {error}.") from error
    except (OSError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as a delivery: {error}.") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
