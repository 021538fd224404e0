"""Schedules and rules with a schedule: when they deliver, what, and that nothing comes twice or after their end.

Documented: https://docs.aws.amazon.com/scheduler/latest/UserGuide/ (schedule types, context attributes, deletion).
"""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.deliveries.schedule_worker import ScheduleWorker
from headrace.moto.storage.changes import CHANGES
from headrace.services.events.patches import scheduled_rules
from headrace.services.scheduler import schedules
from tests.support.moto_lab import MotoLab

ROLE = "arn:aws:iam::000000000000:role/r"
QUEUE = "arn:aws:sqs:us-east-1:000000000000:q"


class Run:
    """The worker of schedules, and what has arrived in the queue `q`."""

    def __init__(self, lab: MotoLab) -> None:
        self.lab = lab
        self.url = lab.client("sqs").create_queue(QueueName="q")["QueueUrl"]
        self.worker = ScheduleWorker(lab.moto, lab.clock, [schedules, scheduled_rules])
        self.worker.step()

    def after(self, seconds: float) -> list[str]:
        """Let time pass, a second's look at most at a time; return what arrives."""
        self.lab.clock.advance(seconds)
        self.worker.step()
        self.lab.outbox.step()
        sqs = self.lab.client("sqs")
        found = sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in found]

    def schedule(self, expression: str, **more: Any) -> str:
        target = {"Arn": QUEUE, "RoleArn": ROLE, "Input": "tick", **more.pop("target", {})}
        made = self.lab.client("scheduler").create_schedule(
            Name="s",
            ScheduleExpression=expression,
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
            **more,
        )
        self.worker.step()
        return made["ScheduleArn"]


def test_a_rate_delivers_once_a_period(lab: MotoLab):
    run = Run(lab)
    run.schedule("rate(1 minute)")
    assert run.after(59) == []
    assert run.after(2) == ["tick"]
    assert run.after(30) == []
    assert run.after(30) == ["tick"]


def test_a_target_of_another_region_is_not_its_namesake_here(lab: MotoLab):
    run = Run(lab)
    there = lab.client("sqs", region="eu-west-1")
    url = there.create_queue(QueueName="q")["QueueUrl"]
    run.schedule("rate(1 minute)", target={"Arn": QUEUE.replace("us-east-1", "eu-west-1")})
    assert run.after(61) == []
    assert there.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "tick"


def test_a_schedule_that_is_disabled_or_deleted_delivers_nothing(lab: MotoLab):
    run = Run(lab)
    run.schedule("rate(1 minute)", State="DISABLED")
    assert run.after(61) == []
    lab.client("scheduler").delete_schedule(Name="s")
    assert run.after(61) == []


def test_one_time_and_then_it_is_deleted(lab: MotoLab):
    run = Run(lab)
    now = datetime.fromtimestamp(lab.clock.now_ms() / 1000, UTC)
    when = f"at({now + timedelta(minutes=5):%Y-%m-%dT%H:%M:%S})"
    run.schedule(when, ActionAfterCompletion="DELETE")
    assert run.after(301) == ["tick"]
    assert lab.client("scheduler").list_schedules()["Schedules"] == []
    assert run.after(301) == []


def test_the_context_is_filled_in_and_a_constant_is_not(lab: MotoLab):
    run = Run(lab)
    arn = run.schedule("rate(1 minute)", target={"Input": '{"a": "<aws.scheduler.schedule-arn>"}'})
    assert [json.loads(body) for body in run.after(61)] == [{"a": arn}]


def test_any_operation_is_a_target(lab: MotoLab):
    run = Run(lab)
    call = {
        "Arn": "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
        "Input": json.dumps({"QueueUrl": run.url, "MessageBody": "by the operation"}),
    }
    run.schedule("rate(1 minute)", target=call)
    assert run.after(61) == ["by the operation"]


def test_a_rule_with_a_schedule_sends_its_event(lab: MotoLab):
    run = Run(lab)
    events = lab.client("events")
    arn = events.put_rule(Name="r", ScheduleExpression="rate(1 minute)")["RuleArn"]
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": QUEUE}])
    run.worker.step()
    (body,) = run.after(61)
    event = json.loads(body)
    assert event["detail-type"] == "Scheduled Event"
    assert event["resources"] == [arn]
    events.disable_rule(Name="r")
    assert run.after(61) == []


def test_what_is_due_outlasts_a_kill_before_it_is_delivered(lab: MotoLab):
    run = Run(lab)
    run.schedule("rate(1 minute)")
    lab.clock.advance(61)
    run.worker.step()
    lab.kill()
    lab.start()
    lab.moto.warm_up()
    run.worker = ScheduleWorker(lab.moto, lab.clock, [schedules, scheduled_rules])
    assert run.after(1) == ["tick"]


def test_a_target_that_headrace_has_not_says_so_and_harms_nobody(lab: MotoLab, caplog: Any):
    run = Run(lab)
    run.schedule("rate(1 minute)", target={"Arn": "arn:aws:ecs:us-east-1:000000000000:cluster/c"})
    assert run.after(61) == []
    assert "does not deliver to such a target" in caplog.text


def test_a_rules_rate_counts_from_its_creation_over_restarts_that_come_sooner(lab: MotoLab):
    run = Run(lab)
    events = lab.client("events")
    events.put_rule(Name="r", ScheduleExpression="rate(1 minute)")
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": QUEUE}])
    run.worker.step()
    came: list[int] = []
    for _ in range(4):
        lab.kill()
        lab.start()
        lab.moto.warm_up()
        run.worker = ScheduleWorker(lab.moto, lab.clock, [schedules, scheduled_rules])
        run.worker.step()
        came.append(len(run.after(31)))
    assert came == [0, 1, 0, 1]


def test_it_sleeps_without_a_schedule_and_is_woken_by_the_call_that_makes_one(lab: MotoLab):
    woken: list[str] = []
    run = Run(lab)
    for package in ScheduleWorker.PACKAGES:
        lab.moto.listen(package, lambda package=package: woken.append(package))
    assert run.worker.step() == math.inf
    lab.client("events").put_events(
        Entries=[{"Source": "s", "DetailType": "d", "Detail": "{}"}],
    )
    assert woken == []
    arn = run.schedule("rate(1 minute)")
    lab.client("events").put_rule(Name="r", ScheduleExpression="rate(1 minute)", State="DISABLED")
    assert arn
    assert woken == ["scheduler", "events"]
    assert run.worker.step() < 2
    lab.client("scheduler").delete_schedule(Name="s")
    assert woken == ["scheduler", "events", "scheduler"]
    assert run.worker.step() == math.inf


def test_a_stored_schedule_fires_in_a_process_that_nobody_asks_for_schedules(lab: MotoLab):
    """As after a restart, when moto's module is not imported yet: what is stored is loaded by the worker."""
    run = Run(lab)
    run.schedule("rate(1 minute)")
    woken: list[None] = []
    lab.kill()
    lab.start()
    lab.moto.listen("scheduler", lambda: woken.append(None))
    module = sys.modules.pop("moto.scheduler.models")
    try:
        lab.moto.warm_up()
        assert woken == [None]
        assert "scheduler" in CHANGES.deferred
    finally:
        sys.modules["moto.scheduler.models"] = module
    run.worker = ScheduleWorker(lab.moto, lab.clock, [schedules, scheduled_rules])
    assert run.worker.step() < 2
    assert run.after(61) == ["tick"]
