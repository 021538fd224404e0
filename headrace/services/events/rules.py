"""EventBridge's patterns, and SNS's filter policies, in place of moto's.

moto turns a wildcard into a regular expression, which one event can make run for ever, walks a message's nested lists
again for every member of a filter policy, and loses the messages of one with `$or`. Patterns are
`headrace.core.event_patterns`.

Computes the input of a rule's target from an event: a constant, a part, a filled template, or the whole event.

moto fills a template in repeated passes, so that a value which looks like a placeholder grows without end, and inserts
strings bare everywhere.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, cast

from headrace.core.evaluation import Budget, TooMuch
from headrace.core.event_patterns import BadEventPattern, compile_pattern, matches_event
from headrace.deliveries.input_templates import NoValue, compact, fill, first_value

# Quota: the size of an event pattern (the model's own maximum).
MOST_PATTERN_CHARACTERS = 4096


# --- EventBridge ------------------------------------------------------------------------------


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


# --- SNS --------------------------------------------------------------------------------------


def patch_filter_policies(utils: ModuleType) -> None:
    """Replace how `moto.sns.utils` matches a message with a filter policy.

    SNS's policies are patterns on the message's body, or on its attributes (documented:
    https://docs.aws.amazon.com/sns/latest/dg/sns-subscription-filter-policies.html). What is no pattern of
    EventBridge's is left to moto.
    """
    matcher: Any = utils.FilterPolicyMatcher
    matches_by_moto: Any = matcher.matches

    def matches(self: Any, message_attributes: Any, message: str) -> bool:
        if not self.filter_policy:
            return True
        try:
            alternatives = _compile_policy(json.dumps(self.filter_policy))
            if self.filter_policy_scope == "MessageAttributes":
                event: Any = _read_attributes(message_attributes or {})
            else:
                event = json.loads(message)
            return isinstance(event, dict) and matches_event(alternatives, event)
        except BadEventPattern:
            return bool(matches_by_moto(self, message_attributes, message))
        except (ValueError, RecursionError):
            return False  # the body is no JSON, or deeper than any policy looks

    matcher.matches = matches


@functools.lru_cache(maxsize=64)
def _compile_policy(text: str) -> tuple[dict[str, list[Any]], ...]:
    # A policy may have 256 KB: `compile_pattern` would keep a thousand of them.
    return compile_pattern.__wrapped__(text)


def _read_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's attributes by their names: text, numbers and lists; binary ones match nothing."""
    values: dict[str, Any] = {}
    for name, attribute in attributes.items():
        kind, value = str(attribute.get("Type")), attribute.get("Value")
        if kind.startswith(("Number", "String.Array")):
            values[name] = json.loads(str(value))
        elif kind.startswith("String"):
            values[name] = value
    return values


# Quota: an event's size, which also limits a target's input.
MOST_INPUT_BYTES = 256 << 10
_RESERVED = "aws.events."


class InputTooLarge(ValueError):
    """A target's input is larger than an event may be."""


def patch_event_templates(utils: ModuleType) -> None:
    """Replace how `moto.events.utils` fills input templates, which archives use; list targets by their ids."""
    from moto.events.exceptions import ValidationException

    # Targets of one rule may share an ARN; moto's pages of them begin at an ARN.
    utils.PAGINATION_MODEL["list_targets_by_rule"]["unique_attribute"] = "Id"
    parser: Any = utils.EventTemplateParser

    def parse(
        input_template: str, input_paths_map: Mapping[str, Any], event: Mapping[str, Any]
    ) -> Any:
        template = input_template or parser.DEFAULT_EVENT_INPUT_TEMPLATE
        paths = input_paths_map or parser.DEFAULT_EVENT_INPUT_PATHS_MAP
        time = event.get("ingestion-time")
        reserved = {"event.json": event, "event.ingestion-time": time}
        try:
            text = fill_template(template, paths, event, reserved)
        except InputTooLarge as error:
            raise ValidationException(str(error)) from error
        return json.loads(text)

    parser.parse = staticmethod(parse)


def input_of(target: Mapping[str, Any], event: Mapping[str, Any], rule: Any) -> bytes:
    """Return a target's input for an event. Raises InputTooLarge."""
    whole: Any = whole_event(event)
    if "Input" in target:
        return str(target["Input"]).encode()
    if "InputPath" in target:
        return compact(at_path(whole, str(target["InputPath"]))).encode()
    transformer = target.get("InputTransformer")
    if transformer is None:
        return compact(whole).encode()  # recorded: without spaces
    received = _time(event.get("ingestion-time", whole.get("time")))
    reserved = {
        "rule-arn": str(rule.arn),
        "rule-name": str(rule.name),
        "event.json": whole,
        "event": _without_detail(whole, received),
        "event.ingestion-time": received,
    }
    paths = transformer.get("InputPathsMap") or {}
    return fill_template(str(transformer.get("InputTemplate", "")), paths, whole, reserved).encode()


def fill_template(
    template: str, paths: Mapping[str, Any], event: Mapping[str, Any], reserved: Mapping[str, Any]
) -> str:
    """Return a filled template. Raises InputTooLarge.

    Args:
        template: the text.
        paths: the JSON path of each placeholder.
        event: what the paths refer to.
        reserved: EventBridge's own variables, by their names without `aws.events.`.
    """
    is_string = template.lstrip().startswith('"')
    size = len(template)
    # moto's engine is held meanwhile.
    budget = Budget("events", may_wait=False)

    def value_of(name: str) -> Any:
        if name not in paths:
            return reserved[name.removeprefix(_RESERVED)]
        try:
            return first_value(str(paths[name]), event, budget)
        except NoValue:
            return ""  # observed: in JSON, too, an empty string

    def count(length: int) -> None:
        nonlocal size
        size += length
        if size > MOST_INPUT_BYTES:
            raise InputTooLarge(
                f"The input of a target would be larger than {MOST_INPUT_BYTES} bytes"
            )

    try:
        return fill(
            template,
            lambda name: name in paths or name.removeprefix(_RESERVED) in reserved,
            value_of,
            # Observed: a string loses the quotes of objects and lists, as in `{id:x}`; within JSON they stay.
            in_quotes=lambda value: (
                compact(value).replace('"', "") if is_string else compact(value)
            ),
            count=count,
        )
    except TooMuch as error:
        raise InputTooLarge(f"A path of a target's input asks for too much: {error}") from error


def at_path(event: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `$.detail.id`; None when it is missing."""
    part: Any = event
    for name in path.removeprefix("$").strip(".").split("."):
        part = part.get(name) if name and isinstance(part, dict) else part if not name else None
    return part


def whole_event(original: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in EventBridge's form; moto has its time as a number of seconds."""
    event = dict(original)
    event.pop("ingestion-time", None)
    if "time" in event:
        event["time"] = _time(event["time"])
    return event


def _time(value: Any) -> Any:
    if isinstance(value, int | float):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return value


def _without_detail(event: Mapping[str, Any], received: Any) -> dict[str, Any]:
    """Return `<aws.events.event>`: the event without its detail (observed)."""
    members = {name: value for name, value in event.items() if name not in ("detail", "time")}
    kind = members.pop("detail-type", "")
    return {**members, "detailType": kind, "time": received}
