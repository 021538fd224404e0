"""What goes into the next request, without threads: lanes that wait, rates, turns, maps of shards."""

from __future__ import annotations

import random
from typing import Any

import cbor2

from headrace.client.dispatch import Bodies, Dispatch, Outcome, Request, RequestLimits, outcome_of
from headrace.client.hash_keys import ShardMap, hash_key_of
from headrace.client.lanes import Lane, Lanes
from headrace.client.receipts import Chunk
from tests.support.fake_stream import FakeStream


class Bench:
    """Lanes and a dispatch over a fake stream; a test says when a request is sent, and when it is settled."""

    def __init__(self, stream: FakeStream, **options: Any) -> None:
        settings = {"aggregated": False, "ordered": False, "rate_share": None, **options}
        self.stream = stream
        self.lanes = Lanes(most_records=500, most_bytes=1 << 20, **settings)
        self.lanes.use_map(ShardMap(stream.open_shards()))
        limits = RequestLimits(
            linger_s=1.0, max_records=500, max_bytes=1 << 20, give_up_after_s=None
        )
        self.dispatch = Dispatch(self.lanes, limits, random.Random(1))
        self.now_s = 0.0

    def put(self, *keys: str) -> None:
        for key in keys:
            lane, _ = self.lanes.lane_for(key, None)
            chunk = lane.open or self.lanes.open_chunk(lane, self, self.now_s)  # type: ignore[arg-type]
            chunk.data.append(key.encode())
            chunk.keys.append(key)
            chunk.room -= 100

    def take(self) -> Request | None:
        return self.dispatch.take(self.now_s, is_hurried=True)[0]

    def send(self, request: Request) -> Outcome:
        body = Bodies({"StreamName": "s"}).body_of(request, None)
        return outcome_of(self.stream.call("PutRecords", body), request.entries, with_shards=True)


def keys_of(request: Request | None) -> list[str | None]:
    assert request is not None
    return [key for chunk, _ in request.chunks for key in chunk.keys]


def keys_in(start: str, shard: Any, count: int) -> list[str]:
    found = (f"{start}{i}" for i in range(10_000))
    return [key for key in found if hash_key_of(key) in shard][:count]


def test_an_ordered_lane_waits_for_its_answer():
    bench = Bench(FakeStream(2), ordered=True)
    left, right = bench.stream.all
    (one, two), (other,) = keys_in("l", left, 2), keys_in("r", right, 1)
    bench.put(one, one, two, other)
    first = bench.take()
    # The second record of a key is not in the first one's request.
    assert sorted(map(str, keys_of(first))) == sorted([one, two, other])
    assert bench.take() is None
    assert first is not None
    bench.dispatch.settle(first, bench.send(first), 0.0)
    assert keys_of(bench.take()) == [one]


def test_an_ordered_lane_waits_until_foreign_records_are_where_they_belong():
    stream = FakeStream(1)
    bench = Bench(stream, ordered=True, aggregated=True)
    left, right = stream.split("shardId-000000000000")
    early, late = keys_in("l", left, 3), keys_in("r", right, 3)
    bench.put(*early, *late)
    request = bench.take()
    assert request is not None
    settled = bench.dispatch.settle(request, bench.send(request), 0.0)
    assert len(settled.foreign) == 1
    # Newer records of the same keys came meanwhile: they must not overtake.
    bench.put(*late)
    assert bench.take() is None
    shards = ShardMap(stream.open_shards())
    bench.lanes.use_map(shards)
    assert bench.take() is None
    bench.dispatch.settle_foreign(settled.foreign, shards)
    again = bench.take()
    assert again is not None
    assert keys_of(again) == late
    assert all(chunk_lane.shard == right for _, chunk_lane in again.chunks)
    bench.dispatch.settle(again, bench.send(again), 0.0)
    assert keys_of(bench.take()) == late


def test_lanes_of_one_record_each_follow_a_reshard_too():
    stream = FakeStream(1)
    bench = Bench(stream, rate_share=1.0)
    stream.split("shardId-000000000000")
    bench.put("a", "b", "c")
    request = bench.take()
    assert request is not None
    settled = bench.dispatch.settle(request, bench.send(request), 0.0)
    assert settled.new_shards <= {"shardId-000000000001", "shardId-000000000002"}
    assert settled.new_shards


def test_a_shards_rate_leaves_the_rest_for_later():
    bench = Bench(FakeStream(1), rate_share=0.01)
    bench.put(*["k"] * 30)
    assert len(keys_of(bench.take())) == 10
    request, wake_s = bench.dispatch.take(0.0, is_hurried=True)
    assert request is None
    assert wake_s is not None
    bench.now_s = 0.5
    assert len(keys_of(bench.take())) == 5


def test_every_lane_has_its_turn():
    bench = Bench(FakeStream(4), aggregated=True)
    bench.dispatch._max_records = 1
    shards = [keys_in("k", shard, 1)[0] for shard in bench.stream.all]
    seen: set[str | None] = set()
    for _ in range(2 * len(shards)):
        bench.put(*shards)
        seen |= set(keys_of(bench.take()))
    assert seen == set(shards)


def test_records_linger():
    bench = Bench(FakeStream(1))
    bench.put("k")
    assert bench.dispatch.take(0.5, is_hurried=False) == (None, 1.0)
    assert keys_of(bench.dispatch.take(1.0, is_hurried=False)[0]) == ["k"]


def test_a_chunk_passes_its_records_on_where_they_part():
    chunk = Chunk(None, 0.0, 0)  # type: ignore[arg-type]
    chunk.data, chunk.keys = [b"a", b"b", b"c"], ["a", "b", None]
    chunk.explicit, chunk.spool_ids = {1: "7"}, [10, 11, 12]
    first, second = chunk.part([1], [0, 2])
    assert (first.data, first.keys, first.explicit, first.spool_ids) == (
        [b"b"],
        ["b"],
        {0: "7"},
        [11],
    )
    assert (second.data, second.spool_ids) == ([b"a", b"c"], [10, 12])
    assert chunk.moved == [(second, 0), (first, 0), (second, 1)]


def test_a_body_is_what_the_service_reads():
    chunk = Chunk(None, 0.0, 0)  # type: ignore[arg-type]
    chunk.data, chunk.keys, chunk.explicit = [b"a", b"b"], ["k", None], {0: "7"}
    request = Request([(chunk, Lane(None))], aggregated=False)
    bodies = Bodies({"StreamARN": "arn:x"})
    assert cbor2.loads(bodies.body_of(request, ["random"])) == {
        "StreamARN": "arn:x",
        "Records": [
            {"Data": b"a", "ExplicitHashKey": "7", "PartitionKey": "k"},
            {"Data": b"b", "PartitionKey": "random"},
        ],
    }
    assert "PartitionKey" not in cbor2.loads(bodies.body_of(request, None))["Records"][1]
