"""Makes values of shapes up, and finds and sets members by their paths."""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from tests.support.read_back import leaves_of

# Strings, in the order in which they are tried against a member's pattern; {} is a number of its own.
_TEXTS = (
    "value-{}", "value{}", "Value{}", "v{}", "{}", "10.{}.0.0/16", "arn:aws:iam::000000000000:role/value-{}",
    "arn:aws:kms:us-east-1:000000000000:key/00000000-0000-0000-0000-{:012}", "00000000-0000-0000-0000-{:012}",
    "arn:aws:sns:us-east-1:000000000000:value-{}", "/value-{}", "value{}@example.com", "s3://value-{}/key",
    "2030-01-01T00:00:00Z", "000000{:06}", "vpc-{:08}", "{{}}", "us-east-1", "true", "1.{}",
)  # fmt: skip
_LEVELS = 5
# A member with more values than this says no kind.
_MOST_KINDS = 8
# A key of a map, and what is below it.
MADE_UP_KEY = re.compile(r"\.[vV]?(?:alue)?-?\d+(?:\..*)?$")
# They answer once, or change nothing that a read shows.
TOKENS = re.compile("token|dryrun|requestid", re.IGNORECASE)


@dataclass(slots=True)
class Maker:
    """Makes values of shapes up."""

    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(11))
    texts: set[str] = field(default_factory=set[str])

    def value(self, shape: Shape, level: int = 0) -> Any:
        """Return a value that the model allows."""
        number, limits = next(self.numbers), shape.metadata
        if isinstance(shape, StructureShape):
            if getattr(shape, "is_tagged_union", False):
                name, member = next(iter(shape.members.items()))
                return {name: self.value(member, level + 1)}
            return {
                name: self.value(member, level + 1)
                for name, member in shape.members.items()
                if name in shape.required_members or level < _LEVELS
            }
        if isinstance(shape, ListShape):
            return [self.value(shape.member, level + 1)]
        if isinstance(shape, MapShape):
            return {str(self.value(shape.key)): self.value(shape.value, level + 1)}
        kind = shape.type_name
        if kind == "string":
            return self._text(shape, number)
        if kind in ("integer", "long", "double", "float"):
            least = limits.get("min", 1)
            return min(int(least) + number, int(limits.get("max", least + number)))
        if kind == "boolean":
            return True
        if kind == "timestamp":
            return datetime(2030, 1, 1, 0, 0, number % 60, tzinfo=UTC)
        return b"bytes-%d" % number

    def _text(self, shape: Any, number: int) -> str:
        if shape.enum:
            return str(shape.enum[-1])
        pattern, least = shape.metadata.get("pattern"), int(shape.metadata.get("min", 0))
        most = int(shape.metadata.get("max", 1 << 20))
        for text in _TEXTS:
            made = text.format(number)
            made += "x" * (least - len(made))
            with contextlib.suppress(re.error):
                if len(made) <= most and (not pattern or re.fullmatch(pattern, made)):
                    if str(number) in made:
                        self.texts.add(made)
                    return made
        self.texts.add(f"value-{number}")
        return f"value-{number}"

    def other(self, shape: Any, value: Any) -> Any:
        """Return another value of a shape; the same when it has only one."""
        if getattr(shape, "enum", None):
            return next((one for one in shape.enum if one != value), value)
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return value - 1 if value > shape.metadata.get("min", 1) else value + 1
        if isinstance(shape, ListShape):
            return [self.other(shape.member, value[0])]
        return self.value(shape)


def missing_paths(shape: Any, params: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of the members that a call leaves out, also in the structures that it gives."""
    for name, member in ({} if shape is None else shape.members).items():
        inner = f"{path}.{name}" if path else name
        if name not in params:
            if not TOKENS.search(name):
                yield inner
        elif isinstance(member, StructureShape) and isinstance(params[name], Mapping):
            yield from missing_paths(member, params[name], inner)


def shape_at(shape: Any, path: str) -> Shape:
    """Return the shape of a member by its path, which goes through lists."""
    for name in path.split("."):
        while isinstance(shape, ListShape):
            shape = shape.member
        shape = shape.members[name]
    return shape


def put(params: dict[str, Any], path: str, value: Any) -> None:
    """Set a member by its path."""
    *outer, last = path.split(".")
    for name in outer:
        params = params.setdefault(name, {})
    params[last] = value


def edit(params: Any, path: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a copy of parameters with a member changed, in each item of lists on its path; None takes it away."""
    if isinstance(params, list):
        return [edit(one, path, change) for one in params]  # type: ignore[return-value]
    name, _, rest = path.partition(".")
    if not isinstance(params, dict) or name not in params:
        return params
    value = edit(params[name], rest, change) if rest else change(params[name])
    kept = {key: one for key, one in params.items() if key != name}
    return kept if value is None else {**kept, name: value}


def surroundings(shape: Any, own: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an example's parameters, whole and with fewer optional members, and with other kinds."""
    optional = [name for name in own if name not in shape.required_members]
    least = {name: value for name, value in own.items() if name not in optional}
    yield own
    yield from ({key: value for key, value in own.items() if key != name} for name in optional)
    for kind, other in _other_kinds(shape, own):
        top = kind.partition(".")[0]
        for params in (own, {**least, top: own[top]}):
            params = copy.deepcopy(params)
            put(params, kind, other)
            yield params


def _other_kinds(shape: Any, own: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of the members that have a few values alone, with each value that the example does not have."""
    for name, value in own.items():
        member, inner = shape.members[name], f"{path}.{name}" if path else name
        if isinstance(member, StructureShape) and isinstance(value, Mapping):
            yield from _other_kinds(member, value, inner)
        choices = getattr(member, "enum", None) or ()
        if len(choices) <= _MOST_KINDS:
            yield from ((inner, one) for one in choices if one != value)


def paths_in(values: Mapping[str, Any]) -> list[str]:
    """Return the paths of all values in members' values, which stand by path."""
    return [
        MADE_UP_KEY.sub("", leaf)
        for path, value in values.items()
        for leaf, _ in leaves_of({path.rpartition(".")[2]: value}, path.rpartition(".")[0])
    ]
