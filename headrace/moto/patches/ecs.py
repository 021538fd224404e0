"""ECS: ARNs are read in bounded time."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

from types import ModuleType
from typing import Any


def read_arns(models: ModuleType) -> None:
    """Read ARNs by their parts instead of a regular expression."""
    refused: Any = models.InvalidParameterException

    def parse_resource_arn(resource_arn: str) -> dict[str, str]:
        """Read `arn:aws:ecs:<region>:<account>:<service>/[<cluster>/[<service id>/ecs-svc/]]<id>`."""
        parts = resource_arn.split(":", 5)
        named = len(parts) == 6 and parts[0] == "arn" and parts[2] == "ecs"
        path = parts[5].split("/") if named else []
        if len(path) < 2 or not (parts[3] and parts[4] and path[0]):
            raise refused("The ARN provided is invalid.")
        parsed = {"region": parts[3], "account_id": parts[4], "service": path[0], "id": path[-1]}
        if len(path) > 2:
            parsed["cluster_id"] = path[1]
        if len(path) > 4 and path[-2] == "ecs-svc":
            parsed["service_id"] = path[2]
        return parsed

    models.EC2ContainerServiceBackend._parse_resource_arn = staticmethod(parse_resource_arn)
