"""`headrace cdc`: puts the rows and changes of a PostgreSQL into a stream, or into another PostgreSQL's tables.

`headrace compact`: keeps the latest row of each key of a stream of changes in S3.
"""

from __future__ import annotations

import importlib
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from headrace.cli.options import (
    client,
    client_options,
    endpoint_option,
    explain,
    fail,
    split_s3_url,
)
from headrace.cli.stream_names import explain_stream, explain_stream_errors
from headrace.core.extras import install_command

if TYPE_CHECKING:
    from headrace.cdc.capture import Settings

FORMATS = ("debezium", "dms", "plain")
_NAMES = "of lower-case letters, digits and underscores"


@click.command()
@click.argument("url", metavar="postgres://USER:PASSWORD@HOST/DATABASE", envvar="HEADRACE_CDC_URL")
@click.option("--stream", help="Put changes into this stream.")
@click.option(
    "--into", metavar="postgres://...", help="Or into the tables of this database, exactly once."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="Capture this table; may be repeated. Default: all.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="debezium",
    show_default=True,
    help="Of the events.",
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="TABLE=COLUMN,..",
    help="Partition a table (* for all) by columns, or by `table`. Default: its key.",
)
@click.option(
    "--slot",
    default="headrace",
    show_default=True,
    help="The replication slot; made when it is not there.",
)
@click.option(
    "--publication",
    default="headrace",
    show_default=True,
    help="The publication; made when it is not there.",
)
@click.option("--snapshot", is_flag=True, help="Read all rows again; drops the slot first.")
@click.option("--once", is_flag=True, help="End when the server has nothing more.")
@click.option(
    "--aggregate", is_flag=True, help="Put many changes into one record, in KPL's format."
)
@click.option(
    "--large-to", metavar="s3://BUCKET/PREFIX/", help="Where values go that a record cannot hold."
)
@click.option(
    "--record-kib",
    type=click.IntRange(1, 10240),
    default=1024,
    show_default=True,
    help="How much a record of the stream holds.",
)
@click.option(
    "--most-wal",
    "most_wal_mib",
    type=click.IntRange(1),
    default=16384,
    show_default=True,
    metavar="MIB",
    help="Drop the slot when the server keeps more log for it; a warning comes at half.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".headrace-cdc"),
    show_default=True,
    help="The folder of the capture's progress.",
)
@endpoint_option
def cdc(
    url: str,
    *,
    stream: str | None,
    into: str | None,
    tables: tuple[str, ...],
    format_: str,
    partition_by: tuple[str, ...],
    slot: str,
    publication: str,
    snapshot: bool,
    once: bool,
    aggregate: bool,
    large_to: str | None,
    record_kib: int,
    most_wal_mib: int,
    state: Path,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Capture a PostgreSQL's rows, then its changes. Without gap or overlap. Ends at Ctrl-C; then goes on where it was.

    At least once into a stream, with an id in each event; exactly once into tables (--into).
    """
    if (stream is None) == (into is None):
        raise fail("Give either --stream, or --into with another database.")
    _check_names([url] if into is None else [url, into], slot, tables)
    _require_client()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    # Before all rows are read, not after them.
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail(f"--state {state} cannot be made: {error.strerror}.") from error
    from headrace.cdc.capture import Settings

    columns = _partition_columns(partition_by)
    settings = Settings(
        url, slot, publication, tables, snapshot=snapshot, most_wal_bytes=most_wal_mib << 20,
        once=once, keyed_tables=tuple(table for table in columns if table != "*"),
    )  # fmt: skip
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}

    def make_sink() -> Any:
        if stream is None:
            from headrace.cdc.table_sink import TableSink

            return TableSink(str(into), slot)
        return _stream_sink(
            url, stream, format_, columns, aggregate=aggregate, large_to=large_to,
            record_bytes=record_kib << 10, reach=reach,
        )  # fmt: skip

    count = _capture(settings, make_sink, state / f"{slot}.json")
    click.echo(f"{count:,} changes were captured", err=True)


def _require_client() -> None:
    try:
        importlib.import_module("psycopg")
    except ImportError as error:
        raise fail(
            f"headrace cdc needs a client of PostgreSQL: {install_command('cdc')}."
        ) from error


def _capture(settings: Settings, make_sink: Callable[[], Any], progress: Path) -> int:
    """Capture until the end or a signal, and return how many changes the sink took. Raises ClickException."""
    import psycopg
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.cdc.capture import Capture
    from headrace.cdc.capture import explain as explain_postgres
    from headrace.cdc.events import CaptureError
    from headrace.cdc.table_sink import ProgressFile
    from headrace.client.clock import SystemClock

    sink: Any = None
    try:
        sink = make_sink()
        capture = Capture(settings, sink, ProgressFile(progress), SystemClock())
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, _stopper(capture))
        capture.run()
    except CaptureError as error:
        raise fail(str(error)) from error
    except psycopg.Error as error:
        raise fail(str(explain_postgres(error))) from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error
    finally:
        if sink is not None:
            sink.close()
    assert sink is not None
    return int(sink.count)


def _stopper(capture: Any) -> Callable[[int, Any], None]:
    def stop(_number: int, _frame: Any) -> None:
        capture.stop()

    return stop


def _check_names(urls: list[str], slot: str, tables: tuple[str, ...]) -> None:
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("postgres", "postgresql") or not parts.hostname:
            raise fail("Give each database as postgres://USER:PASSWORD@HOST:PORT/DATABASE.")
    if not slot or len(slot) > 54 or not all(c.islower() or c.isdigit() or c == "_" for c in slot):
        raise fail(f"--slot is a name {_NAMES}, at most 54, not {slot!r}.")
    for table in tables:
        if "." not in table:
            raise fail(f"--table names tables as schema.table, such as public.{table}.")


def _partition_columns(options: tuple[str, ...]) -> dict[str, tuple[str, ...] | None]:
    columns: dict[str, tuple[str, ...] | None] = {}
    for option in options:
        table, is_pair, names = option.partition("=")
        if not is_pair or not table or not names:
            raise fail(f"--partition-by is TABLE=COLUMN,.. or TABLE=table, not {option!r}.")
        if table in columns:
            raise fail(f"--partition-by names {table} twice.")
        columns[table] = None if names == "table" else tuple(names.split(","))
    return columns


def _stream_sink(
    url: str,
    stream: str,
    format_: str,
    columns: dict[str, tuple[str, ...] | None],
    *,
    aggregate: bool,
    large_to: str | None,
    record_bytes: int,
    reach: dict[str, Any],
) -> Any:
    from headrace.cdc.envelopes import LargeValues, envelope_of
    from headrace.cdc.stream_sink import PRODUCER_OPTIONS, PartitionKeys, StreamSink
    from headrace.client.hash_keys import name_member
    from headrace.client.producer import Producer

    shrink = None
    if large_to is not None:
        s3_url = split_s3_url(large_to)
        if s3_url is None:
            raise fail(f"--large-to is s3://BUCKET/PREFIX/, not {large_to!r}.")
        shrink = LargeValues(client("s3", **reach), *s3_url).shrink
    kinesis = client("kinesis", **reach)
    with explain_stream_errors(kinesis, stream):
        kinesis.describe_stream_summary(**name_member(stream))
    parts = urlsplit(url)
    database = parts.path.lstrip("/") or (parts.username or "")
    return StreamSink(
        Producer(stream, aggregate=aggregate, **PRODUCER_OPTIONS, **client_options(**reach)),
        envelope_of(format_, database, parts.hostname or ""),
        PartitionKeys(columns),
        record_bytes=record_bytes,
        shrink=shrink,
    )


@click.command()
@click.argument("stream")
@click.argument("folder", metavar="s3://BUCKET/PREFIX/|iceberg://DATABASE/TABLE")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="TABLE=COLUMN,..",
    help="The key of a table's rows. Default: the partition key.",
)
@click.option(
    "--rebuild",
    "table",
    metavar="SCHEMA.TABLE",
    help="Store nothing; print the table's rows as of now (JSON lines): the snapshot, then the stream after it.",
)
@endpoint_option
def compact(
    stream: str,
    folder: str,
    *,
    keys: tuple[str, ...],
    table: str | None,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Fold STREAM's new events into the snapshot in S3, and end. The events are those of `headrace cdc`.

    With iceberg:// into a table of Glue's catalogue, which is made in its database's location.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.cdc.events import CaptureError, format_row

    columns: dict[str, tuple[str, ...]] = {}
    for option in keys:
        keyed, is_pair, names = option.partition("=")
        if not is_pair or not names or keyed in columns:
            raise fail(f"--key is TABLE=COLUMN,.. once for a table, not {option!r}.")
        columns[keyed] = tuple(names.split(","))
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    kinesis = client("kinesis", **reach)
    try:
        store, of_what = _store(folder, reach)
        if table is not None:
            current = store.rebuild(kinesis, stream, columns)
            if table not in current.tables:
                raise fail(f"Neither the snapshot nor the stream has {table}.")
            for row in current.rows(table):
                click.echo(format_row(row))
            return
        compaction, count = store.advance(kinesis, stream, columns)
    except CaptureError as error:
        raise fail(str(error)) from error
    except (BotoCoreError, ClientError) as error:
        raise explain_stream(error, kinesis, stream) from error
    except OSError as error:
        # Iceberg's files come by pyarrow, whose errors are the system's.
        raise fail(f"{folder} cannot be read or written: {error}.") from error
    click.echo(f"{count:,} records were folded")
    for name, latest in sorted(compaction.tables.items()):
        rows = sum(v.row is not None for v in latest.values())
        click.echo(f"{name}: {rows:,} rows, {len(latest) - rows:,} tombstones{of_what}")


def _store(folder: str, reach: dict[str, Any]) -> tuple[Any, str]:
    """Return what keeps the rows, a folder or a table of Glue's catalogue, and which keys its `advance` counts."""
    from headrace.client.clock import SystemClock

    scheme, _, rest = folder.partition("://")
    database, _, name = rest.partition("/")
    try:
        if scheme == "iceberg" and database and name and "/" not in name:
            from headrace.cdc.iceberg import IcebergRows
            from headrace.cdc.iceberg_table import glue_catalog

            clients = (client(service, **reach) for service in ("glue", "s3"))
            store = IcebergRows(glue_catalog(*clients), database, name, SystemClock())
            return store, " of the changed keys"
        from headrace.cdc.snapshots import Snapshots

        # Its absence is to be said before anything is read.
        importlib.import_module("pyarrow")
    except ImportError as error:
        extra = "iceberg" if scheme == "iceberg" else "parquet"
        raise fail(f"headrace compact needs {extra}: {install_command(extra)}.") from error
    s3_url = split_s3_url(folder)
    if s3_url is None:
        raise fail(f"Give s3://BUCKET/PREFIX/ or iceberg://DATABASE/TABLE, not {folder!r}.")
    return Snapshots(client("s3", **reach), *s3_url, SystemClock()), ""
