"""The prompt of `headrace sql`: statements that end with `;`, history, completion, and rows without Spark."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from headrace.cli.options import client, client_options, explain, fail, split_s3_url
from headrace.cli.sql_outside import Cloud
from headrace.client import ConsumerGroup, GroupError, MemoryLeaseStore
from headrace.client import Record as KinesisRecord
from headrace.core.extras import install_command
from headrace.sql.analysis import Analysis
from headrace.sql.plan import Relation
from headrace.sql.records import Record
from headrace.sql.session import Session, Views
from headrace.sql.types import SqlError
from headrace.sql.values import TooLarge
from headrace.sql.views import LocalFiles, S3Files, View, ViewError

HISTORY = Path("~/.headrace_sql_history")
_WAIT_S = 0.2


def run_prompt(
    dialect: str, checkpoint: str | None, *, endpoint_url: str, region: str, aws: bool
) -> None:
    """Read statements and answer them until the end of the input, or a line with a q after a backslash."""
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    session = make_session(Analysis(dialect, Cloud(Path(), **reach)), checkpoint, **reach)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        click.echo("Streaming SQL. \\h helps, \\q ends.")
    with _history(session) if is_terminal else contextlib.nullcontext():
        for text in _statements(is_terminal=is_terminal):
            try:
                answer(session, text)
            except click.ClickException as error:
                click.echo(error.message, err=True)
            except KeyboardInterrupt:
                click.echo()


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
    return Session(analysis, lambda streams: read_streams(streams, options), views, put)


def _statements(*, is_terminal: bool) -> Iterator[str]:
    """Return what is typed, up to a line that ends with `;`, or a line that is a command."""
    lines: list[str] = []
    while True:
        try:
            line = input(("sql> " if not lines else "   > ") if is_terminal else "")
        except EOFError:
            if any(line.strip() for line in lines):
                yield "\n".join(lines)
            return
        except KeyboardInterrupt:
            click.echo()
            lines = []
            continue
        if not lines and line.strip() == "\\q":
            return
        lines.append(line)
        if line.rstrip().endswith(";") or (len(lines) == 1 and line.lstrip().startswith("\\")):
            yield "\n".join(lines)
            lines = []


def answer(session: Session, text: str) -> None:
    """Show what `text` gives; raises ClickException with what is wrong."""
    from botocore.exceptions import BotoCoreError, ClientError

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


def read_streams(
    streams: Sequence[str], options: dict[str, Any]
) -> Iterator[list[tuple[str, Record]]]:
    """Return the records of streams from the oldest on, by their arrival in each part; an empty part at the end."""
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
