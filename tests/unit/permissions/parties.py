"""Principals, accesses and policies that the tests of permissions share."""

from __future__ import annotations

import json
from typing import Any

from headrace.permissions.policies.model import Access, NamedPolicy, Principal

ACCOUNT = "111122223333"
OTHER = "444455556666"
STREAM = f"arn:aws:kinesis:eu-west-1:{ACCOUNT}:stream/flights"
JOHN = Principal(
    "user",
    f"arn:aws:iam::{ACCOUNT}:user/John",
    account=ACCOUNT,
    identity_arn=f"arn:aws:iam::{ACCOUNT}:user/John",
    user_id="AIDAJOHN",
    name="John",
)
MAPPER = Principal(
    "role",
    f"arn:aws:sts::{ACCOUNT}:assumed-role/mapper/session",
    account=ACCOUNT,
    identity_arn=f"arn:aws:iam::{ACCOUNT}:role/app/mapper",
    user_id="AROAMAPPER:session",
    name="mapper",
)
ROOT = Principal("root", f"arn:aws:iam::{ACCOUNT}:root", account=ACCOUNT, user_id=ACCOUNT)
LAMBDA = Principal("service", "lambda.amazonaws.com")
NOBODY = Principal("anonymous", "")
PUT = Access("kinesis:PutRecord", STREAM, ACCOUNT)


def policy(
    *statements: dict[str, Any], name: str = "p", version: str = "2012-10-17"
) -> NamedPolicy:
    """Return a policy of these statements."""
    return NamedPolicy.of(name, json.dumps({"Version": version, "Statement": list(statements)}))


def allow(action: Any = "*", resource: Any = "*", **others: Any) -> dict[str, Any]:
    """Return a statement that allows."""
    return {"Effect": "Allow", "Action": action, "Resource": resource, **others}


def deny(action: Any = "*", resource: Any = "*", **others: Any) -> dict[str, Any]:
    """Return a statement that denies."""
    return {**allow(action, resource, **others), "Effect": "Deny"}
