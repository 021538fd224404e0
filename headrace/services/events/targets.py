"""Sends one event of EventBridge to one target, by the kind of resource in the target's ARN.

EventBridge: connections and API destinations: their members, their secret, updates, and lists in pages.

Answers are as recorded from AWS (LocalStack's test_api_destinations_and_connection.py). A connection by OAuth is
AUTHORIZING for a moment, but its token is fetched with the first call only.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import copy
import functools
import json
import uuid
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from headrace.core.evaluation import Budget, TooMuch
from headrace.core.ports import CallerIdentity
from headrace.deliveries.input_templates import NoValue, fill_paths
from headrace.deliveries.outbox import MOST_AGE_S, MOST_RETRIES, OUTBOX, Delivery, send_to_queue
from headrace.deliveries.targets import HttpCall, http_call, is_http
from headrace.moto.current_cloud import CURRENT
from headrace.services.events.rules import at_path, input_of, whole_event

# The most buses that an event passes: AWS forbids such loops, and here they end.
MOST_HOPS = 5


class TargetFailed(Exception):
    """A target cannot be reached, now or ever: AWS's code, and the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Nested:
    """How many buses the current event has passed."""

    hops = 0


def send_on(rule: Any, target: Mapping[str, Any], event: Any, *, transform_input: bool) -> None:
    """Send an event to a target. Raises TargetFailed, and the target's own errors."""
    arn = str(target["Arn"])
    parts = arn.split(":", 5)
    service = parts[2] if len(parts) == 6 else ""
    if service == "events" and not parts[5].strip(":"):
        _to_archive(rule, target, event)
        return
    sender = _to_http if is_http(arn) else _SENDERS.get(service)
    if sender is None:
        raise TargetFailed(
            "UNSUPPORTED_TARGET",
            "headrace does not deliver events to such a target, though AWS does",
        )
    sender(rule, target, parts, event if transform_input else {**event})


def dead_letter_arn(target: Mapping[str, Any]) -> str:
    """Return a target's dead-letter queue; empty for none."""
    return str((target.get("DeadLetterConfig") or {}).get("Arn", ""))


def _to_archive(rule: Any, target: Mapping[str, Any], event: Any) -> None:
    from moto.events.utils import EventTemplateParser

    transformer = target.get("InputTransformer", {})
    event_of_archive = EventTemplateParser.parse(
        transformer.get("InputTemplate"), transformer.get("InputPathsMap", {}), event
    )
    rule._send_to_events_archive(event_of_archive["archive-arn"].split(":archive/", 1)[1], event)


def _to_function(rule: Any, target: Mapping[str, Any], _: list[str], event: Any) -> None:
    if CURRENT.functions is not None:
        CURRENT.functions(
            target["Arn"],
            input_of(target, event, rule),
            service="events.amazonaws.com",
            source_arn=rule.arn,
        )


def _to_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    path = (target.get("KinesisParameters") or {}).get("PartitionKeyPath")
    key = at_path(event, path) if path else event["id"]
    data = input_of(target, event, rule)
    params = {
        "StreamARN": target["Arn"],
        "StreamName": parts[5].removeprefix("stream/"),
        # A path without a value keeps AWS's default.
        "PartitionKey": str(event["id"] if key is None else key)[:256],
        "Data": data,
    }
    _queue(rule, target, parts, data, "kinesis", "PutRecord", params)


def _to_delivery_stream(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    params = {
        "DeliveryStreamName": parts[5].removeprefix("deliverystream/"),
        "Record": {"Data": data},
    }
    _queue(rule, target, parts, data, "firehose", "PutRecord", params)


def _to_machine(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    params = {"stateMachineArn": target["Arn"], "input": data.decode()}
    _queue(rule, target, parts, data, "stepfunctions", "StartExecution", params)


def _parameters(rule: Any, target: Mapping[str, Any], name: str, event: Any) -> dict[str, Any]:
    """Return a target's parameters with the event's values for their paths. Raises TargetFailed.

    Documented ("Dynamic path parameters" of EventBridge's targets): a whole text may be a path; it refers to the event
    itself. What happens to a path without a value is assumed: the event fails.
    """
    try:
        # moto's engine is held meanwhile.
        with Budget(str(rule.arn), may_wait=False) as budget:
            return fill_paths(target.get(name) or {}, whole_event(event), budget)
    except NoValue as error:
        raise TargetFailed(
            "INVALID_PARAMETER", f"the event has no value at the path {error}"
        ) from error
    except TooMuch as error:
        raise TargetFailed("INVALID_PARAMETER", f"{name} asks for too much: {error}") from error


def _to_http(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    data = input_of(target, event, rule)
    arn = str(target["Arn"])
    call = http_call(arn, _parameters(rule, target, "HttpParameters", event))
    if role := str(target.get("RoleArn") or ""):
        action = "execute-api:Invoke" if call.api else "events:InvokeApiDestination"
        sentence = CURRENT.guard.denial(
            CallerIdentity(role, f"AWSEvents_{rule.name}"[:64]), action, arn
        )
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    _queue(rule, target, parts, data, http=call)


def _to_warehouse(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    redshift_data_parameters = _parameters(rule, target, "RedshiftDataParameters", event)
    data = input_of(target, event, rule)
    is_workgroup = parts[2] == "redshift-serverless"
    named = "WorkgroupName" if is_workgroup else "ClusterIdentifier"
    sqls = redshift_data_parameters.get("Sqls")
    params = {
        named: target["Arn"] if is_workgroup else parts[5].rpartition(":")[2],
        "Database": redshift_data_parameters.get("Database"),
        "DbUser": redshift_data_parameters.get("DbUser"),
        "SecretArn": redshift_data_parameters.get("SecretManagerArn"),
        "StatementName": redshift_data_parameters.get("StatementName"),
        "WithEvent": redshift_data_parameters.get("WithEvent"),
        **(
            {"Sqls": sqls}
            if sqls
            else {"Sql": redshift_data_parameters.get("Sql") or data.decode()}
        ),
    }
    params = {name: value for name, value in params.items() if value is not None}
    operation = "BatchExecuteStatement" if sqls else "ExecuteStatement"
    _queue(rule, target, parts, data, "redshift-data", operation, params)


def _queue(
    rule: Any,
    target: Mapping[str, Any],
    parts: list[str],
    data: bytes,
    service: str = "",
    operation: str = "",
    params: dict[str, Any] | None = None,
    http: HttpCall | None = None,
) -> None:
    if CURRENT.control is None:
        return  # state is being loaded: this event was delivered before
    retry = target.get("RetryPolicy") or {}
    OUTBOX.add(
        Delivery(
            what=f"An event of {rule.arn} for {target['Arn']}",
            body=data,
            service=service,
            operation=operation,
            params=params or {},
            http=http,
            account=parts[4],
            region=parts[3],
            most_age_s=int(retry.get("MaximumEventAgeInSeconds", MOST_AGE_S)),
            most_retries=int(retry.get("MaximumRetryAttempts", MOST_RETRIES)),
            dead_letter_arn=dead_letter_arn(target),
            attributes={"RULE_ARN": rule.arn, "TARGET_ARN": str(target["Arn"])},
            source_arn=rule.arn,
            # AWS refuses a rule without a role for such a target.
            acting_arn=str(target.get("RoleArn") or ""),
            acting_session=f"AWSEvents_{rule.name}"[:64],
        )
    )


def _ask(rule: Any, action: str, arn: str) -> None:
    """Check that a target's own policy allows EventBridge an action. Raises TargetFailed."""
    acting = CallerIdentity("events.amazonaws.com", source_arn=str(rule.arn))
    sentence = CURRENT.guard.denial(acting, action, arn)
    if sentence:
        raise TargetFailed("NO_PERMISSIONS", sentence)


def _to_queue(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    _ask(rule, "sqs:SendMessage", str(target["Arn"]))
    group = (target.get("SqsParameters") or {}).get("MessageGroupId")
    problem = send_to_queue(target["Arn"], input_of(target, event, rule).decode(), {}, group)
    if problem:
        raise TargetFailed("NO_PERMISSIONS", problem)


def _to_topic(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.sns.models

    _ask(rule, "sns:Publish", str(target["Arn"]))
    topics: Any = moto.sns.models.sns_backends
    topics[parts[4]][parts[3]].publish(
        message=input_of(target, event, rule).decode(), arn=str(target["Arn"])
    )


def _to_log_group(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.logs.models

    backends: Any = moto.logs.models.logs_backends
    backend = backends[parts[4]][parts[3]]
    _ask(rule, "logs:PutLogEvents", str(target["Arn"]))
    group = parts[5].removeprefix("log-group:").removesuffix(":*")
    # moto creates a stream for each event; here each rule has one.
    stream = str(uuid.uuid5(uuid.NAMESPACE_URL, rule.arn))
    backend.ensure_log_stream(group, stream)
    message = input_of(target, event, rule).decode()
    line = {"timestamp": CURRENT.clock.now_ms(), "message": message}
    backend.put_log_events(group, stream, [line])


def _to_bus(rule: Any, target: Mapping[str, Any], parts: list[str], event: Any) -> None:
    import moto.events.models

    arn, role = str(target["Arn"]), str(target.get("RoleArn") or "")
    if role:
        acting = CallerIdentity(role, f"AWSEvents_{rule.name}"[:64])
        sentence = CURRENT.guard.denial(acting, "events:PutEvents", arn)
        if sentence:
            raise TargetFailed("NO_PERMISSIONS", sentence)
    elif parts[4] != rule.arn.split(":")[4]:
        # A bus in the same account accepts rules without a role; assumed for rules from before AWS required one.
        _ask(rule, "events:PutEvents", arn)
    if _Nested.hops >= MOST_HOPS:
        raise TargetFailed(
            "INVALID_TARGET", f"the event has passed from bus to bus {MOST_HOPS} times"
        )
    backends: Any = moto.events.models.events_backends
    bus = backends[parts[4]][parts[3]].describe_event_bus(parts[5].removeprefix("event-bus/"))
    # An event stays what it was, with its account, its region and its time; it gets another id in another region
    # (LocalStack's tests against AWS, events/test_events_cross_account_region.py, 2024).
    passed_on = event
    if parts[3] != rule.arn.split(":")[3]:
        passed_on = {**event, "id": str(uuid.uuid4())}
    _Nested.hops += 1
    try:
        for next_rule in list(bus.rules.values()):
            next_rule.send_to_targets(copy.deepcopy(passed_on))
    finally:
        _Nested.hops -= 1


_SENDERS: Mapping[str, Callable[[Any, Mapping[str, Any], list[str], Any], None]] = {
    "lambda": _to_function,
    "kinesis": _to_stream,
    "firehose": _to_delivery_stream,
    "sqs": _to_queue,
    "sns": _to_topic,
    "logs": _to_log_group,
    "events": _to_bus,
    "states": _to_machine,
    "execute-api": _to_http,
    "redshift": _to_warehouse,
    "redshift-serverless": _to_warehouse,
}


# Recorded: what AWS takes for a destination without InvocationRateLimitPerSecond.
_RATE_PER_SECOND = 300
_INVOCATION = "InvocationHttpParameters"
_SECRETS = ("ApiKeyValue", "Password", "ClientSecret")
# Assumed: how long AWS authorizes by OAuth.
_AUTHORIZING_S = 2


def patch_models(models: ModuleType) -> None:
    """Change `moto.events.models`: what connections and destinations keep and say."""
    connection, destination, backend = models.Connection, models.Destination, models.EventsBackend
    connection.__init__ = _init_connection
    connection.state = property(_state_of)
    connection.describe_short = _describe_state
    connection.describe = _describe_connection
    backend.update_connection = _update_connection
    backend.delete_connection = _with_deletion_state(backend.delete_connection)
    # moto sets it too.
    destination.state = property(_state_of_destination, lambda *_: None)
    destination.describe = _with_rate(destination.describe)


def _init_connection(
    self: Any,
    name: str,
    account_id: str,
    region_name: str,
    description: str,
    authorization_type: str,
    auth_parameters: dict[str, Any],
) -> None:
    import moto.events.models

    models: Any = moto.events.models
    self.uuid = models.random.uuid4()
    self.name, self.region, self.description = name, region_name, description
    self.authorization_type, self.auth_parameters = authorization_type, auth_parameters
    self.creation_time = self.modified_time = models.unix_time()
    path = f"{name}/{self.uuid}"
    secrets = models.get_secrets_manager_backend(account_id, region_name)
    self.secret_arn = secrets.create_managed_secret(
        service_name="events",
        secret_id=f"events!connection/{path}",
        secret_string=_secret_of(auth_parameters),
        description=f"Auth parameters for Eventbridge connection {path}",
    ).arn
    partition = models.get_partition(region_name)
    self.arn = f"arn:{partition}:events:{region_name}:{account_id}:connection/{path}"


def _describe_state(connection: Any) -> dict[str, Any]:
    return _times(connection) | {
        "ConnectionArn": connection.arn,
        "ConnectionState": connection.state,
    }


def _describe_connection(connection: Any) -> dict[str, Any]:
    return {
        **connection.describe_short(),
        "AuthorizationType": connection.authorization_type,
        "AuthParameters": _without_secrets(connection.auth_parameters),
        "Description": connection.description,
        "Name": connection.name,
        "SecretArn": connection.secret_arn,
    }


def _update_connection(self: Any, name: str, **changes: Any) -> dict[str, Any]:
    import moto.events.models

    models: Any = moto.events.models
    changed = self.connections.get(name)
    if changed is None:
        raise models.ResourceNotFoundException(f"Connection '{name}' does not exist.")
    parameters = changes.pop("auth_parameters", None)
    for attribute, value in changes.items():
        if value is not None:
            setattr(changed, attribute, value)
    if parameters:
        kept = (changed.auth_parameters or {}).get(_INVOCATION)
        changed.auth_parameters = {**({} if kept is None else {_INVOCATION: kept}), **parameters}
        secrets = models.get_secrets_manager_backend(self.account_id, self.region_name)
        text = _secret_of(changed.auth_parameters)
        secrets.put_secret_value(changed.secret_arn, text, None, None, ["AWSCURRENT"])
    changed.modified_time = CURRENT.clock.now_ms() / 1000
    return changed.describe_short()


def _with_deletion_state(delete: Any) -> Any:
    @functools.wraps(delete)
    def delete_connection(self: Any, name: str) -> dict[str, Any]:
        return {**delete(self, name), "ConnectionState": "DELETING"}

    return delete_connection


def _state_of_destination(destination: Any) -> str:
    import moto.events.models

    models: Any = moto.events.models
    _, _, _, region, account, path = destination.connection_arn.split(":", 5)
    used = models.events_backends[account][region].connections.get(path.split("/")[1])
    return "ACTIVE" if used is not None and used.state == "AUTHORIZED" else "INACTIVE"


def _with_rate(describe: Any) -> Any:
    @functools.wraps(describe)
    def describe_destination(self: Any) -> dict[str, Any]:
        rate = int(self.invocation_rate_limit_per_second or _RATE_PER_SECOND)
        return {**describe(self), "InvocationRateLimitPerSecond": rate}

    return describe_destination


def patch_responses(handler: Any, in_pages: Callable[[str, Callable[[Any], Any]], Any]) -> None:
    """Change the responses; `in_pages` makes a method that lists a member's items in pages."""

    def connections(self: Any) -> list[dict[str, Any]]:
        state = self._get_param("ConnectionState")
        return [
            {
                **connection.describe_short(),
                "Name": connection.name,
                "AuthorizationType": connection.authorization_type,
            }
            for connection in _with_prefix(self, self.events_backend.connections)
            if state in (None, connection.state)
        ]

    def destinations(self: Any) -> list[dict[str, Any]]:
        arn = self._get_param("ConnectionArn")
        return [
            {name: value for name, value in destination.describe().items() if name != "Description"}
            for destination in _with_prefix(self, self.events_backend.destinations)
            if arn in (None, destination.connection_arn)
        ]

    create = handler.create_connection

    @functools.wraps(create)
    def create_connection(self: Any) -> tuple[str, dict[str, Any]]:
        body, headers = create(self)
        made = self.events_backend.connections[self._get_param("Name")]
        return json.dumps({**json.loads(body), "ConnectionState": made.state}), headers

    handler.create_connection = create_connection
    handler.list_connections = in_pages("Connections", connections)
    handler.list_api_destinations = in_pages("ApiDestinations", destinations)


def _with_prefix(response: Any, resources: Mapping[str, Any]) -> list[Any]:
    prefix = str(response._get_param("NamePrefix") or "")
    return [one for name, one in sorted(resources.items()) if name.startswith(prefix)]


def _state_of(connection: Any) -> str:
    by_oauth = connection.authorization_type == "OAUTH_CLIENT_CREDENTIALS"
    age_s = CURRENT.clock.now_ms() / 1000 - _modification_time_s(connection)
    return "AUTHORIZING" if by_oauth and age_s < _AUTHORIZING_S else "AUTHORIZED"


def _modification_time_s(connection: Any) -> float:
    return float(getattr(connection, "modified_time", connection.creation_time))


def _times(connection: Any) -> dict[str, Any]:
    modified = _modification_time_s(connection)
    return {
        "CreationTime": connection.creation_time,
        "LastModifiedTime": modified,
        "LastAuthorizedTime": modified,
    }


def _secret_of(parameters: Mapping[str, Any]) -> str:
    """Return the secret's text: members in snake case, those of the client and of the authorization side by side."""
    from moto.utilities.utils import CamelToUnderscoresWalker

    members: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == _INVOCATION:
            members[name] = value
        else:
            client = value.get("ClientParameters") or {}
            members |= client | {
                key: one for key, one in value.items() if key != "ClientParameters"
            }
    return json.dumps(CamelToUnderscoresWalker.parse(members), separators=(",", ":"))


def _without_secrets(value: Any) -> Any:
    """Return parameters without secrets and without values that are marked as secret."""
    if isinstance(value, list):
        return [_without_secrets(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    is_secret = bool(members.get("IsValueSecret"))
    return {
        name: _without_secrets(one)
        for name, one in members.items()
        if name not in _SECRETS and not (is_secret and name == "Value")
    }
