"""Decides on accesses as AWS would: at once, or those that wait when the report is requested or a policy changes.

Decisions are cached until policies change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from headrace.core.clock import Clock
from headrace.permissions.decisions.identity import NOT_IN_IAM, Identity, at, with_tags
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import (
    Access,
    Decision,
    NamedPolicy,
    Policies,
    Principal,
)
from headrace.permissions.requests.keys import Grants, is_granted
from headrace.store.notes import without_note

log = logging.getLogger(__name__)

JUDGE_EVERY_S = 1.0
# For another thread that judges, before a policy changes.
LONGEST_WAIT_S = 2.0
_NOT_THERE = "because no identity-based policy allows the {} action"


class UsersAndRoles(Protocol):
    """IAM's users and roles with their policies. Thread-safe; waits until they are loaded.

    Attributes:
        is_ready: returns whether the users and roles are loaded.
        version: returns a number that grows with each change of users, roles, policies, or of policies of resources.
    """

    is_ready: Callable[[], bool]
    version: Callable[[], int]

    def user_of(self, access_key: str) -> Identity | None:
        """Return the user of an access key; None when no user has it."""
        ...

    def principal(self, identity: Identity) -> Principal | None:
        """Return a caller's principal in IAM; None when IAM does not have it."""
        ...

    def policies(self, identity: Identity) -> Policies:
        """Return a caller's own policies."""
        ...


@dataclass(slots=True)
class Entry:
    """An action on a resource, or on all resources below it when the ARN ends in `*` (a shared entry).

    Attributes:
        pending: the number of calls that are not judged yet; `allowed` and `denied` count the others.
        samples: for a shared entry, the kept accesses of pending calls.
        not_judged: the calls of a shared entry without a sample.
        reason: AWS's sentence for the last denial.
        version: the version of the policies on which `decision` is based.
    """

    identity: Identity
    access: Access
    pending: int = 0
    allowed: int = 0
    denied: int = 0
    not_judged: int = 0
    first_ms: int = 0
    last_ms: int = 0
    denied_ms: int = 0
    reason: str = ""
    decision: Decision | None = None
    version: Any = None
    samples: dict[Access, int] | None = None


# Returns the policy of an access's resource; None when it has none.
ResourcePolicy = Callable[[Access], NamedPolicy | None]


class Judge:
    """Decides on the accesses of all callers; the `Worker` that decides on those that wait. Thread-safe.

    Attributes:
        people: IAM's users and roles.
        lock: guards the entries of all callers.
        waiting: the entries that the worker is to decide; changed with the lock held.
        changes: a counter that grows with each noted access; changed with the lock held.
    """

    name = "iam"

    def __init__(
        self,
        *,
        clock: Clock,
        people: UsersAndRoles,
        resource_policy: ResourcePolicy,
        grants: Grants,
        tags: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.people = people
        self.clock = clock
        self.tags_of = tags
        self.lock = threading.Lock()
        self.waiting: list[Entry] = []
        self.changes = 0
        self._resource_policy = resource_policy
        self._grants = grants
        self._judging = threading.RLock()

    def step(self) -> float:
        """Decide the waiting entries once IAM is loaded; see `Worker.step`."""
        if self.waiting and self.people.is_ready():
            self.decide_waiting()
        return JUDGE_EVERY_S

    def decide_waiting(self) -> None:
        """Decide all waiting entries. Blocks until IAM is loaded, if there are any."""
        with self._judging:
            with self.lock:
                pending, self.waiting = self.waiting, []
                self.changes += len(pending)
            for entry in pending:
                try:
                    self._settle(entry)
                except Exception:
                    log.exception("%s cannot be judged", entry.access.action)

    def before_policies_change(self) -> None:
        """Decide all waiting entries by the policies as they are."""
        # Who changes a policy in the middle of a request to moto holds moto's lock, for which the judging thread may
        # wait: neither may wait for the other for ever.
        if not self._judging.acquire(timeout=LONGEST_WAIT_S):
            log.warning("Some accesses are judged by policies that have changed since")
            return
        try:
            self.decide_waiting()
        finally:
            self._judging.release()

    def _settle(self, entry: Entry) -> None:
        with self.lock:
            count, entry.pending = entry.pending, 0
            if count > 1:
                entry.last_ms = self.clock.now_ms()
            samples = None if entry.samples is None else dict(entry.samples)
            if entry.samples is not None:
                entry.samples.clear()
        if samples is None:
            calls = [(entry, count)]
        else:
            calls = [(Entry(entry.identity, access), times) for access, times in samples.items()]
        for call, times in calls:
            if sentence := self.decide(entry.identity, call):
                entry.denied += times
                entry.denied_ms = entry.last_ms
                entry.reason = sentence
            else:
                entry.allowed += times
                entry.reason = call.reason or entry.reason

    def decide(self, identity: Identity, entry: Entry) -> str | None:
        """Return AWS's sentence of refusal; None for an access that AWS allows."""
        with without_note():
            policy = self._resource_policy(entry.access)
            version = (self.people.version(), None if policy is None else policy.document.text)
            if entry.version != version or entry.decision is None:
                entry.reason, entry.decision, is_lasting = self._decide(
                    identity, entry.access, policy
                )
                entry.version = version if is_lasting else None
        return None if entry.decision.allowed else entry.reason

    def _decide(
        self, identity: Identity, access: Access, resource: NamedPolicy | None
    ) -> tuple[str, Decision, bool]:
        known = self.people.user_of(identity.name) if identity.kind == "key" else identity
        if known is None:
            allow = Decision(allowed=True, effect="allow", layer="identity-based policy")
            return "", allow, True
        principal = self.people.principal(known)
        if principal is None:
            sentence = _NOT_THERE.format(access.action)
            refusal = Decision(
                allowed=False,
                effect="implicit deny",
                layer="identity-based policy",
                sentence=sentence,
            )
            return f"{known.arn} {NOT_IN_IAM}", refusal, True
        own = self.people.policies(known)
        if known.source_arn:
            access = _from_source(access, known)
        policies = _with_resource(own, resource)
        access, is_timed = at(access, policies, self.clock.now_ms(), known)
        access, is_tagged = with_tags(access, policies, self.tags_of)
        decision = evaluate(principal, access, policies)
        if decision.effect == "implicit deny" and is_granted(self._grants, principal, access):
            decision = Decision(allowed=True, effect="allow", layer="resource-based policy")
        sentence = "" if decision.allowed else denial(principal, access, decision)
        return sentence, decision, not (is_timed or is_tagged)

    def subject_of(self, identity: Identity, access: Access) -> tuple[Principal, Policies] | None:
        """Return a caller's principal, and the policies that apply to an access; None when IAM does not have it."""
        principal = self.people.principal(identity)
        if principal is None:
            return None
        own = self.people.policies(identity)
        return principal, _with_resource(own, self._resource_policy(access))


def _from_source(access: Access, service: Identity) -> Access:
    """Return an access with the condition keys for the resource for which a service acts."""
    arn = service.source_arn
    account = service.source_account or arn.split(":")[4]
    source = {"aws:sourcearn": (arn,), "aws:sourceaccount": (account,)}
    return replace(access, context={**access.context, **source})


def _with_resource(own: Policies, resource: NamedPolicy | None) -> Policies:
    return Policies(own.identity, own.boundary, own.session, resource)
