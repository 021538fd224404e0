"""Finds the actions and resources for which a request needs permission, before its operation runs. Pure functions.

Names and resource types come from `authorization.json`; exceptions of single services are in `requests/`. An operation
whose permissions no source documents has no accesses, and `why_unknown` returns the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.core.arn import s3_path_of
from headrace.permissions.policies.model import Access
from headrace.permissions.requests import deployment, others, s3
from headrace.permissions.requests.extras import (
    only_system_tags,
    role_permissions,
    tag_permissions,
    tags_of,
)
from headrace.permissions.requests.keys import key_permissions
from headrace.permissions.requests.lambda_ import kinesis_permissions, lambda_permissions
from headrace.permissions.requests.request import Find, Request, RequiredPermission, find_nothing
from headrace.permissions.requests.table import prefix_of, resources_of

_RULES: dict[str, Callable[[Request], tuple[RequiredPermission, ...] | None]] = {
    "kinesis": kinesis_permissions,
    "lambda": lambda_permissions,
    "s3": s3.s3_permissions,
    **others.RULES,
    **deployment.RULES,
}
# Operations that need no permission: those on the caller's own identity (by their references), and those for which an
# identity provider vouches.
FREE = {
    ("sts", name)
    for name in (
        "GetCallerIdentity",
        "GetSessionToken",
        "AssumeRoleWithSAML",
        "AssumeRoleWithWebIdentity",
    )
}


def accesses_of(
    service: str,
    operation: str,
    parameters: Mapping[str, Any],
    account: str,
    region: str,
    find: Find = find_nothing,
) -> tuple[Access, ...]:
    """Return the accesses that a request needs, its own action first; () when `why_unknown` has a reason.

    `service` is botocore's name, `parameters` are named as in botocore's model, `account` and `region` are the
    request's. `find` finds the ARNs of resources that parameters name otherwise (see `requests.request.Find`).
    Thread-safe; no I/O except the first read of the table.
    """
    if why_unknown(service, operation):
        return ()
    request = Request(service, operation, parameters, account, region, find)
    shared = {"aws:requestedregion": (region,)}
    return tuple(
        Access(
            permission.action,
            resource,
            _account_of(resource, request),
            {**shared, **permission.context},
        )
        for permission in _list_required_permissions(request)
        for resource in permission.resources or ("*",)
    )


def why_unknown(service: str, operation: str) -> str:
    """Return why it is unknown what an operation needs; empty when it is known."""
    prefix = prefix_of(service)
    if prefix is None:
        return f"No table says which actions {service} needs."
    if (service, operation) in FREE:
        return f"AWS lets everybody call {operation}."
    if operation.lower() in prefix.actions or (service, operation) in RENAMED:
        return ""
    return f"No source says which action {service}'s {operation} needs."


def _list_required_permissions(request: Request) -> Iterator[RequiredPermission]:
    if only_system_tags(request):
        return
    rule = _RULES.get(request.service)
    permissions = rule(request) if rule is not None else None
    if permissions is None:
        permissions = _by_table(request)
    tags = tags_of(request)
    context = {f"aws:requesttag/{key.lower()}": (value,) for key, value in tags.items()}
    keys: Any = (
        request.parameters.get("TagKeys") or request.parameters.get("tagKeys") or tuple(tags)
    )
    if keys:
        context["aws:tagkeys"] = tuple(keys)
    own = tuple(
        RequiredPermission(n.action, n.resources, {**context, **n.context}) for n in permissions
    )
    yield from own
    if own:
        for permission in tag_permissions(request, own[0].resources or ()):
            yield RequiredPermission(permission.action, permission.resources, context)
        yield from role_permissions(request)
        yield from key_permissions(request, own)


def _by_table(request: Request) -> tuple[RequiredPermission, ...]:
    prefix = prefix_of(request.service)
    action = prefix.actions.get(request.operation.lower()) if prefix else None
    if prefix is None or action is None:
        return ()
    return (
        RequiredPermission(f"{prefix.name}:{action.name}", resources_of(prefix, action, request)),
    )


def _account_of(resource: str, request: Request) -> str:
    """Return the account that owns a resource; S3's ARNs do not contain it."""
    if path := s3_path_of(resource):
        bucket = path.partition("/")[0]
        return request.find("s3", "owner", bucket) or request.account
    parts = resource.split(":", 5)
    named = parts[4] if len(parts) == 6 else ""
    return named if named.isdigit() else request.account


# Operations whose name differs from their action.
RENAMED = frozenset(
    {
        *(("s3", name) for name in s3.RENAMED),
        *(("lambda", name) for name in ("Invoke", "InvokeWithResponseStream", "GetLayerVersionByArn")),
        *(("sqs", name) for name in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")),
        ("sns", "PublishBatch"),
        *(
            ("dynamodb", name)
            for name in (
                "BatchExecuteStatement", "ExecuteStatement", "ExecuteTransaction", "TransactGetItems",
                "TransactWriteItems",
            )
        ),
        ("logs", "GetLogObject"),
        ("redshift-data", "GetStatementResultV2"),
        ("kms", "ReEncrypt"),
    }
)  # fmt: skip
