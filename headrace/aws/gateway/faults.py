"""Fault injection: rules that make requests fail, wait, or lose their connection, as on real clouds.

A rule says which requests it matches (service, action, stream, shard), what happens to them, how often (probability,
count), and with which random seed: the same seed and the same requests give the same faults. Rules apply to clients'
requests, never to calls between headrace's own services. They are kept in memory only: a restarted cloud has none.
Thread-safe; without rules a request costs one check of an empty tuple.

Injects faults into requests: finds the rules that match a request, and answers, delays or drops it.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qs

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.errors import AwsError, FaultErrors
from headrace.aws.calls.http import DROPPED, FileSlice, HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, loader, protocol_of, service_model
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.service import ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids

# Checks that a fault names something that exists: a service, its action, a stream, a shard.
#
# A fault with a misspelt name would never act, and a test that relies on it would prove nothing.

# Returns the shard ids of every stream of the cloud, by the stream's name.
ShardsByStream = Callable[[], Mapping[str, Collection[str]]]

_MOST_NAMED = 10
_NEAREST_NAMED = 3


class UnknownName(ValueError):
    """A name does not exist; the message is one sentence that lists the nearest names."""


def check_service(service: str, action: str | None) -> None:
    """Raise UnknownName unless botocore knows the service, and the service the action."""
    try:
        names = service_model(service).operation_names
    except UnknownServiceError:
        near = _nearest(service, loader().list_available_services("service-2"))
        raise UnknownName(
            f"There is no AWS service {service!r}; the nearest are {_list_names(near[:_NEAREST_NAMED])}."
        ) from None
    if action is not None and action not in names:
        near = _nearest(action, names)
        raise UnknownName(
            f"The service {service} has no action {action!r}; the nearest are {_list_names(near[:_NEAREST_NAMED])}."
        )


def check_stream(members: Mapping[str, Any], shards_by_stream: ShardsByStream) -> None:
    """Raise UnknownName when a fault names a stream or shard that the cloud does not have."""
    stream, shard = members.get("stream"), members.get("shard")
    if stream is None and shard is None:
        return
    known = shards_by_stream()
    if stream is not None and stream not in known:
        raise UnknownName(_describe_missing(f"stream {stream!r}", _nearest(stream, known)))
    streams = known if stream is None else (stream,)
    shards = {shard_id for name in streams for shard_id in known[name]}
    if shard is not None and shard not in shards:
        where = "" if stream is None else f" in the stream {stream}"
        raise UnknownName(_describe_missing(f"shard {shard!r}{where}", _nearest(shard, shards)))


def _describe_missing(what: str, names: list[str]) -> str:
    there = f"there are {_list_names(names)}" if names else "there are none"
    return f"There is no {what}, {there}; for one that is yet to be made, set even_if_missing."


def _list_names(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _nearest(misspelt: str, names: Iterable[str]) -> list[str]:
    """Return the names in one text, the most similar to `misspelt` first."""
    from difflib import SequenceMatcher

    def unlike(name: str) -> tuple[float, str]:
        return -SequenceMatcher(None, misspelt.lower(), name.lower()).ratio(), name

    return sorted(names, key=unlike)


FaultKind = Literal["throttle", "error", "partial", "latency", "drop"]
KINDS: Final = ("throttle", "error", "partial", "latency", "drop")
MOST_RULES = 1000
LONGEST_LATENCY_MS = 600_000

_USUAL_ERRORS: Final = FaultErrors()
# Prefixes of the codes of server errors.
_OF_THE_SERVICE: Final = ("Internal", "Service")


class FaultRefused(ValueError):
    """A rule is invalid; the message is one sentence."""


@dataclass(slots=True)
class RequestProperties:
    """The properties of a request that rules match.

    Attributes:
        place: returns the stream and the shard, each empty when the request names none. Called only when a rule needs
            it, since it parses the request.
    """

    service: str
    action: str
    account: str
    place: Callable[[], tuple[str, str]]
    _known: tuple[str, str] | None = None

    @property
    def stream(self) -> str:
        """The name of the request's stream."""
        return self._find()[0]

    @property
    def shard(self) -> str:
        """The id of the request's shard."""
        return self._find()[1]

    def _find(self) -> tuple[str, str]:
        if self._known is None:
            self._known = self.place()
        return self._known


@dataclass(slots=True)
class Rule:
    """One rule.

    Attributes:
        fault: `throttle` and `error` answer with AWS's error, `partial` refuses records of a PutRecords one by one,
            `latency` waits before the request is executed, `drop` closes the connection without an answer.
        probability: the probability that the rule acts on a matching request (for `partial`: on a record).
        count: how often it acts at most; None for no limit.
        seed: the random seed; with None the faults differ every time.
        when: whether to `drop` the connection before or after the request is executed.
        acted: how often it has acted.
    """

    id: str
    fault: FaultKind
    service: str | None = None
    action: str | None = None
    stream: str | None = None
    shard: str | None = None
    probability: float = 1.0
    count: int | None = None
    seed: int | None = None
    latency_ms: int = 0
    error_code: str | None = None
    error_message: str | None = None
    when: Literal["before", "after"] = "before"
    acted: int = 0
    dice: Ids = field(default_factory=Ids)

    def fits(self, facts: RequestProperties) -> bool:
        """Whether the rule matches a request."""
        return (
            self.service in (None, facts.service)
            and self.action in (None, facts.action)
            and (self.stream is None or self.stream == facts.stream)
            and (self.shard is None or self.shard == facts.shard)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the rule as JSON, without the members that are not set."""
        names = [name for name in _MEMBERS if getattr(self, name) is not None]
        value: dict[str, Any] = {"id": self.id, **{name: getattr(self, name) for name in names}}
        if self.fault != "latency":
            del value["latency_ms"]
        if self.fault != "drop":
            del value["when"]
        return {**value, "acted": self.acted}


@dataclass(slots=True)
class PlannedFaults:
    """The faults of one request."""

    latency_ms: int = 0
    error: AwsError | None = None
    drop: Literal["before", "after"] | None = None


class Faults:
    """The rules of a cloud. Thread-safe.

    Attributes:
        rules: every change replaces the tuple; usually it is empty.
        is_slow: some rule waits, so requests must not run on the event loop.
        is_partial: some rule refuses single records of a batch.
        errors: the errors by service; a service that is not in it has the default ones.
    """

    def __init__(self, ids: Ids) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.is_slow = False
        self.is_partial = False
        # Returns the streams and shards that a rule may name; None accepts any name.
        self._shards_by_stream: ShardsByStream | None = None
        self.errors: dict[str, FaultErrors] = {}
        self._ids = ids
        self._lock = threading.Lock()

    def know_streams(self, shards_by_stream: ShardsByStream) -> None:
        """Refuse rules from now on that name a stream or shard which `shards_by_stream` does not return."""
        self._shards_by_stream = shards_by_stream

    def add(self, value: Any) -> Rule:
        """Add the rule that a JSON object describes. Raises FaultRefused.

        Its member `even_if_missing` allows a stream or shard that does not exist yet.
        """
        rule = _rule(self._ids.hex(12), value, self._shards_by_stream)
        with self._lock:
            if len(self.rules) >= MOST_RULES:
                raise FaultRefused(f"There are {MOST_RULES} faults already; clear some.")
            self._set((*self.rules, rule))
        return rule

    def remove(self, rule_id: str) -> bool:
        """Remove a rule; return whether there was one with that id."""
        with self._lock:
            left = tuple(rule for rule in self.rules if rule.id != rule_id)
            is_known = len(left) < len(self.rules)
            self._set(left)
        return is_known

    def clear(self) -> int:
        """Remove every rule; return how many there were."""
        with self._lock:
            count = len(self.rules)
            self._set(())
        return count

    def _set(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self.is_slow = any(rule.fault == "latency" for rule in rules)
        self.is_partial = any(rule.fault == "partial" for rule in rules)

    def concerns(self, service: str) -> bool:
        """Whether some rule may match a request to a service."""
        return any(rule.service in (None, service) for rule in self.rules)

    def plan(self, facts: RequestProperties) -> PlannedFaults:
        """Draw for every rule that matches a request; of the rules that end it, the first that acts decides."""
        plan = PlannedFaults()
        for rule in self.rules:
            if rule.fault == "partial" or not rule.fits(facts):
                continue
            if rule.fault == "latency":
                plan.latency_ms += rule.latency_ms if self._acts(rule) else 0
            elif plan.error is None and plan.drop is None and self._acts(rule):
                if rule.fault == "drop":
                    plan.drop = rule.when
                else:
                    plan.error = self._error_of(rule, facts)
        return plan

    def refusals(self, facts: RequestProperties, records: int) -> dict[int, AwsError]:
        """Return the refused records of a batch, by position, with their errors."""
        refused: dict[int, AwsError] = {}
        for rule in self.rules:
            if rule.fault != "partial" or not rule.fits(facts):
                continue
            for i in range(records):
                if i not in refused and self._acts(rule):
                    refused[i] = self._error_of(rule, facts)
        return refused

    def _acts(self, rule: Rule) -> bool:
        with self._lock:
            if rule.count is not None and rule.acted >= rule.count:
                return False
            # Drawn even when the result is certain, so that a rule's draws depend on its requests alone.
            if rule.dice.random() >= rule.probability:
                return False
            rule.acted += 1
            return True

    def _error_of(self, rule: Rule, facts: RequestProperties) -> AwsError:
        """Return the error that a rule answers with."""
        errors = self.errors.get(facts.service, _USUAL_ERRORS)
        if rule.fault == "error" or rule.error_code == _USUAL_ERRORS.error[0]:
            code, message, status = errors.error
        else:
            code, message, status = errors.throttled_actions.get(facts.action, errors.throttle)
        if rule.error_code is not None and rule.error_code != code:
            code = rule.error_code
            if errors.callers_errors_are_400 and not code.startswith(_OF_THE_SERVICE):
                status = 400
        shard, stream = facts.shard or "shardId-000000000000", facts.stream
        message = message.format(shard=shard, stream=stream, account=facts.account)
        return AwsError(code, rule.error_message or message, status)


# --- from JSON --------------------------------------------------------------------------------

_MEMBERS: Final = (
    "fault",
    "service",
    "action",
    "stream",
    "shard",
    "probability",
    "count",
    "seed",
    "latency_ms",
    "error_code",
    "error_message",
    "when",
)
# It is not stored in the rule: it only concerns adding it.
_EVEN_IF_MISSING: Final = "even_if_missing"
_TEXTS: Final = ("service", "action", "stream", "shard", "error_code", "error_message")


def _rule(rule_id: str, value: Any, shards_by_stream: ShardsByStream | None) -> Rule:
    if not isinstance(value, dict):
        raise FaultRefused("A fault is a JSON object.")
    members_given = cast("dict[str, Any]", value)
    known = (*_MEMBERS, _EVEN_IF_MISSING)
    unknown = sorted(set(members_given) - set(known))
    if unknown:
        raise FaultRefused(f"A fault has no member {unknown[0]!r}; it has {', '.join(known)}.")
    members = {name: member for name, member in members_given.items() if member is not None}
    even_if_missing = members.pop(_EVEN_IF_MISSING, False)
    if not isinstance(even_if_missing, bool):
        raise FaultRefused("The member 'even_if_missing' must be true or false.")
    if members.get("fault") not in KINDS:
        raise FaultRefused(f"The member 'fault' must be one of {', '.join(KINDS)}.")
    for name in _TEXTS:
        if name in members and (not isinstance(members[name], str) or not members[name]):
            raise FaultRefused(f"The member {name!r} must be a text that is not empty.")
    _check_numbers(members)
    _check_kind(members)
    if "action" in members and "service" not in members:
        raise FaultRefused("A fault with 'action' needs 'service'.")
    try:
        if "service" in members:
            check_service(members["service"], members.get("action"))
        if shards_by_stream is not None and not even_if_missing:
            check_stream(members, shards_by_stream)
    except UnknownName as error:
        raise FaultRefused(str(error)) from None
    return Rule(id=rule_id, dice=Ids(members.get("seed")), **members)


def _check_numbers(members: dict[str, Any]) -> None:
    probability = members.get("probability", 1.0)
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        raise FaultRefused("The member 'probability' must be a number.")
    if not 0 < probability <= 1:
        raise FaultRefused("The member 'probability' must be above 0 and at most 1.")
    for name, most in (("count", None), ("seed", None), ("latency_ms", LONGEST_LATENCY_MS)):
        number = members.get(name)
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise FaultRefused(f"The member {name!r} must be a whole number.")
        if number < (0 if name == "seed" else 1) or (most is not None and number > most):
            bound = "" if most is None else f" and at most {most}"
            least = 0 if name == "seed" else 1
            raise FaultRefused(f"The member {name!r} must be at least {least}{bound}.")


def _check_kind(members: dict[str, Any]) -> None:
    fault = members["fault"]
    if (fault == "latency") != ("latency_ms" in members):
        raise FaultRefused("A latency fault has 'latency_ms', and no other fault has it.")
    if members.get("when", "before") not in ("before", "after"):
        raise FaultRefused("The member 'when' must be before or after.")
    if "when" in members and fault != "drop":
        raise FaultRefused("Only a drop fault has 'when'.")
    if fault in ("latency", "drop") and ("error_code" in members or "error_message" in members):
        raise FaultRefused(f"A {fault} fault has no error.")
    if fault == "partial":
        if members.get("service", "kinesis") != "kinesis":
            raise FaultRefused("Only Kinesis has partial faults.")
        if members.get("action", "PutRecords") != "PutRecords":
            raise FaultRefused("Only PutRecords fails in part.")
        members["service"], members["action"] = "kinesis", "PutRecords"
    if "stream" in members or "shard" in members:
        if members.get("service", "kinesis") != "kinesis":
            raise FaultRefused("Only Kinesis has streams and shards.")
        members["service"] = "kinesis"


Answer = HttpResponse | Future[HttpResponse]


def answer_with_faults(
    faults: Faults,
    clock: Clock,
    api: ServiceApi | None,
    request: HttpRequest,
    call: Call,
    answer: Callable[[], Answer],
) -> Answer:
    """Answer a request as the matching rules say; `answer` answers it without faults."""
    plan = faults.plan(_facts(api, request, call))
    if plan.latency_ms:
        clock.wait(threading.Event(), plan.latency_ms / 1000)
    if plan.error is not None:
        return _error(plan.error, request, call)
    if plan.drop == "before":
        return HttpResponse(DROPPED)
    response = answer()
    if plan.drop is None:
        return response
    if isinstance(response, Future):
        # This callback runs before those of the Future's waiters.
        response.add_done_callback(_drop_when_done)
    else:
        _drop(response)
    return response


def _drop_when_done(future: Future[HttpResponse]) -> None:
    if future.exception() is None:
        _drop(future.result())


def _drop(response: HttpResponse) -> None:
    response.status = DROPPED
    if isinstance(response.body, FileSlice):
        if response.body.file is not None:
            response.body.file.close()
    elif isinstance(response.body, AsyncGenerator):
        # The server closes it, on its event loop.
        return
    response.body = b""


def _facts(api: ServiceApi | None, request: HttpRequest, call: Call) -> RequestProperties:
    action = _action(request, call.service)

    def place() -> tuple[str, str]:
        if api is None or api.subject is None:
            return "", ""
        try:
            return api.subject(request, action, call)
        except (AwsError, ValueError, TypeError, KeyError):
            # A malformed request names no stream; the service refuses it later.
            return "", ""

    return RequestProperties(call.service, action, call.account, place)


def _action(request: HttpRequest, service: str) -> str:
    """Return a request's operation; empty when it is unknown."""
    target = request.headers.get("x-amz-target")
    if target is not None:
        return target.rpartition(".")[2]
    content_type = request.headers.get("content-type", "")
    form = request.query
    if content_type.startswith("application/x-www-form-urlencoded"):
        form = request.body.decode("utf-8", "replace")
    named = parse_qs(form).get("Action")
    if named:
        return named[0]
    try:
        return codec_moto.operation_name(service, request)
    except UnknownServiceError:
        return ""


def _error(error: AwsError, request: HttpRequest, call: Call) -> HttpResponse:
    """Return an error in the service's protocol."""
    service = call.service
    if "x-amz-target" in request.headers or protocol_of(service) == "json":
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        cbor = codec_json.is_cbor(content_type)
        return HttpResponse(
            error.status,
            [
                ("Content-Type", codec_json.CBOR_1_1 if cbor else codec_json.JSON_1_1),
                ("x-amzn-ErrorType", error.code),
            ],
            codec_json.encode_error(error, content_type),
        )
    return codec_moto.serialize_error(service, None, error, call.request_id)
