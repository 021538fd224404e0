"""Who gets which lease: homes for all, balance by throughput, what is left to strangers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.leases.leadership import Move, plan
from headrace.client.leases.stores import Checkpoint, Lease


def lease(number: int, owner: str | None = None, kbps: float | None = None) -> Lease:
    return Lease(f"s{number:03d}", Checkpoint("TRIM_HORIZON"), owner=owner, throughput_kbps=kbps)


def after(leases: list[Lease], moves: list[Move]) -> dict[str, str | None]:
    owners = {item.key: item.owner for item in leases}
    return owners | {move.lease.key: move.owner for move in moves}


def never(_: Lease) -> bool:
    return False


def test_leases_without_a_worker_are_spread():
    leases = [lease(i) for i in range(6)]
    moves = plan(leases, workers={"a", "b", "c"}, strangers=set(), is_expired=never)
    owners = list(after(leases, moves).values())
    assert {worker: owners.count(worker) for worker in "abc"} == {"a": 2, "b": 2, "c": 2}
    assert not any(move.is_graceful for move in moves)


def test_a_new_worker_gets_its_share_gracefully():
    leases = [lease(i, "a") for i in range(5)]
    moves = plan(leases, workers={"a", "b"}, strangers=set(), is_expired=never)
    assert len(moves) == 2
    assert all(move.is_graceful and move.owner == "b" for move in moves)


def test_a_balanced_group_is_left_alone():
    leases = [lease(0, "a"), lease(1, "a"), lease(2, "b"), lease(3, "b")]
    assert plan(leases, workers={"a", "b"}, strangers=set(), is_expired=never) == []


def test_load_is_balanced_by_throughput():
    leases = [lease(0, "a", 1000.0), lease(1, "a", 900.0), lease(2, "b", 10.0), lease(3, "b", 10.0)]
    (move, *_) = plan(leases, workers={"a", "b"}, strangers=set(), is_expired=never)
    assert (move.lease.key in ("s000", "s001"), move.owner) == (True, "b")


def test_the_leases_of_a_dead_worker_go_to_the_living():
    leases = [lease(0, "dead"), lease(1, "a")]
    (move,) = plan(
        leases, workers={"a", "b"}, strangers=set(), is_expired=lambda item: item.owner == "dead"
    )
    assert (move.lease.key, move.owner, move.is_graceful) == ("s000", "b", False)


def test_a_stranger_keeps_its_fair_share():
    leases = [lease(i, "kcl-rs") for i in range(4)]
    moves = plan(leases, workers={"a"}, strangers={"kcl-rs"}, is_expired=never)
    assert len(moves) == 2
    assert not any(move.is_graceful for move in moves)
    leases = [lease(0, "kcl-rs"), lease(1, "kcl-rs"), lease(2, "a")]
    assert plan(leases, workers={"a"}, strangers={"kcl-rs"}, is_expired=never) == []


def test_a_handoff_in_progress_is_not_moved_again():
    leases = [replace(lease(i, "b"), checkpoint_owner="a") for i in range(4)]
    assert plan(leases, workers={"a", "b"}, strangers=set(), is_expired=never) == []


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c", "gone"]), st.none() | st.floats(0, 5000))
    ),
    st.sets(st.sampled_from("abc"), min_size=1),
)
def test_every_lease_has_a_living_worker_and_a_second_plan_is_empty(
    rows: list[tuple[str | None, float | None]], workers: set[str]
):
    leases = [lease(i, owner, kbps) for i, (owner, kbps) in enumerate(rows)]
    moves = plan(leases, workers=workers, strangers=set(), is_expired=never)
    owners = after(leases, moves)
    assert set(owners.values()) <= workers
    settled = [replace(item, owner=owners[item.key]) for item in leases]
    again = plan(settled, workers=workers, strangers=set(), is_expired=never)
    assert len(again) <= len(leases) // 2
