"""Compression, read back by readers that are not ours: gunzip, Python's zipfile, pyarrow's Snappy."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.services.firehose.output import compress_body

_SNAPPY = pa.Codec("snappy")


def _snappy(data: bytes, size: int) -> bytes:
    return _SNAPPY.decompress(data, size).to_pybytes()


def _size_of(block: bytes) -> int:
    """Return the length that a Snappy block says it has: a varint at its beginning."""
    size, shift = 0, 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return size


def read_snappy_java(body: bytes) -> bytes:
    """Read snappy-java's stream as its documentation describes it."""
    assert body[:8] == b"\x82SNAPPY\x00"
    assert struct.unpack(">ii", body[8:16]) == (1, 1)
    made, place = b"", 16
    while place < len(body):
        (length,) = struct.unpack_from(">i", body, place)
        block = body[place + 4 : place + 4 + length]
        made += _snappy(block, _size_of(block))
        place += 4 + length
    return made


def read_hadoop(body: bytes) -> bytes:
    """Read Hadoop's BlockCompressorStream: a block's length, then chunks until it is complete."""
    made, place = b"", 0
    while place < len(body):
        (wanted,) = struct.unpack_from(">i", body, place)
        place += 4
        block = b""
        while len(block) < wanted:
            (length,) = struct.unpack_from(">i", body, place)
            chunk = body[place + 4 : place + 4 + length]
            block += _snappy(chunk, _size_of(chunk))
            place += 4 + length
        made += block
    return made


def read_zip(body: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        (entry,) = archive.infolist()
        assert entry.compress_type == zipfile.ZIP_DEFLATED
        return archive.read(entry)


READERS = {
    "GZIP": (gzip.decompress, "gzip"),
    "ZIP": (read_zip, "zip"),
    "Snappy": (read_snappy_java, "snappy-java"),
    "HADOOP_SNAPPY": (read_hadoop, "hadoop-snappy"),
}


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=25, deadline=None)
@given(piece=st.binary(max_size=200), times=st.integers(0, 4000))
def test_each_format_is_read_back(kind: str, piece: bytes, times: int):
    body = piece * times
    read, encoding = READERS[kind]
    made, got = compress_body(body, kind, "a/key")
    assert (read(made), got) == (body, encoding)
    # A repeated delivery writes the same object.
    assert compress_body(body, kind, "a/key")[0] == made


def test_an_object_that_is_not_compressed_has_no_encoding():
    assert compress_body(b"x", "UNCOMPRESSED", "k") == (b"x", None)
