"""Notes the accesses of one caller and, with `--iam enforce`, refuses those that IAM denies."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from headrace.core.clock import Clock
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.entries import Entries, Entry, EntryKey, access_to, key_of
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.decisions.key_uses import use_of_key, with_keys
from headrace.permissions.decisions.refusals import refusal
from headrace.permissions.policies.model import Access


class Decider(Protocol):
    """Decides on the accesses of all callers. Thread-safe.

    Attributes:
        clock: gives the time of an access.
        lock: guards the entries of all callers.
        changes: a counter that grows with each decision; changed with the lock held.
    """

    clock: Clock
    lock: threading.Lock
    changes: int

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

    def decide(self, identity: Identity, entry: Entry) -> str | None:
        """Return AWS's sentence of refusal; None for an access that AWS allows."""
        ...

    def later(self, entry: Entry) -> None:
        """Queue an entry, to be judged by the worker."""
        ...


class Caller:
    """The `Permit` of one caller, with its accesses. Thread-safe."""

    def __init__(self, decisions: Decider, identity: Identity) -> None:
        self.identity = identity
        self.entries = Entries(identity)
        self._decisions = decisions
        self._clock = decisions.clock
        self._lock = decisions.lock
        self._enforces = decisions.enforces

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
            known = self._decisions.user_of(identity.name)
            if known is None:
                return None
            identity = known
        return CallerIdentity(identity.arn, identity.session, identity.source_arn)

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """See `Permit.ask`."""
        for access in self._decisions.accesses(service, operation, params, account, region):
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
        return self.sentence_in(with_keys(access_to(action, resource), context))

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
            return self._note(key, access_to(action, resource))
        return self._describe_seen(entry)

    def sentence_in(self, access: Access) -> str:
        """Note an access with condition keys of its own; return AWS's sentence when it is to be refused."""
        return self._note(key_of(access), access)

    def note(self, action: str, resource: str) -> None:
        """Note an access, to be judged later."""
        with self._lock:
            now_ms = self._clock.now_ms()
            entry = self.entries.entry_of((action, resource), access_to(action, resource), now_ms)
        self._note_pending(entry)

    def _note(self, key: EntryKey, access: Access) -> str:
        now_ms = self._clock.now_ms()
        with self._lock:
            entry = self.entries.entry_of(key, access, now_ms)
        if entry.samples is not None and self._enforces:
            one = Entry(self.identity, access)
            return self._decisions.decide(self.identity, one) or ""
        return self._describe_seen(entry)

    def _describe_seen(self, entry: Entry) -> str:
        if self._enforces:
            entry.last_ms = self._clock.now_ms()
            sentence = self._decisions.decide(self.identity, entry)
            with self._lock:
                if sentence:
                    entry.denied += 1
                    entry.denied_ms = entry.last_ms
                else:
                    entry.allowed += 1
                self._decisions.changes += 1
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
        self._decisions.later(entry)
