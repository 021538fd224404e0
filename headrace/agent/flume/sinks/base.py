"""What every sink is."""

from __future__ import annotations

from typing import Protocol

from headrace.agent.flume.channels import MemoryChannel
from headrace.agent.flume.intake import Counts


class Sink(Protocol):
    """A sink. For one thread at a time."""

    channel: MemoryChannel
    counts: Counts

    def process(self, timeout_s: float) -> bool:
        """Deliver a transaction; return whether there was anything within the time.

        Raises SinkFailed: then what was not delivered is in the channel again.
        """
        ...

    def close(self) -> None:
        """Deliver what is held back, and close. Raises SinkFailed."""
        ...
