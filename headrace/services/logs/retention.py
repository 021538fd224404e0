"""Drops log events that are older than their group's retention; moto keeps them for ever."""

from __future__ import annotations

from collections.abc import Callable

from headrace.moto.storage.changes import MOTO_LOCK

LOOK_AT_LOGS_EVERY_S = 60.0


class LogRetention:
    """A `Worker` that drops log events that are older than their group's retention."""

    name = "moto-retention"

    def __init__(self, is_loaded: Callable[[], bool]) -> None:
        self._is_loaded = is_loaded

    def step(self) -> float:
        """Check every group."""
        if self._is_loaded():
            from headrace.services.logs.patches import trim_all

            with MOTO_LOCK:
                trim_all()
        return LOOK_AT_LOGS_EVERY_S
