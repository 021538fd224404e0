"""Why a record was not stored."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.services.kinesis.throttle import THROTTLED


@dataclass(frozen=True, slots=True)
class Refused:
    """AWS's code and sentence, as PutRecords gives them for one record."""

    code: str
    message: str

    @property
    def status(self) -> int:
        """The HTTP status of a PutRecord that fails with it."""
        return 400 if self.code == THROTTLED else 500
