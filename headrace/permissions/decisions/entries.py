"""The accesses of each caller: one entry for each action and resource, with counts and the decision. Bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.core.arn import s3_path_of
from headrace.permissions.decisions.identity import Identity
from headrace.permissions.policies.model import Access, Decision

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
        found = self.by_key.get(key)
        if found is not None:
            return found
        count = self._resources.get(access.action, 0)
        if count >= MOST_RESOURCES or len(self.by_key) >= MOST_ENTRIES:
            return self._of_many(access, now_ms)
        self._resources[access.action] = count + 1
        made = self.by_key[key] = Entry(self.identity, access, first_ms=now_ms)
        return made

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
        found = self.by_key.get(key)
        if found is None:
            shown = Access(access.action, folder, access.account)
            found = Entry(self.identity, shown, first_ms=now_ms, samples={})
            self.by_key[key] = found
        assert found.samples is not None
        if access in found.samples or len(found.samples) < MOST_SAMPLES:
            found.samples[access] = found.samples.get(access, 0) + 1
        else:
            found.not_judged += 1
        return found


def folder_of(resource: str) -> str:
    """Return the common prefix of many resources: a bucket's ARN, or the ARN up to the last slash or colon."""
    if s3_path_of(resource):
        return resource.partition("/")[0] + "/*"
    head = resource[: max(resource.rfind("/"), resource.rfind(":")) + 1]
    return f"{head}*"


def access_to(action: str, resource: str) -> Access:
    """Return an access for which only action and ARN are known."""
    if not resource.startswith("arn:"):
        return Access(action, resource)
    _, _, _, region, account, _ = resource.split(":", 5)
    context = {"aws:requestedregion": (region,)} if region else {}
    return Access(action, resource, account, context)


def key_of(access: Access) -> EntryKey:
    """Return the key of an access; it is the key of `ask_for` when only action and ARN are known."""
    context = access.context
    region = context.get("aws:requestedregion")
    if len(context) == 1 and region and f":{region[0]}:" in access.resource:
        return (access.action, access.resource)
    return (access.action, access.resource, *sorted(context.items()))
