"""Values for resources' properties, made from AWS's schemas as cfn-lint brings them."""

from __future__ import annotations

from typing import Any

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from tests.support.cloud import REGION

_DEEPEST = 6


class Values:
    """Makes values for the properties of one type of resource."""

    def __init__(self, kind: str) -> None:
        found: Any = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind)
        self._schema: dict[str, Any] = found.schema
        read_only = self._schema.get("readOnlyProperties") or []
        self._read_only = {pointer.removeprefix("/properties/") for pointer in read_only}

    @property
    def names(self) -> list[str]:
        """The properties that a template may give."""
        return sorted(set(self._schema["properties"]) - self._read_only)

    def of(self, name: str) -> Any:
        """Return a value for a property; None where none can be made."""
        return self._of(self._schema["properties"][name], 0)

    def _of(self, node: dict[str, Any], depth: int) -> Any:
        node = self._resolved(node)
        if depth > _DEEPEST:
            return None
        if "const" in node:
            return node["const"]
        if node.get("enum"):
            return node["enum"][-1]
        kind = node.get("type")
        if isinstance(kind, list):
            kind = kind[0]
        match kind or ("object" if node.get("properties") else ""):
            case "string":
                return ("x" * max(1, node.get("minLength", 1)))[:200]
            case "integer" | "number":
                least = node.get("minimum", node.get("exclusiveMinimum", 0) + 1)
                return least if isinstance(least, int | float) else 1
            case "boolean":
                return True
            case "array":
                inner = self._of(node["items"], depth + 1) if "items" in node else "x"
                return None if inner is None else [inner]
            case "object":
                return self._object(node, depth)
            case _:
                return None

    def _object(self, node: dict[str, Any], depth: int) -> Any:
        properties: dict[str, Any] = node.get("properties") or {}
        if not properties:
            return {"k": "v"}
        names = node.get("required") or [next(iter(properties))]
        made = {name: self._of(properties[name], depth + 1) for name in names if name in properties}
        return None if None in made.values() else made

    def _resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        for _ in range(_DEEPEST):
            if "$ref" not in node:
                break
            target: Any = self._schema
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target.get(part, {})
            node = target
        for choice in ("oneOf", "anyOf"):
            if choice in node and "type" not in node and "properties" not in node:
                return self._resolved(node[choice][0])
        return node


def varied(value: Any) -> Any:
    """Return another value of the same form; None where none is surely of the same form."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str) and value.isdigit():
        return str(int(value) + 1)
    if isinstance(value, str) and value[:1] not in ("", "{", "[") and not value.startswith("arn:"):
        return value + "2" if value[-1].isalnum() else None
    return None
