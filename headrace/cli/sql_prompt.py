"""The prompt of `headrace sql`: statements that end with `;`, history, completion, and rows without Spark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from headrace.cli.options import client_options, explain
from headrace.client import ConsumerGroup, GroupError, MemoryLeaseStore
from headrace.client import Record as KinesisRecord
from headrace.sql.errors import SqlError
from headrace.sql.records import Record
from headrace.sql.session import Session
from headrace.sql.values import TooLarge

HISTORY = Path("~/.headrace_sql_history")
_WAIT_S = 0.2


def run_prompt(dialect: str, *, endpoint_url: str, region: str, aws: bool) -> None:
    """Read statements and answer them until the end of the input, or a line with a q after a backslash."""
    options = client_options(endpoint_url=endpoint_url, region=region, aws=aws)
    session = Session(dialect, lambda streams: read_streams(streams, options))
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        click.echo("Streaming SQL. \\h helps, \\q ends.")
    with _history(session) if is_terminal else contextlib.nullcontext():
        for text in _statements(is_terminal=is_terminal):
            _answer(session, text)


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


def _answer(session: Session, text: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        for line in session.answer(text):
            click.echo(line)
    except SqlError as error:
        click.echo(str(error), err=True)
    except TooLarge as error:
        click.echo(f"{error}: `headrace sql run` runs the query with Spark", err=True)
    except (GroupError, ValueError) as error:
        click.echo(str(error), err=True)
    except (BotoCoreError, ClientError) as error:
        click.echo(explain(error).message, err=True)
    except KeyboardInterrupt:
        click.echo()


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
    text = one.data.decode("utf-8", "replace")
    return Record(text, one.key, datetime.fromtimestamp(one.arrival_s, UTC))


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
