"""CodeDeploy: deletions, updates, and answers of deployment hooks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import base64
import functools
import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.values import parse_json
from headrace.moto.current_cloud import CURRENT
from headrace.moto.patching import assign

_FOR_SERVERS = "CodeDeployDefault.OneAtATime"


def add_missing_calls(module: Any) -> None:
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


def allow_updates(module: Any) -> None:
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
