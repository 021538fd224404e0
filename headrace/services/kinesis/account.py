"""Account settings: the minimum throughput billing commitment, by account and region.

Source: API_UpdateAccountSettings and the developer guide's page on on-demand Advantage (documented): the
commitment lasts 24 hours at least; ended earlier, it goes on until then.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from headrace.store.database import Documents

COMMITMENT_MS = 24 * 3_600_000

CommitmentStatus = Literal["ENABLED", "DISABLED", "ENABLED_UNTIL_EARLIEST_ALLOWED_END"]


@dataclass(frozen=True, slots=True)
class Commitment:
    """A commitment since `started_ms` (0: never made); `ends_ms` is None while nobody has ended it."""

    started_ms: int = 0
    ends_ms: int | None = 0

    @property
    def earliest_end_ms(self) -> int:
        """When it may end at the earliest."""
        return self.started_ms + COMMITMENT_MS

    def status(self, now_ms: int) -> CommitmentStatus:
        """Return AWS's word for it."""
        if self.ends_ms is None:
            return "ENABLED"
        return "ENABLED_UNTIL_EARLIEST_ALLOWED_END" if self.ends_ms > now_ms else "DISABLED"


class AccountSettings:
    """Commitments, durable when `set` returns. Thread-safe; changes are made under the service's lock."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: dict[str, Commitment] = {
            key: Commitment(**value) for key, value in documents.items("commitment/")
        }

    def commitment(self, account: str, region: str) -> Commitment:
        """Return an account's commitment in a region."""
        return self._known.get(_key(account, region), Commitment())

    def is_committed(self, account: str, region: str, now_ms: int) -> bool:
        """Whether the account's on-demand streams are of the Advantage kind."""
        return self.commitment(account, region).status(now_ms) != "DISABLED"

    def set(self, account: str, region: str, commitment: Commitment) -> None:
        """Store a changed commitment."""
        key = _key(account, region)
        self._documents.put(key, asdict(commitment))
        self._known[key] = commitment


def _key(account: str, region: str) -> str:
    return f"commitment/{account}/{region}"
