"""Records that are gone before a query came back for them, and streams that are no longer the same ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.calls.http import Answer, Handler, HttpRequest, HttpResponse
from headrace.core.clock import SystemClock
from headrace.services.kinesis.resharding import Retention
from tests.api.kinesis.live import LiveCloud
from tests.spark.conftest import Stream
from tests.spark.test_source import drain, numbers, stream_of

pytestmark = pytest.mark.spark

DAY_S = 86_400
Answers = Callable[[HttpRequest], Answer | Handler]


class ShiftedClock:
    """The time of day, moved forward by as much as a test says."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._shift_s = 0.0

    def advance(self, seconds: float) -> None:
        self._shift_s += seconds

    def now_ms(self) -> int:
        return self._clock.now_ms() + int(self._shift_s * 1000)

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s() + self._shift_s

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        return self._clock.wait(event, timeout_s)


class Cloud(LiveCloud):
    """Tells its own time in the answers' Date, as AWS does: the source asks the service when it is."""

    def __init__(self, data_dir: Path, clock: ShiftedClock) -> None:
        super().__init__(data_dir, clock=clock)
        entrance = self.cloud.entrance

        def date(given: HttpResponse) -> None:
            given.headers.append(("Date", formatdate(clock.now_ms() / 1000)))

        def dated(given: Answer) -> Answer:
            if isinstance(given, Future):
                given.add_done_callback(
                    lambda done: date(done.result()) if done.exception() is None else None
                )
            else:
                date(given)
            return given

        def answers(find: Answers) -> Answers:
            def answer(request: HttpRequest) -> Answer | Handler:
                found = find(request)
                if callable(found):
                    return lambda request: dated(found(request))
                return dated(found)

            return answer

        entrance.answer_at_once = answers(entrance.answer_at_once)  # type: ignore[method-assign]
        entrance.answer_or_handler = answers(entrance.answer_or_handler)  # type: ignore[method-assign]

    def trim(self) -> None:
        """Do what retention does once in a while."""
        Retention(self.cloud.kinesis).step()

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def stream(clock: ShiftedClock, tmp_path: Path) -> Iterator[Stream]:
    with Cloud(tmp_path / "cloud", clock) as cloud:
        found: Any = Stream(cloud, "flights", 1)  # type: ignore[arg-type]
        cloud.trim()  # From now on it knows how often to begin a new file.
        yield found


def oldest(stream: Any) -> int:
    iterator = stream.kinesis.get_shard_iterator(
        StreamName=stream.name, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return int(stream.kinesis.get_records(ShardIterator=iterator)["Records"][0]["Data"])


def test_a_query_that_was_away_for_longer_than_retention_fails_or_goes_on_as_told(
    spark: Any, stream: Any, clock: ShiftedClock, places: tuple[str, str], nightly: bool
) -> None:
    stream.put(100)
    if nightly:
        drain(stream_of(spark, stream), places)
    stream.put(100)
    # For less than retention: nothing is lost.
    clock.advance(DAY_S - 600)
    drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(200))
    stream.put(100)
    clock.advance(DAY_S + 60)
    stream.put(100)
    stream.server.trim()
    assert oldest(stream) == 300
    loss = r"older than the stream's retention: .*Set kinesis.failOnDataLoss to false"
    with pytest.raises(Exception, match=loss):
        drain(stream_of(spark, stream), places)
    assert numbers(spark, places[0]) == list(range(200))
    drain(stream_of(spark, stream, failOnDataLoss="false"), places)
    assert numbers(spark, places[0]) == [*range(200), *range(300, 400)]
    if nightly:
        # And it is well again.
        stream.put(50)
        drain(stream_of(spark, stream), places)
        assert numbers(spark, places[0])[-50:] == list(range(400, 450))


@pytest.mark.slow
def test_a_shard_that_was_closed_and_has_expired_unread_is_named(
    spark: Any, stream: Any, clock: ShiftedClock, places: tuple[str, str]
) -> None:
    stream.put(100)
    drain(stream_of(spark, stream), places)
    stream.put(100)
    stream.split()
    clock.advance(DAY_S + 60)
    stream.put(100)
    stream.server.trim()
    assert len(stream.shards()) == 2
    with pytest.raises(Exception, match="shardId-000000000000 of stream flights expired before"):
        drain(stream_of(spark, stream), places)
    drain(stream_of(spark, stream, failOnDataLoss="false"), places)
    assert numbers(spark, places[0]) == [*range(100), *range(200, 300)]


@pytest.mark.parametrize(
    "fail_on_data_loss", ["false", pytest.param("true", marks=pytest.mark.slow)]
)
def test_a_stream_that_was_made_anew_does_not_fit_the_checkpoint(
    spark: Any, stream: Any, places: tuple[str, str], fail_on_data_loss: str
) -> None:
    stream.put(100)
    drain(stream_of(spark, stream), places)
    fresh = stream.made_anew()
    fresh.put(40)
    with pytest.raises(Exception, match=r"flights is not the stream .* another checkpoint"):
        drain(stream_of(spark, fresh, failOnDataLoss=fail_on_data_loss), places)
    assert numbers(spark, places[0]) == list(range(100))
