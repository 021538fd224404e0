"""The prompt of `headrace sql`: statements that end with `;`, history, completion, and rows without Spark.

What SQL asks a cloud and its folder for: records to infer columns from, Glue's tables and schemas, files.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import client, client_options, error_text, explain, fail, split_s3_url
from headrace.cli.stream_names import stream_names, suggest_stream
from headrace.core.evaluation import POOL, Engine, TooMuch
from headrace.core.extras import install_command
from headrace.sql.analysis import Analysis
from headrace.sql.inference import MOST_RECORDS, GlueTable, Schema, read_beside
from headrace.sql.parsing import split
from headrace.sql.plan import Relation
from headrace.sql.records import Record
from headrace.sql.session import Session, Views
from headrace.sql.types import Location, OwnFunction, SqlError
from headrace.sql.values import TooLarge
from headrace.sql.views import LocalFiles, S3Files, View, ViewError

if TYPE_CHECKING:
    from headrace.client import Record as KinesisRecord

# What reads streams comes with the first query: the prompt is there before.
HISTORY = Path("~/.headrace_sql_history")
_WAIT_S = 0.2


def run_prompt(
    dialect: str, checkpoint: str | None, *, endpoint_url: str, region: str, aws: bool
) -> None:
    """Read statements and answer them until the end of the input, or a line with a q after a backslash."""
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    session = make_session(Analysis(dialect, Cloud(Path(), **reach)), checkpoint, **reach)
    is_terminal, failed = sys.stdin.isatty(), False
    if is_terminal:
        click.echo("Streaming SQL. \\h helps, \\q ends.")
    with _history(session) if is_terminal else contextlib.nullcontext():
        for text in _statements(is_terminal=is_terminal):
            try:
                answer(session, text)
            except click.ClickException as error:
                click.echo(error.message, err=True)
                failed = True
            except KeyboardInterrupt:
                click.echo()
    if failed and not is_terminal:
        # A script must not take what failed for done.
        raise click.exceptions.Exit(1)


def make_session(
    analysis: Analysis, checkpoint: str | None, *, endpoint_url: str, region: str, aws: bool
) -> Session:
    """Return a session that reads a cloud's streams, and the states of tables below `checkpoint`, if it is told."""
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    options = client_options(**reach)

    def open_view(relation: Relation, query: str) -> View:
        assert checkpoint is not None
        folder = f"{checkpoint.rstrip('/')}/{query}/view/"
        s3_url = split_s3_url(folder)
        if s3_url is None:
            return View(relation, LocalFiles(Path(folder.removeprefix("file://"))))
        return View(relation, S3Files(client("s3", **reach), *s3_url))

    def put(stream: str, key: str, data: bytes) -> None:
        client("kinesis", **reach).put_record(StreamName=stream, PartitionKey=key, Data=data)

    views = None if checkpoint is None else Views(open_view, lambda: time.sleep(_WAIT_S))
    return Session(
        analysis,
        lambda streams: read_streams(streams, options),
        views,
        put,
        lambda: stream_names(client("kinesis", **reach)),
    )


def _statements(*, is_terminal: bool) -> Iterator[str]:
    """Return each statement that is typed, and each line that is a command.

    A quote that a line ending with `;` leaves open is a mistake, rather than a text of several lines.
    """
    lines: list[str] = []
    while True:
        try:
            line = input(("sql> " if not lines else "   > ") if is_terminal else "")
        except EOFError:
            yield from _parts(lines)
            return
        except KeyboardInterrupt:
            click.echo()
            lines = []
            continue
        if not lines and line.strip() == "\\q":
            return
        lines.append(line)
        if len(lines) == 1 and line.lstrip().startswith("\\"):
            yield line
        elif ";" not in line or not _is_whole(lines):
            continue
        else:
            yield from _parts(lines)
        lines = []


def _is_whole(lines: list[str]) -> bool:
    parts = split("\n".join(lines))
    return not parts.rest or (parts.is_open and lines[-1].rstrip().endswith(";"))


def _parts(lines: list[str]) -> Iterator[str]:
    parts = split("\n".join(lines))
    yield from parts.statements
    if parts.rest:
        yield parts.rest


def answer(session: Session, text: str) -> None:
    """Show what `text` gives; raises ClickException with what is wrong."""
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.client import GroupError

    try:
        for line in session.answer(text):
            click.echo(line)
    except TooLarge as error:
        raise fail(f"{error}: `headrace sql run` runs the query with Spark") from error
    except ImportError as error:
        raise fail(f"the state of a table needs Parquet: {install_command('parquet')}") from error
    except (SqlError, ViewError, GroupError, ValueError) as error:
        raise fail(str(error)) from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error
    finally:
        for line in session.left_out():
            click.echo(f"note: {line}", err=True)


def read_streams(
    streams: Sequence[str], options: dict[str, Any]
) -> Iterator[list[tuple[str, Record]]]:
    """Return the records of streams from the oldest on, by their arrival in each part; an empty part at the end."""
    from headrace.client import ConsumerGroup, MemoryLeaseStore

    with contextlib.ExitStack() as stack:
        groups = [
            stack.enter_context(
                ConsumerGroup(
                    "headrace-sql",
                    stream,
                    start="TRIM_HORIZON",
                    store=MemoryLeaseStore(),
                    idle_s=_WAIT_S,
                    **options,
                )
            )
            for stream in streams
        ]
        while True:
            records: list[tuple[float, str, Record]] = []
            for stream, group in zip(streams, groups, strict=True):
                while (batch := group.next_batch(_WAIT_S)) is not None or not group.is_at_the_end():
                    if batch is None:
                        continue
                    records += [(one.arrival_s, stream, _record(one)) for one in batch]
                    group.finish(batch)
            records.sort(key=lambda one: one[0])
            yield [(stream, record) for _, stream, record in records]


def _record(one: KinesisRecord) -> Record:
    return Record(
        one.data, one.key, datetime.fromtimestamp(one.arrival_s, UTC), one.sequence_number
    )


@contextlib.contextmanager
def _history(session: Session) -> Generator[None]:
    """Keep what is typed in the user's history, and complete names; without readline there is neither."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = HISTORY.expanduser()
    with contextlib.suppress(FileNotFoundError):
        readline.read_history_file(path)

    def complete(start: str, index: int) -> str | None:
        matches = [word for word in session.words() if word.lower().startswith(start.lower())]
        return matches[index] if index < len(matches) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        try:
            readline.write_history_file(path)
        except OSError as error:
            click.echo(f"{path}: the history is not kept: {error.strerror}", err=True)


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

    def records(self, stream: str, location: Location) -> Sequence[bytes]:
        """Return the data of a stream's oldest records, at most MOST_RECORDS; raises SqlError."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            kinesis = client("kinesis", **self._reach)
            try:
                return _oldest(kinesis, stream)
            except (BotoCoreError, ClientError) as error:
                hint = suggest_stream(error, kinesis, stream)
                raise SqlError(error_text(error).removesuffix(".") + hint, location) from error
        except click.ClickException as error:
            raise SqlError(error.message, location) from error

    def table(self, database: str, name: str, location: Location) -> GlueTable:
        """Return a table of Glue's catalog; raises SqlError."""
        answer = self._glue(location, "get_table", DatabaseName=database, Name=name)
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
                    location,
                )
        return GlueTable(columns, stream, format_, delimiter)

    def schema(self, registry: str, name: str, version: int | None, location: Location) -> Schema:
        """Return a schema of Glue's registry with all its versions, or those up to `version`; raises SqlError."""
        of = {"SchemaId": {"RegistryName": registry, "SchemaName": name}}
        last = version or self._glue(location, "get_schema", **of)["LatestSchemaVersion"]
        versions: list[tuple[str, str]] = []
        format_ = ""
        for number in range(max(1, last - _MOST_VERSIONS + 1), last + 1):
            answer = self._glue(
                location, "get_schema_version", **of, SchemaVersionNumber={"VersionNumber": number}
            )
            versions.append((answer["SchemaVersionId"], answer["SchemaDefinition"]))
            format_ = answer["DataFormat"]
        return Schema(format_, tuple(versions))

    def file(self, path: str, location: Location) -> str:
        """Return the text of a file beside the SQL's; raises SqlError."""
        return read_beside(self._folder, path, location)

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

    def _glue(self, location: Location, operation: str, **request: Any) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(client("glue", **self._reach), operation)(**request)
        except (BotoCoreError, ClientError) as error:
            raise SqlError(error_text(error), location) from error
        except click.ClickException as error:
            raise SqlError(error.message, location) from error


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
    from headrace.client.aggregation import disaggregate

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
