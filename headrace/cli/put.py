"""`headrace put`: puts records into a stream, here or on AWS (`--aws`)."""

from __future__ import annotations

import hashlib
import os
import select
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from headrace.cli.interrupts import INTERRUPTED
from headrace.cli.options import client, endpoint_option, fail, sentence
from headrace.cli.record_batches import (
    LONGEST_DATA_BYTES,
    PutFailed,
    batches,
    open_putter,
    put_all,
)

# Yields the lines of a byte stream as they come, for a command that must not wait for the end of its input.

_PIECE_BYTES = 1 << 16


class LineTooLong(ValueError):
    """A line is longer than any record may be; the message is one sentence."""


def lines_as_they_come(source: BinaryIO, longest_bytes: int) -> Iterator[bytes | None]:
    """Yield each line without its newline, and None whenever no more input is available yet.

    Raises OSError when the source cannot be read, and LineTooLong. Before it raises, it yields the earlier lines and
    None.
    """
    rest, number = b"", 0
    try:
        for piece in _pieces(source):
            if piece is None:
                yield None
                continue
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                _check(line, number, longest_bytes)
                yield line
            _check(rest, number + 1, longest_bytes)
    except (OSError, LineTooLong):
        yield None
        raise
    if rest:
        yield rest


def _check(line: bytes, number: int, longest_bytes: int) -> None:
    if len(line) > longest_bytes:
        raise LineTooLong(
            f"line {number} has more than {longest_bytes} bytes, the largest size of a record"
        )


def _pieces(source: BinaryIO) -> Iterator[bytes | None]:
    try:
        descriptor = source.fileno()
    except OSError:
        # A source without a file descriptor, as in a test, has all its bytes available.
        yield source.read()
        return
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        piece = os.read(descriptor, _PIECE_BYTES)
        if not piece:
            return
        yield piece


@click.command()
@click.argument("stream")
@click.argument("data", required=False)
@click.option("--key", "-k", help="Partition key; default: a digest of the data.")
@endpoint_option
def put(
    stream: str, data: str | None, key: str | None, *, endpoint_url: str, region: str, aws: bool
) -> None:
    """Put DATA, or each line of standard input as it comes, into STREAM."""
    kinesis = client("kinesis", endpoint_url=endpoint_url, region=region, aws=aws)
    putter = open_putter(kinesis, stream, endpoint_url=endpoint_url, region=region, aws=aws)
    # The bytes as they were typed, in any locale.
    records = _records([os.fsencode(data)] if data is not None else _lines(), key)
    try:
        put_all(putter, batches(records), at_once=True)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {putter.summary()}", err=True)
        click.get_current_context().exit(INTERRUPTED)
    except (PutFailed, LineTooLong) as error:
        raise fail(f"{error}; {putter.summary()}.") from error
    except OSError as error:
        reason = sentence(error).removesuffix(".")
        raise fail(f"standard input cannot be read: {reason}; {putter.summary()}.") from error
    click.echo(putter.summary())


def _lines() -> Iterator[bytes | None]:
    if sys.stdin is None:
        raise OSError("it is closed")
    yield from lines_as_they_come(sys.stdin.buffer, LONGEST_DATA_BYTES)


def _records(lines: Iterator[bytes | None] | list[bytes], key: str | None) -> Iterator[Any]:
    for line in lines:
        if line is None:
            yield None
            continue
        digest = hashlib.md5(line, usedforsecurity=False).hexdigest()
        yield {"Data": line, "PartitionKey": digest if key is None else key}
