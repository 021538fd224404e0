"""Runs a LocalStack function as a process on this machine, without Docker.

Each execution environment is one process group with the Python of HEADRACE_FUNCTION_PYTHON, which holds AWS's runtime
client (awslambdaric), and one Runtime API. The processes are not isolated: they see this machine's files, and have no
memory limit. Functions that are not Python, container images and layers are refused with a sentence.
"""

# LocalStack is installed in a separate environment.
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import (
    LambdaRuntimeException,
    RuntimeExecutor,
)

from headrace_localstack.runtime_api import Invocation, RuntimeApi

_LOOK_EVERY_S = 0.02
_START_WITHIN_S = 10.0
_STOP_WITHIN_S = 2.0
# The environment variables that a function inherits; it gets nothing else of LocalStack's environment.
_KEPT = ("PATH", "LANG", "HOME", "TMPDIR", "SSL_CERT_FILE")


class ProcessExecutor(RuntimeExecutor):
    """One execution environment of a function version."""

    _python: ClassVar[str] = os.environ.get("HEADRACE_FUNCTION_PYTHON", "")

    def __init__(self, id: str, function_version: Any) -> None:  # noqa: A002 - LocalStack's name
        super().__init__(id=id, function_version=function_version)
        self._api: RuntimeApi | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._env_vars: dict[str, Any] = {}
        folder = Path(os.environ["HEADRACE_FUNCTION_LOGS"])
        self._log = folder / f"{function_version.id.function_name}-{id}.log"

    def start(self, env_vars: dict[str, Any]) -> None:
        """Start the process and wait until it asks for its first invocation."""
        self._refuse_what_cannot_run()
        self._env_vars = env_vars
        self._api = RuntimeApi()
        self._start_process(env_vars, self._api)
        self._await_ready(self._api)

    def _refuse_what_cannot_run(self) -> None:
        settings = self.function_version.config
        runtime = settings.runtime or "a container image"
        if not runtime.startswith("python"):
            _refuse("Runtime.Unsupported", f"only Python functions run here, not {runtime}")
        if settings.layers:
            _refuse("Runtime.Unsupported", "layers are not unpacked here")

    def _start_process(self, env_vars: dict[str, Any], api: RuntimeApi) -> None:
        code = self.function_version.config.code.get_unzipped_code_location()
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {name: str(value) for name, value in env_vars.items()}
        environment |= {
            "AWS_LAMBDA_RUNTIME_API": api.address,
            "LAMBDA_TASK_ROOT": str(code),
            "PYTHONPATH": str(code),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": "UTC",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, "-m", "awslambdaric", self.function_version.config.handler],
                cwd=code, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _await_ready(self, api: RuntimeApi) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        while not api.is_ready.wait(_LOOK_EVERY_S):
            if self._has_exited():
                _refuse("Runtime.ExitError", "Runtime exited before it asked for work")
            if time.monotonic() > deadline:
                _refuse("Sandbox.Timedout", "the function's module took too long to load")
        if api.init_error:
            raise StatusErrorException("The function could not be loaded.", payload=api.init_error)

    def _has_exited(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Let the process handle one event; after a timeout or an exit, the next call starts another process."""
        if self._has_exited():
            self._restart()
        api = self._api
        if api is None:
            raise LambdaRuntimeException(f"The execution environment {self.id} was never started.")
        timeout_s = float(self.function_version.config.timeout)
        invocation = Invocation(
            payload["invoke-id"],
            payload["invoked-function-arn"],
            payload["trace-id"],
            time.time_ns() // 1_000_000 + int(timeout_s * 1000),
            payload["payload"].encode(),
        )
        began, logged = time.monotonic(), self._log_size()
        api.give(invocation)
        while not invocation.is_done.wait(_LOOK_EVERY_S):
            if time.monotonic() - began >= timeout_s:
                self._kill()
                text = f"{invocation.request_id} Task timed out after {timeout_s:.2f} seconds"
                invocation.end(_error("Sandbox.Timedout", f"RequestId: {text}"), is_error=True)
            elif self._has_exited():
                text = f"RequestId: {invocation.request_id} Error: Runtime exited"
                invocation.end(_error("Runtime.ExitError", text), is_error=True)
        return InvocationResult(
            request_id=invocation.request_id,
            payload=invocation.result,
            is_error=invocation.is_error,
            logs=self._words(invocation, began, logged),
        )

    def _restart(self) -> None:
        env_vars = self._env_vars
        self.stop()
        self.start(env_vars)

    def _words(self, invocation: Invocation, began: float, logged: int) -> str:
        """Return the function's output between Lambda's own log lines."""
        name, version = invocation.request_id, self.function_version.id.qualifier
        with self._log.open("rb") as log:
            log.seek(logged)
            printed = log.read().decode(errors="replace")
        milliseconds = (time.monotonic() - began) * 1000
        return (
            f"START RequestId: {name} Version: {version}\n{printed}END RequestId: {name}\n"
            f"REPORT RequestId: {name}\tDuration: {milliseconds:.2f} ms\t"
            f"Memory Size: {self.function_version.config.memory_size} MB\n"
        )

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        # The process has already ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_WITHIN_S)

    def stop(self) -> None:
        """End the process group and its Runtime API."""
        self._kill()
        if self._api is not None:
            self._api.close()
        self._process = self._api = None

    def get_address(self) -> str:
        """Return the host on which the process runs."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """Return LocalStack's host, as the process sees it."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """Return no address: only LocalStack's own init program, which does not run here, would use one."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        """Return the process's output."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @classmethod
    def prepare_version(cls, function_version: Any) -> None:
        """Unpack the code."""
        if function_version.config.code:
            function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: Any) -> None:
        """Keep the code: LocalStack removes it with the function, and a process may still read it."""

    @classmethod
    def validate_environment(cls) -> bool:
        """Whether there is a Python for functions."""
        return bool(cls._python) and Path(cls._python).exists()


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()


def _refuse(kind: str, message: str) -> None:
    raise StatusErrorException(message, payload=_error(kind, message))
