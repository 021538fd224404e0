"""PutRecord."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from tests.api.kinesis.streams import NOT_FOUND, Streams, arn_of, failure


class TestSerialization:
    @pytest.mark.parametrize("data", ["abc", "ab=c", "a b=", "é", 7, ["YQ=="], {"a": 1}])
    def test_data_that_is_no_base64(self, streams: Streams, data: Any):
        streams.create()
        body = {"StreamName": "flights", "PartitionKey": "k", "Data": data}
        status, answer = streams.raw("PutRecord", body)
        assert (status, answer["__type"]) == (400, "SerializationException")

    @pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{]", b"\xff\xfe", b'{"a":1}x'])
    def test_bodies_that_are_no_request(self, streams: Streams, body: bytes):
        status, answer = streams.raw("PutRecord", body)
        assert status == 400
        assert answer["__type"] in ("SerializationException", "ValidationException")


class TestValidation:
    def test_all_that_is_missing_is_named(self, kinesis: Any):
        error = failure(kinesis.put_record, StreamName="flights")
        assert error.code == "ValidationException"
        assert "Value null at 'data' failed to satisfy constraint: Member must not be null" in (
            error.message
        )

    def test_an_empty_key_and_one_of_257_letters(self, streams: Streams, kinesis: Any):
        streams.create()
        for key, constraint in (("", "greater than or equal to 1"), ("k" * 257, "256")):
            error = failure(kinesis.put_record, StreamName="flights", Data=b"x", PartitionKey=key)
            assert error.code == "ValidationException"
            assert constraint in error.message

    def test_no_key(self, streams: Streams):
        streams.create()
        body = {"StreamName": "flights", "Data": "YQ=="}
        status, answer = streams.raw("PutRecord", body)
        assert (status, answer["__type"]) == (400, "ValidationException")
        assert "Value null at 'partitionKey'" in answer["message"]

    def test_a_record_above_a_mebibyte(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.put_record(StreamName="flights", Data=bytes(1 << 20), PartitionKey="k")
        error = failure(
            kinesis.put_record, StreamName="flights", Data=bytes((1 << 20) + 1), PartitionKey="k"
        )
        assert error.code == "ValidationException"
        assert "Member must have length less than or equal to 1048576" in error.message

    @pytest.mark.parametrize("key", ["007", "-1", "x", str(1 << 128), "9" * 40])
    def test_hash_keys_that_are_none(self, streams: Streams, kinesis: Any, key: str):
        streams.create()
        error = failure(
            kinesis.put_record,
            StreamName="flights",
            Data=b"x",
            PartitionKey="k",
            ExplicitHashKey=key,
        )
        assert error.code in ("ValidationException", "InvalidArgumentException")
        assert streams.texts() == []

    def test_an_ordering_number_that_is_none(self, streams: Streams, kinesis: Any):
        streams.create()
        error = failure(
            kinesis.put_record,
            StreamName="flights",
            Data=b"x",
            PartitionKey="k",
            SequenceNumberForOrdering="5",
        )
        assert error.code == "InvalidArgumentException"
        assert error.message.startswith("ExclusiveMinimumSequenceNumber 5 used in PutRecord")


class TestBehaviour:
    def test_a_missing_stream(self, kinesis: Any):
        error = failure(kinesis.put_record, StreamName="nowhere", Data=b"x", PartitionKey="k")
        assert (error.code, error.message) == ("ResourceNotFoundException", NOT_FOUND)

    def test_the_record_goes_to_the_shard_of_its_keys_md5(self, streams: Streams, kinesis: Any):
        streams.create(shards=4)
        for number in range(40):
            key = f"key {number} é"
            answer = kinesis.put_record(StreamName="flights", Data=b"x", PartitionKey=key)
            hash_key = int(hashlib.md5(key.encode()).hexdigest(), 16)
            [shard] = [
                shard["ShardId"]
                for shard in streams.shards()
                if int(shard["HashKeyRange"]["StartingHashKey"])
                <= hash_key
                <= int(shard["HashKeyRange"]["EndingHashKey"])
            ]
            assert answer["ShardId"] == shard

    def test_an_explicit_hash_key_wins(self, streams: Streams, kinesis: Any):
        streams.create(shards=2)
        for hash_key, shard in (("0", "0"), (str((1 << 127) - 1), "0"), (str(1 << 127), "1")):
            answer = kinesis.put_record(
                StreamName="flights", Data=b"x", PartitionKey="k", ExplicitHashKey=hash_key
            )
            assert answer["ShardId"][-1] == shard

    def test_data_and_keys_come_back_as_they_were(self, streams: Streams, kinesis: Any):
        streams.create()
        data, key = bytes(range(256)), 'a "quoted"\n\\ key é😀'
        put = kinesis.put_record(StreamARN=arn_of("flights"), Data=data, PartitionKey=key)
        [record] = kinesis.get_records(ShardIterator=streams.iterator())["Records"]
        assert (record["Data"], record["PartitionKey"]) == (data, key)
        assert record["SequenceNumber"] == put["SequenceNumber"]
        at = record["ApproximateArrivalTimestamp"].timestamp()
        assert round(at * 1000) == streams.clock.now_ms()

    def test_empty_data_is_data(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.put_record(StreamName="flights", Data=b"", PartitionKey="k")
        assert streams.texts() == [""]

    def test_numbers_have_56_digits_and_increase(self, streams: Streams, kinesis: Any):
        streams.create()
        numbers = [
            kinesis.put_record(StreamName="flights", Data=b"x", PartitionKey=str(i))[
                "SequenceNumber"
            ]
            for i in range(20)
        ]
        assert {len(number) for number in numbers} == {56}
        assert numbers == sorted(set(numbers))

    def test_an_ordering_number_is_taken(self, streams: Streams, kinesis: Any):
        streams.create()
        [first] = streams.put("a")
        kinesis.put_record(
            StreamName="flights",
            Data=b"b",
            PartitionKey="k",
            SequenceNumberForOrdering=first["SequenceNumber"],
        )
        assert streams.texts() == ["a", "b"]

    def test_numbers_are_above_the_ordering_number_across_reshards(
        self, streams: Streams, kinesis: Any
    ):
        streams.create()
        number = streams.put("a")[0]["SequenceNumber"]
        for shard in ("0", "1", "3"):
            kinesis.split_shard(
                StreamName="flights",
                ShardToSplit=shard,
                NewStartingHashKey=str(1 << (127 - int(shard))),
            )
            answer = kinesis.put_record(
                StreamName="flights",
                Data=b"b",
                PartitionKey="k",
                ExplicitHashKey="0",
                SequenceNumberForOrdering=number,
            )
            assert int(answer["SequenceNumber"]) > int(number)
            number = answer["SequenceNumber"]

    def test_a_dry_run_stores_nothing(self, streams: Streams):
        streams.create()
        for operation, body in (
            ("PutRecord", {"Data": "YQ==", "PartitionKey": "k"}),
            ("PutRecords", {"Records": [{"Data": "YQ==", "PartitionKey": "k"}]}),
        ):
            status, answer = streams.raw(
                operation, {"StreamName": "flights", "DryRun": True, **body}
            )
            assert (status, answer["__type"]) == (400, "DryRunOperationException")
        assert streams.texts() == []

    def test_an_encrypted_stream_says_so(self, streams: Streams, kinesis: Any):
        streams.create()
        kinesis.start_stream_encryption(
            StreamName="flights", EncryptionType="KMS", KeyId="alias/aws/kinesis"
        )
        answer = kinesis.put_record(StreamName="flights", Data=b"x", PartitionKey="k")
        assert answer["EncryptionType"] == "KMS"
        [record] = kinesis.get_records(ShardIterator=streams.iterator())["Records"]
        assert record["EncryptionType"] == "KMS"

    def test_a_body_as_the_sdk_for_java_sends_it(self, streams: Streams):
        streams.create()
        data = base64.b64encode(b"x").decode()
        status, answer = streams.raw(
            "PutRecord", {"StreamName": "flights", "Data": data, "PartitionKey": "k"}
        )
        assert (status, answer["ShardId"]) == (200, "shardId-000000000000")
