"""Runs Python functions in the test's own process: breakpoints, coverage and patches work in the user's files.

Each execution environment has modules of its own, loaded from the function's folder, as each process on AWS has; a new
environment begins anew. One function runs at a time, for the environment variables are the process's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from headrace.aws.sessions import Credentials
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.lambda_.limits import CREDENTIALS_LEFT_SECONDS, RESPONSE_PAYLOAD_BYTES
from headrace.services.lambda_.runtime.channel import Invocation
from headrace.services.lambda_.runtime.environment import (
    Places,
    SandboxSpec,
    build_environment,
)
from headrace.services.lambda_.runtime.output import OutputLog
from headrace.services.lambda_.runtime.platform_log import (
    Broken,
    PlatformLog,
    Usage,
    answer_too_large,
    error_document,
    exited,
    iso_time,
    timed_out,
)
from headrace.services.lambda_.runtime.sandbox import AnswerSink, Outcome
from headrace.testing import environment as variables_of

# One to the process, as environment variables and modules are. Taken again by a function that invokes another.
_RUNNING = threading.RLock()
# A function that brings these in its folder gets those of the process: they are what carries requests to the cloud.
_SHARED = ("boto3", "botocore", "s3transfer", "urllib3", "jmespath", "dateutil", "awslambdaric")
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


class FunctionNotLoadable(Exception):
    """A handler cannot be imported; the text is one sentence that says which, and why."""


class FunctionDied(Exception):
    """The process of a function is killed here, as a simulation wants it."""


class LambdaContext:
    """The second argument of a handler. Source: lambda/latest/dg/python-context.html (documented)."""

    def __init__(
        self, invocation: Invocation, spec: SandboxSpec, log_stream: str, left_ms: Callable[[], int]
    ) -> None:
        self.aws_request_id = invocation.request_id
        self.invoked_function_arn = invocation.function_arn
        self.function_name = spec.name
        self.function_version = spec.version
        self.memory_limit_in_mb = str(spec.memory_mib)
        self.log_group_name = spec.log_group
        self.log_stream_name = log_stream
        self.identity = None
        self.client_context = (
            json.loads(invocation.client_context) if invocation.client_context else None
        )
        self._left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the function may still run."""
        return self._left_ms()


class Modules:
    """The modules of one execution environment, which are in `sys.modules` only while it runs."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = [str(folder) for folder in folders]
        self._names = {name for folder in folders for name in _top_level(folder)} - set(_SHARED)
        self._own: dict[str, ModuleType] = {}

    @contextlib.contextmanager
    def entered(self) -> Generator[None]:
        """Have this environment's modules, and its folders first on the path."""
        hidden = self._take() if self._names & sys.modules.keys() else {}
        sys.modules.update(self._own)
        loaded = len(sys.modules)
        sys.path[:0] = self._folders
        if not self._own:
            importlib.invalidate_caches()
        try:
            yield
        finally:
            if len(sys.modules) == loaded:
                for name in self._own:
                    del sys.modules[name]
            else:
                self._own = self._take()
            sys.modules.update(hidden)
            for folder in self._folders:
                with contextlib.suppress(ValueError):
                    sys.path.remove(folder)

    def _take(self) -> dict[str, ModuleType]:
        """Take the modules with this function's names out of those that are loaded."""
        names = [name for name in sys.modules if name.partition(".")[0] in self._names]
        return {name: sys.modules.pop(name) for name in names}


def _top_level(folder: Path) -> list[str]:
    """Return the names of a folder's modules and packages."""
    if not folder.is_dir():
        return []
    found = [
        path.name.partition(".")[0]
        for path in folder.iterdir()
        if path.suffix in ("", ".py", ".so")
    ]
    return [name for name in found if name.isidentifier()]


class _Output(io.TextIOBase):
    """Standard output while a function runs: what its thread prints goes to its log too."""

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
    """Writes log records of a function's thread as Lambda's own handler does."""

    def __init__(self, log: OutputLog, request_id: str, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._log = log
        self._request_id = request_id
        self._now_ms = now_ms
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if record.thread != self._thread:
            return
        line = f"[{record.levelname}]\t{iso_time(self._now_ms())}\t{self._request_id}\t{self.format(record)}\n"
        self._log.feed(line.encode("utf-8", "replace"))


@dataclass(slots=True)
class Rules:
    """What differs between a cloud on threads and a simulated one.

    Attributes:
        clock: gives the time in logs.
        ids: names log streams.
        elapsed_s: measures how long a function runs.
        session: makes the boto3 session that `boto3.client()` uses in the function.
        around: gives a block to be entered around each invocation; it may raise FunctionDied.
    """

    clock: Clock
    ids: Ids
    elapsed_s: Callable[[], float] = time.perf_counter
    session: Callable[[], Any] = variables_of.session
    around: Callable[[SandboxSpec], contextlib.AbstractContextManager[None]] | None = None


class InProcessEnvironment:
    """An execution environment (see `ExecutionEnvironment`) that is no process: a set of modules, and a handler."""

    def __init__(self, spec: SandboxSpec, credentials: Credentials, rules: Rules) -> None:
        self.spec = spec
        self._rules = rules
        self._credentials = credentials
        stamp = iso_time(rules.clock.now_ms())[:10].replace("-", "/")
        self.log_stream = f"{stamp}/[{spec.version}]{rules.ids.hex(32)}"
        self.is_killed = False
        self.idle_since_s = rules.clock.monotonic_s()
        layers = [layer / "python" for layer in reversed(spec.layer_dirs)]
        self._modules = Modules([spec.code_dir, *layers])
        self._handler: Callable[[Any, Any], Any] | None = None
        self._root_level = logging.WARNING
        # Its own, as in a process: a session keeps the credentials that it once found.
        self._session = rules.session()
        self._output = OutputLog(rules.clock)
        self._platform = PlatformLog(self._output, spec, rules.clock)

    @property
    def usable(self) -> bool:
        """See `ExecutionEnvironment`."""
        left_ms = self._credentials.expires_ms - self._rules.clock.now_ms()
        return not self.is_killed and left_ms >= CREDENTIALS_LEFT_SECONDS * 1000

    def kill(self) -> None:
        """See `ExecutionEnvironment`; what is running runs to its end."""
        self.is_killed = True

    def close(self) -> None:
        """See `ExecutionEnvironment`."""
        self.kill()
        self._handler = None

    def initialise(self) -> Broken | None:
        """See `ExecutionEnvironment`."""
        with self._entered(""):
            try:
                self._load()
            except FunctionNotLoadable as error:
                return _not_loadable(error)
        return None

    def invoke(self, invocation: Invocation, sink: AnswerSink | None = None) -> Outcome:
        """See `ExecutionEnvironment`. An answer in parts is not known to Python functions: `sink` is not used."""
        request_id = invocation.request_id
        # Whoever runs may take its whole time.
        if not _RUNNING.acquire(timeout=self.spec.timeout_s + 60):
            payload = error_document(
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
            with self._entered(request_id):
                if self._handler is None:
                    init_ms = self._initialised_in_ms(request_id)
                else:
                    self._platform.start(request_id)
                started_s = rules.elapsed_s()
                payload, error = self._run(invocation, started_s)
        except Broken as broken:
            payload, why = broken.payload, broken
            self.kill()
        duration_ms = (rules.elapsed_s() - started_s) * 1000
        self._output.flush()
        for line in () if why is None else why.log_lines:
            self._output.platform(line)
        self._platform.report(request_id, Usage(duration_ms, init_ms, self.spec.memory_mib), why)
        lines, tail = self._output.take()
        return Outcome(payload, error, duration_ms, lines, tail)

    def _initialised_in_ms(self, request_id: str) -> float:
        """Load the handler; return how long that took. Raises Broken."""
        self._platform.init_start()
        started_s = self._rules.elapsed_s()
        try:
            self._load()
        except FunctionNotLoadable as error:
            broken = _not_loadable(error)
            init_ms = (self._rules.elapsed_s() - started_s) * 1000
            self._platform.init_failed(init_ms, broken)
            self._platform.start(request_id)
            raise broken from error
        self._platform.start(request_id)
        return (self._rules.elapsed_s() - started_s) * 1000

    def _load(self) -> None:
        self._handler = handler_of(self.spec.handler, self.spec.code_dir)

    def _run(self, invocation: Invocation, started_s: float) -> tuple[bytes, str | None]:
        """Return the answer and None, or an error document and `Unhandled`. Raises Broken."""
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
            raise exited(invocation.request_id, why) from died
        except SystemExit as error:
            why = f"Runtime exited with error: exit status {error.code}"
            raise exited(invocation.request_id, why) from error
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its answer
            self._output.feed(f"{_log_line(error, iso_time(rules.clock.now_ms()))}\n".encode())
            payload = _error_payload(error, invocation.request_id)
            if rules.elapsed_s() - started_s <= spec.timeout_s:
                return payload, "Unhandled"
            answer = None
        if rules.elapsed_s() - started_s > spec.timeout_s:
            # Python code cannot be cut off: it has run to its end, and failed all the same.
            raise timed_out(invocation.request_id, spec.timeout_s, rules.clock.now_ms())
        return _encoded(answer, invocation.request_id)

    @contextlib.contextmanager
    def _entered(self, request_id: str) -> Generator[None]:
        """Have this environment's modules, variables, output and level of logging."""
        root = logging.getLogger()
        level_before, handler = (
            root.level,
            _LogHandler(self._output, request_id, self._rules.clock.now_ms),
        )
        output_before = sys.stdout
        with (
            _RUNNING,
            self._modules.entered(),
            variables_of.variables(self._variables),
            variables_of.default_session(self._session),
        ):
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
    def _variables(self) -> dict[str, str | None]:
        built = build_environment(
            self.spec,
            runtime_api="",
            log_stream=self.log_stream,
            places=Places(self.spec.code_dir, None, Path(os.environ.get("TMPDIR", "/tmp")), ""),
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
        return {**dict.fromkeys(("AWS_PROFILE", "AWS_DEFAULT_PROFILE")), **kept}


def handler_of(handler: str, folder: Path) -> Callable[[Any, Any], Any]:
    """Import a handler, `module.function` or `package/module.function`. Raises FunctionNotLoadable."""
    module_name, _, name = handler.rpartition(".")
    where = f"{handler} of {folder}"
    if not module_name or not name:
        raise FunctionNotLoadable(f"A handler is module.function, and {where} is not.")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except (Exception, SystemExit) as error:
        raise FunctionNotLoadable(
            f"{where} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found: Any = getattr(module, name, None)
    if not callable(found):
        raise FunctionNotLoadable(
            f"{where} is missing: the module {module_name} has no function {name}."
        )
    return found


def check_handler(handler: str, folder: Path) -> None:
    """Import a handler for a try, as a function's environment would. Raises FunctionNotLoadable."""
    if not folder.is_dir():
        raise FunctionNotLoadable(f"There is no folder {folder} with the code of {handler}.")
    module = folder / (handler.rpartition(".")[0].replace(".", "/"))
    if not (module.with_name(f"{module.name}.py").is_file() or (module / "__init__.py").is_file()):
        raise FunctionNotLoadable(
            f"{handler} of {folder} cannot be imported: {module}.py is not there."
        )


def _set_level(logger: logging.Logger, level: int) -> None:
    """Set a level if it is another: setting it makes every logger forget what it knows."""
    if logger.level != level:
        logger.setLevel(level)


def _not_loadable(error: FunctionNotLoadable) -> Broken:
    return Broken(
        error_document("Runtime.ImportModuleError", str(error)),
        f"[ERROR] Runtime.ImportModuleError: {error}",
        error_type="Runtime.ImportModuleError",
    )


def _error_payload(error: Exception, request_id: str) -> bytes:
    """Return what the caller sees of an exception. Form: awslambdaric's `make_error` (observed)."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    document = {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_list(frames),
    }
    return json.dumps(document).encode()


def _log_line(error: Exception, now: str) -> str:
    shown = "".join(traceback.format_exception(error)).strip()
    return f"[ERROR]\t{now}\t{type(error).__name__}: {error}\n{shown}"


def _number(value: object) -> float:
    """Return a Decimal as Lambda's runtime does: DynamoDB's numbers are such."""
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _encoded(answer: Any, request_id: str) -> tuple[bytes, str | None]:
    try:
        payload = json.dumps(answer, ensure_ascii=False, default=_number).encode()
    except (TypeError, ValueError) as error:
        message = f"Unable to marshal response: {error}"
        document: dict[str, Any] = {
            "errorMessage": message,
            "errorType": "Runtime.MarshalError",
            "requestId": request_id,
            "stackTrace": [],
        }
        return json.dumps(document).encode(), "Unhandled"
    if len(payload) > RESPONSE_PAYLOAD_BYTES:
        return answer_too_large(), "Unhandled"
    return payload, None
