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
