"""A service's event waits in the outbox only if a rule of the default event bus takes it."""

from __future__ import annotations

import json

import pytest

from headrace.deliveries.outbox import OUTBOX
from headrace.deliveries.service_events import queue_service_event
from headrace.moto.storage.changes import MOTO_LOCK
from tests.support.moto_lab import MotoLab

ACCOUNT, REGION = "000000000000", "us-east-1"


def is_queued(lab: MotoLab, *, region: str = REGION) -> bool:
    """Whether an event is queued; it stays out of the outbox after that."""
    lab.moto.warm_up()
    with MOTO_LOCK:
        queue_service_event(
            "It",
            "aws.x",
            "D",
            {"state": "ENDED"},
            resources=["res"],
            account=ACCOUNT,
            region=region,
        )
        numbers = list(OUTBOX.waiting)
        for number in numbers:
            OUTBOX.remove(number)
    return bool(numbers)


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        ({"source": ["aws.x"]}, True),
        ({"detail-type": ["D"], "detail": {"state": ["ENDED"]}, "resources": ["res"]}, True),
        ({"account": [ACCOUNT], "region": [REGION], "time": [{"prefix": "20"}]}, True),
        ({"id": [{"exists": True}]}, True),
        ({"source": ["aws.y"]}, False),
        ({"detail": {"state": ["RUNNING"]}}, False),
    ],
)
def test_a_rule_decides(lab: MotoLab, pattern: dict[str, object], is_taken: bool):
    lab.client("events").put_rule(Name="r", EventPattern=json.dumps(pattern))
    assert is_queued(lab) is is_taken


def test_nothing_waits_without_rules_nor_in_another_region(lab: MotoLab):
    assert not is_queued(lab)
    lab.client("events").put_rule(Name="r", EventPattern='{"source":["aws.x"]}')
    assert is_queued(lab)
    assert not is_queued(lab, region="eu-west-1")


def test_neither_a_disabled_rule_nor_a_schedule_takes_it(lab: MotoLab):
    events = lab.client("events")
    events.put_rule(Name="off", EventPattern='{"source":["aws.x"]}', State="DISABLED")
    events.put_rule(Name="daily", ScheduleExpression="rate(1 day)")
    assert not is_queued(lab)


def test_an_archive_takes_it(lab: MotoLab):
    bus = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/default"
    lab.client("events").create_archive(ArchiveName="a", EventSourceArn=bus)
    assert is_queued(lab)


def test_a_stored_rule_takes_it_after_a_restart(lab: MotoLab):
    lab.client("events").put_rule(Name="r", EventPattern='{"source":["aws.x"]}')
    lab.restart()
    assert is_queued(lab)
