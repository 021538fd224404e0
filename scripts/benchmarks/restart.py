"""Measures the restart of a cloud with many records after kill -9, and its memory then."""

from __future__ import annotations

import time
from collections.abc import Callable

from scripts.benchmarks.servers import Running, running
from scripts.benchmarks.wire import Connection
from scripts.benchmarks.workloads import BODIES, RECORDS_A_REQUEST, Load, Result, put_bodies

NAME = "many"


def restart(target: str, records: int, first_cpu: int, say: Callable[[str], None]) -> Result:
    """Put `records` of 100 B, kill the cloud, start it again. Raises CannotStart, RuntimeError."""
    with running(target, first_cpu) as server:
        load = Load(server.port, 0)
        load.stream(NAME)
        bodies = put_bodies(NAME, 100)
        connection = Connection(server.port)
        started = time.perf_counter()
        for number in range(records // RECORDS_A_REQUEST):
            connection.exchange(bodies[number % BODIES])
            if number % 1000 == 0:
                say(f"{target}: putting {records:,} records, {number * RECORDS_A_REQUEST:,} done")
        connection.close()
        put_s = time.perf_counter() - started
        server.kill()
        healthy_s = server.start()
        _check(server, records)
        return {
            "seconds to healthy": healthy_s,
            "MB": server.rss_mb(),
            "records": records,
            "put s": put_s,
        }


def _check(server: Running, records: int) -> None:
    """Raise RuntimeError if the last shard's records are missing."""
    connection = Connection(server.port)
    iterator = Load(server.port, 0, made={NAME}).iterators(NAME, "TRIM_HORIZON")[0]
    found = connection.ask("GetRecords", {"ShardIterator": iterator, "Limit": 10})
    connection.close()
    if records and len(found["Records"]) != 10:
        raise RuntimeError("records are missing after the restart")
