"""EventBridge: archives, the rules that have a schedule, connections and API destinations.

Connections and destinations answer as recorded from AWS (LocalStack's test_api_destinations_and_connection.py): their
members, their secret, updates, and lists in pages. A connection by OAuth is AUTHORIZING for a moment, but its token is
fetched with the first call only.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false

from __future__ import annotations

import copy
import functools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, cast

import msgspec

from headrace.deliveries.input_templates import compact
from headrace.deliveries.schedule_worker import ScheduleEntry, build_scheduled_event
from headrace.moto.current_cloud import CURRENT, unix_time, use_clock
from headrace.moto.storage import pickles
from headrace.moto.storage.changes import CHANGES, RowKey, Rows
from headrace.moto.storage.stored_names import stored_as
from headrace.services.events.targets import (
    InputTooLarge,
    fill_template,
    send_matching_event,
    send_to_targets,
)

# The most events that an archive keeps, whatever its retention.
MOST_ARCHIVED = 100_000
# What an event's time counts (documented: eb-putevent-size.html).
_TIME_BYTES = 14


@functools.cache
def patch() -> None:
    """Replace moto's methods, once."""
    import moto.events.models as models
    from moto.events.models import Archive, Rule

    use_clock(models)

    rule: Any = Rule
    rule.send_to_targets = send_matching_event
    rule.__init__ = _with_creation(Rule.__init__)
    archive: Any = Archive
    archive.__init__ = _with_rows(Archive.__init__)
    archive.describe_short = _with_size(Archive.describe_short)
    pickles.register_reducer(Archive, _reduce_archive)


def _with_creation(init: Callable[..., None]) -> Callable[..., None]:
    """Store when a rule was put, which moto does not: its rate counts from then, over every restart."""

    @functools.wraps(init)
    def with_creation(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.put_s = unix_time()

    return with_creation


# --- archives ---------------------------------------------------------------------------------------


@stored_as("events_archive_rows")
class _Archived(Rows):
    """The events of an archive, by number; those past its retention are dropped."""

    service = "events"
    archive: Any

    def __init__(self, rows_id: int | None = None) -> None:
        super().__init__(rows_id)
        self.events: deque[Any] = deque()
        self.first = 0
        self.size_bytes = 0

    def append(self, event: Any) -> None:
        """Add an event, as moto does to its list."""
        CHANGES.row(self, self.first + len(self.events))
        self.events.append(copy.deepcopy(event))
        self.size_bytes += _size_bytes(event)
        days = int(self.archive.retention or 0)
        oldest_s = CURRENT.clock.now_ms() / 1000 - days * 86_400 if days else 0.0
        while len(self.events) > MOST_ARCHIVED or self.events[0]["ingestion-time"] < oldest_s:
            self.size_bytes -= _size_bytes(self.events.popleft())
            CHANGES.row(self, self.first)
            self.first += 1

    def __iter__(self) -> Any:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    # An archive equals only itself, whatever its events.
    def __bool__(self) -> bool:
        return True

    def encode_row(self, key: Any) -> bytes | None:
        """See `Rows.encode_row`."""
        at = key - self.first
        return json.dumps(self.events[at]).encode() if 0 <= at < len(self.events) else None

    def keys(self) -> Iterable[Any]:
        """See `Rows.keys`."""
        return range(self.first, self.first + len(self.events))

    def load(self, rows: Iterable[tuple[RowKey, bytes]]) -> None:
        """See `Rows.load`."""
        for key, value in rows:
            if not self.events:
                self.first = int(key)
            event = msgspec.json.decode(value)
            self.events.append(event)
            self.size_bytes += _size_bytes(event)


def _reduce_archive(archive: Any) -> Any:
    pickles.note_rows(archive.events)
    state = {name: value for name, value in vars(archive).items() if name != "events"}
    return empty_archive, (archive.events.id,), state


@stored_as("events_archive")
def empty_archive(rows_id: int) -> Any:
    """Return an archive whose attributes and events are still to be loaded."""
    from moto.events.models import Archive

    rows: Any = pickles.rows_with_id(_Archived, rows_id)
    rows.archive = pickles.shell(Archive, Archive, events=rows)
    return rows.archive


def _with_size(describe: Any) -> Any:
    @functools.wraps(describe)
    def describe_short(self: Any) -> dict[str, Any]:
        return {**describe(self), "SizeBytes": self.events.size_bytes}

    return describe_short


def _size_bytes(event: Mapping[str, Any]) -> int:
    """Return an archived event's size: 159 bytes were recorded of an event, which these members make (assumed)."""
    texts = [event.get("source"), event.get("detail-type"), event.get("account")]
    texts += [compact(event.get("detail")), *(event.get("resources") or ())]
    return _TIME_BYTES + sum(len(str(text or "").encode()) for text in texts)


def _with_rows(init: Any) -> Any:
    @functools.wraps(init)
    def with_rows(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        self.events = _Archived()
        self.events.archive = self

    return with_rows


def scheduled_rules() -> Iterator[ScheduleEntry]:
    """Yield the enabled rules that have a schedule. The caller holds `MOTO_LOCK`."""
    from moto.events.models import events_backends

    CHANGES.load_deferred("events")
    for regions in list(cast("Any", events_backends).values()):
        for backend in list(regions.values()):
            for bus in list(backend.event_buses.values()):
                for rule in list(bus.rules.values()):
                    if rule.scheduled_expression and rule.state != "DISABLED":
                        yield _entry_of_rule(rule)


def _entry_of_rule(rule: Any) -> ScheduleEntry:

    def fire(moment: datetime) -> None:
        event = build_scheduled_event("aws.events", rule.arn, moment)
        send_to_targets(rule, event)

    return ScheduleEntry(
        key=str(rule.arn),
        what=(rule.scheduled_expression,),
        expression=str(rule.scheduled_expression),
        zone="UTC",
        # Of a rule of an older version a rate counts from when the rule is first seen.
        since=datetime.fromtimestamp(rule.put_s, UTC) if hasattr(rule, "put_s") else None,
        until=None,
        fire=fire,
    )


def patch_event_templates(utils: ModuleType) -> None:
    """Replace how `moto.events.utils` fills input templates, which archives use; list targets by their ids."""
    from moto.events.exceptions import ValidationException

    # Targets of one rule may share an ARN; moto's pages of them begin at an ARN.
    utils.PAGINATION_MODEL["list_targets_by_rule"]["unique_attribute"] = "Id"
    parser: Any = utils.EventTemplateParser

    def parse(
        input_template: str, input_paths_map: Mapping[str, Any], event: Mapping[str, Any]
    ) -> Any:
        template = input_template or parser.DEFAULT_EVENT_INPUT_TEMPLATE
        paths = input_paths_map or parser.DEFAULT_EVENT_INPUT_PATHS_MAP
        time = event.get("ingestion-time")
        reserved = {"event.json": event, "event.ingestion-time": time}
        try:
            text = fill_template(template, paths, event, reserved)
        except InputTooLarge as error:
            raise ValidationException(str(error)) from error
        return json.loads(text)

    parser.parse = staticmethod(parse)


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
