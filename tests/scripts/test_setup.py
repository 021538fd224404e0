"""What the scripts say when a tool is missing or too old: one clear sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What setup.sh itself needs of a system.
TOOLS = ("bash", "dirname", "sed", "head", "cat", "cksum")


def need(function: str, folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a function of setup.sh where only `programs` (name to script) can be found."""
    for tool in TOOLS:
        for place in os.environ["PATH"].split(os.pathsep):
            if (Path(place) / tool).exists():
                (folder / tool).symlink_to(Path(place) / tool)
                break
    for name, script in programs.items():
        file = folder / name
        file.write_text(f"#!/usr/bin/env bash\n{script}\n")
        file.chmod(0o755)
    return subprocess.run(
        [str(folder / "bash"), "-c", f"source scripts/setup.sh; {function}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": f"{folder}:/usr/bin/env-only"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("function", "programs", "sentence"),
    [
        ("need_java", {}, "Java 17 or newer is needed for Spark; install it"),
        (
            "need_java",
            {"java": "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"},
            "Java 17 or newer is needed for Spark, not Java 11; install it",
        ),
        ("need_node", {}, "Node.js 20 or newer with npm is needed for the CDK CLI; install it"),
        (
            "need_node",
            {"node": "echo 18", "npm": "true"},
            "Node.js 20 or newer is needed for the CDK CLI, not Node.js 18; install a newer one",
        ),
        ("find_python", {"python3": "exit 1"}, "Python 3.11 or newer is needed; install it"),
        ("python_of 3.13", {}, "Python 3.13 is not on this machine; install it"),
        # What pyenv has on PATH for versions that are installed, but not chosen.
        ("python_of 3.13", {"python3.13": "exit 127"}, "Python 3.13 is not on this machine;"),
    ],
)
def test_a_missing_or_old_tool_is_named_in_one_sentence(
    tmp_path: Path, function: str, programs: dict[str, str], sentence: str
):
    done = need(function, tmp_path, **programs)
    assert done.returncode == 1
    assert done.stderr.startswith(f"headrace: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_new_enough_tools_pass(tmp_path: Path):
    programs = {
        "java": "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2",
        "node": "echo 22",
        "npm": "true",
    }
    done = need("need_java; need_node", tmp_path, **programs)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_python_is_found_on_path_or_where_pyenv_and_uv_put_it(tmp_path: Path):
    found = need("python_of 3.13", tmp_path, **{"python3.13": "true"})
    assert found.stdout.strip() == str(tmp_path / "python3.13")
    for place in (
        "pyenv/versions/3.14.2/bin/python3.14",
        "share/uv/python/cpython-3.12.5-linux-x86_64-gnu/bin/python3.12",
    ):
        program = tmp_path / place
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for version in ("3.14", "3.12"):
        done = subprocess.run(
            ["bash", "-c", f"source scripts/setup.sh; python_of {version}"],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "PYENV_ROOT": str(tmp_path / "pyenv"),
                 "XDG_DATA_HOME": str(tmp_path / "share")},
        )  # fmt: skip
        assert done.stdout.strip().endswith(f"/bin/python{version}"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--python"], "--python wants a version such as 3.13, not ''."),
        (["--python", "tests/unit"], "--python wants a version such as 3.13, not 'tests/unit'."),
        (["--python", "3.10"], "headrace needs Python 3.11 or newer, not 3.10."),
        (["--python", "3.99"], "Python 3.99 is not on this machine; install it"),
    ],
)
def test_a_python_that_cannot_be_is_refused_in_one_sentence(arguments: list[str], sentence: str):
    done = subprocess.run(
        ["scripts/test", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"headrace: {sentence}")
    assert len(done.stderr.splitlines()) == 1
