"""Handles Ctrl-C and closed pipes: a command ends quietly, with the exit code that shells give for the signal.

While a command is being imported and its arguments are parsed, there is nothing to clean up: Ctrl-C ends the process at
once. A running command gets KeyboardInterrupt or, when it must not be interrupted at an arbitrary line, polls
`StopSignals`.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# 128 plus the number of the signal, as in a shell.
INTERRUPTED = 130
BROKEN_PIPE = 141
# The signals that end a cloud.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_at_once() -> None:
    """From now on, Ctrl-C ends the process at once, unless the process was started with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


def leave() -> None:
    """End the process at once."""
    os._exit(INTERRUPTED)


def _leave(_number: int, _frame: FrameType | None) -> None:
    leave()


@contextmanager
def interruptible() -> Generator[None]:
    """Make Ctrl-C raise KeyboardInterrupt inside the `with` block, instead of ending the process at once."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        leave_at_once()


def let_children_be_interrupted() -> None:
    """Let child processes receive SIGINT, even when this process was started with SIGINT ignored (`nohup`, `&`).

    Children inherit an ignored signal, and then a step could not be interrupted; they do not inherit a handler. For the
    main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)


class StopSignals:
    """Records the signals that ask a command to stop; the command checks for them itself. For the main thread.

    A signal that was ignored when the command started (`nohup`, `&` in a script) stays ignored.

    Attributes:
        number: the first signal that came; None before one came.
    """

    def __init__(
        self, *signals: signal.Signals, again: Callable[[], object] = lambda: None
    ) -> None:
        """Record the first of `signals`; `again` is called for every later one, which is ignored by default."""
        self.number: int | None = None
        self._again = again
        self._raises = False
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._pipe: tuple[int, int] | None = None
        self._before = {
            number: handler
            for number in signals
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }

    def __enter__(self) -> StopSignals:
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._pipe is not None:
            os.close(self._pipe[1])

    def __bool__(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """The exit code that shells give for the signal; 0 when none has come."""
        return 0 if self.number is None else 128 + self.number

    def call_when_asked(self, callback: Callable[[], object]) -> None:
        """Call `callback` on another thread when a signal comes, or now if one has come; it may be called twice.

        It is another thread because the main thread may hold the lock that `callback` needs.
        """
        with self._lock:
            self._callbacks.append(callback)
            if self._pipe is None:
                self._pipe = os.pipe()
                threading.Thread(target=self._wait, args=(self._pipe[0],), daemon=True).start()
        if self:
            callback()

    @contextmanager
    def raising(self) -> Generator[None]:
        """Make a signal raise KeyboardInterrupt inside the `with` block, which may wait for long."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self:
            self._again()
            return
        self.number = number
        if self._pipe is not None:
            os.write(self._pipe[1], b"!")
        if self._raises:
            raise KeyboardInterrupt

    def _wait(self, descriptor: int) -> None:
        if os.read(descriptor, 1):
            with self._lock:
                callbacks = list(self._callbacks)
            for callback in callbacks:
                callback()
        os.close(descriptor)


def silence_output() -> None:
    """Discard all further output to standard output."""
    descriptor = _output_descriptor()
    if descriptor is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _output_descriptor() -> int | None:
    """Return standard output's file descriptor; None when it is closed or has none."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def reader_is_gone() -> bool:
    """Whether standard output is a pipe without a reader; otherwise only the next write would find out."""
    descriptor = _output_descriptor()
    if descriptor is None:
        return False
    poll = select.poll()
    # Without any requested event, poll still reports errors and hang-ups.
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def escape_unprintable_output() -> None:
    """Print characters that the locale cannot show as escapes: a file's name may be any bytes."""
    stdout: Any = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")
