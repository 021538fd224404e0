"""Refuses EventBridge's requests as AWS does: names, targets, entries, archives, replays, tags (sentences recorded).

Each check runs before a method of moto's responses, which then handles the valid requests. Patterns and prefixes of
clients match in bounded time: moto turns a wildcard into a regular expression, which one event can make run for ever.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event
from headrace.moto.patching import check_first

_NAME = r"[\.\-_A-Za-z0-9]+"
_LONGEST_NAME = 64
_CONNECTION = r"^arn:aws([a-z]|\-)*:events:([a-z]|\d|\-)*:([0-9]{12})?:connection\/[\.\-_A-Za-z0-9]+\/[\-A-Za-z0-9]+$"
_AUTHORIZATIONS = ("BASIC", "OAUTH_CLIENT_CREDENTIALS", "API_KEY")
_METHODS = ("HEAD", "POST", "PATCH", "DELETE", "PUT", "GET", "OPTIONS")
_MOST_TARGETS = 5
_PLACEHOLDER = re.compile(r"<([\w.-]+)>", re.ASCII)
_RESERVED = "aws.events."
_INPUTS = ("Input", "InputPath", "InputTransformer")


def patch(handler: Any) -> None:
    """Add the checks before moto's methods; called once."""
    for name, check in _CHECKS.items():
        setattr(handler, name, check_first(check, getattr(handler, name)))
    handler.describe_connection = _with_prefix(
        "Failed to describe the connection(s). ", handler.describe_connection
    )
    handler.describe_api_destination = _with_prefix(
        "Failed to describe the api-destination(s). ", handler.describe_api_destination
    )


def _with_prefix(prefix: str, method: Any) -> Any:
    @functools.wraps(method)
    def describe(self: Any) -> Any:
        from moto.events.exceptions import ResourceNotFoundException

        try:
            return method(self)
        except ResourceNotFoundException as error:
            raise ResourceNotFoundException(f"{prefix}{error.message}") from error

    return describe


def _invalid(message: str) -> Exception:
    from moto.events.exceptions import ValidationException

    return ValidationException(message)


def _not_found(message: str) -> Exception:
    from moto.events.exceptions import ResourceNotFoundException

    return ResourceNotFoundException(message)


def _refuse_members(problems: Iterator[str]) -> None:
    """Raise one error for all constraints that members do not satisfy."""
    reasons = list(problems)
    if reasons:
        noun = "errors" if len(reasons) > 1 else "error"
        raise _invalid(f"{len(reasons)} validation {noun} detected: {'; '.join(reasons)}")


def _of_name(value: Any, path: str) -> Iterator[str]:
    failed = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must"
    if not re.fullmatch(_NAME, str(value)):
        yield f"{failed} satisfy regular expression pattern: {_NAME}"
    if len(str(value)) > _LONGEST_NAME:
        yield f"{failed} have length less than or equal to {_LONGEST_NAME}"


def _of_enum(value: Any, path: str, values: tuple[str, ...]) -> Iterator[str]:
    if value not in values:
        yield (
            f"Value '{value}' at '{path}' failed to satisfy constraint: Member must satisfy enum value set:"
            f" [{', '.join(values)}]"
        )


def _check_connection(response: Any) -> None:
    def problems() -> Iterator[str]:
        yield from _of_name(response._get_param("Name"), "name")
        kind = response._get_param("AuthorizationType")
        yield from _of_enum(kind, "authorizationType", _AUTHORIZATIONS)

    _refuse_members(problems())


def _check_destination(response: Any) -> None:
    def problems() -> Iterator[str]:
        yield from _of_name(response._get_param("Name"), "name")
        arn = response._get_param("ConnectionArn")
        if not re.fullmatch(_CONNECTION, str(arn)):
            yield (
                f"Value '{arn}' at 'connectionArn' failed to satisfy constraint: Member must satisfy regular expression"
                f" pattern: {_CONNECTION}"
            )
        yield from _of_enum(response._get_param("HttpMethod"), "httpMethod", _METHODS)

    _refuse_members(problems())


def _check_rule(response: Any) -> None:
    bus = str(response._get_param("EventBusName") or "default").rpartition("/")[2]
    name = response._get_param("Name")
    there = response.events_backend.event_buses.get(bus)
    if there is not None and name not in there.rules:
        raise _not_found(f"Rule {name} does not exist on EventBus {bus}.")


def _check_targets(response: Any) -> None:
    targets: list[Mapping[str, Any]] = response._get_param("Targets") or []

    def problems() -> Iterator[str]:
        for number, target in enumerate(targets, 1):
            yield from _of_name(target.get("Id"), f"targets.{number}.member.id")

    _refuse_members(problems())
    for target in targets:
        _check_region(str(target.get("Arn") or ""), str(response.region))
        _check_input(target)
    bus = str(response._get_param("EventBusName") or "default").rpartition("/")[2]
    there = response.events_backend.event_buses.get(bus)
    rule = there.rules.get(response._get_param("Rule")) if there is not None else None
    present = {target["Id"] for target in rule.targets} if rule is not None else set[str]()
    if len(present | {str(target.get("Id")) for target in targets}) > _MOST_TARGETS:
        from moto.core.exceptions import JsonRESTError

        raise JsonRESTError(
            "LimitExceededException", "The requested resource exceeds the maximum number allowed."
        )


def _check_region(arn: str, region: str) -> None:
    """Refuse a target of another Region, unless it is a bus.

    The sentence is observed: github.com/aws-samples/amazon-eventbridge-resource-policy-samples/issues/10.
    """
    parts = arn.split(":", 5)
    if len(parts) == 6 and parts[2] != "events" and parts[3] not in ("", region):
        raise _invalid("Cross-region API call is not allowed.")


def _check_input(target: Mapping[str, Any]) -> None:
    if sum(target.get(name) is not None for name in _INPUTS) > 1:
        raise _invalid(
            f"Only one of Input, InputPath, or InputTransformer must be provided for target {target['Id']}."
        )
    transformer: Mapping[str, Any] = target.get("InputTransformer") or {}
    known = transformer.get("InputPathsMap") or {}
    for name in _PLACEHOLDER.findall(str(transformer.get("InputTemplate") or "")):
        if name not in known and not name.startswith(_RESERVED):
            raise _invalid(
                f"InputTemplate for target {target['Id']} contains invalid placeholder {name}."
            )


def _check_archives(response: Any) -> None:
    arn = response._get_param("EventSourceArn")
    if arn:
        _check_bus(response, str(arn))


def _check_bus(response: Any, arn: str) -> None:
    bus = arn.rpartition("/")[2]
    if bus not in response.events_backend.event_buses:
        raise _not_found(f"Event bus {bus} does not exist.")


def _check_archive_change(response: Any) -> None:
    names = ("EventPattern", "RetentionDays", "Description")
    if all(response._get_param(name) is None for name in names):
        raise _invalid(
            "At least one of EventPattern, RetentionDays or Description must be provided."
        )


def _check_replay(response: Any) -> None:
    if response._get_param("EventStartTime") >= response._get_param("EventEndTime"):
        raise _invalid(
            "Parameter EventEndTime is not valid. Reason: EventStartTime must be before EventEndTime."
        )


def _check_cancelling(response: Any) -> None:
    """Refuse to cancel a replay that is over, which moto takes because its replays end at once (documented)."""
    from moto.events.exceptions import IllegalStatusException

    name = response._get_param("ReplayName")
    if response.events_backend.describe_replay(name)["State"] not in ("STARTING", "RUNNING"):
        raise IllegalStatusException(f"Replay {name} is not in a valid state for this operation.")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "create_connection": _check_connection,
    "create_api_destination": _check_destination,
    "describe_rule": _check_rule,
    "put_targets": _check_targets,
    "list_archives": _check_archives,
    "update_archive": _check_archive_change,
    "start_replay": _check_replay,
    "cancel_replay": _check_cancelling,
}


# Quota: the size of an event pattern (the model's own maximum).
MOST_PATTERN_CHARACTERS = 4096


def patch_events(models: ModuleType) -> None:
    """Replace how `moto.events.models` parses patterns and matches events."""
    refused: Any = models.InvalidEventPatternException

    def parse(self: Any) -> dict[str, Any]:
        if not self.pattern:
            return {}
        try:
            check_pattern(self.pattern)
        except BadEventPattern as error:
            raise refused(reason=str(error)) from error
        return cast("dict[str, Any]", json.loads(self.pattern))

    def matches(self: Any, event: Any) -> bool:
        pattern = self.get_pattern()
        text = self.dump()
        if not pattern:
            return True
        return matches_event(
            compile_pattern(text if isinstance(text, str) else json.dumps(pattern)), event
        )

    models.EventPatternParser.parse = parse
    models.EventPattern.matches_event = matches


def check_pattern(text: str) -> None:
    """Raise BadEventPattern unless a text is a pattern of at most AWS's size."""
    if len(text) > MOST_PATTERN_CHARACTERS:
        raise BadEventPattern(f"Filter is longer than {MOST_PATTERN_CHARACTERS} characters")
    compile_pattern(text)


def match_in_time(models: ModuleType) -> None:
    """Match events in bounded time, and list rules by a literal prefix."""
    patch_events(models)
    backend: Any = models.EventsBackend
    list_rules: Any = backend.list_rules

    @functools.wraps(list_rules)
    def list_rules_by_literal(
        self: Any, prefix: str | None = None, *args: Any, **named: Any
    ) -> Any:
        return list_rules(self, prefix and re.escape(prefix), *args, **named)

    backend.list_rules = list_rules_by_literal
