"""Checks bucket policies as S3 does, with S3's error messages. Pure functions.

Sources: the errors that users report of PutBucketPolicy, collected and compared with AWS by S3's other implementations
(github.com/versity/versitygw issues 645, 648, 650; github.com/noobaa/noobaa-core/issues/10058; for the principal
github.com/cloud-custodian/cloud-custodian/issues/4948); 20 KB:
docs.aws.amazon.com/AmazonS3/latest/userguide/example-bucket-policies.html; LocalStack's recorded answers for text that
is not JSON. Not checked here: whether a condition's S3 key is possible with the statement's actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import s3_path_of
from headrace.core.wildcards import glob_matches
from headrace.permissions.policies.grammar import PolicyError, check_policy
from headrace.permissions.policies.resource_grammar import (
    Exists,
    actions_of,
    as_list,
    find_missing_principal,
)
from headrace.permissions.requests.table import Action, prefix_named

MOST_BYTES = 20 * 1024
_REQUIRED = ("Effect", "Principal", "Action", "Resource")
_ON_BUCKETS = frozenset({"bucket", "accesspoint"})
_ON_OBJECTS = frozenset({"object", "accesspointobject"})


def check_bucket_policy(text: str, bucket: str, exists: Exists) -> None:
    """Refuse a policy that S3 does not accept for the bucket. Raises AwsError MalformedPolicy."""
    if len(text.encode()) > MOST_BYTES:
        raise _build_malformed_error("Policy exceeds the maximum allowed document size.")
    statements = _parse_statements(text)
    for statement in statements:
        _check_fields(statement)
    _check_grammar(text)
    if find_missing_principal(text, exists):
        raise _build_malformed_error("Invalid principal in policy")
    for statement in statements:
        _check_actions(statement, bucket)
        _check_keys(statement)


def _parse_statements(text: str) -> list[dict[str, Any]]:
    try:
        policy: Any = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        policy = None
    if not isinstance(policy, dict):
        raise _build_malformed_error("Policies must be valid JSON and the first byte must be '{'")
    if "Statement" not in policy:
        raise _build_malformed_error("Missing required field Statement")
    statements = as_list(cast("dict[str, Any]", policy)["Statement"])
    if not statements:
        raise _build_malformed_error("Could not parse the policy: Statement is empty!")
    if not all(isinstance(statement, dict) for statement in statements):
        raise _build_malformed_error("Policy has invalid statement")
    return [cast("dict[str, Any]", statement) for statement in statements]


def _check_fields(statement: dict[str, Any]) -> None:
    for name in _REQUIRED:
        if name not in statement and (name == "Effect" or f"Not{name}" not in statement):
            raise _build_malformed_error(f"Missing required field {name}")
    effect = statement["Effect"]
    if effect not in ("Allow", "Deny"):
        raise _build_malformed_error(f"Invalid effect: {effect}")


def _check_grammar(text: str) -> None:
    try:
        check_policy(text, "resource")
    except PolicyError as error:
        if error.message.startswith("Invalid principal"):
            raise _build_malformed_error("Invalid principal in policy") from None
        if "vendor" in error.message.lower() or error.message.startswith("Action"):
            raise _build_malformed_error("Policy has invalid action") from None
        if "esource" in error.message or "artition" in error.message:
            raise _build_malformed_error("Policy has invalid resource") from None
        raise _build_malformed_error("Invalid policy syntax.") from None


def _check_actions(statement: dict[str, Any], bucket: str) -> None:
    actions = {name: _list_named_actions(name) for name in actions_of(statement)}
    resources = [
        str(one) for one in as_list(statement.get("Resource", statement.get("NotResource")))
    ]
    if not all(_is_of(bucket, resource) for resource in resources):
        raise _build_malformed_error("Policy has invalid resource")
    if "NotAction" in statement or "NotResource" in statement:
        return
    for named in actions.values():
        if not any(_fits(action, resources) for action in named):
            raise _build_malformed_error("Action does not apply to any resource(s) in statement")


def _check_keys(statement: dict[str, Any]) -> None:
    """Refuse condition keys of other services; a prefix with a dot is an identity provider. `s3:` keys all pass."""
    for keys in cast("dict[str, dict[str, Any]]", statement.get("Condition", {})).values():
        for key in keys:
            vendor = key.lower().partition(":")[0] if ":" in key else ""
            if vendor not in ("aws", "s3", "saml") and "." not in vendor:
                raise _build_malformed_error("Policy has an invalid condition key")


def _list_named_actions(action: str) -> tuple[Action, ...]:
    """Return the S3 actions that a name or a pattern matches. Raises AwsError when it matches none."""
    prefix = prefix_named("s3")
    assert prefix is not None
    vendor, _, name = action.lower().partition(":")
    actions: Iterable[Action] = ()
    if action == "*":
        actions = prefix.actions.values()
    elif vendor == "s3":
        if "*" not in name and "?" not in name:
            actions = filter(None, (prefix.actions.get(name),))
        else:
            actions = (one for key, one in prefix.actions.items() if glob_matches(name, key))
    row = tuple(actions)
    if not row:
        raise _build_malformed_error("Policy has invalid action")
    return row


def _is_of(bucket: str, resource: str) -> bool:
    """Whether a resource is the bucket or is in it; a pattern must match the bucket's own name."""
    path = s3_path_of(resource)
    if not path:
        return resource.split(":", 3)[2:3] == ["s3"] and ":accesspoint/" in resource
    name = path.partition("/")[0]
    return "${" in name or glob_matches(name, bucket)


def _fits(action: Action, resources: list[str]) -> bool:
    kinds = {*action.required, *action.optional}
    if not kinds & (_ON_BUCKETS | _ON_OBJECTS):
        return False
    on_objects = bool(kinds & _ON_OBJECTS)
    return any(
        ":accesspoint/" in resource
        or (("/" in resource or resource.endswith("*")) if on_objects else _may_be_bucket(resource))
        for resource in resources
    )


def _may_be_bucket(resource: str) -> bool:
    return "/" not in resource


def _build_malformed_error(message: str) -> AwsError:
    return AwsError("MalformedPolicy", message)
