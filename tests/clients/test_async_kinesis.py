"""async-kinesis: a producer and a consumer on asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from kinesis import Consumer, Producer

from tests.support.server import ServerProcess

COUNT = 1200


def test_its_producer_and_consumer_meet(server: ServerProcess):
    assert asyncio.run(produce_and_consume(server)) == [{"number": i} for i in range(COUNT)]


async def produce_and_consume(server: ServerProcess) -> list[Any]:
    where: Any = {"endpoint_url": server.endpoint_url, "region_name": "us-east-1"}
    async with Producer(
        stream_name="async", create_stream=True, create_stream_shards=1, buffer_time=0.05, **where
    ) as producer:
        for i in range(COUNT):
            await producer.put({"number": i})
        await producer.flush()
    found: list[Any] = []
    async with Consumer(
        stream_name="async", iterator_type="TRIM_HORIZON", sleep_time_no_records=0.05, **where
    ) as consumer:
        async with asyncio.timeout(30):
            while len(found) < COUNT:
                found += [item async for item in consumer]
    return found
