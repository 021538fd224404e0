"""CodeBuild: projects of every type, and updates."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
import re
from typing import Any

from headrace.aws.calls.operation import service_model
from headrace.core.arn import partition_of

# A build that a pipeline starts gets its source from there, and gives its results there (documented).
_WITHOUT_LOCATION = ("CODEPIPELINE", "NO_SOURCE")


def check_by_model(module: Any) -> None:
    """Take every project of AWS's model: moto's lists of types are older, and it demands places of pipelines."""
    refused = module.InvalidInputException

    def check_source(source: dict[str, Any]) -> None:
        if source.get("type") not in _values("SourceType"):
            raise refused("Invalid type provided: Project source type")
        if source["type"] not in _WITHOUT_LOCATION and not source.get("location"):
            raise refused("Project source location is required")

    def check_artifacts(artifacts: dict[str, Any]) -> None:
        if artifacts.get("type") != "CODEPIPELINE":
            check_place(artifacts)

    def check_environment(environment: dict[str, Any]) -> None:
        if environment.get("type") not in _values("EnvironmentType"):
            raise refused(f"Invalid type provided: {environment.get('type')}")
        if environment.get("computeType") not in _values("ComputeType"):
            raise refused(f"Invalid compute type provided: {environment.get('computeType')}")

    def check_name(name: str) -> None:
        shape: Any = service_model("codebuild").shape_for("ProjectName")
        if re.fullmatch(shape.metadata["pattern"], name) is None:
            raise refused("Only alphanumeric characters, dash, and underscore are supported")

    check_place = module._validate_required_params_artifacts
    module._validate_required_params_source = check_source
    module._validate_required_params_artifacts = check_artifacts
    module._validate_required_params_environment = check_environment
    module._validate_required_params_project_name = check_name


def _values(shape: str) -> list[str]:
    """Return the values of an enumeration of CodeBuild's model."""
    enumeration: Any = service_model("codebuild").shape_for(shape)
    return enumeration.enum


def allow_updates(module: Any) -> None:
    """Allow updates of projects, which keep what a request omits; and store every member of a new project."""
    from moto.core.responses import ActionResult
    from moto.core.utils import unix_time

    create = module.CodeBuildResponse.create_project

    @functools.wraps(create)
    def create_project(self: Any) -> ActionResult:
        answer = create(self)
        parameters = json.loads(self.body)
        shown = self.codebuild_backend.codebuild_projects[parameters["name"]].project_metadata
        kept = {name: value for name, value in parameters.items() if name not in shown}
        shown.update(kept, encryptionKey=parameters.get("encryptionKey") or shown["encryptionKey"])
        if shown.pop("badgeEnabled", False):
            shown["badge"] = {"badgeEnabled": True}
        return answer

    def update_project(self: Any) -> ActionResult:
        name = self._get_param("name")
        project = self.codebuild_backend.codebuild_projects.get(name)
        if project is None:
            arn = f"arn:{partition_of(self.region)}:codebuild:{self.region}:{self.current_account}:project/{name}"
            raise module.ResourceNotFoundException(f"Project cannot be found: {arn}")
        shown = project.project_metadata
        update = json.loads(self.body)
        for member in ("source", "artifacts", "environment"):
            if member in update:
                getattr(module, f"_validate_required_params_{member}")(update[member])
        if update.pop("badgeEnabled", None) is not None:
            shown["badge"] = {"badgeEnabled": self._get_param("badgeEnabled")}
        shown.update(update)
        for member in [name for name, value in shown.items() if value in ("", [], {}, None)]:
            del shown[member]
        shown["cache"] = shown.get("cache") or {"type": "NO_CACHE"}
        shown["lastModifiedDate"] = unix_time()
        shown.setdefault("encryptionKey", _own_key(self))
        project.service_role, project.tags = shown["serviceRole"], shown.get("tags")
        return ActionResult({"project": shown})

    module.CodeBuildResponse.create_project = create_project
    module.CodeBuildResponse.update_project = update_project


def _own_key(response: Any) -> str:
    """Return the default key of projects without one (documented)."""
    return f"arn:{partition_of(response.region)}:kms:{response.region}:{response.current_account}:alias/aws/s3"
