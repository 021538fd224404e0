"""Rotation with kills at any step, against what the Java agent loses or repeats: the open issues of
awslabs/amazon-kinesis-agent, each by the rotation and the settings that its reporter had."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent import tailer
from headrace.agent.converters import converter_of
from headrace.agent.lines import FilePattern, Splitter
from headrace.agent.positions import Content, PositionStore
from headrace.agent.tailer import Tailer
from tests.support.clock import FakeClock


class Machine:
    """A writer with its rotation, and an agent whose sink keeps what was sent before the position is stored."""

    def __init__(
        self, folder: Path, *, olddir: bool = False, pattern: str = r"app\.log", header: bool = False
    ) -> None:  # fmt: skip
        """`header`: every file begins with a line that is not wanted, and lines become JSON."""
        self.folder, self.pattern, self.clock = folder, pattern, FakeClock()
        self.header = b"the header of a file\n" if header else b""
        self.log = folder / "app.log"
        self.old = folder / "rotated" if olddir else folder
        self.old.mkdir(exist_ok=True)
        self.written: list[bytes] = []
        self.sent: list[bytes] = []
        self.repeated: list[bytes] = []
        self.generations = 0
        self.begin()
        self.start()

    def begin(self) -> None:
        self.writer = self.log.open("ab", buffering=0)
        self.writer.write(self.header)

    def start(self) -> None:
        self.store = PositionStore(self.folder / "state" / "positions")
        self.tailer = Tailer(
            [FilePattern(self.folder, lambda name: re.fullmatch(self.pattern, name) is not None)],
            self.store.positions("flow"),
            Splitter(1 << 16),
            self.clock,
            from_start=True,
            lines_to_skip=1 if self.header else 0,
        )

    def kill(self) -> None:
        self.tailer.close()
        self.start()

    def write(self, count: int) -> None:
        for _ in range(count):
            line = b"line %d of the log\n" % len(self.written)
            self.written.append(line)
            self.writer.write(line)

    def poll(self, most_bytes: int = 100, *, kill: str = "") -> int:
        changed = self.tailer.look()
        pieces = self.tailer.read(most_bytes)
        if kill == "before the sink":
            self.kill()
            return 0
        records = [self.convert(record) for piece in pieces for record in piece.records]
        self.sent += records
        if kill:
            # The sink has the records, and their position is not stored.
            self.repeated += records
            self.kill()
            return 0
        positions = [*changed, *(piece.position for piece in pieces)]
        if positions or self.store.positions("flow") is None:
            self.store.commit("flow", positions, self.clock.now_ms())
        return len(pieces)

    def convert(self, record: bytes) -> bytes:
        converted = _LOG_TO_JSON(record) if self.header else record
        assert converted is not None, record
        return converted

    def kill_before_the_sink(self) -> None:
        self.poll(kill="before the sink")

    def kill_after_the_sink(self) -> None:
        self.poll(kill="after the sink")

    def _shift(self) -> Path:
        for number in range(self.generations, 0, -1):
            for ending in ("", ".gz"):
                path = self.old / f"app.log.{number}{ending}"
                if path.exists():
                    path.rename(self.old / f"app.log.{number + 1}{ending}")
        self.generations += 1
        return self.old / "app.log.1"

    def rename(self) -> None:
        self.log.rename(self._shift())
        self.writer.close()
        self.begin()

    def touch(self) -> None:
        """Let a rotated file look changed, as a reload of httpd does."""
        for path in self.old.glob("app.log.*"):
            os.utime(path)

    def rename_and_write_to_the_old(self) -> None:
        self.log.rename(self._shift())
        self.poll()
        self.write(2)
        self.writer.close()
        self.begin()

    def copy(self) -> None:
        shutil.copy(self.log, self._shift())

    def copytruncate(self) -> None:
        self.copy()
        self.writer.truncate(0)
        self.writer.write(self.header)

    def copy_poll_truncate(self) -> None:
        self.copy()
        before = self.log.stat().st_size
        self.poll()
        assert self.log.stat().st_size == before
        self.writer.truncate(0)
        self.writer.write(self.header)

    def compress(self) -> None:
        for path in sorted(self.old.glob("app.log.*")):
            if path.suffix != ".gz":
                with gzip.open(f"{path}.gz", "wb") as file:
                    file.write(path.read_bytes())
                path.unlink()

    def drain(self) -> None:
        for _ in range(100):
            self.clock.advance(3)
            if not self.poll(1 << 20) and self.tailer.is_at_end:
                self.clock.advance(6)
                if not self.poll(1 << 20):
                    return
        raise AssertionError("the agent never came to the end")

    def check(self) -> None:
        self.drain()
        lines = Counter(self.convert(line) for line in self.written)
        sent = Counter(self.sent)
        assert lines - sent == Counter(), "lost"
        assert sent - lines <= Counter(self.repeated), "repeated"


_LOG_TO_JSON = converter_of(
    {"optionName": "LOGTOJSON", "logFormat": "COMMONAPACHELOG", "customFieldNames": ["Word", "rest"],
     "matchPattern": r"(\w+) (.*)"}
)  # fmt: skip
RENAMES = (("rename",), ("rename_and_write_to_the_old",))
COPIES = (("copytruncate",), ("copy_poll_truncate",))


def steps_of(*rotations: tuple[str, ...]) -> st.SearchStrategy[list[tuple[object, ...]]]:
    """Return writes, polls, kills and these rotations, in any order."""
    others = (
        ("poll", 60),
        ("poll", 1000),
        ("kill",),
        ("kill_before_the_sink",),
        ("kill_after_the_sink",),
    )
    step = st.one_of(
        st.tuples(st.just("write"), st.integers(1, 12)), st.sampled_from([*others, *rotations])
    )
    return st.lists(step, max_size=25)  # fmt: skip


def play(steps: list[tuple[object, ...]], **options: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name), **options)  # type: ignore[arg-type]
        machine.poll()
        for step, *arguments in steps:
            getattr(machine, str(step))(*arguments)
        machine.check()


@pytest.mark.parametrize("olddir", [False, True], ids=["beside", "olddir"])
@pytest.mark.parametrize("pattern", [r"app\.log", r"app\.log.*"], ids=["name", "wildcard"])
@settings(max_examples=30, deadline=None)
@given(steps=steps_of(*RENAMES, *COPIES, ("compress",)))
def test_no_rotation_and_no_kill_loses_or_repeats_a_line(
    steps: list[tuple[object, ...]], pattern: str, olddir: bool
) -> None:
    """#17: lines are missing or come twice, whatever logrotate does."""
    play(steps, pattern=pattern, olddir=olddir)


@settings(max_examples=30, deadline=None)
@given(steps=steps_of(*RENAMES))
def test_a_rename_while_a_file_is_read_loses_nothing(steps: list[tuple[object, ...]]) -> None:
    """#75: events.log* matches the rotated files too, and a file has another's name between two looks."""
    play(steps, pattern=r"app\.log.*")


@settings(max_examples=30, deadline=None)
@given(steps=steps_of(*RENAMES, ("touch",)))
def test_a_rotated_file_that_changes_is_not_sent_again(steps: list[tuple[object, ...]]) -> None:
    """#87: httpd writes to the rotated file until it is reloaded; olddir."""
    play(steps, pattern=r"app\.log.*", olddir=True)


@settings(max_examples=30, deadline=None)
@given(steps=steps_of(*RENAMES, *COPIES))
def test_a_restart_goes_on_although_records_are_converted(steps: list[tuple[object, ...]]) -> None:
    """#114, #116: LOGTOJSON and skipHeaderLines; the position counts the file's bytes, not the converted ones."""
    play(steps, header=True, pattern=r"app\.log.*")


@settings(max_examples=30, deadline=None)
@given(steps=steps_of(*COPIES, ("compress",)))
def test_copytruncate_into_a_folder_below_loses_nothing(steps: list[tuple[object, ...]]) -> None:
    """#118: copytruncate, compress, olddir."""
    play(steps, pattern=".*", olddir=True)


def test_a_file_that_shrinks_without_a_copy_is_read_from_its_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(5)
    machine.poll()
    machine.writer.truncate(0)
    machine.write(2)
    machine.check()


def test_a_file_that_vanishes_is_read_to_its_end_as_long_as_it_is_open(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(3)
    machine.poll()
    machine.write(3)
    machine.log.unlink()
    machine.check()


def test_a_file_whose_permissions_are_lost_is_told_once_and_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path)
    machine.write(3)
    machine.poll()
    machine.kill()
    machine.write(3)
    opening = tailer.open_content

    def refuse(path: Path, **_: bool) -> Content:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(tailer, "open_content", refuse)
    for _ in range(3):
        machine.poll()
    assert caplog.text.count("cannot be read now: Permission denied") == 1
    monkeypatch.setattr(tailer, "open_content", opening)
    machine.check()


def test_a_folder_that_cannot_be_listed_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(tmp_path)
    machine.write(3)
    machine.poll()
    tmp_path.rename(hidden := tmp_path.with_name("hidden"))
    for _ in range(3):
        machine.tailer.look()
    assert caplog.text.count("cannot be read now") == 1
    hidden.rename(tmp_path)
    machine.write(3)
    machine.check()
