"""When schedules are due. The examples of cron are the guide's own.

Documented: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html and
https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from headrace.core.schedule_expressions import BadExpression, next_time


def due(expression: str, after: str, *, since: str = "", zone: str = "UTC") -> str | None:
    moment = datetime.fromisoformat(f"{after}+00:00")
    begun = datetime.fromisoformat(f"{since or after}+00:00")
    found = next_time(expression, since=begun, after=moment, zone=zone)
    return None if found is None else f"{found:%Y-%m-%dT%H:%M}"


@pytest.mark.parametrize(
    ("expression", "after", "found"),
    [
        ("cron(0 10 * * ? *)", "2026-03-01T10:00", "2026-03-02T10:00"),
        ("cron(15 12 * * ? *)", "2026-03-01T10:00", "2026-03-01T12:15"),
        ("cron(0 18 ? * MON-FRI *)", "2026-03-06T18:00", "2026-03-09T18:00"),
        ("cron(0 8 1 * ? *)", "2026-01-31T00:00", "2026-02-01T08:00"),
        ("cron(0/15 * * * ? *)", "2026-03-01T10:46", "2026-03-01T11:00"),
        ("cron(0/30 20-2 ? * MON-FRI *)", "2026-03-06T20:31", "2026-03-06T21:00"),
        ("cron(0 9 ? * 2#1 *)", "2026-03-01T10:00", "2026-03-02T09:00"),
        ("cron(0 9 ? * 6L *)", "2026-03-01T10:00", "2026-03-27T09:00"),
        ("cron(0 9 L * ? *)", "2026-02-01T10:00", "2026-02-28T09:00"),
        ("cron(0 9 1W * ? *)", "2026-07-31T10:00", "2026-08-03T09:00"),
        ("cron(0 9 29 2 ? *)", "2026-03-01T10:00", "2028-02-29T09:00"),
        ("cron(0 9 1 1 ? 2025)", "2026-03-01T10:00", None),
        ("at(2026-03-01T12:00:00)", "2026-03-01T10:00", "2026-03-01T12:00"),
        ("at(2026-03-01T09:00:00)", "2026-03-01T10:00", None),
    ],
)
def test_when_it_is_due_next(expression: str, after: str, found: str | None):
    assert due(expression, after) == found


def test_a_rate_counts_from_when_it_was_made():
    assert (
        due("rate(5 minutes)", "2026-03-01T10:07", since="2026-03-01T10:01") == "2026-03-01T10:11"
    )
    assert due("rate(1 day)", "2026-03-01T10:00") == "2026-03-02T10:00"


def test_the_zone_decides_for_cron_and_at():
    assert due("cron(0 10 * * ? *)", "2026-07-01T00:00", zone="Europe/Berlin") == "2026-07-01T08:00"
    assert (
        due("at(2026-07-01T10:00:00)", "2026-07-01T00:00", zone="America/New_York")
        == "2026-07-01T14:00"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "every day",
        "rate(0 minutes)",
        "rate(5 fortnights)",
        "cron(0 10 * * ?)",
        "cron(0 10 * * * *)",
        "cron(61 10 * * ? *)",
        "cron(0 10 ? * MOO *)",
        "cron(0/0 10 * * ? *)",
        "cron(0 10 xW * ? *)",
        "at(noon)",
    ],
)
def test_what_is_no_expression(expression: str):
    with pytest.raises(BadExpression):
        due(expression, "2026-03-01T10:00")


def test_what_is_no_zone():
    with pytest.raises(BadExpression):
        due("at(2026-03-01T10:00:00)", "2026-03-01T10:00", zone="Europe/Atlantis")
