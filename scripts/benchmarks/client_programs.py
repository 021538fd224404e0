"""What the clients' benchmark measures, each client in a process of its own: it prints its figures as JSON.

Arguments: the program's name, the server's port, the stream, how many records. A client that puts is made, and has put
one record, before its clock runs: botocore needs 50 ms for a client, boto3's as well as ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from scripts.benchmarks.sdk import client_of

DATA = b"x" * 100
KEYS = [f"key-{i}" for i in range(1000)]
LATENCIES, PUTS_PER_S, LINGER_MS = 1000, 500, 20.0
FIRST_RECORD_WITHIN_S = 240
Figures = dict[str, float]
RATE, CPU, FIRST = "records/s", "CPU µs a record", "first record s"


def begin() -> tuple[float, float]:
    """Return the time, and the processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def figures_of(count: int, start: tuple[float, float]) -> Figures:
    """Return the rate and the processor time of `count` records since `start`."""
    wall_s, cpu_s = begin()
    return {RATE: count / (wall_s - start[0]), CPU: 1e6 * (cpu_s - start[1]) / count}


def put_boto3(port: int, stream: str, count: int) -> Figures:
    """Put by a loop of full PutRecords requests."""
    kinesis = client_of("kinesis", port)
    kinesis.put_record(StreamName=stream, Data=DATA, PartitionKey="first")
    start = begin()
    for first in range(0, count, 500):
        kinesis.put_records(
            StreamName=stream,
            Records=[
                {"Data": DATA, "PartitionKey": KEYS[i % len(KEYS)]}
                for i in range(first, first + 500)
            ],
        )
    return figures_of(count, start)


def put_headrace(port: int, stream: str, count: int, **options: Any) -> Figures:
    """Put one by one with our producer."""
    from headrace.client import Producer

    with Producer(stream, **_where(port), **options) as producer:
        put = producer.put
        put(DATA, "first").result(30)
        start = begin()
        for i in range(count):
            put(DATA, KEYS[i % len(KEYS)])
    return figures_of(count, start)


def put_headrace_aggregated(port: int, stream: str, count: int) -> Figures:
    """The same with aggregation."""
    return put_headrace(port, stream, count, aggregate=True)


def put_many_headrace_aggregated(port: int, stream: str, count: int) -> Figures:
    """Put 500 at once with aggregation."""
    from headrace.client import Producer

    with Producer(stream, aggregate=True, **_where(port)) as producer:
        producer.put(DATA, "first").result(30)
        start = begin()
        for first in range(0, count, 500):
            producer.put_many([(DATA, KEYS[i % len(KEYS)]) for i in range(first, first + 500)])
    return figures_of(count, start)


def put_aiokpl(port: int, stream: str, count: int) -> Figures:
    """Put with aiokpl, which aggregates; the limits of its shards are lifted."""
    aiokpl: Any = importlib.import_module("aiokpl")
    config = aiokpl.Config(
        region="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        rate_limit_records_per_sec_per_shard=1e9,
        rate_limit_bytes_per_sec_per_shard=1e12,
    )

    async def main() -> Figures:
        async with aiokpl.Producer(config) as producer:
            first = await producer.put_record(stream=stream, partition_key="first", data=DATA)
            await producer.flush()
            await first.wait()
            start = begin()
            outcomes = [
                await producer.put_record(
                    stream=stream, partition_key=KEYS[i % len(KEYS)], data=DATA
                )
                for i in range(count)
            ]
            await producer.flush()
            await asyncio.gather(*(outcome.wait() for outcome in outcomes))
        return figures_of(count, start)

    return asyncio.run(main())


def put_async_kinesis(port: int, stream: str, count: int) -> Figures:
    """Put with async-kinesis."""
    kinesis: Any = importlib.import_module("kinesis")

    async def main() -> Figures:
        async with kinesis.Producer(
            stream_name=stream, endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
            put_rate_limit_per_shard=1_000_000, put_bandwidth_limit_per_shard=1_000_000, buffer_time=0.05,
        ) as producer:  # fmt: skip
            await producer.put({"d": "x" * 92})
            await producer.flush()
            start = begin()
            for _ in range(count):
                await producer.put({"d": "x" * 92})
            await producer.flush()
        return figures_of(count, start)

    return asyncio.run(main())


def latency_headrace(port: int, stream: str, count: int) -> Figures:
    """Put at a steady pace, and measure from `put` to the acknowledgement; `count` has no effect."""
    del count
    from headrace.client import Producer

    taken_s: list[float] = []
    with Producer(stream, linger_ms=LINGER_MS, **_where(port)) as producer:
        producer.put(DATA, "warm").result(30)
        next_s = time.perf_counter()
        for i in range(LATENCIES):
            next_s += 1 / PUTS_PER_S
            time.sleep(max(0.0, next_s - time.perf_counter()))
            put_s = time.perf_counter()
            producer.put(
                DATA, KEYS[i % len(KEYS)],
                on_done=lambda _, at_s=put_s: taken_s.append(time.perf_counter() - at_s),
            )  # fmt: skip
    taken_s.sort()
    return {
        "p50 ms over linger": taken_s[len(taken_s) // 2] * 1000 - LINGER_MS,
        "p99 ms over linger": taken_s[int(len(taken_s) * 0.99)] * 1000 - LINGER_MS,
    }


def read_boto3(port: int, stream: str, count: int) -> Figures:
    """Read by a loop over the shards."""
    kinesis = client_of("kinesis", port)
    start = begin()
    read = 0
    for shard in kinesis.list_shards(StreamName=stream)["Shards"]:
        answer = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        iterator = answer["ShardIterator"]
        while True:
            page = kinesis.get_records(ShardIterator=iterator, Limit=10_000)
            read += len(page["Records"])
            iterator = page["NextShardIterator"]
            if not page["Records"]:
                break
    assert read == count, f"read {read} of {count}"
    return figures_of(read, start)


def read_headrace(port: int, stream: str, count: int) -> Figures:
    """Read with our group, its leases in DynamoDB; the start of the group counts, and its first record is measured."""
    from headrace.client import ConsumerGroup

    start_s = time.perf_counter()
    first, read = (0.0, 0.0), 0
    with ConsumerGroup(f"group-{os.getpid()}", stream, **_where(port)) as group:
        for batch in group:
            first = first if read else begin()
            read += len(batch)
            if read >= count:
                break
        figures = figures_of(read, first)
    assert read == count, f"read {read} of {count}"
    return figures | {FIRST: first[0] - start_s}


def read_async_kinesis(port: int, stream: str, count: int) -> Figures:
    """Read with async-kinesis; it keeps no leases."""
    kinesis: Any = importlib.import_module("kinesis")
    processors: Any = importlib.import_module("kinesis.processors")

    async def main() -> Figures:
        start_s = time.perf_counter()
        first, read = (0.0, 0.0), 0
        async with kinesis.Consumer(
            stream_name=stream, endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
            iterator_type="TRIM_HORIZON", sleep_time_no_records=0.01, processor=processors.StringProcessor(),
            shard_fetch_rate=1000,
        ) as consumer:  # fmt: skip
            while read < count:
                async for _ in consumer:
                    first = first if read else begin()
                    read += 1
                    if read >= count:
                        break
        return figures_of(read, first) | {FIRST: first[0] - start_s}

    return asyncio.run(main())


def read_kcl_rs(port: int, stream: str, count: int) -> Figures:
    """Read with kcl-rs by polling; its first record is what takes long."""
    kcl_rs: Any = importlib.import_module("kcl_rs")

    start_s = time.perf_counter()
    state: dict[str, Any] = {"first": None, "figures": {}, "read": 0}
    done = threading.Event()

    class Reader(kcl_rs.RecordProcessorBase):
        def initialize(self, initialize_input: Any) -> None:
            """See kcl_rs."""

        def process_records(self, process_records_input: Any) -> None:
            state["first"] = state["first"] or begin()
            state["read"] += len(process_records_input.records)
            state["figures"] = figures_of(state["read"], state["first"])
            process_records_input.checkpointer.checkpoint()
            if state["read"] >= count:
                done.set()

        def lease_lost(self, lease_lost_input: Any) -> None:
            """See kcl_rs."""

        def shard_ended(self, shard_ended_input: Any) -> None:
            shard_ended_input.checkpointer.checkpoint()

        def shutdown_requested(self, shutdown_requested_input: Any) -> None:
            """See kcl_rs."""

    scheduler = kcl_rs.Scheduler(
        stream_name=stream, application_name=f"kclrs-{os.getpid()}", record_processor_factory=Reader,
        region="us-east-1", endpoint_url=f"http://127.0.0.1:{port}", initial_position="TRIM_HORIZON",
        access_key_id="test", secret_access_key="test", retrieval_mode="POLLING",
        idle_time_between_reads_millis=200,
    )  # fmt: skip
    scheduler.start()
    assert done.wait(FIRST_RECORD_WITHIN_S), f"read {state['read']} of {count}"
    with contextlib.suppress(RuntimeError):
        scheduler.shutdown()
    return state["figures"] | {FIRST: state["first"][0] - start_s}


def _where(port: int) -> dict[str, Any]:
    return {"endpoint_url": f"http://127.0.0.1:{port}", "region": "us-east-1"}


PROGRAMS: dict[str, Callable[[int, str, int], Figures]] = {
    program.__name__: program
    for program in (
        put_boto3, put_headrace, put_headrace_aggregated, put_many_headrace_aggregated, put_aiokpl, put_async_kinesis,
        latency_headrace, read_boto3, read_headrace, read_async_kinesis, read_kcl_rs,
    )
}  # fmt: skip


if __name__ == "__main__":
    name, port_text, stream_name, count_text = sys.argv[1:5]
    print(json.dumps(PROGRAMS[name](int(port_text), stream_name, int(count_text))))
