"""Lines of a pipe as they come."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from headrace.cli.put import LineTooLong, lines_as_they_come

LONGEST_BYTES = 200_000


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    read, write = os.pipe()
    with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:  # noqa: PTH123 - pipes
        yield source, sink


def test_what_is_there_is_given_before_more_is_waited_for(
    pipe: tuple[BinaryIO, BinaryIO],
) -> None:
    source, sink = pipe
    sink.write(b"one\ntwo\nthr")
    lines = lines_as_they_come(source, LONGEST_BYTES)
    assert [next(lines) for _ in range(3)] == [b"one", b"two", None]
    sink.write(b"ee\n\nend")
    assert [next(lines) for _ in range(3)] == [b"three", b"", None]
    sink.close()
    assert [line for line in lines if line is not None] == [b"end"]


@pytest.mark.parametrize("text", [b"", b"\n", b"a", b"a\n", b"\xff\x00\n\xfe", b"a\r\n" * 50_000])
def test_a_file_gives_its_lines_as_they_are(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(text)
    with (tmp_path / "file").open("rb") as source:
        found = [line for line in lines_as_they_come(source, LONGEST_BYTES) if line is not None]
    expected = text.split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])
    assert list(lines_as_they_come(io.BytesIO(text), LONGEST_BYTES)) == found


@pytest.mark.parametrize("end", [b"\nc", b""])
def test_a_line_that_is_too_long_ends_the_lines_after_those_before(
    end: bytes, pipe: tuple[BinaryIO, BinaryIO], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"a\n" + b"b" * (LONGEST_BYTES + 1) + end)
    found: list[bytes | None] = []
    with (
        (tmp_path / "file").open("rb") as source,
        pytest.raises(LineTooLong, match="line 2 has more than 200000 bytes"),
    ):
        found.extend(lines_as_they_come(source, LONGEST_BYTES))
    assert found == [b"a", None]


def test_a_source_that_cannot_be_read_ends_the_lines_with_its_error(tmp_path: Path) -> None:
    class Folder(io.BytesIO):
        def fileno(self) -> int:
            return folder

    folder = os.open(tmp_path, os.O_RDONLY)
    found: list[bytes | None] = []
    try:
        with pytest.raises(IsADirectoryError):
            found.extend(lines_as_they_come(Folder(), LONGEST_BYTES))
    finally:
        os.close(folder)
    assert found == [None]
