"""Bounds every evaluation of a text that a client wrote: expressions, templates, queries, patterns.

There are two kinds of engines, and one rule for both. Our own engines run in this process and count what they do with
a `Budget`: steps, the size of every value, processor time. Engines that are not ours (`jsonata`, `jq`, `jsonpath-ng`)
run in the child processes of `POOL`, with limits of the kernel. Either way an evaluation that is not quick waits for
one of a few places (`Turns`), which callers get in turn; so no caller's evaluations hold up another's, and the memory
that all evaluations use together is bounded. A bound that is exceeded raises `TooMuch`; the caller answers with AWS's
error. How deep a text may nest is its parser's own bound.

A new request to a child process gets one with little processor time: enough for all usual ones. One that does not end
in it is started again in a slower lane, with more time, fewer processes and a lower priority. So a dozen endless
expressions hold an honest one up by a dozen short times, not by a dozen long ones, and a long honest one still ends. An
evaluation has no effects, so it may be started again.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from headrace.core.evaluation import child
from headrace.core.evaluation.budget import (
    LARGE,
    Budget,
    Ledger,
    Stopped,
    TooMuch,
    Turns,
    bound_parsed_bytes,
    check_json_size,
    text_size,
)

# Each process may use this much address space: with all lanes full, 3 GB.
MEMORY_BYTES = 384 * 1024 * 1024
_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine: a Python file with a function `answer`, which `headrace.core.evaluation.child` runs."""

    program: Path


@dataclass(frozen=True, slots=True)
class Lane:
    """How much processor time an evaluation has in a lane, how many run at a time, and how low their priority is."""

    cpu_s: float
    processes: int
    nice: int


LANES = (Lane(0.1, 4, 0), Lane(0.6, 2, 5), Lane(5.0, 2, 10))


class _Failed(Exception):
    """There is no answer. `is_slow` when the request's processor time, or its answer, exceeded the bound."""

    def __init__(self, *, is_slow: bool) -> None:
        super().__init__()
        self.is_slow = is_slow


class _Process:
    """A child process with an engine. Used by one thread at a time; any thread may call `kill`."""

    def __init__(self, engine: Engine, nice: int) -> None:
        self.engine = engine
        self.topic = ""
        self.has_ended = False
        # -I: it ignores the environment and the user's folders; the engines' packages are found as in this process.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD), str(engine.program), str(nice), str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            close_fds=True,
            # A group of its own: `kill` ends the process and its copy.
            start_new_session=True,
        )

    def ask(self, request: bytes, cpu_s: float) -> bytes:
        """Return the engine's answer. Raises _Failed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(child.REQUEST.pack(cpu_s, len(request)))
            process.stdin.write(request)
            process.stdin.flush()
            header = process.stdout.read(child.ANSWER.size)
            if len(header) < child.ANSWER.size:
                raise EOFError
            length, how = child.ANSWER.unpack(header)
            answer = process.stdout.read(length)
            if len(answer) < length:
                raise EOFError
        except (OSError, EOFError):
            self.has_ended = True
            raise _Failed(is_slow=False) from None
        if how != child.ANSWERED:
            raise _Failed(is_slow=how == child.SLOW)
        return answer

    def kill(self) -> None:
        """Make the process end; the thread that asked it sees that."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End the process."""
        process = self._process
        self.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # The last request may still be in the pipe's buffer.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        process.wait()


class Pool:
    """The child processes of all engines. Thread-safe. They start when they are needed."""

    def __init__(self, lanes: tuple[Lane, ...] = LANES) -> None:
        """Take the lanes, from the quickest to the slowest."""
        self._lanes = [(lane, Turns(lane.processes)) for lane in lanes]
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    def ask(
        self,
        engine: Engine,
        request: bytes,
        *,
        caller: str,
        topic: str = "",
        most_cpu_s: float = 5.0,
    ) -> bytes:
        """Return an engine's answer. Raises TooMuch when it takes too much time or memory, and Stopped.

        Args:
            engine: the engine.
            request: as the engine takes it; it may be sent several times.
            caller: whose evaluation it is: callers get the processes in turn.
            topic: requests of one topic go to a process that had one of it, where possible.
            most_cpu_s: how much processor time the evaluation may take.
        """
        for number, (lane, turns) in enumerate(self._lanes):
            cpu_s = min(lane.cpu_s, most_cpu_s)
            with turns.place(caller):
                process = self._take(engine, topic, lane, is_first=number == 0)
                try:
                    return process.ask(request, cpu_s)
                except _Failed as failed:
                    if not failed.is_slow:
                        break
                finally:
                    is_stopped = not self._keep(process, topic, is_first=number == 0)
                    if is_stopped:
                        raise Stopped("The cloud stops")
            if cpu_s >= most_cpu_s:
                break
        raise TooMuch("The evaluation takes too much time or memory")

    def close(self) -> None:
        """End all processes: evaluations that run or wait fail with Stopped. The next one starts another process."""
        with self._lock:
            idle, self._idle = self._idle, []
            busy, self._busy = self._busy, set()
        for process in busy:
            process.kill()
        for _, turns in self._lanes:
            turns.stop_waiting()
        for process in idle:
            process.end()

    def _take(self, engine: Engine, topic: str, lane: Lane, *, is_first: bool) -> _Process:
        process: _Process | None = None
        with self._lock:
            if is_first:
                of_engine = [worker for worker in reversed(self._idle) if worker.engine == engine]
                of_topic = (worker for worker in of_engine if worker.topic == topic)
                process = next(of_topic, of_engine[0] if of_engine else None)
                if process is not None:
                    self._idle.remove(process)
        process = process or _Process(engine, lane.nice)
        with self._lock:
            self._busy.add(process)
        return process

    def _keep(self, process: _Process, topic: str, *, is_first: bool) -> bool:
        """Keep a process for the next request, if it is of the first lane; False when `close` has killed it."""
        surplus: list[_Process] = []
        with self._lock:
            is_ours = process in self._busy
            self._busy.discard(process)
            if is_ours and is_first and not process.has_ended:
                process.topic = topic
                self._idle.append(process)
                if len(self._idle) > 2 * self._lanes[0][0].processes:
                    surplus.append(self._idle.pop(0))
            else:
                surplus.append(process)
        for surplus_child in surplus:
            surplus_child.end()
        return is_ours


POOL = Pool()
atexit.register(POOL.close)


__all__ = [
    "POOL",
    "Budget",
    "Engine",
    "Ledger",
    "Pool",
    "Stopped",
    "TooMuch",
    "Turns",
    "bound_parsed_bytes",
    "check_json_size",
    "stop_evaluations",
    "text_size",
]


def stop_evaluations() -> None:
    """Make all evaluations fail with Stopped that wait or run in a child process; for the stop of a cloud."""
    LARGE.stop_waiting()
    POOL.close()
