"""KMS keys and aliases."""

import json

from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    boolean,
    enforced,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

DEFAULT_WINDOW_DAYS = 30


def _create_key(context: Context, properties: Properties) -> ResourceResult:
    tags = [
        {"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tag_list(properties, context)
    ]
    params = {"Description": properties.get("Description", ""), "Tags": tags}
    if "KeyPolicy" in properties:
        params["Policy"] = json.dumps(properties["KeyPolicy"])
    for name in ("KeySpec", "KeyUsage", "Origin"):
        if name in properties:
            params[name] = properties[name]
    for name in ("MultiRegion", "BypassPolicyLockoutSafetyCheck"):
        if name in properties:
            params[name] = boolean(properties[name])
    key = context.call("kms", "CreateKey", params)["KeyMetadata"]
    context.note_made(key["KeyId"])
    if boolean(properties.get("EnableKeyRotation")):
        _set_rotation(context, key["KeyId"], properties)
    if not boolean(properties.get("Enabled", True)):
        context.call("kms", "DisableKey", {"KeyId": key["KeyId"]})
    return ResourceResult(key["KeyId"], {"Arn": key["Arn"], "KeyId": key["KeyId"]})


def _set_rotation(context: Context, key_id: str, properties: Properties) -> None:
    if not boolean(properties.get("EnableKeyRotation")):
        context.call("kms", "DisableKeyRotation", {"KeyId": key_id})
        return
    days = properties.get("RotationPeriodInDays")
    period = {} if days is None else {"RotationPeriodInDays": int(days)}
    context.call("kms", "EnableKeyRotation", {"KeyId": key_id, **period})


def _update_key(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    if "KeyPolicy" in new:
        context.call(
            "kms",
            "PutKeyPolicy",
            {"KeyId": physical_id, "PolicyName": "default", "Policy": json.dumps(new["KeyPolicy"])},
        )
    context.call(
        "kms",
        "UpdateKeyDescription",
        {"KeyId": physical_id, "Description": new.get("Description", "")},
    )
    # The rotation of a disabled key cannot be changed.
    context.call("kms", "EnableKey", {"KeyId": physical_id})
    _set_rotation(context, physical_id, new)
    if not boolean(new.get("Enabled", True)):
        context.call("kms", "DisableKey", {"KeyId": physical_id})
    key = context.call("kms", "DescribeKey", {"KeyId": physical_id})["KeyMetadata"]
    return ResourceResult(physical_id, {"Arn": key["Arn"], "KeyId": physical_id})


def _delete_key(context: Context, physical_id: str, properties: Properties) -> None:
    days = int(properties.get("PendingWindowInDays", DEFAULT_WINDOW_DAYS))
    params = {"KeyId": physical_id, "PendingWindowInDays": days}
    context.delete_if_exists(
        "kms", "ScheduleKeyDeletion", params, "NotFoundException", "KMSInvalidStateException"
    )


def _find_alias(context: Context, properties: Properties) -> str | None:
    name = properties["AliasName"]
    return context.find_identifier("kms", "DescribeKey", {"KeyId": name}, name)


def _create_alias(context: Context, properties: Properties) -> ResourceResult:
    context.call(
        "kms",
        "CreateAlias",
        {"AliasName": properties["AliasName"], "TargetKeyId": properties["TargetKeyId"]},
    )
    return ResourceResult(properties["AliasName"])


def _update_alias(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    context.call(
        "kms", "UpdateAlias", {"AliasName": physical_id, "TargetKeyId": new["TargetKeyId"]}
    )
    return ResourceResult(physical_id)


def _delete_alias(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("kms", "DeleteAlias", {"AliasName": physical_id}, "NotFoundException")


TYPES = [
    ResourceType(
        "AWS::KMS::Key",
        {
            **enforced(
                "Description", "Tags", "KeySpec", "KeyUsage", "PendingWindowInDays", "Enabled"
            ),
            **stored(
                "KeyPolicy",
                "EnableKeyRotation",
                "RotationPeriodInDays",
                "MultiRegion",
                "Origin",
                "BypassPolicyLockoutSafetyCheck",
            ),
        },
        _create_key,
        _delete_key,
        update=_update_key,
        replace_on=frozenset({"KeySpec", "KeyUsage", "MultiRegion", "Origin"}),
    ),
    ResourceType(
        "AWS::KMS::Alias",
        enforced("AliasName", "TargetKeyId"),
        _create_alias,
        _delete_alias,
        update=_update_alias,
        replace_on=frozenset({"AliasName"}),
        named_by=("AliasName",),
        find=_find_alias,
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::KMS::Key",
        "kms",
        (
            ReadCall(
                "DescribeKey",
                {"KeyId": "@id"},
                "KeyMetadata",
                same("Description KeySpec KeyUsage"),
            ),
            ReadCall(
                "GetKeyRotationStatus",
                {"KeyId": "@id"},
                properties={"EnableKeyRotation": "KeyRotationEnabled"},
            ),
            ReadCall(
                "GetKeyPolicy",
                {"KeyId": "@id", "PolicyName": "default"},
                properties={"KeyPolicy": "Policy"},
            ),
        ),
        same("Arn KeyId"),
        gone=lambda key: key["KeyState"] == "PendingDeletion",
    ),
)
