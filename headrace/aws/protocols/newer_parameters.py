"""Finds parameters that the installed botocore has but this headrace does not know: they have no effect.

headrace takes any botocore in a range, and AWS adds parameters every week. The shapes in `headrace.aws.shapes` were
generated from the botocore that headrace was written with; what the installed one has beyond them is reported as
ignored by `/_headrace/fidelity`, and refused by `--strict`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from botocore.model import ListShape, MapShape, Shape, StructureShape

from headrace.aws.calls.operation import operation_model
from headrace.aws.protocols.service import FidelityTable
from headrace.aws.shapes import MODULES, read_members
from headrace.core.ports import FidelityLevel


def with_newer(service: str, operations: Iterable[str], table: FidelityTable) -> FidelityTable:
    """Return a service's table of parameters with those that only the installed botocore has, as ignored."""
    fidelity_levels: dict[str, Mapping[str, FidelityLevel]] = dict(table)
    for operation in operations:
        newer: dict[str, FidelityLevel] = dict.fromkeys(
            newer_parameters(service, operation), "ignored"
        )
        if newer:
            fidelity_levels[operation] = {**newer, **table.get(operation, {})}
    return fidelity_levels


@functools.cache
def newer_parameters(service: str, operation: str) -> tuple[str, ...]:
    """Return the paths of an operation's parameters that its generated shapes do not have; lists as `Tags[]`."""
    shape = operation_model(service, operation).input_shape
    if service not in MODULES or not isinstance(shape, StructureShape):
        return ()
    written = read_members(MODULES[service])
    return tuple(_newer(shape, f"{operation}Input", written, "", ()))


def _newer(
    shape: StructureShape,
    name: str,
    written: Mapping[str, frozenset[str]],
    path: str,
    above: tuple[str, ...],
) -> Iterator[str]:
    """Yield the members, at any depth, that a structure has beyond its generated shape."""
    own = written.get(name, written.get(shape.name))
    if own is None or shape.name in above:
        return
    for member, value in shape.members.items():
        here = f"{path}{member}"
        if member not in own:
            yield here
            continue
        inner, suffix = _inside(value)
        if isinstance(inner, StructureShape):
            yield from _newer(inner, inner.name, written, f"{here}{suffix}.", (*above, shape.name))


def _inside(shape: Shape) -> tuple[Shape, str]:
    """Return what lists hold, and how a path says that it is theirs; what maps hold is not followed."""
    suffix = ""
    while isinstance(shape, ListShape):
        shape, suffix = shape.member, "[]"
    return (shape, suffix) if not isinstance(shape, MapShape) else (shape.key, "")
