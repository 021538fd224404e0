"""Corrects how moto's interpreter calls services: errors get their service's names, and every `.sync` can wait.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html; the names of errors of
services without an example there: assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto has no public attributes for these patches.

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.operation import service_model

_PREFIXES = {"ecs": "ECS", "events": "EventBridge"}
# Step Functions' names of services that differ from botocore's.
_CALLED = {
    "sfn": "stepfunctions",
    "eventbridge": "events",
    "cloudwatchlogs": "logs",
    "emrserverless": "emr-serverless",
}
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


def patch() -> None:
    """Patch moto's interpreter, which is imported. Called once."""
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        custom_error_name,
        error_name,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        resource,
        state_task_service,
        state_task_service_aws_sdk,
        state_task_service_callback,
        state_task_service_glue,
    )

    # Any state may end with an error named States.*, which comes from what ran inside it.
    names: Any = custom_error_name.CustomErrorName
    names.__init__ = error_name.ErrorName.__init__
    service: Any = state_task_service.StateTaskService
    service._from_error = _name_errors(service._from_error)
    task: Any = state_task_service_callback.StateTaskServiceCallback
    task._eval_body = _with_sync(task._eval_body, resource.ResourceCondition)
    sdk: Any = state_task_service_aws_sdk.StateTaskServiceAwsSdk
    sdk._normalise_service_error_name = staticmethod(_name_in_sdk)
    glue: Any = state_task_service_glue.StateTaskServiceGlue
    glue._build_sync_resolver = _no_glue_job


def _name_errors(from_error: Callable[..., Any]) -> Callable[..., Any]:
    """Name a service's errors after the service; moto names them States.Runtime, which no Catch handles."""

    def name_error(self: Any, env: Any, ex: Exception) -> Any:
        from botocore.exceptions import ClientError

        if not isinstance(ex, ClientError):
            return from_error(self, env=env, ex=ex)
        details: dict[str, Any] = dict(ex.response.get("Error", {}))
        code = str(details.get("Code", ""))
        name = str(self.resource.service_name)
        prefix = _PREFIXES.get(name, name[:1].upper() + name[1:])
        suffix = "" if code.endswith(("Exception", "Error")) else "Exception"
        return failure(self, env, f"{prefix}.{code}{suffix}", str(details.get("Message", "")))

    return name_error


def _name_in_sdk(service: str) -> str:
    """Return a service's name in SDK integration errors, in the spelling of AWS's SDK for Java (documented)."""
    try:
        identifier = str(service_model(_CALLED.get(service, service)).metadata["serviceId"])
    except Exception:  # noqa: BLE001 - botocore has several errors for an unknown service
        identifier = service
    return "".join(word[:1].upper() + word[1:].lower() for word in _WORD.findall(identifier))


def _with_sync(evaluate: Callable[..., None], conditions: Any) -> Callable[..., None]:
    """Let the `.sync` tasks of every service wait; in moto, Glue's lacks this and fails at its end."""
    syncs = {conditions.Sync, conditions.Sync2}

    def with_sync(self: Any, env: Any) -> None:
        condition, supported = self.resource.condition, self._supported_integration_patterns
        if condition in syncs and condition in supported:
            self._supported_integration_patterns = {*supported, conditions.WaitForTaskToken}
        evaluate(self, env)

    return with_sync


def _no_glue_job(*_: Any, **__: Any) -> Any:
    # moto reports success for a job whose script never ran.
    raise NotImplementedError("headrace does not run Glue jobs: startJobRun.sync would never end")


def failure(task: Any, env: Any, error: str, cause: str) -> Any:
    """Return moto's failure for a service task."""
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name import (
        error_name,
        failure_event,
    )
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    details: Any = {
        "error": error,
        "cause": cause,
        "resource": task._get_sfn_resource(),
        "resourceType": task._get_sfn_resource_type(),
    }
    name: Any = type("ServiceErrorName", (error_name.ErrorName,), {})
    details_of: Any = EventDetails
    kind: Any = HistoryEventType.TaskFailed
    return failure_event.FailureEvent(
        env=env,
        error_name=name(error),
        event_type=kind,
        event_details=details_of(taskFailedEventDetails=details),
    )
