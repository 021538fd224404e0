"""What SQL asks a cloud and its folder for: records to infer columns from, Glue's tables and schemas, files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from headrace.cli.options import client, error_text
from headrace.cli.stream_names import suggest_stream
from headrace.client.aggregation import disaggregate
from headrace.core.evaluation import POOL, Engine, TooMuch
from headrace.sql.function import OwnFunction
from headrace.sql.inference import MOST_RECORDS, GlueTable, Schema, read_beside
from headrace.sql.types import Place, SqlError
from headrace.sql.values import TooLarge

_CALL = Engine(Path(__file__).with_name("sql_function_child.py"))
_MOST_VERSIONS, _MOST_SHARDS, _MOST_READS = 100, 50, 20


# What a table of CSV may say of quotes and of NULL.
_CSV_OPTIONS = {"quoteChar": '"', "escapeChar": "\\", "serialization.null.format": ""}


class Cloud:
    """Answers from a cloud and a folder; the cloud is asked when a statement needs it. For one thread."""

    def __init__(self, folder: Path, *, endpoint_url: str, region: str, aws: bool) -> None:
        self._folder = folder
        # Of a query's own functions: how many calls failed, and the first problem.
        self.failures: dict[str, tuple[int, str]] = {}
        self._reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}

    def records(self, stream: str, place: Place) -> Sequence[bytes]:
        """Return the data of a stream's oldest records, at most MOST_RECORDS; raises SqlError."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            kinesis = client("kinesis", **self._reach)
            try:
                return _oldest(kinesis, stream)
            except (BotoCoreError, ClientError) as error:
                hint = suggest_stream(error, kinesis, stream)
                raise SqlError(error_text(error).removesuffix(".") + hint, place) from error
        except click.ClickException as error:
            raise SqlError(error.message, place) from error

    def table(self, database: str, name: str, place: Place) -> GlueTable:
        """Return a table of Glue's catalog; raises SqlError."""
        answer = self._glue(place, "get_table", DatabaseName=database, Name=name)
        storage = answer["Table"].get("StorageDescriptor", {})
        columns = tuple(
            (one["Name"], one.get("Type", "string")) for one in storage.get("Columns", ())
        )
        parameters = {
            **storage.get("SerdeInfo", {}).get("Parameters", {}),
            **storage.get("Parameters", {}),
            **answer["Table"].get("Parameters", {}),
        }
        # As Glue writes a table over a stream: typeOfData kinesis, and the stream's ARN, or its name as location.
        stream = parameters.get("streamARN", "").rpartition("/")[2] or parameters.get(
            "streamName", ""
        )
        if not stream and parameters.get("typeOfData") == "kinesis":
            stream = storage.get("Location", "")
        format_ = parameters.get("classification", "").upper()
        names = ("delimiter", "field.delim", "separatorChar")
        delimiter = next((parameters[one] for one in names if one in parameters), "")
        for option, value in _CSV_OPTIONS.items():
            if format_ == "CSV" and parameters.get(option, value) != value:
                raise SqlError(
                    f"the table {database}.{name} has {option} {parameters[option]!r}, and CSV is read with {value!r} "
                    "alone: quotes are double ones, a backslash escapes, and an empty field is NULL",
                    place,
                )
        return GlueTable(columns, stream, format_, delimiter)

    def schema(self, registry: str, name: str, version: int | None, place: Place) -> Schema:
        """Return a schema of Glue's registry with all its versions, or those up to `version`; raises SqlError."""
        of = {"SchemaId": {"RegistryName": registry, "SchemaName": name}}
        last = version or self._glue(place, "get_schema", **of)["LatestSchemaVersion"]
        versions: list[tuple[str, str]] = []
        format_ = ""
        for number in range(max(1, last - _MOST_VERSIONS + 1), last + 1):
            answer = self._glue(
                place, "get_schema_version", **of, SchemaVersionNumber={"VersionNumber": number}
            )
            versions.append((answer["SchemaVersionId"], answer["SchemaDefinition"]))
            format_ = answer["DataFormat"]
        return Schema(format_, tuple(versions))

    def file(self, path: str, place: Place) -> str:
        """Return the text of a file beside the SQL's; raises SqlError."""
        return read_beside(self._folder, path, place)

    def call(self, own: OwnFunction, result: Sequence[Any], arguments: Sequence[Any]) -> Any:
        """Call a query's own function in a child process with bounds of time and memory.

        Raises ValueError, and counts it, if the function fails; TooLarge if it takes too much.
        """
        asked = {
            "source": own.source,
            "file": own.file,
            "name": own.name,
            "type": result,
            "arguments": arguments,
        }
        try:
            answer = json.loads(POOL.ask(_CALL, json.dumps(asked).encode(), caller="sql"))
        except TooMuch as error:
            raise TooLarge(
                f"{own.name} of {own.file} takes too much time or memory: {error}"
            ) from error
        if "problem" in answer:
            count, first = self.failures.get(own.name, (0, answer["problem"]))
            self.failures[own.name] = (count + 1, first)
            raise ValueError(answer["problem"])
        return answer["value"]

    def _glue(self, place: Place, operation: str, **request: Any) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(client("glue", **self._reach), operation)(**request)
        except (BotoCoreError, ClientError) as error:
            raise SqlError(error_text(error), place) from error
        except click.ClickException as error:
            raise SqlError(error.message, place) from error


def _oldest(kinesis: Any, stream: str) -> list[bytes]:
    records: list[bytes] = []
    shards = kinesis.list_shards(StreamName=stream, MaxResults=_MOST_SHARDS)["Shards"]
    part = -(-MOST_RECORDS // len(shards))
    for shard in shards:
        of_shard: list[bytes] = []
        for data in _of_shard(kinesis, stream, shard["ShardId"], part):
            of_shard.append(data)
            if len(of_shard) >= part:
                break
        records += of_shard
    return records[:MOST_RECORDS]


def _of_shard(kinesis: Any, stream: str, shard: str, count: int) -> Iterator[bytes]:
    """Return the data of a shard's oldest records, those inside of aggregates too."""
    answer = kinesis.get_shard_iterator(
        StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )
    position = answer["ShardIterator"]
    # A shard's first reads may be empty, though records follow.
    for _ in range(_MOST_READS):
        answer = kinesis.get_records(ShardIterator=position, Limit=min(count, 10_000))
        for one in answer["Records"]:
            inner = disaggregate(one["Data"])
            yield from [one["Data"]] if inner is None else [record.data for record in inner]
        position = answer.get("NextShardIterator")
        if position is None or not answer.get("MillisBehindLatest"):
            return
