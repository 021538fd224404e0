"""Reads from moto which customer managed key encrypts a resource, and the grants on a key.

It makes no request, because moto's services use it during a request of their own. moto must be loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.permissions.requests.keys import Grant

_ARN_PARTS = 6


def key_arn(key_id: str, account: str, region: str) -> str:
    """Return the ARN of the customer managed key with an id, an alias or an ARN; empty for any other."""
    key = None if not key_id or "alias/aws/" in key_id else _key_of(key_id, account, region)
    if key is None:
        return ""
    # moto creates some AWS managed keys like a customer's, with their alias.
    is_own = key.key_manager != "CUSTOMER" or any("alias/aws/" in name for name in key.aliases)
    return "" if is_own else str(key.arn)


def key_in_moto(arn: str) -> str:
    """Return the ARN of the customer managed key of a queue, a topic, a secret or a table; empty without one."""
    _, _, service, region, account, resource = arn.split(":", 5)
    held: Any = None
    if service == "sqs":
        from moto.sqs.models import sqs_backends

        held = sqs_backends[account][region].queues.get(resource)
    elif service == "sns":
        from moto.sns.models import sns_backends

        held = sns_backends[account][region].topics.get(arn)
    elif service == "secretsmanager":
        from moto.secretsmanager.models import secretsmanager_backends

        secret: Any = secretsmanager_backends[account][region].secrets.get(arn)
        return "" if secret is None else key_arn(str(secret.kms_key_id or ""), account, region)
    elif service == "dynamodb":
        return key_arn(_key_of_table(account, region, resource), account, region)
    key_id = "" if held is None else str(getattr(held, "kms_master_key_id", "") or "")
    return key_arn(key_id, account, region)


def _key_of_table(account: str, region: str, resource: str) -> str:
    from moto.dynamodb.models import dynamodb_backends

    name = resource.removeprefix("table/").partition("/")[0]
    table: Any = dynamodb_backends[account][region].tables.get(name)
    sse_specification: Any = (None if table is None else table.sse_specification) or {}
    return (
        str(sse_specification.get("KMSMasterKeyId") or "")
        if sse_specification.get("Enabled")
        else ""
    )


def grants_on(key: str) -> Iterator[Grant]:
    """Yield each grant on a key."""
    from moto.kms.models import kms_backends

    region, account, resource = key.split(":", 5)[3:]
    key_there: Any = kms_backends[account][region].keys.get(resource.removeprefix("key/"))
    for grant in () if key_there is None else list(key_there.grants.values()):
        constraints: Any = grant.constraints or {}
        equals = constraints.get("EncryptionContextEquals")
        yield Grant(
            str(grant.grantee_principal),
            tuple(grant.operations),
            None if equals is None else dict(equals),
            dict(constraints.get("EncryptionContextSubset") or {}),
        )


def state_of_key(key_id: str, account: str, region: str) -> tuple[str, str]:
    """Return the ARN and the state (`Enabled`, `Disabled`, `PendingDeletion`, ...) of a key; "" and "" for none.

    This includes AWS managed keys. `key_id` is an id, an alias, or an ARN of either.
    """
    key = _key_of(key_id, account, region)
    return ("", "") if key is None else (str(key.arn), str(key.key_state))


def _key_of(key_id: str, account: str, region: str) -> Any:
    """Return moto's key with an id, an alias or an ARN, whose account and region apply; None for none."""
    from moto.kms.models import kms_backends

    if key_id.startswith("arn:"):
        parts = key_id.split(":", 5)
        if len(parts) < _ARN_PARTS:
            return None
        region, account = parts[3:5]
    try:
        backend: Any = kms_backends[account][region]
        return backend.keys[backend.any_id_to_key_id(key_id)]
    except (KeyError, AttributeError):
        return None
