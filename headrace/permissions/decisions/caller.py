"""Notes the accesses of one caller and, with `--iam enforce`, refuses those that IAM denies.

There is one entry for each action and resource, with counts and the decision; bounded.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.core.arn import s3_path_of
from headrace.core.clock import Clock
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.identity import Identity, refusal
from headrace.permissions.policies.model import Access, Decision
from headrace.permissions.requests.keys import use_of_key, with_keys

# The most entries of one caller, and resources of one action; beyond that, resources of one folder or bucket share an
# entry.
MOST_ENTRIES = 2_000
MOST_RESOURCES = 200
# How many different resources a shared entry keeps to be judged; further ones only count in `not_judged`.
MOST_SAMPLES = 64

EntryKey = tuple[Any, ...]


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


@dataclass(slots=True)
class Entries:
    """The entries of one caller. Not thread-safe: use it with the lock held."""

    identity: Identity
    by_key: dict[EntryKey, Entry] = field(default_factory=dict[EntryKey, Entry])
    _resources: dict[str, int] = field(default_factory=dict[str, int])

    def entry_of(self, key: EntryKey, access: Access, now_ms: int) -> Entry:
        """Return the entry of an access, a new one if needed; beyond the bound, the shared entry of its folder."""
        known = self.by_key.get(key)
        if known is not None:
            return known
        count = self._resources.get(access.action, 0)
        if count >= MOST_RESOURCES or len(self.by_key) >= MOST_ENTRIES:
            return self._of_many(access, now_ms)
        self._resources[access.action] = count + 1
        entry = self.by_key[key] = Entry(self.identity, access, first_ms=now_ms)
        return entry

    def restore(self, entry: Entry) -> None:
        """Add an entry from the report file."""
        action, resource = entry.access.action, entry.access.resource
        is_of_many = entry.samples is not None
        self.by_key[(action, resource, None) if is_of_many else key_of(entry.access)] = entry
        if not is_of_many:
            self._resources[action] = self._resources.get(action, 0) + 1

    def _of_many(self, access: Access, now_ms: int) -> Entry:
        folder = folder_of(access.resource) if len(self.by_key) < 2 * MOST_ENTRIES else "*"
        key = (access.action, folder, None)
        entry = self.by_key.get(key)
        if entry is None:
            shown = Access(access.action, folder, access.account)
            entry = Entry(self.identity, shown, first_ms=now_ms, samples={})
            self.by_key[key] = entry
        assert entry.samples is not None
        if access in entry.samples or len(entry.samples) < MOST_SAMPLES:
            entry.samples[access] = entry.samples.get(access, 0) + 1
        else:
            entry.not_judged += 1
        return entry


def folder_of(resource: str) -> str:
    """Return the common prefix of many resources: a bucket's ARN, or the ARN up to the last slash or colon."""
    if s3_path_of(resource):
        return resource.partition("/")[0] + "/*"
    head = resource[: max(resource.rfind("/"), resource.rfind(":")) + 1]
    return f"{head}*"


def key_of(access: Access) -> EntryKey:
    """Return the key of an access; it is the key of `ask_for` when only action and ARN are known."""
    context = access.context
    region = context.get("aws:requestedregion")
    if len(context) == 1 and region and f":{region[0]}:" in access.resource:
        return (access.action, access.resource)
    return (access.action, access.resource, *sorted(context.items()))


class Decider(Protocol):
    """Decides on the accesses of all callers: see `judge`. Thread-safe.

    Attributes:
        clock: gives the time of an access.
        lock: guards the entries of all callers.
        waiting: the entries that the worker is to decide; changed with the lock held.
        changes: a counter that grows with each decision; changed with the lock held.
    """

    clock: Clock
    lock: threading.Lock
    waiting: list[Entry]
    changes: int

    def decide(self, identity: Identity, entry: Entry) -> str | None:
        """Return AWS's sentence of refusal; None for an access that AWS allows."""
        ...


class Callers(Protocol):
    """All callers. Thread-safe."""

    @property
    def judge(self) -> Decider:
        """Decides on their accesses."""
        ...

    @property
    def enforces(self) -> bool:
        """Whether accesses that AWS would deny are refused."""
        ...

    def user_of(self, access_key: str) -> Identity | None:
        """Return the user of an access key; None when no user has it."""
        ...

    def accesses(
        self, service: str, operation: str, params: Mapping[str, Any], account: str, region: str
    ) -> tuple[Access, ...]:
        """Return the accesses that an operation needs."""
        ...


class Caller:
    """The `Permit` of one caller, with its accesses. Thread-safe."""

    def __init__(self, callers: Callers, identity: Identity) -> None:
        self.identity = identity
        self.entries = Entries(identity)
        self._callers = callers
        self._judge = judge = callers.judge
        self._clock, self._lock = judge.clock, judge.lock
        self._enforces = callers.enforces

    def of_session(self, identity: Identity) -> Caller:
        """Return this caller in one of its sessions, which differ in the time when they were issued."""
        if identity.issued_ms == self.identity.issued_ms:
            return self
        other = copy.copy(self)
        other.identity = identity
        return other

    @property
    def acting(self) -> CallerIdentity | None:
        """See `Permit.acting`."""
        identity = self.identity
        if identity.kind == "key":
            known = self._callers.user_of(identity.name)
            if known is None:
                return None
            identity = known
        return CallerIdentity(
            identity.arn,
            identity.session,
            identity.source_arn,
            policy=identity.policy,
            policy_arns=identity.policy_arns,
        )

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """See `Permit.ask`."""
        for access in self._callers.accesses(service, operation, params, account, region):
            sentence = self._note(key_of(access), access)
            if sentence:
                raise refusal(service, sentence, access.action)

    def ask_for(self, service: str, action: str, resource: str, of: str = "") -> None:
        """See `Permit.ask_for`."""
        if action.startswith("kms:"):
            sentence = self._sentence_via(service, action, resource, of)
        else:
            sentence = self.sentence_of((action, resource), action, resource)
        if sentence:
            raise refusal(service, sentence, action)

    def denial(self, action: str, resource: str, context: Mapping[str, tuple[str, ...]]) -> str:
        """See `Permit.denial`."""
        return self.sentence_in(with_keys(Access.to(action, resource), context))

    def _sentence_via(self, service: str, action: str, key: str, of: str) -> str:
        """Note the use of a key by a service; return AWS's sentence when it is to be refused."""
        entry = self.entries.by_key.get((action, key, of))
        if entry is not None:
            return self._describe_seen(entry)
        return self._note((action, key, of), use_of_key(service, action, key, of))

    def sentence_of(self, key: EntryKey, action: str, resource: str) -> str:
        """Note an access; return AWS's sentence when it is to be refused."""
        entry = self.entries.by_key.get(key)
        if entry is None:
            return self._note(key, Access.to(action, resource))
        return self._describe_seen(entry)

    def sentence_in(self, access: Access) -> str:
        """Note an access with condition keys of its own; return AWS's sentence when it is to be refused."""
        return self._note(key_of(access), access)

    def note(self, action: str, resource: str) -> None:
        """Note an access, to be judged later."""
        with self._lock:
            now_ms = self._clock.now_ms()
            entry = self.entries.entry_of((action, resource), Access.to(action, resource), now_ms)
        self._note_pending(entry)

    def _note(self, key: EntryKey, access: Access) -> str:
        now_ms = self._clock.now_ms()
        with self._lock:
            entry = self.entries.entry_of(key, access, now_ms)
        if entry.samples is not None and self._enforces:
            one = Entry(self.identity, access)
            return self._judge.decide(self.identity, one) or ""
        return self._describe_seen(entry)

    def _describe_seen(self, entry: Entry) -> str:
        if self._enforces:
            entry.last_ms = self._clock.now_ms()
            sentence = self._judge.decide(self.identity, entry)
            with self._lock:
                if sentence:
                    entry.denied += 1
                    entry.denied_ms = entry.last_ms
                else:
                    entry.allowed += 1
                self._judge.changes += 1
            return sentence or ""
        self._note_pending(entry)
        return ""

    def _note_pending(self, entry: Entry) -> None:
        with self._lock:
            entry.pending += 1
            if entry.pending > 1:
                return
            entry.identity = self.identity
            # `settle` sets the time of the last of many, within a second; setting it here would cost time on each call.
            entry.last_ms = self._clock.now_ms()
            self._judge.waiting.append(entry)
