"""ECS: ARNs are read in bounded time, and whole: those of another Region or account name nothing here.

Fargate's capacity providers are there without a creation.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def read_arns(models: ModuleType) -> None:
    """Read ARNs by their parts instead of a regular expression."""
    refused: Any = models.InvalidParameterException

    def parse_resource_arn(self: Any, resource_arn: str) -> dict[str, str]:
        """Read `arn:aws:ecs:<region>:<account>:<service>/[<cluster>/[<service id>/ecs-svc/]]<id>`."""
        parts = resource_arn.split(":", 5)
        named = len(parts) == 6 and parts[0] == "arn" and parts[2] == "ecs"
        path = parts[5].split("/") if named else []
        whole = len(path) >= 2 and parts[3] and parts[4] and path[0]
        if not whole or _is_elsewhere(self, resource_arn):
            raise refused("The ARN provided is invalid.")
        parsed = {"region": parts[3], "account_id": parts[4], "service": path[0], "id": path[-1]}
        if len(path) > 2:
            parsed["cluster_id"] = path[1]
        if len(path) > 4 and path[-2] == "ecs-svc":
            parsed["service_id"] = path[2]
        return parsed

    models.EC2ContainerServiceBackend._parse_resource_arn = parse_resource_arn


def find_own_clusters(models: ModuleType) -> None:
    """Describe no cluster by another Region's or account's ARN; moto takes the last part of any."""
    backend: Any = models.EC2ContainerServiceBackend
    describe = backend.describe_clusters

    @functools.wraps(describe)
    def describe_own(self: Any, cluster_names: list[str] | None) -> Any:
        named = cluster_names or []
        own = [name for name in named if not _is_elsewhere(self, name)]
        found, failures = describe(self, own) if own or not named else ([], [])
        for name in named:
            if name not in own:
                failure = models.ClusterFailure("MISSING", "", self.account_id, self.region_name)
                failure.arn = name
                failures.append(failure)
        return found, failures

    backend.describe_clusters = describe_own


def show_fargate(models: ModuleType) -> None:
    """Describe Fargate's two capacity providers, and all when none is named (documented: the AWS CLI's example)."""
    backend: Any = models.EC2ContainerServiceBackend
    describe = backend.describe_capacity_providers

    @functools.wraps(describe)
    def describe_all(self: Any, names: list[str] | None) -> Any:
        names = [*self.capacity_providers, *_FARGATE] if names is None else names
        prefix = f"arn:{self.partition}:ecs:{self.region_name}:{self.account_id}:capacity-provider/"
        own = [name for name in names if name.removeprefix(prefix) not in _FARGATE]
        providers, failures = describe(self, own)
        for name in names:
            if (short := name.removeprefix(prefix)) in _FARGATE:
                fargate = {"capacityProviderArn": prefix + short, "name": short}
                providers.append({**fargate, "status": "ACTIVE", "tags": []})
        return providers, failures

    backend.describe_capacity_providers = describe_all


_FARGATE = ("FARGATE", "FARGATE_SPOT")


def refuse_others(responses: ModuleType) -> None:
    """Refuse clusters, services, tasks and so on by another Region's or account's ARN (documented codes)."""
    from moto.ecs.exceptions import ClusterNotFoundException, InvalidParameterException

    handler: Any = responses.EC2ContainerServiceResponse
    backend_of = handler.ecs_backend.fget

    def own_backend(self: Any) -> Any:
        backend = backend_of(self)
        for name, value in self._get_params().items():
            texts = value if isinstance(value, list) else [value]
            is_other = any(isinstance(one, str) and _is_elsewhere(backend, one) for one in texts)
            if is_other and name == "cluster":
                raise ClusterNotFoundException
            if is_other and name in _NAMED:
                raise InvalidParameterException("The ARN provided is invalid.")
        return backend

    handler.ecs_backend = property(own_backend)


# The members that name what is a cluster's.
_NAMED = frozenset(
    {"containerInstance", "containerInstances", "service", "services", "task", "taskDefinition", "tasks", "taskSets"}
)  # fmt: skip


def _is_elsewhere(backend: Any, name: str) -> bool:
    """Whether a name is an ARN of another Region or account."""
    parts = str(name).split(":", 5)
    own = [str(backend.region_name), str(backend.account_id)]
    return len(parts) == 6 and parts[0] == "arn" and parts[3:5] != own
