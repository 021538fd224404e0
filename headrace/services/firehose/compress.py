"""Compresses delivered objects: GZIP, ZIP, Snappy, Hadoop's Snappy and, for Kinesis' channels, ZSTD. Pure functions.

The same bytes and name always give the same object, so that a repeated delivery changes nothing. Extensions, content
encodings and containers are AWS's (observed by others, 2026: Snappy is snappy-java's stream, not Google's framing;
Hadoop's Snappy has the extension .snappy too, although the documentation says otherwise).
"""

from __future__ import annotations

import gzip
import io
import uuid
import zipfile
from collections.abc import Callable, Iterator

import cramjam

_ENCODINGS = {
    "GZIP": "gzip",
    "ZIP": "zip",
    "Snappy": "snappy-java",
    "HADOOP_SNAPPY": "hadoop-snappy",
    "ZSTD": "zstd",
}
# snappy-java's header: magic, version, and the lowest version that can read it.
_SNAPPY_JAVA_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4) + (1).to_bytes(4)
_SNAPPY_JAVA_BLOCK_BYTES = 32 * 1024
_HADOOP_BLOCK_BYTES = 256 * 1024


def compress_body(body: bytes, kind: str, name: str) -> tuple[bytes, str | None]:
    """Compress a body; return it and its Content-Encoding. `name` gives the file name inside a ZIP archive."""
    match kind:
        case "GZIP":
            # A fixed time in the header, so that the bytes are always the same.
            compressed = gzip.compress(body, compresslevel=6, mtime=0)
        case "ZIP":
            compressed = _zip(body, str(uuid.uuid5(uuid.NAMESPACE_URL, name)))
        case "Snappy":
            compressed = _SNAPPY_JAVA_HEADER + b"".join(
                _compress_blocks(body, _SNAPPY_JAVA_BLOCK_BYTES)
            )
        case "HADOOP_SNAPPY":
            compressed = b"".join(_build_hadoop_blocks(body))
        case "ZSTD":
            compressed = bytes(cramjam.zstd.compress(body))
        case _:
            return body, None
    return compressed, _ENCODINGS[kind]


def _zip(body: bytes, entry: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(entry), body, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def _compress_blocks(body: bytes, block_bytes: int) -> Iterator[bytes]:
    compress: Callable[[bytes], bytes] = lambda part: bytes(cramjam.snappy.compress_raw(part))  # noqa: E731
    for start in range(0, len(body), block_bytes):
        block = compress(body[start : start + block_bytes])
        yield len(block).to_bytes(4) + block


def _build_hadoop_blocks(body: bytes) -> Iterator[bytes]:
    """Return Hadoop's blocks: the uncompressed length, then chunks (here one) of length and compressed bytes."""
    for start in range(0, len(body), _HADOOP_BLOCK_BYTES):
        part = body[start : start + _HADOOP_BLOCK_BYTES]
        yield len(part).to_bytes(4) + b"".join(_compress_blocks(part, len(part)))
