"""UpdateMaxRecordSize, and the sizes that PutRecord and PutRecords then take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.cloud import InProcessCloud

ARN = arn_of("flights")
KIB = 1024


def put(kinesis: Any, size_bytes: int) -> None:
    kinesis.put_record(StreamName="flights", Data=b"x" * size_bytes, PartitionKey="k")


class TestSerialization:
    def test_it_is_answered_with_nothing(self, streams: Streams):
        streams.create()
        request = {"StreamARN": ARN, "MaxRecordSizeInKiB": 2048}
        assert streams.raw("UpdateMaxRecordSize", request) == (200, {})


class TestValidation:
    @pytest.mark.parametrize(
        ("kib", "constraint"),
        [(1023, "greater than or equal to 1024"), (10241, "less than or equal to 10240")],
    )
    def test_from_one_to_ten_mebibytes(
        self, streams: Streams, kinesis: Any, kib: int, constraint: str
    ):
        streams.create()
        error = failure(kinesis.update_max_record_size, StreamARN=ARN, MaxRecordSizeInKiB=kib)
        assert error.code == "ValidationException"
        assert error.message == (
            f"1 validation error detected: Value '{kib}' at 'maxRecordSizeInKiB' failed to satisfy"
            f" constraint: Member must have value {constraint}"
        )

    def test_a_stream_must_be_named_and_be_there(self, kinesis: Any):
        error = failure(kinesis.update_max_record_size, MaxRecordSizeInKiB=2048)
        assert error.code == "InvalidArgumentException"
        error = failure(
            kinesis.update_max_record_size, StreamARN=arn_of("nowhere"), MaxRecordSizeInKiB=2048
        )
        assert error.code == "ResourceNotFoundException"


class TestBehaviour:
    def test_a_record_is_as_large_as_the_stream_says(self, streams: Streams, kinesis: Any):
        streams.create()
        put(kinesis, 1024 * KIB)
        assert failure(put, kinesis=kinesis, size_bytes=1024 * KIB + 1).code == (
            "ValidationException"
        )
        kinesis.update_max_record_size(StreamARN=ARN, MaxRecordSizeInKiB=2048)
        put(kinesis, 2048 * KIB)
        error = failure(put, kinesis=kinesis, size_bytes=2048 * KIB + 1)
        assert error.message.endswith("Member must have length less than or equal to 2097152")
        records = [{"Data": b"x" * (2048 * KIB + 1), "PartitionKey": "k"}]
        error = failure(kinesis.put_records, StreamName="flights", Records=records)
        assert error.code == "ValidationException"

    def test_ten_mebibytes_are_put_and_read(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.update_max_record_size(StreamARN=ARN, MaxRecordSizeInKiB=10240)
        put(kinesis, 10240 * KIB)
        put(kinesis, 1)
        got = kinesis.get_records(ShardIterator=streams.iterator())
        assert [len(record["Data"]) for record in got["Records"]] == [10240 * KIB]
        got = kinesis.get_records(ShardIterator=got["NextShardIterator"])
        assert [len(record["Data"]) for record in got["Records"]] == [1]

    def test_the_size_is_shown_and_outlasts_a_restart(
        self, streams: Streams, kinesis: Any, cloud: InProcessCloud
    ):
        streams.create()
        kinesis.update_max_record_size(StreamARN=ARN, MaxRecordSizeInKiB=4096)
        cloud.stop()
        with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
            summary = again.client("kinesis").describe_stream_summary(StreamName="flights")
        assert summary["StreamDescriptionSummary"]["MaxRecordSizeInKiB"] == 4096
