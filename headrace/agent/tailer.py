"""Follows the files of a flow: gives their new records with the position that is reached once these are delivered.

How rotation is told from a new file, without a lost or a repeated line:

- A rename: the file stays open, so it is read to its end under any name. After a restart its inode is looked for under
  every name that rotation gives, in the folder and those below it.
- copytruncate: the bytes before the offset are no longer those that were read, or the file is shorter. What was not yet
  read is in the copy, which has the same bytes before the offset; the file itself is read from its start.
- A copy that lies beside its original is read only from where the original was left, and only once that has gone on.
- Compression: a compressed file is known by what it holds, as a copy is.
- A file that was rotated while nobody looked is read like any new one, since every file of an earlier time is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.agent.lines import Entry, FilePattern, Splitter
from headrace.agent.positions import MARK_BYTES, Content, PlainContent, Position, open_content
from headrace.core.clock import Clock

# A rotated file, or the last line of a file without its newline, is whole once nothing was added for so long.
QUIET_S = 5.0
MOST_OPEN_FILES = 256
_COMPARED_AT_ONCE_BYTES = 1 << 20
_LOG = logging.getLogger("headrace.agent")


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one file, in order, and the position behind them."""

    records: list[bytes]
    position: Position


class _File:
    """An open file that is being read."""

    def __init__(self, content: Content, entry: Entry, position: Position, now_s: float) -> None:
        self.content, self.entry, self.position = content, entry, position
        start = max(0, position.offset - MARK_BYTES)
        self.before = content.read_at(start, position.offset - start)  # What was read last.
        self.has_read = False
        self.grew_s = now_s
        self.size = -1
        # Whether the name under which writers write is another file's now.
        self.is_rotated = not entry.matches or entry.base != entry.path.name


class Tailer:
    """The files of one flow. For one thread.

    Raises nothing for a file that cannot be read: that is logged once, and tried again.
    """

    def __init__(
        self,
        patterns: list[FilePattern],
        stored: list[Position] | None,
        splitter: Splitter,
        clock: Clock,
        *,
        from_start: bool,
        lines_to_skip: int = 0,
        is_footer: Callable[[bytes], bool] | None = None,
        quiet_s: float = QUIET_S,
    ) -> None:
        """Take what was stored.

        Args:
            patterns: which files.
            stored: the positions; None at the flow's first start.
            splitter: cuts records.
            clock: the time.
            from_start: whether files of the first start are read from their start rather than from their end.
            lines_to_skip: the first lines of a file that are not sent.
            is_footer: whether a record is the last that is wanted of its file.
            quiet_s: how long a rotated file is waited for.
        """
        self._patterns, self._splitter, self._clock = patterns, splitter, clock
        self._is_first = stored is None
        self._positions = {position.key: position for position in stored or ()}
        self._next_key = max(self._positions, default=-1) + 1
        self._from_start, self._lines_to_skip = from_start, lines_to_skip
        self._is_footer = is_footer
        self._quiet_s = quiet_s
        self._files: dict[int, _File] = {}
        # By id: size and time of files of which nothing is left to read.
        self._settled: dict[tuple[int, int], tuple[int, int]] = {}
        self._told: dict[str, str] = {}
        # Keys of files that are not open on purpose: read to their ends, or under no name any more. They are opened
        # again when something was added.
        self._set_aside: set[int] = set()
        self._turn = 0

    # --- looking ------------------------------------------------------------------------------

    def look(self) -> list[Position]:
        """List the folders, and find out what each file is. Return the positions that changed without any record."""
        changed: list[Position] = []
        entries = self._entries()
        for file in list(self._files.values()):
            changed += self._check_truncation(file)
        ids: dict[tuple[int, int], Entry] = {}
        unknown: list[tuple[int, Entry]] = []
        live = {p.id: p for p in self._positions.values() if not p.is_done}
        for entry in entries:
            try:
                status = entry.path.stat()
            except OSError as error:
                self._tell(entry.path, error)
                continue
            id_ = (status.st_dev, status.st_ino)
            ids[id_] = entry
            position = live.get(id_)
            if position is not None and position.key in self._files:
                self._rename(self._files[position.key], entry)
            elif (
                position is not None
                and (status.st_size == position.offset and position.key in self._set_aside)
            ) or self._settled.get(id_) == (status.st_size, status.st_mtime_ns):
                continue
            else:
                unknown.append((status.st_mtime_ns, entry))
        for _, entry in sorted(unknown, key=lambda item: item[0]):
            changed += self._open(entry)
        changed += self._note_missing(ids)
        if self._is_first:
            # Where the files of the first start end is what tells them from later ones.
            changed = list(self._positions.values())
        self._is_first = False
        return changed

    def _entries(self) -> list[Entry]:
        entries: list[Entry] = []
        for pattern in self._patterns:
            try:
                entries += pattern.entries()
                self._told.pop(str(pattern.folder), None)
            except OSError as error:
                self._tell(pattern.folder, error)
        return entries

    def _tell(self, path: Path, error: OSError) -> None:
        """Log what is wrong with a path, once for each sentence."""
        sentence = error.strerror or str(error)
        if self._told.get(str(path)) != sentence:
            self._told[str(path)] = sentence
            _LOG.warning("%s cannot be read now: %s", path, sentence)

    def _open(self, entry: Entry) -> list[Position]:
        try:
            content = open_content(entry.path, is_compressed=entry.is_compressed)
        except FileNotFoundError:
            return []  # It was rotated meanwhile: the next look finds it.
        except OSError as error:
            self._tell(entry.path, error)
            return []
        try:
            changed, position = self._recognize(entry, content)
            if position is not None:
                file = _File(content, entry, position, self._clock.monotonic_s())
                self._files[position.key] = file
                self._set_aside.discard(position.key)
            else:
                content.close()
        except OSError as error:
            self._tell(entry.path, error)
            content.close()
            return []
        self._told.pop(str(entry.path), None)
        return changed

    def _recognize(self, entry: Entry, content: Content) -> tuple[list[Position], Position | None]:
        """Find out what a file is. Return the positions to store, and where to read on; None: nowhere, for now."""
        changed: list[Position] = []
        for known in [p for p in self._positions.values() if p.id == content.id]:
            if known.is_of(content):
                if known.is_done and content.size() in (None, known.offset):
                    self._settle(entry, content)
                    return changed, None
                at = replace(known, path=str(entry.path), is_done=False)
                return changed, self._note(at)
            if not known.is_done:
                # Truncated while nobody looked, or another file with its inode.
                changed.append(self._note(replace(known, is_done=True)))
        original, shared = self._original_of(entry, content)
        if original is not None:
            if not original.is_done and not self._is_gone(original):
                is_copy = not self._has_diverged(original, content, shared)
                if is_copy or self._is_twin(entry, content):
                    return changed, None
                # The original was truncated and begins as before, such as by its header.
                return changed, self._begin_at(entry, content, shared)
            # What the original was not read of is in its copy.
            end = self._follow_renamed_file(original, entry, content)
            if not original.is_done:
                changed.append(self._note(replace(original, is_done=True)))
            return changed, end
        if not self._is_first and self._is_twin(entry, content):
            return changed, None
        return changed, self._begin(entry, content)

    def _settle(self, entry: Entry, content: Content) -> None:
        status = entry.path.stat()
        if (status.st_dev, status.st_ino) == content.id:
            self._settled[content.id] = (status.st_size, status.st_mtime_ns)

    def _begin(self, entry: Entry, content: Content) -> Position:
        """Return where to begin a file that is not known."""
        position = self._new(entry, content)
        size = content.size()
        if self._is_first and (not entry.matches or not self._from_start or size is None):
            # What rotation made before the first start was not asked for, whatever the initial position.
            if size is None:
                # Nothing of it is read: neither now nor, as it is known by its inode, later.
                return self._note(replace(position, is_done=True))
            start = max(0, size - MARK_BYTES)
            before = content.read_at(start, size - start)
            return self._note(position.advanced(content, before, size, self._clock.now_ms()))
        if isinstance(content, PlainContent):
            position = replace(position, offset=content.first_data())
        return self._note(replace(position, lines_to_skip=self._lines_to_skip))

    def _new(self, entry: Entry, content: Content) -> Position:
        self._next_key += 1
        device, inode = content.id
        return Position(
            self._next_key - 1, str(entry.path), device, inode, at_ms=self._clock.now_ms()
        )

    def _follow_renamed_file(self, original: Position, entry: Entry, content: Content) -> Position:
        position = self._new(entry, content)
        return self._note(
            replace(original, key=position.key, path=position.path, device=position.device, inode=position.inode,
                    is_done=False)
        )  # fmt: skip

    def _note(self, position: Position) -> Position:
        self._positions[position.key] = position
        return position

    def _begin_at(self, entry: Entry, content: Content, offset: int) -> Position:
        """Return where to begin a file whose first bytes were read under another position. Raises OSError."""
        first = content.read_at(0, offset)
        position = self._new(entry, content).advanced(
            content, first[-MARK_BYTES:], offset, self._clock.now_ms()
        )
        left = max(0, self._lines_to_skip - first.count(b"\n"))
        return self._note(replace(position, lines_to_skip=left))

    def _has_diverged(self, original: Position, content: Content, offset: int) -> bool:
        """Whether a copy goes on otherwise behind an offset than its original, which is not done. Raises OSError."""
        part = content.read_at(offset, _COMPARED_AT_ONCE_BYTES)
        file = self._files.get(original.key)
        if file is not None:
            return file.content.read_at(offset, len(part)) != part
        source = open_content(Path(original.path), is_compressed=False)
        try:
            return source.read_at(offset, len(part)) != part
        finally:
            source.close()

    def _original_of(self, entry: Entry, content: Content) -> tuple[Position | None, int]:
        """Return the position of the file that this one is a copy of, and how far it is. Raises OSError.

        It is the one of which most bytes are the same: files that begin by the same header are alike so far.
        """
        best: tuple[Position | None, int] = None, 0
        likely = [
            p for p in self._positions.values()
            if p.id != content.id and p.marks and self._is_related(entry, Path(p.path))
        ]  # fmt: skip
        for position in sorted(likely, key=lambda p: (p.is_done, -p.offset)):
            file = self._files.get(position.key)
            current = file.position if file is not None else position
            shared = current.shared_with(content)
            if shared > best[1]:
                best = current, shared
        return best

    def _is_related(self, entry: Entry, path: Path) -> bool:
        """Whether rotation may have made one of another: their names have the same base."""
        return path.name == entry.base or any(
            other is not None and other.base == entry.base
            for other in (pattern.entry(path) for pattern in self._patterns)
        )

    def _is_gone(self, position: Position) -> bool:
        """Whether a file that is not done lies nowhere any more."""
        if position.key in self._files:
            return False
        try:
            status = Path(position.path).stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != position.id or status.st_size < position.offset

    def _is_twin(self, entry: Entry, content: Content) -> bool:
        """Whether a rotated file equals, as far as it goes, one that is open: its original, which is read first.

        A copy in the making has perhaps fewer bytes than were read. Raises OSError.
        """
        if entry.base == entry.path.name:
            return False
        for file in self._files.values():
            if file.content.id == content.id or not self._is_related(entry, file.entry.path):
                continue
            if _begins_with(file.content, content):
                return True
        return False

    def _rename(self, file: _File, entry: Entry) -> None:
        if entry.path != file.entry.path:
            file.entry = entry
            file.position = self._note(replace(file.position, path=str(entry.path)))
            if entry.base != entry.path.name or not entry.matches:
                file.is_rotated = True

    def _check_truncation(self, file: _File) -> list[Position]:
        try:
            size = file.content.size()
            if size is None or (
                size >= file.position.offset and (not file.has_read or self._has_before(file))
            ):
                return []
        except OSError as error:
            self._tell(file.entry.path, error)
            return []
        return self._restart_truncated_file(file)

    def _has_before(self, file: _File) -> bool:
        start = file.position.offset - len(file.before)
        return file.content.read_at(start, len(file.before)) == file.before

    def _restart_truncated_file(self, file: _File) -> list[Position]:
        """Begin a truncated file again, under a new position."""
        _LOG.info("%s was truncated; it is read from its start", file.entry.path)
        old = self._note(replace(file.position, is_done=True))
        del self._files[old.key]
        position = self._new(file.entry, file.content)
        offset = file.content.first_data() if isinstance(file.content, PlainContent) else 0
        position = self._note(replace(position, offset=offset, lines_to_skip=self._lines_to_skip))
        file.position, file.before, file.size, file.has_read = position, b"", -1, False
        self._files[position.key] = file
        return [old, position]

    def _note_missing(self, ids: dict[tuple[int, int], Entry]) -> list[Position]:
        """Note which files lie under no name any more."""
        changed: list[Position] = []
        for position in list(self._positions.values()):
            if position.is_done or position.id in ids:
                continue
            file = self._files.get(position.key)
            if file is not None:
                file.is_rotated = True
            elif not Path(position.path).parent.is_dir() or position.key in self._set_aside:
                continue
            else:
                self._set_aside.add(position.key)
                _LOG.warning(
                    "%s lies under no name any more; %d bytes of it were read",
                    position.path, position.offset,
                )  # fmt: skip
        return changed

    # --- reading ------------------------------------------------------------------------------

    def read(self, most_bytes: int) -> list[Piece]:
        """Return new records, of at least one file if there are any, and about `most_bytes` at most."""
        pieces: list[Piece] = []
        left = most_bytes
        files = sorted(self._files.values(), key=lambda file: file.position.key)
        self._turn = (self._turn + 1) % max(len(files), 1)
        for file in files[self._turn :] + files[: self._turn]:
            if left <= 0:
                break
            piece = self._read(file, left)
            if piece is not None:
                pieces.append(piece)
                left -= sum(map(len, piece.records))
        self._close_idle()
        return pieces

    def _read(self, file: _File, most_bytes: int) -> Piece | None:
        position, now_s = file.position, self._clock.monotonic_s()
        window = max(most_bytes, self._splitter.longest_bytes + 1)
        try:
            size = file.content.size()
            if size is None or size != file.size or not file.has_read:
                file.grew_s = now_s
            is_quiet = now_s - file.grew_s >= self._quiet_s or size is None
            if size is not None and size == file.size and file.has_read and not is_quiet:
                return None
            start = position.offset - len(file.before)
            data = file.content.read_at(start, len(file.before) + window)
            if not data.startswith(file.before):
                return None  # Truncated: the next look finds it.
            data = data[len(file.before) :]
            is_last = len(data) < window
            is_whole = is_quiet and is_last
            records, taken = self._splitter.split(data, is_end=is_whole)
            file.before = (file.before + data[:taken])[-MARK_BYTES:]
            file.has_read = True
            file.size = -1 if size is None or not is_last else size
            if taken:
                position = position.advanced(
                    file.content, file.before, position.offset + taken, self._clock.now_ms()
                )
        except OSError as error:
            # Nobody waits for what cannot be read.
            file.size = -1
            self._tell(file.entry.path, error)
            return None
        skipped = min(position.lines_to_skip, len(records))
        position = replace(position, lines_to_skip=position.lines_to_skip - skipped)
        records = records[skipped:]
        if self._is_footer is not None:
            for at, record in enumerate(records):
                if self._is_footer(record):
                    records, is_whole = records[:at], True
                    file.is_rotated = True
        is_end = is_whole and file.is_rotated
        if is_end:
            position = replace(position, is_done=True)
        if not taken and not is_end:
            return None
        file.position = self._note(position)
        if is_end:
            file.content.close()
            del self._files[position.key]
        return Piece(records, position)

    def _close_idle(self) -> None:
        """Keep at most so many files open: those that are read to their ends are opened again when they grow."""
        if len(self._files) <= MOST_OPEN_FILES:
            return
        idle = [f for f in self._files.values() if f.size == f.position.offset and not f.is_rotated]
        for file in sorted(idle, key=lambda f: f.grew_s)[: len(self._files) - MOST_OPEN_FILES]:
            file.content.close()
            del self._files[file.position.key]
            self._set_aside.add(file.position.key)

    def close(self, sent: Iterable[Position] | None = None) -> None:
        """Close the files; the log names those that are deleted and have more than was `sent`."""
        offsets = {position.key: position.offset for position in sent or ()}
        for file in self._files.values():
            if sent is not None and file.content.is_deleted():
                size = file.content.size()
                left = 0 if size is None else size - offsets.get(file.position.key, 0)
                if left > 0:
                    _LOG.warning(
                        "%s is deleted, and its last %d bytes were not sent", file.entry.path, left
                    )
            file.content.close()
        self._files.clear()

    def waits_for_quiet(self) -> bool:
        """Whether the last record of a file waits to be whole: it goes once nothing was added for `quiet_s`."""
        return any(file.size > file.position.offset for file in self._files.values())

    @property
    def is_at_end(self) -> bool:
        """Whether every open file was read to its last whole line."""
        return all(file.size >= 0 for file in self._files.values())


def _begins_with(content: Content, other: Content) -> bool:
    """Whether a file begins with all that another has. Raises OSError."""
    at = 0
    while part := other.read_at(at, _COMPARED_AT_ONCE_BYTES):
        if content.read_at(at, len(part)) != part:
            return False
        at += len(part)
    return at > 0
