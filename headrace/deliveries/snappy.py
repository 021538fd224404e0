"""Decompresses objects that Firehose compressed with Snappy: snappy-java's stream format, or Hadoop's blocks."""

from __future__ import annotations

from collections.abc import Iterator

_JAVA_MAGIC = b"\x82SNAPPY\x00"
_JAVA_HEADER_BYTES = 16
_LENGTH_BYTES = 4
# Firehose's blocks are far smaller: a length above this is damage, and must not allocate memory.
_MOST_BLOCK_BYTES = 64 * 1024 * 1024


def snappy_decompressed(body: bytes, most_bytes: int | None = None) -> bytes:
    """Return the decompressed bytes of an object, or a little more than `most_bytes` of them. Raises ValueError."""
    # Imported with the first object: it takes 1.5 MB.
    import cramjam

    parts: list[bytes] = []
    size_bytes = 0
    try:
        for part in _java_blocks(body) if body.startswith(_JAVA_MAGIC) else _hadoop_blocks(body):
            parts.append(part)
            size_bytes += len(part)
            if most_bytes is not None and size_bytes > most_bytes:
                break
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    return b"".join(parts)


def _java_blocks(body: bytes) -> Iterator[bytes]:
    offset = _JAVA_HEADER_BYTES
    while offset < len(body):
        chunk, offset = _chunk(body, offset)
        yield _plain(chunk)


def _hadoop_blocks(body: bytes) -> Iterator[bytes]:
    """Decompress blocks: each has its uncompressed length, then chunks up to that length."""
    at = 0
    while at < len(body):
        left, at = _length(body, at)
        while left > 0:
            chunk, at = _chunk(body, at)
            part = _plain(chunk)
            left -= len(part)
            yield part
        if left < 0:
            raise ValueError("a block is longer than it says")


def _plain(chunk: bytes) -> bytes:
    import cramjam

    if cramjam.snappy.decompress_raw_len(chunk) > _MOST_BLOCK_BYTES:
        raise ValueError("a block is too long")
    part = bytes(cramjam.snappy.decompress_raw(chunk))
    if not part:
        raise ValueError("a block is empty")
    return part


def _chunk(body: bytes, at: int) -> tuple[bytes, int]:
    length, at = _length(body, at)
    if at + length > len(body):
        raise ValueError("it breaks off")
    return body[at : at + length], at + length


def _length(body: bytes, at: int) -> tuple[int, int]:
    if at + _LENGTH_BYTES > len(body):
        raise ValueError("it breaks off")
    return int.from_bytes(body[at : at + _LENGTH_BYTES]), at + _LENGTH_BYTES
