"""Access control lists: they are read from requests, stored and returned, but never allow or refuse a request.

Source (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html and about-object-ownership.html.
The members of the errors are observed in AWS's recorded answers.

The owner that every bucket and object has, and the owner's grant.

Checks bucket policies as S3 does, with S3's error messages. Pure functions.

Sources: the errors that users report of PutBucketPolicy, collected and compared with AWS by S3's other implementations
(github.com/versity/versitygw issues 645, 648, 650; github.com/noobaa/noobaa-core/issues/10058; for the principal
github.com/cloud-custodian/cloud-custodian/issues/4948); 20 KB:
docs.aws.amazon.com/AmazonS3/latest/userguide/example-bucket-policies.html; LocalStack's recorded answers for text that
is not JSON. Not checked here: whether a condition's S3 key is possible with the statement's actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.shapes.s3 import Grant, Owner
from headrace.core.arn import s3_path_of
from headrace.core.patterns import glob_matches
from headrace.permissions.policies.document import (
    Exists,
    actions_of,
    as_list,
    find_missing_principal,
)
from headrace.permissions.policies.grammar import PolicyError, check_policy
from headrace.permissions.requests.table import Action, prefix_named
from headrace.services.s3.errors import invalid_argument, invalid_request
from headrace.services.s3.state import Bucket

MOST_BYTES = 20 * 1024
_REQUIRED = ("Effect", "Principal", "Action", "Resource")
_ON_BUCKETS = frozenset({"bucket", "accesspoint"})
_ON_OBJECTS = frozenset({"object", "accesspointobject"})


def check_bucket_policy(text: str, bucket: str, exists: Exists) -> None:
    """Refuse a policy that S3 does not accept for the bucket. Raises AwsError MalformedPolicy."""
    if len(text.encode()) > MOST_BYTES:
        raise _build_policy_error("Policy exceeds the maximum allowed document size.")
    statements = _parse_statements(text)
    for statement in statements:
        _check_fields(statement)
    _check_grammar(text)
    if find_missing_principal(text, exists):
        raise _build_policy_error("Invalid principal in policy")
    for statement in statements:
        _check_actions(statement, bucket)
        _check_keys(statement)


def _parse_statements(text: str) -> list[dict[str, Any]]:
    try:
        policy: Any = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        policy = None
    if not isinstance(policy, dict):
        raise _build_policy_error("Policies must be valid JSON and the first byte must be '{'")
    if "Statement" not in policy:
        raise _build_policy_error("Missing required field Statement")
    statements = as_list(cast("dict[str, Any]", policy)["Statement"])
    if not statements:
        raise _build_policy_error("Could not parse the policy: Statement is empty!")
    if not all(isinstance(statement, dict) for statement in statements):
        raise _build_policy_error("Policy has invalid statement")
    return [cast("dict[str, Any]", statement) for statement in statements]


def _check_fields(statement: dict[str, Any]) -> None:
    for name in _REQUIRED:
        if name not in statement and (name == "Effect" or f"Not{name}" not in statement):
            raise _build_policy_error(f"Missing required field {name}")
    effect = statement["Effect"]
    if effect not in ("Allow", "Deny"):
        raise _build_policy_error(f"Invalid effect: {effect}")


def _check_grammar(text: str) -> None:
    try:
        check_policy(text, "resource")
    except PolicyError as error:
        if error.message.startswith("Invalid principal"):
            raise _build_policy_error("Invalid principal in policy") from None
        if "vendor" in error.message.lower() or error.message.startswith("Action"):
            raise _build_policy_error("Policy has invalid action") from None
        if "esource" in error.message or "artition" in error.message:
            raise _build_policy_error("Policy has invalid resource") from None
        raise _build_policy_error("Invalid policy syntax.") from None


def _check_actions(statement: dict[str, Any], bucket: str) -> None:
    actions = {name: _list_named_actions(name) for name in actions_of(statement)}
    resources = [
        str(one) for one in as_list(statement.get("Resource", statement.get("NotResource")))
    ]
    if not all(_is_of(bucket, resource) for resource in resources):
        raise _build_policy_error("Policy has invalid resource")
    if "NotAction" in statement or "NotResource" in statement:
        return
    for named in actions.values():
        if not any(_fits(action, resources) for action in named):
            raise _build_policy_error("Action does not apply to any resource(s) in statement")


def _check_keys(statement: dict[str, Any]) -> None:
    """Refuse condition keys of other services; a prefix with a dot is an identity provider. `s3:` keys all pass."""
    for keys in cast("dict[str, dict[str, Any]]", statement.get("Condition", {})).values():
        for key in keys:
            vendor = key.lower().partition(":")[0] if ":" in key else ""
            if vendor not in ("aws", "s3", "saml") and "." not in vendor:
                raise _build_policy_error("Policy has an invalid condition key")


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
        raise _build_policy_error("Policy has invalid action")
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


def _build_policy_error(message: str) -> AwsError:
    return AwsError("MalformedPolicy", message)


OWNER_ID = "0" * 64
OWNER: Owner = {"DisplayName": "headrace", "ID": OWNER_ID}
FULL_CONTROL: list[Grant] = [
    {
        "Grantee": {"Type": "CanonicalUser", "DisplayName": "headrace", "ID": OWNER_ID},
        "Permission": "FULL_CONTROL",
    }
]


Grants = list[dict[str, Any]]

NAME = "BucketAcl"
_ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
_AUTHENTICATED = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
_LOG_DELIVERY = "http://acs.amazonaws.com/groups/s3/LogDelivery"
_GROUPS = (_ALL_USERS, _AUTHENTICATED, _LOG_DELIVERY)
_CANNED: dict[str, list[tuple[str, str]]] = {
    "private": [],
    "public-read": [(_ALL_USERS, "READ")],
    "public-read-write": [(_ALL_USERS, "READ"), (_ALL_USERS, "WRITE")],
    "authenticated-read": [(_AUTHENTICATED, "READ")],
    "log-delivery-write": [(_LOG_DELIVERY, "WRITE"), (_LOG_DELIVERY, "READ_ACP")],
    "aws-exec-read": [],
    "bucket-owner-read": [],
    "bucket-owner-full-control": [],
}
_OF_BUCKETS = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "log-delivery-write",
)
_GRANT_PARAMS = {
    "GrantFullControl": ("FULL_CONTROL", "x-amz-grant-full-control"),
    "GrantRead": ("READ", "x-amz-grant-read"),
    "GrantReadACP": ("READ_ACP", "x-amz-grant-read-acp"),
    "GrantWrite": ("WRITE", "x-amz-grant-write"),
    "GrantWriteACP": ("WRITE_ACP", "x-amz-grant-write-acp"),
}
_GIVING = frozenset({"ACL", *_GRANT_PARAMS})
_PERMISSIONS = tuple(permission for permission, _ in _GRANT_PARAMS.values())
_ONE_GRANTEE = re.compile(r'\s*(\w+)\s*=\s*"?([^"]*)"?\s*')


def list_object_grants(params: Mapping[str, Any], bucket: Bucket) -> Grants:
    """Return the grants of a new object, or [] when only the owner has a grant (full control). Raises AwsError."""
    if params.keys().isdisjoint(_GIVING):
        return []
    return _read_given_grants(params, bucket, tuple(_CANNED)) or []


def list_bucket_grants(params: Mapping[str, Any], bucket: Bucket) -> Grants | None:
    """Return the grants of a new bucket, or None when the request has none. Raises AwsError."""
    return _read_given_grants(params, bucket, _OF_BUCKETS)


def read_new_grants(params: Mapping[str, Any], bucket: Bucket, *, is_bucket: bool) -> Grants:
    """Return the grants in a PutBucketAcl or PutObjectAcl request. Raises AwsError."""
    document: dict[str, Any] | None = params.get("AccessControlPolicy")
    has_headers = params.get("ACL") or any(params.get(name) for name in _GRANT_PARAMS)
    if document is not None and has_headers:
        raise AwsError("UnexpectedContent", "This request does not support content")
    if document is not None:
        grants = _read_document(document)
        _check_allowed(bucket, grants, is_owners_only=grants == list(FULL_CONTROL))
        return grants
    given_grants = _read_given_grants(params, bucket, _OF_BUCKETS if is_bucket else tuple(_CANNED))
    if given_grants is None:
        raise AwsError(
            "MissingSecurityHeader",
            "Your request was missing a required header",
            400,
            {"MissingHeaderName": "x-amz-acl"},
        )
    return given_grants


def render_grants(grants: Grants) -> Grants:
    """Return the grants in the form of responses."""
    return grants or cast("Grants", FULL_CONTROL)


def _read_given_grants(
    params: Mapping[str, Any], bucket: Bucket, canned: tuple[str, ...]
) -> Grants | None:
    name = params.get("ACL")
    headers = {one: params[one] for one in _GRANT_PARAMS if params.get(one)}
    if name and headers:
        raise invalid_request("Specifying both Canned ACLs and Header Grants is not allowed")
    if headers:
        grants = [
            grant
            for one, text in headers.items()
            for grant in _parse_header(_GRANT_PARAMS[one], str(text))
        ]
        _check_allowed(bucket, grants, is_owners_only=False)
        return grants
    if not name:
        return None
    if name not in canned:
        raise invalid_argument("", "x-amz-acl", str(name))
    grants = [*cast("Grants", FULL_CONTROL), *(_group(*one) for one in _CANNED[name])]
    is_owners_only = name in ("private", "bucket-owner-full-control")
    _check_allowed(bucket, grants, is_owners_only=is_owners_only)
    return [] if len(grants) == 1 else grants


def _check_allowed(bucket: Bucket, grants: Grants, *, is_owners_only: bool) -> None:
    """Refuse grants that the bucket's object ownership or public access block forbids. Raises AwsError."""
    if is_owners_only:
        return
    if find_ownership(bucket) == "BucketOwnerEnforced":
        raise AwsError("AccessControlListNotSupported", "The bucket does not allow ACLs")
    block: dict[str, Any] = bucket.configurations.get("PublicAccessBlock") or {}
    is_public = any(grant["Grantee"].get("URI") in (_ALL_USERS, _AUTHENTICATED) for grant in grants)
    if is_public and block.get("BlockPublicAcls"):
        raise AwsError("AccessDenied", "Access Denied", 403)


def find_ownership(bucket: Bucket) -> str:
    """Return a bucket's object ownership; a bucket without ownership controls has ObjectWriter."""
    controls: dict[str, Any] = bucket.configurations.get("BucketOwnershipControls") or {}
    rules: list[dict[str, str]] = controls.get("Rules") or [{}]
    return rules[0].get("ObjectOwnership", "ObjectWriter")


def _group(uri: str, permission: str) -> dict[str, Any]:
    return {"Grantee": {"Type": "Group", "URI": uri}, "Permission": permission}


def _parse_header(header: tuple[str, str], text: str) -> Grants:
    permission, name = header
    grants: Grants = []
    for one in text.split(","):
        match = _ONE_GRANTEE.fullmatch(one)
        if match is None or match[1].lower() not in ("uri", "id", "emailaddress"):
            raise invalid_argument("Argument format not recognized", name, one.strip())
        grants.append(
            {"Grantee": _build_grantee(match[1], match[2], "uri", "id"), "Permission": permission}
        )
    return grants


def _build_grantee(kind: str, value: str, uri_name: str, id_name: str) -> dict[str, str]:
    if kind.lower() == "uri":
        if value not in _GROUPS:
            raise invalid_argument("Invalid group uri", uri_name, value)
        return {"Type": "Group", "URI": value}
    if kind.lower() == "id" and value != OWNER_ID:
        raise invalid_argument("Invalid id", id_name, value)
    return {"Type": "CanonicalUser", "DisplayName": "headrace", "ID": OWNER_ID}


def _read_document(document: Mapping[str, Any]) -> Grants:
    owner: dict[str, str] = document.get("Owner") or {}
    if not owner.get("ID") or "Grants" not in document:
        raise _build_malformed_error()
    entries: Grants = document["Grants"] or []
    if owner["ID"] != OWNER_ID:
        raise invalid_argument("Invalid id", "CanonicalUser/ID", owner["ID"])
    grants: Grants = []
    for one in entries:
        grantee: dict[str, str] = one.get("Grantee") or {}
        kind = grantee.get("Type")
        key = {"Group": "URI", "CanonicalUser": "ID", "AmazonCustomerByEmail": "EmailAddress"}.get(
            str(kind), ""
        )
        if one.get("Permission") not in _PERMISSIONS or not grantee.get(key):
            raise _build_malformed_error()
        named = _build_grantee(key, grantee[key], "Group/URI", "CanonicalUser/ID")
        grants.append({"Grantee": named, "Permission": one["Permission"]})
    return grants


def _build_malformed_error() -> AwsError:
    return AwsError(
        "MalformedACLError",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
