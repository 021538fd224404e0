"""UpdateShardCount, StartStreamEncryption, StopStreamEncryption: how often in a rolling day."""

from __future__ import annotations

from typing import Any

from tests.api.kinesis.streams import Streams, failure
from tests.support.clock import FakeClock

DAY_S = 86_400
KEY = {"StreamName": "flights", "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}


def scale(kinesis: Any, target: int) -> None:
    kinesis.update_shard_count(
        StreamName="flights", TargetShardCount=target, ScalingType="UNIFORM_SCALING"
    )


class TestBehaviour:
    def test_ten_shard_counts_a_day(self, streams: Streams, kinesis: Any, clock: FakeClock):
        streams.create(shards=2)
        for number in range(10):
            clock.advance(60)
            scale(kinesis, 3 if number % 2 == 0 else 2)
        assert failure(scale, kinesis=kinesis, target=3).code == "LimitExceededException"
        clock.advance(DAY_S - 540)
        scale(kinesis, 3)
        assert failure(scale, kinesis=kinesis, target=2).code == "LimitExceededException"

    def test_what_is_refused_is_not_counted(self, streams: Streams, kinesis: Any):
        streams.create(shards=2)
        for _ in range(11):
            assert failure(scale, kinesis=kinesis, target=5).code == "InvalidArgumentException"
        scale(kinesis, 4)

    def test_twenty_five_keys_a_day(self, streams: Streams, kinesis: Any, clock: FakeClock):
        streams.create()
        for _ in range(25):
            kinesis.start_stream_encryption(**KEY)
        error = failure(kinesis.start_stream_encryption, **KEY)
        assert error.code == "LimitExceededException"
        for _ in range(25):
            kinesis.stop_stream_encryption(**KEY)
        error = failure(kinesis.stop_stream_encryption, **KEY)
        assert error.code == "LimitExceededException"
        clock.advance(DAY_S)
        kinesis.start_stream_encryption(**KEY)


class TestValidation:
    def test_kms_is_the_only_encryption(self, streams: Streams, kinesis: Any):
        streams.create()
        for call in (kinesis.start_stream_encryption, kinesis.stop_stream_encryption):
            error = failure(call, **{**KEY, "EncryptionType": "NONE"})
            assert error.code == "InvalidArgumentException"
