"""Which files of a folder a flow follows, by their rotated names too, and how their bytes are cut into lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


class Splitter:
    """Cuts bytes into records. For one thread; keeps nothing between calls."""

    def __init__(
        self,
        longest_bytes: int,
        *,
        terminator: bytes = b"\n",
        starts_record: Callable[[bytes], bool] | None = None,
    ) -> None:
        """Take the bounds.

        Args:
            longest_bytes: of a record.
            terminator: what ends the first parts of a record that is longer, as Kinesis Agent's truncated records.
            starts_record: whether a line begins a record of several lines; None: each line is a record.
        """
        self.longest_bytes = longest_bytes
        self._terminator = terminator
        self._starts_record = starts_record

    def split(self, data: bytes, *, is_end: bool) -> tuple[list[bytes], int]:
        """Return the whole records at the start of `data`, with their newlines, and how many bytes they are.

        The last record is whole with its newline (of several lines: when the next begins), or `is_end`, or too long.
        """
        lines = _lines(data)
        rest = b""
        if lines and not lines[-1].endswith(b"\n"):
            rest = lines.pop()
        if self._starts_record is not None:
            lines, rest = self._join_lines(lines, rest)
        if lines and max(map(len, lines)) > self.longest_bytes:
            lines = [part for line in lines for part in self._cut(line)]
        if len(rest) > self.longest_bytes:
            # A line without end goes as it comes.
            parts = self._cut(rest)
            lines += parts[:-1]
            rest = parts[-1]
        if is_end and rest:
            lines.append(rest)
            rest = b""
        return lines, len(data) - len(rest)

    def _join_lines(self, lines: list[bytes], rest: bytes) -> tuple[list[bytes], bytes]:
        assert self._starts_record is not None
        records: list[bytes] = []
        parts: list[bytes] = []
        for line in lines:
            if parts and self._starts_record(line):
                records.append(b"".join(parts))
                parts = []
            parts.append(line)
        return records, b"".join(parts) + rest

    def _cut(self, record: bytes) -> list[bytes]:
        if len(record) <= self.longest_bytes:
            return [record]
        room = self.longest_bytes - len(self._terminator)
        parts = [record[at : at + room] for at in range(0, len(record), room)]
        return [*(part + self._terminator for part in parts[:-1]), parts[-1]]


def _lines(data: bytes) -> list[bytes]:
    # Python's splitlines ends lines at carriage returns too.
    if b"\r" not in data:
        return data.splitlines(keepends=True)
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


COMPRESSIONS = (".gz", ".bz2", ".xz")
_ROTATED = re.compile(r"[-._]?(?:\d[\d._:T+-]*|old|bak|prev)(\.[A-Za-z][\w.]*)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that was listed.

    Attributes:
        path: where it lies.
        matches: whether its name is one that the flow follows; otherwise rotation gave it the name.
        base: the name before rotation; the name itself when it was not rotated.
        is_compressed: whether its name says so.
    """

    path: Path
    matches: bool
    base: str
    is_compressed: bool


@dataclass(frozen=True, slots=True)
class FilePattern:
    """The files of a folder whose names `matches` takes. Rotated ones may lie in a folder below it (`olddir`)."""

    folder: Path
    matches: Callable[[str], bool]

    def entries(self) -> Iterator[Entry]:
        """Yield the files that match, and those that rotation has made of such files. Raises OSError."""
        folders: list[str] = []
        with os.scandir(self.folder) as listing:
            for item in listing:
                if item.is_dir(follow_symlinks=False):
                    folders.append(item.path)
                elif entry := self.entry(Path(item.path)):
                    yield entry
        for folder in folders:
            try:
                with os.scandir(folder) as listing:
                    names = [item.path for item in listing if item.is_file()]
            except OSError:
                continue  # Another's folder; what is the flow's own lies beside it.
            for name in names:
                entry = self.entry(Path(name))
                if entry is not None and (entry.base != entry.path.name):
                    yield Entry(entry.path, False, entry.base, entry.is_compressed)

    def entry(self, path: Path) -> Entry | None:
        """Return what a path is to this flow; None for nothing."""
        name = path.name
        matches = self.matches(name)
        base = self._base(name)
        if not matches and base is None:
            return None
        return Entry(path, matches, base or name, name.endswith(COMPRESSIONS))

    def _base(self, name: str) -> str | None:
        """Return the name that a rotated file had; None when it does not look rotated."""
        plain = name
        for ending in COMPRESSIONS:
            plain = plain.removesuffix(ending)
        for cut in range(1, len(plain)):
            rotated = _ROTATED.fullmatch(plain, cut)
            base = plain[:cut] + (rotated[1] or "") if rotated else ""
            if base and self.matches(base):
                return base
        return plain if plain != name and self.matches(plain) else None
