"""Hostile streams: what is in them, that a seed gives the same one, that they shrink, that they can be played."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from headrace.spark import reading
from headrace.testing import cloud, hostile
from headrace.testing.hostile import Event, Hostility, SampleRefused, StreamEvent

NONE = Hostility(duplicate=0, replay=0, late=0, swapped=0, poison=0, truncated=0, drift=0, skew=0)
SAMPLE = hostile.from_records(
    [{"id": n, "key": f"k{n % 5}", "at": f"2026-01-01T00:00:{n:02d}Z"} for n in range(40)],
    key="key",
    time="at",
)


def taken(count: int = 400, **rates: float) -> list[hostile.Item]:
    return list(islice(hostile.stream(SAMPLE, seed=1, hostility=replace(NONE, **rates)), count))


def test_without_hostility_it_is_the_sample_again_and_again() -> None:
    assert taken(80) == [*SAMPLE, *SAMPLE]


def test_a_seed_gives_the_same_stream_and_another_another() -> None:
    first, again, other = (list(hostile.stream(SAMPLE, seed=s, count=300)) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("rate", ["duplicate", "replay"])
def test_duplicates_lose_nothing(rate: str) -> None:
    counts = Counter(taken(800, **{rate: 0.3}))
    assert set(counts) == set(SAMPLE)
    assert len(taken(800, **{rate: 0.3})) == 800
    assert sum(counts.values()) - 40 * min(counts.values()) > 40


@pytest.mark.parametrize("rate", ["late", "swapped"])
def test_late_and_swapped_ones_come_once(rate: str) -> None:
    items = list(
        hostile.stream(SAMPLE * 3, seed=2, hostility=replace(NONE, **{rate: 0.2}), count=100)
    )
    assert items != (SAMPLE * 3)[:100]
    assert max(Counter(items).values()) <= 3


def test_broken_records_are_there() -> None:
    for rate in ("poison", "truncated", "drift"):
        good = {event.data for event in SAMPLE}
        bad = [item for item in taken(200, **{rate: 0.5}) if item.data not in good]
        assert len(bad) > 40, rate
    assert {item.data for item in taken(200, poison=1.0)} == set(hostile.POISON)


def test_hot_keys_and_wrong_clocks() -> None:
    assert {item.key for item in taken(100, hot_key=1.0)} == {"k0"}
    skewed = taken(40, skew=1.0)
    assert {abs(a.time_ms - b.time_ms) for a, b in zip(skewed, SAMPLE, strict=True)} == {10_800_000}


def test_aggregates_are_the_kpls() -> None:
    one = hostile.aggregated(SAMPLE[:3])
    assert one.data.startswith(reading.MAGIC)
    unpacked = reading.deaggregate(one.data)
    assert unpacked == [(event.key, event.data) for event in SAMPLE[:3]]


def test_a_failing_stream_shrinks_to_its_few_records() -> None:
    found = hypothesis.find(
        hostile.streams(SAMPLE),
        lambda items: len(items) != len(set(items)),
        settings=hypothesis.settings(database=None, max_examples=500),
    )
    assert len(found) == 2
    assert found[0] == found[1]


def test_a_wrong_clock_and_a_hot_key_shrink_to_one_record() -> None:
    dated = [replace(event, key=f"k{n}", time_ms=n) for n, event in enumerate(SAMPLE)]
    times = {(event.data, event.time_ms) for event in dated}

    def smallest(condition: Any) -> Any:
        return hypothesis.find(
            hostile.streams(dated, hostility=Hostility(hot_key=0.1)),
            lambda items: any(condition(item) for item in items),
            settings=hypothesis.settings(database=None, max_examples=500),
        )

    keys = {event.data: event.key for event in dated}
    [wrong] = smallest(lambda e: e.data in keys and (e.data, e.time_ms) not in times)
    assert abs(wrong.time_ms - next(t for data, t in times if data == wrong.data)) == 10_800_000
    [hot] = smallest(lambda e: e.data in keys and e.key != keys[e.data])
    assert hot.key == "k0"


def test_a_sample_is_read_from_files(tmp_path: Path) -> None:
    lines, array, table = (tmp_path / name for name in ("a.jsonl", "a.json", "a.csv"))
    lines.write_text('{"id": 1}\n{"id": 2}\n')
    array.write_text('[{"id": 1}, {"id": 2}]')
    table.write_text("id,n\n1,x\n2,y\n")
    for path in (lines, array, table):
        assert [event.key for event in hostile.from_file(path)] == ["1", "2"]
    recorded = Path("tests/events/kinesis_flights.json")
    events = hostile.from_file(recorded)
    assert json.loads(events[0].data)["event_id"]
    assert events[0].key == json.loads(events[0].data)["carrier"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no records"),
        ("{", "is not a sample of records"),
        ('{"n": 1}', "A record has no 'id' to be its key; it has n"),
    ],
)
def test_a_file_that_is_no_sample_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(SampleRefused, match=sentence):
        hostile.from_file(path)
    with pytest.raises(SampleRefused, match="cannot be read"):
        hostile.from_file(tmp_path / "missing")


def test_it_is_played_with_reshards_and_refusals() -> None:
    troubles = [StreamEvent(what) for what in hostile.TROUBLES]
    items = [one for pair in zip(SAMPLE[:5], troubles, strict=True) for one in pair] + SAMPLE[5:10]
    with cloud() as here:
        here.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
        assert hostile.play(here, "orders", items) == 10
        assert {r.data for r in here.records_of("orders")} == {e.data for e in SAMPLE[:10]}
        assert len(here.client("kinesis").list_shards(StreamName="orders")["Shards"]) == 4
    assert isinstance(items[0], Event)


class Refusing:
    """A cloud and its Kinesis that keep what is put; a fault refuses every record of the next request."""

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.stored: list[bytes] = []
        self.refuses = False

    def client(self, _: str) -> Refusing:
        return self

    def add_fault(self, _: object) -> None:
        self.refuses = True

    def put_records(self, *, StreamName: str, Records: list[Any]) -> dict[str, Any]:
        self.requests.append(len(Records))
        refuses, self.refuses = self.refuses, False
        if refuses:
            return {"Records": [{"ErrorCode": "InternalFailure"} for _ in Records]}
        self.stored += [record["Data"] for record in Records]
        return {"Records": [{} for _ in Records]}


def test_many_records_are_one_request_and_refused_ones_keep_their_place() -> None:
    events: list[Any] = [Event("k", b"%d" % number) for number in range(250)]
    there = Refusing()
    assert hostile.play(there, "s", [*events[:120], StreamEvent("partial"), *events[120:]]) == 250
    assert there.stored == [event.data for event in events]
    # What stood before the fault, the record that it refuses and its repetition, the rest.
    assert there.requests == [100, 20, 1, 1, 100, 29]
    large = [Event("k", bytes(600_000)) for _ in range(3)]
    there.requests.clear()
    assert hostile.play(there, "s", large) == 3
    assert there.requests == [2, 1]
