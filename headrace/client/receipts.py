"""Records on their way: what `put` returns, and the chunks that they travel in.

A chunk's records share their state, so that a record costs little: its receipt names the chunk and its place there.
When the records of a chunk part (some were refused, or belong to another shard now), the chunk passes each on.

What a producer says of itself: its counts, and the records that failed unheard.

What a stream takes as a record, as a producer checks it before the record is taken. Standard library only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from headrace.client.cbor import results_of
from headrace.client.hash_keys import HASH_KEYS

if TYPE_CHECKING:
    from typing import Self
MOST_KEY_CHARS = 256
MOST_RECORD_BYTES = 10 << 20
# Half of a character of UTF-16, as in an argument that is not UTF-8: no request can carry it.
_SURROGATE = re.compile("[\ud800-\udfff]")


def bytes_of(data: Any) -> bytes:
    """Return a record's data: bytes, what has a buffer, or text, which becomes UTF-8. Raises TypeError, ValueError."""
    if type(data) is bytes:
        return data
    if isinstance(data, str):
        if _SURROGATE.search(data):
            raise ValueError(f"a record's text is Unicode text, not {data[:40]!r}")
        return data.encode()
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise TypeError(f"a record's data is bytes or text, not {type(data).__name__}") from None


def hash_key_text(explicit: int | str | None) -> str | None:
    """Return an explicit hash key in decimal digits. Raises ValueError."""
    if explicit is None:
        return None
    try:
        return str(int(explicit))
    except (TypeError, ValueError):
        raise ValueError(_no_hash_key(explicit)) from None


def check_record(data: bytes, key: Any, explicit: str | None = None) -> None:
    """Raise ValueError, or TypeError for a key that is not text, for what no stream takes."""
    if key is not None:
        if not isinstance(key, str):
            raise TypeError(f"a partition key is text, not {type(key).__name__}")
        if not 0 < len(key) <= MOST_KEY_CHARS:
            raise ValueError(
                f"a partition key has 1 to {MOST_KEY_CHARS} characters, not {len(key)}"
            )
        if not key.isascii() and _SURROGATE.search(key):
            raise ValueError(f"a partition key is Unicode text, not {key!r}")
    if size_of(data, key) > MOST_RECORD_BYTES:
        raise ValueError(f"a record has at most {MOST_RECORD_BYTES} bytes with its key")
    if explicit is not None and not 0 <= int(explicit) < HASH_KEYS:
        raise ValueError(_no_hash_key(explicit))


def are_plain(rows: list[tuple[Any, Any]]) -> bool:
    """Whether all records are bytes with a key in ASCII that any stream takes. False says nothing."""
    if not rows:
        return True
    data, keys = zip(*rows, strict=True)
    if set(map(type, data)) != {bytes} or set(map(type, keys)) != {str}:
        return False
    longest_bytes = max(map(len, data))
    return (
        "".join(keys).isascii()
        and min(map(len, keys)) > 0
        and max(map(len, keys)) <= MOST_KEY_CHARS
        and longest_bytes <= MOST_RECORD_BYTES - MOST_KEY_CHARS
    )


def _no_hash_key(explicit: int | str) -> str:
    return f"an explicit hash key is between 0 and 2**128 - 1, not {explicit}"


class PutsFailed(Exception):
    """`count` records failed that had no callback; `error` is the first one's."""

    def __init__(self, count: int, error: PutError) -> None:
        super().__init__(
            f"{count} record{'s were' if count > 1 else ' was'} not put; the first: {error}"
        )
        self.count, self.error = count, error


class RequestCounts(NamedTuple):
    """What became of one request.

    Attributes:
        records: that it had, of the stream: an aggregate is one.
        refused: how many of them its answer refuses.
        bytes_: of the data that arrived.
        has_failed: there is no answer but an error.
    """

    records: int
    refused: int
    bytes_: int
    has_failed: bool


@dataclass(slots=True)
class ProducerMetrics:
    """Counts since the start. `buffered` and `buffered_bytes` are those of now."""

    acknowledged: int = 0
    failed: int = 0
    dropped: int = 0
    requests: int = 0
    entries: int = 0
    bytes: int = 0
    throttled: int = 0
    retried: int = 0
    in_foreign_shard: int = 0
    map_refreshes: int = 0
    buffered: int = 0
    buffered_bytes: int = 0


class PutError(Exception):
    """A record was not put, and will not be. The message is one sentence.

    Attributes:
        code: AWS's code, or `RecordExpired`, `Dropped` or `Closed`, which are the producer's own.
        reason: what the last attempt met.
        attempts: how often it was tried.
        may_be_there: whether the stream may have the record: no answer came, or an internal failure.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: str = "",
        attempts: int = 1,
        may_be_there: bool = False,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.attempts, self.may_be_there = code, attempts, may_be_there
        self.reason = reason or str(self)


class BufferFull(Exception):
    """The producer's buffer is full (`when_full="raise"`); the record was not taken.

    `taken` are the receipts of the records of the same call that came before it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.taken = Receipts()


# What to call when records are done, each with its receipt.
Calls = list[tuple[Callable[["Receipt"], Any], "Receipt"]]


class Owner(Protocol):
    """What a receipt asks of its producer."""

    def wait_for(self, receipt: Receipt, timeout_s: float | None) -> bool:
        """Wait until a receipt is done; return whether it is."""
        ...

    def call_when_done(self, receipt: Receipt, callback: Callable[[Receipt], Any]) -> None:
        """Call `callback(receipt)` once it is done: at once, or in a thread of the producer."""
        ...


class Answer:
    """The answer to a PutRecords request; it is parsed when a result is asked for."""

    __slots__ = ("_body", "_count", "_results")

    def __init__(self, body: bytes, count: int) -> None:
        self._body: bytes | None = body
        self._count = count
        self._results: list[dict[str, Any]] = []

    def result(self, index: int) -> dict[str, Any]:
        """Return the result of one entry. Thread-safe: two threads may parse the same."""
        body = self._body
        if body is not None:
            self._results = results_of(body, self._count)
            self._body = None
        return self._results[index]


class Chunk:
    """Records that wait or travel together, in order. The producer's lock guards it.

    Attributes:
        owner: the producer.
        data, keys: of each record; a key that is None is left to the producer.
        explicit: the explicit hash keys, by place.
        put_s: when the first record came.
        bytes_: of all data and keys; until the chunk is closed, `room` counts instead.
        callbacks, spool_ids: by place.
        is_unsure: whether an attempt may have been executed, though no answer says so.
        moved: where each record is now, once they have parted.
        answer, places, error: what became of the records; `places` are their entries in the answer.
    """

    __slots__ = (
        "answer", "attempts", "bytes_", "callbacks", "data", "error", "explicit", "is_unsure", "keys", "moved",
        "owner", "places", "put_s", "room", "spool_ids",
    )  # fmt: skip

    def __init__(self, owner: Owner, put_s: float, room: int) -> None:
        self.owner, self.put_s, self.room = owner, put_s, room
        self.data: list[bytes] = []
        self.keys: list[str | None] = []
        self.explicit: dict[int, str] | None = None
        self.spool_ids: list[int] | None = None
        self.callbacks: dict[int, Calls] | None = None
        self.moved: list[tuple[Chunk, int]] | None = None
        self.answer: Answer | None = None
        self.places: Sequence[int] = ()
        self.error: PutError | None = None
        self.attempts = self.bytes_ = 0
        self.is_unsure = False

    def __len__(self) -> int:
        return len(self.data)

    def is_done(self) -> bool:
        """Whether the records that have not moved were acknowledged or have failed."""
        return self.answer is not None or self.error is not None

    def explicit_of(self, index: int) -> str | None:
        """Return a record's explicit hash key."""
        return None if self.explicit is None else self.explicit.get(index)

    def add_callback(
        self, place: int, callback: Callable[[Receipt], Any], receipt: Receipt
    ) -> None:
        """Note what to call with which receipt when a record is done."""
        self.callbacks = self.callbacks or {}
        self.callbacks.setdefault(place, []).append((callback, receipt))

    def part(self, *groups: Sequence[int]) -> list[Chunk]:
        """Move the records into new chunks, one for each group of places; every place is in one group."""
        moved: list[tuple[Chunk, int]] = [(self, 0)] * len(self.data)
        chunks: list[Chunk] = []
        for group in groups:
            chunk = Chunk(self.owner, self.put_s, 0)
            chunk.attempts, chunk.is_unsure = self.attempts, self.is_unsure
            for index in group:
                moved[index] = chunk, chunk.adopt(self, index)
            chunks.append(chunk)
        self.moved = moved
        return chunks

    def adopt(self, other: Chunk, index: int) -> int:
        """Take a record of another chunk at the end; return its place. The caller notes where it has moved."""
        position = len(self.data)
        data, key = other.data[index], other.keys[index]
        self.data.append(data)
        self.keys.append(key)
        self.bytes_ += size_of(data, key)
        explicit = other.explicit_of(index)
        if explicit is not None:
            self.explicit = {**(self.explicit or {}), position: explicit}
        if other.spool_ids is not None:
            self.spool_ids = [*(self.spool_ids or ()), other.spool_ids[index]]
        if other.callbacks is not None and index in other.callbacks:
            self.callbacks = {**(self.callbacks or {}), position: other.callbacks[index]}
        return position


def size_of(data: bytes, key: str | None) -> int:
    """Return the bytes of a record as Kinesis counts them."""
    if key is None:
        return len(data)
    return len(data) + (len(key) if key.isascii() else len(key.encode("utf-8", "surrogatepass")))


class Receipt:
    """A record that was given to a producer: a future, and awaitable. Thread-safe.

    It has no `__init__`, because an object without is the cheapest that Python makes; `receipt_of` makes one. Two
    receipts of one record are equal.

    Attributes:
        chunk, place: where the record was when it was put.
    """

    __slots__ = ("chunk", "place")

    chunk: Chunk
    place: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Receipt):
            return NotImplemented
        return self.chunk is other.chunk and self.place == other.place

    def __hash__(self) -> int:
        return hash((id(self.chunk), self.place))

    def home(self) -> tuple[Chunk, int]:
        """Return the chunk that has the record now, and its place there."""
        chunk, place = self.chunk, self.place
        while chunk.moved is not None:
            chunk, place = chunk.moved[place]
        return chunk, place

    @property
    def data(self) -> bytes:
        """The data that was put."""
        return self.chunk.data[self.place]

    @property
    def key(self) -> str | None:
        """The partition key that was put; None when it was left to the producer."""
        return self.chunk.keys[self.place]

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed for good."""
        return self.home()[0].is_done()

    def exception(self, timeout_s: float | None = None) -> PutError | None:
        """Wait, and return the error, or None when the record was acknowledged. Raises TimeoutError."""
        chunk, _ = self.home()
        if not chunk.is_done():
            if not chunk.owner.wait_for(self, timeout_s):
                raise TimeoutError(f"the record was not acknowledged within {timeout_s} s")
            chunk, _ = self.home()
        return chunk.error

    def result(self, timeout_s: float | None = None) -> Self:
        """Wait until the record is acknowledged, and return this receipt. Raises PutError, TimeoutError."""
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        return self

    @property
    def shard_id(self) -> str:
        """The shard that has the record. Raises as `result`."""
        return str(self._acknowledgement()["ShardId"])

    @property
    def sequence_number(self) -> str:
        """The sequence number; user records of one aggregate have the same. Raises as `result`."""
        return str(self._acknowledgement()["SequenceNumber"])

    def add_done_callback(self, callback: Callable[[Receipt], Any]) -> None:
        """Call `callback(receipt)` when it is done, in one of the producer's threads; what it raises is logged."""
        self.chunk.owner.call_when_done(self, callback)

    def __await__(self) -> Generator[Any, None, Receipt]:
        # Whoever awaits has loaded it.
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def when_done(_: Receipt) -> None:
            loop.call_soon_threadsafe(wake)

        self.add_done_callback(when_done)
        yield from future
        return self.result()

    def _acknowledgement(self) -> dict[str, Any]:
        chunk, index = self.home()
        if chunk.answer is None:
            chunk, index = self.result().home()
            assert chunk.answer is not None
        return chunk.answer.result(chunk.places[index])


def receipt_of(chunk: Chunk, place: int) -> Receipt:
    """Return the receipt of a chunk's record."""
    receipt = Receipt()
    receipt.chunk, receipt.place = chunk, place
    return receipt


class Receipts(Sequence[Receipt]):
    """The receipts of many records, in their order; each is made when it is asked for. Not changed by their user."""

    __slots__ = ("chunks", "places")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.places: list[int] = []

    def add(self, receipt: Receipt) -> None:
        """Note one more record."""
        self.chunks.append(receipt.chunk)
        self.places.append(receipt.place)

    def add_all(self, others: Receipts) -> None:
        """Note more records."""
        self.chunks += others.chunks
        self.places += others.places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return list(map(receipt_of, self.chunks[index], self.places[index]))
        return receipt_of(self.chunks[index], self.places[index])

    def done(self) -> bool:
        """Whether each record was acknowledged or has failed for good."""
        return all(receipt.done() for receipt in self)

    def result(self, timeout_s: float | None = None) -> Self:
        """Wait until each record is acknowledged, and return these receipts. Raises PutError, TimeoutError."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for receipt in self:
            if not receipt.done() or receipt.home()[0].error is not None:
                left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
                receipt.result(left_s)
        return self
