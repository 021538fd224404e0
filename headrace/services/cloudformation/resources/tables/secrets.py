"""Secrets Manager."""

from __future__ import annotations

import json
from typing import Any

from headrace.aws.errors import AwsError
from headrace.services.cloudformation.resources.base import boolean
from headrace.services.cloudformation.resources.declaration import (
    Call,
    Declared,
    Values,
    made_of,
)

_RULES = (
    "ExcludeCharacters",
    "ExcludeLowercase",
    "ExcludeNumbers",
    "ExcludePunctuation",
    "ExcludeUppercase",
    "IncludeSpace",
    "RequireEachIncludedType",
)


@made_of("SecretString", "GenerateSecretString")
def _secret(values: Values) -> str | None:
    """Return the secret that a template gives, or one made by the rules that it gives."""
    rules = values.get("GenerateSecretString")
    if rules is None:
        return values.get("SecretString")
    params: dict[str, Any] = {name: boolean(rules[name]) for name in _RULES[1:] if name in rules}
    if "ExcludeCharacters" in rules:
        params["ExcludeCharacters"] = rules["ExcludeCharacters"]
    params["PasswordLength"] = int(rules.get("PasswordLength", 32))
    password = values.context.call("secretsmanager", "GetRandomPassword", params)["RandomPassword"]
    if "SecretStringTemplate" not in rules:
        return str(password)
    try:
        template = json.loads(rules["SecretStringTemplate"])
    except (TypeError, ValueError):
        template = None
    if not isinstance(template, dict) or "GenerateStringKey" not in rules:
        # The sentence is assumed.
        raise AwsError(
            "InvalidParameterException",
            "SecretStringTemplate must be a JSON object, and GenerateStringKey the name of its new member.",
        )
    return json.dumps({**template, rules["GenerateStringKey"]: password})


_ID = {"SecretId": "@id"}
TYPES = [
    Declared(
        "AWS::SecretsManager::Secret",
        "secretsmanager",
        create=[Call("CreateSecret", {"SecretString": _secret})],
        id="@answer.ARN",
        read=Call("DescribeSecret", _ID),
        update=[
            Call("UpdateSecret", _ID, only=("Description", "KmsKeyId")),
            Call("PutSecretValue", {**_ID, "SecretString": _secret}, only=()),
        ],
        delete=[Call("DeleteSecret", {**_ID, "ForceDeleteWithoutRecovery": lambda _: True})],
        name="Name",
        name_length=512,
        names={"ReplicaRegions": "AddReplicaRegions"},
        attributes={"Id": "@id"},
        tag=("TagResource", "UntagResource", "SecretId", "@id"),
    ),
    Declared(
        "AWS::SecretsManager::ResourcePolicy",
        "secretsmanager",
        create=[Call("PutResourcePolicy")],
        id="SecretId",
        update=[
            Call("PutResourcePolicy", only=("ResourcePolicy", "BlockPublicPolicy"), members=_ID)
        ],
        delete=[Call("DeleteResourcePolicy", _ID)],
    ),
    Declared(
        # Databases keep no password here: what it is for is only checked to be there.
        "AWS::SecretsManager::SecretTargetAttachment",
        "secretsmanager",
        create=[Call("DescribeSecret")],
        id="SecretId",
        delete=[],
        attributes={"Id": "@id"},
    ),
    Declared(
        "AWS::SecretsManager::RotationSchedule",
        "secretsmanager",
        create=[Call("RotateSecret", only=("SecretId", "RotationLambdaARN", "RotationRules"))],
        id="SecretId",
        update=[
            Call("RotateSecret", _ID, only=("RotationLambdaARN", "RotationRules")),
        ],
        delete=[Call("CancelRotateSecret", _ID)],
        attributes={"Id": "@id"},
    ),
]
