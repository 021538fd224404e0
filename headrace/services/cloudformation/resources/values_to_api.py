"""Converts a template's values to the members of an API call, by botocore's model of the operation.

Names are matched without regard to case (`RestApiId` is API Gateway's `restApiId`), text becomes the number or boolean
that the API wants, documents become JSON text, and tags get the service's form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.services.cloudformation.errors import ResourceFailed

# Functions of a template that is not evaluated yet.
_FUNCTIONS = ("Ref", "Condition")


@dataclass(slots=True)
class Converter:
    """Converts values, and collects the properties that the API has no member for.

    Attributes:
        names: the API's names of a template's keys, where they do not match, at any depth.
        dropped: the paths of the keys that the API does not have.
    """

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: list[str] = field(default_factory=list[str])

    def value(self, value: Any, shape: Any, path: str) -> Any:
        """Return a value in the type of `shape`. Raises ResourceFailed when it cannot be converted."""
        if _is_function(value):
            return value
        convert = _CONVERTERS.get(shape.type_name)
        if convert is not None:
            return convert(self, value, shape, path)
        return value

    def structure(self, value: Any, shape: Any, path: str) -> Any:
        """Return the members of a structure; collect the keys that it does not have."""
        if not isinstance(value, Mapping):
            raise ResourceFailed(f"Properties validation failed: {path} is not an object")
        members = {name.lower(): name for name in shape.members}
        converted: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            name = members.get(self.names.get(key, key).lower())
            if name is None:
                self.dropped.append(f"{path}.{key}")
            else:
                converted[name] = self.value(item, shape.members[name], f"{path}.{key}")
        return converted

    def many(self, value: Any, shape: Any, path: str) -> Any:
        """Return a list; a single value is a list of one."""
        items = cast("list[Any]", value if isinstance(value, list) else [value])
        return [self.value(item, shape.member, f"{path}[{at}]") for at, item in enumerate(items)]

    def convert_map(self, value: Any, shape: Any, path: str) -> Any:
        """Return a map."""
        if not isinstance(value, Mapping):
            raise ResourceFailed(f"Properties validation failed: {path} is not an object")
        items = cast("Mapping[str, Any]", value).items()
        return {str(key): self.value(item, shape.value, f"{path}.{key}") for key, item in items}

    def text(self, value: Any, shape: Any, path: str) -> Any:
        """Return text; an object or a list becomes JSON."""
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value) if isinstance(value, dict | list) else str(value)

    def number(self, value: Any, shape: Any, path: str) -> Any:
        """Return a number."""
        try:
            return int(value) if shape.type_name in ("integer", "long") else float(value)
        except (TypeError, ValueError):
            raise ResourceFailed(f"Properties validation failed: {path} is not a number") from None

    def truth(self, value: Any, shape: Any, path: str) -> Any:
        """Return a boolean."""
        if value in (True, "true", "True"):
            return True
        if value in (False, "false", "False"):
            return False
        raise ResourceFailed(f"Properties validation failed: {path} is not a boolean")

    def blob(self, value: Any, shape: Any, path: str) -> Any:
        """Return bytes."""
        if isinstance(value, str):
            return value.encode()
        return json.dumps(value).encode() if isinstance(value, dict | list) else value


_CONVERTERS: dict[str, Callable[[Converter, Any, Any, str], Any]] = {
    "structure": Converter.structure,
    "list": Converter.many,
    "map": Converter.convert_map,
    "string": Converter.text,
    "character": Converter.text,
    "integer": Converter.number,
    "long": Converter.number,
    "float": Converter.number,
    "double": Converter.number,
    "boolean": Converter.truth,
    "blob": Converter.blob,
}


def tags_as(shape: Any, tags: Mapping[str, str]) -> Any:
    """Return tags in a member's form: a map, or a list of keys and values under the member's names."""
    if shape.type_name == "map":
        return dict(tags)
    names = list(shape.member.members)
    key = next(name for name in names if "key" in name.lower())
    value = next(name for name in names if "value" in name.lower())
    return [{key: tag, value: tags[tag]} for tag in tags]


def tags_of(value: Any) -> dict[str, str]:
    """Return the tags of a template, which writes them as a list or as a map."""
    if isinstance(value, Mapping):
        return {str(key): str(item) for key, item in cast("Mapping[str, Any]", value).items()}
    listed = cast("list[dict[str, Any]]", value if isinstance(value, list) else [])
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in listed if "Key" in tag}


def _is_function(value: Any) -> bool:
    """Whether a value is an intrinsic function: templates are also converted before they are evaluated."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        return False
    (key,) = cast("dict[str, Any]", value)
    return key.startswith("Fn::") or (key in _FUNCTIONS and isinstance(value[key], str))
