"""`headrace compact`: keeps the latest row of each key of a stream of changes in S3."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.cli.options import client, endpoint_option, fail, split_s3_url
from headrace.cli.stream_names import explain_stream
from headrace.core.extras import install_command


@click.command()
@click.argument("stream")
@click.argument("folder", metavar="s3://BUCKET/PREFIX/")
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
    """Fold what STREAM has since the last time, events of `headrace cdc`, into the snapshot in S3, and end."""
    from botocore.exceptions import BotoCoreError, ClientError

    from headrace.cdc.changes import CaptureError
    from headrace.cdc.snapshots import Snapshots
    from headrace.client.clock import SystemClock

    s3_url = split_s3_url(folder)
    if s3_url is None:
        raise fail(f"The folder is s3://BUCKET/PREFIX/, not {folder!r}.")
    columns: dict[str, tuple[str, ...]] = {}
    for option in keys:
        keyed, is_pair, names = option.partition("=")
        if not is_pair or not names or keyed in columns:
            raise fail(f"--key is TABLE=COLUMN,.. once for a table, not {option!r}.")
        columns[keyed] = tuple(names.split(","))
    reach: dict[str, Any] = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    snapshots = Snapshots(client("s3", **reach), *s3_url, SystemClock())
    kinesis = client("kinesis", **reach)
    try:
        if table is not None:
            current = snapshots.rebuild(kinesis, stream, columns)
            if table not in current.tables:
                raise fail(f"Neither the snapshot nor the stream has {table}.")
            for row in current.rows(table):
                click.echo(json.dumps(row, ensure_ascii=False))
            return
        compaction, count = snapshots.advance(kinesis, stream, columns)
    except CaptureError as error:
        raise fail(str(error)) from error
    except ImportError as error:
        raise fail(f"headrace compact needs Parquet: {install_command('parquet')}.") from error
    except (BotoCoreError, ClientError) as error:
        raise explain_stream(error, kinesis, stream) from error
    click.echo(f"{count:,} records were folded")
    for name, latest in sorted(compaction.tables.items()):
        rows = sum(v.row is not None for v in latest.values())
        click.echo(f"{name}: {rows:,} rows, {len(latest) - rows:,} tombstones")
