"""AWS's actions and resource types, from `authorization.json` (scripts/service_authorization.py says from where)."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLE = Path(__file__).parents[1] / "authorization.json"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_OF_EVERY_ARN = ("Partition", "Region", "Account")


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A type of resource, and the form of its ARNs: `arn:${Partition}:sqs:${Region}:${Account}:${QueueName}`."""

    name: str
    form: str
    variables: tuple[str, ...]
    pattern: re.Pattern[str]
    literal_length: int

    def fill(self, values: Mapping[str, str], account: str, region: str) -> str:
        """Return the ARN with these values, `*` for those that are missing."""
        known = {"Partition": "aws", "Region": region, "Account": account, **values}
        return _VARIABLE.sub(lambda found: known.get(found[1]) or "*", self.form)


@dataclass(frozen=True, slots=True)
class Action:
    """An action, and the types of resource that it acts on; it needs one of `required` where there are such."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before the colon of actions, and all that belongs to it. `actions` by name in lower case."""

    name: str
    actions: Mapping[str, Action]
    resources: Mapping[str, ResourceType]

    def type_of(self, arn: str) -> str | None:
        """Return the type of resource that an ARN names: the one whose form says most of it."""
        fitting = [kind for kind in self.resources.values() if kind.pattern.fullmatch(arn)]
        return max(fitting, key=lambda kind: kind.literal_length).name if fitting else None


@functools.cache
def prefix_of(service: str) -> Prefix | None:
    """Return what belongs to a service (by botocore's name); None for one that the table does not have."""
    name = _read()["services"].get(service)
    return None if name is None else prefix_named(name)


@functools.cache
def prefix_named(name: str) -> Prefix | None:
    """Return what belongs to the actions that begin with `name`; None where the table has none."""
    found = _read()["prefixes"].get(name)
    if found is None:
        return None
    actions = {
        action.lower(): Action(
            action,
            tuple(kind for kind in kinds if not kind.startswith("?")),
            tuple(kind[1:] for kind in kinds if kind.startswith("?")),
        )
        for action, kinds in found["actions"].items()
    }
    resources = {kind: _resource_type(kind, form) for kind, form in found["resources"].items()}
    return Prefix(name, actions, resources)


def services() -> tuple[str, ...]:
    """Return botocore's names of the services that the table has."""
    return tuple(_read()["services"])


@functools.cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_TABLE.read_text())
    return found


def _resource_type(name: str, form: str) -> ResourceType:
    parts = _VARIABLE.split(form)
    row: list[str] = []
    for place, part in enumerate(parts):
        if place % 2 == 0:
            row.append(re.escape(part))
        elif part in _OF_EVERY_ARN:
            row.append("[^:]*")
        else:
            row.append(".+" if place == len(parts) - 2 else "[^:/]+")
    variables = tuple(found for found in parts[1::2] if found not in _OF_EVERY_ARN)
    length = sum(len(part) for part in parts[::2])
    return ResourceType(name, form, variables, re.compile("".join(row), re.DOTALL), length)
