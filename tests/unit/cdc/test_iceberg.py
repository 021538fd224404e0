"""The latest row of each key in an Iceberg table: through Glue and S3 of a real server, whatever dies."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema

from headrace.cdc.events import CaptureError, Compaction, Event
from headrace.cdc.iceberg import IcebergRows
from headrace.cdc.iceberg_table import glue_catalog, schema
from headrace.cli.cdc import compact
from tests.support.clock import FakeClock
from tests.support.server import ServerProcess
from tests.unit.cdc.test_compaction import plain_event


class _Killed(Exception):
    pass


class _Lab:
    """A stream, the table of its latest rows, and what the table must have."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self.name, self.clock, self.whole = name, FakeClock(), Compaction()
        self.kinesis = server.client("kinesis")
        self.kinesis.create_stream(StreamName=name, ShardCount=2)
        self.kinesis.get_waiter("stream_exists").wait(StreamName=name)
        self.catalog = glue_catalog(server.client("glue"), server.client("s3"))

    def put(self, *events: tuple[int, int, str]) -> None:
        for id_, lsn, op in events:
            data = plain_event(id_, lsn, op)
            self.kinesis.put_record(StreamName=self.name, PartitionKey=str(id_), Data=data)
            self.whole.take(data, str(id_), 0)

    def rows(self, catalog: Any = None) -> IcebergRows:
        return IcebergRows(catalog or self.catalog, "lake", self.name, self.clock)

    def advance(self, catalog: Any = None) -> int:
        return self.rows(catalog).advance(self.kinesis, self.name)[1]

    def stored(self) -> list[Any]:
        table = self.catalog.load_table(("lake", self.name)).scan().to_arrow().to_pylist()
        keys = [(row["table"], row["key"]) for row in table]
        assert len(keys) == len(set(keys))
        return sorted(row["row"] for row in table if not row["is_deleted"])


class _Dying:
    """A catalogue whose commit raises before or after it is done, or is lost to another's."""

    def __init__(self, catalog: Any, how: str, other: Any = None) -> None:
        self._catalog, self._how, self._other = catalog, how, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def load_table(self, name: Any) -> Any:
        table = self._catalog.load_table(name)
        table.catalog = self
        return table

    def commit_table(self, *arguments: Any) -> Any:
        if self._how == "before":
            raise _Killed
        if self._other is not None:
            self._other()
        answer = self._catalog.commit_table(*arguments)
        if self._how == "after":
            raise _Killed
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("iceberg") / "data") as server:
        server.client("s3").create_bucket(Bucket="lake")
        server.client("glue").create_database(
            DatabaseInput={"Name": "lake", "LocationUri": "s3://lake/lake"}
        )
        yield server


def _lines(whole: Compaction) -> list[str]:
    return sorted(line[2] for line in whole.lines() if line[2] is not None)


def test_a_kill_at_a_commit_leaves_neither_loss_nor_double(server: ServerProcess):
    lab, chance, lsn = _Lab(server, "kills"), random.Random(36), 16
    lab.advance()
    for how in ("before", "after", "before", "after"):
        for _ in range(chance.randrange(2, 8)):
            lab.put((chance.randrange(6), lsn, chance.choice("uud")))
            lsn += 8
        with pytest.raises(_Killed):
            lab.advance(_Dying(lab.catalog, how))
        count = lab.advance()
        assert lab.stored() == _lines(lab.whole)
        # What was committed is not read again.
        assert (count == 0) == (how == "after")
    lab.put((1, lsn, "u"), (2, 16, "u"), (99, lsn + 8, "t"), (3, lsn + 16, "c"))
    rebuilt = lab.rows().rebuild(lab.kinesis, lab.name)
    assert rebuilt.rows("public.t") == [{"id": 3, "lsn": lsn + 16}]
    lab.advance()
    assert lab.stored() == _lines(lab.whole) == [f'{{"id": 3, "lsn": {lsn + 16}}}']


def _event_at(position: int) -> bytes:
    """Return the change at a position of the log: always the same one."""
    lsn = 16 + 8 * position
    op, columns = ("c", "d", "u", "u", "u")[lsn // 8 % 5], {"id": lsn % 2, "lsn": lsn}
    event = {"id": f"0/{lsn:X}/0", "op": op, "table": "public.t"}
    if op == "d":
        event["before"] = {"id": columns["id"]}
    elif lsn // 8 % 3 == 0:
        event |= {"after": columns, "unchanged": ["big"]}
    else:
        event["after"] = {**columns, "big": f"of {lsn}"}
    return json.dumps(event).encode()


def test_of_a_keys_many_events_those_that_count_are_kept(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
):
    lab, chance, folded = _Lab(server, "many"), random.Random(36), list[Event]()
    fold = Compaction.fold

    def note(self: Compaction, event: Event, key: str, now_ms: int) -> None:
        folded.append(event)
        fold(self, event, key, now_ms)

    for first in (0, 100):
        # A few are late, and many come twice.
        records = [
            {"PartitionKey": key, "Data": _event_at(first + i // 2 + chance.randrange(4))}
            for key in "ab"
            for i in range(200)
        ]
        lab.kinesis.put_records(StreamName=lab.name, Records=records)
        for record in records:
            lab.whole.take(record["Data"], record["PartitionKey"], 0)
        with monkeypatch.context() as patch:
            patch.setattr(Compaction, "fold", note)
            assert lab.advance() == len(records)
        assert lab.stored() == _lines(lab.whole)
    # While the stream is read, all are dropped but a key's last whole row and the updates after it.
    assert 0 < len(folded) < 40


def test_of_two_writers_one_is_refused_and_nothing_is_there_twice(server: ServerProcess):
    lab = _Lab(server, "writers")
    lab.advance()
    lab.put((1, 16, "u"))
    with pytest.raises(CaptureError, match=r"Another process has stored rows in lake\.writers"):
        lab.advance(_Dying(lab.catalog, "", lab.advance))
    assert lab.stored() == ['{"id": 1, "lsn": 16}']


class _MadeMeanwhile(_Dying):
    """A catalogue in which another process makes the table after the first look."""

    def load_table(self, name: Any) -> Any:
        self.load_table = super().load_table
        self._other()
        raise NoSuchTableError(name)


def test_of_two_first_writers_both_have_the_table(server: ServerProcess):
    lab = _Lab(server, "first")
    lab.put((1, 16, "u"))
    assert lab.advance(_MadeMeanwhile(lab.catalog, "", lab.advance)) == 0
    assert lab.stored() == ['{"id": 1, "lsn": 16}']


def test_a_table_that_is_dropped_meanwhile_is_said(server: ServerProcess):
    lab = _Lab(server, "dropped")
    lab.advance()
    lab.put((1, 16, "u"))
    drop = functools.partial(lab.catalog.drop_table, ("lake", "dropped"))
    with pytest.raises(CaptureError, match=r"Another process has dropped lake\.dropped meanwhile"):
        lab.advance(_Dying(lab.catalog, "", drop))


@pytest.mark.slow
def test_a_table_that_is_rolled_back_goes_on_from_there(server: ServerProcess):
    lab = _Lab(server, "rolled")
    lab.put((1, 16, "u"), (2, 24, "u"))
    lab.advance()
    table = lab.catalog.load_table(("lake", "rolled"))
    earlier = table.current_snapshot().snapshot_id
    lab.put((1, 32, "d"), (2, 40, "u"))
    lab.advance()
    table.refresh().manage_snapshots().rollback_to_snapshot(earlier).commit()
    assert lab.advance() == 2
    assert lab.stored() == _lines(lab.whole) == ['{"id": 2, "lsn": 40}']


@pytest.mark.slow
def test_old_tombstones_go_and_expired_records_are_said(server: ServerProcess):
    lab = _Lab(server, "old")
    lab.put((1, 16, "d"), (2, 24, "u"))
    lab.advance()
    for _ in range(3):
        lab.clock.advance(20 * 3600)
        lab.advance()
    rows = lab.catalog.load_table(("lake", "old")).scan().to_arrow().to_pylist()
    assert [row["key"] for row in rows] == ["2"]
    lab.clock.advance(25 * 3600)
    with pytest.raises(CaptureError, match="some have expired unread"):
        lab.advance()


@pytest.mark.slow
def test_a_table_of_others_is_refused(server: ServerProcess):
    lab = _Lab(server, "theirs")
    lab.advance()
    table = lab.catalog.load_table(("lake", "theirs"))
    other = lab.catalog.create_table(("lake", "others"), table.schema())
    other.append(table.scan().to_arrow())
    with pytest.raises(CaptureError, match=r"lake.others has rows, and no snapshot says"):
        IcebergRows(lab.catalog, "lake", "others", lab.clock).advance(lab.kinesis, "theirs")


def test_what_a_person_must_change_is_said(server: ServerProcess):
    lab, glue = _Lab(server, "refused"), server.client("glue")
    for name, location in (("nowhere", {}), ("gone", {"LocationUri": "s3://not-there/x"})):
        glue.create_database(DatabaseInput={"Name": name, **location})
    for name, parameters in (("plain", {"a": "b"}), ("delta", {"table_type": "DELTA"})):
        table_input = {"Name": name, "Parameters": parameters}
        glue.create_table(DatabaseName="lake", TableInput=table_input)
    fields = schema().fields[:2]
    lab.catalog.create_table(("lake", "narrow"), Schema(*fields))
    for database, table, sentence in (
        ("absent", "t", "There is no database absent"),
        ("nowhere", "t", r"nowhere\.t cannot be made or read"),
        ("gone", "t", r"gone\.t cannot be made or read"),
        ("lake", "plain", r"lake\.plain is no Iceberg table"),
        ("lake", "delta", r"lake\.delta is no Iceberg table"),
        ("lake", "narrow", r"lake\.narrow has other columns"),
    ):
        rows = IcebergRows(lab.catalog, database, table, lab.clock)
        with pytest.raises(CaptureError, match=sentence):
            rows.advance(lab.kinesis, "refused")


def test_compact_of_a_user_without_keys_is_said(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    result = CliRunner().invoke(compact, ["changes", "iceberg://lake/t", "--aws"])
    assert result.exit_code == 1
    assert "credentials" in result.output
    assert isinstance(result.exception, SystemExit)
