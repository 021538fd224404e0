"""CodeBuild: projects without a source, and updates."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from typing import Any

from headrace.core.arn import partition_of


def allow_missing_source(module: Any) -> None:
    """Allow projects without a source, which have their own buildspec."""
    check = module._validate_required_params_source

    @functools.wraps(check)
    def has_source(source: dict[str, Any]) -> None:
        if source.get("type") != "NO_SOURCE":
            check(source)

    module._validate_required_params_source = has_source


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
