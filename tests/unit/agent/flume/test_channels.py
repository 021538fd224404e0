"""Transactions: an event leaves a channel with its sink's commit; a file channel survives kills; groups take over."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.flume.channels import ChannelDamaged, FileChannel, MemoryChannel, Taken
from headrace.agent.flume.events import ChannelFull, Event, SinkFailed
from headrace.agent.flume.groups import Group, _Member
from headrace.agent.flume.intake import Counts
from tests.support.clock import FakeClock


def put(channel: MemoryChannel, bodies: list[bytes]) -> None:
    events = [Event({"n": str(len(body))}, body) for body in bodies]
    channel.reserve(events)
    channel.append(events)


def open_channel(folder: Path, **bounds: int) -> FileChannel:
    return FileChannel(
        "c",
        folder,
        **{
            "capacity": 10_000,
            "transaction_capacity": 100,
            "keep_alive_s": 0,
            "segment_bytes": 2_000,
            "fsync": False,
            **bounds,
        },
    )  # type: ignore[arg-type]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "take", "commit", "part", "rollback", "kill"]), st.integers(1, 40)
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_file_channel_keeps_what_was_not_committed(steps: list[tuple[str, int]]) -> None:
    """Against a model: a set of events. A kill leaves the process's memory behind, and only that."""
    folder = Path(tempfile.mkdtemp())
    try:
        channel, alive, taken, number = open_channel(folder), set[bytes](), list[Taken](), 0
        for step, size in steps:
            if step == "put":
                bodies = [b"%d" % n for n in range(number, number + size)]
                put(channel, bodies)
                alive.update(bodies)
                number += size
            elif step == "take" and (got := channel.take(size)):
                taken.append(got)
            elif step == "kill":
                # Its files are closed without a word, as the system closes those of a process.
                channel._log.close_files()
                channel.close()
                channel, taken = open_channel(folder), []
            elif taken and step in ("commit", "part", "rollback"):
                got = taken.pop(size % len(taken))
                end = len(got.events) if step != "part" else size % (len(got.events) + 1)
                if step != "rollback" and end:
                    channel.commit(got.part(0, end))
                    alive -= {event.body for event in got.events[:end]}
                rest = got if step == "rollback" else got.part(end, len(got.events))
                if rest.events:
                    channel.rollback(rest)
        for got in taken:
            channel.rollback(got)
        assert channel.used == len(alive)
        left: list[bytes] = []
        while got := channel.take(7):
            assert all(event.headers == {"n": str(len(event.body))} for event in got.events)
            left += [event.body for event in got.events]
            channel.commit(got)
        assert sorted(left, key=int) == left
        assert set(left) == alive
        assert len(left) == len(alive)
        channel.close()
    finally:
        shutil.rmtree(folder)


def test_segments_of_what_has_left_are_deleted(tmp_path: Path) -> None:
    channel = open_channel(tmp_path)
    for _ in range(50):
        put(channel, [b"x" * 100] * 10)
        got = channel.take(10)
        assert got is not None
        channel.commit(got)
    assert channel._log.stored_bytes < 6_000
    channel.close()


def test_a_file_channel_is_for_one_process(tmp_path: Path) -> None:
    channel = open_channel(tmp_path)
    with pytest.raises(ChannelDamaged, match="another process uses channel c"):
        open_channel(tmp_path)
    channel.close()


def test_a_full_channel_counts_what_is_taken(tmp_path: Path) -> None:
    channel = MemoryChannel("c", capacity=3, transaction_capacity=2, keep_alive_s=0)
    put(channel, [b"1", b"2"])
    got = channel.take(2)
    assert got is not None
    with pytest.raises(ChannelFull, match="channel c is full: 2 of 3 events"):
        put(channel, [b"3", b"4"])
    with pytest.raises(ChannelFull, match="takes 2 events in a transaction, not 3"):
        put(channel, [b"3"] * 3)
    channel.rollback(got)
    put(channel, [b"3"])
    assert channel.take(9) == Taken(
        0, [Event({"n": "1"}, b"1"), Event({"n": "1"}, b"2"), Event({"n": "1"}, b"3")]
    )


class Flaky:
    """A sink that fails while told to."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.channel = MemoryChannel(name, capacity=1, transaction_capacity=1, keep_alive_s=0)
        self.counts, self.fails, self._name, self._log = Counts(), False, name, log

    def process(self, timeout_s: float) -> bool:
        if self.fails:
            raise SinkFailed("away")
        self._log.append(self._name)
        return True

    def close(self) -> None:
        """Nothing."""


def test_failover_goes_to_the_next_sink_and_back() -> None:
    log, clock = list[str](), FakeClock()
    first, second = Flaky("first", log), Flaky("second", log)
    group = Group(
        [_Member("f", first, 10), _Member("s", second, 5)],
        clock,
        most_penalty_ms=30_000,
        order="failover",
    )
    group.process(0)
    first.fails = True
    group.process(0)
    first.fails = False
    group.process(0)  # Still left alone.
    clock.advance(1)
    group.process(0)
    assert log == ["first", "second", "second", "first"]
    first.fails = second.fails = True
    with pytest.raises(SinkFailed):
        group.process(0)


def test_load_is_spread_and_passes_over_a_sink_that_fails() -> None:
    log = list[str]()
    sinks = [Flaky(name, log) for name in "abc"]
    group = Group(
        [_Member(s._name, s) for s in sinks], FakeClock(), most_penalty_ms=0, order="round_robin"
    )
    sinks[1].fails = True
    for _ in range(6):
        group.process(0)
    assert set(log) == {"a", "c"}
    assert len(log) == 6
