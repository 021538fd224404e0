"""Reads OpenAPI definitions of APIs, Swagger 2.0 and OpenAPI 3, as API Gateway imports them. Pure functions.

Source: docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-swagger-extensions.html (documented).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from headrace.moto.bounds.yaml_documents import safe_load

Members = dict[str, Any]
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
ANY = "x-amazon-apigateway-any-method"
INTEGRATION = "x-amazon-apigateway-integration"
AUTHORIZER = "x-amazon-apigateway-authorizer"
_MOST_REFERENCES = 20


class BadDefinition(Exception):
    """The definition cannot be imported; the text says why, as API Gateway does (assumed where not quoted)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path. `parameters` are the path's and its own, without references."""

    path: str
    method: str
    members: Members
    parameters: Sequence[Members]


@dataclass(frozen=True, slots=True)
class Security:
    """What an operation demands of its callers.

    Attributes:
        kind: NONE, AWS_IAM, or `AUTHORIZER`.
        scheme: the name of the security scheme with the authorizer.
        scopes: the scopes that it lists.
        needs_key: whether an API key is needed.
    """

    kind: str = "NONE"
    scheme: str = ""
    scopes: tuple[str, ...] = ()
    needs_key: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of an API."""

    members: Members
    is_swagger: bool
    base_path: str = field(default="")

    # --- parts --------------------------------------------------------------------------------

    @property
    def info(self) -> Members:
        """Its `info`."""
        return members_of(self.members, "info")

    @property
    def schemas(self) -> Members:
        """Its schemas by name."""
        return self._list_shared("definitions", "schemas")

    @property
    def security_schemes(self) -> Members:
        """Its security schemes by name."""
        return self._list_shared("securityDefinitions", "securitySchemes")

    def _list_shared(self, old: str, new: str) -> Members:
        if self.is_swagger:
            return members_of(self.members, old)
        return members_of(members_of(self.members, "components"), new)

    def resolve(self, value: Any) -> Members:
        """Return an object, or what its `$ref` points to within the definition. Raises BadDefinition."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict):
                raise BadDefinition("Invalid OpenAPI input.")
            reference: Any = cast("Members", value).get("$ref")
            if reference is None:
                return cast("Members", value)
            value = self._at(str(reference))
        raise BadDefinition("Invalid OpenAPI input: a reference refers to itself.")

    def _at(self, reference: str) -> Any:
        node: Any = self.members
        parts = reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]
        for part in parts:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                raise BadDefinition(f"Invalid OpenAPI input: {reference} is not in the definition.")
            node = cast("Members", node)[name]
        return node

    def operations(self) -> Iterator[Operation]:
        """Yield the operations by path, with `base_path` before each path. Raises BadDefinition."""
        paths = members_of(self.members, "paths")
        for path in sorted(paths):
            if path.startswith("x-"):
                continue
            if not path.startswith("/"):
                raise BadDefinition(f"Invalid OpenAPI input: the path {path} begins with no slash.")
            item = self.resolve(paths[path])
            common = self._parameters(item)
            for name, value in item.items():
                if name not in _METHODS and name != ANY:
                    continue
                operation = self.resolve(value)
                method = "ANY" if name == ANY else name.upper()
                whole = f"{self.base_path}{path}".rstrip("/") or "/"
                yield Operation(whole, method, operation, [*common, *self._parameters(operation)])

    def _parameters(self, item: Members) -> list[Members]:
        listed: Any = item.get("parameters") or []
        if not isinstance(listed, list):
            raise BadDefinition("Invalid OpenAPI input.")
        return [self.resolve(parameter) for parameter in cast("list[Any]", listed)]

    def integration_of(self, operation: Operation) -> Members | None:
        """Return an operation's integration, with its type in upper case. Raises BadDefinition."""
        if INTEGRATION not in operation.members:
            return None
        integration = dict(self.resolve(operation.members[INTEGRATION]))
        integration["type"] = str(integration.get("type", "")).upper()
        return integration

    # --- security -----------------------------------------------------------------------------

    def security_of(self, operation: Operation) -> Security:
        """Return what an operation demands, by its own `security` or the definition's. Raises BadDefinition."""
        kind = str(
            members_of(operation.members, "x-amazon-apigateway-auth").get("type", "")
        ).upper()
        listed: Any = operation.members.get("security", self.members.get("security")) or []
        if not isinstance(listed, list):
            raise BadDefinition("Invalid OpenAPI input.")
        security = Security(kind if kind in ("NONE", "AWS_IAM") else "NONE")
        for alternative in cast("list[Any]", listed):
            for name, scopes in self.resolve(alternative).items():
                security = self._with_scheme(security, name, scopes or [])
        return security

    def _with_scheme(self, security: Security, name: str, scopes: Sequence[str]) -> Security:
        scheme = self.resolve(self.security_schemes.get(name) or {})
        if AUTHORIZER in scheme:
            return Security("AUTHORIZER", name, tuple(scopes), security.needs_key)
        if str(scheme.get("x-amazon-apigateway-authtype", "")).lower() == "awssigv4":
            return Security("AWS_IAM", needs_key=security.needs_key)
        if scheme.get("type") == "apiKey" and str(scheme.get("name", "")).lower() == "x-api-key":
            return Security(security.kind, security.scheme, security.scopes, needs_key=True)
        return security


def members_of(value: Mapping[str, Any], name: str) -> Members:
    """Return the object under `name`, or an empty one. Raises BadDefinition."""
    member: Any = value.get(name)
    if member is None:
        return {}
    if not isinstance(member, dict):
        raise BadDefinition(f"Invalid OpenAPI input: {name} is no object.")
    return cast("Members", member)


def read_definition(body: str | bytes, base_path_rule: str = "ignore") -> Definition:
    """Return a definition in JSON or YAML. Raises BadDefinition.

    Args:
        body: the definition's text.
        base_path_rule: the parameter `basepath`: whether the definition's base path is left out (`ignore`), put before
            every path (`prepend`), or put before without its first part (`split`).
    """
    try:
        try:
            value: Any = json.loads(body)
        except ValueError:
            value = safe_load(body)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        # A bound of `safe_load`; bad syntax has a class of its own.
        if type(error) is yaml.YAMLError:
            raise BadDefinition(f"Unable to parse API definition: {error}") from error
        raise BadDefinition("Invalid OpenAPI input.") from error
    if not isinstance(value, dict):
        raise BadDefinition("Invalid OpenAPI input.")
    document = cast("Members", value)
    is_swagger = str(document.get("swagger", "")) == "2.0"
    if not is_swagger and not str(document.get("openapi", "")).startswith("3."):
        raise BadDefinition("Invalid OpenAPI input.")
    definition = Definition(document, is_swagger)
    if not members_of(document, "info").get("title"):
        raise BadDefinition("Invalid OpenAPI input: info.title is missing.")
    return Definition(document, is_swagger, _base_path(definition, base_path_rule))


def _base_path(definition: Definition, rule: str) -> str:
    if rule == "ignore":
        return ""
    if rule not in ("prepend", "split"):
        raise BadDefinition(f"Invalid value for basepath: {rule}")
    parts = [part for part in _read_base_path(definition).split("/") if part]
    kept = parts[1:] if rule == "split" else parts
    return "".join(f"/{part}" for part in kept)


def _read_base_path(definition: Definition) -> str:
    if definition.is_swagger:
        return str(definition.members.get("basePath", ""))
    servers: Any = definition.members.get("servers") or []
    if not isinstance(servers, list) or not servers:
        return ""
    server = definition.resolve(cast("list[Any]", servers)[0])
    url = str(server.get("url", ""))
    for name, variable in members_of(server, "variables").items():
        url = url.replace(f"{{{name}}}", str(definition.resolve(variable).get("default", "")))
    _, scheme, rest = url.partition("://")
    return "/" + rest.partition("/")[2] if scheme else url
