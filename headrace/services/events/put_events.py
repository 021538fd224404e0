"""EventBridge's PutEvents: its checks, the buses that entries name, and its quick way.

An entry may name a bus of another account or Region by its ARN; in other calls an ARN is of the caller's.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import copy
import functools
import json
import logging
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.core.values import parse_json
from headrace.moto.current_cloud import ANSWERS_CLIENT
from headrace.moto.memory import refusal_of
from headrace.moto.requests.quick import NotPlain, QuickCall, QuickRequest, reader_of
from headrace.permissions.decisions.identity import build_refusal

log = logging.getLogger(__name__)

_MOST_ENTRIES = 10
# Documented: eb-putevent-size.html; 256 KB until 2025.
_MOST_BYTES = 1024 * 1024
_TIME_BYTES = 14


def patch(models: Any, handler: Any) -> None:
    """Replace how moto takes events and finds buses; called once."""
    _take_entries(handler)
    _put_to_buses(models)
    _find_own_buses(models.EventsBackend)


def _take_entries(handler: Any) -> None:
    """Check a request's entries, and ask the owners of other accounts' buses, before moto takes them."""
    put = handler.put_events

    def put_sound(self: Any) -> Any:
        _check_entries(self)
        for event in self._get_param("Entries") or ():
            arn = _foreign_bus(self.events_backend, event)
            is_theirs = arn and bus_of(arn)[1] != str(self.current_account)
            sentence = refusal_of(self, "events:PutEvents", arn) if is_theirs else ""
            if sentence:
                raise build_refusal("events", sentence)
        return put(self)

    handler.put_events = _past_missing_buses(put_sound)


def _past_missing_buses(put_events: Any) -> Any:
    """Refuse a client's events that claim to be a service's; take those for a bus that does not exist, and drop them.

    The former was observed by others on AWS (github.com/aws-samples/serverless-patterns, pull request 3089), the latter
    is recorded; the log says so.
    """

    @functools.wraps(put_events)
    def put(self: Any) -> Any:
        entries: list[Any] = self._get_param("Entries") or []
        answers = [_answer_without_bus(self, entry) for entry in entries]
        sound = [entry for entry, one in zip(entries, answers, strict=True) if one is None]
        if len(sound) == len(entries):
            return put_events(self)
        get_param = self._get_param

        def only_sound(name: str, *more: Any) -> Any:
            return sound if name == "Entries" else get_param(name, *more)

        self._get_param = only_sound
        try:
            text = put_events(self) if sound else '{"FailedEntryCount": 0, "Entries": []}'
        finally:
            del self._get_param
        answer = json.loads(text)
        results = iter(answer["Entries"])
        answer["Entries"] = [next(results) if one is None else one for one in answers]
        answer["FailedEntryCount"] = sum("ErrorCode" in one for one in answer["Entries"])
        return json.dumps(answer)

    return put


def _answer_without_bus(response: Any, entry: Any) -> dict[str, str] | None:
    """Return the answer to an event that reaches no bus; None for one that does."""
    source = str(entry.get("Source") or "") if isinstance(entry, Mapping) else ""
    if source.startswith("aws.") and ANSWERS_CLIENT.get():
        return {
            "ErrorCode": "NotAuthorizedForSourceException",
            "ErrorMessage": "Not authorized for the source.",
        }
    return {"EventId": str(uuid.uuid4())} if _has_no_bus(response, entry) else None


def _has_no_bus(response: Any, entry: Mapping[str, Any]) -> bool:
    name = str(entry.get("EventBusName") or "default")
    backend, bus = response.events_backend, name.rpartition("/")[2]
    if name.startswith("arn:") and name.count(":") >= 5:
        region, owner, bus = bus_of(name)
        if owner != backend.account_id:
            return False
        if region != backend.region_name:
            from moto.events.models import events_backends

            of_regions: Any = events_backends[owner]
            backend = of_regions[region] if region in of_regions else None  # noqa: SIM401 - get() makes one
    if backend is not None and bus in backend.event_buses:
        return False
    log.warning("An event for the bus %s is dropped: there is no such bus.", name)
    return True


def _check_entries(response: Any) -> None:
    entries: list[Mapping[str, Any]] = response._get_param("Entries") or []
    if len(entries) > _MOST_ENTRIES:
        shown = ", ".join(map(_render_entry, entries))
        raise _invalid(
            f"1 validation error detected: Value '[{shown}]' at 'entries' failed to satisfy constraint: Member must"
            f" have length less than or equal to {_MOST_ENTRIES}"
        )
    if sum(map(_size_bytes, entries)) > _MOST_BYTES:
        raise _invalid("Total size of the entries in the request is over the limit.")


def _render_entry(entry: Mapping[str, Any]) -> str:
    """Return an entry as AWS's Java writes it."""
    members = (
        "Time", "Source", "Resources", "DetailType", "Detail", "EventBusName", "TraceHeader",
        "KmsKeyIdentifier", "InternalMetadata",
    )  # fmt: skip
    shown = ", ".join(
        f"{name[0].lower()}{name[1:]}={'null' if entry.get(name) is None else entry[name]}"
        for name in members
    )
    return f"PutEventsRequestEntry({shown})"


def _size_bytes(entry: Mapping[str, Any]) -> int:
    """Return an entry's size (documented: eb-putevent-size.html)."""
    texts = [entry.get("Source"), entry.get("DetailType"), entry.get("Detail")]
    texts += entry.get("Resources") or []
    time = _TIME_BYTES if entry.get("Time") is not None else 0
    return time + sum(len(str(text or "").encode()) for text in texts)


def _invalid(message: str) -> Exception:
    from moto.events.exceptions import ValidationException

    return ValidationException(message)


def _put_to_buses(models: Any) -> None:
    """Send events to the buses of other accounts and Regions too; refuse details that are not objects.

    moto accepts a detail that is JSON but no object (recorded: MalformedDetail); one that is no JSON it refuses, in its
    place among the others.
    """
    backend = models.EventsBackend
    put = backend.put_events

    @functools.wraps(put)
    def put_events(self: Any, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        events = [{**one, "Detail": "{"} if _is_other(one.get("Detail")) else one for one in events]
        if len(events) > _MOST_ENTRIES or not any(_foreign_bus(self, one) for one in events):
            return put(self, events)
        answers: list[dict[str, Any]] = []
        for event in events:
            arn = _foreign_bus(self, event)
            if not arn:
                answers += put(self, [event])
                continue
            region, owner, name = bus_of(arn)
            # The event names its sender's account and region.
            theirs = copy.copy(models.events_backends[owner][region])
            theirs.account_id, theirs.region_name = self.account_id, self.region_name
            answers += put(theirs, [{**event, "EventBusName": name}])
        return answers

    backend.put_events = put_events


def _is_other(text: Any) -> bool:
    """Whether a detail is no JSON object, by what JSON is: moto's parser takes NaN, too."""
    try:
        return isinstance(text, str) and not isinstance(parse_json(text), dict)
    except ValueError:
        return True


def _find_own_buses(backend: Any) -> None:
    """Find buses of the caller's account and Region only; moto takes the last part of any ARN as a bus's name.

    AWS also makes rules on buses elsewhere (documented: eb-event-bus-perms.html); headrace refuses that.
    """
    find, name_of = backend._get_event_bus, backend._normalize_event_bus_arn

    def find_own(self: Any, name: str) -> Any:
        from moto.events.exceptions import ResourceNotFoundException

        if _is_elsewhere(self, name):
            raise ResourceNotFoundException(f"Event bus {name} does not exist.")
        return find(self, name)

    def own_name_of(self: Any, arn: str | None) -> str:
        from moto.events.exceptions import ValidationException

        if _is_elsewhere(self, arn or ""):
            raise ValidationException(
                f"headrace has rules on buses of the caller's account and Region only, not on {arn}."
            )
        return str(name_of(self, arn))

    backend._get_event_bus, backend._normalize_event_bus_arn = find_own, own_name_of


def _foreign_bus(backend: Any, event: dict[str, Any]) -> str:
    """Return the ARN of another account's or region's bus that an event is for; empty for one of the caller's place."""
    arn = str(event.get("EventBusName") or "")
    return arn if _is_elsewhere(backend, arn) else ""


def _is_elsewhere(backend: Any, name: str) -> bool:
    if not name.startswith("arn:") or name.count(":") < 5:
        return False
    return bus_of(name)[:2] != (str(backend.region_name), str(backend.account_id))


def bus_of(arn: str) -> tuple[str, str, str]:
    """Return the region, account and name in a bus's ARN."""
    region, owner, resource = arn.split(":", 5)[3:]
    return region, owner, resource.removeprefix("event-bus/")


# --- the quick way (see `headrace.moto.requests.quick`) ----------------------------------------------


class _Entry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    Source: str
    DetailType: str
    Detail: str
    EventBusName: str | msgspec.UnsetType = msgspec.UNSET
    Resources: list[str] | msgspec.UnsetType = msgspec.UNSET


class _PutEvents(msgspec.Struct, forbid_unknown_fields=True):
    Entries: list[_Entry]


# Each event is compared with each rule: beyond these, others must not wait.
_MOST_COMPARISONS = 20
# Targets that may send an event on to any number of others, or are loaded at their first use.
_LONG_TARGETS = frozenset({"events", "logs", "sns"})


def _put_quickly(request: QuickRequest, asked: _PutEvents) -> bytes:
    """Put up to ten events to buses of the caller's, by their names."""
    from moto.moto_api._internal import mock_random

    backend = request.backend
    if not 1 <= len(asked.Entries) <= 10:
        raise NotPlain
    rules: list[Any] = []
    for entry in asked.Entries:
        bus = backend.event_buses.get(entry.EventBusName or "default")
        if bus is None or entry.Source.startswith("aws."):
            raise NotPlain
        rules += bus.rules.values()
        if len(rules) > _MOST_COMPARISONS:
            raise NotPlain
    targets = (target for rule in rules for target in rule.targets)
    if any(f"{target['Arn']}:::".split(":", 3)[2] in _LONG_TARGETS for target in targets):
        raise NotPlain
    mock_random.seed(request.ids.seed())
    results = backend.put_events(msgspec.to_builtins(asked)["Entries"])
    count = sum("ErrorCode" in result for result in results)
    return msgspec.json.encode({"FailedEntryCount": count, "Entries": results})


QUICK_CALLS = (
    QuickCall(
        "AWSEvents.PutEvents",
        "events",
        reader_of(_put_quickly, _PutEvents),
        content_type="application/x-amz-json-1.1",
    ),
)
