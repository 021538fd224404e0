"""Parts and versions of a REST API's documentation, which moto does not have.

Answers and refusals are as recorded from AWS (LocalStack's apigateway/test_apigateway_api.py and
test_apigateway_common.py, 2023 and 2024); documented: the filters of GetDocumentationParts and the members of locations
(docs.aws.amazon.com/apigateway/latest/api/API_GetDocumentationParts.html), and what an import brings (recorded in 2025
and 2026; documented: api-gateway-swagger-extensions-documentation.html).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.moto.current_cloud import CURRENT
from headrace.services.apigateway.refusals import (
    bad_request,
    check_replaced,
    conflict,
    names_of,
    not_found,
)

_Answer = tuple[int, dict[str, Any], str]
_TYPES = (
    "RESPONSE_BODY", "RESPONSE", "METHOD", "MODEL", "AUTHORIZER", "RESPONSE_HEADER", "RESOURCE",
    "PATH_PARAMETER", "REQUEST_BODY", "QUERY_PARAMETER", "API", "REQUEST_HEADER",
)  # fmt: skip


def add_documentation(urls: Any) -> None:
    """Add the calls to `moto.apigateway.urls`."""
    from moto.apigateway.responses import APIGatewayResponse

    response: Any = APIGatewayResponse
    for call in (
        create_documentation_part, get_documentation_part, get_documentation_parts,
        update_documentation_part, delete_documentation_part, create_documentation_version,
        get_documentation_version, get_documentation_versions, update_documentation_version,
        delete_documentation_version, import_documentation_parts,
    ):  # fmt: skip
        setattr(response, call.__name__, call)
    for kind, name in (("parts", "part_id"), ("versions", "doc_version")):
        path = f"{{0}}/restapis/(?P<restapi_id>[^/]+)/documentation/{kind}"
        urls.url_paths[f"{path}$"] = response.dispatch
        urls.url_paths[f"{path}/(?P<{name}>[^/]+)$"] = response.dispatch


def _get_kept(api: Any, kind: str) -> dict[str, dict[str, Any]]:
    # State that was stored before has none.
    return vars(api).setdefault(f"documentation_{kind}", {})


def _of_api(self: Any, kind: str) -> dict[str, dict[str, Any]]:
    return _get_kept(self.backend.get_rest_api(names_of(self)[1]), kind)


def _find(self: Any, kind: str, missing: str) -> dict[str, Any]:
    api = self.backend.apis.get(names_of(self)[1])
    found = None if api is None else _get_kept(api, kind).get(names_of(self)[4])
    if found is None:
        raise not_found(missing)
    return found


def _change(self: Any, changed: dict[str, Any], paths: Sequence[str]) -> _Answer:
    operations = self._get_param("patchOperations") or []
    check_replaced(operations, paths)
    for operation in operations:
        changed[operation["path"].lstrip("/")] = operation.get("value") or ""
    return 200, {}, json.dumps(changed)


# --- parts ------------------------------------------------------------------------------------

_NO_PART = "Invalid Documentation part identifier specified"


def create_documentation_part(self: Any) -> _Answer:
    """CreateDocumentationPart."""
    from moto.apigateway.exceptions import ValidationException

    location = dict(self._get_param("location") or {})
    if location.get("type") not in _TYPES:
        raise ValidationException(
            f"1 validation error detected: Value '{location.get('type')}' at"
            " 'createDocumentationPartInput.location.type' failed to satisfy constraint: Member must"
            f" satisfy enum value set: [{', '.join(_TYPES)}]"
        )
    parts = _of_api(self, "parts")
    if any(part["location"] == location for part in parts.values()):
        raise conflict("Documentation part already exists for the specified location")
    part = _add_part(parts, location, self._get_param("properties") or "")
    return 201, {"status": 201}, json.dumps(part)


def _add_part(
    parts: dict[str, dict[str, Any]], location: dict[str, Any], properties: str
) -> dict[str, Any]:
    from moto.moto_api._internal import mock_random

    part_id = mock_random.get_random_string(length=6, lower_case=True)
    parts[part_id] = {"id": part_id, "location": location, "properties": properties}
    return parts[part_id]


def import_documentation_parts(self: Any) -> _Answer:
    """ImportDocumentationParts."""
    from headrace.services.apigateway.openapi import BadDefinition, read_definition

    parts = _of_api(self, "parts")
    mode = (self.querystring.get("mode") or ["merge"])[-1]
    try:
        imported = _read_parts(read_definition(self.body).members)
    except BadDefinition as error:
        raise bad_request("Unable to build importer with provided input.") from error
    return 200, {}, json.dumps({"ids": _store_parts(parts, imported, mode)})


def import_parts(api: Any, definition: Mapping[str, Any], mode: str) -> None:
    """Keep the parts that the definition of an imported API brings. Raises BadDefinition."""
    _store_parts(_get_kept(api, "parts"), _read_parts(definition), mode)


def _store_parts(
    parts: dict[str, dict[str, Any]], imported: list[tuple[dict[str, Any], str]], mode: str
) -> list[str]:
    if mode == "overwrite":
        parts.clear()
    by_place = {_place(part["location"]): part for part in parts.values()}
    ids: list[str] = []
    for location, properties in imported:
        place = _place(location)
        if place not in by_place:
            by_place[place] = _add_part(parts, location, properties)
        by_place[place]["properties"] = properties
        ids.append(by_place[place]["id"])
    return ids


def _place(location: Mapping[str, Any]) -> str:
    return json.dumps(location, sort_keys=True, default=str)


# What is at a path: an import puts it at the root without one (recorded).
_AT_PATHS = frozenset(_TYPES) - {"API", "AUTHORIZER", "MODEL"}


def _read_parts(definition: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    from headrace.services.apigateway.openapi import BadDefinition, members_of

    listed: Any = members_of(definition, "x-amazon-apigateway-documentation").get(
        "documentationParts", []
    )
    if not isinstance(listed, list):
        raise BadDefinition("Invalid OpenAPI input: documentationParts is no array.")
    found: list[tuple[dict[str, Any], str]] = []
    for one in listed:
        given = members_of(one, "location") if isinstance(one, dict) else {}
        # YAML has a number for a status.
        location = {name: str(value) for name, value in given.items()}
        if location.get("type") not in _TYPES:
            raise BadDefinition("Invalid OpenAPI input: a documentation part has no place.")
        if location["type"] in _AT_PATHS:
            location = {"path": "/", **location}
        properties = one.get("properties", "")
        text = properties if isinstance(properties, str) else json.dumps(properties, default=str)
        found.append((location, text))
    return found


def get_documentation_part(self: Any) -> _Answer:
    """GetDocumentationPart."""
    return 200, {}, json.dumps(_find(self, "parts", _NO_PART))


def get_documentation_parts(self: Any) -> _Answer:
    """GetDocumentationParts: all, or those of a type, a name or a path."""
    wanted: Mapping[str, str] = {
        name: values[-1]
        for name, values in self.querystring.items()
        if name in ("type", "name", "path") and values
    }
    parts = [
        part
        for part in _of_api(self, "parts").values()
        if all(part["location"].get(name) == value for name, value in wanted.items())
    ]
    return 200, {}, json.dumps({"item": parts})


def update_documentation_part(self: Any) -> _Answer:
    """UpdateDocumentationPart."""
    return _change(self, _find(self, "parts", _NO_PART), ("/properties",))


def delete_documentation_part(self: Any) -> _Answer:
    """DeleteDocumentationPart."""
    parts = _of_api(self, "parts")
    _find(self, "parts", _NO_PART)
    del parts[names_of(self)[4]]
    return 202, {"status": 202}, "{}"


# --- versions ---------------------------------------------------------------------------------

_NO_VERSION = "Invalid Documentation version specified"  # assumed


def create_documentation_version(self: Any) -> _Answer:
    """CreateDocumentationVersion: moto's stages name it when they are asked to."""
    api = self.backend.get_rest_api(names_of(self)[1])
    versions, name = _get_kept(api, "versions"), self._get_param("documentationVersion")
    if name in versions:
        raise conflict("Documentation version already exists")  # assumed
    version: dict[str, Any] = {"version": name, "createdDate": CURRENT.clock.now_ms() // 1000}
    if self._get_param("description"):
        version["description"] = self._get_param("description")
    versions[name] = version
    if stage_name := self._get_param("stageName"):
        stage = self.backend.get_stage(api.id, stage_name)
        stage.documentation_version = name
    return 201, {"status": 201}, json.dumps(version)


def get_documentation_version(self: Any) -> _Answer:
    """GetDocumentationVersion."""
    return 200, {}, json.dumps(_find(self, "versions", _NO_VERSION))


def get_documentation_versions(self: Any) -> _Answer:
    """GetDocumentationVersions."""
    return 200, {}, json.dumps({"item": [*_of_api(self, "versions").values()]})


def update_documentation_version(self: Any) -> _Answer:
    """UpdateDocumentationVersion."""
    return _change(self, _find(self, "versions", _NO_VERSION), ("/description",))


def delete_documentation_version(self: Any) -> _Answer:
    """DeleteDocumentationVersion."""
    versions = _of_api(self, "versions")
    _find(self, "versions", _NO_VERSION)
    del versions[names_of(self)[4]]
    return 202, {"status": 202}, "{}"
