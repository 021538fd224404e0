"""Reads the tags of resources from moto's memory, without a request. moto must be loaded.

moto's services use it during a request of their own, which another request must not interrupt.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001 - moto stores a topic's tags in a private attribute

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from headrace.moto.memory import iam


def tags_in_moto(arn: str) -> dict[str, str]:
    """Return the tags of a role, a user, a queue, a topic, a key, a secret or a table; none for other types."""
    _, _, service, region, account, resource = arn.split(":", 5)
    read = _READERS.get(service)
    if read is None:
        return {}
    try:
        return _pairs(read(account, region, resource, arn))
    except (KeyError, AttributeError):
        return {}


def _pairs(given: Any) -> dict[str, str]:
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in cast("Mapping[Any, Any]", given).items()}
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in given or ()}


def _holder(account: str, region: str, resource: str, arn: str) -> Any:
    holder = iam.holder_of_arn(arn)
    return {} if holder is None else iam.tags_of(holder)


def _queue(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.sqs.models import sqs_backends

    return sqs_backends[account][region].queues[resource].tags


def _topic(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.sns.models import sns_backends

    topics: Any = sns_backends[account][region].topics
    return topics[arn]._tags


def _key(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.kms.models import kms_backends

    backend: Any = kms_backends[account][region]
    return backend.tagger.get_tag_dict_for_resource(resource.removeprefix("key/"))


def _secret(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.secretsmanager.models import secretsmanager_backends

    secrets: Any = secretsmanager_backends[account][region].secrets
    return secrets[arn].tags


def _table(account: str, region: str, resource: str, arn: str) -> Any:
    from moto.dynamodb.models import dynamodb_backends

    tables: Any = dynamodb_backends[account][region].tables
    return tables[resource.removeprefix("table/").partition("/")[0]].tags


_READERS: dict[str, Callable[[str, str, str, str], Any]] = {
    "iam": _holder,
    "sqs": _queue,
    "sns": _topic,
    "kms": _key,
    "secretsmanager": _secret,
    "dynamodb": _table,
}
