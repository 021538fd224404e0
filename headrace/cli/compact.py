"""`headrace compact`: keeps the latest row of each key of a stream of changes in S3."""

from __future__ import annotations

import importlib
from typing import Any

import click

from headrace.cli.options import client, endpoint_option, fail, split_s3_url
from headrace.cli.stream_names import explain_stream
from headrace.core.extras import install_command


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
    """Fold what STREAM has since the last time, events of `headrace cdc`, into the snapshot in S3, and end.

    With iceberg:// into a table of Glue's catalogue, which is made in its database's location.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.cdc.compaction import format_row
    from headrace.cdc.events import CaptureError

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
