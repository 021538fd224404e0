"""A start reads its modules from one file, and sees every change of a source as Python itself does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.code_pack import CodePack

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


def test_a_pack_that_ends_in_any_bytes_is_none(start: Start) -> None:
    start.pack.write_bytes(start.pack.read_bytes()[:400] + b"\xff" * 8)
    assert start.run() == ("1", "SourceFileLoader")


def test_a_package_that_is_new_in_an_earlier_folder_is_the_one_that_is_found(
    tmp_path: Path,
) -> None:
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    earlier.mkdir()
    later.mkdir()
    start = Start(later)
    program = PROGRAM.replace("import sys\n", f"import sys\nsys.path.insert(1, {str(later)!r})\n")

    def value(folder: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, str(start.pack)],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        )
        return done.stdout.split()[0]

    assert value(earlier) == "1"
    assert start.pack.exists()
    (earlier / "parts").mkdir()
    (earlier / "parts" / "__init__.py").write_text("NAME = 'parts'\n")
    (earlier / "parts" / "one.py").write_text("VALUE = 5\n")
    assert value(earlier) == "5"


def test_code_of_a_moved_source_names_where_it_is_now(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    first = Start(old)
    first.change("def place() -> str: return place.__code__.co_filename\nVALUE = place()\n", at_s=9)
    first.run()
    first.pack.unlink()
    old.rename(new)
    first.pack = new / "start.pack"
    for _ in range(2):
        assert first.run(folder=new)[0] == str(new / "parts" / "one.py")
    assert first.pack.exists()


def test_what_a_killed_or_failed_writer_left_is_removed(start: Start) -> None:
    left = start.pack.with_suffix(".4711")
    left.write_text("half a pack")
    start.change("VALUE = 2\n", at_s=1_700_000_001)
    start.run()
    assert not left.exists()
    start.pack.unlink()
    # A folder takes the pack's place: the writer fails at the end.
    start.pack.mkdir()
    (start.pack / "kept").touch()
    assert start.run() == ("2", "SourceFileLoader")
    assert [one.name for one in start.pack.parent.glob("start.*")] == ["start.pack"]


def test_a_source_that_is_removed_while_a_pack_is_written_ends_no_start(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    pack = CodePack(start.pack)
    gone = {"parts.one": (start.source, start.source)}
    monkeypatch.setattr(pack, "_compiled_modules", lambda: gone)
    start.source.unlink()
    pack.keep()
    assert [one.name for one in start.pack.parent.glob("start.*")] == ["start.pack"]
