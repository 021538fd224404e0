"""Bounds the files of a client's Iceberg table before pyiceberg reads them whole, in the cloud's own process.

Metadata (JSON), manifests and their lists (Avro) and the footers of data files (Parquet) may be small and unfold to any
size. Every refusal is a ValueError with one sentence, which becomes the delivery's error.
"""

# pyarrow creates its functions when it is imported, so pyright does not know them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import bz2
import gzip
import io
import json
import threading
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet

# A table of 10,000 snapshots and 1,000 columns has about 10 MB of metadata.
MOST_METADATA_BYTES = 64 * 1024 * 1024
# pyiceberg and Spark write manifests of 8 MB.
MOST_MANIFEST_BYTES = 32 * 1024 * 1024
# All manifests that one delivery reads.
MOST_MANIFESTS_BYTES = 1024 * 1024 * 1024
MOST_SCHEMA_CHARACTERS = 1024 * 1024
# A footer of 100 row groups and 1,000 columns has about 10 MB.
MOST_FOOTER_BYTES = 16 * 1024 * 1024
# A data file that a delivery with keys rewrites is in memory as a whole.
MOST_DATA_BYTES = 1024 * 1024 * 1024
MOST_VALUES = 100_000_000
_PART_BYTES = 1024 * 1024
_AVRO, _PARQUET = b"Obj\x01", b"PAR1"
_SYNC_BYTES = 16


class Bounds:
    """What the files of one delivery may still unfold to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = MOST_MANIFESTS_BYTES

    def check(self, file: BinaryIO, location: str) -> None:
        """Check an open file, and leave it at its start. Raises ValueError."""
        if location.endswith(".metadata.json"):
            _check_metadata(file, is_packed=location.endswith(".gz.metadata.json"))
        else:
            magic = file.read(4)
            if magic == _AVRO:
                self._take(_measure_manifest(file))
            elif magic == _PARQUET:
                _check_footer(file)
        file.seek(0)

    def _take(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise ValueError(f"its manifests have more than {MOST_MANIFESTS_BYTES} bytes")


def _check_metadata(file: BinaryIO, *, is_packed: bool) -> None:
    unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_packed else file
    left = MOST_METADATA_BYTES
    try:
        while part := unpacked.read(min(left + 1, _PART_BYTES)):
            left -= len(part)
            if left < 0:
                raise ValueError(f"its metadata has more than {MOST_METADATA_BYTES} bytes")
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(str(error)) from error


# --- manifests ----------------------------------------------------------------------------------------


def _measure_manifest(file: BinaryIO) -> int:
    """Return the bytes of an Avro file's unpacked blocks, each of which holds no more records than bytes."""
    file.seek(0)
    data = file.read(MOST_MANIFEST_BYTES + 1)
    if len(data) > MOST_MANIFEST_BYTES:
        raise _too_large_manifest()
    reader = _AvroReader(data)
    settings = reader.read_settings()
    _check_schema(settings.get("avro.schema", b"").decode(errors="replace"))
    codec = settings.get("avro.codec", b"null").decode(errors="replace")
    total = 0
    for count, block in reader.blocks():
        size = 0
        for part_bytes in _unpack(codec, block):
            size += part_bytes
            if total + size > MOST_MANIFEST_BYTES:
                raise _too_large_manifest()
        if count > size:
            raise ValueError(f"a manifest has {count} records in {size} bytes")
        total += size
    return total


def _too_large_manifest() -> ValueError:
    return ValueError(f"a manifest has more than {MOST_MANIFEST_BYTES} bytes")


class _AvroReader:
    """Reads the frame of an Avro file. Every method raises ValueError where the file is none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_AVRO)

    def read_settings(self) -> dict[str, bytes]:
        """Return the header's settings; go to the first block."""
        settings: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:
                self._number()
            for _ in range(abs(count)):
                name = self._bytes(self._number()).decode(errors="replace")
                settings[name] = self._bytes(self._number())
        self._bytes(_SYNC_BYTES)
        return settings

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield each block's count of records, and its packed bytes."""
        while self._at < len(self._data):
            count = self._number()
            yield count, self._bytes(self._number())
            self._bytes(_SYNC_BYTES)

    def _number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self._bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a manifest is no Avro file")

    def _bytes(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError("a manifest is no whole Avro file")
        taken, self._at = self._data[self._at : end], end
        return taken


def _unpack(codec: str, block: bytes) -> Iterator[int]:
    """Yield the sizes of a block's unpacked parts, one after the other."""
    try:
        if codec == "null":
            yield len(block)
        elif codec == "snappy":
            # The block begins with its unpacked size.
            yield abs(_snappy_size(block))
        elif codec in ("deflate", "bzip2"):
            unpacker: Any = bz2.BZ2Decompressor() if codec == "bzip2" else zlib.decompressobj(-15)
            rest = block
            while part := unpacker.decompress(rest, _PART_BYTES):
                yield len(part)
                rest = b"" if codec == "bzip2" else unpacker.unconsumed_tail
                if unpacker.eof:
                    break
        elif codec == "zstandard":
            stream: Any = pa.CompressedInputStream(pa.BufferReader(block), "zstd")
            while part := stream.read(_PART_BYTES):
                yield len(part)
        else:
            raise ValueError(f"a manifest has the codec {codec[:40]}")
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"a manifest is damaged: {error}") from error


def _snappy_size(block: bytes) -> int:
    value = 0
    for number, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value
    raise ValueError("a manifest is damaged: no size of a block")


def _check_schema(text: str) -> None:
    """Refuse a schema with lists whose items have no bytes, of which a few bytes declare any number."""
    if len(text) > MOST_SCHEMA_CHARACTERS:
        raise ValueError(f"a manifest's schema has more than {MOST_SCHEMA_CHARACTERS} characters")
    try:
        _is_empty(json.loads(text), set())
    except (RecursionError, AttributeError, TypeError) as error:
        raise ValueError("a manifest's schema is none of Avro's") from error


def _is_empty(schema: Any, empty_names: set[str]) -> bool:
    """Whether values of a type may have no bytes; `empty_names` are the named types that may."""
    if isinstance(schema, list):
        for one in cast("list[Any]", schema):
            _is_empty(one, empty_names)
        return False  # a union's value begins with its place
    if isinstance(schema, str):
        return schema == "null" or schema in empty_names
    kind = schema.get("type")
    if kind == "array":
        if _is_empty(schema["items"], empty_names):
            raise ValueError("a manifest's schema has a list of items without bytes")
        return False
    if kind == "map":
        _is_empty(schema["values"], empty_names)
        return False
    if kind == "record":
        fields = [_is_empty(field["type"], empty_names) for field in schema["fields"]]
        is_empty = all(fields)
    elif kind == "fixed":
        is_empty = not schema["size"]
    else:
        return isinstance(kind, (dict, list, str)) and _is_empty(kind, empty_names)
    if is_empty:
        empty_names.add(str(schema.get("name")))
    return is_empty


# --- data files ---------------------------------------------------------------------------------------


def _check_footer(file: BinaryIO) -> None:
    file.seek(-8, io.SEEK_END)
    size, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    if magic != _PARQUET:
        raise ValueError("a data file is no whole Parquet file")
    if size > MOST_FOOTER_BYTES:
        raise ValueError(f"a data file's footer has more than {MOST_FOOTER_BYTES} bytes")
    file.seek(0)
    try:
        metadata = pyarrow.parquet.read_metadata(pa.PythonFile(file, mode="r"))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"a data file's footer is damaged: {error}") from error
    unpacked = sum(
        max(0, metadata.row_group(number).total_byte_size)
        for number in range(metadata.num_row_groups)
    )
    if unpacked > MOST_DATA_BYTES or metadata.num_rows * metadata.num_columns > MOST_VALUES:
        raise ValueError(
            f"a data file has more than {MOST_DATA_BYTES} bytes or {MOST_VALUES} values"
        )
