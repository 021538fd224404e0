"""Step Functions: starts executions of machines, versions and aliases; runs an express one while its caller waits."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import functools
import math
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from headrace.aws.calls.errors import AwsError
from headrace.moto.current_cloud import CURRENT
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest, reader_of
from headrace.services.stepfunctions import aliases, answers
from headrace.services.stepfunctions.executions import build_input, settle
from headrace.services.stepfunctions.interpreter.run import Run


def patch(response: Any, backend: Any) -> None:
    """Replace methods of moto's responses and backend of Step Functions."""
    backend.start_execution = _start(backend.start_execution)
    response.start_sync_execution = _start_sync_execution


def _start(create: Any) -> Any:
    """Return the method that starts an execution; moto's only creates one, whose outcome it simulates."""

    def start_execution(self: Any, state_machine_arn: str, name: str, execution_input: str) -> Any:
        arn = state_machine_arn
        answers.check_input(execution_input)
        machine, version = aliases.find_version(self, arn)
        if machine is None:
            return create(self, arn, name, execution_input)  # which refuses it
        for started in machine.executions:
            if started.status == "RUNNING":
                settle(started, CURRENT.executions)
        known = len(machine.executions)
        create_it = functools.partial(create, self, machine.arn, name, execution_input)
        execution = create_it() if machine.type != "EXPRESS" else _express(machine, create_it)
        if version is not machine:
            is_alias = not arn.rpartition(":")[2].isdecimal()
            answers.note_qualifier(execution, version.arn, arn if is_alias else None)
        if len(machine.executions) > known and CURRENT.executions is not None:
            try:
                CURRENT.executions.start(machine, version, execution)
            except AwsError:
                machine.executions.remove(execution)
                raise
        return execution

    return start_execution


class _StartExecution(msgspec.Struct, forbid_unknown_fields=True):
    stateMachineArn: Annotated[str, msgspec.Meta(max_length=256)]
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,80}\Z")] | None = None
    input: str = "{}"


def _start_quickly(request: QuickRequest, asked: _StartExecution) -> bytes:
    from moto.moto_api._internal import mock_random

    mock_random.seed(request.seed)
    try:
        started = request.backend.start_execution(asked.stateMachineArn, asked.name, asked.input)
    except Exception as refused:
        # What is refused changes nothing.
        raise NotPlain from refused
    begun_s = started.start_date.replace(tzinfo=UTC).timestamp()
    return msgspec.json.encode({"executionArn": started.execution_arn, "startDate": begun_s})


QUICK_CALLS = (
    QuickCall(
        "AWSStepFunctions.StartExecution",
        "stepfunctions",
        reader_of(_start_quickly, _StartExecution),
        is_whole=True,
        signed_as="states",
    ),
)


def _express(machine: Any, create: Callable[[], Any]) -> Any:
    """Create an execution with a name of its own, so that a name may come again (documented)."""
    others, machine.executions = machine.executions, []
    try:
        execution = create()
    finally:
        machine.executions = others
    execution.execution_arn = _express_arn(machine, execution.name)
    others.append(execution)
    return execution


def _express_arn(machine: Any, name: str) -> str:
    return machine.arn.replace(":stateMachine:", ":express:", 1) + f":{name}:{uuid.uuid4()}"


def _start_sync_execution(self: Any) -> Any:
    """Run an express machine while the caller waits; the execution is not stored, as on AWS."""
    from moto.core.responses import ActionResult

    machine_arn = self._get_param("stateMachineArn")
    input_text = self._get_param("input", if_none="{}")
    name = self._get_param("name") or str(uuid.uuid4())
    machine, version = aliases.find_version(self.stepfunction_backend, machine_arn)
    if machine is None:
        # It refuses what is no ARN, too.
        machine = version = self.stepfunction_backend.describe_state_machine(machine_arn)
    if machine.type != "EXPRESS":
        raise answers.refuse_type()
    answers.check_input(input_text)
    arn = _express_arn(machine, name)
    started = build_input(machine, version, arn, name, input_text, datetime.now(UTC))
    outcome = Run(started).run()
    stop_date = datetime.now(UTC)
    ran_ms = (stop_date - started.start_date) // timedelta(milliseconds=1)
    details = {"output": outcome.output, "error": outcome.error, "cause": outcome.cause}
    return ActionResult(
        {
            "executionArn": arn,
            "stateMachineArn": machine.arn,
            "name": name,
            "startDate": started.start_date,
            "stopDate": stop_date,
            # Documented: a bill counts at least 100 ms, and memory in pieces of 64 MB, of which this shows one.
            "billingDetails": {
                "billedMemoryUsedInMB": 64,
                "billedDurationInMilliseconds": max(1, math.ceil(ran_ms / 100)) * 100,
            },
            # Here AWS has no status ABORTED.
            "status": "FAILED" if outcome.status == "ABORTED" else outcome.status,
            "input": input_text,
            **{key: value for key, value in details.items() if value is not None},
            # Documented: the answers of calls always include both.
            "inputDetails": {"included": True},
            "outputDetails": {"included": True},
        }
    )
