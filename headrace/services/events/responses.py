"""EventBridge: buses' members and updates, their policies, tags, pages, TestEventPattern.

Stores an EventBridge bus's policy as AWS does: single statements by their ids, or a whole policy that replaces it.

moto drops the statements of the same principal, adds to a policy that should be replaced, and cannot store statements
without an id. AWS's answers are recorded (LocalStack's test_put_permission and test_remove_permission).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import validate
from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event
from headrace.core.schedule_expressions import BadExpression, check_expression
from headrace.core.values import BadMarker, page_of, parse_json
from headrace.permissions.policies.document import as_list
from headrace.services.events import checks, patches, put_events
from headrace.services.events.checks import check_pattern

# AWS's largest page; also what it takes without a limit (assumed).
_LONGEST_PAGE = 100


def patch_responses(module: Any) -> None:
    """Allow updates of event buses, with their policies; answer TestEventPattern; add the other files' changes."""

    def update_event_bus(self: Any) -> str:
        bus = self.events_backend.describe_event_bus(self._get_param("Name"))
        bus.description = self._get_param("Description")
        bus.kms_key_identifier = self._get_param("KmsKeyIdentifier")
        bus.dead_letter_config = self._get_param("DeadLetterConfig")
        return json.dumps({"Arn": bus.arn, "Name": bus.name})

    def test_event_pattern(self: Any) -> str:
        from moto.events.exceptions import InvalidEventPatternException, ValidationException

        pattern, text = self._get_param("EventPattern") or "", self._get_param("Event") or ""
        try:
            event = parse_json(text)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise ValidationException("Parameter Event is not valid.")  # recorded
        try:
            check_pattern(pattern)
        except BadEventPattern as error:
            raise InvalidEventPatternException(reason=str(error)) from error
        return json.dumps({"Result": matches_event(compile_pattern(pattern), event)})

    handler = module.EventsHandler
    handler.update_event_bus = update_event_bus
    handler.test_event_pattern = test_event_pattern
    _show_buses(handler)
    _list_in_pages(handler)
    models = importlib.import_module("moto.events.models")
    _check_schedules(models.EventsBackend)
    patch(models.EventBus, handler)
    put_events.patch(models, handler)
    _tag_by_arn(models.EventsBackend)
    patches.patch_models(models)
    patches.patch_responses(handler, _in_pages)
    checks.patch(handler)


def _show_buses(handler: Any) -> None:
    """Say a bus's description when it is made, and its description and times in lists (recorded)."""
    create, list_buses = handler.create_event_bus, handler.list_event_buses

    @functools.wraps(create)
    def create_event_bus(self: Any) -> Any:
        text, headers = create(self)
        description = self._get_param("Description")
        members = {} if description is None else {"Description": description}
        return json.dumps({**json.loads(text), **members}), headers

    @functools.wraps(list_buses)
    def list_event_buses(self: Any) -> Any:
        text, headers = list_buses(self)
        answer = json.loads(text)
        for shown in answer["EventBuses"]:
            bus = self.events_backend.event_buses.get(shown["Name"])
            if bus is not None:
                shown |= {
                    "CreationTime": bus.creation_time,
                    "LastModifiedTime": bus.last_modified_time,
                    **({"Description": bus.description} if bus.description else {}),
                }
        return json.dumps(answer), headers

    handler.create_event_bus = create_event_bus
    handler.list_event_buses = list_event_buses


def _list_in_pages(handler: Any) -> None:
    """List archives and replays in pages; moto gives all of them, whatever the limit."""
    for name, member in (("list_archives", "Archives"), ("list_replays", "Replays")):
        method = getattr(handler, name)

        def items(self: Any, method: Any = method, member: str = member) -> list[dict[str, Any]]:
            return json.loads(method(self)[0])[member]

        setattr(handler, name, _in_pages(member, items))


def _in_pages(member: str, items: Callable[[Any], list[dict[str, Any]]]) -> Any:
    """Return a method of the responses that answers one page of items under a member's name."""

    def list_page(self: Any) -> Any:
        from moto.events.exceptions import ValidationException

        limit = int(self._get_param("Limit") or _LONGEST_PAGE)
        try:
            page, token = page_of(items(self), self._get_param("NextToken"), limit)
        except BadMarker as error:
            raise ValidationException("Parameter NextToken is not valid.") from error
        more = {} if token is None else {"NextToken": token}
        return json.dumps({member: page, **more}), self.response_headers

    return list_page


def _tag_by_arn(backend: Any) -> None:
    """Find what is tagged by its whole ARN; moto takes any rule or bus that has the last part as its name."""

    def find(self: Any, arn: str) -> str:
        from moto.events.exceptions import ResourceNotFoundException

        kind, _, name = arn.split(":", 5)[-1].partition("/")
        bus, _, rule = name.rpartition("/") if kind == "rule" else (name, "", "")
        there = self.event_buses.get(bus or "default")
        if kind == "rule":
            if there is None or rule not in there.rules:
                sentence = f"Rule {rule} does not exist on EventBus {bus or 'default'}."
                raise ResourceNotFoundException(sentence)
            return checked(arn, str(there.rules[rule].arn))
        if there is None:
            raise ResourceNotFoundException(f"Event bus {bus} does not exist.")
        return checked(arn, str(there.arn))

    def checked(named: str, arn: str) -> str:
        from moto.events.exceptions import ResourceNotFoundException

        if named not in (arn, arn.replace(":rule/", ":rule/default/", 1)):
            # Permissions are asked for the ARN as it is named. The sentence is assumed.
            raise ResourceNotFoundException(f"{named} does not exist.")
        return arn

    def list_tags(self: Any, arn: str) -> Any:
        return self.tagger.list_tags_for_resource(find(self, arn))

    def tag(self: Any, arn: str, tags: dict[str, str]) -> None:
        self.tagger.tag_resource(find(self, arn), self.tagger.convert_dict_to_tags_input(tags))

    def untag(self: Any, arn: str, tag_keys: list[str]) -> None:
        self.tagger.untag_resource_using_names(find(self, arn), tag_keys)

    backend.list_tags_for_resource = list_tags
    backend.tag_resource = tag
    backend.untag_resource = untag


def _check_schedules(backend: Any) -> None:
    """Refuse cron expressions that are none (recorded), and `rate(1 minutes)` or `rate(5 minute)` (documented)."""
    put = backend.put_rule

    @functools.wraps(put)
    def put_rule(self: Any, *args: Any, **named: Any) -> Any:
        expression = str(named.get("scheduled_expression") or "")
        if expression and named.get("event_bus_arn") in (None, "default"):
            try:
                check_expression(expression)
            except BadExpression as error:
                raise _bad_schedule() from error
            amount, _, unit = expression.removeprefix("rate(").removesuffix(")").partition(" ")
            if expression.startswith("rate(") and (int(amount) == 1) == unit.endswith("s"):
                raise _bad_schedule()
        return put(self, *args, **named)

    backend.put_rule = put_rule


def _bad_schedule() -> AwsError:
    return AwsError("ValidationException", "Parameter ScheduleExpression is not valid.")


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
