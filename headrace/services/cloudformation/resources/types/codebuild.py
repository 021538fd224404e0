"""CodeBuild's projects."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import (
    Call,
    ComputedProperty,
    DeclaredType,
    Values,
    declare_sources,
)


@declare_sources("Tags")
def _project_tags(values: Values) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.tags.items()]


def _or(name: str, default: int) -> ComputedProperty:
    """Return the source of a member with its default (documented)."""
    return ComputedProperty((name,), lambda values: values.get(name) or default)


DECLARED = [
    DeclaredType(
        "AWS::CodeBuild::Project",
        "codebuild",
        create=[Call("CreateProject")],
        id="Name",
        read=Call("BatchGetProjects", {"names": lambda v: [v.id]}),
        update=[
            Call(
                "UpdateProject",
                {
                    "name": "@id",
                    "tags": _project_tags,
                    "timeoutInMinutes": _or("TimeoutInMinutes", 60),
                    "queuedTimeoutInMinutes": _or("QueuedTimeoutInMinutes", 480),
                },
                empties=True,
            )
        ],
        delete=[Call("DeleteProject", {"name": "@id"})],
        name="Name",
        name_length=255,
        attributes={"Arn": "@answer.projects.0.arn", "Id": "@id"},
    ),
]
