"""Sources of files: TAILDIR follows files that grow, spooldir takes whole ones.

TAILDIR reads with the agent's own tailer, whose positions lie beside Flume's `positionFile`; at the first start it goes
on where that file says that Flume was.

Sources that need no other side: exec runs a command and takes its lines, seq counts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from headrace.agent.converters import compile_java
from headrace.agent.flume.events import NO_HEADERS, Event, Headers, events_of
from headrace.agent.flume.intake import Intake
from headrace.agent.lines import FilePattern, Splitter
from headrace.agent.positions import Position, PositionsDamaged, PositionStore
from headrace.agent.properties import Section
from headrace.agent.tailer import Piece, Tailer
from headrace.core.clock import Clock

_PIPE_BYTES = 1 << 18
_LOOK_S = 0.2
_END_S = 5.0


class Exec:
    """The lines that a command writes. A full channel holds the command up; what a kill leaves in its pipe is lost."""

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        self._intake, self._clock = intake, clock
        command, shell = section.text("command"), section.words("shell", "")
        # Flume parts a command without a shell at its spaces, whatever quotes it has.
        self._command = [*shell, command] if shell else command.split()
        if not self._command:
            raise section.error("command", f"{section.owner} has an empty command")
        self._restarts = section.flag("restart", default=False)
        self._throttle_s = section.number("restartThrottle", 10_000) / 1000
        self._logs_errors = section.flag("logStdErr", default=False)
        section.charset("charset")
        section.ignore("batchSize", "batchTimeout")
        self._splitter = Splitter(_LONGEST_LINE_BYTES, terminator=b"")
        self.ends = not self._restarts

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        while not self._intake.stop.is_set():
            code = self._run_command()
            if self._intake.stop.is_set() or not self._restarts:
                if code:
                    _LOG.error("source %s: the command ended with %d", self._intake.name, code)
                return
            _LOG.warning(
                "source %s: the command ended with %d and is started again", self._intake.name, code
            )
            self._clock.wait(self._intake.stop, self._throttle_s)

    def _run_command(self) -> int:
        errors = subprocess.PIPE if self._logs_errors else subprocess.DEVNULL
        process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )  # fmt: skip
        if process.stderr is not None:
            threading.Thread(target=self._log_errors, args=(process.stderr,), daemon=True).start()
        assert process.stdout is not None
        try:
            with process.stdout as output:
                self._read(output)
        finally:
            _end(process)
        return process.returncode

    def _log_errors(self, errors: IO[bytes]) -> None:
        with errors:
            for line in errors:
                _LOG.error(
                    "source %s: %s", self._intake.name, line.decode(errors="replace").rstrip("\n")
                )

    def _read(self, output: IO[bytes]) -> None:
        data = b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while not self._intake.stop.is_set():
                if not selector.select(_LOOK_S):
                    continue
                part = os.read(output.fileno(), _PIPE_BYTES)
                lines, taken = self._splitter.split(data + part, is_end=not part)
                data = (data + part)[taken:]
                self._intake.put_all(
                    [Event(NO_HEADERS, line.removesuffix(b"\n")) for line in lines]
                )
                if not part:
                    return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started, unless it has ended."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            process.wait(0.0 if process.poll() is not None else 0.05)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        else:
            return


class Seq:
    """A counter."""

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError."""
        del clock
        self._intake = intake
        self.ends = section.has("totalEvents")
        self._total = section.number("totalEvents", (1 << 63) - 1, most=(1 << 63) - 1)
        self._batch = section.number("batchSize", 1, least=1)

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        number = 0
        while number < self._total and not self._intake.stop.is_set():
            following = min(number + self._batch, self._total)
            self._intake.put_all([Event(NO_HEADERS, b"%d" % at) for at in range(number, following)])
            number = following


_READ_BYTES = 4 << 20
# Flume's own has no bound; a record of Kinesis has at most 10 MiB.
_LONGEST_LINE_BYTES = 10 << 20
_POLL_S = 0.1
_LOG = logging.getLogger("headrace.agent")


class Taildir:
    """The lines of files that grow, through every rotation.

    Durability: a position is stored once the channels have the lines before it; a kill between the two repeats them.
    """

    ends = True

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError, PositionsDamaged, OSError."""
        self._intake, self._clock = intake, clock
        groups = section.words("filegroups")
        self._patterns: list[tuple[FilePattern, Headers]] = []
        for group in groups:
            path = Path(section.text(f"filegroups.{group}"))
            if not path.is_absolute():
                raise section.error(
                    f"filegroups.{group}",
                    f"filegroups.{group} is an absolute path, not {str(path)!r}",
                )
            pattern = _file_pattern(section, f"filegroups.{group}", path)
            self._patterns.append((pattern, section.below(f"headers.{group}.")))
        if not groups:
            raise section.error("filegroups", f"{section.owner} needs at least one of filegroups")
        positions = Path(
            section.text("positionFile", "~/.flume/taildir_position.json")
        ).expanduser()
        self._offset_header = section.flag("byteOffsetHeader", default=False)
        self._file_header = section.text("fileHeaderKey", "file")
        if not section.flag("fileHeader", default=False):
            self._file_header = ""
        skips = section.flag("skipToEnd", default=False)
        section.ignore(
            "idleTimeout", "writePosInterval", "batchSize", "maxBatchCount", "backoffSleepIncrement",
            "maxBackoffSleep", "cachePatternMatching",
        )  # fmt: skip
        self._store = PositionStore(positions.with_name(positions.name + ".headrace.json"))
        stored = self._store.positions(intake.name)
        if stored is None:
            stored = _flumes_positions(positions)
        self._tailer = Tailer(
            [pattern for pattern, _ in self._patterns], stored, Splitter(_LONGEST_LINE_BYTES), clock,
            from_start=not skips,
        )  # fmt: skip
        self._headers: dict[str, Headers] = {}

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        try:
            while not self._intake.stop.is_set():
                if self.step():
                    continue
                if once:
                    return
                self._clock.wait(self._intake.stop, _POLL_S)
        finally:
            self._tailer.close(self._store.positions(self._intake.name) or ())

    def step(self) -> bool:
        """Read, put and store once; return whether there was anything. Raises OSError, Stopped."""
        positions = self._tailer.look()
        pieces = self._tailer.read(_READ_BYTES)
        events: list[Event] = []
        for piece in pieces:
            events += self._events(piece)
        self._intake.put_all(events)
        positions += [piece.position for piece in pieces]
        if positions or self._store.positions(self._intake.name) is None:
            self._store.commit(self._intake.name, positions, self._clock.now_ms())
        return bool(pieces)

    def _events(self, piece: Piece) -> list[Event]:
        headers = self._headers_of(piece.position.path)
        lines = piece.records
        if not self._offset_header:
            # Each line ends with its newline, but perhaps the last.
            bodies = b"".join(lines).split(b"\n")
            return events_of(headers, bodies if bodies[-1] else bodies[:-1])
        start = piece.position.offset - sum(map(len, lines))
        offsets = accumulate(map(len, lines), initial=start)
        return [
            Event({**headers, "byteoffset": str(offset)}, line.removesuffix(b"\n"))
            for offset, line in zip(offsets, lines, strict=False)
        ]

    def _headers_of(self, path: str) -> Headers:
        headers = self._headers.get(path)
        if headers is None:
            # Rotated files have the headers of the group whose file they were.
            headers = next(
                (h for pattern, h in self._patterns if pattern.entry(Path(path))), NO_HEADERS
            )
            if self._file_header:
                headers = {**headers, self._file_header: path}
            self._headers[path] = headers
        return headers


def _file_pattern(section: Section, key: str, path: Path) -> FilePattern:
    try:
        return FilePattern(path.parent, compile_java(path.name).matches)
    except ValueError as error:
        raise section.error(key, f"{key} is not a regular expression: {error}") from error


def _flumes_positions(path: Path) -> list[Position] | None:
    """Return where Flume itself was, by its file of positions; None without one."""
    try:
        entries: Any = json.loads(path.read_bytes())
        known = [(int(e["inode"]), int(e["pos"]), str(e["file"])) for e in entries]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PositionsDamaged(f"{path} is not a file of Flume's positions: {error!r}") from error
    positions: list[Position] = []
    for inode, offset, name in known:
        try:
            status = os.stat(name)  # noqa: PTH116 - a text.
        except OSError:
            _LOG.warning("%s, which Flume had read up to %d, is not there any more", name, offset)
            continue
        if status.st_ino == inode and status.st_size >= offset:
            positions.append(Position(len(positions), name, status.st_dev, inode, offset))
    _LOG.info("%s: %d files go on where Flume was", path, len(positions))
    return positions


class Spooldir:
    """Whole files of a folder, each renamed (or deleted) once the channels have all of it.

    Durability: how far a file was read lies in `trackerDir`; a kill repeats at most the last 4 MiB. A file that changes
    after it was laid there, cannot be decoded, or whose name was used before is named in the log and left alone.
    """

    ends = True

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys. Raises ConfigurationError, OSError."""
        self._intake, self._clock = intake, clock
        self._folder = Path(section.text("spoolDir"))
        if not self._folder.is_dir():
            raise section.error("spoolDir", f"{self._folder} is not a folder")
        self._suffix = section.text("fileSuffix", ".COMPLETED")
        self._deletes = (
            section.choice("deletePolicy", ("never", "immediate"), "never") == "immediate"
        )
        self._renames = (
            section.choice("trackingPolicy", ("rename", "tracker_dir"), "rename") == "rename"
        )
        self._tracker = self._folder / section.text("trackerDir", ".flumespool")
        self._includes, self._ignores = (
            section.pattern("includePattern", "^.*$"),
            section.pattern("ignorePattern", "^$"),
        )
        self._order = section.choice("consumeOrder", ("oldest", "youngest", "random"), "oldest")
        self._is_deep = section.flag("recursiveDirectorySearch", default=False)
        self._poll_s = section.number("pollDelay", 500) / 1000
        self._file_header = section.text("fileHeaderKey", "file")
        self._file_header = self._file_header if section.flag("fileHeader", default=False) else ""
        self._name_header = section.text("basenameHeaderKey", "basename")
        self._name_header = (
            self._name_header if section.flag("basenameHeader", default=False) else ""
        )
        if section.text("deserializer", "LINE").upper() != "LINE":
            raise section.error(
                "deserializer", f"the deserializer {section.text('deserializer')!r} is not built"
            )
        self._longest = section.number("deserializer.maxLineLength", 2048, least=1)
        self._charset, self._into = (
            section.charset("inputCharset"),
            section.charset("deserializer.outputCharset"),
        )
        if "\n".encode(self._charset) != b"\n":
            raise section.error("inputCharset", f"inputCharset {self._charset} is not built")
        policy = section.choice("decodeErrorPolicy", ("FAIL", "REPLACE", "IGNORE"), "FAIL")
        self._errors = {"FAIL": "strict", "REPLACE": "replace", "IGNORE": "ignore"}[policy]
        section.ignore("batchSize", "maxBackoff", "bufferMaxLines", "bufferMaxLineLength")
        self._tracker.mkdir(parents=True, exist_ok=True)
        self._splitter = Splitter(_LONGEST_LINE_BYTES, terminator=b"")
        self._set_aside: set[Path] = set()

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        while not self._intake.stop.is_set():
            if self.step():
                continue
            if once:
                return
            self._clock.wait(self._intake.stop, self._poll_s)

    def step(self) -> bool:
        """Take one file whole; return whether there was one. Raises OSError, Stopped."""
        path = self._next()
        if path is None:
            return False
        try:
            self._take(path)
        except FileNotFoundError:
            _LOG.error("%s vanished while it was read", path)
            self._set_aside.add(path)
        except (UnicodeError, PermissionError, _Changed) as error:
            _LOG.error("%s is left alone: %s", path, error)
            self._set_aside.add(path)
        return True

    def _next(self) -> Path | None:
        files = [
            (path.stat().st_mtime_ns, path.name, path)
            for path in self._files()
            if path not in self._set_aside
        ]
        if not files:
            return None
        if self._order == "random":
            return random.choice(files)[2]
        return (
            min(files)[2]
            if self._order == "oldest"
            else min((-at, name, path) for at, name, path in files)[2]
        )

    def _files(self) -> Iterator[Path]:
        for path in sorted(self._folder.rglob("*") if self._is_deep else self._folder.iterdir()):
            name, inner = path.name, path.relative_to(self._folder)
            if any(part.startswith(".") for part in inner.parts) or not path.is_file():
                continue
            if self._suffix and name.endswith(self._suffix) and self._renames:
                continue
            if not self._renames and self._mark(path).exists():
                continue
            if self._includes.matches(name) and not self._ignores.matches(name):
                yield path

    def _mark(self, path: Path) -> Path:
        """Return the file of `trackerDir` that says that a file was taken."""
        return self._tracker / (str(path.relative_to(self._folder)) + self._suffix)

    def _take(self, path: Path) -> None:
        headers: dict[str, str] = {}
        if self._file_header:
            headers[self._file_header] = str(path.absolute())
        if self._name_header:
            headers[self._name_header] = path.name
        done = path.with_name(path.name + self._suffix)
        if not self._deletes and self._renames and done.exists():
            raise _Changed(f"{done.name} is there already: its name was used before")
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            offset = self._offset(before)
            while True:
                file.seek(offset)
                data = file.read(max(_READ_BYTES, _LONGEST_LINE_BYTES + 1))
                lines, taken = self._splitter.split(data, is_end=file.tell() >= before.st_size)
                if not taken:
                    break
                self._intake.put_all(
                    [Event(headers, body) for line in lines for body in self._bodies(line)]
                )
                offset += taken
                self._note(before, offset)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise _Changed("it was written to after it was laid there; what was added is not sent")
        if self._deletes:
            path.unlink()
        elif self._renames:
            path.rename(done)
        else:
            self._mark(path).parent.mkdir(parents=True, exist_ok=True)
            self._mark(path).touch()

    def _bodies(self, line: bytes) -> list[bytes]:
        """Return a line as its events: without its newline, in the charset, in parts if it is too long."""
        text = line.removesuffix(b"\n").decode(self._charset, self._errors)
        parts = [text[at : at + self._longest] for at in range(0, len(text), self._longest)] or [""]
        return [part.encode(self._into) for part in parts]

    def _note(self, status: os.stat_result, offset: int) -> None:
        following = self._tracker / "headrace.json.new"
        following.write_text(json.dumps({"device": status.st_dev, "inode": status.st_ino, "size": status.st_size,
                                         "time_ns": status.st_mtime_ns, "offset": offset}))  # fmt: skip
        following.replace(self._tracker / "headrace.json")

    def _offset(self, status: os.stat_result) -> int:
        """Return how far a file was read before a kill."""
        try:
            noted: Any = json.loads((self._tracker / "headrace.json").read_bytes())
            known = (noted["device"], noted["inode"], noted["size"], noted["time_ns"])
            offset = int(noted["offset"])
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            _LOG.error(
                "%s cannot be read (%s): the file at hand is sent again",
                self._tracker / "headrace.json",
                error,
            )
            return 0
        same = known == (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return offset if same else 0


class _Changed(Exception):
    """A file is not what Flume's spooldir takes. The message says why."""
