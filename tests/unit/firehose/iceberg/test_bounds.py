"""Files of a client's Iceberg table that are small and unfold to any size are refused before they are read."""

from __future__ import annotations

import bz2
import io
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from headrace.services.firehose.destinations import iceberg_bounds
from headrace.services.firehose.destinations.iceberg_bounds import Bounds
from tests.unit.firehose.iceberg.helpers import IcebergLab, query, table

SYNC = b"s" * 16
RECORD: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "a", "type": "string"}],
}
BIG = b"\0" * (64 * 1024 * 1024)


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def avro(codec: str, *blocks: tuple[int, bytes], schema: Any = RECORD) -> bytes:
    settings = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    head = b"Obj\x01" + number(len(settings))
    head += b"".join(text(name) + text(value) for name, value in settings.items())
    body = b"".join(number(count) + text(block) + SYNC for count, block in blocks)
    return head + number(0) + SYNC + body


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data).to_pybytes()


def listing(items: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": ["null", {"type": "array", "items": items}]}],
    }


def deflated_bomb() -> bytes:
    return avro("deflate", (1, deflated(BIG)))


def bzip2_bomb() -> bytes:
    return avro("bzip2", (1, bz2.compress(BIG)))


def zstandard_bomb() -> bytes:
    return avro("zstandard", (1, zstd(BIG)))


def large_blocks() -> bytes:
    return avro("null", *[(1, BIG[: 2**23])] * 5)


def check(body: bytes, location: str = "s3://b/m.avro") -> None:
    file = io.BytesIO(body)
    Bounds().check(file, location)
    assert file.tell() == 0


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        # Not made where they are not tested.
        (deflated_bomb, "a manifest has more than 33554432 bytes"),
        (bzip2_bomb, "a manifest has more than 33554432 bytes"),
        (zstandard_bomb, "a manifest has more than 33554432 bytes"),
        (avro("snappy", (1, b"\xff\xff\xff\xff\x07x")), "a manifest has more than"),
        (large_blocks, "a manifest has more than 33554432 bytes"),
        (avro("null", (10**15, b"a")), "a manifest has 1000000000000000 records in 1 bytes"),
        (avro("null", (1, b"a"), schema=listing("null")), "a list of items without bytes"),
        (
            avro("null", (1, b"a"), schema=listing({"type": "fixed", "name": "f", "size": 0})),
            "a list of items without bytes",
        ),
        (
            avro(
                "null",
                (1, b"a"),
                schema=listing({"type": "record", "name": "e", "fields": []}),
            ),
            "a list of items without bytes",
        ),
        (avro("lzma", (1, b"a")), "the codec lzma"),
        (avro("deflate", (1, b"\xff\xff")), "a manifest is damaged"),
        (avro("null", (1, b"a"))[:-1], "no whole Avro file"),
        (b"Obj\x01" + b"\xff" * 20, "no Avro file"),
        (avro("null", schema=5), "none of Avro's"),
        (b"PAR1" + struct.pack("<I", 2**31) + b"PAR1", "a data file's footer has more than"),
        (b"PAR1" + b"x" * 20 + struct.pack("<I", 12) + b"PAR1", "a data file's footer is damaged"),
        (b"PAR1 and no more of it", "no whole Parquet file"),
    ],
)
def test_a_file_that_unfolds_is_refused_in_a_sentence(
    body: bytes | Callable[[], bytes], sentence: str
) -> None:
    body = body() if callable(body) else body
    tracemalloc.start()
    with pytest.raises(ValueError, match=sentence):
        check(body)
    assert tracemalloc.get_traced_memory()[1] < 100 * 1024 * 1024
    tracemalloc.stop()


def test_a_data_file_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": [1] * 1000, "b": ["x"] * 1000}), file)
    check(file.getvalue(), "s3://b/d.parquet")
    monkeypatch.setattr(iceberg_bounds, "MOST_VALUES", 1999)
    with pytest.raises(ValueError, match="or 1999 values"):
        check(file.getvalue(), "s3://b/d.parquet")
    monkeypatch.setattr(iceberg_bounds, "MOST_VALUES", 2000)
    monkeypatch.setattr(iceberg_bounds, "MOST_DATA_BYTES", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        check(file.getvalue(), "s3://b/d.parquet")


def test_the_manifests_of_a_delivery_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_bounds, "MOST_MANIFESTS_BYTES", 250)
    bounds, manifest = Bounds(), avro("deflate", (1, deflated(b"x" * 100)))
    for _ in range(2):
        bounds.check(io.BytesIO(manifest), "s3://b/m.avro")
    with pytest.raises(ValueError, match="its manifests have more than 250 bytes"):
        bounds.check(io.BytesIO(manifest), "s3://b/m.avro")


@pytest.mark.parametrize("of_data", [False, True])
def test_a_delivery_to_such_a_table_waits_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, of_data: bool
) -> None:
    lab = IcebergLab(
        tmp_path,
        ProcessingConfiguration=query("{operation: .op}"),
        DestinationTableConfigurationList=[table("t", "id")],
    )
    lab.put_json({"op": "insert", "id": 1, "v": "a"})
    lab.deliver()
    end = ".parquet" if of_data else ".avro"
    whole = {at: body for at, body in lab.disk.objects.items() if at.endswith(end)}
    assert whole
    bomb = b"PAR1" + struct.pack("<I", 2**31) + b"PAR1"
    for at in whole:
        lab.disk.objects[at] = bomb if of_data else avro("deflate", (1, deflated(BIG)))
    lab.put_json({"op": "update", "id": 1, "v": "b"})
    lab.deliver()
    assert "cannot be written: a " in caplog.text
    assert not lab.is_drained
    lab.disk.objects.update(whole)
    lab.settle_until(lambda: lab.is_drained)
    assert lab.rows() == [{"id": 1, "v": "b"}]
