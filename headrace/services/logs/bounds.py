"""Limits on the data that moto's services hold only in memory."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.config import DEFAULT_LOG_GROUP_EVENTS, DEFAULT_LOG_GROUP_MIB


@dataclass(slots=True)
class Bounds:
    """How much of a log group is kept; the oldest events are dropped first."""

    events: int = DEFAULT_LOG_GROUP_EVENTS
    bytes: int = DEFAULT_LOG_GROUP_MIB * 1024 * 1024


BOUNDS = Bounds()


def keep_log_groups_within(*, events: int, mib: int) -> None:
    """Set the limits of a log group, for all clouds of this process."""
    BOUNDS.events, BOUNDS.bytes = events, mib * 1024 * 1024
