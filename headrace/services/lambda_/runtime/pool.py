"""The warm execution environments of one function version: lent to invocations, closed when idle for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.core.clock import Clock
from headrace.core.ports import FunctionThrottled
from headrace.services.lambda_.limits import SANDBOX_WAIT_SECONDS
from headrace.services.lambda_.runtime.channel import Invocation
from headrace.services.lambda_.runtime.environment import SandboxSpec
from headrace.services.lambda_.runtime.outcome import AnswerSink, Outcome
from headrace.services.lambda_.runtime.platform_log import Broken


class ExecutionEnvironment(Protocol):
    """What runs one invocation of a function after the other: a process (`Sandbox`), or a test's stand-in for one.

    Used by one thread at a time; only `kill` may be called from another.

    Attributes:
        log_stream: where what it prints is found.
        is_killed: it is not used again.
        idle_since_s: on the clock's `monotonic_s`.
    """

    log_stream: str
    is_killed: bool
    idle_since_s: float

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        ...

    @property
    def usable(self) -> bool:
        """Whether another invocation may be sent."""
        ...

    def invoke(self, invocation: Invocation, sink: AnswerSink | None = None) -> Outcome:
        """Run one invocation to its end; `sink` takes a streamed answer."""
        ...

    def initialise(self) -> Broken | None:
        """Get ready before anybody needs it; return why that failed, if it did."""
        ...

    def kill(self) -> None:
        """End it; the thread that invokes it gets an error."""
        ...

    def close(self) -> None:
        """End it and free what it holds. Not while an invocation runs."""
        ...


class SandboxPool:
    """Lends sandboxes to invoking threads and keeps them warm between. Thread-safe.

    `most`, how many there may be, may be set: it holds from the next sandbox on. `folders` are those of the code and
    the layers that its sandboxes run.
    """

    def __init__(
        self,
        make: Callable[[], ExecutionEnvironment],
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
        self._idle: list[ExecutionEnvironment] = []
        self._lent: set[ExecutionEnvironment] = set()
        self._draining = False
        # How many are kept however long they idle: provisioned concurrency.
        self._least = 0

    @property
    def is_busy(self) -> bool:
        """Whether a sandbox is lent."""
        return bool(self._lent)

    def acquire(self) -> ExecutionEnvironment:
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

    def release(self, sandbox: ExecutionEnvironment) -> None:
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

    def provision(self, least: int, make: Callable[[], ExecutionEnvironment]) -> Broken | None:
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
