"""EMR Serverless applications."""

from __future__ import annotations

from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    stored,
    tag_map,
    without,
)

# Maps with keys of the user's own, such as Spark properties, keep their spelling.
_USER_KEYS = frozenset({"Properties", "WorkerTypeSpecifications", "EncryptionContext"})
_BOOLEANS = frozenset({"Enabled", "LivyEndpointEnabled", "StudioEnabled", "SessionEnabled"})
_INTEGERS = frozenset(
    {"IdleTimeoutMinutes", "WorkerCount", "MaxConcurrentRuns", "QueueTimeoutMinutes"}
)
_STORED = (
    "Architecture",
    "DiskEncryptionConfiguration",
    "IdentityCenterConfiguration",
    "ImageConfiguration",
    "InitialCapacity",
    "InteractiveConfiguration",
    "JobLevelCostAllocationConfiguration",
    "MaximumCapacity",
    "NetworkConfiguration",
    "WorkerTypeSpecifications",
)


def _members(value: Any, name: str = "") -> Any:
    """Return a template's value in the API's spelling: `IdleTimeoutMinutes: "5"` is `idleTimeoutMinutes: 5`."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if items and all(_is_pair(item) for item in items):
            return {item["Key"]: _members(item["Value"]) for item in items}
        return [_members(item) for item in items]
    if isinstance(value, dict):
        document = cast("dict[str, Any]", value)
        if name in _USER_KEYS:
            return {
                key: _members(item) if isinstance(item, dict) else str(item)
                for key, item in document.items()
            }
        return {key[:1].lower() + key[1:]: _members(item, key) for key, item in document.items()}
    if name in _BOOLEANS:
        return boolean(value)
    return int(value) if name in _INTEGERS else value


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"Key", "Value"}


def _create(context: Context, properties: Properties) -> ResourceResult:
    params = _members(without(properties, "Tags"))
    params["clientToken"] = context.ids.uuid()
    tags = tag_map(properties, context)
    if tags:
        params["tags"] = tags
    answer = context.call("emr-serverless", "CreateApplication", params)
    return _build_result(answer["applicationId"], answer["arn"])


def _application(context: Context, properties: Properties) -> str | None:
    """Return the newest application with this name."""
    applications = context.call("emr-serverless", "ListApplications", {})["applications"]
    named = [
        application
        for application in applications
        if application.get("name") == properties.get("Name")
    ]
    newest = max(named, key=lambda application: application["createdAt"], default=None)
    return newest and str(newest["id"])


def _build_result(application_id: str, arn: str) -> ResourceResult:
    return ResourceResult(application_id, {"ApplicationId": application_id, "Arn": arn})


def _stop(context: Context, physical_id: str) -> dict[str, Any]:
    """Stop a running application, so that it can be changed or deleted; return its previous description."""
    where = {"applicationId": physical_id}
    application = context.call("emr-serverless", "GetApplication", where)["application"]
    if application["state"] == "STARTED":
        context.call("emr-serverless", "StopApplication", where)
    return application


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    arn = str(_stop(context, physical_id)["arn"])
    params = _members(without(new, "Name", "Type", "Tags"))
    params.update(applicationId=physical_id, clientToken=context.ids.uuid())
    context.call("emr-serverless", "UpdateApplication", params)
    before, after = tag_map(old, context), tag_map(new, context)
    gone = sorted(set(before) - set(after))
    if gone:
        context.call("emr-serverless", "UntagResource", {"resourceArn": arn, "tagKeys": gone})
    if after:
        context.call("emr-serverless", "TagResource", {"resourceArn": arn, "tags": after})
    return _build_result(physical_id, arn)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        state = _stop(context, physical_id)["state"]
    except AwsError as error:
        if error.code == "ResourceNotFoundException":
            return
        raise
    if state != "TERMINATED":
        context.call("emr-serverless", "DeleteApplication", {"applicationId": physical_id})


TYPES = [
    ResourceType(
        "AWS::EMRServerless::Application",
        {
            **enforced("Name", "Type", "Tags", "AutoStartConfiguration", "AutoStopConfiguration"),
            **enforced("MonitoringConfiguration", "RuntimeConfiguration"),
            **enforced("SchedulerConfiguration"),
            **stored("ReleaseLabel", *_STORED),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"Name", "Type"}),
        made=_application,
    )
]
