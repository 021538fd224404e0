"""Gives moto what a request may leave out: moto reads those members without asking whether they are there.

Documented: each member is optional in the service's API reference, which says what its absence means.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class _LeftOut(NamedTuple):
    """moto's backend, its method and parameter, and what the parameter is when a request leaves it out."""

    backend: str
    method: str
    parameter: str
    meant: Callable[[Any], Any]


def _nothing(_: Any) -> list[Any]:
    return []


def _no_members(_: Any) -> dict[str, Any]:
    return {}


def _account(backend: Any) -> list[str]:
    return [str(backend.account_id)]


_CALLS: dict[str, tuple[_LeftOut, ...]] = {
    "apigateway": (_LeftOut("APIGatewayBackend", "update_account", "patch_operations", _nothing),),
    "athena": (_LeftOut("AthenaBackend", "create_capacity_reservation", "tags", _nothing),),
    "config": (
        _LeftOut("ConfigBackend", "describe_organization_conformance_packs", "names",
            lambda backend: list(backend.organization_conformance_packs)),
    ),
    "ecr": (_LeftOut("ECRBackend", "put_registry_scanning_configuration", "rules", _nothing),),
    "ecs": (
        # A managed instances provider has no Auto Scaling group.
        _LeftOut("EC2ContainerServiceBackend", "create_capacity_provider", "asg_details", _no_members),
    ),
    "inspector2": (
        _LeftOut("Inspector2Backend", "disable", "account_ids", _account),
        _LeftOut("Inspector2Backend", "disable", "resource_types",
            lambda _: ["EC2", "ECR", "LAMBDA", "LAMBDA_CODE"]),
        _LeftOut("Inspector2Backend", "enable", "account_ids", _account),
    ),
    "mediaconnect": (_LeftOut("MediaConnectBackend", "create_flow", "vpc_interfaces", _nothing),
        _LeftOut("MediaConnectBackend", "create_flow", "outputs", _nothing),
        _LeftOut("MediaConnectBackend", "create_flow", "sources", _nothing)),
    "route53resolver": (
        _LeftOut("Route53ResolverBackend", "create_resolver_rule", "target_ips", _nothing),
    ),
    "sagemaker": (_LeftOut("SageMakerModelBackend", "create_cluster", "instance_groups", _nothing),),
}  # fmt: skip
MODULES = tuple(f"moto.{service}.models" for service in _CALLS)


def fill_in(module: Any) -> None:
    """Let the methods of a module of moto's models have what their requests left out."""
    _, service, _ = module.__name__.split(".")
    for left_out in _CALLS[service]:
        backend = getattr(module, left_out.backend)
        filled = _filled(getattr(backend, left_out.method), left_out)
        setattr(backend, left_out.method, filled)


def _filled(method: Any, left_out: _LeftOut) -> Any:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        bound = signature.bind(self, *args, **named)
        if bound.arguments.get(left_out.parameter) is None:
            bound.arguments[left_out.parameter] = left_out.meant(self)
        return method(*bound.args, **bound.kwargs)

    return call
