"""What a producer leaves to the next one of its journal, and its asyncio face."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.client.async_producer import AsyncProducer
from headrace.client.lanes import SpoolError
from headrace.client.producer import Producer
from headrace.client.receipts import BufferFull
from headrace.client.wire import WireError
from tests.support.fake_stream import FakeStream
from tests.unit.client.test_producer import (
    producer_of,
)


def test_what_was_not_acknowledged_is_put_by_the_next_producer(tmp_path: Path):
    stream = FakeStream()
    stream.faults = [WireError("down")] * 1000
    producer = producer_of(stream, spool=tmp_path / "spool")
    for i in range(5):
        producer.put(b"%d" % i, "k", explicit_hash_key=i)
    with pytest.raises(TimeoutError):
        producer.close(0.05)
    stream.faults = []
    with producer_of(stream, spool=tmp_path / "spool"):
        pass
    assert stream.data() == [b"0", b"1", b"2", b"3", b"4"]
    with producer_of(stream, spool=tmp_path / "spool"):
        pass
    assert len(stream.data()) == 5


def test_a_record_that_a_crash_cut_off_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    stream = FakeStream()
    stream.faults = [WireError("down")] * 1000
    producer = producer_of(stream, spool=tmp_path)
    producer.put(b"whole", "k")
    producer.put(b"cut off", "k")
    with pytest.raises(TimeoutError):
        producer.close(0.05)
    (segment,) = tmp_path.glob("*.spool")
    segment.write_bytes(segment.read_bytes()[:-3])
    stream.faults = []
    with producer_of(stream, spool=tmp_path):
        pass
    assert stream.data() == [b"whole"]
    assert "no whole record" in caplog.text


def test_two_producers_cannot_share_a_journal(tmp_path: Path):
    with (
        producer_of(FakeStream(), spool=tmp_path),
        pytest.raises(SpoolError, match="another producer uses the spool"),
    ):
        producer_of(FakeStream(), spool=tmp_path)


# asyncio.


def test_the_asyncio_face_awaits_receipts_and_room():
    stream = FakeStream()

    async def main() -> list[str]:
        async with AsyncProducer(
            "s", streams=stream, make_wire=lambda: stream, linger_ms=1.0, max_buffered_records=10
        ) as producer:
            receipts = [await producer.put(b"%d" % i, "k") for i in range(1000)]
            receipts += await producer.put_many([(b"%d" % i, "k") for i in range(1000, 2000)])
            return [(await receipt).shard_id for receipt in receipts]

    assert set(asyncio.run(main())) == {"shardId-000000000000"}
    assert sorted(map(int, stream.data())) == list(range(2000))


def test_the_asyncio_face_checks_no_record_again_for_each_pause(monkeypatch: pytest.MonkeyPatch):
    stream, counts, rows = FakeStream(), list[int](), [(b"%d" % i, "k") for i in range(1500)]
    put_many = Producer.put_many

    def count(producer: Producer, rest: list[tuple[bytes, str | None]]) -> Any:
        counts.append(len(rest))
        if len(counts) == 1:
            raise BufferFull("not a single record has room")
        return put_many(producer, rest)

    monkeypatch.setattr(Producer, "put_many", count)

    async def main() -> list[bytes]:
        async with AsyncProducer(
            "s", streams=stream, make_wire=lambda: stream, linger_ms=1.0, connections=1
        ) as producer:
            return [receipt.data for receipt in await producer.put_many(rows)]

    assert asyncio.run(main()) == [data for data, _ in rows]
    assert list(map(int, stream.data())) == list(range(1500))
    assert counts == [1500, 1000, 500]
