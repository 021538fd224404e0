from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.cli.replay import Lateness, arrivals, event_time, parse_lateness

HOUR_S = 3600.0


def events(count: int) -> list[dict[str, Any]]:
    start = datetime(2013, 1, 1, tzinfo=UTC)
    return [
        {"event_id": str(n), "event_time": (start + timedelta(minutes=n)).isoformat()}
        for n in range(count)
    ]


def test_the_same_seed_gives_an_event_the_same_delay_whatever_comes_before_it() -> None:
    model, some = Lateness(0.5, HOUR_S, 9 * HOUR_S, seed=7), events(200)

    assert [model.delay_s(e) for e in some] == [model.delay_s(e) for e in some[::-1]][::-1]


def test_another_seed_makes_others_late() -> None:
    def late(seed: int) -> set[str]:
        model = Lateness(0.5, HOUR_S, 9 * HOUR_S, seed)
        return {e["event_id"] for e in events(200) if model.delay_s(e)}

    assert late(1) != late(2)


def test_the_share_and_the_mean_delay_are_those_asked_for() -> None:
    count, share = 20_000, 0.2
    delays = [Lateness(share, HOUR_S, 100 * HOUR_S, 1).delay_s(e) for e in events(count)]
    late = [delay for delay in delays if delay]

    # Five standard errors: of a binomial share, and of an exponential's mean (its deviation is its mean).
    assert abs(len(late) / count - share) < 5 * math.sqrt(share * (1 - share) / count)
    assert abs(sum(late) / len(late) - HOUR_S) < 5 * HOUR_S / math.sqrt(len(late))


def test_no_event_is_later_than_the_maximum() -> None:
    delays = [Lateness(1, HOUR_S, HOUR_S, 1).delay_s(e) for e in events(1000)]

    assert max(delays) == HOUR_S
    assert 0.25 < sum(delay == HOUR_S for delay in delays) / 1000 < 0.5  # exp(-1) = 0.37


def test_events_come_in_the_order_of_time_and_delay() -> None:
    model, some = Lateness(0.3, HOUR_S, 9 * HOUR_S, seed=3), events(500)
    come = arrivals(some, "event_time", model)

    assert [at for at, _ in come] == sorted(at for at, _ in come)
    assert sorted(int(e["event_id"]) for _, e in come) == list(range(500))
    assert [e for _, e in come] != some
    for at, event in come:
        late_s = (at - event_time(event["event_time"])).total_seconds()
        assert late_s == pytest.approx(model.delay_s(event), abs=1e-5)


def test_without_a_model_the_order_is_as_given() -> None:
    some = events(5)[::-1]

    assert [event for _, event in arrivals(some, "event_time", None)] == some


def test_the_text_of_a_model_is_understood() -> None:
    assert parse_lateness("share=0.1,mean=30m,max=6h", 5) == Lateness(0.1, 1800, 21600, 5)
    assert parse_lateness("share=1, mean=1.5s", 0) == Lateness(1, 1.5, 15, 0)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0.1", "share=0.1", "mean=3m", "share=2,mean=3m", "share=x,mean=3m"),
        *("share=0.1,mean=3", "share=0.1,mean=0m", "share=0.1,mean=3m,max=x", "share=0,share=0"),
    ],
)
def test_another_text_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"lateness|share|delay"):
        parse_lateness(text, 0)
