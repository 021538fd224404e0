"""Captures of servers that are promoted or restored, with a real standby and a real backup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from headrace.cdc.events import CaptureError
from headrace.cdc.server import Identity, Replication, Slot
from headrace.cdc.table_sink import Progress, check
from tests.support.logical_postgres import LogicalPostgres
from tests.support.server import wait_until
from tests.unit.cdc.conftest import Lab

ORDERS = "create table orders (id int primary key, note text)"


@pytest.fixture
def primary() -> Iterator[LogicalPostgres]:
    server = LogicalPostgres()
    server.run("create database shop")
    yield server
    server.stop()


@pytest.fixture
def standby(primary: LogicalPostgres) -> Iterator[LogicalPostgres]:
    server = LogicalPostgres(primary=primary)
    yield server
    server.stop()


def _wait_for_all(primary: LogicalPostgres, standby: LogicalPostgres) -> None:
    """Wait until the standby has replayed what the primary has written until now."""
    ((lsn,),) = primary.run("select pg_current_wal_lsn()::text")
    replayed = f"select pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn"
    wait_until(lambda: standby.run(replayed)[0][0], what="the standby to have everything")


def _synchronized(standby: LogicalPostgres, slot: str) -> bool:
    try:
        standby.run("select pg_sync_replication_slots()")
    except psycopg.Error:
        return False  # the standby is not as far as the slot yet
    slots = f"pg_replication_slots where slot_name = '{slot}' and synced and not temporary"
    return bool(standby.run(f"select slot_name from {slots}"))


@pytest.mark.parametrize(
    ("left_lsn", "has_slot", "sentence"),
    [
        (99, True, "without everything that was captured: it is at timeline 2, and left timeline 1 at 0/63"),
        (None, True, "left timeline 1 never"),
        (100, False, "does not have the slot s"),
        (100, True, None),
    ],
)  # fmt: skip
def test_what_a_promotion_has_lost_is_said(
    left_lsn: int | None, has_slot: bool, sentence: str | None
):
    slot = Slot(90, 0, "reserved", "pgoutput", "shop", False) if has_slot else None
    arguments = (Progress("7", 1, 100), Identity("7", 2, 5000), slot, "s", left_lsn)
    if sentence is None:
        assert "was promoted" in (check(*arguments) or "")
        return
    with pytest.raises(CaptureError, match=sentence):
        check(*arguments)


def test_a_server_that_goes_away_while_its_history_is_read_is_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    lab.run(ORDERS)
    lab.read()
    progress = lab.progress.read()
    assert progress is not None
    # Timeline 1 has no history, as that of a server that never was promoted.
    lab.progress.write(replace(progress, timeline=progress.timeline + 1))
    with pytest.raises(CaptureError, match="left timeline 2 never"):
        lab.read()
    answers: list[int | None] = [None, progress.lsn]

    def end_of_timeline(*_: object) -> int | None:
        answer = answers.pop(0)
        if answer is None:
            raise psycopg.errors.AdminShutdown(
                "terminating connection due to administrator command"
            )
        return answer

    monkeypatch.setattr(Replication, "end_of_timeline", end_of_timeline)
    lab.run("insert into orders values (1, 'a')")
    assert [event["after"]["id"] for event in lab.read()] == [1]
    assert "is tried again: terminating connection" in caplog.text


def test_a_promoted_standby_goes_on_without_a_gap(
    primary: LogicalPostgres,
    standby: LogicalPostgres,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    lab = Lab(primary, "shop", tmp_path)
    lab.run(ORDERS, "insert into orders values (1, 'a')")
    events = lab.read()
    lab.run("insert into orders values (2, 'b')")
    events += lab.read()

    def synchronize() -> bool:
        # The standby keeps a slot once it is not older than the standby's own log.
        primary.run("checkpoint")
        assert lab.read() == []
        _wait_for_all(primary, standby)
        return _synchronized(standby, "shop")

    wait_until(synchronize, what="the slot on the standby")
    # Written before the primary dies, and read by nobody yet.
    lab.run("insert into orders values (3, 'c')")
    _wait_for_all(primary, standby)
    with pytest.raises(CaptureError, match="is a standby: give the URL of the primary"):
        lab.read(url=standby.url_of("postgres", "shop"))
    primary.kill()
    standby.run("select pg_promote()")
    lab.server = standby
    lab.run("insert into orders values (4, 'd')")
    events += lab.read(url=standby.url_of("postgres", "shop"))
    assert [(e["op"], e["after"]["id"]) for e in events] == [("r", 1), ("c", 2), ("c", 3), ("c", 4)]
    assert "was promoted" in caplog.text


@pytest.mark.slow
def test_a_standby_that_lacks_what_was_captured_is_said_whatever_it_has_written_since(
    primary: LogicalPostgres, standby: LogicalPostgres, tmp_path: Path
):
    lab = Lab(primary, "shop", tmp_path)
    lab.run(ORDERS)
    lab.read()
    _wait_for_all(primary, standby)
    standby.kill()
    lab.run("insert into orders values (1, 'captured, and never at the standby')")
    assert len(lab.read()) == 1
    primary.kill()
    standby.start()
    standby.run("select pg_promote()")
    lab.server = standby
    lab.run("insert into orders select g, repeat('n', 200) from generate_series(2, 2000) g")
    with pytest.raises(CaptureError, match="promoted without everything that was captured"):
        lab.read(url=standby.url_of("postgres", "shop"))


@pytest.mark.slow
def test_a_standby_without_the_slot_is_said_when_it_is_promoted(
    primary: LogicalPostgres, standby: LogicalPostgres, tmp_path: Path
):
    lab = Lab(primary, "shop", tmp_path)
    lab.run(ORDERS, "insert into orders values (1, 'a')")
    lab.read()
    _wait_for_all(primary, standby)
    primary.kill()
    standby.run("select pg_promote()")
    url = standby.url_of("postgres", "shop")
    with pytest.raises(
        CaptureError, match=r"was promoted, and does not have the slot shop.* are lost"
    ):
        lab.read(url=url)
    assert [e["op"] for e in lab.read(url=url, snapshot=True)] == ["r"]


@pytest.mark.slow
def test_a_server_that_is_restored_to_an_earlier_moment_is_said(
    primary: LogicalPostgres, tmp_path: Path
):
    lab = Lab(primary, "shop", tmp_path)
    lab.run(ORDERS, "insert into orders values (1, 'a')")
    lab.read()
    primary.keep(primary.folder / "kept")
    lab.run("insert into orders values (2, 'told, and then gone')")
    assert len(lab.read()) == 1
    primary.restore(primary.folder / "kept")
    with pytest.raises(CaptureError, match="restored to an earlier moment"):
        lab.read()
    assert [e["after"]["id"] for e in lab.read(snapshot=True)] == [1]
