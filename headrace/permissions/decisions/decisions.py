"""Notes every caller's accesses and what AWS would decide on them and, with `--iam enforce`, refuses.

In report mode a call only increases a counter, and the access is judged later. In enforce mode it is judged at once.
There is one entry for each caller, action and resource, with counts and the decision; bounded.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.aws.calls.operation import Permit, is_restricted, name_of_root
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.arn import s3_path_of
from headrace.core.config import Iam
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.identity import (
    Identity,
    identity_of,
    identity_of_session,
    refusal,
)
from headrace.permissions.decisions.judge import Entry, Judge
from headrace.permissions.policies.model import Access, Context
from headrace.permissions.requests.accesses import accesses_of, needs_nothing, why_unknown
from headrace.permissions.requests.keys import (
    FindIn,
    actions_on_key,
    use_of_key,
    uses_of_key,
    with_keys,
)
from headrace.permissions.requests.table import only_by_name
from headrace.store.notes import without_note

MOST_CALLERS = 2_000
MOST_UNKNOWN = 1_000
# Actions for which the service asks itself, since only it knows the resource: Kinesis knows an iterator's stream.
_ASKED_INSIDE = frozenset({("kinesis", "GetRecords")})
# The most entries of one caller, and resources of one action; beyond that, resources of one folder or bucket share an
# entry.
MOST_ENTRIES = 2_000
MOST_RESOURCES = 200
# How many different resources a shared entry keeps to be judged; further ones only count in `not_judged`.
MOST_SAMPLES = 64

EntryKey = tuple[Any, ...]


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


class Caller:
    """The `Permit` of one caller, with its accesses. Thread-safe."""

    def __init__(self, callers: Decisions, identity: Identity) -> None:
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
