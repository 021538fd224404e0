"""What a change is in each format, over PostgreSQL's types."""

from __future__ import annotations

import json

import pytest

from headrace.cdc.envelopes import converters, encode
from headrace.cdc.events import UNAVAILABLE, read_event
from tests.unit.cdc.conftest import Lab

TYPES = """create table t (id bigint primary key, b bool, n numeric, f float8, bin bytea, d date, at timestamp,
 z timestamptz, j jsonb, u uuid, texts text[], numbers int[], t time)"""
ROW = """insert into t values (1, true, 12.340, 'NaN', '\\x00ff', '2026-11-27', '2026-11-27 06:00:00.5',
 '2026-11-27 07:00:00+01', '{"a": [1, null]}', '6b0d9a3c-0000-4000-8000-000000000001', array['a,b', 'c"d', null],
 '{{1,2},{3,4}}', '01:02:03.5')"""


def test_debeziums_envelope(lab: Lab):
    lab.run(TYPES, ROW)
    (event,) = lab.read(lab.sink("debezium"))
    assert event["after"] == {
        "id": 1, "b": True, "n": "12.340", "f": "NaN", "bin": "AP8=", "d": 20784, "at": 1795759200500000,
        "z": "2026-11-27T06:00:00.000000Z", "j": '{"a": [1, null]}', "u": "6b0d9a3c-0000-4000-8000-000000000001",
        "texts": ["a,b", 'c"d', None], "numbers": [[1, 2], [3, 4]], "t": 3723500000,
    }  # fmt: skip
    assert (event["op"], event["before"], event["source"]["snapshot"]) == ("r", None, "true")
    lab.run("update t set b = false", "delete from t")
    update, delete = lab.read(lab.sink("debezium"))
    assert (update["op"], update["after"]["b"], update["source"]["table"]) == ("u", False, "t")
    assert (delete["op"], delete["after"], delete["before"]["id"]) == ("d", None, 1)
    assert update["transaction"]["total_order"] == 1


def test_every_format_names_what_did_not_come_and_the_log_says_why(
    lab: Lab, caplog: pytest.LogCaptureFixture
):
    lab.run(
        "create table t (id int primary key, big text, n int)",
        "alter table t alter big set storage external",
        "insert into t values (1, repeat('x', 20000), 0)",
    )
    lab.read()
    assert "public.t has large values" in caplog.text
    assert "ALTER TABLE public.t REPLICA IDENTITY FULL" in caplog.text
    caplog.clear()
    lab.run("update t set n = 1", "update t set id = 2", "update t set id = 3")
    rows = [event["after"] for event in lab.read(lab.sink("debezium")) if event["after"]]
    assert sorted((row["id"], row["big"]) for row in rows) == [(i, UNAVAILABLE) for i in (1, 2, 3)]
    assert caplog.text.count("has a new key, and its event lacks the large big") == 1
    lab.run("update t set n = 2", "update t set id = 4")
    named = {event["op"]: event.get("unchanged") for event in lab.read()}
    assert named == {"u": ["big"], "d": None, "c": ["big"]}
    lab.run("update t set n = 3", "update t set id = 5")
    events = [read_event(json.dumps(event).encode()) for event in lab.read(lab.sink("dms"))]
    assert {e.op: e.unchanged for e in events if e} == {"u": ("big",), "d": (), "c": ("big",)}
    caplog.clear()
    lab.run("alter table t replica identity full", "update t set id = 6")
    assert {len(event["after"]["big"]) for event in lab.read() if event["op"] == "c"} == {20000}
    assert "large" not in caplog.text


def test_dms_envelope(lab: Lab):
    lab.run(TYPES, ROW)
    lab.read(lab.sink("dms"))
    control, load = lab.events()
    assert control["metadata"]["record-type"] == "control"
    assert load["data"]["at"] == "2026-11-27T06:00:00.5"
    assert load["metadata"]["operation"] == "load"
    assert load["metadata"]["partition-key-type"] == "primary-key"
    lab.run("delete from t")
    lab.read(lab.sink("dms"))
    assert lab.events()[-1]["data"] == {"id": 1}


@pytest.mark.parametrize(
    ("type_oid", "text", "value"),
    [
        (1082, "infinity", "infinity"),
        (1114, "0044-03-15 00:00:00 BC", "0044-03-15 00:00:00 BC"),
        (1007, "[0:1]={1,2}", [1, 2]),
        (1009, "{}", []),
        (701, "1e300", 1e300),
        (3910, "[a,b)", "[a,b)"),
    ],
)
def test_values_that_json_or_python_do_not_have(type_oid: int, text: str, value: object):
    assert converters("debezium")(type_oid)(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 0.1000000000000000000001, "m": 123456789012345678901234567890, "e": 1e400}',
        '{"a": 1, "a": 2}',
        "[" * 5_000 + "]" * 5_000,
    ],
    ids=["numbers", "twice", "deep"],
)
def test_plain_json_stands_as_in_the_database(text: str) -> None:
    value = converters("plain")(114)(text.replace(" ", "\n").encode())
    assert encode({"j": value}) == b'{"j":' + text.encode() + b"}"
