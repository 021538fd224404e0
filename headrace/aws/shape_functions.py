"""Turns a shape of botocore's model into one function that converts a value of that shape, member by member.

What is converted, and how scalars are, is the codec's: see `headrace.aws.codec_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.errors import serialization_error

Convert = Callable[[Any], Any]

# AWS's sentences of a SerializationException.
LIST_NOT_EXPECTED = "Start of list found where not expected"
MAP_NOT_EXPECTED = "Start of structure or map found where not expected."


class ShapeCompiler:
    """Turns a shape into one function, recursive shapes included; `leaf` gives those of scalars."""

    def __init__(self, leaf: Callable[[Shape], Convert]) -> None:
        self._leaf = leaf
        self._structures: dict[str, Convert] = {}

    def compile(self, shape: Shape) -> Convert:
        """Return the function of a shape; it raises AwsError for a value of another kind."""
        if isinstance(shape, StructureShape):
            # A document is whatever the client says.
            return _as_it_is if shape.is_document_type else self._structure(shape)
        if isinstance(shape, ListShape):
            return self._list(shape)
        if isinstance(shape, MapShape):
            return self._map(shape)
        return self._leaf(shape)

    def _structure(self, shape: StructureShape) -> Convert:
        known = self._structures.get(shape.name)
        if known is not None:
            return known
        members: dict[str, Convert] = {}

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise serialization_error(
                    LIST_NOT_EXPECTED if isinstance(value, list) else "Expected null"
                )
            given = cast("Mapping[str, Any]", value)
            return {
                name: function(item)
                for name, item in given.items()
                if item is not None and (function := members.get(name)) is not None
            }

        # Registered before its members are compiled, so that a recursive shape finds itself.
        self._structures[shape.name] = convert
        for name, member in shape.members.items():
            members[name] = self.compile(member)
        return convert

    def _list(self, shape: ListShape) -> Convert:
        item = self.compile(shape.member)

        def convert(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                if isinstance(value, dict):
                    raise serialization_error(MAP_NOT_EXPECTED)
                raise serialization_error("Expected list or null")
            return [item(element) for element in cast("list[Any]", value)]

        return convert

    def _map(self, shape: MapShape) -> Convert:
        item = self.compile(shape.value)

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                if isinstance(value, list):
                    raise serialization_error(LIST_NOT_EXPECTED)
                raise serialization_error("Expected map or null")
            given = cast("Mapping[str, Any]", value)
            return {key: item(element) for key, element in given.items()}

        return convert


def _as_it_is(value: Any) -> Any:
    return value
