"""Notes every caller's accesses and what AWS would decide on them and, with `--iam enforce`, refuses.

In report mode a call only increases a counter, and the access is judged later. In enforce mode it is judged at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.aws.calls.operation import Permit, is_restricted, name_of_root
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.config import Iam
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.caller import Caller, Entries, Entry, key_of
from headrace.permissions.decisions.identity import Identity, identity_of, identity_of_session
from headrace.permissions.decisions.judge import Judge
from headrace.permissions.policies.model import Access, Context
from headrace.permissions.requests.accesses import accesses_of, needs_nothing, why_unknown
from headrace.permissions.requests.keys import (
    FindIn,
    actions_on_key,
    uses_of_key,
    with_keys,
)
from headrace.permissions.requests.table import only_by_name
from headrace.store.notes import without_note

MOST_CALLERS = 2_000
MOST_UNKNOWN = 1_000
# Actions for which the service asks itself, since only it knows the resource: Kinesis knows an iterator's stream.
_ASKED_INSIDE = frozenset({("kinesis", "GetRecords")})


class Decisions:
    """Implements `Permissions` and `Guard`. Thread-safe."""

    def __init__(
        self,
        mode: Iam,
        *,
        judge: Judge,
        sessions: RoleSessions,
        find: FindIn,
        account: str,
        region: str,
    ) -> None:
        """Take the cloud's own account and region too, for resources that users name without them."""
        self.mode = mode
        # See `Permissions.enforces`.
        self.enforces = mode == "enforce"
        self.judge, self.people = judge, judge.people
        self.account, self.region = account, region
        self._lock = judge.lock
        self._sessions = sessions
        self._find = find
        self._by_token: dict[tuple[str, str], Caller | None] = {}
        self._callers: dict[Identity, Caller] = {}
        # Operations with unknown accesses, with the reason.
        self.unknown: dict[tuple[str, str], int] = {}
        # Called when all accesses are cleared.
        self.on_clear: Callable[[], None] = lambda: None

    # --- callers ------------------------------------------------------------------------------

    def permit_of(self, access_key: str, token: str, account: str) -> Permit | None:
        """See `Permissions.permit_of`."""
        if self.mode == "off":
            return None
        permit = self._permit_of_holder(access_key, token) if access_key[:1] == "A" else None
        if permit is None and account != self.account and self.enforces:
            return self._as(CallerIdentity(name_of_root(account)[0]))
        return permit

    def _permit_of_holder(self, access_key: str, token: str) -> Permit | None:
        """Return the permit of a user or a session; None for the account itself."""
        if not is_restricted(access_key):
            return None
        key = (access_key, token)
        try:
            return self._by_token[key]
        except KeyError:
            pass
        identity = self._identity(access_key, token)
        permit = None if identity is None else self._caller(identity).of_session(identity)
        with self._lock:
            if len(self._by_token) >= MOST_CALLERS:
                self._by_token.clear()
            self._by_token[key] = permit
        return permit

    def is_session(self, access_key: str, token: str) -> bool:
        """Whether these are the key and the token of a session of this cloud that has not expired."""
        session = self._sessions.find(access_key, token)
        return session is not None and self.judge.clock.now_ms() < session.expires_ms

    def _identity(self, access_key: str, token: str) -> Identity | None:
        session = self._sessions.find(access_key, token)
        if session is not None:
            return identity_of_session(session)
        return Identity("key", access_key) if access_key.startswith("AKIA") else None

    def name_of(self, access_key: str, token: str) -> tuple[str, str] | None:
        """See `headrace.aws.calls.operation.Callers.name_of`."""
        identity = self._identity(access_key, token)
        if identity is not None and identity.kind == "key":
            identity = self.people.user_of(access_key)
        if identity is None:
            return None
        principal = self.people.principal(identity)
        if principal is not None:
            return principal.arn, principal.user_id
        # A session of a role that IAM does not have.
        role_id = self._sessions.role_id(identity.account, identity.name)
        arn = identity.session_arn
        return arn, f"{role_id}:{identity.session}"

    def permit_as(self, acting: CallerIdentity) -> Permit | None:
        """See `Permissions.permit_as`."""
        return None if self.mode == "off" else self._as(acting)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a cloud has one
    def _as(self, acting: CallerIdentity) -> Caller:
        return self._caller(identity_of(acting))

    def _caller(self, identity: Identity) -> Caller:
        with self._lock:
            caller = self._callers.get(identity)
            if caller is None:
                if len(self._callers) >= MOST_CALLERS:
                    del self._callers[next(iter(self._callers))]
                caller = self._callers[identity] = Caller(self, identity)
            return caller

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Context | None = None
    ) -> str:
        """See `Guard.denial`."""
        if self.mode == "off" or not acting.arn:
            return ""
        if context:
            return self._as(acting).sentence_in(with_keys(Access.to(action, resource), context))
        caller = self._as(acting)
        if sentence := caller.sentence_of((action, resource), action, resource):
            return sentence
        if not actions_on_key(action):
            return ""
        # It may have to use the key that encrypts the resource.
        uses = uses_of_key(self._find, action, resource)
        return next(filter(None, [caller.sentence_in(use) for use in uses]), "")

    def note(self, acting: CallerIdentity, action: str, resource: str) -> None:
        """See `Guard.note`."""
        if self.mode != "off" and acting.arn:
            self._as(acting).note(action, resource)

    def note_decided(self, principal: str, access: Access, sentence: str) -> None:
        """Note what another part has decided, such as IoT for a certificate: AWS's sentence of refusal, or ""."""
        caller, now_ms = self._caller(Identity("provider", principal)), self.judge.clock.now_ms()
        with self._lock:
            entry = caller.entries.entry_of(key_of(access), access, now_ms)
            if entry.samples is not None:
                # It is decided: nothing is left to be judged.
                entry.samples.clear()
            entry.last_ms = now_ms
            if sentence:
                entry.denied += 1
                entry.denied_ms, entry.reason = now_ms, sentence
            else:
                entry.allowed += 1
            self.judge.changes += 1

    def user_of(self, access_key: str) -> Identity | None:
        """See `UsersAndRoles.user_of`."""
        return self.people.user_of(access_key)

    def before_policies_change(self) -> None:
        """See `Permissions.before_policies_change`."""
        self.judge.before_policies_change()

    # --- for the report -----------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return every entry, after judging the waiting ones."""
        self.judge.decide_waiting()
        return self.list_noted()

    def list_noted(self) -> list[Entry]:
        """Return every entry, judged or not."""
        with self._lock:
            return [entry for c in self._callers.values() for entry in c.entries.by_key.values()]

    def clear(self) -> int:
        """Remove all entries; return how many there were."""
        with self._lock:
            count = sum(len(caller.entries.by_key) for caller in self._callers.values())
            for caller in self._callers.values():
                caller.entries = Entries(caller.identity)
            self.judge.waiting.clear()
            self.unknown.clear()
            # Callers of sessions still refer to the old entries.
            self._by_token.clear()
        self.on_clear()
        return count

    def restore(self, entries: Iterable[Entry], unknown: Mapping[tuple[str, str], int]) -> None:
        """Restore the entries that an earlier cloud on this data directory has stored."""
        for entry in entries:
            self._caller(entry.identity).entries.restore(entry)
            if entry.pending:
                with self._lock:
                    self.judge.waiting.append(entry)
        self.unknown.update(unknown)

    def accesses(
        self, service: str, operation: str, params: Mapping[str, Any], account: str, region: str
    ) -> tuple[Access, ...]:
        """Return the accesses that an operation needs; an operation whose accesses are unknown is noted."""
        if (service, operation) in _ASKED_INSIDE:
            return ()
        find = functools.partial(self._find, account, region)
        with without_note():
            known = accesses_of(service, operation, params, account, region, find)
        is_unknown = not known and (why_unknown(service, operation) or only_by_name(service))
        if is_unknown and not needs_nothing(service, operation):
            self.note_unknown(service, operation)
        return known

    def note_unknown(self, service: str, operation: str) -> None:
        """Count an operation whose accesses are unknown."""
        with self._lock:
            key = (service, operation)
            if key in self.unknown or len(self.unknown) < MOST_UNKNOWN:
                self.unknown[key] = self.unknown.get(key, 0) + 1
