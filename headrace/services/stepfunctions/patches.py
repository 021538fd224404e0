"""Step Functions: machines, their versions, and what is asked of executions, where moto differs.

moto's pattern for JSONPath matches in one way.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import json
import uuid
import zlib
from datetime import datetime
from types import ModuleType
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.services.stepfunctions import (
    activities,
    aliases,
    answers,
    map_runs,
    redrives,
    starts,
    state_tests,
)
from headrace.services.stepfunctions.definition_checks import (
    MOST_DIAGNOSTICS,
    problems_of,
    sentence_of,
)
from headrace.services.stepfunctions.executions import end, settle
from headrace.services.stepfunctions.interpreter.run import Outcome


def patch(responses: Any) -> None:
    """Replace methods of `moto.stepfunctions.responses` and of its models."""
    from moto.stepfunctions import models

    backend: Any = models.StepFunctionBackend
    backend.describe_execution = _describe(backend.describe_execution)
    response = responses.StepFunctionResponse
    aliases.patch(response, backend)
    response.update_state_machine = answers.check_update(response.update_state_machine)
    backend.create_state_machine = answers.create_once(backend.create_state_machine)
    backend._validate_arn = answers.check_arn
    for change in ("create_state_machine", "update_state_machine"):
        checked = answers.check_logging(_check_definition(getattr(response, change)))
        setattr(response, change, checked)
    response.validate_state_machine_definition = _validate_state_machine_definition
    activities.patch(response, backend)
    response.tag_resource = answers.tag_known(response.tag_resource)
    map_runs.patch(response)
    for answer in ("success", "failure", "heartbeat"):
        setattr(response, f"send_task_{answer}", _send(answer))
    backend.update_state_machine = _revise(backend.update_state_machine)
    response._describe_state_machine = _whole_machine(response._describe_state_machine)
    response.describe_execution = answers.describe_whole(response.describe_execution)
    response.list_executions = _list_executions
    response.list_state_machines = answers.list_machines
    response.describe_state_machine_for_execution = answers.with_update_date(
        response.describe_state_machine_for_execution
    )
    response.redrive_execution = redrives.redrive_execution
    response.stop_execution = _stop_execution
    response.get_execution_history = _get_execution_history
    starts.patch(response, backend)
    response.test_state = state_tests.test_state
    response.publish_state_machine_version = _publish_version
    response.list_state_machine_versions = _list_versions
    response.delete_state_machine_version = _delete_version


def _check_definition(change: Any) -> Any:
    """Refuse definitions that AWS refuses."""

    def check_first(self: Any) -> Any:
        definition = self._get_param("definition")
        problems = (
            [] if definition is None else problems_of(definition, is_express=_is_express(self))
        )
        if problems:
            raise AwsError("InvalidDefinition", sentence_of(problems))
        return change(self)

    return check_first


def _validate_state_machine_definition(self: Any) -> Any:
    from moto.core.responses import ActionResult

    problems = problems_of(self._get_param("definition"), is_express=_is_express(self))
    # Documented: 0 means the default.
    most = min(self._get_int_param("maxResults") or MOST_DIAGNOSTICS, MOST_DIAGNOSTICS)
    return ActionResult(
        {
            "result": "FAIL" if problems else "OK",
            "diagnostics": [
                {
                    "severity": "ERROR",
                    "code": problem.code,
                    "message": problem.message,
                    **({"location": problem.location} if problem.location else {}),
                }
                for problem in problems[:most]
            ],
            "truncated": len(problems) > most,
        }
    )


def _is_express(self: Any) -> bool:
    """Whether a request gives an express machine's definition; an update keeps its machine's type."""
    arn = self._get_param("stateMachineArn")
    machine = None if arn is None else aliases.find_machine(self.stepfunction_backend, arn)
    return (self._get_param("type") if machine is None else machine.type) == "EXPRESS"


def _publish_version(self: Any) -> Any:
    """Publish a machine's current state as a version; without a change, the last version is returned (documented)."""
    from moto.core.responses import ActionResult

    machine = _unqualified(self)
    revision_id = self._get_param("revisionId")
    if revision_id and revision_id != getattr(machine, "revision_id", ""):
        raise AwsError(
            "ConflictException",
            f"Failed to publish the State Machine version for revision {revision_id}. The current State"
            f" Machine revision is {getattr(machine, 'revision_id', '') or 'INITIAL'}.",
        )
    version = _publish(machine, self._get_param("description"))
    return ActionResult(
        {"stateMachineVersionArn": version.arn, "creationDate": version.creation_date}
    )


def _unqualified(self: Any) -> Any:
    """Return the machine that a request names. Raises AwsError, also for the ARN of a version (assumed)."""
    arn = self._get_param("stateMachineArn")
    machine = self.stepfunction_backend.describe_state_machine(arn)
    if not hasattr(machine, "versions"):
        raise aliases.refuse_missing(arn)
    return machine


def _list_versions(self: Any) -> Any:
    from moto.core.responses import ActionResult

    machine = _unqualified(self)
    versions = [
        {"stateMachineVersionArn": version.arn, "creationDate": version.creation_date}
        for _, version in sorted(machine.versions.items(), reverse=True)
    ]
    rows, more = answers.page(self, versions)
    return ActionResult({"stateMachineVersions": rows, **more})


def _delete_version(self: Any) -> Any:
    """Delete a version; one that an alias uses is kept (documented), a missing one is no error."""
    from moto.core.responses import EmptyResult

    arn = str(self._get_param("stateMachineVersionArn"))
    machine_arn, _, number = arn.rpartition(":")
    machine = aliases.find_machine(self.stepfunction_backend, machine_arn)
    if machine is None or not number.isdecimal():
        return EmptyResult()
    for alias in machine.aliases.values():
        routes = alias.routing_configuration
        if any(route["stateMachineVersionArn"] == arn for route in routes):
            raise AwsError(
                "ConflictException",
                "Version to be deleted must not be referenced by an alias. Current list of aliases"
                f" referencing this version: [{alias.name}]",
            )
    gone = machine.versions.pop(int(number), None)
    if gone is not None and machine.latest_version is gone:
        left = machine.versions
        machine.latest_version = left[max(left)] if left else None
    return EmptyResult()


def _describe(describe: Any) -> Any:
    def describe_execution(self: Any, execution_arn: str) -> Any:
        if execution_arn.split(":")[5:6] == ["express"]:
            # Observed by others: an express execution is told by its log alone.
            raise AwsError(
                "InvalidArn",
                "Invalid Arn: 'Resource type not valid in this context: express'",
            )
        execution = describe(self, execution_arn)
        settle(execution, CURRENT.executions)
        return execution

    return describe_execution


def _list_executions(self: Any) -> Any:
    map_run = self._get_param("mapRunArn")
    if map_run is not None and self._get_param("stateMachineArn") is None:
        raise map_runs.refuse_children(self.stepfunction_backend, map_run)
    return answers.list_executions(self)


def _revise(update: Any) -> Any:
    """Give a machine a new revision with each update that changes it, as AWS does (recorded)."""

    def update_state_machine(
        self: Any,
        arn: str,
        *args: Any,
        publish: bool | None = None,
        version_description: str | None = None,
        **named: Any,
    ) -> Any:
        before = _state_of(self.describe_state_machine(arn))
        machine = update(self, arn, *args, **named)
        if _state_of(machine) != before:
            machine.revision_id = str(uuid.uuid4())
        if publish:
            _publish(machine, version_description)
        return machine

    return update_state_machine


def _publish(machine: Any, description: str | None) -> Any:
    """Return a version of a machine's current state: a new one, unless the last one is of that state (recorded)."""
    last = machine.latest_version
    if last is None or _state_of(last) != _state_of(machine):
        machine.publish(description)
        machine.latest_version.revision_id = getattr(machine, "revision_id", "")
    return machine.latest_version


def _state_of(machine: Any) -> tuple[Any, ...]:
    """Return what an update may change."""
    return (
        machine.definition,
        machine.roleArn,
        machine.loggingConfiguration,
        machine.tracingConfiguration,
        machine.encryptionConfiguration,
    )


def _whole_machine(describe: Any) -> Any:
    """Describe a machine as AWS does (recorded): with its revision, once it was updated, and its logging."""

    def describe_state_machine(self: Any, state_machine_arn: str) -> Any:
        answer = describe(self, state_machine_arn)
        machine = self.stepfunction_backend.describe_state_machine(state_machine_arn)
        logging: dict[str, Any] = answer.result["loggingConfiguration"] or {}
        unless_given = {"level": "OFF", "includeExecutionData": False}
        answer.result["loggingConfiguration"] = {**unless_given, **logging}
        if revision := getattr(machine, "revision_id", ""):
            answer.result["revisionId"] = revision
        return answer

    return describe_state_machine


def _stop_execution(self: Any) -> Any:
    from moto.core.responses import ActionResult

    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    if execution.status == "RUNNING":
        error, cause = self._get_param("error"), self._get_param("cause")
        end(execution, Outcome("ABORTED", error=error, cause=cause))
        running = CURRENT.executions
        run = None if running is None else running.run_of(execution.execution_arn)
        if run:
            run.stop(error, cause)
    return ActionResult({"stopDate": execution.stop_date})


def _get_execution_history(self: Any) -> Any:
    from moto.core.responses import ActionResult

    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    running = CURRENT.executions
    run = None if running is None else running.run_of(execution.execution_arn)
    stored = getattr(execution, "events", None)
    events: list[dict[str, Any]] = json.loads(zlib.decompress(stored)) if stored else []
    if run:
        events = run.events()
    for event in events:
        event["timestamp"] = datetime.fromisoformat(event["timestamp"])
    if self._get_param("reverseOrder"):
        events.reverse()
    rows, more = answers.page(self, events)
    return ActionResult({"events": rows, **more})


def _send(answer: str) -> Any:
    def send_task(self: Any) -> Any:
        from moto.core.responses import EmptyResult

        details: dict[str, Any] = {}
        if answer == "success":
            details = {"output": self._get_param("output")}
        elif answer == "failure":
            details = {"error": self._get_param("error"), "cause": self._get_param("cause")}
        if CURRENT.executions is not None:
            CURRENT.executions.tell(self._get_param("taskToken"), answer, **details)
        return EmptyResult()

    return send_task


def match_in_one_way(json_path: ModuleType) -> None:
    """Replace a pattern of moto's that takes exponential time."""
    # The text after the slice has no bracket, so that it matches in one way instead of one for every dot.
    vars(json_path)["_PATTERN_SLICE_OR_WILDCARD_ACCESS"] = (
        r"\$(?:\.[^[]+\[(?:\*|\d*:\d*)\]|\[\*\])(?:\.[^[]+)?$"
    )
