"""What the scripts say when a tool is missing or too old, and when an installer fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.cli.interrupts import let_children_be_interrupted

ROOT = Path(__file__).parents[2]
# What setup.sh itself needs of a system.
TOOLS = ("bash", "dirname", "sed", "head", "tail", "cat", "rm", "cksum")
NEW_ENOUGH = {"java": "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2", "node": "echo 22"}


def need(
    function: str, folder: Path, root: Path = ROOT, **programs: str
) -> subprocess.CompletedProcess[str]:
    """Run a function of setup.sh where only `programs` (name to script) can be found."""
    folder.mkdir(exist_ok=True)
    for tool in TOOLS:
        for place in os.environ["PATH"].split(os.pathsep):
            if (Path(place) / tool).exists():
                (folder / tool).symlink_to(Path(place) / tool)
                break
    for name, script in programs.items():
        file = folder / name
        file.write_text(f"#!/usr/bin/env bash\n{script}\n")
        file.chmod(0o755)
    let_children_be_interrupted()
    return subprocess.run(
        [str(folder / "bash"), "-c", f"source scripts/setup.sh; {function}"],
        cwd=root, capture_output=True, text=True, check=False, start_new_session=True,
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
    done = need("need_java; need_node", tmp_path, npm="true", **NEW_ENOUGH)
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


# --- installers -------------------------------------------------------------------------------

WARNINGS = "for i in {1..60}; do echo 'WARNING: Ignoring invalid distribution'; done"
NPM = """
echo 'npm warn deprecated inflight@1.0.6: it leaks memory' >&2
echo 'npm error code ENOTFOUND' >&2
echo 'npm error network request to the registry failed' >&2
exit 7
"""


def install(
    folder: Path, tool: str, script: str, *, stamp: str = "stamp"
) -> subprocess.CompletedProcess[str]:
    """Have setup.sh install with a tool that does what `script` says."""
    (folder / "sources").write_text("1")
    function = f"install '{folder / stamp}' '{folder / 'sources'}' -- {tool} ci --prefix cdk"
    return need(function, folder / "bin", **{tool: script})


def test_a_failed_install_shows_the_tools_last_lines_and_what_to_try(tmp_path: Path):
    done = install(tmp_path, "npm", NPM)
    assert (done.returncode, done.stdout) == (1, "")
    log = tmp_path / "stamp.log"
    assert done.stderr.splitlines() == [
        "headrace: this command failed: npm ci --prefix cdk",
        "  | npm error code ENOTFOUND",
        "  | npm error network request to the registry failed",
        (
            f"headrace: exit code 7, its whole output is in {log}; what to try: the registry cannot be "
            "reached, or lacks a package: see "
            '"pip config list", "npm config get registry" and HTTPS_PROXY; run this again.'
        ),
    ]
    assert "npm warn deprecated" in log.read_text()
    assert not (tmp_path / "stamp").exists()


def test_dozens_of_harmless_warnings_do_not_hide_the_reason(tmp_path: Path):
    script = f"echo 'ERROR: No matching distribution' >&2; {WARNINGS} >&2; exit 1"
    done = install(tmp_path, "python3", script)
    assert done.stderr.splitlines()[1] == "  | ERROR: No matching distribution"
    assert len(done.stderr.splitlines()) == 3


def test_of_a_long_failure_the_end_is_shown(tmp_path: Path):
    done = install(tmp_path, "npm", "for i in {1..100}; do echo line $i; done; exit 1")
    assert [line for line in done.stderr.splitlines() if line.startswith("  | ")] == [
        f"  | line {number}" for number in range(76, 101)
    ]


def test_an_install_that_succeeds_says_nothing_and_is_not_repeated(tmp_path: Path):
    script = f"{WARNINGS} | while read -r line; do echo $line >&2; done; echo x >> {tmp_path}/runs"
    for _ in range(2):
        done = install(tmp_path, "python3", script)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for name in (tmp_path / "bin").iterdir():
            name.unlink()
    assert (tmp_path / "runs").read_text() == "x\n"
    assert not (tmp_path / "stamp.log").exists()


@pytest.mark.parametrize(
    ("printed", "hint"),
    [
        ("OSError: [Errno 28] No space left on device", "there is no space left on the disk"),
        ("npm error code EACCES", "a file there belongs to somebody else"),
        (".venv/bin/python: No module named pip", "the environment is incomplete: remove .venv"),
        ("Could not fetch URL: connection error", "the registry cannot be reached, or lacks"),
        ("something else", "run the command by hand; or remove .venv,"),
    ],
)
def test_what_to_try_fits_what_was_printed(tmp_path: Path, printed: str, hint: str):
    done = install(tmp_path, "npm", f"echo '{printed}' >&2; exit 1")
    assert f"; what to try: {hint}" in done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path):
    done = install(tmp_path, "npm", "true", stamp="sources/stamp")
    assert done.returncode == 1
    assert done.stderr == (
        f"headrace: nothing can be written to {tmp_path}/sources: make this folder yours, "
        "and run this again.\n"
    )


def test_an_interrupted_install_is_quiet(tmp_path: Path):
    script = "trap 'echo cancelled; exit 1' INT; kill -INT 0; sleep 60"
    done = install(tmp_path, "npm", script)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert not (tmp_path / "stamp").exists()


def clone_with_fake_pip(tmp_path: Path, script: str) -> Path:
    """Make a clone with what setup.sh reads, whose pip does what `script` says."""
    root = tmp_path / "clone"
    for name in ("scripts", "cdk", "tests/clients/js", ".venv/bin"):
        (root / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", root / "scripts")
    (root / "requirements").mkdir()
    files = ("pyproject.toml", "requirements/newest.txt", "cdk/package-lock.json")
    for name in (*files, "tests/clients/js/package-lock.json"):
        (root / name).touch()
    pip = root / ".venv" / "bin" / "python"
    pip.write_text(f"#!/usr/bin/env bash\n{script}\n")
    pip.chmod(0o755)
    return root


def test_no_tool_is_told_to_hide_why_it_fails(tmp_path: Path):
    said = f'echo "$0" "$@" >> {tmp_path}/called'
    root = clone_with_fake_pip(tmp_path, said)
    done = need("setup", tmp_path / "bin", root, npm=said, **NEW_ENOUGH)
    assert (done.returncode, done.stderr) == (0, "")
    called = (tmp_path / "called").read_text().splitlines()
    assert sorted(line.split()[1] for line in called) == ["-m", "-m", "ci", "ci"]
    assert not [line for line in called if "--silent" in line]


def test_a_run_installs_only_what_it_needs_and_the_tests_add_the_rest(tmp_path: Path):
    said = f'echo "$@" >> {tmp_path}/called'
    root = clone_with_fake_pip(tmp_path, said)

    def called_by(function: str) -> list[str]:
        (tmp_path / "called").write_text("")
        programs = tmp_path / f"programs{len(list(tmp_path.iterdir()))}"
        done = need(function, programs, root, npm=said, **NEW_ENOUGH)
        assert (done.returncode, done.stderr) == (0, "")
        words = (line.split() for line in (tmp_path / "called").read_text().splitlines())
        return sorted(line[2] if line[0] == "ci" else line[-1] for line in words)

    newest, packing = "requirements/newest.txt", "cdk.parts.python_packages"
    assert called_by("setup_run") == [".[spark,pipeline]", "cdk", packing, newest]
    # The rest may bring an older botocore along, so that the newest one is installed again.
    assert called_by("setup") == [".[spark,pipeline,dev,bench]", newest, "tests/clients/js"]
    (root / ".venv" / ".headrace-run-installed").unlink()
    assert called_by("setup_run") == [packing]


def test_packages_that_cannot_be_packed_ahead_do_not_stop_the_run(tmp_path: Path):
    fails = '[[ "$*" != *python_packages ]] || { echo no network >&2; exit 1; }'
    root = clone_with_fake_pip(tmp_path, fails)
    done = need("setup_run; echo done", tmp_path / "bin", root, npm="true", **NEW_ENOUGH)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_npm_which_runs_beside_pip_fails_the_setup_too(tmp_path: Path):
    root = clone_with_fake_pip(tmp_path, "true")
    done = need("setup; echo done", tmp_path / "bin", root, npm="echo EACCES; exit 3", **NEW_ENOUGH)
    assert (done.returncode, done.stdout) == (1, "")
    assert "headrace: this command failed: npm ci --prefix cdk" in done.stderr


def test_the_help_of_a_run_installs_nothing(tmp_path: Path):
    """Neither .venv nor a package is there, as in a fresh checkout."""
    for name in ("scripts", "headrace"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run(
        [tmp_path / "scripts" / "run", "--once", "--help"],
        capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "--month" in done.stdout
    assert "checking the installation" not in done.stdout
    assert not (tmp_path / ".venv").exists()
