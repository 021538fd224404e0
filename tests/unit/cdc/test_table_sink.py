"""Changes into another database's tables: exactly once, whatever is read again."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from headrace.cdc.changes import Change
from headrace.cdc.events import CaptureError
from headrace.cdc.table_sink import TableSink
from tests.unit.cdc.conftest import Lab


class _Killed(Exception):
    pass


@pytest.fixture
def target(lab: Lab) -> Any:
    name = f"{lab.name[:30]}_target"
    lab.server.run(f"create database {name}")
    yield name
    lab.server.run(f"drop database {name} with (force)")


def _rows(lab: Lab, database: str, table: str = "accounts") -> list[Any]:
    return lab.server.run(f"select * from {table} order by 1", database=database)


def test_the_target_is_the_source_after_kills_at_any_step(lab: Lab, target: str):
    lab.run(
        "create table accounts (id int primary key, owner text, cents bigint, tags text[])",
        "insert into accounts select g, 'o' || g, 100 from generate_series(1, 20) g",
    )
    chance = random.Random(36)
    url = lab.server.url_of("postgres", target)
    for turn in range(25):
        for _ in range(chance.randrange(4)):
            one, other = chance.sample(range(1, 21), 2)
            lab.run(
                f"do $$ begin update accounts set cents = cents - 7 where id = {one};"
                f" update accounts set cents = cents + 7, tags = array['t{turn}'] where id = {other}; end $$"
            )
        lab.run(
            f"delete from accounts where id = {100 + turn - 1}",
            f"insert into accounts values ({100 + turn}, 'new', 0)",
        )
        sink = TableSink(url, lab.name)
        _kill_at(sink, chance.randrange(30))
        try:
            lab.capture(sink).run()
        except _Killed:
            pass
        finally:
            sink.close()
        if turn > 3:
            # No moment shows a half of a transfer.
            done = lab.server.run(
                "select coalesce(sum(cents), 2000) from accounts", database=target
            )
            assert done == [(2000,)]
    sink = TableSink(url, lab.name)
    lab.capture(sink).run()
    sink.close()
    mine, theirs = _rows(lab, lab.name), _rows(lab, target)
    assert mine == theirs


def _kill_at(sink: TableSink, step: int) -> None:
    """Make one of the sink's steps raise; the connection then closes without a commit, as after kill -9."""
    left = [step]

    def wrap(name: str) -> None:
        real = getattr(sink, name)

        def method(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise _Killed
            return real(*arguments)

        setattr(sink, name, method)

    for name in ("take", "commit", "safe_lsn", "flush", "begin_snapshot"):
        wrap(name)


def test_tables_are_told_again_after_the_server_was_away(lab: Lab, target: str):
    lab.run(
        "create table accounts (id int primary key)",
        "insert into accounts select generate_series(1, 3)",
    )
    for statements in ((), ("alter table accounts add note text", "insert into accounts values (4, 'n')")):  # fmt: skip
        if statements:
            lab.run(*statements)
        sink, deaths = TableSink(lab.server.url_of("postgres", target), lab.name), ["away"]
        take = sink.take

        def take_or_die(change: Change, take: Any = take, deaths: list[str] = deaths) -> None:
            if change.op != "schema" and deaths:
                raise psycopg.errors.AdminShutdown(deaths.pop())
            take(change)

        sink.take = take_or_die
        # What the target was told of its tables before is undone with the transaction.
        lab.capture(sink).run()
        sink.close()
        assert not deaths
        assert _rows(lab, target) == _rows(lab, lab.name)


def test_large_values_that_did_not_change_stay_and_new_columns_come(lab: Lab, target: str):
    lab.run(
        "create table accounts (id int primary key, big text, n int)",
        "alter table accounts alter big set storage external",
        "insert into accounts values (1, repeat('x', 20000), 0)",
    )
    url = lab.server.url_of("postgres", target)
    steps = [
        (),
        (
            "update accounts set n = 1",
            "alter table accounts add c date",
            "update accounts set c = '2026-11-27'",
        ),
        # A deletion and a creation, which does not have the large value.
        ("update accounts set id = 9", "update accounts set id = id + 1, n = 4"),
        ("truncate accounts", "insert into accounts values (2, 'y', 3)"),
    ]
    for statements in steps:
        if statements:
            lab.run(*statements)
        sink = TableSink(url, lab.name)
        lab.capture(sink).run()
        sink.close()
        assert _rows(lab, lab.name) == _rows(lab, target)


def test_a_table_without_a_key_is_refused(lab: Lab, target: str):
    lab.run("create table bare (v int)", "alter table bare replica identity full")
    sink = TableSink(lab.server.url_of("postgres", target), lab.name)
    with pytest.raises(CaptureError, match="has no primary key"):
        lab.capture(sink).run()
    sink.close()


def test_a_target_that_is_the_source_is_refused_before_anything_is_emptied(lab: Lab):
    lab.run("create table own (id int primary key)", "insert into own values (1)")
    sink = TableSink(lab.url, lab.name)
    with pytest.raises(CaptureError, match="is the captured database itself"):
        lab.capture(sink).run()
    sink.close()
    assert lab.run("select id from own") == [(1,)]


def _capture(lab: Lab, target: str, **settings: Any) -> int:
    sink = TableSink(lab.server.url_of("postgres", target), lab.name)
    try:
        lab.capture(sink, **settings).run()
    finally:
        sink.close()
    return sink.count


def _as_mappings(lab: Lab, database: str) -> Any:
    return lab.server.run(
        "select coalesce(json_agg(to_jsonb(a) order by id), '[]'::json) from accounts a",
        database=database,
    )


def test_new_and_dropped_columns_are_followed_inside_a_transaction(lab: Lab, target: str):
    lab.run(
        "create table accounts (id int primary key, owner text, cents int)",
        "insert into accounts values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    )
    _capture(lab, target)
    lab.run(
        "do $$ begin insert into accounts values (4, 'd', 4); alter table accounts add grade int default 7;"
        " insert into accounts values (5, 'e', 5, 9); alter table accounts drop owner;"
        " update accounts set cents = 20 where id = 2; end $$",
        "alter table accounts add at date default '2026-11-27'",
        "alter table accounts alter at drop default",
        "update accounts set cents = 30 where id = 3",
    )
    # Four rows; descriptions of columns are no changes.
    assert _capture(lab, target) == 4
    assert _as_mappings(lab, lab.name) == _as_mappings(lab, target)


@pytest.mark.parametrize(
    ("alteration", "reason"),
    [
        ("rename owner to holder", "owner is gone and holder is new, perhaps by a new name"),
        ("alter cents type text using 'c' || cents", "cents has another type"),
        pytest.param("add seq serial", "each row may have a value of its own in the new seq", marks=pytest.mark.slow),
        pytest.param(
            "drop constraint accounts_pkey, add primary key (owner)", "id, owner has another type, or is in the key",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_what_no_change_tells_ends_the_capture_and_a_snapshot_mends_it(
    lab: Lab, target: str, alteration: str, reason: str
):
    lab.run(
        "create table accounts (id int primary key, owner text not null, cents int)",
        "insert into accounts values (1, 'a', 1), (2, 'b', 2)",
    )
    _capture(lab, target)
    before = _as_mappings(lab, target)
    lab.run(
        f"do $$ begin insert into accounts values (3, 'c', 3); alter table accounts {alteration};"
        " delete from accounts where id = 2; end $$"
    )
    for _ in range(2):
        with pytest.raises(
            CaptureError, match=rf"public\.accounts was altered: {reason}.*--snapshot"
        ):
            _capture(lab, target)
    # Nothing of the transaction is in the target.
    assert _as_mappings(lab, target) == before
    _capture(lab, target, snapshot=True)
    assert _as_mappings(lab, lab.name) == _as_mappings(lab, target)
    lab.run("update accounts set id = id + 10")
    _capture(lab, target)
    assert _as_mappings(lab, lab.name) == _as_mappings(lab, target)
