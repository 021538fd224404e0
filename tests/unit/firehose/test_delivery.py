"""Buffering, and each record exactly once whatever step of a delivery a kill cuts short."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from headrace.core.ports import SchemaNotFound
from headrace.core.workers import WorkerDone
from headrace.services.firehose.s3_settings import check_extended_s3
from headrace.services.firehose.sources import (
    TRIM_HORIZON,
    JournalSource,
    KinesisSource,
    at_position,
)
from tests.support.objects import Killed
from tests.support.streams import STREAM_ARN, MemoryStreams
from tests.unit.firehose.helpers import CONVERSION, SHARD, Lab, processing


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# --- buffering --------------------------------------------------------------------------------


def test_the_interval_counts_from_the_first_record(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(20)
    lab.put(b"two")
    lab.settle()
    lab.clock.advance(39.9)
    assert lab.settle() == pytest.approx(0.1)
    assert lab.objects.objects == {}
    lab.clock.advance(0.1)
    assert lab.settle() == math.inf
    assert lab.delivered == b"onetwo"
    assert len(lab.objects.objects) == 1


def test_a_full_buffer_does_not_wait(lab: Lab):
    lab.put(*[b"x" * 300_000] * 4)
    lab.put(b"y")
    assert lab.settle() == math.inf
    assert len(lab.objects.objects) == 1
    lab.put(b"z")
    lab.settle()
    assert len(lab.objects.objects) == 1


def test_appends_wake_an_empty_buffer_only(lab: Lab):
    assert lab.settle() == math.inf
    assert lab.delivery.wants_waking
    lab.put(b"one")
    assert 0 < lab.settle() < 1
    assert not lab.delivery.wants_waking
    lab.clock.advance(60)
    lab.settle()
    assert lab.delivery.wants_waking


def test_what_was_put_before_the_delivery_stream_is_not_delivered(tmp_path: Path):
    streams = MemoryStreams()
    streams.put(b"old")
    lab = Lab(tmp_path, source=KinesisSource(streams, STREAM_ARN))
    streams.put(b"new")
    lab.deliver()
    assert lab.delivered == b"new"


def test_children_are_read_after_their_parent_into_the_same_buffer(lab: Lab):
    lab.put(b"1", b"2")
    lab.streams.replace(SHARD, "shardId-1", "shardId-2")
    lab.put(b"4", shard="shardId-2")
    lab.put(b"3", shard="shardId-1")
    lab.deliver()
    assert list(lab.objects.objects.values()) == [b"1234"]


def test_a_stream_made_anew_under_the_same_name_is_read_from_its_first_record(lab: Lab):
    lab.put(b"old")
    lab.streams.replace(SHARD, "shardId-1")
    lab.deliver()
    fresh = MemoryStreams()
    lab.source = KinesisSource(fresh, STREAM_ARN)
    lab.start()
    fresh.put(b"new")
    lab.deliver()
    assert sorted(lab.objects.objects.values()) == [b"new", b"old"]


def test_a_stream_that_is_gone_is_waited_for(lab: Lab):
    lab.streams.delete()
    assert lab.settle() == math.inf


def test_the_status_says_what_waits(lab: Lab):
    lab.put(b"one", b"two")
    lab.settle()
    lab.clock.advance(3)
    status = lab.delivery.status()
    assert (status["buffered_records"], status["behind_ms"]) == (2, 3000)
    lab.deliver()
    status = lab.delivery.status()
    assert (status["buffered_records"], status["behind_ms"]) == (0, 0)
    assert (status["delivered_records"], status["delivered_bytes"]) == (2, 6)


# --- once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["die before", "die after", "refuse"])
def test_a_kill_between_the_steps_loses_and_doubles_nothing(lab: Lab, fate: str):
    lab.put(b"one", b"two")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = [fate]
    with pytest.raises((Killed, OSError)):
        lab.settle()
    lab.put(b"three")
    lab.clock.advance(1)
    lab.start()
    lab.settle()
    assert lab.delivered == b"onetwo"
    lab.deliver()
    assert sorted(lab.objects.objects.values()) == [b"onetwo", b"three"]
    assert lab.delivery.progress.delivered_records == 3


@pytest.mark.parametrize("seed", range(8))
def test_any_run_of_kills_and_reshards_delivers_each_record_once_and_in_order(
    tmp_path: Path, seed: int
):
    dice = random.Random(seed)
    lab = Lab(tmp_path)
    shards, made, sent = [SHARD], 1, 0
    for _ in range(60):
        lab.objects.fates = [
            dice.choice(["ok", "ok", "die before", "die after", "refuse"]) for _ in range(3)
        ]
        match dice.randrange(6):
            case 0 if made < 12:
                parent = shards.pop(dice.randrange(len(shards)))
                children = [f"shardId-{100 + made}", f"shardId-{101 + made}"]
                made += 2
                lab.streams.replace(parent, *children)
                shards += children
            case 1:
                lab.start()
            case 2:
                lab.clock.advance(60)
            case _:
                for _ in range(dice.randrange(5)):
                    lab.put(b"%d." % sent, shard=dice.choice(shards))
                    sent += 1
        lab.settle_through_kills()
    lab.objects.fates = []
    for _ in range(3):
        lab.clock.advance(60)
        lab.settle_through_kills()
    found = [int(n) for n in lab.delivered.split(b".") if n]
    assert Counter(found) == Counter(range(sent))
    assert lab.delivery.progress.delivered_records == sent
    # Within each object, a shard's records are in order, and no child's come before its parent's.
    for body in lab.objects.objects.values():
        numbers = [int(n) for n in body.split(b".") if n]
        by_shard = {
            name: [int(r.data[:-1]) for r in shard.records]
            for name, shard in lab.streams._shards.items()
        }
        for members in by_shard.values():
            mine = [n for n in numbers if n in members]
            assert mine == sorted(mine)


def test_what_retention_took_does_not_make_a_repeated_delivery_take_others(lab: Lab):
    lab.put(b"one", b"two")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = ["refuse"]
    with pytest.raises(OSError, match="no space"):
        lab.settle()
    del lab.streams._shards[SHARD].records[0]
    lab.put(b"three")
    lab.start()
    lab.settle()
    assert lab.delivered == b"two"
    assert "1 records of shardId-0 were gone" in lab.logs.lines[-1]
    lab.deliver()
    assert sorted(lab.objects.objects.values()) == [b"three", b"two"]


def test_a_destination_changed_after_a_failure_takes_the_records(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.refuse = True
    with pytest.raises(OSError, match="no space"):
        lab.settle()
    lab.stream.destination = check_extended_s3({**lab.stream.destination, "Prefix": "moved/"})
    lab.stream.version = 2
    with pytest.raises(OSError, match="no space"):
        lab.settle()
    lab.objects.refuse = False
    lab.start()
    lab.settle()
    (key,) = lab.objects.objects
    assert key.startswith("lake/moved/")
    assert "/d-2-" in key


def test_a_delivery_that_was_decided_keeps_its_destination(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = ["die after"]
    with pytest.raises(Killed):
        lab.settle()
    lab.stream.destination = check_extended_s3({**lab.stream.destination, "Prefix": "moved/"})
    lab.stream.version = 2
    lab.start()
    lab.settle()
    (key,) = lab.objects.objects
    assert key.startswith("lake/p/")


def test_a_failing_bucket_is_tried_again_and_said(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.refuse = True
    with pytest.raises(OSError, match="no space"):
        lab.delivery.step()
    line = json.loads(lab.logs.lines[0])
    assert "no space left" in line["message"]
    assert line["deliveryStreamARN"] == lab.stream.arn
    assert "no space left" in lab.delivery.status()["last_error"]
    assert not lab.delivery.wants_waking
    lab.objects.refuse = False
    lab.settle()
    assert lab.delivered == b"one"
    assert lab.delivery.status()["last_error"] == ""
    success = [m.value for m in lab.metrics.metrics if m.name == "DeliveryToS3.Success"]
    assert success == [0, 1]


def test_a_deleted_delivery_stream_writes_nothing_more(lab: Lab):
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(60)
    lab.store.delete("id")
    lab.current = False
    with pytest.raises(WorkerDone):
        lab.delivery.step()
    assert lab.objects.objects == {}


# --- what is written --------------------------------------------------------------------------


def test_gzip_and_a_delimiter_between_two_records(tmp_path: Path):
    lab = Lab(
        tmp_path,
        CompressionFormat="GZIP",
        ProcessingConfiguration=processing("AppendDelimiterToRecord"),
    )
    lab.put(b"one", b"two")
    lab.deliver()
    (key,) = lab.objects.objects
    assert key.endswith(".gz")
    assert gzip.decompress(lab.delivered) == b"one\ntwo"


def test_records_that_cannot_be_converted_go_to_the_error_prefix(tmp_path: Path):
    lab = Lab(tmp_path, **CONVERSION)
    lab.put(b'{"a": 1}', b"nonsense", b'{"a": "x"}')
    lab.deliver()
    bad, good = sorted(lab.objects.objects)
    assert bad.startswith("lake/bad/format-conversion-failed/d-1-")
    assert good.endswith(".parquet")
    lines = [json.loads(line) for line in lab.objects.objects[bad].splitlines()]
    assert [line["lastErrorCode"] for line in lines] == [
        "DataFormatConversion.ParseError",
        "DataFormatConversion.MalformedData",
    ]
    assert lines[0] | {"lastErrorMessage": ""} == {
        "attemptsMade": 1,
        "arrivalTimestamp": 1_700_000_000_000,
        "lastErrorCode": "DataFormatConversion.ParseError",
        "lastErrorMessage": "",
        "attemptEndingTimestamp": 1_700_000_060_000,
        "rawData": "bm9uc2Vuc2U=",
        "sequenceNumber": f"{2:056d}",
        "subSequenceNumber": 0,
        "dataCatalogTable": {
            "catalogId": "000000000000",
            "databaseName": "d",
            "tableName": "t",
            "region": "us-east-1",
            "versionId": "LATEST",
            "roleArn": "arn:aws:iam::000000000000:role/r",
        },
    }
    assert lab.delivery.progress.failed_records == 2


@pytest.mark.parametrize("fates", [["die after"], ["ok", "die before"], ["ok", "refuse"]])
def test_a_kill_between_the_errors_and_the_rows_doubles_neither(tmp_path: Path, fates: list[str]):
    lab = Lab(tmp_path, **CONVERSION)
    lab.put(b'{"a": 1}', b"nonsense")
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = fates
    lab.settle_through_kills()
    assert len(lab.objects.objects) == 2
    assert lab.delivery.progress.failed_records == 1


def test_what_a_repeated_delivery_no_longer_refuses_is_taken_from_the_errors(tmp_path: Path):
    lab = Lab(tmp_path, **CONVERSION)
    lab.put(b'{"a": "x"}')
    lab.settle()
    lab.clock.advance(60)
    lab.objects.fates = ["die after"]
    with pytest.raises(Killed):
        lab.settle()
    lab.schemas.columns = (("a", "string"),)
    lab.start()
    lab.settle()
    (key,) = lab.objects.objects
    assert key.endswith(".parquet")


def test_a_table_that_is_not_there_is_waited_for(tmp_path: Path):
    lab = Lab(tmp_path, **CONVERSION)
    columns, lab.schemas.columns = lab.schemas.columns, ()
    lab.put(b'{"a": 1}')
    lab.settle()
    lab.clock.advance(60)
    with pytest.raises(SchemaNotFound, match=r"d\.t"):
        lab.settle()
    assert "DataFormatConversion.EntityNotFound" in lab.logs.lines[0]
    lab.schemas.columns = columns
    lab.settle()
    assert len(lab.objects.objects) == 1


# --- the journal ------------------------------------------------------------------------------


def test_records_put_directly_are_there_after_a_kill(tmp_path: Path):
    def journal() -> JournalSource:
        return JournalSource(tmp_path / "journal", "id", 1_700_000_000_000)

    first = journal()
    lab = Lab(tmp_path, source=first)
    first.put(["b25l", "", "dHdv"], 6, lab.clock.now_ms(), sync=True)
    lab.settle()
    # Killed with all in the buffer: the journal is all there is.
    lab.source = journal()
    lab.start()
    lab.deliver()
    assert lab.delivered == b"onetwo"
    assert lab.delivery.progress.delivered_records == 3


def test_a_journal_of_an_earlier_version_is_read(tmp_path: Path):
    # They held records as GetRecords sends them; one may be left undelivered when headrace is updated.
    journal = JournalSource(tmp_path / "journal", "id", 1_700_000_000_000)
    lab = Lab(tmp_path, source=journal)
    journal.log.append_columns(["b25l", "dHdv"], ["", ""], 6, lab.clock.now_ms())
    journal.put(["dGhyZWU="], 5, lab.clock.now_ms(), sync=False)
    lab.deliver()
    assert lab.delivered == b"onetwothree"


def test_records_of_a_journal_have_growing_numbers_wherever_a_read_begins(tmp_path: Path):
    journal = JournalSource(tmp_path / "journal", "id", 1_700_000_000_000)
    firsts = [journal.put(["YQ==", "Yg=="], 2, at_ms, sync=False) for at_ms in (5_000, 9_000)]
    whole = journal.read("journal", TRIM_HORIZON, 10, 100).records
    numbers = [record.sequence_number for record in whole]
    assert numbers[::2] == firsts
    assert numbers == sorted(set(numbers), key=int)
    for place, number in enumerate(numbers):
        one = journal.read("journal", at_position(number), 1, 100).records
        assert one == whole[place : place + 1]


def test_a_journal_lets_go_of_what_is_delivered(tmp_path: Path):
    journal = JournalSource(tmp_path / "journal", "id", 1_700_000_000_000, roll_at_bytes=1_000_000)
    lab = Lab(tmp_path, source=journal)
    for _ in range(3):
        journal.put(["eHh4" * 170_000] * 3, 1_530_000, lab.clock.now_ms(), sync=False)
        lab.clock.advance(1)
        lab.deliver()
    assert lab.delivery.progress.delivered_records == 9
    on_disk = sum(path.stat().st_size for path in (tmp_path / "journal").iterdir())
    assert on_disk < 3 * 1_500_000
