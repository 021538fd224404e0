"""AWS's actions and resource types, from `authorization.json` (scripts/service_authorization.py names its source)."""

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
    """A type of resource, and the template of its ARNs: `arn:${Partition}:sqs:${Region}:${Account}:${QueueName}`."""

    name: str
    form: str
    variables: tuple[str, ...]
    pattern: re.Pattern[str]
    literal_length: int

    def fill(self, values: Mapping[str, str], account: str, region: str) -> str:
        """Return the ARN with these values, and `*` for missing ones."""
        known = {"Partition": "aws", "Region": region, "Account": account, **values}
        return _VARIABLE.sub(lambda found: known.get(found[1]) or "*", self.form)


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its resource types; it needs a resource of one of `required`, if there are any."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A service prefix (before the colon of actions), with its actions, by name in lower case, and resource types."""

    name: str
    actions: Mapping[str, Action]
    resources: Mapping[str, ResourceType]

    def type_of(self, arn: str) -> str | None:
        """Return the resource type of an ARN: the one with the most specific matching template."""
        fitting = [kind for kind in self.resources.values() if kind.pattern.fullmatch(arn)]
        return max(fitting, key=lambda kind: kind.literal_length).name if fitting else None


@functools.cache
def prefix_of(service: str) -> Prefix | None:
    """Return the prefix of a service (by botocore's name); None when the table does not have the service."""
    name = _read()["services"].get(service)
    return None if name is None else prefix_named(name)


@functools.cache
def prefix_named(name: str) -> Prefix | None:
    """Return the prefix `name` of actions; None when the table does not have it."""
    prefix = _read()["prefixes"].get(name)
    if prefix is None:
        return None
    actions = {
        action.lower(): Action(
            action,
            tuple(kind for kind in kinds if not kind.startswith("?")),
            tuple(kind[1:] for kind in kinds if kind.startswith("?")),
        )
        for action, kinds in prefix["actions"].items()
    }
    resources = {kind: _resource_type(kind, form) for kind, form in prefix["resources"].items()}
    return Prefix(name, actions, resources)


def services() -> tuple[str, ...]:
    """Return botocore's names of the services in the table."""
    return tuple(_read()["services"])


@functools.cache
def _read() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_text())
    return table


def _resource_type(name: str, form: str) -> ResourceType:
    parts = _VARIABLE.split(form)
    row: list[str] = []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            row.append(re.escape(part))
        elif part in _OF_EVERY_ARN:
            row.append("[^:]*")
        else:
            row.append(".+" if index == len(parts) - 2 else "[^:/]+")
    variables = tuple(variable for variable in parts[1::2] if variable not in _OF_EVERY_ARN)
    length = sum(len(part) for part in parts[::2])
    return ResourceType(name, form, variables, re.compile("".join(row), re.DOTALL), length)
