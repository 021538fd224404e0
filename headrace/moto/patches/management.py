"""CodeBuild, CodeDeploy, Budgets, Backup, CloudTrail: the updates and deletions that moto lacks, and hooks' answers."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import base64
import functools
import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import partition_of
from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.moto.patching import assign


def allow_missing_source(module: Any) -> None:
    """Allow projects without a source, which have their own buildspec."""
    check = module._validate_required_params_source

    @functools.wraps(check)
    def has_source(source: dict[str, Any]) -> None:
        if source.get("type") != "NO_SOURCE":
            check(source)

    module._validate_required_params_source = has_source


def allow_project_updates(module: Any) -> None:
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


_FOR_SERVERS = "CodeDeployDefault.OneAtATime"


def add_deployment_calls(module: Any) -> None:
    """Allow deletions of applications and deployment groups, and answers of the hooks of a stack's deployments."""
    module._deployment_group_info = _with_lists(module._deployment_group_info)
    response = module.CodeDeployResponse
    response.delete_application = _delete_application
    response.delete_deployment_group = _delete_deployment_group
    response.put_lifecycle_event_hook_execution_status = _put_hook_status


def _delete_application(self: Any) -> str:
    name = self._get_param("applicationName")
    self.codedeploy_backend.applications.pop(name, None)
    self.codedeploy_backend.deployment_groups.pop(name, None)
    return json.dumps({})


def _delete_deployment_group(self: Any) -> str:
    groups = self.codedeploy_backend.deployment_groups.get(self._get_param("applicationName"), {})
    groups.pop(self._get_param("deploymentGroupName"), None)
    return json.dumps({"hooksNotCleanedUp": []})


def _with_lists(info: Any) -> Any:
    """Show what moto leaves out of a deployment group, or has in a form of its own."""

    @functools.wraps(info)
    def deployment_group_info(group: Any) -> dict[str, Any]:
        shown = info(group)
        alarms = group.alarm_configuration
        shown["alarmConfiguration"] = alarms if isinstance(alarms, dict) else {}
        shown["autoScalingGroups"] = [{"name": name} for name in group.auto_scaling_groups]
        if shown["computePlatform"] == "Lambda" and shown["deploymentConfigName"] == _FOR_SERVERS:
            # Documented: the default configuration of a deployment group for functions.
            shown["deploymentConfigName"] = "CodeDeployDefault.LambdaAllAtOnce"
        return shown

    return deployment_group_info


def _put_hook_status(self: Any) -> str:
    from moto.core.exceptions import JsonRESTError

    # The id names the stack and the resource that wait: cloudformation/alias_deployments.py.
    execution_id, status = (
        self._get_param("lifecycleEventHookExecutionId"),
        self._get_param("status"),
    )
    outcome = {"Succeeded": "SUCCESS", "Failed": "FAILURE"}.get(status)
    if outcome is None:
        raise JsonRESTError(
            "InvalidLifecycleEventHookExecutionStatusException",
            f"The lifecycle event hook execution status {status} is invalid.",  # assumed
        )
    control = CURRENT.control
    try:
        if control is None:
            raise ValueError("there are no stacks")
        stack, resource, hook = parse_json(base64.urlsafe_b64decode(execution_id))
        control.call(
            "cloudformation",
            "SignalResource",
            {
                "StackName": stack,
                "LogicalResourceId": resource,
                "UniqueId": hook,
                "Status": outcome,
            },
            account=self.current_account,
            region=self.region,
        )
    except (ValueError, TypeError, AwsError) as error:
        raise JsonRESTError(
            "InvalidLifecycleEventHookExecutionIdException",
            f"The lifecycle event hook execution ID {execution_id} is invalid.",  # assumed
        ) from error
    return json.dumps({"lifecycleEventHookExecutionId": execution_id})


def allow_deployment_updates(module: Any) -> None:
    """Allow updates of deployment groups, which keep what a request omits."""
    from moto.codedeploy.exceptions import DeploymentGroupDoesNotExistException
    from moto.core.responses import ActionResult

    def update_deployment_group(self: Any) -> ActionResult:
        parameters = json.loads(self.body)
        name = parameters["currentDeploymentGroupName"]
        groups = self.codedeploy_backend.deployment_groups.get(parameters["applicationName"], {})
        if name not in groups:
            raise DeploymentGroupDoesNotExistException(
                f"No Deployment Group found for name: {name}"
            )
        group = groups[name]
        assign(group, parameters, leave=("application_name",))
        renamed = parameters.get("newDeploymentGroupName")
        if renamed:
            groups[renamed] = groups.pop(name)
            group.deployment_group_name = renamed
        return ActionResult({"hooksNotCleanedUp": []})

    module.CodeDeployResponse.update_deployment_group = update_deployment_group


def allow_budget_updates(module: Any) -> None:
    """Let UpdateBudget replace a budget's settings and keep its notifications."""
    from moto.budgets.models import Budget

    def update_budget(self: Any) -> str:
        account, settings = self._get_param("AccountId"), self._get_param("NewBudget")
        name = settings["BudgetName"]
        self.backend.describe_budget(account_id=account, budget_name=name)
        budgets = self.backend.budgets[account]
        budget: Any = Budget(settings, [])
        budget.notifications = budgets[name].notifications
        budgets[name] = budget
        return "{}"

    module.BudgetsResponse.update_budget = update_budget


def forget_deleted_plans(module: Any) -> None:
    """Allow a deleted plan to be created again."""
    delete = module.BackupBackend.delete_backup_plan

    @functools.wraps(delete)
    def delete_backup_plan(self: Any, backup_plan_id: str) -> Any:
        gone = delete(self, backup_plan_id)
        # The deleted plan would prevent an equal new one.
        self.plans.pop(backup_plan_id, None)
        return gone

    module.BackupBackend.delete_backup_plan = delete_backup_plan


def claim_no_delivery(module: Any) -> None:
    """Let `moto.cloudtrail.models` answer GetTrailStatus as AWS does of a trail that has delivered nothing yet."""
    describe = module.TrailStatus.description

    @functools.wraps(describe)
    def description(self: Any) -> dict[str, Any]:
        status = {**describe(self), "LatestDeliveryAttemptTime": ""}
        status.pop("LatestDeliveryTime", None)
        return status

    module.TrailStatus.description = description
