"""PutRecords."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from tests.api.kinesis.streams import NOT_FOUND, Streams, failure


def _entry(data: bytes = b"x", key: str = "k") -> dict[str, Any]:
    return {"Data": data, "PartitionKey": key}


class TestSerialization:
    @pytest.mark.parametrize(
        "records", ["x", {}, [1], [{"Data": "YQ==", "PartitionKey": 5}], [{"Data": "Y"}]]
    )
    def test_members_of_the_wrong_type(self, streams: Streams, records: Any):
        streams.create()
        status, answer = streams.raw("PutRecords", {"StreamName": "flights", "Records": records})
        assert (status, answer["__type"]) == (400, "SerializationException")

    def test_one_bad_record_refuses_all(self, streams: Streams):
        streams.create()
        records = [{"Data": "YQ==", "PartitionKey": "k"}, {"Data": "Y===", "PartitionKey": "k"}]
        status, _ = streams.raw("PutRecords", {"StreamName": "flights", "Records": records})
        assert status == 400
        assert streams.texts() == []


class TestValidation:
    @pytest.mark.parametrize(("count", "bound"), [(0, "equal to 1"), (501, "equal to 500")])
    def test_the_number_of_records(self, streams: Streams, kinesis: Any, count: int, bound: str):
        streams.create()
        error = failure(kinesis.put_records, StreamName="flights", Records=[_entry()] * count)
        assert error.code == "ValidationException"
        assert "at 'records' failed to satisfy constraint" in error.message
        assert bound in error.message

    def test_the_failing_record_is_named(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(
            kinesis.put_records,
            StreamName="flights",
            Records=[_entry(), _entry(bytes((1 << 20) + 1))],
        )
        assert "at 'records.2.member.data'" in error.message
        error = failure(
            kinesis.put_records, StreamName="flights", Records=[_entry(), _entry(key="k" * 257)]
        )
        assert "at 'records.2.member.partitionKey'" in error.message
        assert streams.texts() == []

    def test_a_request_above_ten_mebibytes(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(
            kinesis.put_records, StreamName="flights", Records=[_entry(bytes(1 << 20))] * 11
        )
        assert error.code == "InvalidArgumentException"
        assert streams.texts() == []


class TestBehaviour:
    def test_a_missing_stream(self, kinesis: Any):
        error = failure(kinesis.put_records, StreamName="nowhere", Records=[_entry()])
        assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)

    def test_results_stand_in_the_order_of_the_records(self, streams: Streams, kinesis: Any):
        streams.create(shards=4)
        answer = kinesis.put_records(
            StreamName="flights", Records=[_entry(b"%d" % i, f"k{i}") for i in range(200)]
        )
        assert answer["FailedRecordCount"] == 0
        stored: dict[str, tuple[str, str]] = {}
        for shard in streams.shards():
            got = kinesis.get_records(ShardIterator=streams.iterator(shard=shard["ShardId"]))
            numbers = [int(record["SequenceNumber"]) for record in got["Records"]]
            assert numbers == sorted(set(numbers))
            for record in got["Records"]:
                text = record["Data"].decode()
                assert record["PartitionKey"] == f"k{text}"
                stored[text] = (shard["ShardId"], record["SequenceNumber"])
        assert [(r["ShardId"], r["SequenceNumber"]) for r in answer["Records"]] == [
            stored[str(i)] for i in range(200)
        ]

    def test_the_order_within_a_key_is_kept(self, streams: Streams):
        streams.create()
        streams.put(*[str(i) for i in range(500)])
        streams.put("500")
        assert streams.texts() == [str(i) for i in range(501)]

    def test_explicit_hash_keys_beside_plain_keys(self, streams: Streams, kinesis: Any):
        streams.create(shards=2)
        high = str((1 << 128) - 1)
        answer = kinesis.put_records(
            StreamName="flights",
            Records=[{**_entry(), "ExplicitHashKey": "0"}, {**_entry(), "ExplicitHashKey": high}],
        )
        assert [r["ShardId"][-1] for r in answer["Records"]] == ["0", "1"]
        error = failure(
            kinesis.put_records,
            StreamName="flights",
            Records=[_entry(), {**_entry(), "ExplicitHashKey": str(1 << 128)}],
        )
        assert error.code == "InvalidArgumentException"
        assert "ExplicitHashKey must be in the range: [0, 2^128-1]" in error.message

    def test_a_full_disk_fails_the_records_and_acknowledges_none(
        self, streams: Streams, kinesis: Any, monkeypatch: pytest.MonkeyPatch
    ):
        streams.create()
        streams.put("before")

        def full(fd: int, data: bytes, offset: int) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as disk:
            disk.setattr(os, "pwrite", full)
            answer = kinesis.put_records(StreamName="flights", Records=[_entry()] * 3)
            one = failure(kinesis.put_record, StreamName="flights", **_entry())
        assert answer["FailedRecordCount"] == 3
        assert {r["ErrorCode"] for r in answer["Records"]} == {"InternalFailure"}
        assert (one.code, one.status) == ("InternalFailure", 500)
        streams.put("after")
        assert streams.texts() == ["before", "after"]
