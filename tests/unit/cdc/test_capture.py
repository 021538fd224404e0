"""A capture of a real PostgreSQL: the snapshot, what follows it, and what can go wrong on the server's side."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest

from headrace.cdc.capture import Capture
from headrace.cdc.envelopes import LargeValues
from headrace.cdc.events import CaptureError
from headrace.cdc.server import Replication
from headrace.client.wire import ServiceError
from tests.support.server import wait_until
from tests.unit.cdc.conftest import Lab

ORDERS = "create table orders (id int primary key, note text)"


def test_the_snapshot_comes_first_and_every_change_after_it_once(lab: Lab):
    lab.run(ORDERS, "insert into orders select g, 'a' from generate_series(1, 3) g")
    first = lab.read()
    assert [(e["op"], e["after"]["id"]) for e in first] == [("r", 1), ("r", 2), ("r", 3)]
    lab.run("update orders set note = 'b' where id = 1", "delete from orders where id = 2")
    second = lab.read()
    assert [(e["op"], (e.get("after") or e["before"])["id"]) for e in second] == [
        ("u", 1),
        ("d", 2),
    ]
    assert lab.read() == []
    assert len({e["id"] for e in [*first, *second]}) == 5


def test_rows_that_change_during_the_snapshot_come_as_changes(lab: Lab):
    lab.run(ORDERS, "insert into orders select g, 'a' from generate_series(1, 50) g")
    sink = lab.sink()
    take = sink.take

    def take_and_write(change: Any) -> None:
        if change.op == "r" and change.place == 25:
            lab.run(
                "insert into orders values (100, 'during')",
                "update orders set note = 'during' where id = 50",
            )
        take(change)

    sink.take = take_and_write  # type: ignore[method-assign]
    events = lab.read(sink)
    rows = [e["after"] for e in events if e["op"] == "r"]
    assert len(rows) == 50
    assert all(row["note"] == "a" for row in rows)
    assert [(e["op"], e["after"]["id"]) for e in events if e["op"] != "r"] == [
        ("c", 100),
        ("u", 50),
    ]


def test_a_transaction_is_told_whole(lab: Lab):
    lab.run(ORDERS)
    lab.read()
    lab.run("begin; insert into orders values (1, 'a'); insert into orders values (2, 'b'); commit")
    lab.run(
        "do $$ begin insert into orders values (3, 'c'); insert into orders values (4, 'd'); end $$"
    )
    events = lab.read()
    marks = [(e["place"], e["last"]) for e in sorted(events, key=lambda e: e["after"]["id"])]
    assert marks == [(0, False), (1, True)] * 2
    assert len({e["transaction"] for e in events}) == 2


def test_a_schema_change_inside_a_transaction_is_told_in_its_place(lab: Lab):
    lab.run(ORDERS)
    lab.read()
    lab.run(
        "do $$ begin insert into orders values (1, 'a'); alter table orders add column price numeric;"
        " insert into orders values (2, 'b', 1.50); end $$"
    )
    events = sorted(lab.read(), key=lambda e: e["place"])
    assert [e["after"] for e in events] == [
        {"id": 1, "note": "a"},
        {"id": 2, "note": "b", "price": "1.50"},
    ]
    described = [[c["name"] for c in e["columns"]] for e in lab.events() if e["op"] == "schema"]
    assert described[-1] == ["id", "note", "price"]


def test_columns_that_come_go_and_change_in_a_transaction_are_told_in_their_places(lab: Lab):
    lab.run(
        "create table t (id int primary key, note text, cents int, big text)",
        "alter table t alter big set storage external",
        "insert into t values (0, 'z', 0, repeat('x', 20000))",
    )
    lab.read(lab.sink(by={"*": None}))
    before = len(lab.events())
    lab.run(
        "do $$ begin insert into t values (1, 'a', 1); alter table t rename note to remark;"
        " insert into t values (2, 'b', 2); alter table t alter cents type text using 'c' || cents;"
        " insert into t values (3, 'c', 'c3'); alter table t drop remark; update t set cents = 'c0' where id = 0;"
        " end $$",
        "truncate t",
    )
    lab.read(lab.sink(by={"*": None}))
    told = [
        [c["name"] for c in e["columns"]] if e["op"] == "schema" else (e["op"], e.get("after"))
        for e in lab.events()[before:]
    ]
    columns = [told[i] for i in range(len(told)) if isinstance(told[i], list)]
    assert [event for event in told if isinstance(event, tuple)] == [
        ("c", {"id": 1, "note": "a", "cents": 1, "big": None}),
        ("c", {"id": 2, "remark": "b", "cents": 2, "big": None}),
        ("c", {"id": 3, "remark": "c", "cents": "c3", "big": None}),
        # The value that the update left alone does not come.
        ("u", {"id": 0, "cents": "c0"}),
        ("t", None),
    ]
    names = [["id", "note", "cents", "big"], ["id", "remark", "cents", "big"]]
    assert columns == [*names, names[1], ["id", "cents", "big"]]
    # Each description comes right before the first row that has it.
    assert [i for i in range(len(told)) if isinstance(told[i], list)] == [0, 2, 4, 6]


def test_a_key_that_changes_is_a_deletion_and_a_creation(lab: Lab):
    lab.run(ORDERS, "insert into orders values (1, 'a')")
    lab.read()
    lab.run("update orders set id = 9")
    assert sorted((e["op"], (e.get("after") or e["before"])["id"]) for e in lab.read()) == [
        ("c", 9),
        ("d", 1),
    ]


def test_a_large_value_that_did_not_change_is_named_and_whole_identity_fills_it(lab: Lab):
    lab.run(
        "create table t (id int primary key, big text, n int)",
        "alter table t alter big set storage external",
        "insert into t values (1, repeat('x', 20000), 0)",
    )
    lab.read()
    lab.run("update t set n = 1")
    (event,) = lab.read()
    assert (event["after"], event["unchanged"]) == ({"id": 1, "n": 1}, ["big"])
    lab.run("alter table t replica identity full", "update t set n = 2")
    (event,) = lab.read()
    assert event["after"]["big"] == "x" * 20000
    assert event["before"]["n"] == 1


def test_large_values_go_to_s3_by_reference(lab: Lab):
    objects: dict[str, bytes] = {}

    class Bucket:
        def put_object(self, Bucket: str, Key: str, Body: bytes) -> None:
            objects[f"s3://{Bucket}/{Key}"] = Body

    lab.run(ORDERS, "insert into orders values (1, repeat('x', 30000))")
    sink = lab.sink(record_bytes=10_000, shrink=LargeValues(Bucket(), "b", "large/").shrink)
    (event,) = lab.read(sink)
    assert objects[event["after"]["note"]["$s3"]] == b"x" * 30000
    with pytest.raises(CaptureError, match="--large-to"):
        lab.read(lab.sink(record_bytes=10_000), snapshot=True)


def test_partition_keys_are_composite_hashed_or_of_columns(lab: Lab):
    lab.run(
        "create table p (a text, b int, c int, primary key (a, b))",
        "insert into p values ('x', 1, 7), (repeat('y', 300), 2, 8)",
        "create table bare (v int)",
        "alter table bare replica identity full",
        "insert into bare values (1)",
    )
    lab.read()
    keys = lab.keys()
    assert '["x","1"]' in keys
    assert "public.bare" in keys
    assert any(key.startswith("sha256:") and len(key) == 71 for key in keys)
    with pytest.raises(CaptureError, match="a deletion has only the replica identity"):
        lab.read(lab.sink(by={"public.p": ("c",)}), snapshot=True)
    with pytest.raises(CaptureError, match="no column 'z'"):
        lab.read(lab.sink(by={"*": ("z",)}), snapshot=True)


def test_a_table_that_is_not_there_is_said_also_when_there_is_a_publication(lab: Lab):
    lab.run(ORDERS)
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"There is no table public\.order:"):
            lab.read(tables=("public.order",))
        lab.read()


def test_partition_keys_of_tables_that_are_not_captured_are_warned_of(
    lab: Lab, caplog: pytest.LogCaptureFixture
):
    lab.run(ORDERS, "create table more (id int primary key)")
    lab.read(tables=("public.orders",), keyed_tables=("public.orders", "public.more"))
    assert "no effect for public.more, which is not in the publication" in caplog.text
    assert "no effect for public.orders" not in caplog.text


def test_a_table_without_a_key_is_refused_before_it_is_published(lab: Lab):
    lab.run("create table bare (v int)", "insert into bare values (1)")
    with pytest.raises(CaptureError, match=r"public\.bare: without a primary key"):
        lab.read()
    lab.run("update bare set v = 2")  # would fail in a publication


def test_a_slot_that_somebody_dropped_is_said(lab: Lab):
    lab.run(ORDERS)
    lab.read()
    lab.run(
        f"select pg_drop_replication_slot('{lab.name}')", "insert into orders values (1, 'lost')"
    )
    with pytest.raises(CaptureError, match=r"Somebody has dropped the slot .* --snapshot"):
        lab.read()
    assert [e["op"] for e in lab.read(snapshot=True)] == ["r"]


def test_a_slot_that_is_dropped_after_the_look_at_it_is_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    lab.run(ORDERS)
    lab.read()
    start = Replication.start

    def drop_first(self: Replication, slot: str, publication: str, lsn: int) -> None:
        lab.run(f"select pg_drop_replication_slot('{slot}')")
        start(self, slot, publication, lsn)

    monkeypatch.setattr(Replication, "start", drop_first)
    with pytest.raises(CaptureError, match="Somebody has dropped the slot"):
        lab.read()


def test_a_slot_that_somebody_else_has_read_is_said(lab: Lab):
    lab.run(ORDERS)
    lab.read()
    lab.run("insert into orders values (1, 'a')")
    lab.run(f"select pg_replication_slot_advance('{lab.name}', pg_current_wal_lsn())")
    with pytest.raises(CaptureError, match="Somebody else has read the slot"):
        lab.read()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"system_id": "1"}, "another server than before"),
        ({"lsn": 1 << 60}, "it was restored to an earlier moment"),
    ],
)
def test_a_server_that_was_restored_is_said(lab: Lab, change: dict[str, Any], sentence: str):
    lab.run(ORDERS)
    lab.read()
    path = lab.progress.path
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CaptureError, match=sentence):
        lab.read()


def test_rights_that_lack_are_one_sentence(lab: Lab):
    lab.run(ORDERS, "create role poor login")
    try:
        with pytest.raises(CaptureError, match="may not replicate: ALTER ROLE poor REPLICATION"):
            lab.read(url=lab.server.url_of("poor", lab.name))
        lab.run("alter role poor replication", f"create publication {lab.name} for table orders")
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="permission denied for table orders"
        ):
            lab.read(url=lab.server.url_of("poor", lab.name))
        lab.run("grant select on orders to poor")
        assert lab.read(url=lab.server.url_of("poor", lab.name)) == []
        # Lost midway: the next start says so.
        lab.run("alter role poor noreplication")
        with pytest.raises(CaptureError, match="may not replicate"):
            lab.read(url=lab.server.url_of("poor", lab.name))
    finally:
        lab.run("drop owned by poor", "drop role poor")


def test_the_slot_is_dropped_before_the_servers_disk_is_full(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.cdc.capture._LOOK_EVERY_S", 0.0)
    lab.run(ORDERS)
    lab.read()
    lab.run("insert into orders select g, repeat('x', 500) from generate_series(1, 4000) g")
    with pytest.raises(
        CaptureError, match="the slot is dropped, so that the server's disk does not fill"
    ):
        lab.read(most_wal_bytes=1 << 20)
    assert lab.run(f"select count(*) from pg_replication_slots where slot_name = '{lab.name}'") == [
        (0,)
    ]


def test_what_other_tables_write_lets_the_slot_go_on(lab: Lab):
    lab.run(ORDERS, "create table other (v int)")
    lab.read(tables=("public.orders",))
    position = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s".replace(
        "%s", f"'{lab.name}'"
    )
    before = lab.run(position)
    lab.run("insert into other select generate_series(1, 1000)")
    assert lab.read(tables=("public.orders",)) == []
    # The server reads the last confirmation after the capture has gone.
    wait_until(lambda: lab.run(position) != before, what="the slot to go on")


def test_a_refusal_by_the_stream_ends_the_capture_and_nothing_is_confirmed(lab: Lab):
    lab.run(ORDERS)
    lab.read()
    lab.run("insert into orders values (1, 'a')")
    lab.stream.faults = [ServiceError("AccessDeniedException", "no", 400)]
    with pytest.raises(CaptureError, match="AccessDeniedException"):
        lab.read()
    # What was on its way beside the refused record may have come already: at least once.
    assert {e["after"]["id"] for e in lab.read()} == {1}


def test_a_killed_server_is_waited_for(lab: Lab):
    lab.run(ORDERS)
    sink = lab.sink()
    capture: Capture = lab.capture(sink, once=False)
    thread = threading.Thread(target=capture.run)
    thread.start()
    try:
        lab.run("insert into orders values (1, 'a')")
        wait_until(lambda: any(e["op"] in "rc" for e in lab.events()))
        lab.server.kill()
        lab.server.start()
        lab.run("insert into orders values (2, 'b')")
        wait_until(lambda: any((e.get("after") or {}).get("id") == 2 for e in lab.events()))
    finally:
        capture.stop()
        thread.join(30)
        sink.close()
    assert {e["after"]["id"] for e in lab.events() if e["op"] in "rc"} == {1, 2}


@pytest.mark.parametrize(("step", "rows"), [("take", [1]), ("flush", [1, 1])])
def test_a_snapshot_whose_slot_is_lost_is_taken_again(lab: Lab, step: str, rows: list[int]):
    lab.run(ORDERS)
    lab.run("insert into orders values (1, 'a')")
    sink = lab.sink()
    method, losses = getattr(sink, step), []
    of_this_lab = (
        f"from pg_stat_activity where backend_type = 'walsender' and datname = '{lab.name}'"
    )

    def lose_the_slot_once(*arguments: Any) -> None:
        method(*arguments)
        if not losses:
            losses.extend(lab.run(f"select pid, pg_terminate_backend(pid) {of_this_lab}"))
            wait_until(lambda: not lab.run(f"select {of_this_lab}"))

    setattr(sink, step, lose_the_slot_once)
    lab.capture(sink, once=True).run()
    sink.close()
    assert losses
    assert [e["after"]["id"] for e in lab.events() if e["op"] == "r"] == rows
    lab.run("insert into orders values (2, 'b')")
    assert [e["after"]["id"] for e in lab.read()] == [2]


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        ("slot", "Somebody has dropped the slot"),
        ("alter role {name} noreplication", "may not replicate"),
        ("alter role {name} nologin", "not permitted to log in"),
    ],
)
def test_what_is_lost_under_way_ends_the_capture_by_its_name(lab: Lab, loss: str, sentence: str):
    lab.run(ORDERS, f"create role {lab.name} login replication", f"grant select on orders to {lab.name}",
            f"create publication {lab.name} for table orders")  # fmt: skip
    sink, ends = lab.sink(), list[BaseException]()
    capture: Capture = lab.capture(sink, once=False, url=lab.server.url_of(lab.name, lab.name))

    def run() -> None:
        try:
            capture.run()
        except (CaptureError, psycopg.Error) as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        lab.run("insert into orders values (1, 'a')")
        # A slot that is lost before the capture has noted it begins a snapshot anew.
        wait_until(lambda: lab.progress.read() is not None, what="the end of the snapshot")
        of_capture = f"from pg_stat_activity where usename = '{lab.name}'"
        if loss != "slot":
            lab.run(loss.format(name=lab.name), f"select pg_terminate_backend(pid) {of_capture}")
        else:
            slot = f"pg_replication_slots where slot_name = '{lab.name}'"
            lab.run(
                "do $$ begin loop begin perform pg_terminate_backend(active_pid) from "
                f"{slot} and active; perform pg_drop_replication_slot('{lab.name}'); exit;"
                " exception when object_in_use then null; end; end loop; end $$"
            )
        wait_until(lambda: not thread.is_alive(), what="the end of the capture")
    finally:
        capture.stop()
        thread.join(30)
        sink.close()
        lab.run(f"drop owned by {lab.name}", f"drop role {lab.name}")
    assert [sentence in str(error) for error in ends] == [True], ends


def test_a_snapshot_anew_waits_until_the_last_reader_has_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    lab.run(ORDERS, "insert into orders values (1, 'a')")
    lab.read()
    reader = Replication(lab.url)
    reader.start(lab.name, lab.name, 0)
    monkeypatch.setattr(Capture, "_pause", lambda *_: reader.close())
    assert [event["op"] for event in lab.read(snapshot=True)] == ["r"]
