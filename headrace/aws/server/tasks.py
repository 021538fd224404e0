"""Starts tasks of the event loop, and logs those that fail."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger(__name__)


def log_failure(task: asyncio.Task[None]) -> None:
    """Log what a finished task raised; for `add_done_callback`."""
    if not task.cancelled() and task.exception() is not None:
        log.error("a connection failed", exc_info=task.exception())
