"""CloudTrail's trails."""

from __future__ import annotations

from headrace.services.cloudformation.resources.base import boolean
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    declare_sources,
)

DECLARED = [
    DeclaredType(
        "AWS::CloudTrail::Trail",
        "cloudtrail",
        create=[
            Call(
                "CreateTrail",
                {
                    "Name": "TrailName",
                    "TagsList": lambda v: (
                        [{"Key": k, "Value": x} for k, x in v.tags.items()] or None
                    ),
                },
            ),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
            Call(
                "StartLogging",
                {"Name": "@id"},
                only=(),
                when="IsLogging",
                only_if=lambda v: boolean(v.get("IsLogging") or False),
            ),
        ],
        id="@answer.Name",
        read=Call("GetTrail", {"Name": "@id"}),
        update=[
            Call("UpdateTrail", {"Name": "@id"}),
            Call(
                "StartLogging",
                {"Name": declare_sources("IsLogging")(lambda v: v.id)},
                only=(),
                only_if=lambda v: boolean(v.get("IsLogging") or False),
            ),
            Call(
                "StopLogging",
                {"Name": declare_sources("IsLogging")(lambda v: v.id)},
                only=(),
                only_if=lambda v: not boolean(v.get("IsLogging") or False),
            ),
            Call(
                "PutEventSelectors",
                {"TrailName": "@id", "EventSelectors": "EventSelectors"},
                only=(),
                when="EventSelectors",
            ),
        ],
        delete=[Call("DeleteTrail", {"Name": "@id"})],
        name="TrailName",
        name_length=128,
        attributes={"Arn": "@answer.TrailARN", "SnsTopicArn": "@answer.Trail.SnsTopicARN"},
    ),
]
