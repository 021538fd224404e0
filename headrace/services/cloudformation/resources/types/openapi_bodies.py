"""The OpenAPI definitions of API Gateway's APIs in templates: `Body`, and `BodyS3Location`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from headrace.services.cloudformation.resources.declaration import Values, declare_sources

_PREFIX = "x-amazon-apigateway-"
# The properties of a REST API that its definition may have too. The definition takes precedence (documented).
_IN_DEFINITION = {
    "MinimumCompressionSize": f"{_PREFIX}minimum-compression-size",
    "ApiKeySourceType": f"{_PREFIX}api-key-source",
    "Policy": f"{_PREFIX}policy",
}


def has_body(values: Values) -> bool:
    """Whether an API is imported from a definition."""
    return values.get("Body") is not None or values.get("BodyS3Location") is not None


@declare_sources("Name", "Body", "BodyS3Location")
def api_name(values: Values) -> str:
    """Return the API's name: the template's, or the title of the definition."""
    title: Any = values.get("Body.info.title")
    if title is None and values.get("BodyS3Location") is not None and not values.get("Name"):
        title = _members(_text(values)).get("info", {}).get("title")
    return str(values.get("Name") or title or values.context.generate_name(128))


@declare_sources("Body", "BodyS3Location")
def body(values: Values) -> str:
    """Return the definition's text."""
    return _text(values)


@declare_sources("Body", "BodyS3Location", "BinaryMediaTypes", "Description", *_IN_DEFINITION)
def rest_body(values: Values) -> str:
    """Return the definition's text, with the resource's own properties: an import that overwrites resets all others."""
    text = _text(values)
    definition = _members(text)
    if not definition:
        return text
    info: dict[str, Any] = {**definition.get("info", {})}
    info["title"] = values.get("Name") or info.get("title")
    if values.get("Description"):
        info.setdefault("description", values.get("Description"))
    for name, member in _IN_DEFINITION.items():
        if values.get(name) is not None:
            definition.setdefault(member, values.get(name))
    kinds: list[str] = definition.get(f"{_PREFIX}binary-media-types") or []
    more: list[str] = values.get("BinaryMediaTypes") or []
    definition[f"{_PREFIX}binary-media-types"] = list(dict.fromkeys([*kinds, *more]))
    return json.dumps({**definition, "info": info})


@declare_sources("Mode")
def mode(values: Values) -> str:
    """Return the mode of an update's import: without one, the new definition takes precedence (documented)."""
    return str(values.get("Mode") or "overwrite")


def _text(values: Values) -> str:
    location: dict[str, Any] | None = values.get("BodyS3Location")
    if values.get("Body") is not None or location is None:
        return json.dumps(values.get("Body"))
    params = {"Bucket": location["Bucket"], "Key": location["Key"]}
    if location.get("Version"):
        params["VersionId"] = str(location["Version"])
    if location.get("ETag"):
        params["IfMatch"] = str(location["ETag"])
    content: Any = values.context.call("s3", "GetObject", params)["Body"]
    return (content if isinstance(content, bytes) else content.read()).decode()


def _members(text: str) -> dict[str, Any]:
    """Return the members of a definition in JSON; YAML, which only API Gateway reads, has none here."""
    with suppress(ValueError):
        value: Any = json.loads(text)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    return {}
