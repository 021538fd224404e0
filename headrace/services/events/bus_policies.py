"""Stores an EventBridge bus's policy as AWS does: single statements by their ids, or a whole policy that replaces it.

moto drops the statements of the same principal, adds to a policy that should be replaced, and cannot store statements
without an id. AWS's answers are recorded (LocalStack's test_put_permission and test_remove_permission).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import validate
from headrace.permissions.policies.resource_grammar import as_list

VERSION = "2012-10-17"
PUT_EVENTS = "events:PutEvents"
# eb-quota.html: an event bus's policy has at most 10,240 characters.
MOST_CHARACTERS = 10_240
# These sentences are moto's.
_NO_PRINCIPAL = "Parameter Principal must be specified."
_OTHER_ACTION = "Provided value in parameter 'action' is not supported."
_NO_STATEMENT = "Statement with the provided id does not exist."
# The sentences below are assumed: API_PutPermission.html gives only the rules.
_BOTH = "Policy cannot be specified with StatementId, Action, Principal or Condition."
_CONDITION = "Value of the parameter 'principal' must be '*' when the parameter 'condition' is set."
_TOO_LONG = "The event bus policy is too long. For more information, see the limits."


def patch(bus: Any, handler: Any) -> None:
    """Replace methods of moto's class of buses and of its handler; the caller does it once."""
    bus.policy = property(_policy)
    handler.put_permission = _put_permission
    handler.remove_permission = _remove_permission


def _policy(bus: Any) -> str | None:
    """Return a bus's policy as JSON; None without one."""
    document = _document(bus)
    return json.dumps(document, separators=(",", ":")) if document["Statement"] else None


def _document(bus: Any) -> dict[str, Any]:
    document: Any = getattr(bus, "policy_document", None)
    if document is None:
        # An older headrace stored moto's statements.
        kept = [statement.describe() for statement in bus._statements.values()]
        document = {"Version": VERSION, "Statement": kept}
    return document


def _put_permission(handler: Any) -> str:
    params: dict[str, Any] = json.loads(handler.body or "{}")
    validate("events", "PutPermission", params, code="ValidationException")
    bus = handler.events_backend.describe_event_bus(params.get("EventBusName"))
    own = [params.get(name) for name in ("Action", "Principal", "StatementId", "Condition")]
    if params.get("Policy"):
        if any(value is not None for value in own):
            raise _invalid(_BOTH)
        policy: Any = json.loads(params["Policy"])
        document = {**policy, "Statement": as_list(policy["Statement"])}
    else:
        statement = _statement_of(bus, params)
        document = {**_document(bus)}
        document["Statement"] = _with_statement(document["Statement"], statement)
    if len(json.dumps(document, separators=(",", ":"))) > MOST_CHARACTERS:
        raise AwsError("PolicyLengthExceededException", _TOO_LONG)
    _keep(bus, document)
    return ""


def _keep(bus: Any, document: dict[str, Any]) -> None:
    """Store a bus's policy; without statements it is none, as on a bus that never had one."""
    bus._statements.clear()
    if document["Statement"]:
        bus.policy_document = document
    else:
        vars(bus).pop("policy_document", None)


def _with_statement(statements: list[Any], statement: dict[str, Any]) -> list[Any]:
    """Return statements with one added, which replaces the statement with its id.

    Terraform's aws_cloudwatch_event_permission changes a statement by putting it again.
    """
    ids = [one.get("Sid") for one in statements]
    if statement["Sid"] in ids:
        index = ids.index(statement["Sid"])
        return [*statements[:index], statement, *statements[index + 1 :]]
    return [*statements, statement]


def _statement_of(bus: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Return the statement that a request describes. Raises AwsError."""
    principal, condition = params.get("Principal"), params.get("Condition")
    if principal is None:
        raise _invalid(_NO_PRINCIPAL)
    if params.get("Action") != PUT_EVENTS:
        raise _invalid(_OTHER_ACTION)
    if params.get("StatementId") is None:
        raise _invalid("Parameter StatementId must be specified.")
    if condition is not None and principal != "*":
        raise _invalid(_CONDITION)
    who = "*" if principal == "*" else {"AWS": f"arn:aws:iam::{principal}:root"}
    statement: dict[str, Any] = {
        "Sid": params["StatementId"],
        "Effect": "Allow",
        "Principal": who,
        "Action": PUT_EVENTS,
        "Resource": bus.arn,
    }
    if condition is not None:
        statement["Condition"] = {condition["Type"]: {condition["Key"]: condition["Value"]}}
    return statement


def _remove_permission(handler: Any) -> str:
    params: dict[str, Any] = json.loads(handler.body or "{}")
    validate("events", "RemovePermission", params, code="ValidationException")
    bus = handler.events_backend.describe_event_bus(params.get("EventBusName"))
    statement_id = params.get("StatementId")
    document = {**_document(bus)}
    if statement_id is None and params.get("RemoveAllPermissions"):
        document["Statement"] = []
    else:
        kept = [one for one in document["Statement"] if one.get("Sid") != statement_id]
        # Recorded with and without RemoveAllPermissions, and for a bus without a policy.
        if len(kept) == len(document["Statement"]) or statement_id is None:
            raise AwsError("ResourceNotFoundException", _NO_STATEMENT)
        document["Statement"] = kept
    _keep(bus, document)
    return ""


def _invalid(sentence: str) -> AwsError:
    return AwsError("ValidationException", sentence)
