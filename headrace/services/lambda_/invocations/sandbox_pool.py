"""The warm sandboxes of a function's version, which are lent to one invocation after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.core.clock import Clock
from headrace.core.ports import FunctionThrottled
from headrace.services.lambda_.errors import SANDBOX_WAIT_SECONDS
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.services.lambda_.runtime.messages import Invocation
from headrace.services.lambda_.runtime.platform_log import AnswerSink, Outcome, ProcessBroken


class ExecutionEnvironment(Protocol):
    """Runs invocations of a function, one after another: a process (`Sandbox`), or a test's stand-in for one.

    Only one thread may use it at a time; only `kill` may be called from another thread.

    Attributes:
        log_stream: the log stream of its output.
        is_killed: whether it was killed, so that it must not be used again.
        idle_since_s: when its last invocation ended, in the clock's `monotonic_s`.
    """

    log_stream: str
    is_killed: bool
    idle_since_s: float

    @property
    def spec(self) -> SandboxSpec:
        """The settings that it was made from."""
        ...

    @property
    def usable(self) -> bool:
        """Whether it can run another invocation."""
        ...

    def invoke(self, invocation: Invocation, sink: AnswerSink | None = None) -> Outcome:
        """Run one invocation to its end. `sink` gets the parts of a streamed response."""
        ...

    def initialise(self) -> ProcessBroken | None:
        """Initialise before the first invocation. Return the error if this fails, otherwise None."""
        ...

    def kill(self) -> None:
        """Kill it; a running invocation fails."""
        ...

    def close(self) -> None:
        """End it and free its resources. Must not be called during an invocation."""
        ...


class SandboxPool:
    """Lends sandboxes to invoking threads, and keeps them warm between invocations. Thread-safe.

    `most` returns the largest number of sandboxes, which limits the creation of new ones. `folders` are the folders
    of code and layers that its sandboxes use. While `is_draining`, released sandboxes are closed.
    """

    def __init__(
        self,
        make: Callable[[], ExecutionEnvironment],
        *,
        most: Callable[[], int],
        clock: Clock,
        folders: frozenset[Path] = frozenset(),
    ) -> None:
        self._make = make
        self._most = most
        self.folders = folders
        self._clock = clock
        self._changed = threading.Condition()
        # The sandbox that was used last is lent first, so that surplus ones stay idle and expire.
        self._idle: list[ExecutionEnvironment] = []
        self._lent: set[ExecutionEnvironment] = set()
        # How many threads wait for a sandbox.
        self._waiting = 0
        self.is_draining = False
        # The number of sandboxes that never expire: provisioned concurrency.
        self._least = 0

    @property
    def is_busy(self) -> bool:
        """Whether a sandbox is lent."""
        return bool(self._lent)

    def acquire(self) -> ExecutionEnvironment:
        """Return a warm sandbox or a new one, or wait until one is released.

        Raises FunctionThrottled when the wait takes too long.
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
                if len(self._lent) < self._most():
                    sandbox = self._make()
                    self._lent.add(sandbox)
                    return sandbox
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise FunctionThrottled
                self._waiting += 1
                self._changed.wait(left_s)
                self._waiting -= 1

    def take_idle(self) -> ExecutionEnvironment | None:
        """Return an idle sandbox; None when there is none, or when others wait for one. Never blocks."""
        with self._changed:
            if not self._idle or self._waiting or not self._idle[-1].usable:
                return None
            sandbox = self._idle.pop()
            self._lent.add(sandbox)
            return sandbox

    def release(self, sandbox: ExecutionEnvironment) -> None:
        """Take a sandbox back. Close it if it was killed or the pool is draining; otherwise keep it warm."""
        with self._changed:
            self._lent.discard(sandbox)
            # A process that has died by itself is noticed before it is lent again.
            keep = not (sandbox.is_killed or self.is_draining)
            if keep:
                self._idle.append(sandbox)
            self._changed.notify()
        if not keep:
            sandbox.close()

    def provision(
        self, least: int, make: Callable[[], ExecutionEnvironment]
    ) -> ProcessBroken | None:
        """Keep at least `least` initialised sandboxes. Return the error if one cannot be initialised."""
        self._least = min(least, self._most())
        while True:
            with self._changed:
                if self.is_draining or len(self._idle) + len(self._lent) >= self._least:
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
        """Close idle sandboxes now, and lent ones when they are released."""
        with self._changed:
            self.is_draining = True
            idle, self._idle = self._idle, []
        for sandbox in idle:
            sandbox.close()

    def kill(self) -> None:
        """Drain, and kill the lent sandboxes; their invocations fail."""
        self.drain()
        with self._changed:
            lent = list(self._lent)
        for sandbox in lent:
            sandbox.kill()
