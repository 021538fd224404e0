"""What moto's SNS and EventBridge hand to Lambda functions, which are not moto's but headrace's.

moto is global in a process, so its two methods are replaced once; they deliver to the cloud that loaded last.
Nothing is delivered while the journal is replayed: those events were delivered when they were new.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportMissingParameterType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from headrace.core.clock import Clock


class FunctionTarget(Protocol):
    """Invokes a function asynchronously for a service that acts for one of its resources; never raises."""

    def __call__(self, function_arn: str, payload: bytes, *, service: str, source_arn: str) -> None:
        """Queue an invocation, if the function is there and its policy lets the service."""
        ...


class _Where:
    """To whom deliveries go at present."""

    deliver: FunctionTarget | None = None
    clock: Clock | None = None


def deliver_to(deliver: FunctionTarget, clock: Clock) -> None:
    """Have functions that are subscribed or targeted invoked through `deliver` from now on."""
    _replace()
    _Where.deliver, _Where.clock = deliver, clock


def deliver_nowhere() -> None:
    """Deliver nothing until `deliver_to` is called again."""
    _Where.deliver = None


@functools.cache
def _replace() -> None:
    from moto.events.models import Rule
    from moto.sns.models import Subscription

    publish: Any = Subscription.publish
    send: Any = Rule.send_to_targets

    @functools.wraps(publish)
    def publish_too(self: Any, message: str, message_id: str, *args: Any, **named: Any) -> None:
        if self.protocol == "lambda":
            _publish(self, message, message_id, *args, **named)
        else:
            publish(self, message, message_id, *args, **named)

    @functools.wraps(send)
    def send_too(self: Any, original_event: Any, transform_input: bool = True) -> None:
        functions = [t for t in self.targets if t["Arn"].startswith("arn:aws:lambda:")]
        if not functions:
            send(self, original_event, transform_input)
            return
        others = [t for t in self.targets if t not in functions]
        send(_With(self, others), original_event, transform_input)
        if self.event_pattern.matches_event(original_event):
            _send(self, functions, original_event)

    Subscription.publish = publish_too
    Rule.send_to_targets = send_too


class _With:
    """A rule with other targets."""

    def __init__(self, rule: Any, targets: Sequence[Mapping[str, Any]]) -> None:
        self._rule = rule
        self.targets = targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)


def _publish(
    subscription: Any,
    message: str,
    message_id: str,
    subject: str | None = None,
    message_attributes: Mapping[str, Any] | None = None,
    group_id: str | None = None,
    deduplication_id: str | None = None,
    message_structure: str | None = None,
) -> None:
    matcher = subscription._filter_policy_matcher  # noqa: SLF001 - as Subscription.publish itself does
    if matcher is not None and not matcher.matches(message_attributes, message):
        return
    if message_structure == "json":
        message = subscription._parse_message_structure(message, "lambda")  # noqa: SLF001
    if _Where.deliver is None or _Where.clock is None:
        return
    told = {
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": subscription.topic.arn,
        "Subject": subject,
        "Message": message,
        "Timestamp": _iso(_Where.clock.now_ms()),
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "SigningCertUrl": "EXAMPLE",
        "UnsubscribeUrl": "EXAMPLE",
        "MessageAttributes": {
            name: {"Type": each["Type"], "Value": str(each["Value"])}
            for name, each in (message_attributes or {}).items()
        },
    }
    _Where.deliver(
        subscription.endpoint,
        _sns_event(subscription.arn, told),
        service="sns.amazonaws.com",
        source_arn=subscription.topic.arn,
    )


def _sns_event(subscription_arn: str, told: Mapping[str, Any]) -> bytes:
    record = {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": subscription_arn,
        "Sns": told,
    }
    return json.dumps({"Records": [record]}).encode()


def _send(rule: Any, targets: Sequence[Mapping[str, Any]], original: Mapping[str, Any]) -> None:
    for target in targets:
        if _Where.deliver is not None:
            _Where.deliver(
                target["Arn"],
                _input_of(target, original),
                service="events.amazonaws.com",
                source_arn=rule.arn,
            )


def _input_of(target: Mapping[str, Any], original: Mapping[str, Any]) -> bytes:
    """Return what a target asked to be told of an event: a constant, a part, a template, or all of it."""
    from moto.events.utils import EventTemplateParser

    if "Input" in target:
        return str(target["Input"]).encode()
    if "InputPath" in target:
        part: Any = original
        for name in str(target["InputPath"]).removeprefix("$").strip(".").split("."):
            part = part.get(name) if name and isinstance(part, dict) else part
        return json.dumps(part).encode()
    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(_whole(original)).encode()
    whole: Any = _whole(original)
    event = EventTemplateParser.parse(
        input_template=transformer.get("InputTemplate", ""),
        input_paths_map=transformer.get("InputPathsMap", {}),
        event=whole,
    )
    return json.dumps(event, default=str).encode()


def _whole(original: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as EventBridge writes it: moto's time is a number of seconds."""
    event = dict(original)
    if isinstance(event.get("time"), int | float):
        event["time"] = f"{datetime.fromtimestamp(event['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"
    return event


def _iso(now_ms: int) -> str:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now_ms % 1000:03d}Z"
