"""Rotation with kills at any step, against what the Java agent loses or repeats: awslabs/amazon-kinesis-agent #17
(any rotation), #75 (rename while reading), #87 (copies taken for new files), #114 (restart after rotation), #118
(copytruncate, compressed, into a folder below)."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.files.lines import Splitter
from headrace.agent.files.names import FilePattern
from headrace.agent.files.positions import PositionStore
from headrace.agent.files.tailer import Tailer
from tests.support.clock import FakeClock


class Machine:
    """A writer with its rotation, and an agent whose sink keeps what was sent before the position is stored."""

    def __init__(self, folder: Path, *, olddir: bool = False, pattern: str = r"app\.log") -> None:
        self.folder, self.pattern, self.clock = folder, pattern, FakeClock()
        self.log = folder / "app.log"
        self.old = folder / "rotated" if olddir else folder
        self.old.mkdir(exist_ok=True)
        self.written: list[bytes] = []
        self.sent: list[bytes] = []
        self.generations = 0
        self.writer = self.log.open("ab", buffering=0)
        self.start()

    def start(self) -> None:
        self.store = PositionStore(self.folder / "state" / "positions")
        self.tailer = Tailer(
            [FilePattern(self.folder, lambda name: re.fullmatch(self.pattern, name) is not None)],
            self.store.positions("flow"),
            Splitter(1 << 16),
            self.clock,
            from_start=True,
        )

    def kill(self) -> None:
        self.tailer.close()
        self.start()

    def write(self, count: int) -> None:
        for _ in range(count):
            line = b"line %d of the log\n" % len(self.written)
            self.written.append(line)
            self.writer.write(line)

    def poll(self, most_bytes: int = 100, *, kill_before_commit: bool = False) -> int:
        changed = self.tailer.look()
        pieces = self.tailer.read(most_bytes)
        if kill_before_commit:
            # What was not acknowledged is not in the sink either: the test of the sinks is another.
            self.kill()
            return 0
        for piece in pieces:
            self.sent += piece.records
        positions = [*changed, *(piece.position for piece in pieces)]
        if positions or self.store.positions("flow") is None:
            self.store.commit("flow", positions, self.clock.now_ms())
        return len(pieces)

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
        self.writer = self.log.open("ab", buffering=0)

    def rename_and_write_to_the_old(self) -> None:
        self.log.rename(self._shift())
        self.write(2)
        self.writer.close()
        self.writer = self.log.open("ab", buffering=0)

    def copy(self) -> None:
        shutil.copy(self.log, self._shift())

    def copytruncate(self) -> None:
        self.copy()
        self.writer.truncate(0)

    def copy_poll_truncate(self) -> None:
        self.copy()
        before = self.log.stat().st_size
        self.poll()
        assert self.log.stat().st_size == before
        self.writer.truncate(0)

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
        assert sorted(self.sent) == sorted(self.written)


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 12)),
    st.sampled_from(
        [("poll", 60), ("poll", 1000), ("rename",), ("rename_and_write_to_the_old",), ("copytruncate",),
         ("copy_poll_truncate",), ("compress",), ("kill",), ("kill_before_commit",)]
    ),
)  # fmt: skip


@pytest.mark.parametrize("olddir", [False, True], ids=["beside", "olddir"])
@pytest.mark.parametrize("pattern", [r"app\.log", r"app\.log.*"], ids=["name", "wildcard"])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_no_rotation_and_no_kill_loses_or_repeats_a_line(
    steps: list[tuple[object, ...]], pattern: str, olddir: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        machine = Machine(Path(name), olddir=olddir, pattern=pattern)
        machine.poll()
        for step, *arguments in steps:
            if step == "kill_before_commit":
                machine.poll(kill_before_commit=True)
            else:
                getattr(machine, str(step))(*arguments)
        machine.check()


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
