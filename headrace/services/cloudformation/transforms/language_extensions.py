"""`AWS::LanguageExtensions`: Fn::ForEach is unrolled, and deletion policies may be parameters.

Fn::Length, Fn::ToJsonString and default values of Fn::FindInMap are functions like others (`functions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from headrace.services.cloudformation.errors import TemplateError

NAME = "AWS::LanguageExtensions"
_LOOP = "Fn::ForEach::"
_MOST_COPIES = 5000


class _Unrolling:
    """The loops of one template."""

    def __init__(self, document: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self._mappings: Mapping[str, Any] = document.get("Mappings") or {}
        self._declared: Mapping[str, Any] = document.get("Parameters") or {}
        self._parameters = parameters
        self._copies = 0

    def value(self, value: Any) -> Any:
        """Return a value with every loop in it unrolled. Raises TemplateError."""
        if isinstance(value, list):
            return [self.value(item) for item in cast("list[Any]", value)]
        if not isinstance(value, Mapping):
            return value
        found: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            made = self._loop(key, item) if key.startswith(_LOOP) else {key: self.value(item)}
            twice = found.keys() & made.keys()
            if twice:
                raise _failed(f"Fn::ForEach makes the key {min(twice)} twice")
            found.update(made)
        return found

    def _loop(self, key: str, argument: Any) -> dict[str, Any]:
        parts = cast("list[Any]", argument if isinstance(argument, list) else [])
        if len(parts) != 3 or not isinstance(parts[0], str) or not isinstance(parts[2], Mapping):
            raise _failed(f"{key} layout is incorrect")
        name, body = parts[0], cast("Mapping[str, Any]", parts[2])
        made: dict[str, Any] = {}
        for item in self._collection(key, parts[1]):
            self._copies += 1
            if self._copies > _MOST_COPIES:
                raise _failed(f"Fn::ForEach makes more than {_MOST_COPIES} copies")
            made.update(self.value(_put_in(body, name, item)))
        return made

    def _collection(self, key: str, given: Any) -> list[str]:
        resolved = self._resolved(given)
        if isinstance(resolved, str):
            return [part.strip() for part in resolved.split(",")]
        if isinstance(resolved, list):
            items: list[str] = []
            for each in cast("list[Any]", resolved):
                value = self._resolved(each)
                if isinstance(value, list):
                    items += map(str, cast("list[Any]", value))
                elif isinstance(value, str | int):
                    items.append(str(value))
                else:
                    raise _failed(f"{key} could not be resolved")
            return items
        raise _failed(f"{key} could not be resolved")

    def _resolved(self, value: Any) -> Any:
        """Return a value whose Ref to a parameter, or look-up in a mapping, is resolved; others as they are."""
        if not isinstance(value, Mapping):
            return value
        mapping = cast("Mapping[str, Any]", value)
        if len(mapping) != 1:
            return mapping
        ((function, argument),) = mapping.items()
        if function == "Ref" and argument in self._parameters:
            text = self._parameters[argument]
            declared: Mapping[str, Any] = self._declared.get(argument) or {}
            kind = str(declared.get("Type", ""))
            return text.split(",") if "List" in kind else text
        if function == "Fn::FindInMap" and isinstance(argument, list):
            found: Any = self._mappings
            for name in map(self._resolved, cast("list[Any]", argument)[:3]):
                found = (
                    cast("Mapping[str, Any]", found).get(name)
                    if isinstance(found, Mapping)
                    else None
                )
            return found
        return mapping

    def policies(self, resources: Any) -> None:
        """Put the values of parameters in the place of references where AWS takes only text otherwise."""
        found = cast("dict[str, Any]", resources if isinstance(resources, dict) else {})
        for each in found.values():
            resource = cast("dict[str, Any]", each if isinstance(each, dict) else {})
            for name in ("DeletionPolicy", "UpdateReplacePolicy"):
                if isinstance(resource.get(name), dict):
                    resource[name] = self._resolved(resource[name])


def _put_in(value: Any, name: str, item: str) -> Any:
    """Return a loop's body for one item: `${Name}`, `&{Name}` and Ref become it."""
    if isinstance(value, str):
        text = value.replace(f"${{{name}}}", item)
        return text.replace(f"&{{{name}}}", re.sub(r"[^A-Za-z0-9]", "", item))
    if isinstance(value, list):
        return [_put_in(each, name, item) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        if len(mapping) == 1 and mapping.get("Ref") == name:
            return item
        return {
            _put_in(key, name, item): _put_in(each, name, item) for key, each in mapping.items()
        }
    return value


def _failed(why: str) -> TemplateError:
    return TemplateError(f"Transform {NAME} failed with: {why}")


def expand(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a template whose loops are unrolled. Raises TemplateError."""
    unrolling = _Unrolling(document, parameters)
    found: dict[str, Any] = unrolling.value(document)
    unrolling.policies(found.get("Resources"))
    return found
