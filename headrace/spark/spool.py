"""The spool: files on the driver's machine with records that the planner has read and Spark has not yet.

A file is an unchanged GetRecords answer (`.json`), or Arrow if the planner had to parse it. Records are numbered by the
shard's count (see `offsets`), so that a batch is a range of numbers. The spool is a cache: a task that cannot reach it
reads the records again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.spark.arrays import integer
from headrace.spark.get_records import Page, parse_records, row_of
from headrace.spark.untyped import Records, pa, pc

_AS_IT_CAME = ".json"


@dataclass(frozen=True)
class Slice:
    """Rows of one spool file."""

    path: str
    offset: int
    rows: int


@dataclass(frozen=True)
class _Chunk:
    path: Path
    first: int
    rows: int
    data_bytes: int
    last: tuple[str, int]

    @property
    def end(self) -> int:
        return self.first + self.rows


class ShardSpool:
    """The spooled records of one shard, from number `first` on. Used by one thread at a time."""

    def __init__(self, folder: Path, first: int) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._chunks: list[_Chunk] = []
        self.first = first
        self.end = first

    def append(self, page: Page) -> None:
        """Add a page with records after the last."""
        assert page.last is not None
        if page.body is not None:
            path = self._folder / f"{self.end}{_AS_IT_CAME}"
            path.write_bytes(page.body)
        else:
            path = self._folder / f"{self.end}.arrow"
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_file(file, page.records.schema) as writer,
            ):
                writer.write_batch(page.records)
        self._chunks.append(_Chunk(path, self.end, page.rows, page.data_bytes, page.last))
        self.end += page.rows

    def row(self, number: int) -> tuple[str, int]:
        """Return the sequence number and the arrival in milliseconds of record `number`."""
        chunk = next(chunk for chunk in self._chunks if chunk.first <= number < chunk.end)
        if number == chunk.end - 1:
            return chunk.last
        return row_of(read_file(str(chunk.path)), number - chunk.first)

    def bytes_after(self, number: int) -> int:
        """Return the approximate bytes of data of the records from `number` on, counted in whole files."""
        return sum(chunk.data_bytes for chunk in self._chunks if chunk.end > number)

    def rows_within(self, number: int, most_bytes: int) -> int:
        """Return how many records from `number` on have at most `most_bytes` of data together."""
        rows = left = 0
        for chunk in self._chunks:
            if chunk.end <= number:
                continue
            batch = read_file(str(chunk.path)).slice(max(0, number - chunk.first))
            sizes = pc.cumulative_sum(pc.binary_length(batch.column("data")).cast(pa.int64()))
            within = int(pc.sum(pc.less_equal(sizes, integer(most_bytes - left))).as_py() or 0)
            rows += within
            if within < batch.num_rows:
                break
            left += int(sizes[-1].as_py())
        return rows

    def slices(self, start: int, end: int) -> list[Slice] | None:
        """Return the slices with the records from number `start` to before `end`; None if some are missing."""
        if start < self.first or end > self.end:
            return None
        return [
            Slice(str(c.path), max(start, c.first) - c.first, min(end, c.end) - max(start, c.first))
            for c in self._chunks
            if c.first < end and c.end > start
        ]

    def release(self, before: int) -> None:
        """Remove the files with only records numbered below `before`."""
        while self._chunks and self._chunks[0].end <= before:
            chunk = self._chunks.pop(0)
            chunk.path.unlink(missing_ok=True)
            self.first = chunk.end


def read_file(path: str) -> Records:
    """Return the records of a spool file."""
    if path.endswith(_AS_IT_CAME):
        return parse_records(Path(path).read_bytes())
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).get_batch(0)


def read_slices(slices: list[Slice]) -> Iterator[Records]:
    """Yield the rows of `slices`."""
    for part in slices:
        yield read_file(part.path).slice(part.offset, part.rows)
