"""IAM roles, policies and instance profiles. `headrace up --iam enforce` acts on the policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.values import get_list
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, each_of, same

GONE = "NoSuchEntity"
# The default session length of a role is an hour (documented: AWS::IAM::Role, MaxSessionDuration).
_SESSION_SECONDS = 3600


def _document(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- roles ------------------------------------------------------------------------------------


def _create_role(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("RoleName") or context.generate_name(64)
    params: dict[str, Any] = {
        "RoleName": name,
        "Path": properties.get("Path", "/"),
        "AssumeRolePolicyDocument": _document(properties["AssumeRolePolicyDocument"]),
        # CloudFormation always passes a Description, which may be empty (recorded).
        "Description": properties.get("Description", ""),
        "Tags": tag_list(properties, context),
    }
    for key in ("MaxSessionDuration", "PermissionsBoundary"):
        if key in properties:
            params[key] = properties[key]
    if "MaxSessionDuration" in params:
        params["MaxSessionDuration"] = int(params["MaxSessionDuration"])
    role = context.call("iam", "CreateRole", params)["Role"]
    context.note_made(name)
    _set_role_policies(context, name, {}, properties)
    return ResourceResult(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _set_role_policies(context: Context, name: str, old: Properties, new: Properties) -> None:
    before, after = (set(get_list(p, "ManagedPolicyArns")) for p in (old, new))
    for arn in sorted(after - before):
        context.call("iam", "AttachRolePolicy", {"RoleName": name, "PolicyArn": arn})
    for arn in sorted(before - after):
        params = {"RoleName": name, "PolicyArn": arn}
        context.delete_if_exists("iam", "DetachRolePolicy", params, GONE)
    inline = {p["PolicyName"]: p["PolicyDocument"] for p in get_list(new, "Policies")}
    for policy, document in inline.items():
        context.call(
            "iam",
            "PutRolePolicy",
            {"RoleName": name, "PolicyName": policy, "PolicyDocument": _document(document)},
        )
    for policy in get_list(old, "Policies"):
        if policy["PolicyName"] not in inline:
            params = {"RoleName": name, "PolicyName": policy["PolicyName"]}
            context.delete_if_exists("iam", "DeleteRolePolicy", params, GONE)


def _set_boundary(context: Context, name: str, old: Properties, new: Properties) -> None:
    boundary = new.get("PermissionsBoundary")
    if boundary == old.get("PermissionsBoundary"):
        return
    if boundary:
        params = {"RoleName": name, "PermissionsBoundary": boundary}
        context.call("iam", "PutRolePermissionsBoundary", params)
    else:
        context.delete_if_exists("iam", "DeleteRolePermissionsBoundary", {"RoleName": name}, GONE)


def _update_role(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    trust = new["AssumeRolePolicyDocument"]
    if trust != old["AssumeRolePolicyDocument"]:
        params = {"RoleName": physical_id, "PolicyDocument": _document(trust)}
        context.call("iam", "UpdateAssumeRolePolicy", params)
    context.call(
        "iam",
        "UpdateRole",
        {
            "RoleName": physical_id,
            # A property that the template no longer has gets its default.
            "Description": new.get("Description", ""),
            "MaxSessionDuration": int(new.get("MaxSessionDuration", _SESSION_SECONDS)),
        },
    )
    _set_boundary(context, physical_id, old, new)
    _set_role_policies(context, physical_id, old, new)
    role = context.call("iam", "GetRole", {"RoleName": physical_id})["Role"]
    return ResourceResult(physical_id, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _delete_role(context: Context, physical_id: str, properties: Properties) -> None:
    try:
        attached = context.call("iam", "ListAttachedRolePolicies", {"RoleName": physical_id})
        inline = context.call("iam", "ListRolePolicies", {"RoleName": physical_id})
    except AwsError as error:
        if error.code == GONE:
            return
        raise
    for policy in attached["AttachedPolicies"]:
        params = {"RoleName": physical_id, "PolicyArn": policy["PolicyArn"]}
        context.delete_if_exists("iam", "DetachRolePolicy", params, GONE)
    for name in inline["PolicyNames"]:
        params = {"RoleName": physical_id, "PolicyName": name}
        context.delete_if_exists("iam", "DeleteRolePolicy", params, GONE)
    context.delete_if_exists("iam", "DeleteRole", {"RoleName": physical_id}, GONE)


# --- inline policies --------------------------------------------------------------------------

_HOLDERS = (("Roles", "Role"), ("Users", "User"), ("Groups", "Group"))


def _put_policy(context: Context, properties: Properties) -> None:
    for plural, kind in _HOLDERS:
        for holder in get_list(properties, plural):
            context.call(
                "iam",
                f"Put{kind}Policy",
                {
                    f"{kind}Name": holder,
                    "PolicyName": properties["PolicyName"],
                    "PolicyDocument": _document(properties["PolicyDocument"]),
                },
            )


def _find_policy(context: Context, properties: Properties) -> str | None:
    """Return an inline policy that exists already: a put would overwrite it, and a rollback would delete it."""
    name = properties.get("PolicyName")
    for plural, kind in _HOLDERS:
        for holder in get_list(properties, plural):
            params = {f"{kind}Name": holder, "PolicyName": name}
            physical_id = context.find_identifier(
                "iam", f"Get{kind}Policy", params, f"{name}|{holder}"
            )
            if physical_id:
                return physical_id
    return None


def _check_holders(properties: Properties) -> None:
    """Raise ResourceFailed for a policy attached to nobody, which AWS refuses (recorded; observed words)."""
    if not any(get_list(properties, plural) for plural, _ in _HOLDERS):
        raise ResourceFailed("At least one of [Groups,Roles,Users] must be non-empty.")


def _create_policy(context: Context, properties: Properties) -> ResourceResult:
    name = context.generate_name(64)
    context.note_made(name)
    _check_holders(properties)
    _put_policy(context, properties)
    return ResourceResult(name, {"Id": properties["PolicyName"]})


def _remove_policy(context: Context, physical_id: str, properties: Properties) -> None:
    _check_holders(properties)
    _delete_policy(context, physical_id, properties)


def _update_policy(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    _put_policy(context, new)
    for plural, _ in _HOLDERS:
        gone = [h for h in get_list(old, plural) if h not in get_list(new, plural)]
        _delete_policy(context, physical_id, {**old, plural: gone, **_others_empty(plural)})
    return ResourceResult(physical_id, {"Id": new["PolicyName"]})


def _others_empty(kept: str) -> Properties:
    return {plural: [] for plural, _ in _HOLDERS if plural != kept}


def _delete_policy(context: Context, physical_id: str, properties: Properties) -> None:
    for plural, kind in _HOLDERS:
        for holder in get_list(properties, plural):
            params = {f"{kind}Name": holder, "PolicyName": properties["PolicyName"]}
            context.delete_if_exists("iam", f"Delete{kind}Policy", params, GONE)


# --- reading ----------------------------------------------------------------------------------


def live_policies(context: Context, kind: str, holder: str, expected: Any) -> list[Properties]:
    """Return the inline policies of a role, user or group: those that a template names, or all.

    Others may be of an AWS::IAM::Policy, so that they are no difference.
    """
    who = {f"{kind}Name": holder}
    items = get_list({"it": expected}, "it") if isinstance(expected, list) else []
    names = [item["PolicyName"] for item in items if isinstance(item.get("PolicyName"), str)]
    found: list[Properties] = []
    for name in names or context.call("iam", f"List{kind}Policies", who)["PolicyNames"]:
        try:
            policy = context.call("iam", f"Get{kind}Policy", {**who, "PolicyName": name})
        except AwsError as error:
            if error.code != GONE:
                raise
        else:
            found.append({"PolicyName": name, "PolicyDocument": policy["PolicyDocument"]})
    return found


def attached_policies(context: Context, kind: str, holder: str) -> list[str]:
    """Return the ARNs of the managed policies of a role, user or group."""
    answer = context.call("iam", f"ListAttached{kind}Policies", {f"{kind}Name": holder})
    return [policy["PolicyArn"] for policy in answer["AttachedPolicies"]]


def _live_document(context: Context, arn: str, _: Any) -> Any:
    policy = context.call("iam", "GetPolicy", {"PolicyArn": arn})["Policy"]
    params = {"PolicyArn": arn, "VersionId": policy["DefaultVersionId"]}
    return context.call("iam", "GetPolicyVersion", params)["PolicyVersion"]["Document"]


def _live_holders(kind: str) -> Callable[[Context, str, Any], Any]:
    """Return what reads which of the roles, users or groups that a template names have a managed policy."""

    def read(context: Context, arn: str, expected: Any) -> list[str] | None:
        if not isinstance(expected, list):
            return None
        answer = context.call("iam", "ListEntitiesForPolicy", {"PolicyArn": arn})
        live = {one[f"{kind}Name"] for one in answer[f"Policy{kind}s"]}
        return [name for name in cast("list[str]", expected) if name in live]

    return read


TYPES = [
    ResourceType(
        "AWS::IAM::Role",
        {
            **enforced("RoleName", "Path", "Tags"),
            **stored(
                "AssumeRolePolicyDocument",
                "ManagedPolicyArns",
                "Policies",
                "Description",
                "MaxSessionDuration",
                "PermissionsBoundary",
            ),
        },
        _create_role,
        _delete_role,
        update=_update_role,
        replace_on=frozenset({"RoleName", "Path"}),
        named_by=("RoleName",),
    ),
    ResourceType(
        "AWS::IAM::Policy",
        {**enforced("PolicyName"), **stored("PolicyDocument", "Roles", "Users", "Groups")},
        _create_policy,
        _remove_policy,
        update=_update_policy,
        replace_on=frozenset({"PolicyName"}),
        named_by=("PolicyName",),
        find=_find_policy,
    ),
]

_PROFILE: dict[str, Source] = {"InstanceProfileName": "@id"}
_ITS_ROLE: dict[str, Source] = {**_PROFILE, "RoleName": "@item"}

# A managed policy has five versions at most (documented: IAM quotas).
_VERSIONS = 5
_MANAGED: dict[str, Source] = {"PolicyArn": "@id"}


def _other_versions(values: Values) -> list[str]:
    """Return the versions of a managed policy that are not its default, the oldest one first."""
    versions = values.context.call("iam", "ListPolicyVersions", {"PolicyArn": values.id})[
        "Versions"
    ]
    names = [each["VersionId"] for each in versions if not each["IsDefaultVersion"]]
    return sorted(names, key=lambda name: int(name.lstrip("v")))


def _attach(verb: str) -> list[Call]:
    """Return the calls that `Attach` a managed policy to its roles, users and groups, or `Detach` it."""
    return [
        Call(f"{verb}{kind}Policy", {**_MANAGED, f"{kind}Name": "@item"}, only=(), each=f"{kind}s")
        for kind in ("Role", "User", "Group")
    ]


DECLARED = [
    DeclaredType(
        "AWS::IAM::ManagedPolicy",
        "iam",
        create=[Call("CreatePolicy"), *_attach("Attach")],
        id="@answer.Policy.Arn",
        read=Call("GetPolicy", _MANAGED),
        update=[
            # As AWS's handler does.
            Call(
                "DeletePolicyVersion",
                {**_MANAGED, "VersionId": lambda v: _other_versions(v)[0]},
                when="PolicyDocument",
                only_if=lambda v: len(_other_versions(v)) >= _VERSIONS - 1,
            ),
            Call(
                "CreatePolicyVersion",
                {**_MANAGED, "SetAsDefault": lambda _: True},
                only=("PolicyDocument",),
            ),
        ],
        delete=[
            *_attach("Detach"),
            Call("DeletePolicyVersion", {**_MANAGED, "VersionId": "@item"}, each=_other_versions),
            Call("DeletePolicy", _MANAGED),
        ],
        name="ManagedPolicyName",
        name_length=128,
        names={"ManagedPolicyName": "PolicyName"},
        attributes={"PolicyArn": "@id"},
        enforced=frozenset({"ManagedPolicyName", "Path"}),
    ),
    DeclaredType(
        "AWS::IAM::InstanceProfile",
        "iam",
        create=[
            Call("CreateInstanceProfile"),
            Call("AddRoleToInstanceProfile", _ITS_ROLE, each="Roles"),
        ],
        id="InstanceProfileName",
        name="InstanceProfileName",
        name_length=128,
        read=Call("GetInstanceProfile", _PROFILE),
        # A profile has one role: the old one is removed before the new one is added.
        delete=[
            Call("RemoveRoleFromInstanceProfile", _ITS_ROLE, each="Roles"),
            Call("DeleteInstanceProfile", _PROFILE),
        ],
        # The answer has the roles whole, the template their names.
        unread=frozenset({"Roles"}),
        read_as={
            "Roles": lambda v: [role["RoleName"] for role in v.answer["InstanceProfile"]["Roles"]]
        },
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::IAM::Role",
        "iam",
        (
            ReadCall(
                "GetRole",
                {"RoleName": "@id"},
                "Role",
                same(
                    "AssumeRolePolicyDocument Description MaxSessionDuration Path RoleName",
                    PermissionsBoundary="PermissionsBoundary.PermissionsBoundaryArn",
                ),
            ),
            ReadCall(
                "ListAttachedRolePolicies",
                {"RoleName": "@id"},
                properties={"ManagedPolicyArns": each_of("AttachedPolicies", "PolicyArn")},
            ),
        ),
        same("Arn RoleId"),
        more={
            "Policies": lambda context, name, wanted: live_policies(context, "Role", name, wanted)
        },
    ),
    ReadingRules(
        "AWS::IAM::ManagedPolicy",
        "iam",
        (
            ReadCall(
                "GetPolicy",
                {"PolicyArn": "@id"},
                "Policy",
                same("Description Path", ManagedPolicyName="PolicyName"),
            ),
        ),
        {"PolicyArn": "Arn", "PolicyId": "PolicyId"},
        more={
            "PolicyDocument": _live_document,
            **{f"{kind}s": _live_holders(kind) for kind in ("Role", "User", "Group")},
        },
    ),
)
