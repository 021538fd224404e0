"""The ceiling of the Kinesis benchmark: a bare engine, with a log on disk and nothing that is not needed for a figure.

It has streams, shards by hash ranges, sequence numbers and durable batches, and answers eight actions. It checks
nothing, knows no accounts, permissions, limits, errors, splits or restarts. What it reaches is what one Python process
can do on this machine for the same load: headrace's figure beside it is the price of being Kinesis.

    python -m scripts.benchmarks.bare PORT FOLDER
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.clock import SystemClock

MOST_BYTES = 10 * 1024 * 1024
MOST_RECORDS = 10_000
ALL_HASHES = 1 << 128
_TARGET = re.compile(rb"\r\nx-amz-target: *Kinesis_20131202\.(\w+)\r\n", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Record(msgspec.Struct, gc=False):
    """A record as a request has it; the data stay as they came, in base64 and quotes."""

    Data: msgspec.Raw
    PartitionKey: str
    ExplicitHashKey: str | None = None


class PutRecord(Record, kw_only=True, gc=False):
    """PutRecord's request."""

    StreamName: str


class PutRecords(msgspec.Struct, gc=False):
    """PutRecords' request."""

    Records: list[Record]
    StreamName: str


class Shard:
    """A file of records in the form in which GetRecords gives them, and where each batch begins in it."""

    def __init__(self, path: Path, number: int, first_hash: int, last_hash: int) -> None:
        self.name = f"shardId-{number:012d}"
        self.hashes = {"StartingHashKey": str(first_hash), "EndingHashKey": str(last_hash)}
        self.prefix = f"496{number:05d}"
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self.count = 0
        # Byte offsets and numbers of records at which batches begin; the last ones are those of the next batch.
        self.offsets = [0]
        self.numbers = [0]

    def append(self, records: list[bytes]) -> None:
        """Append a batch; it survives the process's end."""
        data = b"".join(records)
        os.write(self.fd, data)
        self.count += len(records)
        self.offsets.append(self.offsets[-1] + len(data))
        self.numbers.append(self.count)

    def read(self, batch: int, limit: int) -> tuple[bytes, int]:
        """Return records from a batch on, and the batch after them."""
        start = self.offsets[batch]
        by_bytes = bisect_right(self.offsets, start + MOST_BYTES) - 1
        by_count = bisect_right(self.numbers, self.numbers[batch] + limit) - 1
        end = max(min(by_bytes, by_count), min(batch + 1, len(self.offsets) - 1))
        return os.pread(self.fd, self.offsets[end] - start, start), end


class Stream:
    """Shards that divide the hashes evenly."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        bounds = [ALL_HASHES * i // count for i in range(count + 1)]
        self.starts = [bound.to_bytes(16, "big") for bound in bounds[:-1]]
        self.shards = [
            Shard(folder / f"{name}-{i}", i, bounds[i], bounds[i + 1] - 1) for i in range(count)
        ]

    def place(self, record: Record) -> int:
        """Return the number of a record's shard."""
        if record.ExplicitHashKey is not None:
            digest = int(record.ExplicitHashKey).to_bytes(16, "big")
        else:
            digest = hashlib.md5(record.PartitionKey.encode(), usedforsecurity=False).digest()
        return bisect_right(self.starts, digest) - 1


class Engine:
    """The eight actions, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = SystemClock()
        self._streams: dict[str, Stream] = {}
        self._one = msgspec.json.Decoder(PutRecord)
        self._many = msgspec.json.Decoder(PutRecords)
        self.actions: dict[bytes, Callable[[bytes], bytes]] = {
            b"PutRecord": self._put_record,
            b"PutRecords": self._put_records,
            b"GetRecords": self._get_records,
            b"CreateStream": self._create_stream,
            b"ListStreams": lambda _: json.dumps({"StreamNames": list(self._streams)}).encode(),
            b"ListShards": self._list_shards,
            b"GetShardIterator": self._get_shard_iterator,
            b"DescribeStreamSummary": lambda _: (
                b'{"StreamDescriptionSummary":{"StreamStatus":"ACTIVE"}}'
            ),
        }

    def _create_stream(self, body: bytes) -> bytes:
        asked = json.loads(body)
        self._streams[asked["StreamName"]] = Stream(
            self._folder, asked["StreamName"], asked["ShardCount"]
        )
        return b""

    def _list_shards(self, body: bytes) -> bytes:
        shards = self._streams[json.loads(body)["StreamName"]].shards
        listed: list[dict[str, Any]] = [
            {"ShardId": shard.name, "HashKeyRange": shard.hashes} for shard in shards
        ]
        return json.dumps({"Shards": listed}).encode()

    def _get_shard_iterator(self, body: bytes) -> bytes:
        asked = json.loads(body)
        number = int(asked["ShardId"].removeprefix("shardId-"))
        shard = self._streams[asked["StreamName"]].shards[number]
        batch = len(shard.offsets) - 1 if asked["ShardIteratorType"] == "LATEST" else 0
        return json.dumps({"ShardIterator": f"{asked['StreamName']} {number} {batch}"}).encode()

    def _put_record(self, body: bytes) -> bytes:
        record = self._one.decode(body)
        stream = self._streams[record.StreamName]
        shard = stream.shards[stream.place(record)]
        sequence = f"{shard.prefix}{shard.count:048d}"
        shard.append([_render(record, sequence, self._clock.now_ms())])
        return f'{{"ShardId":"{shard.name}","SequenceNumber":"{sequence}"}}'.encode()

    def _put_records(self, body: bytes) -> bytes:
        request = self._many.decode(body)
        stream, now_ms = self._streams[request.StreamName], self._clock.now_ms()
        batches: dict[int, list[bytes]] = {}
        receipts: list[str] = []
        for record in request.Records:
            number = stream.place(record)
            shard, batch = stream.shards[number], batches.setdefault(number, [])
            sequence = f"{shard.prefix}{shard.count + len(batch):048d}"
            batch.append(_render(record, sequence, now_ms))
            receipts.append(f'{{"ShardId":"{shard.name}","SequenceNumber":"{sequence}"}}')
        for number, batch in batches.items():
            stream.shards[number].append(batch)
        return f'{{"FailedRecordCount":0,"Records":[{",".join(receipts)}]}}'.encode()

    def _get_records(self, body: bytes) -> bytes:
        asked = json.loads(body)
        name, number, batch = asked["ShardIterator"].split(" ")
        shard = self._streams[name].shards[int(number)]
        records, after = shard.read(int(batch), asked.get("Limit", MOST_RECORDS))
        return b"".join(
            (
                b'{"MillisBehindLatest":0,"NextShardIterator":"',
                f"{name} {number} {after}".encode(),
                b'","Records":[',
                memoryview(records)[:-1],
                b"]}",
            )
        )


def _render(record: Record, sequence: str, now_ms: int) -> bytes:
    key = json.dumps(record.PartitionKey)
    return (
        f'{{"SequenceNumber":"{sequence}","ApproximateArrivalTimestamp":{now_ms / 1000:.3f},'
        f'"PartitionKey":{key},"Data":{bytes(record.Data).decode()}}},'
    ).encode()


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: reads a request's target and length, and nothing else of its headers."""

    def __init__(self, engine: Engine) -> None:
        self._actions = engine.actions
        self._transport: asyncio.Transport | None = None
        self._arrived = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(2 * MOST_BYTES)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is whole."""
        arrived = self._arrived + data if self._arrived else data
        while (end := arrived.find(b"\r\n\r\n")) >= 0:
            head = arrived[: end + 2]
            length = _LENGTH.search(head)
            stop = end + 4 + (int(length[1]) if length else 0)
            if len(arrived) < stop:
                break
            self._answer(head, arrived[end + 4 : stop])
            arrived = arrived[stop:]
        self._arrived = arrived

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        target = _TARGET.search(head)
        action = self._actions.get(target[1]) if target else None
        if action is None:
            status, answer = b"400 Bad Request", b'{"__type":"UnknownOperationException"}'
        else:
            status, answer = b"200 OK", action(body)
        self._transport.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(answer), answer)
        )


async def serve(port: int, folder: Path) -> None:
    """Serve until the process ends."""
    engine = Engine(folder)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(engine), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
