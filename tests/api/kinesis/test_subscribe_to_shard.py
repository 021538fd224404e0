"""SubscribeToShard: the request, and what is pushed when; test_subscribe_live.py has the sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from headrace.aws.protocols.codec_json import CBOR_1_1, decode_body
from headrace.services.kinesis.data_path.get import start_index
from headrace.services.kinesis.errors import SUBSCRIPTION_EVENT_BYTES
from headrace.services.kinesis.subscriptions import SentEvent, Subscription
from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.clock import FakeClock
from tests.support.cloud import ACCOUNT, InProcessCloud

ARN = arn_of("flights")
SHARD = "shardId-000000000000"
START = {"Type": "TRIM_HORIZON"}


def register(kinesis: Any, name: str = "radar") -> str:
    answer = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName=name)
    return str(answer["Consumer"]["ConsumerARN"])


class Reader:
    """A subscription driven by hand."""

    def __init__(
        self,
        cloud: InProcessCloud,
        clock: FakeClock,
        arn: str,
        kind: str = "TRIM_HORIZON",
        number: str | None = None,
        *,
        at: datetime | None = None,
        shard: str = SHARD,
        cbor: bool = False,
    ) -> None:
        self._clock = clock
        self._cbor = cbor
        kinesis, now_ms = cloud.cloud.kinesis, clock.now_ms()
        stream = kinesis.registry.find_arn(ARN)
        consumer = kinesis.consumers.by_arn(arn, now_ms)
        assert stream is not None
        assert consumer is not None
        found = stream.shard(shard)
        assert found is not None
        index = start_index(stream, found, kind, number, at, now_ms, "SubscribeToShard")
        self.subscription: Subscription = kinesis.subscriptions.open(
            stream, found, consumer, index, cbor=cbor, now_ms=now_ms
        )

    def messages(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the messages that are due now, as (event or exception type, payload)."""
        buffer = EventStreamBuffer()
        while due := self.subscription.next_messages(self._clock.now_ms()):
            buffer.add_data(b"".join(due))
        found: list[tuple[str, dict[str, Any]]] = []
        for message in buffer:
            kind = message.headers.get(":event-type") or message.headers[":exception-type"]
            payload = decode_body(message.payload, CBOR_1_1 if self._cbor else "application/json")
            found.append((kind, payload))
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the SubscribeToShardEvents that are due now."""
        for kind, payload in self.messages():
            if kind == "SubscribeToShardEvent":
                yield payload

    def numbers(self) -> list[str]:
        """Return the sequence numbers of the records that are due now."""
        return [record["SequenceNumber"] for event in self.events() for record in event["Records"]]


@pytest.fixture
def arn(streams: Streams, kinesis: Any) -> str:
    streams.create()
    return register(kinesis)


class TestSerialization:
    def test_a_bad_body_is_refused(self, streams: Streams):
        status, body = streams.raw("SubscribeToShard", b"{")
        assert (status, body["__type"]) == (400, "SerializationException")

    def test_the_first_message_is_the_initial_response(
        self, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        kind, payload = Reader(cloud, clock, arn).messages()[0]
        assert (kind, payload) == ("initial-response", {})

    def test_headers_say_what_a_message_is(self, cloud: InProcessCloud, clock: FakeClock, arn: str):
        buffer = EventStreamBuffer()
        for message in Reader(cloud, clock, arn).subscription.next_messages(clock.now_ms()):
            buffer.add_data(message)
        _, event = list(buffer)
        assert event.headers == {
            ":message-type": "event",
            ":event-type": "SubscribeToShardEvent",
            ":content-type": "application/json",
        }

    @pytest.mark.parametrize("cbor", [False, True])
    def test_records_are_as_get_records_gives_them(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str, cbor: bool
    ):
        streams.put("naïve", key='"ключ"\n')
        (event,) = Reader(cloud, clock, arn, cbor=cbor).events()
        (record,) = event["Records"]
        (wanted,) = streams.kinesis.get_records(ShardIterator=streams.iterator())["Records"]
        assert record["PartitionKey"] == wanted["PartitionKey"] == '"ключ"\n'
        assert record["SequenceNumber"] == wanted["SequenceNumber"]
        if cbor:
            assert record["Data"] == wanted["Data"]
            assert record["ApproximateArrivalTimestamp"] == wanted["ApproximateArrivalTimestamp"]
        else:
            assert record["Data"] == "bmHDr3Zl"
            assert record["ApproximateArrivalTimestamp"] == clock.now_ms() / 1000
        assert event["ContinuationSequenceNumber"] == wanted["SequenceNumber"]
        assert event["MillisBehindLatest"] == 0


class TestValidation:
    def test_several_errors_in_one_sentence(self, streams: Streams):
        _, body = streams.raw("SubscribeToShard", {"ConsumerARN": "x", "ShardId": "a b"})
        assert body["__type"] == "ValidationException"
        assert body["message"].startswith(
            "3 validation errors detected: Value null at 'startingPosition'"
        )

    def test_the_type_must_be_one(self, streams: Streams, arn: str):
        request = {"ConsumerARN": arn, "ShardId": SHARD, "StartingPosition": {"Type": "NOW"}}
        _, body = streams.raw("SubscribeToShard", request)
        assert "at 'startingPosition.type' failed to satisfy constraint" in body["message"]

    def test_a_consumer_that_is_not_there(self, kinesis: Any, arn: str):
        error = failure(
            kinesis.subscribe_to_shard,
            ConsumerARN=f"{ARN}/consumer/nobody:1", ShardId=SHARD, StartingPosition=START,
        )  # fmt: skip
        assert error.code == "ResourceNotFoundException"

    def test_a_shard_that_is_not_there(self, kinesis: Any, arn: str):
        error = failure(
            kinesis.subscribe_to_shard,
            ConsumerARN=arn, ShardId="shardId-000000000007", StartingPosition=START,
        )  # fmt: skip
        assert error.code == "ResourceNotFoundException"
        assert error.message == (
            f"Could not find shard shardId-000000000007 in stream flights under account {ACCOUNT}."
        )

    def test_a_consumer_must_be_active(self, cloud: InProcessCloud, kinesis: Any, arn: str):
        cloud.cloud.kinesis.consumers.creating_ms = 1_000
        early = register(kinesis, "early")
        error = failure(
            kinesis.subscribe_to_shard, ConsumerARN=early, ShardId=SHARD, StartingPosition=START
        )
        assert error.code == "ResourceInUseException"
        assert error.message == (
            "Consumer early with creation timestamp 1700000000 under stream: flights , account"
            f" {ACCOUNT} is not in ACTIVE status."
        )

    @pytest.mark.parametrize(
        "start",
        [
            {"Type": "AT_SEQUENCE_NUMBER"},
            {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": "7"},
            {"Type": "AT_TIMESTAMP"},
            {"Type": "AT_TIMESTAMP", "Timestamp": 1_800_000_000},
            {"Type": "LATEST", "SequenceNumber": "7"},
        ],
    )
    def test_a_position_that_is_none(self, kinesis: Any, arn: str, start: dict[str, Any]):
        error = failure(
            kinesis.subscribe_to_shard, ConsumerARN=arn, ShardId=SHARD, StartingPosition=start
        )
        assert error.code == "InvalidArgumentException"

    def test_a_dry_run_subscribes_nobody(self, cloud: InProcessCloud, kinesis: Any, arn: str):
        error = failure(
            kinesis.subscribe_to_shard,
            ConsumerARN=arn, ShardId=SHARD, StartingPosition=START, DryRun=True,
        )  # fmt: skip
        assert error.code == "DryRunOperationException"
        assert cloud.cloud.kinesis.subscriptions.count() == 0


class TestBehaviour:
    def test_every_starting_position(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        first = [record["SequenceNumber"] for record in streams.put("a", "b")]
        clock.advance(10)
        middle = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        later = [record["SequenceNumber"] for record in streams.put("c")]
        for number, (kind, sequence_number, at, wanted) in enumerate(
            (
                ("TRIM_HORIZON", None, None, first + later),
                ("LATEST", None, None, []),
                ("AT_SEQUENCE_NUMBER", first[1], None, [first[1], *later]),
                ("AFTER_SEQUENCE_NUMBER", first[1], None, later),
                ("AT_TIMESTAMP", None, middle, later),
            )
        ):
            name = register(kinesis, f"c{number}")
            reader = Reader(cloud, clock, name, kind, sequence_number, at=at)
            assert reader.numbers() == wanted, kind

    def test_records_come_as_they_are_put(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        reader = Reader(cloud, clock, arn, "LATEST")
        reader.messages()
        assert not reader.subscription.has_news()
        put = [record["SequenceNumber"] for record in streams.put("a", "b")]
        assert reader.subscription.has_news()
        assert reader.numbers() == put
        assert not reader.subscription.has_news()

    def test_an_idle_shard_gives_an_empty_event_every_five_seconds(
        self, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        reader = Reader(cloud, clock, arn)
        assert [len(event["Records"]) for event in reader.events()] == [0]
        clock.advance(4.999)
        assert reader.messages() == []
        assert reader.subscription.wait_ms(clock.now_ms()) == 1
        clock.advance(0.001)
        (event,) = reader.events()
        assert event["Records"] == []
        assert event["MillisBehindLatest"] == 0

    @pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
    def test_the_continuation_number_of_an_empty_event_loses_and_repeats_nothing(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str, kind: str
    ):
        for texts in ((), ("before",)):
            streams.put(*texts) if texts else None
            reader = Reader(cloud, clock, arn, "LATEST")
            (event,) = reader.events()
            reader.subscription.close()
            put = [record["SequenceNumber"] for record in streams.put("a", "b")]
            number = event["ContinuationSequenceNumber"]
            reader = Reader(cloud, clock, arn, kind, number)
            assert reader.numbers() == put
            reader.subscription.close()
            found = streams.texts(kind, StartingSequenceNumber=number)
            assert found == ["a", "b"]

    def test_after_the_continuation_number_of_records_comes_the_next_one(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        streams.put("a", "b")
        reader = Reader(cloud, clock, arn)
        (event,) = reader.events()
        reader.subscription.close()
        put = [record["SequenceNumber"] for record in streams.put("c")]
        number = event["ContinuationSequenceNumber"]
        assert Reader(cloud, clock, arn, "AFTER_SEQUENCE_NUMBER", number).numbers() == put

    def test_a_reader_that_is_behind_is_told_how_far(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        half = "x" * (SUBSCRIPTION_EVENT_BYTES // 2 + 1)
        streams.put(half)
        clock.advance(3)
        streams.put(half)
        clock.advance(4)
        first, second = Reader(cloud, clock, arn).events()
        assert (first["MillisBehindLatest"], second["MillisBehindLatest"]) == (7_000, 0)

    def test_a_record_of_ten_mebibytes_is_one_event(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        kinesis.update_max_record_size(StreamARN=ARN, MaxRecordSizeInKiB=10240)
        kinesis.put_record(StreamName="flights", Data=b"x" * 10 * 1024 * 1024, PartitionKey="k")
        streams.put("y")
        first, second = Reader(cloud, clock, arn).events()
        assert len(first["Records"][0]["Data"]) > 10 * 1024 * 1024
        assert len(second["Records"]) == 1

    def test_a_session_lasts_five_minutes(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        reader = Reader(cloud, clock, arn, "LATEST")
        reader.messages()
        clock.advance(299.999)
        assert len(reader.messages()) == 1
        assert reader.subscription.wait_ms(clock.now_ms()) == 1
        clock.advance(0.001)
        streams.put("too late for this session")
        assert reader.messages() == []
        assert reader.subscription.ended

    def test_a_split_shard_ends_with_its_children(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        reader = Reader(cloud, clock, arn, "LATEST")
        reader.messages()
        put = [record["SequenceNumber"] for record in streams.put("last")]
        kinesis.split_shard(
            StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127)
        )
        (event,) = reader.events()
        assert [record["SequenceNumber"] for record in event["Records"]] == put
        assert "ContinuationSequenceNumber" not in event
        assert event["ChildShards"] == [
            {
                "ShardId": f"shardId-00000000000{number}",
                "ParentShards": [SHARD],
                "HashKeyRange": {"StartingHashKey": str(start), "EndingHashKey": str(end)},
            }
            for number, start, end in ((1, 0, (1 << 127) - 1), (2, 1 << 127, (1 << 128) - 1))
        ]
        assert reader.subscription.ended

    def test_a_merged_pair_ends_with_one_child(
        self, cloud: InProcessCloud, clock: FakeClock, kinesis: Any
    ):
        kinesis.create_stream(StreamName="flights", ShardCount=2)
        arn = register(kinesis)
        shards = [SHARD, "shardId-000000000001"]
        kinesis.merge_shards(
            StreamName="flights", ShardToMerge=shards[0], AdjacentShardToMerge=shards[1]
        )
        for shard in shards:
            (event,) = Reader(cloud, clock, arn, shard=shard).events()
            (child,) = event["ChildShards"]
            assert sorted(child["ParentShards"]) == shards

    def test_one_active_subscription_per_consumer_and_shard(
        self, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        Reader(cloud, clock, arn)
        Reader(cloud, clock, register(kinesis, "another"))
        clock.advance(4.999)
        error = failure(
            kinesis.subscribe_to_shard, ConsumerARN=arn, ShardId=SHARD, StartingPosition=START
        )
        assert error.code == "ResourceInUseException"
        assert error.message == (
            f"Another active subscription exists for this consumer: {ACCOUNT}:flights:{SHARD}:radar"
        )

    def test_after_five_seconds_the_new_subscription_takes_over(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        first = Reader(cloud, clock, arn)
        first.messages()
        clock.advance(5)
        second = Reader(cloud, clock, arn)
        ((kind, payload),) = first.messages()
        assert kind == "ResourceInUseException"
        assert payload["message"].startswith("Another active subscription exists")
        assert first.subscription.ended
        first.subscription.close()
        put = [record["SequenceNumber"] for record in streams.put("a")]
        assert second.numbers() == put
        assert cloud.cloud.kinesis.subscriptions.count() == 1

    def test_a_closed_subscription_leaves_its_place_at_once(
        self, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        Reader(cloud, clock, arn).subscription.close()
        assert cloud.cloud.kinesis.subscriptions.count() == 0
        Reader(cloud, clock, arn)

    def test_deregistering_the_consumer_ends_it(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        reader = Reader(cloud, clock, arn)
        reader.messages()
        kinesis.deregister_stream_consumer(ConsumerARN=arn)
        assert reader.subscription.has_news()
        ((kind, _),) = reader.messages()
        assert kind == "ResourceNotFoundException"
        assert reader.subscription.ended

    def test_deleting_the_stream_ends_it(
        self, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        reader = Reader(cloud, clock, arn, cbor=True)
        reader.messages()
        kinesis.delete_stream(StreamName="flights", EnforceConsumerDeletion=True)
        assert reader.subscription.has_news()
        ((kind, payload),) = reader.messages()
        assert kind == "ResourceNotFoundException"
        assert payload == {"message": f"Stream flights under account {ACCOUNT} not found."}

    def test_a_budget_holds_records_back(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        class Budget:
            free_at_ms = 0

            def wait_ms(self, now_ms: int) -> int:
                return max(0, self.free_at_ms - now_ms)

            def spend(self, data_bytes: int, now_ms: int) -> None:
                self.free_at_ms = now_ms + data_bytes

        subscriptions = cloud.cloud.kinesis.subscriptions
        subscriptions.budget = lambda _arn, _shard: Budget()
        reader = Reader(cloud, clock, arn)
        streams.put("x" * 999, key="k")
        assert len(reader.numbers()) == 1
        put = [record["SequenceNumber"] for record in streams.put("y")]
        assert reader.numbers() == []
        assert reader.subscription.wait_ms(clock.now_ms()) == 1_000
        clock.advance(1)
        assert reader.numbers() == put

    def test_events_are_observed(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, arn: str
    ):
        seen: list[SentEvent] = []
        cloud.cloud.kinesis.subscriptions.observe = seen.append
        streams.put("abc", key="k")
        Reader(cloud, clock, arn).messages()
        assert [(d.records, d.data_bytes, d.behind_ms) for d in seen] == [(1, 4, 0)]
        assert (seen[0].stream.name, seen[0].consumer.arn) == ("flights", arn)

    def test_encrypted_records_say_so(
        self, streams: Streams, cloud: InProcessCloud, clock: FakeClock, kinesis: Any, arn: str
    ):
        kinesis.start_stream_encryption(
            StreamName="flights", EncryptionType="KMS", KeyId="alias/aws/kinesis"
        )
        streams.put("a")
        (event,) = Reader(cloud, clock, arn).events()
        assert json.dumps(event["Records"]).count('"EncryptionType": "KMS"') == 1
