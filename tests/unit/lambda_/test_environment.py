"""What a function process is started with, as far as it needs no process to see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.aws.signatures.access_keys import Credentials
from headrace.services.lambda_.runtime import environment

RUNNING = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(
    ("runtime", "remark"),
    [
        (RUNNING, None),
        ("python3.9", f"python3.9 is declared; {RUNNING} runs it"),
        ("nodejs22.x", None),
        ("nodejs18.x", "nodejs18.x is declared; nodejs22.x runs it"),
        ("provided.al2023", None),
    ],
)
def test_another_version_is_remarked_upon(
    monkeypatch: pytest.MonkeyPatch, runtime: str, remark: str | None
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(environment, "_find_node", lambda found: (found, "22"))
    assert environment.explain_runtime(runtime) == remark


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The programs that are started from now on."""
    commands: list[list[str]] = []
    run = subprocess.run

    def noting(command: Any, **named: Any) -> Any:
        commands.append([str(part) for part in command])
        return run(command, **named)

    monkeypatch.setattr(subprocess, "run", noting)
    environment._find_node.cache_clear()
    return commands


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_node_is_asked_for_its_version_without_its_engine(asked: list[list[str]]) -> None:
    program = str(shutil.which("node"))
    wanted = ["-p", "process.execPath + ' ' + process.versions.node.split('.')[0]"]
    path, _, major = subprocess.check_output([program, *wanted], text=True).strip().rpartition(" ")
    asked.clear()
    assert environment._find_node(program) == (path, major)
    assert [command[1] for command in asked] == ["--version"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("is_link", [False, True])
def test_a_version_manager_s_shim_is_asked_which_program_it_starts(
    tmp_path: Path, asked: list[list[str]], is_link: bool
) -> None:
    program = shutil.which("node")
    shim = tmp_path / "node"
    manager = tmp_path / "manager" if is_link else shim
    manager.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    manager.chmod(0o755)
    if is_link:
        shim.symlink_to(manager)
    path, major = environment._find_node(str(shim))
    assert Path(path) == Path(str(program)).resolve()
    assert major.isdigit()
    assert [command[1] for command in asked] == ["-p"]


def test_a_program_that_fails_is_taken_as_it_is(tmp_path: Path, asked: list[list[str]]) -> None:
    shim = tmp_path / "node"
    shim.write_text("#!/bin/sh\nexit 1\n")
    shim.chmod(0o755)
    assert environment._find_node(str(shim)) == (str(shim), "")
    assert asked


def started(
    runtime: str, trust: Path | None, folder: Path, **own: str
) -> tuple[list[str], dict[str, str]]:
    """The command and the variables of a function with these variables of its own."""
    spec = environment.SandboxSpec(
        account="000000000000",
        region="us-east-1",
        name="f",
        version="$LATEST",
        runtime=runtime,
        handler="index.handler",
        code_dir=folder,
        layer_dirs=(),
        environment=tuple(own.items()),
        timeout_s=3.0,
        memory_mib=128,
        log_group="/aws/lambda/f",
        log_format="Text",
        endpoint_url="http://127.0.0.1:4566",
        role="arn:aws:iam::000000000000:role/r",
    )
    places = environment.ProcessPaths(folder, None, folder, "/usr/bin", trust)
    variables = environment.build_environment(
        spec,
        runtime_api="127.0.0.1:1",
        log_stream="s",
        places=places,
        credentials=Credentials("AKIA", "secret", "token", 0),
    )
    return environment.build_command(spec, places), variables


@pytest.mark.parametrize(
    "own", [{}, {"NODE_OPTIONS": "--enable-source-maps"}, {"CURL_CA_BUNDLE": "/var/task/own.pem"}]
)
def test_node_reads_the_authorities_when_it_needs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: dict[str, str]
) -> None:
    monkeypatch.setattr(environment, "find_node_program", lambda: "node")
    trust = tmp_path / "trusted.pem"
    command, variables = started("nodejs22.x", trust, tmp_path, **own)
    assert "--use-openssl-ca" in command
    assert variables["SSL_CERT_FILE"] == str(trust)
    assert "NODE_EXTRA_CA_CERTS" not in variables


@pytest.mark.parametrize(
    "own",
    [
        {"SSL_CERT_FILE": "/var/task/own.pem"},
        {"SSL_CERT_DIR": "/var/task/own"},
        {"NODE_EXTRA_CA_CERTS": "/var/task/own.pem"},
        {"NODE_OPTIONS": "--use-bundled-ca"},
    ],
)
def test_a_node_function_that_says_whom_it_trusts_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: dict[str, str]
) -> None:
    monkeypatch.setattr(environment, "find_node_program", lambda: "node")
    trust = tmp_path / "trusted.pem"
    command, variables = started("nodejs22.x", trust, tmp_path, **own)
    assert "--use-openssl-ca" not in command
    assert {"NODE_EXTRA_CA_CERTS": str(trust), **own}.items() <= variables.items()


def test_other_runtimes_and_functions_of_a_cloud_without_a_certificate_have_no_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environment, "find_node_program", lambda: "node")
    command, variables = started("nodejs22.x", None, tmp_path)
    assert "--use-openssl-ca" not in command
    assert "SSL_CERT_FILE" not in variables
    _, variables = started(RUNNING, tmp_path / "trusted.pem", tmp_path)
    assert variables["NODE_EXTRA_CA_CERTS"] == str(tmp_path / "trusted.pem")
