"""Runs Python functions in the test's own process: breakpoints, coverage and patches work in the user's files.

Each execution environment loads its own modules from the function's folder, as each process on AWS does. One function
runs at a time, because modules and standard output belong to the process.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from headrace.aws.signatures.access_keys import Credentials
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.lambda_.errors import CREDENTIALS_LEFT_SECONDS
from headrace.services.lambda_.runtime.environment import (
    ProcessPaths,
    SandboxSpec,
    build_environment,
)
from headrace.services.lambda_.runtime.messages import Invocation
from headrace.services.lambda_.runtime.platform_log import (
    AnswerSink,
    Outcome,
    OutputLog,
    PlatformLog,
    ProcessBroken,
    Usage,
    build_error_document,
    build_exit_error,
    build_timeout_error,
    format_iso_time,
)
from headrace.testing import function_variables as variables_of
from headrace.testing.function_variables import FunctionVariables, Modules, default_session_of
from headrace.testing.handlers import (
    FunctionNotLoadable,
    LambdaContext,
    encode_answer,
    error_payload,
    handler_of,
    log_line,
    not_loadable,
)

# One lock for the process, because modules and standard output are shared. Reentrant: a function may invoke another.
_RUNNING = threading.RLock()
# Set by build_environment for a process of its own.
_OF_A_PROCESS = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "TZ",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "NODE_PATH",
)


# Errors that stay: any other error of a module may end when the test creates more resources.
_NEVER_LOADS = (ImportError, SyntaxError)


def try_import(handler: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Import a handler with its own modules, as an execution environment does, and drop the modules again.

    Args:
        handler: `module.function`.
        folder: holds the handler's module.
        environment: the function's environment variables, set on top of the process's.

    Raises FunctionNotLoadable when the function is missing, or its module has a syntax error or a failing import.
    Thread-safe: waits for a running function to end.
    """
    with (
        _RUNNING,
        Modules([folder]).entered(),
        FunctionVariables(environment).entered(),
        variables_of.fresh_default_session(),
    ):
        try:
            handler_of(handler, folder)
        except FunctionNotLoadable as error:
            if error.__cause__ is None or isinstance(error.__cause__, _NEVER_LOADS):
                raise


class FunctionDied(Exception):
    """A simulation kills the function's process here."""


class _Output(io.TextIOBase):
    """Standard output while a function runs: it copies what the function's thread prints to the function's log."""

    def __init__(self, before: TextIO, log: OutputLog) -> None:
        self._before = before
        self._log = log
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        """See io.TextIOBase."""
        if threading.get_ident() == self._thread:
            self._log.feed(text.encode("utf-8", "replace"))
        return self._before.write(text)

    def flush(self) -> None:
        """See io.TextIOBase."""
        self._before.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)


class _LogHandler(logging.Handler):
    """Writes log records of a function's thread as Lambda's own handler does. Each environment has one."""

    def __init__(self, log: OutputLog, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._log = log
        self._request_id = ""
        self._now_ms = now_ms
        self._thread = 0

    def begin(self, request_id: str) -> None:
        """Write this thread's log records from now on, under an invocation's id."""
        self._request_id = request_id
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if record.thread != self._thread:
            return
        line = f"[{record.levelname}]\t{format_iso_time(self._now_ms())}\t{self._request_id}\t{self.format(record)}\n"
        self._log.feed(line.encode("utf-8", "replace"))


@dataclass(slots=True)
class FunctionRules:
    """What differs between a cloud on threads and a simulated one.

    Attributes:
        clock: gives the time in logs.
        ids: names log streams.
        elapsed_s: measures how long a function runs.
        session: makes the boto3 session that `boto3.client()` uses in the function.
        around: returns a context manager for each invocation; it may raise FunctionDied.
    """

    clock: Clock
    ids: Ids
    elapsed_s: Callable[[], float] = time.perf_counter
    session: Callable[[], Any] = variables_of.session
    around: Callable[[SandboxSpec], contextlib.AbstractContextManager[None]] | None = None


class InProcessEnvironment:
    """An execution environment (see `ExecutionEnvironment`) without a process: a set of modules, and a handler."""

    def __init__(self, spec: SandboxSpec, credentials: Credentials, rules: FunctionRules) -> None:
        self.spec = spec
        self._rules = rules
        self._credentials = credentials
        stamp = format_iso_time(rules.clock.now_ms())[:10].replace("-", "/")
        self.log_stream = f"{stamp}/[{spec.version}]{rules.ids.hex(32)}"
        self.is_killed = False
        self.idle_since_s = rules.clock.monotonic_s()
        layers = [layer / "python" for layer in reversed(spec.layer_dirs)]
        self._modules = Modules([spec.code_dir, *layers])
        self._handler: Callable[[Any, Any], Any] | None = None
        self._root_level = logging.WARNING
        # Each environment has its own session, because a session keeps its credentials.
        self._session = rules.session()
        self._output = OutputLog(rules.clock)
        self._log_handler = _LogHandler(self._output, rules.clock.now_ms)
        self._platform = PlatformLog(self._output, spec, rules.clock)

    @property
    def usable(self) -> bool:
        """See `ExecutionEnvironment`."""
        left_ms = self._credentials.expires_ms - self._rules.clock.now_ms()
        return not self.is_killed and left_ms >= CREDENTIALS_LEFT_SECONDS * 1000

    def kill(self) -> None:
        """See `ExecutionEnvironment`; a running invocation runs to its end."""
        self.is_killed = True

    def close(self) -> None:
        """See `ExecutionEnvironment`."""
        self.kill()
        self._handler = None

    def initialise(self) -> ProcessBroken | None:
        """See `ExecutionEnvironment`."""
        with self._enter_environment(""):
            try:
                self._load()
            except FunctionNotLoadable as error:
                return not_loadable(error)
        return None

    def invoke(self, invocation: Invocation, sink: AnswerSink | None = None) -> Outcome:
        """See `ExecutionEnvironment`. Python functions cannot stream a response, so `sink` is not used."""
        request_id = invocation.request_id
        # Another function that runs may take its whole timeout.
        if not _RUNNING.acquire(timeout=self.spec.timeout_s + 60):
            payload = build_error_document(
                "Runtime.Busy", "Another function has been running in this process for too long."
            )
            return Outcome(payload, "Unhandled", 0.0)
        try:
            return self._invoke(invocation, request_id)
        finally:
            self.idle_since_s = self._rules.clock.monotonic_s()
            _RUNNING.release()

    def _invoke(self, invocation: Invocation, request_id: str) -> Outcome:
        rules, init_ms, why = self._rules, None, None
        error: str | None = "Unhandled"
        started_s = rules.elapsed_s()
        try:
            with self._enter_environment(request_id):
                if self._handler is None:
                    init_ms = self._initialise(request_id)
                else:
                    self._platform.start(request_id)
                started_s = rules.elapsed_s()
                payload, error = self._run(invocation, started_s)
        except ProcessBroken as broken:
            payload, why = broken.payload, broken
            self.kill()
        duration_ms = (rules.elapsed_s() - started_s) * 1000
        self._output.flush()
        for line in () if why is None else why.log_lines:
            self._output.platform(line)
        self._platform.report(request_id, Usage(duration_ms, init_ms, self.spec.memory_mib), why)
        lines, tail = self._output.take()
        return Outcome(payload, error, duration_ms, lines, tail)

    def _initialise(self, request_id: str) -> float:
        """Load the handler; return how long that took. Raises ProcessBroken."""
        self._platform.init_start()
        started_s = self._rules.elapsed_s()
        try:
            self._load()
        except FunctionNotLoadable as error:
            broken = not_loadable(error)
            init_ms = (self._rules.elapsed_s() - started_s) * 1000
            self._platform.init_failed(init_ms, broken)
            self._platform.start(request_id)
            raise broken from error
        self._platform.start(request_id)
        return (self._rules.elapsed_s() - started_s) * 1000

    def _load(self) -> None:
        self._handler = handler_of(self.spec.handler, self.spec.code_dir)

    def _run(self, invocation: Invocation, started_s: float) -> tuple[bytes, str | None]:
        """Return the answer and None, or an error document and `Unhandled`. Raises ProcessBroken."""
        spec, rules = self.spec, self._rules

        def left_ms() -> int:
            return max(0, round((spec.timeout_s - (rules.elapsed_s() - started_s)) * 1000))

        context = LambdaContext(invocation, spec, self.log_stream, left_ms)
        assert self._handler is not None
        around = contextlib.nullcontext() if rules.around is None else rules.around(spec)
        try:
            event = json.loads(invocation.payload)
            with around:
                answer = self._handler(event, context)
        except FunctionDied as died:
            why = "Runtime exited with error: signal: killed"
            raise build_exit_error(invocation.request_id, why) from died
        except SystemExit as error:
            why = f"Runtime exited with error: exit status {error.code}"
            raise build_exit_error(invocation.request_id, why) from error
        except Exception as error:  # noqa: BLE001 - any exception of a handler is its answer
            self._output.feed(
                f"{log_line(error, format_iso_time(rules.clock.now_ms()))}\n".encode()
            )
            payload = error_payload(error, invocation.request_id)
            if rules.elapsed_s() - started_s <= spec.timeout_s:
                return payload, "Unhandled"
            answer = None
        if rules.elapsed_s() - started_s > spec.timeout_s:
            # Python code on a thread cannot be interrupted: it has run to its end, and still counts as timed out.
            raise build_timeout_error(invocation.request_id, spec.timeout_s, rules.clock.now_ms())
        return encode_answer(answer, invocation.request_id)

    @contextlib.contextmanager
    def _enter_environment(self, request_id: str) -> Generator[None]:
        """Install this environment's modules, variables, output and log level inside the block."""
        root, handler = logging.getLogger(), self._log_handler
        with (
            _RUNNING,
            self._modules.entered(),
            self._variables.entered(),
            default_session_of(self._session),
        ):
            # Only now, because a function that ran until now had its own.
            level_before, output_before = root.level, sys.stdout
            handler.begin(request_id)
            root.addHandler(handler)
            _set_level(root, self._root_level)
            sys.stdout = _Output(output_before, self._output)
            try:
                yield
            finally:
                sys.stdout = output_before
                self._root_level = root.level
                _set_level(root, level_before)
                root.removeHandler(handler)

    @functools.cached_property
    def _variables(self) -> FunctionVariables:
        built = build_environment(
            self.spec,
            runtime_api="",
            log_stream=self.log_stream,
            places=ProcessPaths(
                self.spec.code_dir, None, Path(os.environ.get("TMPDIR", "/tmp")), ""
            ),
            credentials=self._credentials,
        )
        own = dict(self.spec.environment)
        kept = {
            name: value
            for name, value in built.items()
            if name in own or name not in (*_OF_A_PROCESS, "AWS_LAMBDA_RUNTIME_API")
        }
        if not self._credentials.session_token:
            kept.pop("AWS_SESSION_TOKEN", None)
        astray = dict.fromkeys(("AWS_PROFILE", "AWS_DEFAULT_PROFILE"))
        return FunctionVariables({**astray, **kept})


def _set_level(logger: logging.Logger, level: int) -> None:
    """Set a level if it differs: setLevel clears the cache of every logger.

    While `logging.disable` suppresses everything, a new level changes no cached answer.
    """
    if logger.level == level:
        return
    if logger.manager.disable >= logging.CRITICAL:
        logger.level = level
    else:
        logger.setLevel(level)
