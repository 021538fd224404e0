"""What a capture writes to."""

from __future__ import annotations

from typing import Protocol

from headrace.cdc.changes import Change


class Sink(Protocol):
    """Takes changes in the order of the database. Used by one thread. Raises CaptureError when it cannot go on.

    Attributes:
        home: the server's system id and the database in which it has the rows themselves, and so the large values that
            an update leaves alone; None when it has only events.
    """

    home: tuple[str, str] | None

    def resume(self) -> int:
        """Forget the unfinished transaction; return the LSN that the sink itself keeps, else 0."""
        ...

    def begin_snapshot(self) -> None:
        """Prepare for all rows; what an unfinished snapshot left is to go."""
        ...

    def take(self, change: Change) -> None:
        """Take a change; it may still be in memory when this returns. Does not block for long."""
        ...

    def commit(self, end_lsn: int) -> None:
        """Note that a transaction, or the snapshot, is complete with this LSN."""
        ...

    def safe_lsn(self) -> int:
        """Return the last `end_lsn` up to which everything is durable; 0 for none yet."""
        ...

    def is_full(self) -> bool:
        """Whether the next change must wait."""
        ...

    def is_idle(self) -> bool:
        """Whether nothing that was taken is still on its way."""
        ...

    def flush(self) -> None:
        """Wait until everything that was taken is durable."""
        ...

    def close(self) -> None:
        """Flush, and let go."""
        ...
