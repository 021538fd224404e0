"""The policy at work on a stream of a cloud in process, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.cli.flights import iter_events
from headrace.client.aggregation import aggregate
from headrace.shards.loads import Settings
from headrace.shards.policy import Merge, Split
from headrace.shards.scaling import Report, Sampler, Scaler
from tests.support.cloud import InProcessCloud
from tests.unit.shards.clock import OneClock

STREAM = "flights"
SLICE_S = 0.1
# 50 times an hour of the flights' time in a second: 1,900 flights per second on average, so that a shard is too small.
SPEED = 50 * 3600


class Lab:
    """A stream, its load and its scaler."""

    def __init__(self, cloud: InProcessCloud, clock: OneClock, shards: int = 1) -> None:
        self.clock, self.cloud = clock, cloud
        self.kinesis = cloud.client("kinesis")
        self.kinesis.create_stream(StreamName=STREAM, ShardCount=shards)
        self.wait()

    def wait(self) -> None:
        summary = self.kinesis.describe_stream_summary
        while summary(StreamName=STREAM)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
            self.clock.advance(0.1)

    def scaler(self, **settings: Any) -> Scaler:
        settings = {"max_shards": 16, "period_s": 2.0, "cold_for_s": 20.0, **settings}
        return Scaler(self.kinesis, STREAM, Settings(**settings), sample_s=2.0, clock=self.clock)

    def put(self, entries: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        """Put records; return those that the stream throttled."""
        refused: list[tuple[str, bytes]] = []
        for first in range(0, len(entries), 500):
            part = entries[first : first + 500]
            records = [{"PartitionKey": key, "Data": data} for key, data in part]
            results = self.kinesis.put_records(StreamName=STREAM, Records=records)["Records"]
            refused += [e for e, r in zip(part, results, strict=True) if r.get("ErrorCode")]
        return refused

    def open_shards(self) -> int:
        summary = self.kinesis.describe_stream_summary(StreamName=STREAM)
        return summary["StreamDescriptionSummary"]["OpenShardCount"]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    clock = OneClock()
    clouds: list[InProcessCloud] = []

    def make(shards: int = 1) -> Lab:
        cloud = InProcessCloud(tmp_path / "data", clock=clock, limits="aws")
        clouds.append(cloud)
        return Lab(cloud, clock, shards)

    yield make
    for cloud in clouds:
        cloud.stop()


def flights_by_slice() -> Iterator[list[tuple[str, bytes]]]:
    """Yield January's flights, carrier by carrier as their key, as many as leave in each slice of time."""
    from datetime import datetime

    first: datetime | None = None
    part: list[tuple[str, bytes]] = []
    due = 1
    for event in iter_events(1):
        at = datetime.fromisoformat(event["event_time"])
        first = first or at
        while (at - first).total_seconds() / SPEED >= due * SLICE_S:
            yield part
            part = []
            due += 1
        part.append((event["carrier"], event["event_id"].encode()))
    yield part


def test_throttles_stop_within_three_periods_and_idle_shards_merge_back(
    lab: Callable[..., Lab],
) -> None:
    one = lab()
    scaler, throttled = one.scaler(), list[int]()
    waiting: list[tuple[str, bytes]] = []
    in_period = 0
    slices_per_period = round(2.0 / SLICE_S)
    for number, due in enumerate(flights_by_slice(), 1):
        # As a producer does: what was refused comes first.
        waiting = one.put(waiting + due)
        in_period += len(waiting)
        one.clock.advance(SLICE_S)
        if number % slices_per_period == 0:
            throttled.append(in_period)
            in_period = 0
            scaler.step()
            one.wait()
    assert throttled[0] > 0
    assert throttled[3:] == [0] * (len(throttled) - 3)
    assert len(throttled) >= 6
    at_most = one.open_shards()
    assert at_most >= 3

    reports: list[Report] = []
    while one.open_shards() > 1:
        one.clock.advance(2.0)
        reports.append(scaler.step())
        one.wait()
        assert len(reports) < 200
    kinds = {type(action) for report in reports for action in report.done}
    assert kinds == {Merge}
    # Nothing was lost on the way.
    assert waiting == []


def test_a_look_measures_bytes_records_and_keys(lab: Callable[..., Lab]) -> None:
    one = lab(2)
    for _ in range(20):
        one.put([("UA", b"x" * 98)] * 30 + [("DL", b"x" * 98)] * 10)
        one.clock.advance(0.1)
    load = Sampler(one.kinesis, {"StreamName": STREAM}, one.clock).look()
    assert load.records_per_s == pytest.approx(400, rel=0.1)
    assert load.bytes_per_s == pytest.approx(40_000, rel=0.1)
    # Each record by itself, as it is billed.
    assert set(load.record_bytes) == {100}
    assert sum(load.utilisation) == pytest.approx(0.4, rel=0.1)
    hottest = [h for s in load.shards for h in load.keys.get(s.shard_id).hottest(2)]  # type: ignore[union-attr]
    assert {hot.key for hot in hottest} == {"UA", "DL"}


def test_a_look_counts_the_users_of_an_aggregate(lab: Callable[..., Lab]) -> None:
    one = lab()
    one.put([("a", aggregate(["a", "b", "b"], [b"1" * 50, b"2" * 50, b"3" * 50], {}))])
    load = Sampler(one.kinesis, {"StreamName": STREAM}, one.clock).look()
    keys = load.keys.get(load.shards[0].shard_id)
    assert keys is not None
    assert [(hot.key, round(hot.share, 2)) for hot in keys.hottest(2)] == [("b", 0.67), ("a", 0.33)]


def test_a_stream_that_is_being_changed_is_left_alone(lab: Callable[..., Lab]) -> None:
    one = lab(2)
    one.kinesis.update_shard_count(
        StreamName=STREAM, TargetShardCount=4, ScalingType="UNIFORM_SCALING"
    )
    report = one.scaler().step()
    assert report.load is None or report.done == ()


def test_a_stream_on_demand_is_refused(lab: Callable[..., Lab]) -> None:
    one = lab()
    arn = one.kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"][
        "StreamARN"
    ]
    one.kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    one.wait()
    with pytest.raises(ValueError, match="on demand"):
        one.scaler().step()


def test_a_stream_that_is_missing_is_an_error(lab: Callable[..., Lab]) -> None:
    one = lab()
    scaler = one.scaler()
    one.kinesis.delete_stream(StreamName=STREAM)
    while one.kinesis.list_streams()["StreamNames"]:
        one.clock.advance(1)
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        scaler.step()


class Refusing:
    """A client whose SplitShard is refused."""

    def __init__(self, client: Any, code: str) -> None:
        self._client, self._code = client, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def split_shard(self, **request: Any) -> None:
        raise ClientError({"Error": {"Code": self._code, "Message": "not now"}}, "SplitShard")


@pytest.mark.parametrize(
    "code", ["LimitExceededException", "ResourceInUseException", "InvalidArgumentException"]
)
def test_what_aws_does_not_take_now_is_logged_and_tried_at_the_next_look(
    lab: Callable[..., Lab], code: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = lab()
    settings = Settings(min_shards=2, period_s=2.0)
    refusing = Scaler(Refusing(one.kinesis, code), STREAM, settings, clock=one.clock)
    with caplog.at_level(logging.WARNING, "headrace.shards"):
        report = refusing.step()
    assert [type(action) for action in report.decision.actions] == [Split]
    assert report.done == ()
    assert "is left to the next look" in caplog.text
    # The next look tries again.
    assert [type(action) for action in refusing.step().decision.actions] == [Split]


def test_a_permission_that_is_missing_is_an_error(lab: Callable[..., Lab]) -> None:
    one = lab()
    client = Refusing(one.kinesis, "AccessDeniedException")
    scaler = Scaler(client, STREAM, Settings(min_shards=2), clock=one.clock)
    with pytest.raises(ClientError, match="AccessDenied"):
        scaler.step()
