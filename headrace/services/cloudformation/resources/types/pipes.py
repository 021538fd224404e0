"""EventBridge Pipes."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any, cast

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import value_at
from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Values,
    declare_sources,
)

_NAME = {"Name": "@id"}


_BEGINNING = ("StartingPosition", "StartingPositionTimestamp")


def _moment(value: Any) -> Any:
    """Return a time in seconds from any form; a value that is no time is returned unchanged."""
    if isinstance(value, datetime):
        return value.timestamp()
    if not isinstance(value, str):
        return None if value is None else float(value)
    with contextlib.suppress(ValueError):
        return float(value)
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(value).timestamp()
    return value


@declare_sources("SourceParameters")
def _source_parameters(values: Values) -> dict[str, Any]:
    """Return how a pipe reads from now on; its starting position does not change."""
    by_source = cast("dict[str, Any]", values.get("SourceParameters") or {})
    # The pipe's actual state: in a rollback, some changes of the failed update were never made.
    answer = values.context.call("pipes", "DescribePipe", {"Name": values.id})
    before = cast("dict[str, Any]", answer.get("SourceParameters") or {})
    members: dict[str, Any] = {}
    for source, parameters in by_source.items():
        if not isinstance(parameters, dict):
            members[source] = parameters
            continue
        own = cast("dict[str, Any]", parameters)
        for name in _BEGINNING:
            if _moment(own.get(name)) != _moment(value_at(before, f"{source}.{name}")):
                raise ResourceFailed(
                    f"The {name} of a pipe cannot change: give the pipe another Name, which makes another pipe"
                )
        members[source] = {name: value for name, value in own.items() if name not in _BEGINNING}
    return members


def _or_none(name: str, **nothing: str) -> ComputedProperty:
    """Return the source of a member that an update may remove."""
    return ComputedProperty((name,), lambda values: values.get(name) or nothing)


DECLARED = [
    DeclaredType(
        "AWS::Pipes::Pipe",
        "pipes",
        create=[Call("CreatePipe")],
        id="Name",
        read=Call("DescribePipe", _NAME),
        # Deleting it would lose its position in the source: a new pipe starts anew, and skips the records in between.
        deletes_others=True,
        update=[
            Call(
                "UpdatePipe",
                {
                    **_NAME,
                    # Always sent: an update keeps members that it omits, on AWS too.
                    "RoleArn": "RoleArn",
                    "Target": "Target",
                    "SourceParameters": _source_parameters,
                    "EnrichmentParameters": _or_none("EnrichmentParameters"),
                    "TargetParameters": _or_none("TargetParameters"),
                    "LogConfiguration": _or_none("LogConfiguration", Level="OFF"),
                    "DesiredState": declare_sources("DesiredState")(
                        lambda v: v.get("DesiredState") or "RUNNING"
                    ),
                },
                only=("Description", "Enrichment", "KmsKeyIdentifier"),
            )
        ],
        delete=[Call("DeletePipe", _NAME)],
        name="Name",
        tag=("TagResource", "UntagResource", "resourceArn", "@answer.Arn"),
    ),
]
