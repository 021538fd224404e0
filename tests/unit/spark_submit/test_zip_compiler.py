"""The compiled modules beside their sources in a zip."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headrace.spark_submit.zip_compiler import compile_modules

SOURCES = {
    "pack/__init__.py": "",
    "pack/module.py": "def fail():\n    raise ValueError('here')\n",
    "pack/words.txt": "data",
}
PROGRAM = """
import sys, traceback
sys.path.insert(0, sys.argv[1])
from pack import module
print(module.__file__.rpartition(".")[2])
try:
    module.fail()
except ValueError:
    traceback.print_exc(file=sys.stdout)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "python" / "lib"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "pack.zip", "w") as made:
        for name, text in SOURCES.items():
            made.writestr(name, text)
    return tmp_path


def run(home: Path) -> str:
    command = [sys.executable, "-I", "-c", PROGRAM, str(home / "python" / "lib" / "pack.zip")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_modules_come_compiled_and_tracebacks_show_their_source(home: Path):
    plain = run(home)
    archive = home / "python" / "lib" / "pack.zip"
    archive.chmod(0o640)

    assert compile_modules(home, Path(sys.executable)) is None

    assert run(home) == plain.replace("py\n", "pyc\n", 1)
    assert "raise ValueError('here')" in plain
    assert archive.stat().st_mode & 0o777 == 0o640
    with zipfile.ZipFile(archive) as made:
        assert {name: made.read(name).decode() for name in SOURCES} == SOURCES
    assert list(archive.parent.iterdir()) == [archive]


def test_what_is_compiled_is_left_alone(home: Path):
    archive = home / "python" / "lib" / "pack.zip"
    compile_modules(home, Path(sys.executable))
    before = archive.stat().st_ino

    assert compile_modules(home, Path(sys.executable)) is None

    assert archive.stat().st_ino == before


def test_a_zip_that_is_none_stays_and_is_told(home: Path):
    archive = home / "python" / "lib" / "pack.zip"
    archive.write_bytes(b"no zip")

    assert "BadZipFile" in (compile_modules(home, Path(sys.executable)) or "")

    assert archive.read_bytes() == b"no zip"
    assert list(archive.parent.iterdir()) == [archive]


def test_an_interpreter_that_fails_is_told(home: Path):
    assert "ended with 1" in (compile_modules(home, Path("/bin/false")) or "")
