"""What a function process is started with, as far as it needs no process to see."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
