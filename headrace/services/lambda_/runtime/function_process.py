"""One function process: starts, initialises, invokes and kills it."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path

from headrace.aws.signatures.access_keys import Credentials
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.services.lambda_.errors import CREDENTIALS_LEFT_SECONDS, INIT_SECONDS
from headrace.services.lambda_.runtime import sdk_modules
from headrace.services.lambda_.runtime.channel import RuntimeChannel, Wait
from headrace.services.lambda_.runtime.environment import (
    OPT,
    ProcessPaths,
    RuntimeMissing,
    SandboxSpec,
    build_command,
    build_environment,
    list_wrapper,
)
from headrace.services.lambda_.runtime.messages import (
    ErrorReported,
    Invocation,
    Message,
    PackageWanted,
    ProcessEnded,
    ReadyForInvocation,
    Responded,
    ResponsePart,
)
from headrace.services.lambda_.runtime.namespaces import Namespaces, OwnMounts
from headrace.services.lambda_.runtime.own_mounts import plan
from headrace.services.lambda_.runtime.platform_log import (
    AnswerParts,
    AnswerSink,
    Outcome,
    OutputLog,
    PlatformLog,
    ProcessBroken,
    Usage,
    answer_too_large,
    build_error_document,
    build_exit_error,
    build_timeout_error,
)
from headrace.services.lambda_.runtime.process import (
    FunctionProcess,
    NotStarted,
    PlainProcess,
    ReaperClient,
)
from headrace.services.lambda_.runtime.steps import Steps, run_to_end
from headrace.services.lambda_.runtime.visible_files import TASK, TMP, TRUST, VisibleFiles

log = logging.getLogger(__name__)

# How often the memory of a running process is checked.
_TICK_S = 0.1
# An invocation that ends sooner than this after the last look is reported with the memory seen then: a look costs as
# much as a short invocation.
_LOOK_AGAIN_S = 0.02
_MIB = 1024 * 1024
# The exit status of a shell that cannot start a program, by the system's error message.
_SHELL_STATUS = {os.strerror(errno.ENOENT): 127, os.strerror(errno.EACCES): 126}


class Sandbox:
    """A function process and the channel to it.

    Only one thread may use it at a time; only `kill` may be called from another thread.
    """

    def __init__(
        self,
        spec: SandboxSpec,
        *,
        root: Path,
        clock: Clock,
        ids: Ids,
        reaper: ReaperClient,
        walls: Namespaces,
        credentials: Credentials,
    ) -> None:
        self.spec = spec
        self._credentials = credentials
        self._clock = clock
        self._reaper = reaper
        self._walls = walls
        now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        self.log_stream = f"{now:%Y/%m/%d}/[{spec.version}]{ids.hex(32)}"
        self._temp_dir = root / ids.hex(12)
        self._output = OutputLog(clock)
        self._platform = PlatformLog(self._output, spec, clock)
        self.channel = RuntimeChannel(self._output.feed)
        self._process: FunctionProcess | None = None
        # Whether the process was killed, for any reason. Then the sandbox is not used again.
        self.is_killed = False
        self._most_memory_bytes = 0
        self._looked_s = -math.inf
        # When the current invocation started: when the process was ready for it, unless it never was.
        self._began_s = 0.0
        self._deadline_s = 0.0
        self.idle_since_s = clock.monotonic_s()

    @property
    def usable(self) -> bool:
        """Whether it can run another invocation: the process has not ended, and its credentials last long enough."""
        left_ms = self._credentials.expires_ms - self._clock.now_ms()
        if self.is_killed or left_ms < CREDENTIALS_LEFT_SECONDS * 1000:
            return False
        return self._process is None or not self._process.has_ended

    # --- invoking -----------------------------------------------------------------------------

    @property
    def is_warm(self) -> bool:
        """Whether the process has started."""
        return self._process is not None

    def invoke(
        self,
        invocation: Invocation,
        sink: AnswerSink | None = None,
    ) -> Outcome:
        """Run one invocation to its end. Start the process first if it does not run yet.

        `sink` gets the parts of a streamed response; without it the parts are joined.
        """
        return run_to_end(self.steps(invocation, sink))

    def steps(self, invocation: Invocation, sink: AnswerSink | None = None) -> Steps[Outcome]:
        """Run one invocation as `invoke` does, in steps. One that is given up kills the process."""
        is_over = False
        try:
            outcome = yield from self._steps(invocation, sink)
            is_over = True
            return outcome
        finally:
            if not is_over:
                self.kill()

    def _steps(self, invocation: Invocation, sink: AnswerSink | None) -> Steps[Outcome]:
        request_id = invocation.request_id
        init_ms: float | None = None
        self._began_s = self._clock.monotonic_s()
        function_error: str | None = "Unhandled"
        why: ProcessBroken | None = None
        try:
            if self._process is None:
                init_ms = yield from self._initialise(request_id)
            payload, function_error = yield from self._run(invocation, sink)
        except ProcessBroken as broken:
            payload, why = broken.payload, broken
            self.kill()
        duration_ms = (self._clock.monotonic_s() - self._began_s) * 1000
        if not self.channel.drain_output(briefly=True):
            yield Wait(self.channel, 0.0, blocks=True)
            self.channel.drain_output()
        for line in () if why is None else why.log_lines:
            self._output.platform(line)
        self._platform.report(request_id, self._usage(duration_ms, init_ms), why)
        if self.is_killed:
            yield Wait(self.channel, 0.0, blocks=True)
            self._close()
        lines, tail = self._output.take()
        self.idle_since_s = self._clock.monotonic_s()
        return Outcome(payload, function_error, duration_ms, lines, tail)

    def _initialise(self, request_id: str) -> Steps[float]:
        """Start the process. Return the milliseconds until it was ready. Raises ProcessBroken."""
        started_s = self._clock.monotonic_s()
        try:
            self._start(request_id)
            yield from self._await_ready(request_id)
        except ProcessBroken as broken:
            self.channel.drain_output()
            init_ms = (self._clock.monotonic_s() - started_s) * 1000
            self._platform.init_failed(init_ms, broken)
            self._platform.start(request_id)
            raise
        return (self._clock.monotonic_s() - started_s) * 1000

    def initialise(self) -> ProcessBroken | None:
        """Start the process before the first invocation. Return the error if this fails, otherwise None."""
        try:
            self._start("")
            run_to_end(self._await_ready(""))
        except ProcessBroken as broken:
            self.close()
            return broken
        self.idle_since_s = self._clock.monotonic_s()
        return None

    def _run(
        self,
        invocation: Invocation,
        sink: AnswerSink | None,
    ) -> Steps[tuple[bytes, str | None]]:
        """Send an invocation to the process. Return its response and None, or an error document and `Unhandled`.

        Raises ProcessBroken.
        """
        request_id, timeout_s = invocation.request_id, self.spec.timeout_s
        self._platform.start(request_id)
        if not self.channel.ready:
            yield from self._await_ready(request_id)
        self._began_s = self._clock.monotonic_s()
        self._deadline_s = self._began_s + timeout_s
        rest = self.channel.send(invocation, self._clock.now_ms() + int(timeout_s * 1000))
        if rest is None:
            raise self._exit_error(request_id)
        if rest:
            yield Wait(self.channel, 0.0, blocks=True)
            if not self.channel.send_rest(rest):
                raise self._exit_error(request_id)
        stream: AnswerParts | None = None
        while messages := (yield from self._messages(request_id)):
            for message in messages:
                match message:
                    case Responded(answered_id, body, too_large_bytes) if answered_id == request_id:
                        if too_large_bytes:
                            return answer_too_large(), "Unhandled"
                        return body if stream is None else stream.whole(body), None
                    case ResponsePart(answered_id, content_type, data) if answered_id == request_id:
                        stream = stream or AnswerParts(sink)
                        if not stream.take(content_type, data):
                            raise ProcessBroken(answer_too_large(streamed=sink is not None))
                    case ErrorReported(failed_id, _, body) if failed_id == request_id:
                        return body, "Unhandled"
                    case _:
                        # The process asked for the next invocation without a response, or responded to another one.
                        yield from self._take_other(message)
        raise self._timeout_error(request_id, timeout_s)

    def _await_ready(self, request_id: str) -> Steps[None]:
        limit_s = max(INIT_SECONDS, self.spec.timeout_s)
        self._deadline_s = self._clock.monotonic_s() + limit_s
        while messages := (yield from self._messages(request_id)):
            for message in messages:
                match message:
                    case ReadyForInvocation():
                        return
                    case ErrorReported(None, error_type, body):
                        raise ProcessBroken(body, error_type=error_type)
                    case _:
                        yield from self._take_other(message)
        raise self._timeout_error(request_id, limit_s)

    def _take_other(self, message: Message) -> Steps[None]:
        """Install a package of the AWS SDK, if that is wanted."""
        if not isinstance(message, PackageWanted):
            log.debug("%s: ignored %s", self.spec.name, type(message).__name__)
            return
        yield Wait(self.channel, 0.0, blocks=True)
        started_s = self._clock.monotonic_s()
        message.answer(sdk_modules.install(message.package))
        # Do not count the time of an SDK installation, since on AWS the package is there already.
        self._deadline_s += self._clock.monotonic_s() - started_s

    def _messages(self, request_id: str) -> Steps[list[Message]]:
        """Wait for the process's next messages; return none once the deadline has passed.

        Raises ProcessBroken when the process died or used too much memory.
        """
        while (left_s := self._deadline_s - self._clock.monotonic_s()) > 0:
            messages = yield Wait(self.channel, min(left_s, _TICK_S))
            if len(messages) == 1 and isinstance(messages[0], ProcessEnded):
                raise self._exit_error(request_id)
            if messages:
                return messages
            if self.is_killed or (self._process is not None and self._process.has_ended):
                raise self._exit_error(request_id)
            if self._memory_bytes() > self.spec.memory_mib * _MIB:
                raise self._memory_error(request_id)
        return []

    # --- the process --------------------------------------------------------------------------

    def _start(self, request_id: str) -> None:
        """Start the process, behind walls where the machine permits them. Raises ProcessBroken."""
        kind = "Runtime.InvalidEntrypoint"
        try:
            view = self._walls.view()
            process = self._start_plain() if view is None else self._start_walled(view)
        except RuntimeMissing as missing:
            raise ProcessBroken(
                build_error_document(kind, str(missing)), str(missing), error_type=kind
            ) from missing
        except NotStarted as error:
            status = _SHELL_STATUS.get(str(error))
            if status and "AWS_LAMBDA_EXEC_WRAPPER" in dict(self.spec.environment):
                # A wrapper script is started by a shell, so it is the shell that exits (recorded).
                why = f"Runtime exited with error: exit status {status}"
                raise build_exit_error(request_id, why) from error
            message = f"RequestId: unknown Error: fork/exec: {error}"
            raise ProcessBroken(
                build_error_document(kind, message), message, error_type=kind
            ) from error
        self._process = process
        self.channel.attach(
            output=process.output, end_signal=process.end_signal, only_pid=process.top_pid
        )

    def _start_walled(self, view: VisibleFiles) -> FunctionProcess:
        spec = self.spec
        trust = spec.trust_file and TRUST
        places = ProcessPaths(TASK, spec.opt_dir and OPT, TMP, view.path, trust)
        arguments, environment = self._prepare(places)
        mounts = OwnMounts(spec.code_dir, spec.opt_dir, spec.storage_mib)
        return self._walls.start(mounts, arguments, environment)

    def _start_plain(self) -> FunctionProcess:
        spec = self.spec
        isolation = plan(
            opt=spec.opt_dir,
            own_tmp=self._temp_dir,
            storage_mib=spec.storage_mib,
            needed=[self._temp_dir, spec.code_dir, *spec.layer_dirs],
        )
        path = os.environ.get("PATH", os.defpath)
        opt = isolation.opt and OPT
        places = ProcessPaths(spec.code_dir, opt, isolation.tmp, path, spec.trust_file)
        arguments, environment = self._prepare(places)
        self._temp_dir.mkdir(parents=True)
        return PlainProcess(isolation.wrap(arguments), environment, spec.code_dir, self._reaper)

    def _prepare(self, places: ProcessPaths) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and the environment of a process, and log its start. Raises RuntimeMissing."""
        arguments = [*list_wrapper(self.spec, places), *build_command(self.spec, places)]
        environment = build_environment(
            self.spec,
            runtime_api=self.channel.address,
            log_stream=self.log_stream,
            places=places,
            credentials=self._credentials,
        )
        self._platform.init_start()
        return arguments, environment

    def kill(self) -> None:
        """Kill the process and its children; a running invocation fails. Thread-safe."""
        self.is_killed = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Kill the process and free its sockets and files. Must not be called during an invocation."""
        self.kill()
        self._close()

    def _close(self) -> None:
        process, self._process = self._process, None
        with contextlib.suppress(RuntimeError, ValueError):
            self.channel.close()
        if process is not None:
            process.release()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _memory_bytes(self) -> int:
        """Return the memory of the process and its children (0 where unknown), and update the maximum."""
        if self._process is None:
            return 0
        self._looked_s = self._clock.monotonic_s()
        used = self._process.memory.count_bytes()
        self._most_memory_bytes = max(self._most_memory_bytes, used)
        return used

    # --- errors and figures for the log and the caller -------------------------------------------------

    def _usage(self, duration_ms: float, init_ms: float | None) -> Usage:
        if self._clock.monotonic_s() - self._looked_s >= _LOOK_AGAIN_S:
            self._memory_bytes()
        return Usage(duration_ms, init_ms, math.ceil(self._most_memory_bytes / _MIB))

    def _timeout_error(self, request_id: str, limit_s: float) -> ProcessBroken:
        return build_timeout_error(request_id, limit_s, self._clock.now_ms())

    def _exit_error(self, request_id: str) -> ProcessBroken:
        status = self._process.wait() if self._process is not None else 0
        if status < 0:
            why = f"Runtime exited with error: signal: {signal.Signals(-status).name.lower()[3:]}"
            why = why.replace("kill", "killed") if status == -signal.SIGKILL else why
        elif status > 0:
            why = f"Runtime exited with error: exit status {status}"
        else:
            why = "Runtime exited without providing a reason"
        return build_exit_error(request_id, why)

    def _memory_error(self, request_id: str) -> ProcessBroken:
        why = "Runtime exited with error: signal: killed"
        return build_exit_error(request_id, why, "Runtime.OutOfMemory")
