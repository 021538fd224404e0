"""Reads policies of queues, topics, event buses, log groups and keys from moto's memory, without a request.

moto's services use it during a request of their own, which another request must not interrupt. moto must be loaded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from headrace.core.arn import partition_of


def _queue(account: str, region: str, resource: str) -> Any:
    from moto.sqs.models import sqs_backends

    return _backend(sqs_backends, account, region).queues[resource].policy


def _topic(account: str, region: str, resource: str) -> Any:
    from moto.sns.models import sns_backends

    arn = f"arn:{partition_of(region)}:sns:{region}:{account}:{resource}"
    return _backend(sns_backends, account, region).topics[arn].policy


def _bus(account: str, region: str, resource: str) -> Any:
    from moto.events.models import events_backends

    name = resource.removeprefix("event-bus/")
    return _backend(events_backends, account, region).event_buses[name].policy


def _group(account: str, region: str, resource: str) -> Any:
    """Logs' policies belong to the account: a group's policy is all of them together."""
    from moto.logs.models import logs_backends

    statements: list[Any] = []
    for policy in list(_backend(logs_backends, account, region).resource_policies.values()):
        value: Any = json.loads(policy.policy_document).get("Statement", [])
        statements += cast("list[Any]", value if isinstance(value, list) else [value])
    return {"Version": "2012-10-17", "Statement": statements} if statements else None


def _backend(backends: Any, account: str, region: str) -> Any:
    return backends[account][region]


def _key(account: str, region: str, resource: str) -> Any:
    from moto.kms.models import kms_backends

    return _backend(kms_backends, account, region).keys[resource.removeprefix("key/")].policy


def _api(account: str, region: str, resource: str) -> Any:
    """REST APIs: their policies may write `execute-api:/STAGE/METHOD/PATH` for the ARN of a method."""
    from moto.apigateway.models import apigateway_backends

    api_id = resource.partition("/")[0]
    policy = _backend(apigateway_backends, account, region).apis[api_id].policy
    text = policy if isinstance(policy, str) else json.dumps(policy)
    arn = f"arn:{partition_of(region)}:execute-api:{region}:{account}:{api_id}/"
    return text.replace('"execute-api:/', f'"{arn}') if policy else None


_READERS: dict[str, Callable[[str, str, str], Any]] = {
    "sqs": _queue,
    "sns": _topic,
    "events": _bus,
    "logs": _group,
    "kms": _key,
    "execute-api": _api,
}


def policy_in_moto(arn: str) -> str | None:
    """Return the policy, as JSON, of a resource of one of these services by its ARN; None without one."""
    _, _, service, region, account, resource = arn.split(":", 5)
    try:
        policy = _READERS[service](account, region, resource)
    except (KeyError, LookupError):
        return None
    if not policy:
        return None
    return policy if isinstance(policy, str) else json.dumps(policy)
