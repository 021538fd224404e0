"""Runs a request for another account's queue, topic or bus in that account, if the resource's policy allows it.

moto looks only in the caller's own account. The gateway has already checked users and roles; the account itself needs
no permission for its own resources, but another account's resource policy must allow it, whatever `--iam` says. moto
must be loaded.
Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic-cross-account.html.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
# ruff: noqa: SLF001 - moto's handlers read parameters through private methods

from __future__ import annotations

import copy
import functools
import re
from typing import Any

from headrace.aws.calls.operation import is_restricted
from headrace.core.arn import is_account_id, partition_of
from headrace.moto import principals
from headrace.moto.current_cloud import CURRENT
from headrace.moto.memory import policy_in_moto
from headrace.permissions.decisions.identity import build_refusal
from headrace.permissions.policies.document import UnreadableDocument
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import Access, NamedPolicy, Policies, Principal

_REGIONAL_HOST = re.compile(
    r"https?://(?:sqs\.([a-z]{2}(?:-[a-z]+)+-\d+)|([a-z]{2}(?:-[a-z]+)+-\d+)\.queue)\."
)
_SQS_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


def patch_queues() -> None:
    """Make a queue's URL decide in which account and Region the queue is; called once."""
    from moto.sqs.models import sqs_backends
    from moto.sqs.responses import SQSResponse

    def backend_of(response: Any) -> Any:
        own = sqs_backends[response.current_account][response.region]
        owner, name = _owner_of_url(str(response._get_param("QueueUrl") or ""))
        if owner in ("", response.current_account):
            return own
        theirs = sqs_backends[owner][response.region]
        action = str(response._get_action())
        action = _SQS_BATCHES.get(action, action)
        arn = f"arn:{partition_of(response.region)}:sqs:{response.region}:{owner}:{name}"
        # AWS gives the same answer for a missing queue and one whose policy refuses.
        is_let_in = name in theirs.queues and not refusal_of(response, f"sqs:{action}", arn)
        return theirs if is_let_in else own

    response: Any = SQSResponse
    response.sqs_backend = property(backend_of)
    name_of = response._get_queue_name

    def own_name_of(self: Any) -> str:
        url = str(self._get_param("QueueUrl") or "")
        # No queue is named by a URL: it is not there.
        return str(name_of(self)) if region_of_url(url) in ("", self.region) else url

    response._get_queue_name = own_name_of


def patch_buses(models: Any, handler: Any) -> None:
    """Send events to the buses of other accounts and regions that their entries name by ARN; called once.

    In other calls an ARN is of the caller's account and region; moto takes the last part of any ARN as a bus's name.
    AWS also makes rules on buses elsewhere (documented: eb-event-bus-perms.html); headrace refuses that.
    """
    backend = models.EventsBackend
    put = backend.put_events

    @functools.wraps(put)
    def put_there(self: Any, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(events) > 10 or not any(_foreign_bus(self, one) for one in events):
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

    backend.put_events = put_there
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
    ask = handler.put_events

    @functools.wraps(ask)
    def ask_owner(self: Any) -> Any:
        for event in self._get_param("Entries") or ():
            arn = _foreign_bus(self.events_backend, event)
            is_theirs = arn and bus_of(arn)[1] != str(self.current_account)
            sentence = refusal_of(self, "events:PutEvents", arn) if is_theirs else ""
            if sentence:
                raise build_refusal("events", sentence)
        return ask(self)

    handler.put_events = ask_owner


def refusal_of(response: Any, action: str, arn: str) -> str:
    """Return why a caller may not act in another account; empty when it may, or the gateway has decided."""
    key = str(response.get_access_key())
    if is_restricted(key) and _has_owner(key):
        return ""
    caller = str(response.current_account)
    root = f"arn:{partition_of(str(response.region))}:iam::{caller}:root"
    principal = Principal("root", root, caller, root)
    access = Access(action, arn, arn.split(":")[4])
    decision = evaluate(principal, access, Policies(resource=_policy(arn)))
    return "" if decision.allowed else denial(principal, access, decision)


def _has_owner(key: str) -> bool:
    """Whether a key belongs to a session or a user; an unknown key counts as the account itself."""
    if CURRENT.sessions is not None and CURRENT.sessions.account_of(key) is not None:
        return True
    access_keys = (backend.access_keys.get(key) for _, backend in principals.iam_backends())
    return any(one is not None and one.user_name is not None for one in access_keys)


def _policy(arn: str) -> NamedPolicy | None:
    text = policy_in_moto(arn)
    try:
        return None if text is None else NamedPolicy.of("resource policy", text)
    except UnreadableDocument:
        return None


def region_of_url(url: str) -> str:
    """Return the Region that a queue's URL names; empty for a bare name, and for a host that names none."""
    found = _REGIONAL_HOST.match(url)
    return "" if found is None else found[1] or found[2]


def _owner_of_url(url: str) -> tuple[str, str]:
    """Return the account and the name in a queue's URL; empty texts for a bare name."""
    head, _, name = url.rstrip("/").rpartition("/")
    owner = head.rpartition("/")[2]
    return (owner, name) if is_account_id(owner) else ("", "")


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
