"""`headrace redrive`: shows the records that Firehose could not deliver and wrote to S3, and sends them again."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click
from rich.table import Table

from headrace.cli.options import (
    MOMENTS,
    client,
    endpoint_option,
    explain,
    fail,
    parse_moment,
    print_table,
    split_s3_url,
)
from headrace.cli.redrive_queues import (
    Copier,
    FailureQueue,
    NotAQueue,
    NotCopied,
    NotReadable,
    QueueCounts,
    copier_of,
    find_queue,
    send_message,
)
from headrace.deliveries.redrive_records import (
    Bucket,
    DeliveryStreamTarget,
    FailedRecord,
    FileTarget,
    Fix,
    NotSent,
    RedriveCounts,
    StreamTarget,
    Target,
    Unreadable,
    apply_fix,
    redrive_object,
)

_SAMPLE_CHARS = 60


@dataclass(slots=True)
class Group:
    """The failed records with one error code."""

    count: int
    first_ms: int
    last_ms: int
    is_source: bool
    message: str
    sample: bytes


@click.command()
@click.argument("source")
@click.option(
    "--to",
    help="The target: firehose:NAME, kinesis:NAME, file:PATH, or redshift:NAME, which repeats the COPY statements that"
    " this delivery stream gave up. Default: only show the records.",
)
@click.option(
    "--code", "codes", multiple=True, help="Only records with this error code; repeatable."
)
@click.option("--since", help=f"Only records that arrived from this time on: {MOMENTS}.")
@click.option("--until", help="Only records that arrived before this time, given as for --since.")
@click.option(
    "--map", "fix", help="fix.py:function, which gets (data, error) and returns the data."
)
@click.option("--backup", is_flag=True, help="SOURCE holds backed-up source records, one per line.")
@click.option(
    "--key", default="", help="With kinesis:NAME: the JSON field that is the partition key."
)
@click.option(
    "--copy-role",
    default="",
    help="With redshift:NAME: the ARN of the cluster's role that COPY uses.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be sent, after the fix.")
@click.option(
    "--uncertain-again",
    is_flag=True,
    help="Also send records that were being sent when a run was killed; they may arrive twice.",
)
@endpoint_option
def redrive(
    source: str,
    to: str | None,
    codes: tuple[str, ...],
    since: str | None,
    until: str | None,
    fix: str | None,
    key: str,
    copy_role: str,
    *,
    backup: bool,
    dry_run: bool,
    uncertain_again: bool,
    endpoint_url: str,
    region: str,
    aws: bool,
) -> None:
    """Show the failed records in SOURCE, and send them on with --to.

    SOURCE is s3://bucket/prefix with Firehose's error output, or what Lambda gave up: a failure queue (sqs:NAME, its
    URL or its ARN), the ARN of a topic that one queue is subscribed to, or the UUID of an event source mapping. From S3
    each record is sent once, even when a run is killed: the progress is kept in the bucket, under headrace-redrive/.
    From a queue, a message is deleted after its records were sent.
    """
    where = {"endpoint_url": endpoint_url, "region": region, "aws": aws}
    selection = _Wanted(codes, _time_of(since, "--since"), _time_of(until, "--until"))
    function = None if fix is None else _function(fix)
    queue = _queue_of(source, where)
    if queue is not None:
        if backup or uncertain_again:
            raise fail("A queue takes no --backup and no --uncertain-again.")
        target = None if to is None else _target(to, key, where)
        _redrive_queue(queue, source, selection, function, target, dry_run=dry_run)
        return
    name, prefix = _bucket_of(source)
    bucket = Bucket(client("s3", **cast("Any", where)), name, prefix, backup=backup)
    with _explained():
        again = None if to is None else _copier(to, copy_role, where)
        target = None if to is None or again is not None else _target(to, key, where)
        if again is not None and (codes or since or until or fix or backup or uncertain_again):
            raise fail(
                "--to redshift:NAME takes whole manifests: no --code, --since, --until, --map, --backup."
            )
        groups = _groups(line for _, lines in _choose_records(bucket, selection) for line in lines)
        _show(groups, source, chosen=bool(codes or since or until))
        if again is not None:
            _copy(bucket, again, dry_run=dry_run)
        if target is None or not groups:
            return
        if dry_run:
            chosen = (line for _, lines in _choose_records(bucket, selection) for line in lines)
            _show_what_the_fix_makes(chosen, function)
            return
        _redrive_bucket(bucket, selection, function, target, again=uncertain_again)


@contextlib.contextmanager
def _explained() -> Generator[None]:
    """End the command with one sentence when S3, the target or a warehouse refuses, or cannot be reached."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (Unreadable, NotCopied) as error:
        raise fail(f"{error}.") from error
    except NotSent as error:
        raise fail(
            f"{error}; run the command again later: it continues where it stopped."
        ) from error
    except (BotoCoreError, ClientError, OSError) as error:
        raise explain(error) from error


def _redrive_bucket(
    bucket: Bucket, selection: _Wanted, fix: Fix | None, target: Target, *, again: bool
) -> None:
    """Send a bucket's failed records, and say how many; `again`: those too of which a killed run left no word."""
    done = RedriveCounts()
    try:
        for object_key, lines in _choose_records(bucket, selection):
            redrive_object(bucket, object_key, lines, target, fix=fix, again=again, done=done)
    finally:
        click.echo(_summary(done, target))
    if done.uncertain:
        raise fail(
            f"{done.uncertain} records were being sent when an earlier run was killed, and may have arrived or not;"
            " send them again with --uncertain-again."
        )


def _queue_of(source: str, where: dict[str, Any]) -> FailureQueue | None:
    """Return the failure queue that a source names, or None for a place in S3."""
    from botocore.exceptions import BotoCoreError, ClientError

    @functools.cache
    def clients(service: str) -> Any:
        return client(service, **where)

    try:
        url = find_queue(source, clients)
    except NotAQueue as error:
        raise fail(f"{error}.") from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error) from error
    return None if url is None else FailureQueue(url, clients)


def _redrive_queue(
    queue: FailureQueue,
    source: str,
    selection: _Wanted,
    fix: Fix | None,
    target: Target | None,
    *,
    dry_run: bool,
) -> None:
    """Show a queue's failed records; with a target, send them and delete their messages."""
    from botocore.exceptions import BotoCoreError, ClientError

    done = QueueCounts()
    shown: list[FailedRecord] = []
    try:
        for receipt, message in queue.messages():
            try:
                records = queue.records(message)
            except NotReadable as error:
                done.kept += 1
                click.echo(f"The message {message['MessageId']} stays: {error}.", err=True)
                continue
            if not all(selection.takes(record) for record in records):
                continue
            shown += records
            if target is not None and not dry_run:
                send_message(records, target, fix, done)
                queue.delete(receipt)
    except NotSent as error:
        raise fail(f"{error}; run the command again later.") from error
    except (BotoCoreError, ClientError, OSError) as error:
        raise explain(error) from error
    finally:
        queue.release()
        _show(_groups(iter(shown)), source, chosen=selection != _Wanted((), None, None))
        if target is not None and not dry_run:
            left = f", {done.left_out} left out by the fix" if done.left_out else ""
            click.echo(f"{done.sent} records sent to {target.name}{left}")
    if target is not None and dry_run:
        _show_what_the_fix_makes(shown, fix)
    if done.kept:
        raise fail(f"{done.kept} messages stay in the queue.")


def _copier(target_text: str, role: str, where: dict[str, Any]) -> Copier | None:
    kind, _, name = target_text.partition(":")
    if kind != "redshift" or not name:
        return None
    return copier_of(name, lambda service: client(service, **where), role, time.sleep)


def _copy(bucket: Bucket, copier: Copier, *, dry_run: bool) -> None:
    urls = list(bucket.manifest_urls())
    if dry_run:
        for url in urls:
            click.echo(copier.sql(url))
        return
    if urls:
        copier.prepare()
    loaded = before = 0
    try:
        for url in urls:
            if copier.load(url):
                loaded += 1
            else:
                before += 1
    finally:
        click.echo(f"{loaded} manifests loaded" + (f", {before} loaded before" if before else ""))


@dataclass(frozen=True, slots=True)
class _Wanted:
    codes: tuple[str, ...]
    since_ms: int | None
    until_ms: int | None

    def takes(self, line: FailedRecord) -> bool:
        if self.codes and line.code not in self.codes:
            return False
        if self.since_ms is not None and line.arrived_ms < self.since_ms:
            return False
        return self.until_ms is None or line.arrived_ms < self.until_ms


def _choose_records(bucket: Bucket, selection: _Wanted) -> Iterator[tuple[str, list[FailedRecord]]]:
    for key in bucket.object_keys():
        lines = [line for line in bucket.lines(key) if selection.takes(line)]
        if lines:
            yield key, lines


def _bucket_of(source: str) -> tuple[str, str]:
    s3_url = split_s3_url(source)
    if s3_url is None:
        raise fail(
            f"{source!r} is not a place in S3, such as s3://lake/errors/, a queue, such as sqs:NAME, or a mapping's"
            " UUID."
        )
    return s3_url


def _time_of(time_text: str | None, option: str) -> int | None:
    return None if time_text is None else round(parse_moment(time_text, option).timestamp() * 1000)


def _function(function_text: str) -> Fix:
    path, _, name = function_text.rpartition(":")
    if not path or not Path(path).is_file():
        raise fail(f"--map {function_text!r} names no file and function, such as fix.py:fix.")
    spec = importlib.util.spec_from_file_location("headrace_redrive_fix", path)
    if spec is None or spec.loader is None:
        raise fail(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise fail(f"{path} cannot be loaded: {type(error).__name__}: {error}.") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise fail(f"{path} has no function {name}.")

    def guard(data: bytes, error: dict[str, Any]) -> Any:
        try:
            return function(data, error)
        except Exception as problem:
            raise fail(
                f"{name} failed at {data[:_SAMPLE_CHARS]!r}: {type(problem).__name__}: {problem}."
            ) from problem

    return guard


def _target(target_text: str, key: str, where: dict[str, Any]) -> Target:
    kind, _, name = target_text.partition(":")
    if kind == "firehose" and name:
        firehose = client("firehose", **where)
        described = firehose.describe_delivery_stream(DeliveryStreamName=name)
        delivery_stream_type = described["DeliveryStreamDescription"]["DeliveryStreamType"]
        if delivery_stream_type != "DirectPut":
            raise fail(
                f"{name} takes its records from a stream ({delivery_stream_type}), not by puts: send them to that"
                " stream with --to kinesis:NAME."
            )
        return DeliveryStreamTarget(firehose, name, time.sleep)
    if kind == "kinesis" and name:
        kinesis = client("kinesis", **where)
        kinesis.describe_stream_summary(StreamName=name)
        return StreamTarget(kinesis, name, key, time.sleep)
    if kind == "file" and name:
        return FileTarget(Path(name))
    raise fail(
        f"--to {target_text!r} must be firehose:NAME, kinesis:NAME, file:PATH or redshift:NAME."
    )


def _groups(lines: Iterator[FailedRecord]) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for line in lines:
        group = groups.get(line.code)
        if group is None:
            groups[line.code] = Group(
                1, line.arrived_ms, line.arrived_ms, line.is_source, line.message, line.data
            )
            continue
        group.count += 1
        group.first_ms = min(group.first_ms, line.arrived_ms)
        group.last_ms = max(group.last_ms, line.arrived_ms)
    return groups


def _show(groups: dict[str, Group], source: str, *, chosen: bool) -> None:
    if not groups:
        which = " with that code and time" if chosen else ""
        click.echo(f"No records{which} are set aside under {source}.")
        return
    table = Table("code", "records", "first", "last", "data", "message", "sample", box=None)
    for code, group in sorted(groups.items()):
        data = "as it was put" if group.is_source else "as processed"
        table.add_row(
            code,
            str(group.count),
            _render_time(group.first_ms),
            _render_time(group.last_ms),
            data,
            _short(group.message),
            _short(group.sample.decode("utf-8", "backslashreplace")),
        )
    print_table(table, 200)


def _render_time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if time_ms else "-"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SAMPLE_CHARS else line[: _SAMPLE_CHARS - 1] + "…"


def _show_what_the_fix_makes(lines: Iterable[FailedRecord], fix: Fix | None) -> None:
    would = left_out = 0
    for line in lines:
        data = line.data if fix is None else apply_fix(fix, line)
        if data is None:
            left_out += 1
            continue
        would += 1
        if would <= 5:
            click.echo(f"  {_short(data.decode('utf-8', 'backslashreplace'))}")
    click.echo(f"dry run: {would} records would be sent, {left_out} left out by the fix")


def _summary(done: RedriveCounts, target: Target) -> str:
    parts = [f"{done.sent} records sent to {target.name}"]
    if done.before:
        parts.append(f"{done.before} sent before")
    if done.left_out:
        parts.append(f"{done.left_out} left out by the fix")
    if done.uncertain:
        parts.append(f"{done.uncertain} uncertain")
    return ", ".join(parts)
