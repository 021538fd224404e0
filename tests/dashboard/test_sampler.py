"""Samples and rings on an injected clock: rates, the day's ring, and a clock that jumps."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import Metric
from headrace.dashboard.account import CallRefused
from headrace.dashboard.api import events
from headrace.dashboard.cloud_account import FunctionTotals
from headrace.dashboard.inventory import Inventory
from headrace.dashboard.sampler import MINUTES_KEPT, SECONDS_KEPT, Rings, Sampler, Totals, between
from headrace.store.database import Database
from tests.support.clock import FakeClock

ORDERS = "stream:orders"


class NoAccount:
    source, account_id, region, is_read_only = "aws", "0", "us-east-1", True

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:
        raise CallRefused(service, operation, "AccessDeniedException", "no right to look")


class Counters:
    def __init__(self) -> None:
        self.records = 0
        self.lag_ms = 0

    def totals(self, _: Inventory) -> Mapping[str, Totals]:
        return {ORDERS: Totals(self.records, lag_ms=self.lag_ms)}

    def shard_totals(self, _: str) -> Mapping[str, Totals]:
        return {"shardId-000000000000": Totals(self.records)}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "state.db", fsync=False)
    yield database
    database.close()


def sampler_of(database: Database) -> tuple[Sampler, Counters, FakeClock]:
    counters, clock = Counters(), FakeClock()
    return Sampler(NoAccount(), counters, clock, Rings(database)), counters, clock


def test_a_rate_is_what_came_between_two_samples(database: Database) -> None:
    sampler, counters, clock = sampler_of(database)
    assert sampler.fresh().readings[ORDERS].rate is None
    counters.records = 30
    clock.advance(10)
    assert sampler.fresh().readings[ORDERS].rate == 3.0


@pytest.mark.parametrize(
    ("failed", "problem"),
    [(0, ""), (1, "less than 0.1 errors a second"), (6, "0.1 errors a second"), (90, "1.5 errors a second")],
)  # fmt: skip
def test_few_errors_are_not_called_none(failed: int, problem: str) -> None:
    assert between(Totals(0, errors=0), Totals(0, errors=failed), 60).problem == problem


def test_a_stream_made_anew_counts_from_zero(database: Database) -> None:
    sampler, counters, clock = sampler_of(database)
    counters.records = 1_000
    sampler.fresh()
    counters.records = 20
    clock.advance(10)
    assert sampler.fresh().readings[ORDERS].rate == 2.0


def test_no_rate_is_of_a_moment(database: Database) -> None:
    """A page that is opened right after a sample waits a little: the next one would be of some milliseconds."""
    sampler, counters, clock = sampler_of(database)
    sampler.fresh()
    clock.advance(10)
    sampler.fresh()
    stop = sampler.watch("", lambda: None)
    clock.advance(0.01)
    counters.records = 20
    assert 0.4 < sampler.step() < 0.5
    clock.advance(0.99)
    sampler.step()
    clock.advance(0.01)
    counters.records = 40
    sampler._sample(reads_inventory=True)  # as by a second request, which saw the sample before
    latest = sampler.latest
    assert latest is not None
    assert latest.readings[ORDERS].rate == 20.0
    stop()


def test_refused_calls_are_named(database: Database) -> None:
    sampler, _, _ = sampler_of(database)
    sampler.fresh()
    refused = sampler.inventory.refused
    assert ("lambda", "ListFunctions") in [(one["service"], one["operation"]) for one in refused]
    assert {one["code"] for one in refused} == {"AccessDeniedException"}


def test_the_day_is_kept_over_a_restart_and_bounded(database: Database) -> None:
    sampler, counters, clock = sampler_of(database)
    for _ in range(MINUTES_KEPT + 30):
        counters.records += 60
        clock.advance(60)
        sampler.fresh()
    minutes = Rings(database).minutes(ORDERS)
    assert len(minutes) == MINUTES_KEPT
    assert minutes[-1][1] == 1.0
    assert len(sampler.rings.seconds(ORDERS)) == SECONDS_KEPT


def test_an_idle_pipeline_writes_nothing(database: Database) -> None:
    sampler, _, clock = sampler_of(database)
    for _ in range(5):
        clock.advance(60)
        sampler.step()
    assert database.query("SELECT COUNT(*) FROM dashboard_minutes") == [(0,)]


def test_a_clock_that_goes_back_starts_the_ring_anew(database: Database) -> None:
    rings = Rings(database)
    sampler, _, clock = sampler_of(database)
    readings = sampler.fresh().readings
    rings.note(clock.now_ms(), readings)
    rings.note(clock.now_ms() - 3_600_000, readings)
    assert [point[0] for point in rings.seconds(ORDERS)] == [clock.now_ms() - 3_600_000]


def test_events_hold_what_changed(database: Database) -> None:
    sampler, counters, clock = sampler_of(database)

    async def listen() -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        feed = events(sampler, "orders")
        assert await anext(feed) == b"retry: 1000\n\n"
        for records in (0, 50, 50):
            counters.records = records
            clock.advance(10)
            sampler.step()
            seen.append(json.loads((await anext(feed)).removeprefix(b"data: ")))
        assert sampler.watchers == 1
        await feed.aclose()
        assert sampler.watchers == 0
        return seen

    first, second, third = asyncio.run(listen())
    assert first["readings"][ORDERS][0] is None
    assert second["readings"][ORDERS][0] == 5.0
    assert second["shards"]["shardId-000000000000"][0] == 5.0
    assert third["readings"][ORDERS][0] == 0.0


def test_a_functions_totals_are_the_sums_of_its_metrics() -> None:
    chosen, totals = random.Random(7), FunctionTotals("1", "eu-west-1")
    sums: Counter[tuple[str, str]] = Counter()
    durations: Counter[str] = Counter()
    dimensions = [(("FunctionName", name),) for name in ("f", "g")]
    dimensions += [(*dimensions[0], ("Resource", "f:1")), (("Resource", "f:1"),), ()]
    for _ in range(500):
        metrics = [
            Metric(
                chosen.choice(("AWS/Lambda", "AWS/SQS")),
                chosen.choice(("Invocations", "Errors", "Duration")),
                chosen.choice((0.0, 0.4, 1.0, 1500.7)),
                "Count",
                chosen.choice(dimensions),
                0,
            )
            for _ in range(chosen.randrange(5))
        ]
        account = chosen.choice("12")
        totals.note(metrics, account, "eu-west-1")
        for metric in metrics if account == "1" else ():
            if metric.namespace == "AWS/Lambda" and metric.dimensions in dimensions[:2]:
                name = metric.dimensions[0][1]
                sums[name, metric.name] += round(metric.value)
                durations[name] += metric.name == "Duration"
    for name in ("f", "g", "h"):
        found, found_durations = totals.of(name)
        assert found == {metric: sum_ for (of, metric), sum_ in sums.items() if of == name}
        assert found_durations.total() == durations[name]
