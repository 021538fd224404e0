"""The workloads of the Kinesis benchmark: each one runs on a started target and returns its figures."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scripts.benchmarks.wire import Connection, closed_loop, request

SHARDS = 4
MANY_SHARDS = 256
RECORDS_A_REQUEST = 500
CLIENTS = 32
READERS = 5
# Few enough to build quickly; enough for many partition keys.
BODIES = 32
POLL_EVERY_S = 0.001
PUT_EVERY_S = 0.005
RESIDENT_RECORDS = 1_000_000
RESIDENT_WITHIN_S = 40
ACTIVE_WITHIN_S = 30
ONE_SHARD = {"PartitionKey": "k", "ExplicitHashKey": "0"}
_DATA = re.compile(rb'"Data"\s*:\s*"([^"]*)"')

Result = dict[str, float]


@dataclass
class Load:
    """A running target, and the duration of the load. `rss_mb` returns its processes' memory."""

    port: int
    seconds: float
    rss_mb: Callable[[], float] = lambda: 0.0
    made: set[str] = field(default_factory=set[str])

    def stream(self, name: str, shards: int = SHARDS) -> None:
        """Create a stream and wait until it is ACTIVE."""
        connection = Connection(self.port)
        connection.ask("CreateStream", {"StreamName": name, "ShardCount": shards})
        deadline = time.monotonic() + ACTIVE_WITHIN_S
        while True:
            answer = connection.ask("DescribeStreamSummary", {"StreamName": name})
            if answer["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE":
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not become ACTIVE")
            time.sleep(0.05)
        connection.close()
        self.made.add(name)

    def iterators(self, name: str, kind: str) -> list[str]:
        """Return an iterator for each shard. Raises RuntimeError if the stream was not created."""
        if name not in self.made:
            raise RuntimeError("what should be read could not be put")
        connection = Connection(self.port)
        shards = connection.ask("ListShards", {"StreamName": name})["Shards"]
        shard_iterators = [
            connection.ask(
                "GetShardIterator",
                {"StreamName": name, "ShardId": shard["ShardId"], "ShardIteratorType": kind},
            )["ShardIterator"]
            for shard in shards
        ]
        connection.close()
        return shard_iterators


def put_bodies(name: str, data_bytes: int, count: int = BODIES) -> list[bytes]:
    """Return requests of 500 records each, with keys spread over the shards."""
    return [
        request(
            "PutRecords",
            {
                "StreamName": name,
                "Records": [
                    {
                        "Data": base64.b64encode(os.urandom(data_bytes)).decode(),
                        "PartitionKey": f"key-{number}-{i}",
                    }
                    for i in range(RECORDS_A_REQUEST)
                ],
            },
        )
        for number in range(count)
    ]


def put_records(
    load: Load, name: str, data_bytes: int, shards: int = SHARDS, bodies: int = BODIES
) -> Result:
    """PutRecords of 500, one client; with so many different requests."""
    load.stream(name, shards)
    requests = put_bodies(name, data_bytes, bodies)
    started = time.perf_counter()
    latencies = closed_loop(load.port, 1, requests, load.seconds)
    elapsed = time.perf_counter() - started
    return {"records/s": len(latencies) * RECORDS_A_REQUEST / elapsed, **latency(latencies)}


def drain(load: Load, name: str) -> Result:
    """GetRecords from the beginning of each shard to its end, repeated until the time is up."""
    connection = Connection(load.port)
    firsts = load.iterators(name, "TRIM_HORIZON")
    count = 0
    started = time.perf_counter()
    stop_at = started + load.seconds
    # At least one round, however busy the machine.
    while not count or time.perf_counter() < stop_at:
        before = count
        for first in firsts:
            iterator: str | None = first
            while iterator and (not count or time.perf_counter() < stop_at):
                found, iterator = page(connection, iterator)
                count += found
        if count == before:
            break
    elapsed = time.perf_counter() - started
    connection.close()
    if not count:
        raise RuntimeError("no record was read")
    return {"records/s": count / elapsed}


def readers_of_one_shard(load: Load, name: str) -> Result:
    """Five clients that read one shard from its beginning to its end at once, repeatedly."""
    first = load.iterators(name, "TRIM_HORIZON")[0]
    counts = [0] * READERS
    failures: list[str] = []
    started = time.perf_counter()
    stop_at = started + load.seconds

    def read(number: int) -> None:
        try:
            connection = Connection(load.port)
            iterator: str | None = first
            # At least one page, however busy the machine.
            while not counts[number] or time.perf_counter() < stop_at:
                found, iterator = page(connection, iterator or first)
                if not found and not counts[number]:
                    break
                counts[number] += found
            connection.close()
        except (RuntimeError, OSError) as error:
            failures.append(str(error))

    # Threads suffice: nearly all of a client's time is copying in the kernel, which runs in parallel.
    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    if failures or not all(counts):
        raise RuntimeError(failures[0] if failures else "a reader saw nothing")
    return {"records/s": sum(counts) / elapsed, "slowest reader's records/s": min(counts) / elapsed}


def _get_records(iterator: str) -> bytes:
    return request("GetRecords", {"ShardIterator": iterator})


def page(connection: Connection, iterator: str) -> tuple[int, str | None]:
    """Get records; return (count, next iterator) without parsing the records. None at the end of the shard."""
    start, stop = connection.exchange(_get_records(iterator))
    found = connection.buffer.count(b'"SequenceNumber"', start, stop)
    return found, next_iterator(connection.buffer, start, stop) if found else None


def next_iterator(buffer: bytearray | bytes, start: int, stop: int) -> str | None:
    """Return NextShardIterator, found without parsing the records."""
    at = buffer.rfind(b'"NextShardIterator"', start, stop)
    if at < 0:
        return None
    quote = buffer.find(b'"', at + 19)
    # Parsed as JSON, because moto's iterators contain escaped newlines.
    return json.loads(buffer[quote : buffer.index(b'"', quote + 1) + 1])


def put_record(load: Load, name: str, clients: int, shards: int = SHARDS) -> Result:
    """PutRecord of 100 bytes, closed loop."""
    load.stream(name, shards)
    data = base64.b64encode(os.urandom(100)).decode()
    bodies = [
        request("PutRecord", {"StreamName": name, "Data": data, "PartitionKey": f"key-{i}"})
        for i in range(1000)
    ]
    started = time.perf_counter()
    latencies = closed_loop(load.port, clients, bodies, load.seconds)
    elapsed = time.perf_counter() - started
    return {"records/s": len(latencies) / elapsed, **latency(latencies)}


class Producer(threading.Thread):
    """Puts a record every few milliseconds into a stream's first shard, and records the times."""

    def __init__(self, load: Load, name: str) -> None:
        super().__init__()
        self._load = load
        self._name = name
        self.sent: dict[bytes, float] = {}
        self.failures: list[str] = []
        self.is_done = threading.Event()

    def run(self) -> None:
        """Put until the time is up, or until a put fails."""
        try:
            self._put_on()
        except (RuntimeError, OSError) as error:
            self.failures.append(str(error))
        finally:
            self.is_done.set()

    def _put_on(self) -> None:
        connection = Connection(self._load.port)
        stop_at = time.perf_counter() + self._load.seconds
        while time.perf_counter() < stop_at:
            data = base64.b64encode(b"%012d" % len(self.sent))
            body = {"StreamName": self._name, "Data": data.decode(), **ONE_SHARD}
            prepared = request("PutRecord", body)
            self.sent[data] = time.perf_counter()
            connection.call(prepared)
            time.sleep(PUT_EVERY_S)
        connection.close()


def put_to_seen(load: Load, name: str) -> Result:
    """Measure from the sending of a PutRecord until a poller (1 ms between polls) has the record."""
    load.stream(name)
    # All keys go to one shard: one poller.
    iterator: str | None = load.iterators(name, "LATEST")[0]
    producer = Producer(load, name)
    producer.start()
    seen: list[float] = []
    connection = Connection(load.port)
    give_up_at = time.perf_counter() + 3 * load.seconds
    while iterator and time.perf_counter() < give_up_at:
        was_done = producer.is_done.is_set()
        try:
            body = connection.call(_get_records(iterator))
        except RuntimeError as error:
            # Also measure a peer that fails when a put and a get overlap.
            producer.failures.append(str(error))
            connection.close()
            connection = Connection(load.port)
            continue
        now = time.perf_counter()
        seen.extend(now - producer.sent[data] for data in _DATA.findall(body))
        iterator = next_iterator(body, 0, len(body))
        if was_done and len(seen) >= len(producer.sent):
            break
        time.sleep(POLL_EVERY_S)
    producer.join()
    connection.close()
    return _seen(seen, producer)


def put_to_subscriber(load: Load, name: str) -> Result:
    """Measure from the sending of a PutRecord until a subscriber (SubscribeToShard) has the record."""
    load.stream(name)
    connection = Connection(load.port)
    summary = connection.ask("DescribeStreamSummary", {"StreamName": name})
    shards = connection.ask("ListShards", {"StreamName": name})["Shards"]
    consumer = connection.ask(
        "RegisterStreamConsumer",
        {
            "StreamARN": summary["StreamDescriptionSummary"]["StreamARN"],
            "ConsumerName": "subscriber",
        },
    )["Consumer"]["ConsumerARN"]
    deadline = time.monotonic() + ACTIVE_WITHIN_S
    while True:
        answer = connection.ask("DescribeStreamConsumer", {"ConsumerARN": consumer})
        if answer["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE":
            break
        if time.monotonic() > deadline:
            raise RuntimeError("the consumer did not become ACTIVE")
        time.sleep(0.05)
    body = {
        "ConsumerARN": consumer,
        "ShardId": shards[0]["ShardId"],
        "StartingPosition": {"Type": "LATEST"},
    }
    connection.socket.settimeout(5)
    connection.socket.sendall(request("SubscribeToShard", body))
    received = connection.socket.recv(65536)
    if not received.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(received.decode(errors="replace")[-300:])
    producer = Producer(load, name)
    producer.start()
    seen = _watch(connection, producer, received)
    producer.join()
    connection.close()
    return _seen(seen, producer)


def _watch(connection: Connection, producer: Producer, pending: bytes) -> list[float]:
    seen: list[float] = []
    while not (producer.is_done.is_set() and len(seen) >= len(producer.sent)):
        try:
            part = connection.socket.recv(65536)
        except TimeoutError:
            break
        if not part:
            break
        now = time.perf_counter()
        pending += part
        end = 0
        for match in _DATA.finditer(pending):
            seen.append(now - producer.sent[match[1]])
            end = match.end()
        # Keep the end of the data, which may be the beginning of a record.
        pending = pending[max(end, len(pending) - 4096) :]
    return seen


def _seen(seen: list[float], producer: Producer) -> Result:
    if not seen:
        raise RuntimeError(f"no record was seen: {' '.join(producer.failures[:1])}")
    return {**latency(seen), "records": len(seen), "failures": len(producer.failures)}


def resident(load: Load, name: str) -> Result:
    """Memory with a million records of 100 B; for a slow target, extrapolated from its records of some seconds."""
    load.stream(name)
    before_mb = load.rss_mb()
    bodies = put_bodies(name, 100)
    connection = Connection(load.port)
    count = 0
    started = time.perf_counter()
    while count < RESIDENT_RECORDS:
        connection.exchange(bodies[count // RECORDS_A_REQUEST % BODIES])
        count += RECORDS_A_REQUEST
        elapsed = time.perf_counter() - started
        if elapsed > 4 * load.seconds and elapsed * RESIDENT_RECORDS / count > RESIDENT_WITHIN_S:
            break
    connection.close()
    after_mb = load.rss_mb()
    whole_mb = before_mb + (after_mb - before_mb) * RESIDENT_RECORDS / count
    return {"MB": max(whole_mb, after_mb), "records": count, "measured MB": after_mb}


def latency(seconds: Sequence[float]) -> Result:
    """Return the median and the 99th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50 ms": ordered[len(ordered) // 2] * 1000,
        "p99 ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1000,
    }
