"""`scripts/localstack`: what it refuses, whom it ends, and its functions' Runtime API, with AWS's runtime client."""

from __future__ import annotations

import ast
import configparser
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.localstack_host import command, host
from scripts.localstack_host.installation import PLUGINS, HostError, Installation, requirements
from tests.support.server import wait_until

sys.path.append(str(PLUGINS))
from headrace_localstack.runtime_api import Invocation, RuntimeApi

HANDLER = """
import os
def handler(event, context):
    if event == "fail":
        raise ValueError("no")
    return {"got": event, "by": context.aws_request_id}
"""


class Function:
    """A function's process on a Runtime API."""

    def __init__(self, folder: Path, source: str) -> None:
        (folder / "app.py").write_text(source)
        self.api = RuntimeApi()
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", "app.handler"],
            cwd=folder, stdout=self._log, stderr=self._log,
            env={"AWS_LAMBDA_RUNTIME_API": self.api.address, "LAMBDA_TASK_ROOT": str(folder), "PYTHONPATH": str(folder),
                 "PATH": os.environ["PATH"]},
        )  # fmt: skip

    def invoke(self, event: Any, request_id: str) -> Invocation:
        invocation = Invocation(request_id, "arn:f", "Root=1", 2**42, json.dumps(event).encode())
        self.api.give(invocation)
        assert invocation.is_done.wait(20)
        return invocation

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.api.close()
        self._log.close()


@pytest.fixture
def function(tmp_path: Path) -> Iterator[Function]:
    started = Function(tmp_path, HANDLER)
    yield started
    started.stop()


def test_a_functions_answers_and_errors_come_back_each_for_its_own_invocation(
    function: Function,
) -> None:
    first = function.invoke({"a": "ü"}, "one")
    assert json.loads(first.result) == {"got": {"a": "ü"}, "by": "one"}
    assert not first.is_error
    failed = function.invoke("fail", "two")
    assert failed.is_error
    assert json.loads(failed.result)["errorType"] == "ValueError"
    assert json.loads(function.invoke(1, "three").result)["by"] == "three"


def test_a_result_for_another_invocation_is_refused(function: Function) -> None:
    function.invoke(1, "one")
    assert not function.api.end("another", b"{}", is_error=False)


def test_a_module_that_cannot_be_imported_is_told_before_any_event(tmp_path: Path) -> None:
    function = Function(tmp_path, "import what_is_not_there\n")
    assert function.api.is_ready.wait(20)
    assert json.loads(function.api.init_error)["errorType"] == "Runtime.ImportModuleError"
    function.stop()


def test_the_process_ends_when_its_runtime_api_is_gone(function: Function) -> None:
    function.invoke(1, "one")
    function.api.close()
    wait_until(lambda: function.process.poll() is not None, what="the end of the process")
    # By itself: an HTTP error would end it by a segmentation fault in AWS's compiled client.
    assert function.process.returncode == 1


def test_every_entry_point_names_something_that_is_there() -> None:
    points = configparser.ConfigParser(delimiters="=")
    points.optionxform = str  # type: ignore[assignment,method-assign]
    (file,) = PLUGINS.glob("*.dist-info/entry_points.txt")
    points.read(file)
    values = [value for section in points.sections() for value in points[section].values()]
    assert len(values) == 1 + len(host.ON_MOTO)
    for value in values:
        module, _, name = value.partition(":")
        tree = ast.parse((PLUGINS / f"{module.replace('.', '/')}.py").read_text())
        assert name in {getattr(node, "name", None) for node in tree.body}, value


def test_a_port_in_use_is_told_before_anything_is_installed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(HostError, match=f"^Port {port} is in use: "):
            host.up(Installation(tmp_path), port)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_not_localstack_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "localstack.json").write_text(json.dumps({"pid": os.getpid(), "port": 1}))
    installation = Installation(tmp_path)
    assert host.running(installation) is None
    assert host.down(installation) is False
    assert list(tmp_path.iterdir()) == []


def test_a_localstack_behind_a_long_path_is_found_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    package = tmp_path / ("long-" * 20) / "localstack" / "runtime"
    package.mkdir(parents=True)
    (package / "main.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    interpreter = package.parents[1] / "python"
    interpreter.symlink_to(sys.executable)
    with subprocess.Popen(
        [str(interpreter), "-m", "localstack.runtime.main"], cwd=package.parents[1],
        stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (tmp_path / "localstack.json").write_text(json.dumps({"pid": process.pid, "port": 1}))
        assert host.down(Installation(tmp_path)) is True
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_a_start_that_fails_shows_the_last_words_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(tmp_path, tmp_path / "environment")
    # Another program in the place of LocalStack's interpreter.
    installation.python.parent.mkdir(parents=True)
    installation.python.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    installation.python.chmod(0o755)
    monkeypatch.setattr(Installation, "install", lambda self: None)
    with pytest.raises(HostError, match="did not start:\nno such module"):
        host.up(installation, 0)
    assert host.running(installation) is None


def test_an_installation_that_cannot_be_had_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = Installation(tmp_path / "here", tmp_path / "environment")
    tries: list[list[str]] = []

    def fails(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        tries.append(command)
        if "pip" in command:
            raise subprocess.TimeoutExpired(command, 300)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", fails)
    for _ in range(2):
        with pytest.raises(HostError, match=r"could not be installed \(not done within 300 s\)"):
            host.up(installation, 0)
    assert len(tries) == 4
    assert not installation.is_current()
    assert host.running(installation) is None


def test_a_second_clone_finds_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LOCALSTACK_CACHE", str(tmp_path / "cache"))
    one, other = Installation(tmp_path / "one"), Installation(tmp_path / "other")
    monkeypatch.setattr(
        Installation, "_install", lambda self: self.python.parent.mkdir(parents=True)
    )
    one.install()
    assert other.is_current()
    assert other.python == one.python
    monkeypatch.setattr("scripts.localstack_host.installation.requirements", lambda: ["newer"])
    assert not Installation(tmp_path / "one").is_current()


def test_its_environment_has_none_of_the_users_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    made = host.environment(Installation(tmp_path), 4566)
    assert not [name for name in made if name.startswith("AWS_")]
    assert made["GATEWAY_LISTEN"] == "127.0.0.1:4566"


def test_what_is_installed_is_pinned_for_this_python() -> None:
    assert any(line.startswith("localstack-core[runtime]==") for line in requirements())


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.parse(["up", "--port", port])
    assert ended.value.code == 2
    assert "--port" in capsys.readouterr().err
