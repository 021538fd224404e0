"""A start reads its modules from one file, and sees every change of a source as Python itself does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
from headrace.cli import code_pack
code_pack.use_pack(Path(sys.argv[1]))
import parts.one
print(parts.one.VALUE, parts.NAME, type(parts.one.__spec__.loader).__name__, parts.one.__file__)
import inspect
assert inspect.getsource(parts.one) == Path(parts.one.__file__).read_text()
code_pack.keep_pack()
"""


class Start:
    """A program that imports a package by way of a pack, each time in a new process."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "parts"
        self.package.mkdir()
        (self.package / "__init__.py").write_text("NAME = 'parts'\n")
        self.source = self.package / "one.py"
        self.pack = folder / "start.pack"
        self.change("VALUE = 1\n", at_s=1_700_000_000)

    def change(self, text: str, *, at_s: int) -> None:
        """Give the module this text, at a time of its own."""
        self.source.write_text(text)
        os.utime(self.source, (at_s, at_s))

    def run(self, *flags: str, folder: Path | None = None) -> tuple[str, str]:
        """Return the module's value, and by which loader it came."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder or self.package.parent),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        done = subprocess.run(
            [sys.executable, *flags, "-c", PROGRAM, str(self.pack)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        value, name, loader, file = done.stdout.split()
        assert name == "parts"
        assert file == str((folder or self.package.parent) / "parts" / "one.py")
        return value, loader


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """A program that was run once, and has its pack."""
    made = Start(tmp_path)
    assert made.run() == ("1", "SourceFileLoader")
    assert made.pack.exists()
    return made


def test_a_second_start_reads_the_pack_and_leaves_it(start: Start) -> None:
    written = start.pack.stat()
    assert start.run() == ("1", "_Loader")
    assert start.pack.stat().st_mtime_ns == written.st_mtime_ns


def test_a_changed_source_is_read_and_packed_again(start: Start) -> None:
    start.change("VALUE = 2\n", at_s=1_700_000_001)
    assert start.run() == ("2", "SourceFileLoader")
    assert start.run() == ("2", "_Loader")


def test_a_source_of_another_size_is_read_though_its_time_is_the_same(start: Start) -> None:
    start.change("VALUE = 333\n", at_s=1_700_000_000)
    assert start.run() == ("333", "SourceFileLoader")


def test_a_removed_source_is_no_module(start: Start) -> None:
    start.source.unlink()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        start.run()
    assert "No module named 'parts.one'" in failed.value.stderr


def test_another_path_finds_its_own_modules(start: Start, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "parts").mkdir(parents=True)
    (other / "parts" / "__init__.py").write_text("NAME = 'parts'\n")
    (other / "parts" / "one.py").write_text("VALUE = 4\n")
    assert start.run(folder=other) == ("4", "SourceFileLoader")


@pytest.mark.parametrize("kept_bytes", [0, 5, 400, -20])
def test_a_damaged_pack_is_none(start: Start, kept_bytes: int) -> None:
    start.pack.write_bytes(start.pack.read_bytes()[:kept_bytes])
    assert start.run() == ("1", "SourceFileLoader")


def test_code_that_cannot_be_read_comes_from_the_bytecode(start: Start) -> None:
    whole = start.pack.read_bytes()
    begin = int.from_bytes(whole[-8:], "little")
    start.pack.write_bytes(bytes(begin) + whole[begin:])
    assert start.run() == ("1", "_Loader")


@pytest.mark.parametrize("flags", [["-B"], ["-O"], ["-X", "pycache_prefix=/nowhere"]])
def test_python_may_be_told_to_keep_no_bytecode_there(tmp_path: Path, flags: list[str]) -> None:
    start = Start(tmp_path)
    start.run()
    start.pack.unlink()
    assert start.run(*flags) == ("1", "SourceFileLoader")
    assert not start.pack.exists()
