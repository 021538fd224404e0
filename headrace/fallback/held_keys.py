"""Reads from moto which customer's key encrypts a queue, a topic or a secret, and who has grants on a key.

Without a request: moto's services ask for them amid one of their own. moto must be loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def key_arn(key_id: str, account: str, region: str) -> str:
    """Return the ARN of a customer's key of an id, an alias or an ARN; empty for AWS's own, and for none."""
    from moto.kms.models import kms_backends

    if not key_id or "alias/aws/" in key_id:
        return ""
    if key_id.startswith("arn:"):
        region, account = key_id.split(":", 5)[3:5]
    backend: Any = kms_backends[account][region]
    try:
        key = backend.keys[backend.any_id_to_key_id(key_id)]
    except (KeyError, AttributeError):
        return ""
    return "" if key.key_manager != "CUSTOMER" else str(key.arn)


def key_held(arn: str) -> str:
    """Return the ARN of the customer's key of a queue, a topic or a secret; empty for none."""
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
    given = "" if held is None else str(getattr(held, "kms_master_key_id", "") or "")
    return key_arn(given, account, region)


def grants_on(key: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield grantee and operations of each grant on a key without constraints.

    A grant that asks for an encryption context lets nobody through: headrace does not know the contexts of services.
    """
    from moto.kms.models import kms_backends

    region, account, resource = key.split(":", 5)[3:]
    found: Any = kms_backends[account][region].keys.get(resource.removeprefix("key/"))
    for grant in () if found is None else list(found.grants.values()):
        if not grant.constraints:
            yield str(grant.grantee_principal), tuple(grant.operations)
