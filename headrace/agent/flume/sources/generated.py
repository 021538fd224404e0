"""Sources that need no other side: exec runs a command and takes its lines, seq counts."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import threading
from typing import IO

from headrace.agent.config.properties import Section
from headrace.agent.files.lines import Splitter
from headrace.agent.flume.events import NO_HEADERS, Event
from headrace.agent.flume.intake import Intake
from headrace.core.clock import Clock

_PIPE_BYTES = 1 << 18
_LONGEST_LINE_BYTES = 10 << 20
_LOOK_S = 0.2
_END_S = 5.0
_LOG = logging.getLogger("headrace.agent")


class Exec:
    """The lines that a command writes. A full channel holds the command up; what a kill leaves in its pipe is lost."""

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        self._intake, self._clock = intake, clock
        command, shell = section.text("command"), section.words("shell", "")
        # Flume parts a command without a shell at its spaces, whatever quotes it has.
        self._command = [*shell, command] if shell else command.split()
        if not self._command:
            raise section.error("command", f"{section.owner} has an empty command")
        self._restarts = section.flag("restart", default=False)
        self._throttle_s = section.number("restartThrottle", 10_000) / 1000
        self._logs_errors = section.flag("logStdErr", default=False)
        section.charset("charset")
        section.ignore("batchSize", "batchTimeout")
        self._splitter = Splitter(_LONGEST_LINE_BYTES, terminator=b"")
        self.ends = not self._restarts

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        while not self._intake.stop.is_set():
            code = self._run_command()
            if self._intake.stop.is_set() or not self._restarts:
                if code:
                    _LOG.error("source %s: the command ended with %d", self._intake.name, code)
                return
            _LOG.warning(
                "source %s: the command ended with %d and is started again", self._intake.name, code
            )
            self._clock.wait(self._intake.stop, self._throttle_s)

    def _run_command(self) -> int:
        errors = subprocess.PIPE if self._logs_errors else subprocess.DEVNULL
        process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )  # fmt: skip
        if process.stderr is not None:
            threading.Thread(target=self._log_errors, args=(process.stderr,), daemon=True).start()
        assert process.stdout is not None
        try:
            with process.stdout as output:
                self._read(output)
        finally:
            _end(process)
        return process.returncode

    def _log_errors(self, errors: IO[bytes]) -> None:
        with errors:
            for line in errors:
                _LOG.error(
                    "source %s: %s", self._intake.name, line.decode(errors="replace").rstrip("\n")
                )

    def _read(self, output: IO[bytes]) -> None:
        data = b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not self._intake.stop.is_set():
                if not selector.select(_LOOK_S):
                    continue
                part = os.read(output.fileno(), _PIPE_BYTES)
                lines, taken = self._splitter.split(data + part, is_end=not part)
                data = (data + part)[taken:]
                self._intake.put_all(
                    [Event(NO_HEADERS, line.removesuffix(b"\n")) for line in lines]
                )
                if not part:
                    return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started, unless it has ended."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.wait(0.0 if process.poll() is not None else 0.05)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        else:
            return


class Seq:
    """A counter."""

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self._intake = intake
        self.ends = section.has("totalEvents")
        self._total = section.number("totalEvents", (1 << 63) - 1, most=(1 << 63) - 1)
        self._batch = section.number("batchSize", 1, least=1)

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        number = 0
        while number < self._total and not self._intake.stop.is_set():
            following = min(number + self._batch, self._total)
            self._intake.put_all([Event(NO_HEADERS, b"%d" % at) for at in range(number, following)])
            number = following
