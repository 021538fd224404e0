"""The latest row of each key: whatever the order, the repeats, the kills, and the envelopes."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.cdc.events import CaptureError, Compaction, format_row, read_event
from headrace.cdc.snapshots import Snapshots, lines_of, table_of
from tests.support.clock import FakeClock
from tests.support.cloud import InProcessCloud
from tests.unit.cdc.conftest import Lab, _data


def _fold(lab: Lab, records: list[Any]) -> list[Any]:
    compaction = Compaction()
    for record in records:
        compaction.take(_data(record), record["PartitionKey"], 0)
    return sorted(compaction.rows("public.t"), key=lambda row: row["id"])


@pytest.mark.parametrize("format_", ["plain", "debezium"])
def test_any_order_with_repeats_gives_the_table(lab: Lab, format_: str):
    chance = random.Random(36)
    lab.run(
        "create table t (id int primary key, v int)",
        "insert into t select g, 0 from generate_series(1, 9) g",
    )
    lab.read(lab.sink(format_))
    for step in range(60):
        key = chance.randrange(1, 12)
        lab.run(chance.choice([
            f"insert into t values ({key}, {step}) on conflict (id) do update set v = {step}",
            f"delete from t where id = {key}", f"update t set v = {step} where id = {key}",
            "truncate t" if step in (20, 40) else "select 1",
            f"update t set id = id + 20 where id = {key} and not exists (select from t where id = {key + 20})",
        ]))  # fmt: skip
    lab.read(lab.sink(format_))
    expected = [{"id": i, "v": v} for i, v in lab.run("select id, v from t order by id")]
    for _ in range(20):
        records = lab.records() + chance.choices(lab.records(), k=20)
        chance.shuffle(records)
        assert _fold(lab, records) == expected


def test_what_an_update_left_alone_stays(lab: Lab):
    lab.run("create table t (id int primary key, big text, v int)", "alter table t alter big set storage external",
            "insert into t values (1, repeat('x', 20000), 0)")  # fmt: skip
    for format_ in ("plain", "debezium", "dms"):
        lab.stream.requests.clear()
        lab.read(lab.sink(format_), snapshot=True)
        lab.run("update t set v = v + 1")
        lab.read(lab.sink(format_))
        ((_, big, v),) = lab.run("select * from t")
        assert _fold(lab, lab.records()) == [{"id": 1, "big": big, "v": v}]


def plain_event(id_: int, lsn: int, op: str = "u") -> bytes:
    row = {"d": {"before": {"id": id_}}, "t": {}}.get(op, {"after": {"id": id_, "lsn": lsn}})
    return json.dumps({"id": f"0/{lsn:X}/0", "op": op, "table": "public.t", **row}).encode()


@pytest.fixture
def cloud(tmp_path: Path) -> Any:
    with InProcessCloud(tmp_path / "cloud") as cloud:
        cloud.client("kinesis").create_stream(StreamName="s", ShardCount=2)
        cloud.client("s3").create_bucket(Bucket="bucket")
        yield cloud


def _put(cloud: InProcessCloud, *events: tuple[int, int, str]) -> None:
    for id_, lsn, op in events:
        cloud.client("kinesis").put_record(
            StreamName="s", PartitionKey=str(id_), Data=plain_event(id_, lsn, op)
        )


class _Killed(Exception):
    pass


class _Dying:
    """A client whose n-th write raises before or after it is done."""

    def __init__(self, client: Any, at: int, *, after: bool) -> None:
        self._client, self._left, self._after = client, at, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in ("put_object", "delete_object"):
            return method

        def call(**arguments: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise _Killed
            answer = method(**arguments)
            if self._left == 0:
                raise _Killed
            return answer

        return call


def test_a_kill_at_any_step_leaves_a_whole_snapshot(cloud: InProcessCloud):
    s3, kinesis, lsn = cloud.client("s3"), cloud.client("kinesis"), 16
    latest: dict[int, Any] = {}
    for at in (1, 2, 3):
        for after in (False, True):
            for id_ in range(4):
                op = "d" if (id_ + at) % 3 == 0 else "u"
                _put(cloud, (id_, lsn, op))
                latest[id_] = None if op == "d" else {"id": id_, "lsn": lsn}
                lsn += 8
            with contextlib.suppress(_Killed):
                Snapshots(_Dying(s3, at, after=after), "bucket", "c", FakeClock()).advance(
                    kinesis, "s"
                )
            compaction, _ = Snapshots(s3, "bucket", "c", FakeClock()).advance(kinesis, "s")
            rows = sorted(compaction.rows("public.t"), key=lambda row: row["id"])
            assert rows == [row for _, row in sorted(latest.items()) if row is not None]
    # Nothing is read twice: the offsets were stored with the rows.
    assert Snapshots(s3, "bucket", "c", FakeClock()).advance(kinesis, "s")[1] == 0


def _totals(rows: list[Any]) -> dict[int, int]:
    """A view: how many rows of each remainder of their keys."""
    return {key: sum(row["id"] % 3 == key for row in rows) for key in range(3)}


@pytest.mark.parametrize("seed", range(4))
def test_a_table_and_a_view_are_the_snapshot_and_what_came_after_it(
    cloud: InProcessCloud, seed: int
):
    s3, kinesis, chance = cloud.client("s3"), cloud.client("kinesis"), random.Random(seed)
    snapshots = Snapshots(s3, "bucket", f"rebuild-{seed}", FakeClock())
    whole, history = Compaction(), list[tuple[int, int, str]]()
    snapshots.advance(kinesis, "s")
    for _ in range(8):
        for _ in range(chance.randrange(6)):
            # Some come again: at least once.
            repeated = history and chance.random() < 0.3
            new = (chance.randrange(6), 16 + 8 * len(history), chance.choice("uud"))
            history.append(chance.choice(history) if repeated else new)
            id_, lsn, op = history[-1]
            _put(cloud, history[-1])
            whole.take(plain_event(id_, lsn, op), str(id_), 0)
        rebuilt = snapshots.rebuild(kinesis, "s").rows("public.t")
        assert rebuilt == whole.rows("public.t")
        assert _totals(rebuilt) == _totals(whole.rows("public.t"))
        if chance.random() < 0.4:
            snapshots.advance(kinesis, "s")
    # To rebuild stores nothing: the next snapshot begins at the old offsets.
    before = snapshots.load()[1]
    snapshots.rebuild(kinesis, "s")
    assert snapshots.load()[1] == before


def test_without_a_snapshot_nothing_is_rebuilt(cloud: InProcessCloud):
    with pytest.raises(CaptureError, match="There is no snapshot in s3://bucket/none/"):
        Snapshots(cloud.client("s3"), "bucket", "none", FakeClock()).rebuild(
            cloud.client("kinesis"), "s"
        )


def test_of_two_writers_one_is_refused(cloud: InProcessCloud):
    s3, kinesis = cloud.client("s3"), cloud.client("kinesis")
    _put(cloud, (1, 16, "u"))
    first, second = (Snapshots(s3, "bucket", "c", FakeClock()) for _ in range(2))
    load = second.load

    def load_then_lose(keys: Any = None) -> Any:
        loaded = load(keys)
        first.advance(kinesis, "s")
        return loaded

    second.load = load_then_lose  # type: ignore[method-assign]
    with pytest.raises(CaptureError, match="Another process has stored a snapshot"):
        second.advance(kinesis, "s")
    assert first.load()[0].rows("public.t") == [{"id": 1, "lsn": 16}]


def test_records_that_expired_unread_are_said(cloud: InProcessCloud):
    s3, kinesis, clock = cloud.client("s3"), cloud.client("kinesis"), FakeClock()
    Snapshots(s3, "bucket", "c", clock).advance(kinesis, "s")
    clock.advance(25 * 3600)
    with pytest.raises(CaptureError, match="some have expired unread"):
        Snapshots(s3, "bucket", "c", clock).advance(kinesis, "s")


@pytest.mark.parametrize("data", [
    b"hello", b"[" * 100_000, b"[]", b"5", b'"op"', b'{"op": "c", "table": "orders", "id": 17}', b'{"metadata": "m"}',
    b'{"op": "c", "source": {"schema": "s", "table": "t", "event_id": "0/1/0"}, "before": null, "after": "x"}',
])  # fmt: skip
def test_another_record_is_no_event(data: bytes):
    with pytest.raises(CaptureError, match="A record is no event of headrace cdc"):
        read_event(data)


def test_a_number_beyond_a_double_or_of_thousands_of_digits_stays_its_text():
    digits = "7" * 5000
    row = f'{{"n": 1e400, "m": 0.5, "i": 17, "d": {digits}}}'
    event = read_event(f'{{"id": "0/1/0", "op": "c", "table": "t", "after": {row}}}'.encode())
    assert event is not None
    assert event.after == {"n": "1e400", "m": 0.5, "i": 17, "d": digits}


def test_half_a_character_in_a_json_column_is_stored_and_does_not_end_the_fold():
    # PostgreSQL's json takes it; jsonb does not.
    column = r'{"half": "\ud800", "whole": "\ud83d\ude00"}'
    compaction, restored = Compaction(), Compaction()
    compaction.take(
        f'{{"id": "0/1/0", "op": "c", "table": "t", "after": {column}}}'.encode(), "k", 0
    )
    table = table_of(compaction.lines())
    assert table["row"].to_pylist() == [column]
    restored.restore(lines_of(table), {})
    assert restored.tables == compaction.tables
    assert format_row({"whole": "\N{GRINNING FACE}"}) == '{"whole": "\N{GRINNING FACE}"}'


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("garbage", "manifest.json is none of its"),
        ("{}", "manifest.json is none of its"),
        ('{"files": ["gone"], "truncated": {}}', "damaged/gone, which its manifest names, is not"),
        ('{"files": ["manifest.json"], "truncated": {}}', "damaged/manifest.json is none of its"),
    ],
)
def test_what_is_no_snapshot_is_one_sentence(cloud: InProcessCloud, manifest: str, sentence: str):
    s3 = cloud.client("s3")
    s3.put_object(Bucket="bucket", Key="damaged/manifest.json", Body=manifest.encode())
    with pytest.raises(CaptureError, match=rf"^s3://bucket/damaged/ is no snapshot \({sentence}"):
        Snapshots(s3, "bucket", "damaged", FakeClock()).load()


def test_another_record_is_said(cloud: InProcessCloud):
    cloud.client("kinesis").put_record(StreamName="s", PartitionKey="k", Data=b"hello")
    with pytest.raises(CaptureError, match="no event of headrace cdc"):
        Snapshots(cloud.client("s3"), "bucket", "c", FakeClock()).advance(
            cloud.client("kinesis"), "s"
        )
