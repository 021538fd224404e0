"""Starts and stops LocalStack on this machine, and reports its state."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.localstack_host.installation import PLUGINS, HostError, Installation

START_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0
LOOK_EVERY_S = 0.05
# Services that LocalStack's open edition would download or lacks.
ON_MOTO = ("DYNAMODB", "DYNAMODBSTREAMS", "GLUE", "EMR")


@dataclass(frozen=True)
class Running:
    """A LocalStack that this tool started."""

    pid: int
    port: int

    @property
    def endpoint_url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


def environment(installation: Installation, port: int) -> dict[str, str]:
    """Return the variables of LocalStack's process."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "PYTHON", "VIRTUAL_ENV"))
    }
    return {
        **kept,
        "PYTHONPATH": str(PLUGINS),
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        # If LocalStack saw Docker's file, it would write to /var/lib/localstack.
        "OVERRIDE_IN_DOCKER": "0",
        "FILESYSTEM_ROOT": str(installation.data),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        # LocalStack unpacks functions here.
        "TMPDIR": str(installation.data / "tmp"),
        "EAGER_SERVICE_LOADING": "0",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
        "HEADRACE_FUNCTION_PYTHON": sys.executable,
        "HEADRACE_FUNCTION_LOGS": str(installation.function_logs),
        **{f"PROVIDER_OVERRIDE_{name}": "moto" for name in ON_MOTO},
    }


def up(installation: Installation, port: int) -> Running:
    """Start LocalStack on `port` (0: any free one), unless it runs; return it. Raises HostError."""
    found = running(installation)
    if found is not None:
        if port not in (0, found.port):
            raise HostError(
                f"LocalStack is up on port {found.port}, not {port}: `scripts/localstack down` stops it."
            )
        return found
    port = _free(port)
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise HostError(f"LocalStack's Kinesis needs {program}, which is not installed.")
    installation.install()
    shutil.rmtree(installation.function_logs, ignore_errors=True)
    for folder in (installation.data / "tmp", installation.function_logs):
        folder.mkdir(parents=True, exist_ok=True)
    with installation.log.open("wb") as log:
        process = subprocess.Popen(
            [str(installation.python), "-m", "localstack.runtime.main"],
            env=environment(installation, port), cwd=installation.folder, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    started = Running(process.pid, port)
    try:
        _await_health(installation, process, started)
        _await_kinesis(installation, started)
    except BaseException:
        _end(started.pid)
        raise
    _state(installation).write_text(json.dumps(asdict(started)))
    return started


def down(installation: Installation) -> bool:
    """Stop LocalStack; return whether it ran. Raises HostError."""
    found = running(installation)
    if found is not None:
        _end(found.pid)
    _state(installation).unlink(missing_ok=True)
    return found is not None


def running(installation: Installation) -> Running | None:
    """Return the running LocalStack that was started from this folder, or None."""
    try:
        found = Running(**json.loads(_state(installation).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    # Another process may have this id by now; it must not be ended.
    return found if _is_localstack(found.pid) else None


def health(endpoint_url: str) -> dict[str, Any] | None:
    """Return a LocalStack's health, or None if nothing answers."""
    try:
        with urllib.request.urlopen(f"{endpoint_url}/_localstack/health", timeout=5) as page:
            document: dict[str, Any] = json.load(page)
            return document
    except (OSError, ValueError, urllib.error.URLError):
        return None


def _state(installation: Installation) -> Path:
    return installation.folder / "localstack.json"


def _free(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise HostError(
                f"Port {port} is in use: stop what listens there, or name another with --port."
            ) from error
        return int(probe.getsockname()[1])


def _is_localstack(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    # Whole lines: if COLUMNS is set, ps cuts its lines, and the name comes after a long path.
    shown = subprocess.run(
        ["ps", "-ww", "-o", "stat=,args=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return "localstack.runtime" in shown and not shown.startswith("Z")


def _await_health(
    installation: Installation, process: subprocess.Popen[bytes], started: Running
) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while health(started.endpoint_url) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise HostError(f"LocalStack did not start:\n{_last_words(installation)}")
        time.sleep(LOOK_EVERY_S)


def _await_kinesis(installation: Installation, started: Running) -> None:
    """Make LocalStack fetch and start its Kinesis now, so that it does not do so in the middle of a run."""
    request = urllib.request.Request(
        started.endpoint_url,
        data=b"{}",
        headers={
            "X-Amz-Target": "Kinesis_20131202.ListStreams",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request,"
            " SignedHeaders=host, Signature=0",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=START_WITHIN_S) as answer:
            answer.read()
    except (OSError, urllib.error.URLError) as error:
        raise HostError(
            f"LocalStack's Kinesis (npm's kinesis-local) did not start: {error}\n{_last_words(installation)}"
        ) from error


def _last_words(installation: Installation) -> str:
    return "\n".join(installation.log.read_text(errors="replace").splitlines()[-12:])


def _end(pid: int) -> None:
    """Stop the process as `localstack stop` does; kill its process group if it does not end."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while _is_localstack(pid) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    # LocalStack's Kinesis is a process of the same group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
