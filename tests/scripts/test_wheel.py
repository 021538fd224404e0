"""What `pip install` brings: the wheel holds every file of the package, and `python -m build` makes it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of the files that git tracks: what is left over in the folder is no part of it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "headrace", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), "."],
        cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "headrace"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert {name for name in tracked if name} <= held


def test_the_wheel_carries_the_licence_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(info).decode()
        commands = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
        names = archive.namelist()
    assert "License-Expression: Apache-2.0" in metadata
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "headrace = headrace.cli.main:main" in commands


@pytest.mark.slow
def test_an_empty_environment_with_the_wheel_has_a_cloud_that_starts(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    bin_folder = environment / "bin"
    subprocess.run([str(bin_folder / "pip"), "install", "--quiet", str(wheel)], check=True)
    command = [str(bin_folder / "headrace")]
    where = ["--data-dir", str(tmp_path / "data")]
    up = subprocess.run(
        [*command, "up", "--detach", "--port", "0", *where],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert up.returncode == 0, up.stdout + up.stderr
    try:
        status = subprocess.run(
            [*command, "status", *where], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert "kinesis" in status.stdout
    finally:
        subprocess.run([*command, "down", *where], cwd=tmp_path, check=True)
