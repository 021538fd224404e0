"""Roles, and clients that act as them, for tests of permissions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

__all__ = ["ACCOUNT", "REGION", "allow", "as_role", "make_role", "refusal", "statements", "trust"]


def statements(*given: dict[str, Any]) -> dict[str, Any]:
    """Return a policy."""
    return {"Version": "2012-10-17", "Statement": list(given)}


def allow(actions: str | list[str], resource: str | list[str]) -> dict[str, Any]:
    """Return a statement that allows."""
    return {"Effect": "Allow", "Action": actions, "Resource": resource}


def trust(who: str) -> dict[str, Any]:
    """Return a trust policy for a service, or an ARN."""
    kind = "AWS" if who.startswith("arn:") else "Service"
    return statements({"Effect": "Allow", "Principal": {kind: who}, "Action": "sts:AssumeRole"})


def make_role(
    cloud: InProcessCloud, name: str, *allowed: dict[str, Any], trusts: str = "lambda.amazonaws.com"
) -> str:
    """Make a role with an inline policy `own` of these statements; return its ARN."""
    iam = cloud.client("iam")
    document = json.dumps(trust(trusts))
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]
    if allowed:
        policy = json.dumps(statements(*allowed))
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=policy)
    return role["Arn"]


def as_role(cloud: InProcessCloud, role: str, service: str, *, policy: str = "") -> Any:
    """Return a client with credentials of a session `s1` of a role."""
    params = {"Policy": policy} if policy else {}
    arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
    found = cloud.client("sts").assume_role(RoleArn=arn, RoleSessionName="s1", **params)
    keys = found["Credentials"]
    return client_of(
        service,
        cloud.handle,
        account=keys["AccessKeyId"],
        region=REGION,
        token=keys["SessionToken"],
    )


def refusal(call: Any, **params: Any) -> tuple[str, int, str]:
    """Return code, HTTP status and sentence of the error that a call is answered with."""
    with pytest.raises(ClientError) as error:
        call(**params)
    response: Any = error.value.response
    found = response["Error"]
    return found["Code"], response["ResponseMetadata"]["HTTPStatusCode"], found["Message"]
