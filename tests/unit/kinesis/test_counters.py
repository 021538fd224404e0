"""Counting for CloudWatch: the statistics are right, and threads lose no count."""

from __future__ import annotations

import threading

from headrace.services.kinesis.state import FOLD_AT, Stat, StreamCounters


def test_a_statistic_keeps_count_sum_least_and_most() -> None:
    one, many = Stat(), Stat()
    for value in (5, 2, 9):
        one.note(value)
    many.note_many(2, 3)
    many.note_many(7, 0)
    one.merge(many)
    one.merge(Stat())
    one.note_all([1, 10])
    assert (one.count, one.total, one.least, one.most) == (8, 33, 1, 10)


def test_taking_empties() -> None:
    counters = StreamCounters()
    counters.put_record(3, 1)
    assert counters.take()["PutRecord.Bytes", "", ""].total == 3
    assert counters.take() == {}


def test_threads_lose_no_put() -> None:
    counters = StreamCounters()
    each = FOLD_AT * 4 + 7
    taken: list[int] = []
    stopping = threading.Event()

    def put() -> None:
        for _ in range(each):
            counters.put_record(2, 0)
            counters.put_records(3, 1, 1, 0)

    def take() -> None:
        while not stopping.is_set():
            taken.append(
                sum(stat.total for (name, *_), stat in counters.take().items() if "Bytes" in name)
            )

    taker = threading.Thread(target=take)
    putters = [threading.Thread(target=put) for _ in range(4)]
    for thread in (taker, *putters):
        thread.start()
    for thread in putters:
        thread.join()
    stopping.set()
    taker.join()
    taken.append(sum(stat.total for (name, *_), stat in counters.take().items() if "Bytes" in name))
    assert sum(taken) == 4 * each * 5


def test_puts_that_were_stored_together_count_as_single_ones():
    single, together = StreamCounters(), StreamCounters()
    for sizes, latency_ms in (((5, 3, 9), 2), ((7,), 0)):
        together.put_record_often(sizes, latency_ms)
        for data_bytes in sizes:
            single.put_record(data_bytes, latency_ms)
    values = [
        {key: (stat.count, stat.total, stat.least, stat.most) for key, stat in taken.items()}
        for taken in (single.take(), together.take())
    ]
    assert values[0] == values[1]
    assert values[0]["PutRecord.Bytes", "", ""] == (4, 24, 3, 9)
