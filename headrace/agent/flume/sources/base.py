"""What every source is."""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """A source. Its intake counts what it does."""

    @property
    def ends(self) -> bool:
        """Whether it comes to an end by itself: `--once` waits for it."""
        ...

    def run(self, *, once: bool) -> None:
        """Put events until the intake stops, or, `once`, until there are no more. Raises OSError, Stopped."""
        ...
