"""Schedule expressions that Scheduler and rules refuse.

Recorded from AWS by LocalStack: tests/aws/services/scheduler/test_scheduler.py and
tests/aws/services/events/test_events_schedule.py (`observed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

TARGET = {
    "Arn": "arn:aws:sqs:us-east-1:000000000000:q",
    "RoleArn": "arn:aws:iam::000000000000:role/r",
}
BAD_CRONS = [
    "cron(0 1 * * * *)", "cron(7 20 * * NOT *)", "cron(INVALID)", "cron(0 dummy ? * MON-FRI *)", "cron(71 8 1 * ? *)",
    "cron()",
]  # fmt: skip
BAD = [
    *BAD_CRONS, "rate(10 seconds)", "rate(10 years)", "rate()", "rate(10)", "rate(10 minutess)", "rate(foo minutes)",
    "rate(-10 minutes)", "rate( 10 minutes )", " rate(10 minutes)", "at(2021-12-31T23:59:59Z)", "at(2021-12-31)",
]  # fmt: skip
GOOD = [
    "cron(0 10 * * ? *)", "cron(0/5 8-17 ? * MON-FRI *)", "cron(15 10 ? * 6L 2002-2005)", "cron(0 2 ? * SAT#3 *)",
    "cron(0/5 5 ? JAN 1-5 2022)", "cron(5,35 14 * * ? *)", "rate(1 minute)", "rate(5 hours)",
]  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoLab]:
    with MotoLab(tmp_path_factory.mktemp("schedules") / "lab") as lab:
        yield lab


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = dict(caught.value.response)["Error"]
    return error["Code"], error["Message"]


def schedule(expression: str, name: str = "s") -> dict[str, Any]:
    window = {"Mode": "OFF"}
    return {
        "Name": name,
        "ScheduleExpression": expression,
        "FlexibleTimeWindow": window,
        "Target": TARGET,
    }


@pytest.mark.parametrize("expression", [*BAD, "cron(0 9 ? * XYZ 2020)", "every day"])
def test_scheduler_refuses_what_is_no_expression(lab: MotoLab, expression: str):
    found = refusal(lab.client("scheduler").create_schedule, **schedule(expression))
    assert found == ("ValidationException", f"Invalid Schedule Expression {expression}.")


@pytest.mark.parametrize(
    "arn", ["x", "arn:aws:sqs", "arn:aws:events:us-east-1:000000000000:api-destination/d/1"]
)
def test_scheduler_refuses_what_it_cannot_call(lab: MotoLab, arn: str):
    given = {**schedule("rate(1 minute)"), "Target": {**TARGET, "Arn": arn}}
    found = refusal(lab.client("scheduler").create_schedule, **given)
    assert found == ("ValidationException", "Provided Arn is not in correct format.")


def test_an_update_is_checked_too(lab: MotoLab):
    scheduler = lab.client("scheduler")
    for number, good in enumerate([*GOOD, "at(2030-01-01T00:00:00)"]):
        scheduler.create_schedule(**schedule(good, f"good-{number}"))
    found = refusal(scheduler.update_schedule, **schedule("rate(0 days)", "good-0"))
    assert found == ("ValidationException", "Invalid Schedule Expression rate(0 days).")


@pytest.mark.parametrize("expression", [*BAD_CRONS, "rate(1 minutes)", "rate(5 minute)"])
def test_rules_refuse_what_is_no_expression(lab: MotoLab, expression: str):
    found = refusal(lab.client("events").put_rule, Name="r", ScheduleExpression=expression)
    assert found == ("ValidationException", "Parameter ScheduleExpression is not valid.")


@pytest.mark.parametrize("expression", GOOD)
def test_rules_take_expressions(lab: MotoLab, expression: str):
    assert lab.client("events").put_rule(Name="good", ScheduleExpression=expression)["RuleArn"]
