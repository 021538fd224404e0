"""`AWS::LanguageExtensions`: unrolls Fn::ForEach, and resolves functions with known arguments.

Fn::Length, Fn::ToJsonString and default values of Fn::FindInMap are evaluated like other functions (`functions.py`);
those with known arguments are replaced by their results here. Functions in deletion policies are resolved too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from headrace.services.cloudformation.errors import TransformFailed
from headrace.services.cloudformation.template.functions import Allowance

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
        self._allowance = Allowance()

    def value(self, value: Any) -> Any:
        """Return a value with every loop in it unrolled. Raises TemplateError."""
        if isinstance(value, list):
            return [self.value(item) for item in cast("list[Any]", value)]
        if not isinstance(value, Mapping):
            return value
        members: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            expanded = self._loop(key, item) if key.startswith(_LOOP) else {key: self.value(item)}
            twice = members.keys() & expanded.keys()
            if twice:
                raise _build_failure(f"Fn::ForEach makes the key {min(twice)} twice")
            members.update(expanded)
        return members

    def _loop(self, key: str, argument: Any) -> dict[str, Any]:
        parts = cast("list[Any]", argument if isinstance(argument, list) else [])
        if len(parts) != 3 or not isinstance(parts[0], str) or not isinstance(parts[2], Mapping):
            raise _build_failure(f"{key} layout is incorrect")
        name, body = parts[0], cast("Mapping[str, Any]", parts[2])
        members: dict[str, Any] = {}
        for item in self._collection(key, parts[1]):
            self._copies += 1
            if self._copies > _MOST_COPIES:
                raise _build_failure(f"Fn::ForEach makes more than {_MOST_COPIES} copies")
            members.update(self.value(self._put_in(body, name, item)))
        return members

    def _put_in(self, value: Any, name: str, item: str) -> Any:
        """Return a loop's body for one item, which replaces `${Name}`, `&{Name}` and Ref. Raises TemplateError."""
        if isinstance(value, str):
            plain, stripped = f"${{{name}}}", f"&{{{name}}}"
            self._allowance.take(len(value) + value.count(plain) * len(item))
            text = value.replace(plain, item)
            self._allowance.take(text.count(stripped) * len(item))
            return text.replace(stripped, re.sub(r"[^A-Za-z0-9]", "", item))
        self._allowance.take(1)
        if isinstance(value, list):
            return [self._put_in(member, name, item) for member in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            mapping = cast("Mapping[str, Any]", value)
            if len(mapping) == 1 and mapping.get("Ref") == name:
                self._allowance.take(len(item))
                return item
            return {
                self._put_in(key, name, item): self._put_in(member, name, item)
                for key, member in mapping.items()
            }
        return value

    def _collection(self, key: str, collection: Any) -> list[str]:
        resolved = self._resolve(collection)
        if isinstance(resolved, str):
            return [part.strip() for part in resolved.split(",")]
        if isinstance(resolved, list):
            items: list[str] = []
            for item in cast("list[Any]", resolved):
                value = self._resolve(item)
                if isinstance(value, list):
                    items += map(str, cast("list[Any]", value))
                elif isinstance(value, str | int):
                    items.append(str(value))
                else:
                    raise _build_failure(f"{key} could not be resolved")
            return items
        raise _build_failure(f"{key} could not be resolved")

    def _resolve(self, value: Any) -> Any:
        """Return a Ref to a parameter, or a look-up in a mapping, resolved; other values unchanged."""
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
            resolved: Any = self._mappings
            for name in map(self._resolve, cast("list[Any]", argument)[:3]):
                resolved = (
                    cast("Mapping[str, Any]", resolved).get(name)
                    if isinstance(resolved, Mapping)
                    else None
                )
            return resolved
        return mapping

    def policies(self, resources: Any) -> None:
        """Resolve references to parameters in deletion policies, where AWS otherwise takes only text."""
        definitions = cast("dict[str, Any]", resources if isinstance(resources, dict) else {})
        for definition in definitions.values():
            resource = cast("dict[str, Any]", definition if isinstance(definition, dict) else {})
            for name in ("DeletionPolicy", "UpdateReplacePolicy"):
                if isinstance(resource.get(name), dict):
                    resource[name] = self._resolve(resource[name])


class _Settling:
    """Replaces functions with known results, as in AWS's processed template (recorded)."""

    def __init__(self, document: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        declared: Mapping[str, Any] = document.get("Parameters") or {}
        self._allowance = Allowance()
        self._lists = {
            name: parameters[name].split(",")
            for name, parameter in declared.items()
            if parameter.get("Type") == "CommaDelimitedList" and name in parameters
        }

    def value(self, value: Any) -> Any:
        """Return a value in which functions with known results are replaced."""
        if isinstance(value, list):
            return [self.value(item) for item in cast("list[Any]", value)]
        if not isinstance(value, Mapping):
            return value
        members = {k: self.value(member) for k, member in cast("Mapping[str, Any]", value).items()}
        if len(members) != 1:
            return members
        ((name, argument),) = members.items()
        known = self._result(name, argument)
        return members if known is None else known

    def _result(self, name: str, argument: Any) -> str | int | None:
        """Return the result of a function, or None when it is not known yet."""
        match name, argument:
            case "Fn::Length", {"Ref": str(parameter)} if parameter in self._lists:
                return len(self._lists[parameter])
            case "Fn::Length", [*items]:
                return len(items)
            case "Fn::ToJsonString", dict() | list() if not _has_functions(argument):
                # The text of it is at most six times as long.
                self._allowance.take_value(argument)
                return json.dumps(argument, separators=(",", ":"))
            case "Fn::Join", [str(delimiter), [*items]] if all(isinstance(i, str) for i in items):
                self._allowance.take_value(items)
                self._allowance.take(len(delimiter) * len(items))
                return delimiter.join(items)
            case "Fn::Sub", str(text) if "${" not in text:
                return text
            case _:
                return None


def _has_functions(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_functions, cast("list[Any]", value)))
    if not isinstance(value, Mapping):
        return False
    mapping = cast("Mapping[str, Any]", value)
    return any(key == "Ref" or key.startswith("Fn::") for key in mapping) or any(
        map(_has_functions, mapping.values())
    )


def _build_failure(why: str) -> TransformFailed:
    return TransformFailed(f"Transform {NAME} failed with: {why}")


def expand(document: dict[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return a template whose loops are unrolled. Raises TemplateError."""
    unrolling = _Unrolling(document, parameters)
    expanded: dict[str, Any] = unrolling.value(document)
    unrolling.policies(expanded.get("Resources"))
    settling = _Settling(document, parameters)
    for section in ("Resources", "Outputs"):
        if section in expanded:
            expanded[section] = settling.value(expanded[section])
    return expanded
