"""The states in which an event source mapping is in use: Creating, Updating, Enabling, Disabling, Deleting.

They last `--state-delay` seconds, by default none. Meanwhile AWS refuses to change or delete the mapping (documented:
ResourceInUseException of UpdateEventSourceMapping and DeleteEventSourceMapping).
"""

from __future__ import annotations

import threading

from headrace.core.clock import Clock


class Transitions:
    """The mappings that are changing, by UUID; a restart ends all transitions. Thread-safe."""

    def __init__(self, clock: Clock, delay_ms: int) -> None:
        self._clock = clock
        self._delay_ms = delay_ms
        self._lock = threading.Lock()
        self._changing: dict[str, tuple[str, int]] = {}

    def begin(self, uuid: str, state: str) -> None:
        """Let a mapping be in `state` for the delay."""
        if self._delay_ms:
            with self._lock:
                self._changing[uuid] = (state, self._clock.now_ms() + self._delay_ms)

    def find(self, uuid: str) -> str | None:
        """Return the state that a mapping is passing through; None: it is settled."""
        with self._lock:
            state, until_ms = self._changing.get(uuid, ("", 0))
            if state and self._clock.now_ms() < until_ms:
                return state
            self._changing.pop(uuid, None)
        return None
