"""What Step Functions' calls check and show of machines and executions, where moto differs.

The members and sentences are AWS's, recorded (LocalStack's test_sfn_api, test_sfn_api_versioning and
test_sfn_api_aliasing snapshots), unless a comment says otherwise.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.values import BadMarker, page_of, parse_json
from headrace.services.stepfunctions import redrives
from headrace.services.stepfunctions.aliases import find_machine, refuse_missing

# Documented for every list of the API.
DEFAULT_ROWS, MOST_ROWS = 100, 1000
# How much of a text the parser shows (assumed: Jackson's default).
_SHOWN = 500
_WORD = re.compile(r"[\w$]+")
# What an update may change; at least one must be given.
_CHANGES = (
    *("definition", "roleArn", "loggingConfiguration", "tracingConfiguration"),
    "encryptionConfiguration",
)


def page(self: Any, rows: Sequence[Any]) -> tuple[Sequence[Any], dict[str, str]]:
    """Return the rows that a request's `maxResults` and `nextToken` ask for, and the next token. Raises AwsError."""
    # Documented: 0 means the default.
    most = min(self._get_int_param("maxResults") or DEFAULT_ROWS, MOST_ROWS)
    token = self._get_param("nextToken") or None
    try:
        shown, following = page_of(rows, token, most)
    except BadMarker as error:
        raise AwsError("InvalidToken", f"Invalid Token: '{token}'") from error
    return shown, {"nextToken": following} if following else {}


def check_input(text: str) -> None:
    """Raise AwsError unless an execution's input is JSON."""
    try:
        parse_json(text)
    except ValueError as error:
        reason = reason_of(error, text)
        raise AwsError(
            "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{reason}'"
        ) from error


def reason_of(error: Exception, text: str) -> str:
    """Return the reason in the words of AWS's parser; of what was not recorded, in Python's."""
    if not text.strip():
        return "Invalid execution input."
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    word = _WORD.match(text, error.pos)
    if error.msg == "Expecting value" and word is not None:
        return (
            f"Unrecognized token '{word[0]}': was expecting (JSON String, Number, Array, Object or token 'null',"
            " 'true' or 'false')"
        )
    if error.msg.startswith("Expecting property name") and error.pos < len(text):
        found = text[error.pos]
        return (
            f"Unexpected character ('{found}' (code {ord(found)})): was expecting double-quote to start"
            " field name"
        )
    return str(error)


def place_of(error: json.JSONDecodeError, text: str) -> str:
    """Return the place of a word that is no JSON, as AWS's parser names it: its source, and where the word ends."""
    word = _WORD.match(text, error.pos)
    column = error.colno + (len(word[0]) if word else 0)
    more = f"[truncated {len(text) - _SHOWN} chars]" if len(text) > _SHOWN else ""
    return f'[Source: (String)"{text[:_SHOWN]}"{more}; line: {error.lineno}, column: {column}]'


def refuse_arn(arn: str) -> AwsError:
    """Return the error for what is no ARN of Step Functions."""
    return AwsError("InvalidArn", f"Invalid Arn: 'Invalid ARN prefix: {arn}'")


def check_arn(self: Any, arn: str, regex: re.Pattern[str], invalid_msg: str) -> None:
    """Take the place of moto's check of ARNs."""
    if not regex.match(arn):
        raise refuse_arn(arn) if not arn.startswith("arn:") else AwsError("InvalidArn", invalid_msg)


# --- machines -----------------------------------------------------------------------------------


def create_once(create: Any) -> Any:
    """Refuse a second machine of a name, unless it is the same; its role and tags may differ (documented)."""

    def create_state_machine(
        self: Any, name: str, definition: str, *args: Any, **named: Any
    ) -> Any:
        known = next((machine for machine in self.state_machines if machine.name == name), None)
        if known is None:
            return create(self, name, definition, *args, **named)
        requested = (
            definition,
            named.get("sm_type") or "STANDARD",
            named.get("loggingConfiguration") or {"level": "OFF"},
            named.get("tracingConfiguration") or {"enabled": False},
        )
        if requested != (
            known.definition,
            known.type,
            known.loggingConfiguration,
            known.tracingConfiguration,
        ):
            message = f"State Machine Already Exists: '{known.arn}'"
            raise AwsError("StateMachineAlreadyExists", message)
        return known

    return create_state_machine


def check_logging(change: Any) -> Any:
    """Refuse a logging configuration whose one log group is not there, or that has not one (recorded)."""

    def change_checked(self: Any) -> Any:
        configuration: dict[str, Any] = self._get_param("loggingConfiguration") or {}
        destinations: list[Any] = configuration.get("destinations") or []
        is_off = configuration.get("level", "OFF") == "OFF" and not destinations
        if not is_off and len(destinations) != 1:
            raise _invalid_logging("Must specify exactly one Log Destination.")
        for destination in destinations:
            arn = (destination.get("cloudWatchLogsLogGroup") or {}).get("logGroupArn", "")
            if not _is_log_group(arn):
                raise _invalid_logging("Log Destination not found.")
        return change(self)

    return change_checked


def _is_log_group(arn: str) -> bool:
    from moto.logs.models import logs_backends

    parts = arn.split(":")
    if len(parts) < 7 or parts[2] != "logs":
        return False
    return parts[6] in logs_backends[parts[4]][parts[3]].groups


def _invalid_logging(sentence: str) -> AwsError:
    return AwsError("InvalidLoggingConfiguration", f"Invalid Logging Configuration: {sentence}")


def check_update(update: Any) -> Any:
    """Refuse an update that changes nothing by its form, or changes a version; show the new revision."""

    def update_state_machine(self: Any) -> Any:
        arn = self._get_param("stateMachineArn")
        if all(self._get_param(name) is None for name in _CHANGES):
            raise AwsError(
                "MissingRequiredParameter",
                "Either the definition, the role ARN, the LoggingConfiguration, or the"
                " TracingConfiguration must be specified",
            )
        machine = self.stepfunction_backend.describe_state_machine(arn)
        if not hasattr(machine, "versions"):
            raise AwsError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
        answer = update(self)
        if revision := getattr(machine, "revision_id", ""):
            answer.result["revisionId"] = revision
        return answer

    return update_state_machine


def list_machines(self: Any) -> Any:
    """List the machines by their names, as AWS does."""
    from moto.core.responses import ActionResult

    machines = sorted(self.stepfunction_backend.state_machines, key=lambda machine: machine.name)
    rows, more = page(self, machines)
    shown = [
        {
            "creationDate": machine.creation_date,
            "name": machine.name,
            "stateMachineArn": machine.arn,
            "type": machine.type,
        }
        for machine in rows
    ]
    return ActionResult({"stateMachines": shown, **more})


def with_update_date(describe: Any) -> Any:
    """Show when the machine of an execution was last changed."""

    def describe_state_machine_for_execution(self: Any) -> Any:
        answer = describe(self)
        machine = self.stepfunction_backend.describe_state_machine(answer.result["stateMachineArn"])
        answer.result["updateDate"] = getattr(machine, "update_date", None) or machine.creation_date
        return answer

    return describe_state_machine_for_execution


def tag_known(tag: Any) -> Any:
    """Refuse tags of what is no machine and no activity, such as a version."""

    def tag_resource(self: Any) -> Any:
        arn, backend = self._get_param("resourceArn"), self.stepfunction_backend
        known = {machine.arn for machine in backend.state_machines} | set(backend.activities)
        if arn not in known:
            raise AwsError("ResourceNotFound", f"Resource not found: '{arn}'")
        return tag(self)

    return tag_resource


# --- executions -----------------------------------------------------------------------------------


def note_qualifier(execution: Any, version_arn: str, alias_arn: str | None) -> None:
    """Note the version, and the alias if there is one, of which an execution was started."""
    execution.version_arn, execution.alias_arn = version_arn, alias_arn


def _qualifiers_of(execution: Any) -> dict[str, str]:
    arns = {
        "stateMachineVersionArn": getattr(execution, "version_arn", None),
        "stateMachineAliasArn": getattr(execution, "alias_arn", None),
    }
    return {name: arn for name, arn in arns.items() if arn}


def describe_whole(describe: Any) -> Any:
    """Show the members that moto omits: the end of a TIMED_OUT execution, redrives, the version."""

    def describe_execution(self: Any) -> Any:
        answer = describe(self)
        execution = self.stepfunction_backend.describe_execution(answer.result["executionArn"])
        answer.result.update(inputDetails={"included": True}, **_qualifiers_of(execution))
        if not getattr(execution, "is_express", False):
            answer.result.update(redrives.members_of(execution))
        if execution.status == "TIMED_OUT":
            answer.result["stopDate"] = execution.stop_date
        return answer

    return describe_execution


def refuse_type() -> AwsError:
    """Return the refusal of what the type of a state machine does not have."""
    return AwsError(
        "StateMachineTypeNotSupported",
        "This operation is not supported by this type of state machine",
    )


def list_executions(self: Any) -> Any:
    """List the executions of a machine, or of one of its versions or aliases; moto knows only the machine's."""
    from moto.core.responses import ActionResult

    arn, status = self._get_param("stateMachineArn"), self._get_param("statusFilter")
    backend = self.stepfunction_backend
    backend._validate_machine_arn(arn)
    machine = find_machine(backend, arn) or find_machine(backend, arn.rpartition(":")[0])
    if machine is None or arn not in (machine.arn, *_qualified_arns(machine)):
        raise refuse_missing(arn)
    if machine.type == "EXPRESS":
        raise refuse_type()
    rows = [
        _row_of(backend.describe_execution(execution.execution_arn))
        for execution in reversed(machine.executions)
        if arn in (machine.arn, *_qualifiers_of(execution).values())
    ]
    shown, more = page(self, [row for row in rows if status in (None, row["status"])])
    return ActionResult({"executions": shown, **more})


def _qualified_arns(machine: Any) -> list[str]:
    return [one.arn for one in (*machine.versions.values(), *machine.aliases.values())]


def _row_of(execution: Any) -> dict[str, Any]:
    ended = {} if execution.status == "RUNNING" else {"stopDate": execution.stop_date}
    return {
        "executionArn": execution.execution_arn,
        "name": execution.name,
        "startDate": execution.start_date,
        "stateMachineArn": execution.state_machine_arn,
        "status": execution.status,
        **redrives.count_of(execution),
        **ended,
        **_qualifiers_of(execution),
    }
