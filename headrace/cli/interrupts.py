"""Handles Ctrl-C and closed pipes: a command ends quietly, with the exit code that shells give for the signal.

While a command is being imported and its arguments are read, there is nothing to clean up: Ctrl-C ends the process
at once. A command that runs gets KeyboardInterrupt, or, where it must not be cut off at any line, asks `StopAsked`.
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

# 128 and the number of the signal, as a shell counts.
INTERRUPTED = 130
BROKEN_PIPE = 141
# What ends a cloud.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_at_once() -> None:
    """From now on, Ctrl-C ends the process where it is, unless whoever started it has it ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


def leave() -> None:
    """End the process where it is."""
    os._exit(INTERRUPTED)


def _leave(_number: int, _frame: FrameType | None) -> None:
    leave()


@contextmanager
def interruptible() -> Generator[None]:
    """Have Ctrl-C raise KeyboardInterrupt in the block, where it would end the process at once."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        leave_at_once()


def pass_interrupts_on() -> None:
    """Have the programs that this process starts take SIGINT, though it was started with SIGINT ignored (`nohup`, `&`).

    A signal that is ignored is ignored by every child too, and a step could not be interrupted; one that is handled is
    not. For the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda _number, _frame: None)


class StopAsked:
    """Notes the signals that ask a command to stop, and lets it go on until it looks. For the main thread.

    A signal that whoever started the command has ignored (`nohup`, `&` in a script) stays ignored.

    Attributes:
        number: the first signal that came; None before.
    """

    def __init__(
        self, *signals: signal.Signals, again: Callable[[], object] = lambda: None
    ) -> None:
        """Note the first of `signals`; `again` is called when another comes, which is ignored by default."""
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

    def __enter__(self) -> StopAsked:
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
        """Call `callback` on another thread when a signal comes, now if one has come; it may be called twice.

        Not where the signal came: the main thread may hold the very lock that `callback` needs.
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
        """Have a signal raise KeyboardInterrupt in the block, which may wait for long."""
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
    """Discard what is still to be written to standard output."""
    descriptor = _output_descriptor()
    if descriptor is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _output_descriptor() -> int | None:
    """Return standard output's descriptor; None where it is closed, or no file of the system's."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more; otherwise only the next write would find out."""
    descriptor = _output_descriptor()
    if descriptor is None:
        return False
    poll = select.poll()
    # Even when asked for nothing, poll reports errors and hang-ups.
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def print_whatever_comes() -> None:
    """Print characters that the locale cannot show as escapes: a file's name may be any bytes."""
    stdout: Any = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")
