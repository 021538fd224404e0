"""Signals, which tell a stack that something outside is ready: by SignalResource, or by a PUT to a handle's URL.

Signals are kept in memory while the cloud runs: an operation that waits for one is rolled back after a restart.
Sentences: observed by many users of wait conditions and creation policies.

Receives custom resources' answers: `PUT /_headrace/cfn-response/<token>` to this cloud.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.values import parse_json
from headrace.services.cloudformation import errors
from headrace.services.cloudformation.errors import ResourceFailed, TemplateError

PATH = "/_headrace/cfn-response/"
CHECK_EVERY_S = 0.25
# Replaces an answer that is larger than AWS accepts.
TOO_LONG: dict[str, Any] = {"Status": "TOO_LONG"}


class CloudStopped(BaseException):
    """The cloud is being stopped: the operation stops where it is, and the next start resumes it."""


class Responses:
    """Tokens of the expected answers, and the answers that have arrived. Thread-safe; a restart loses them."""

    def __init__(self, clock: Clock, ids: Ids, answers_url: Callable[[], str]) -> None:
        self._clock = clock
        self._ids = ids
        self._answers_url = answers_url
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Event] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._stopping = False

    def stop(self) -> None:
        """End all waits, because the cloud is being stopped."""
        with self._lock:
            self._stopping = True
            for event in self._waiting.values():
                event.set()

    def expect(self) -> tuple[str, str]:
        """See `CustomResponses.expect`."""
        token = self._ids.hex(32)
        with self._lock:
            self._waiting[token] = threading.Event()
        return token, f"{self._answers_url()}{PATH}{token}"

    def receive(self, token: str, body: bytes) -> bool:
        """Take an answer; return False when no resource waits for it, or when it is not a JSON object."""
        answer: Any = TOO_LONG
        if len(body) <= errors.CUSTOM_RESPONSE_BYTES:
            try:
                answer = parse_json(body)
            except ValueError:
                return False
        with self._lock:
            event = self._waiting.get(token)
            if event is None or not isinstance(answer, dict):
                return False
            if not event.is_set():  # the first answer counts
                self._answers[token] = cast("dict[str, Any]", answer)
            event.set()
        return True

    def wait(self, token: str, timeout_s: float) -> dict[str, Any] | None:
        """See `CustomResponses.wait`."""
        return self.wait_or(token, timeout_s, lambda: None)

    def wait_or(
        self, token: str, timeout_s: float, check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """See `CustomResponses.wait_or`."""
        with self._lock:
            event = self._waiting[token]
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            while not event.is_set():
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    return None
                if self._clock.wait(event, min(left_s, CHECK_EVERY_S)):
                    break
                if not event.is_set():
                    check()
            with self._lock:
                if self._stopping and token not in self._answers:
                    raise CloudStopped
                return self._answers.get(token)
        finally:
            with self._lock:
                self._waiting.pop(token, None)
                self._answers.pop(token, None)


# The types whose CreationPolicy CloudFormation waits for: .../aws-attribute-creationpolicy.html (documented).
SIGNALLED = frozenset(
    {
        "AWS::AutoScaling::AutoScalingGroup",
        "AWS::CloudFormation::WaitCondition",
        "AWS::EC2::Instance",
    }
)
_CONDITION = "AWS::CloudFormation::WaitCondition"
# The types whose machines send signals on AWS, and do not exist here.
_SENDERS = frozenset({"AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::Instance"})
_LOOK_EVERY_S = 0.1
_DURATION_UNITS = {"H": 3600, "M": 60, "S": 1}
_DURATION_DIGITS = 9

HANDLE = "AWS::CloudFormation::WaitConditionHandle"


def token_of(url: str) -> str:
    """Return a handle's token, which is the end of its URL."""
    return url.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal: its sender's id, whether it reports success, and its text."""

    unique_id: str
    status: str
    reason: str = ""
    data: str = ""


class Signals:
    """The signals received, by receiver: a resource's stack and name, or a handle's token. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received: dict[str, dict[str, Signal]] = {}

    def send(self, receiver: str, signal: Signal) -> bool:
        """Keep a signal; return False for a known id, unless the signal is a failure, which replaces the old one."""
        with self._lock:
            signals = self._received.setdefault(receiver, {})
            if signal.unique_id in signals and signal.status != "FAILURE":
                return False
            signals[signal.unique_id] = signal
            return True

    def of(self, receiver: str) -> list[Signal]:
        """Return the signals of a receiver."""
        with self._lock:
            return list(self._received.get(receiver, {}).values())

    def forget(self, receiver: str) -> None:
        """Delete a receiver's signals."""
        with self._lock:
            self._received.pop(receiver, None)


def receiver_of(stack_id: str, logical_id: str) -> str:
    """Return the receiver under which a resource gets the signals of SignalResource."""
    return f"{stack_id} {logical_id}"


def signal_in(body: bytes) -> Signal | None:
    """Return the signal in a PUT to a handle's URL; None when the body is invalid (documented: its JSON)."""
    if len(body) > errors.CUSTOM_RESPONSE_BYTES:
        return None
    try:
        value: Any = parse_json(body)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    status, unique_id = members.get("Status"), members.get("UniqueId")
    if status not in ("SUCCESS", "FAILURE") or not isinstance(unique_id, str) or not unique_id:
        return None
    data = members.get("Data", "")
    return Signal(
        unique_id,
        str(status),
        str(members.get("Reason", "")),
        data if isinstance(data, str) else json.dumps(data),
    )


@dataclass(frozen=True, slots=True)
class ExpectedSignals:
    """How many signals to wait for, and for how long."""

    count: int
    timeout_s: int


def creation_policy(
    definition: Mapping[str, Any], evaluated: Callable[[Any], Any]
) -> ExpectedSignals | None:
    """Return the signals that a resource's CreationPolicy waits for, or None. Raises TemplateError."""
    if definition["Type"] not in SIGNALLED or "CreationPolicy" not in definition:
        return None
    policy: Any = evaluated(definition["CreationPolicy"])
    signal: Any = cast("dict[str, Any]", policy).get("ResourceSignal") if policy else None
    if signal is None:
        return None
    members = cast("dict[str, Any]", signal)
    return ExpectedSignals(
        whole_number("Count", members.get("Count", 1), 0, errors.SIGNALS),
        _duration_s(str(members.get("Timeout", "PT5M"))),
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """A resource that may wait for signals: its type, its stack, its name in the template, its handle's URL or ""."""

    kind: str
    stack_name: str
    logical_id: str
    handle: str = ""


def describe_unsent(waiting: Waiting, expected: ExpectedSignals | None, kinds: Set[str]) -> str:
    """Return a sentence when a resource waits for signals that an instance sends on AWS, else "".

    Here nothing runs on instances. `kinds` has the types of the stack's resources: a wait condition beside an instance
    mostly waits for that; a function or a person may send its signal as well.
    """
    if waiting.kind in _SENDERS and expected is not None and expected.count:
        return (
            f"headrace has no machines, so no instance sends the {expected.count} signal(s) that this resource waits"
            f" for ({expected.timeout_s} s at most). Send each: aws cloudformation signal-resource --stack-name"
            f" {waiting.stack_name} --logical-resource-id {waiting.logical_id} --unique-id ID --status SUCCESS"
        )
    if waiting.kind == _CONDITION and kinds & _SENDERS:
        form = """'{"Status": "SUCCESS", "Reason": "-", "UniqueId": "ID", "Data": "-"}'"""
        handle = waiting.handle
        sender = f"curl -X PUT --data {form} '{handle}'" if handle else "SignalResource"
        return (
            "headrace has no machines, so no instance signals this condition. If nothing else does, send each signal: "
            + sender
        )
    return ""


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """Return a template's integer, which may be text. Raises TemplateError."""
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= _DURATION_DIGITS) or not (
        least <= int(text) <= most
    ):
        raise TemplateError(f"{name} must be an integer from {least} to {most}, not {text[:20]}")
    return int(text)


def _duration_s(text: str) -> int:
    """Return the seconds of a duration such as PT1H30M. Raises TemplateError."""
    seconds, digits = 0, ""
    wrong = TemplateError(
        f"CreationPolicy Timeout {text[:40]} is not a duration in the form PT#H#M#S"
    )
    if not text.startswith("PT") or len(text) == len("PT"):
        raise wrong
    for character in text[2:]:
        if character.isascii() and character.isdigit() and len(digits) < _DURATION_DIGITS:
            digits += character
        elif character in _DURATION_UNITS and digits:
            seconds += int(digits) * _DURATION_UNITS[character]
            digits = ""
        else:
            raise wrong
    if digits:
        raise wrong
    if seconds > errors.WAIT_SECONDS:  # assumed words; the limit is documented
        raise TemplateError(f"CreationPolicy Timeout {text} is longer than 12 hours")
    return seconds


def wait_for(
    signals: Signals,
    receiver: str,
    expected: ExpectedSignals,
    *,
    monotonic_s: Callable[[], float],
    pause: Callable[[float], None],
    on_signal: Callable[[Signal], None],
) -> list[Signal]:
    """Return a receiver's signals once there are enough, one reports a failure, or the time is over.

    `pause` waits and raises Cancelled when the operation is cancelled; `on_signal` is called once for each signal.
    """
    deadline_s = monotonic_s() + expected.timeout_s
    seen: set[str] = set()
    while True:
        signals_received = signals.of(receiver)
        for signal in signals_received:
            if signal.unique_id not in seen:
                seen.add(signal.unique_id)
                on_signal(signal)
        failed = any(signal.status == "FAILURE" for signal in signals_received)
        left_s = deadline_s - monotonic_s()
        if failed or len(signals_received) >= expected.count or left_s <= 0:
            return signals_received
        pause(min(_LOOK_EVERY_S, left_s))


def check_policy(received: list[Signal], expected: ExpectedSignals) -> None:
    """Raise ResourceFailed when a CreationPolicy has not been met."""
    failures = [signal for signal in received if signal.status == "FAILURE"]
    if failures:
        raise ResourceFailed(
            f"Received {len(failures)} FAILURE signal(s) out of {expected.count}. Unable to satisfy 100%"
            " MinSuccessfulInstancesPercent requirement"
        )
    missing = expected.count - len(received)
    if missing > 0:
        raise ResourceFailed(
            f"Failed to receive {missing} resource signal(s) within the specified duration"
        )


def check_condition(received: list[Signal], expected: ExpectedSignals) -> None:
    """Raise ResourceFailed when a wait condition has not been met."""
    for signal in received:
        if signal.status == "FAILURE":
            raise ResourceFailed(
                f"WaitCondition received failed message: '{signal.reason}' for uniqueId: {signal.unique_id}"
            )
    if len(received) < expected.count:
        raise ResourceFailed(
            f"WaitCondition timed out. Received {len(received)} conditions when expecting {expected.count}"
        )
