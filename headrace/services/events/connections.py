"""EventBridge: connections and API destinations: their members, their secret, updates, and lists in pages.

Answers are as recorded from AWS (LocalStack's test_api_destinations_and_connection.py), but for one: a connection by
OAuth is AUTHORIZED at once, and its token is fetched with the first call.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from headrace.moto.current_cloud import CURRENT

# Recorded: what AWS takes for a destination without InvocationRateLimitPerSecond.
_RATE_PER_SECOND = 300
_INVOCATION = "InvocationHttpParameters"
_SECRETS = ("ApiKeyValue", "Password", "ClientSecret")


def patch_models(models: ModuleType) -> None:
    """Change `moto.events.models`: what connections and destinations keep and say."""
    connection, destination, backend = models.Connection, models.Destination, models.EventsBackend

    def make(
        self: Any,
        name: str,
        account_id: str,
        region_name: str,
        description: str,
        authorization_type: str,
        auth_parameters: dict[str, Any],
    ) -> None:
        self.uuid = models.random.uuid4()
        self.name, self.region, self.description = name, region_name, description
        self.authorization_type, self.auth_parameters = authorization_type, auth_parameters
        self.creation_time = self.modified_time = models.unix_time()
        self.state = "AUTHORIZED"
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

    def update_connection(self: Any, name: str, **changes: Any) -> dict[str, Any]:
        changed = self.connections.get(name)
        if changed is None:
            raise models.ResourceNotFoundException(f"Connection '{name}' does not exist.")
        parameters = changes.pop("auth_parameters", None)
        for attribute, value in changes.items():
            if value is not None:
                setattr(changed, attribute, value)
        if parameters:
            kept = (changed.auth_parameters or {}).get(_INVOCATION)
            changed.auth_parameters = {
                **({} if kept is None else {_INVOCATION: kept}),
                **parameters,
            }
            secrets = models.get_secrets_manager_backend(self.account_id, self.region_name)
            text = _secret_of(changed.auth_parameters)
            secrets.put_secret_value(changed.secret_arn, text, None, None, ["AWSCURRENT"])
        changed.modified_time = CURRENT.clock.now_ms() / 1000
        return changed.describe_short()

    delete = backend.delete_connection

    @functools.wraps(delete)
    def delete_connection(self: Any, name: str) -> dict[str, Any]:
        return {**delete(self, name), "ConnectionState": "DELETING"}

    connection.__init__ = make
    connection.describe_short = lambda self: (
        _times(self)
        | {
            "ConnectionArn": self.arn,
            "ConnectionState": self.state,
        }
    )
    connection.describe = lambda self: {
        **self.describe_short(),
        "AuthorizationType": self.authorization_type,
        "AuthParameters": _without_secrets(self.auth_parameters),
        "Description": self.description,
        "Name": self.name,
        "SecretArn": self.secret_arn,
    }
    backend.update_connection = update_connection
    backend.delete_connection = delete_connection
    describe = destination.describe
    destination.describe = lambda self: {
        **describe(self),
        "InvocationRateLimitPerSecond": _rate_of(self),
    }


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

    handler.list_connections = in_pages("Connections", connections)
    handler.list_api_destinations = in_pages("ApiDestinations", destinations)


def _with_prefix(response: Any, resources: Mapping[str, Any]) -> list[Any]:
    prefix = str(response._get_param("NamePrefix") or "")
    return [one for name, one in sorted(resources.items()) if name.startswith(prefix)]


def _rate_of(destination: Any) -> int:
    return int(destination.invocation_rate_limit_per_second or _RATE_PER_SECOND)


def _times(connection: Any) -> dict[str, Any]:
    modified = getattr(connection, "modified_time", connection.creation_time)
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
