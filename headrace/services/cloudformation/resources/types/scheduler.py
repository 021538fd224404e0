"""EventBridge Scheduler: groups and schedules."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)

_NAME = {"Name": "@id"}


@declare_sources("State")
def _schedule_state(values: Values) -> str:
    return values.get("State") or "ENABLED"


_GROUP = {"Name": "@id", "GroupName": "GroupName"}


DECLARED = [
    DeclaredType(
        "AWS::Scheduler::Schedule",
        "scheduler",
        create=[Call("CreateSchedule")],
        id="Name",
        read=Call("GetSchedule", _GROUP),
        update=[
            # moto forgets a state that the request omits; on AWS the default is ENABLED (documented:
            # API_UpdateSchedule).
            Call("UpdateSchedule", {"Name": "@id", "State": _schedule_state}),
        ],
        delete=[Call("DeleteSchedule", _GROUP)],
        name="Name",
    ),
    DeclaredType(
        "AWS::Scheduler::ScheduleGroup",
        "scheduler",
        create=[Call("CreateScheduleGroup")],
        id="Name",
        read=Call("GetScheduleGroup", _NAME),
        delete=[Call("DeleteScheduleGroup", _NAME)],
        name="Name",
        tag=("TagResource", "UntagResource", "ResourceArn", "@answer.Arn"),
    ),
]
