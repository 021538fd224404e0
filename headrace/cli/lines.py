"""Yields the lines of a byte stream as they come, for a command that must not wait for the end of its input."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import BinaryIO

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
