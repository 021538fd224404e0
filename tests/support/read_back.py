"""Calls made from botocore's model with every member, read back: what does not come back must be explained.

A `Case` is a call. `params_of` gives it every member of the model, each with a value of its own (`given` says better
where a value must mean something, `without` leaves out what cannot go with the rest, and why). After the call its
`reads` are made, and `differences` tells of each member that was given and in no answer, unless the service's table
has it as *ignored*, or the case says in `unseen` what becomes of it.

A member is found when a member of the same name, or of the one that `named` has for it, has the same value anywhere in
the answers. Every explanation must be needed: what is said to be unseen and is seen is told too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.operation import operation_model, operation_name, service_model
from headrace.aws.protocols.service import FidelityTable

# An operation, and its parameters or what makes them of the client once they are known.
Read = tuple[str, Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]]
MAKES = (
    "Create",
    "Put",
    "Register",
    "Start",
    "Update",
    "Modify",
    "Set",
    "Add",
    "Tag",
    "Enable",
    "Publish",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A call that takes members, and the calls that show them.

    Attributes:
        operation: AWS's name of the call.
        reads: operations and their parameters, asked after the call.
        given: values of members by path, such as `Tags` or `Mode.Name`; a function is asked with the client after
            `before`.
        without: members by path that are left out, and why.
        named: what answers call a member, by its path.
        unseen: members by path that no answer shows, and what becomes of them.
        before: calls that make ready.
        title: what tells this case from others of the operation.
    """

    operation: str
    reads: list[Read]
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    without: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    unseen: Mapping[str, str] = field(default_factory=dict[str, str])
    before: list[Read] = field(default_factory=list[Read])
    title: str = ""


def params_of(service: str, case: Case) -> dict[str, Any]:
    """Return parameters with every member of the model, but those left out."""
    shape: Any = operation_model(service, case.operation).input_shape
    known = {*case.given, *case.without}
    unknown = [path for path in known if path not in set(_paths(shape))]
    assert not unknown, f"{case.operation} has no {unknown}"
    return _Maker(case).structure(shape, "")


class _Maker:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._numbers = itertools.count(1)

    def structure(self, shape: StructureShape, path: str, depth: int = 0) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, member in shape.members.items():
            inner = f"{path}.{name}" if path else name
            if inner in self._case.given:
                made[name] = self._case.given[inner]
            elif inner not in self._case.without and depth < 8:
                made[name] = self._value(member, inner, depth + 1)
        return made

    def _value(self, shape: Shape, path: str, depth: int) -> Any:
        number = next(self._numbers)
        if isinstance(shape, StructureShape):
            return self.structure(shape, path, depth)
        if isinstance(shape, ListShape):
            return [self._value(shape.member, path, depth)]
        if isinstance(shape, MapShape):
            return {f"key-{number}": self._value(shape.value, path, depth)}
        kind = shape.type_name
        if kind == "string":
            choices: Any = getattr(shape, "enum", None)
            return choices[-1] if choices else f"value-{number}"
        if kind in ("integer", "long"):
            least = shape.metadata.get("min", 1)
            return min(least + number, shape.metadata.get("max", least + number))
        if kind == "boolean":
            return True
        if kind == "timestamp":
            return datetime(2030, 1, 1, tzinfo=UTC)
        return b"bytes-%d" % number if kind == "blob" else float(number)


def _paths(shape: Shape | None, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the paths of all members; those of a list's items stand below the list's own."""
    if isinstance(shape, ListShape):
        yield from _paths(shape.member, path, depth)
    elif isinstance(shape, StructureShape) and depth < 8:
        for name, member in shape.members.items():
            inner = f"{path}.{name}" if path else name
            yield inner
            yield from _paths(member, inner, depth + 1)


# --- comparing --------------------------------------------------------------------------------


def differences(
    case: Case, params: Mapping[str, Any], answers: list[Any], table: FidelityTable
) -> list[str]:
    """Return each member that was given and is not explained, a line each."""
    seen: list[tuple[str, Any]] = [pair for answer in answers for pair in _pairs(answer)]
    levels = table.get(case.operation, {})
    lines: list[str] = []
    for path, value in leaves_of(params):
        name = case.named.get(path, path.rpartition(".")[2]).lower()
        is_seen = any(name == other and _same(value, shown) for other, shown in seen)
        level = _of_path(levels, path)
        reason = _of_path(case.unseen, path)
        if level == "ignored" and is_seen:
            lines.append(f"{path} is shown: it is not ignored")
        if level == "ignored" and reason is not None:
            lines.append(f"{path} is ignored by the table, and needs no reason")
        if reason is not None and is_seen:
            lines.append(f"{path} is seen, though said to be unseen")
        if level != "ignored" and reason is None and not is_seen:
            lines.append(f"{path} = {value!r} is {level or 'enforced'}, and not seen")
    return lines


def _of_path(table: Mapping[str, Any], path: str) -> Any:
    """Return what a table says of a path, or of what it is part of."""
    while path:
        if path in table:
            return table[path]
        path = path.rpartition(".")[0]
    return None


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield paths and values; lists of structures are gone into, and tags are one value."""
    if isinstance(value, dict) and path.rpartition(".")[2] not in _WHOLE:
        for name, member in value.items():
            yield from leaves_of(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and not _is_tags(value):
        for item in value:
            yield from leaves_of(item, path)
    else:
        yield path, value


_WHOLE = frozenset({"Tags", "tags"})


def _pairs(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if name:
        yield name.lower(), value
    if isinstance(value, dict):
        for inner, member in value.items():
            yield from _pairs(member, str(inner))
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(item, name)


def _is_tags(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and set(item) == {"Key", "Value"} for item in value
    )


def _same(given: Any, shown: Any) -> bool:
    return _plain(given) == _plain(shown)


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and _is_tags(value):
        return {item["Key"]: item["Value"] for item in value}
    if isinstance(value, list):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, datetime):
        return value.timestamp()
    return value


# --- running ----------------------------------------------------------------------------------


def check(
    service: str,
    case: Case,
    client: Any,
    table: FidelityTable,
    settle: Callable[[], None] = lambda: None,
) -> list[str]:
    """Make a case's calls and return what is not explained. `settle` waits until a change has come about."""
    for operation, params in case.before:
        _call(client, operation, params)
        settle()
    given = {path: one(client) if callable(one) else one for path, one in case.given.items()}
    params = params_of(service, replace(case, given=given))
    answers: list[Any] = [_call(client, case.operation, params)]
    settle()
    answers += [_call(client, operation, asked) for operation, asked in case.reads]
    return differences(case, params, answers, table)


def _call(client: Any, operation: str, asked: Any) -> Any:
    params: Any = asked(client) if callable(asked) else asked
    method = next(m for m, name in client.meta.method_to_api_mapping.items() if name == operation)
    answer = getattr(client, method)(**params)
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def not_read_back(service: str, actions: Any, cases: list[Case]) -> list[str]:
    """Return the operations of the service that take something to keep and have no case."""
    built = sorted(map(operation_name, actions))
    have = {case.operation for case in cases}
    assert have <= set(service_model(service).operation_names)
    return [name for name in built if name.startswith(MAKES) and name not in have]


def never_given(service: str, cases: list[Case]) -> list[str]:
    """Return the top members of the cases' operations that every case of the operation leaves out."""
    lines: list[str] = []
    for operation in sorted({case.operation for case in cases}):
        shape: Any = operation_model(service, operation).input_shape
        of_operation = [case for case in cases if case.operation == operation]
        lines += [
            f"{operation}.{name}"
            for name in shape.members
            if all(name in case.without for case in of_operation)
        ]
    return lines


def overlooked(service: str, cases: list[Case]) -> list[str]:
    """Return the members inside others that no case of their operation gives, nor leaves out for a reason.

    Of a member whose value is asked of the client, everything counts as given.
    """
    lines: list[str] = []
    for operation in sorted({case.operation for case in cases}):
        shape: Any = operation_model(service, operation).input_shape
        of_operation = [case for case in cases if case.operation == operation]
        known = [
            *(path for case in of_operation for path in case.without),
            *(path for case in of_operation for path, one in case.given.items() if callable(one)),
        ]
        given = {
            path
            for case in of_operation
            for path in _given(
                params_of(
                    service,
                    replace(
                        case,
                        given={p: {} if callable(one) else one for p, one in case.given.items()},
                    ),
                )
            )
        }
        left = [
            path
            for path in _paths(shape)
            if path.rpartition(".")[0] in given
            and path not in given
            # A structure inside itself is the same again.
            and path.rpartition(".")[2] != path.rpartition(".")[0].rpartition(".")[2]
            and not any(path == one or path.startswith(f"{one}.") for one in known)
        ]
        lines += [f"{operation}.{path}" for path in left]
    return lines


def _given(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of everything in parameters."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _given(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from _given(item, path)
