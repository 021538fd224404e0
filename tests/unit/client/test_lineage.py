"""Which leases are missing, and which nobody needs, over reshards."""

from __future__ import annotations

from dataclasses import replace

from headrace.client.leases.leadership import lease_for, missing, unknown, unneeded
from headrace.client.leases.stores import LATEST, SHARD_END, Checkpoint, Lease
from tests.support.fake_stream import FakeStream

AT_LATEST = Checkpoint(LATEST)
NUMBER = Checkpoint("123")


def needed(stream: FakeStream, leases: dict[str, Lease]) -> dict[str, str]:
    new = missing(leases, stream.all, set(stream.open), AT_LATEST)
    return {lease.key[-1]: lease.checkpoint.sequence_number for lease in new}


def leases_of(stream: FakeStream, **checkpoints: Checkpoint) -> dict[str, Lease]:
    by_id = {shard.shard_id: shard for shard in stream.all}
    named = {f"shardId-{int(name[1:]):012d}": value for name, value in checkpoints.items()}
    return {key: lease_for(by_id[key], value) for key, value in named.items()}


def test_a_child_is_left_to_its_parents_worker():
    stream = FakeStream(1)
    stream.split("shardId-000000000000")
    assert needed(stream, leases_of(stream, s0=NUMBER)) == {}


def test_a_child_that_its_parents_worker_did_not_make_is_read_whole():
    stream = FakeStream(1)
    stream.split("shardId-000000000000")
    ended = leases_of(stream, s0=Checkpoint(SHARD_END))
    assert needed(stream, ended) == {"1": "TRIM_HORIZON", "2": "TRIM_HORIZON"}


def test_of_a_lineage_the_oldest_unread_shard_comes_first():
    stream = FakeStream(1)
    left, _ = stream.split("shardId-000000000000")
    stream.split(left.shard_id)
    leases = leases_of(stream, s0=Checkpoint(SHARD_END))
    assert needed(stream, leases) == {"1": "TRIM_HORIZON", "2": "TRIM_HORIZON"}


def test_shards_without_a_lineage_begin_as_the_group_does():
    stream = FakeStream(2)
    assert needed(stream, leases_of(stream, s0=NUMBER)) == {"1": "LATEST"}


def test_an_ended_lease_goes_when_all_its_heirs_are_read():
    stream = FakeStream(1)
    stream.split("shardId-000000000000")
    leases = leases_of(stream, s0=Checkpoint(SHARD_END), s1=NUMBER, s2=Checkpoint("TRIM_HORIZON"))
    assert unneeded(leases, stream.all) == ([], [])
    key = "shardId-000000000002"
    leases[key] = replace(leases[key], checkpoint=NUMBER)
    done, gone = unneeded(leases, stream.all)
    assert [lease.key for lease in done] == ["shardId-000000000000"]
    assert gone == []


def test_a_shard_that_is_gone_is_told_from_one_that_is_done():
    stream = FakeStream(3)
    leases = leases_of(stream, s0=Checkpoint(SHARD_END), s1=NUMBER, s2=NUMBER)
    done, gone = unneeded(leases, stream.all[2:])
    assert ([x.key[-1] for x in done], [x.key[-1] for x in gone]) == (["0"], ["1"])


def test_a_lease_that_is_newer_than_the_newest_shard_is_another_streams_and_stays():
    stream = FakeStream(4)
    leases = leases_of(stream, s0=NUMBER, s1=NUMBER, s2=NUMBER, s3=Checkpoint(SHARD_END))
    # The stream of another application with the same name has two shards.
    others = stream.all[:2]
    assert unneeded(leases, others) == ([], [])
    assert [lease.key[-1] for lease in unknown(leases, others)] == ["2", "3"]
    assert unknown(leases, stream.all) == []
