"""The warm processes of one function version: lent to invocations, closed when they have been idle for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from headrace.core.clock import Clock
from headrace.core.ports import FunctionThrottled
from headrace.services.lambda_.limits import SANDBOX_WAIT_SECONDS
from headrace.services.lambda_.runtime.platform_log import Broken
from headrace.services.lambda_.runtime.sandbox import Sandbox


class SandboxPool:
    """Lends sandboxes to invoking threads and keeps them warm between. Thread-safe.

    `most`, how many there may be, may be set: it holds from the next sandbox on. `folders` are those of the code and
    the layers that its sandboxes run.
    """

    def __init__(
        self,
        make: Callable[[], Sandbox],
        *,
        most: int,
        clock: Clock,
        folders: frozenset[Path] = frozenset(),
    ) -> None:
        self._make = make
        self.most = most
        self.folders = folders
        self._clock = clock
        self._changed = threading.Condition()
        # The last used is lent first, so that surplus ones grow idle and expire.
        self._idle: list[Sandbox] = []
        self._lent: set[Sandbox] = set()
        self._draining = False
        # How many are kept however long they idle: provisioned concurrency.
        self._least = 0

    @property
    def is_busy(self) -> bool:
        """Whether a sandbox is lent."""
        return bool(self._lent)

    def acquire(self) -> Sandbox:
        """Return a warm sandbox, or a new one, or wait for one.

        Raises FunctionThrottled when none came free for a long time.
        """
        deadline_s = self._clock.monotonic_s() + SANDBOX_WAIT_SECONDS
        with self._changed:
            while True:
                while self._idle:
                    sandbox = self._idle.pop()
                    if sandbox.usable:
                        self._lent.add(sandbox)
                        return sandbox
                    sandbox.close()
                if len(self._lent) < self.most:
                    sandbox = self._make()
                    self._lent.add(sandbox)
                    return sandbox
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise FunctionThrottled
                self._changed.wait(left_s)

    def release(self, sandbox: Sandbox) -> None:
        """Take a sandbox back; it is kept when it was not killed and the pool is not draining."""
        with self._changed:
            self._lent.discard(sandbox)
            # A process that has died unasked is noticed before it is lent again.
            keep = not (sandbox.is_killed or self._draining)
            if keep:
                self._idle.append(sandbox)
            self._changed.notify()
        if not keep:
            sandbox.close()

    def provision(self, least: int, make: Callable[[], Sandbox]) -> Broken | None:
        """Keep at least `least` sandboxes initialised; return why one could not be, if so."""
        self._least = min(least, self.most)
        while True:
            with self._changed:
                if self._draining or len(self._idle) + len(self._lent) >= self._least:
                    return None
                sandbox = make()
                self._lent.add(sandbox)
            broken = sandbox.initialise()
            self.release(sandbox)
            if broken is not None:
                return broken

    def unprovision(self) -> None:
        """Let every idle sandbox expire from now on."""
        self._least = 0

    def expire(self, idle_s: float) -> None:
        """Close sandboxes that nobody has used for `idle_s`, and those that died."""
        now_s = self._clock.monotonic_s()
        with self._changed:
            surplus = len(self._idle) + len(self._lent) - self._least
            old = [s for s in self._idle if now_s - s.idle_since_s >= idle_s][: max(surplus, 0)]
            old += [s for s in self._idle if not s.usable and s not in old]
            self._idle = [s for s in self._idle if s not in old]
        for sandbox in old:
            sandbox.close()

    def drain(self) -> None:
        """Close idle sandboxes now, and lent ones when they come back."""
        with self._changed:
            self._draining = True
            idle, self._idle = self._idle, []
        for sandbox in idle:
            sandbox.close()

    def kill(self) -> None:
        """Drain, and kill what is running: its invocations fail."""
        self.drain()
        with self._changed:
            lent = list(self._lent)
        for sandbox in lent:
            sandbox.kill()
