"""Decides on every caller's accesses as AWS would, notes the decisions and, with `--iam enforce`, refuses.

In report mode a call only increases a counter: a new access is judged later, by a worker, when the report is requested,
or before a policy changes. In enforce mode it is judged at once; decisions are cached until policies change.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from headrace.aws.calls.operation import Permit, is_restricted, name_of_root
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.core.clock import Clock
from headrace.core.config import Iam
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.caller import Caller, Entries, Entry, key_of
from headrace.permissions.decisions.identity import (
    NOT_IN_IAM,
    Identity,
    at,
    identity_of,
    identity_of_session,
    with_tags,
)
from headrace.permissions.policies.evaluate import denial, evaluate
from headrace.permissions.policies.model import (
    Access,
    Context,
    Decision,
    NamedPolicy,
    Policies,
    Principal,
)
from headrace.permissions.requests.accesses import accesses_of, needs_nothing, why_unknown
from headrace.permissions.requests.keys import (
    FindIn,
    Grants,
    actions_on_key,
    is_granted,
    uses_of_key,
    with_keys,
)
from headrace.permissions.requests.table import only_by_name
from headrace.store.database import without_note

log = logging.getLogger(__name__)

JUDGE_EVERY_S = 1.0
MOST_CALLERS = 2_000
MOST_UNKNOWN = 1_000
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


# Returns the policy of an access's resource; None when it has none.
ResourcePolicy = Callable[[Access], NamedPolicy | None]
# Actions for which the service asks itself, since only it knows the resource: Kinesis knows an iterator's stream.
_ASKED_INSIDE = frozenset({("kinesis", "GetRecords")})


class Decisions:
    """Implements `Permissions` and `Guard`, and is the `Worker` that decides. Thread-safe."""

    name = "iam"

    def __init__(
        self,
        mode: Iam,
        *,
        clock: Clock,
        sessions: RoleSessions,
        people: UsersAndRoles,
        resource_policy: ResourcePolicy,
        find: FindIn,
        grants: Grants,
        tags: Callable[[str], Mapping[str, str]],
        account: str,
        region: str,
    ) -> None:
        """Take the cloud's own account and region too, for resources that users name without them."""
        self.mode = mode
        # See `Permissions.enforces`.
        self.enforces = mode == "enforce"
        self.people = people
        self.account, self.region = account, region
        self.clock = clock
        self._sessions = sessions
        self._resource_policy = resource_policy
        self._find = find
        self._grants = grants
        self.tags_of = tags
        self.lock = threading.Lock()
        self._judging = threading.RLock()
        self._by_token: dict[tuple[str, str], Caller | None] = {}
        self._callers: dict[Identity, Caller] = {}
        self.waiting: list[Entry] = []
        # Operations with unknown accesses, with the reason.
        self.unknown: dict[tuple[str, str], int] = {}
        # A counter that grows with each noted access; `on_clear` is called when all are cleared.
        self.changes = 0
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
        with self.lock:
            if len(self._by_token) >= MOST_CALLERS:
                self._by_token.clear()
            self._by_token[key] = permit
        return permit

    def is_session(self, access_key: str, token: str) -> bool:
        """Whether these are the key and the token of a session of this cloud that has not expired."""
        session = self._sessions.find(access_key, token)
        return session is not None and self.clock.now_ms() < session.expires_ms

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
        with self.lock:
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
        caller, now_ms = self._caller(Identity("provider", principal)), self.clock.now_ms()
        with self.lock:
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
            self.changes += 1

    def user_of(self, access_key: str) -> Identity | None:
        """See `UsersAndRoles.user_of`."""
        return self.people.user_of(access_key)

    # --- judging ------------------------------------------------------------------------------

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

    # --- for the report -----------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return every entry, after judging the waiting ones."""
        self.decide_waiting()
        return self.list_noted()

    def list_noted(self) -> list[Entry]:
        """Return every entry, judged or not."""
        with self.lock:
            return [entry for c in self._callers.values() for entry in c.entries.by_key.values()]

    def clear(self) -> int:
        """Remove all entries; return how many there were."""
        with self.lock:
            count = sum(len(caller.entries.by_key) for caller in self._callers.values())
            for caller in self._callers.values():
                caller.entries = Entries(caller.identity)
            self.waiting.clear()
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
                with self.lock:
                    self.waiting.append(entry)
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
        with self.lock:
            key = (service, operation)
            if key in self.unknown or len(self.unknown) < MOST_UNKNOWN:
                self.unknown[key] = self.unknown.get(key, 0) + 1


def _from_source(access: Access, service: Identity) -> Access:
    """Return an access with the condition keys for the resource for which a service acts."""
    arn = service.source_arn
    account = service.source_account or arn.split(":")[4]
    source = {"aws:sourcearn": (arn,), "aws:sourceaccount": (account,)}
    return replace(access, context={**access.context, **source})


def _with_resource(own: Policies, resource: NamedPolicy | None) -> Policies:
    return Policies(own.identity, own.boundary, own.session, resource)
