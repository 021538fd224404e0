"""What each caller did: one entry for each action and resource, counted, with what was decided on it. Bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.iam.identity import Identity
from headrace.permissions.model import Access, Decision

# Of one caller: entries, and resources of one action; then those of one folder or bucket share an entry.
MOST_ENTRIES = 2_000
MOST_RESOURCES = 200
# Different resources that an entry of many keeps to be judged; of more, it says how many were not looked at.
MOST_SAMPLES = 64

EntryKey = tuple[Any, ...]


@dataclass(slots=True)
class Entry:
    """An action on a resource, or on all resources below it where the ARN ends in `*`.

    Attributes:
        pending: calls that nobody has judged yet; `allowed` and `denied` count those that were.
        samples: for an entry of many resources, those of the pending calls, as far as they are kept.
        not_judged: calls of an entry of many of which no sample was kept.
        reason: of the last denial, with AWS's sentence.
        version: of the policies by which `decision` was made.
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
    """The entries of one caller. Not thread-safe: whoever has it holds a lock."""

    identity: Identity
    by_key: dict[EntryKey, Entry] = field(default_factory=dict[EntryKey, Entry])
    _resources: dict[str, int] = field(default_factory=dict[str, int])

    def entry_of(self, key: EntryKey, access: Access, now_ms: int) -> Entry:
        """Return the entry of an access, made if it is new; of one too many, that of those of its folder."""
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
        """Take up an entry that was kept."""
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
    """Return what many resources have in common: a bucket's ARN, or all before the last slash or colon."""
    if resource.startswith("arn:aws:s3:::"):
        return resource.partition("/")[0] + "/*"
    head = resource[: max(resource.rfind("/"), resource.rfind(":")) + 1]
    return f"{head}*"


def access_to(action: str, resource: str) -> Access:
    """Return an access of which no more is known than the ARN says."""
    if not resource.startswith("arn:"):
        return Access(action, resource)
    _, _, _, region, account, _ = resource.split(":", 5)
    context = {"aws:requestedregion": (region,)} if region else {}
    return Access(action, resource, account, context)


def key_of(access: Access) -> EntryKey:
    """Return the key of an access: that of `ask_for` where no more is known of it than the ARN says."""
    context = access.context
    region = context.get("aws:requestedregion")
    if len(context) == 1 and region and f":{region[0]}:" in access.resource:
        return (access.action, access.resource)
    return (access.action, access.resource, *sorted(context.items()))
