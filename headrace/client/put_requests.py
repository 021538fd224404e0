"""The bodies of PutRecords requests, and what their answers say. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.client import cbor
from headrace.client.aggregation import aggregate
from headrace.client.cbor import results_of
from headrace.client.hash_keys import hash_key_of
from headrace.client.lanes import NO_KEY, Lane
from headrace.client.receipts import Answer, Chunk
from headrace.client.wire import ServiceError, WireError

MOST_RECORDS = 500
_NONE_FAILED = cbor.text("FailedRecordCount") + cbor.head(cbor.UNSIGNED, 0)
_SHARD_ID = cbor.text("ShardId")
_DATA, _PARTITION_KEY = cbor.text("Data"), cbor.text("PartitionKey")
_REMEMBERED_KEYS = 100_000


@dataclass(slots=True)
class Request:
    """Chunks that are sent together, each with its lane; aggregated, each is one entry, else each record is one.

    Nothing more goes into one that is sealed.
    """

    chunks: list[tuple[Chunk, Lane]]
    aggregated: bool
    entries: int = 0
    bytes_: int = 0
    is_sealed: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of a request: an answer, with each entry's result if any is needed now, or an error."""

    answer: Answer | None = None
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: ServiceError | WireError | None = None


class _Tails(dict[str | None, bytes]):
    """What follows an entry's data, by partition key; the entry's map ends at its break. Raises UnicodeEncodeError."""

    def __missing__(self, key: str | None) -> bytes:
        if len(self) >= _REMEMBERED_KEYS:
            self.clear()
        tail = self[key] = b"\xff" if key is None else _PARTITION_KEY + cbor.text(key) + b"\xff"
        return tail


class _Heads(dict[int, bytes]):
    """What stands before an entry's data, by the length of the data."""

    def __missing__(self, length: int) -> bytes:
        if len(self) >= _REMEMBERED_KEYS:
            self.clear()
        entry = self[length] = b"\xbf" + _DATA + cbor.head(cbor.BYTES, length)
        return entry


class Bodies:
    """Makes the bodies of requests for one stream, in CBOR. One per thread."""

    def __init__(self, name_member: dict[str, str]) -> None:
        """Take the member that names the stream."""
        names = b"".join(cbor.text(part) for member in name_member.items() for part in member)
        self._head = cbor.head(cbor.MAP, 1 + len(name_member)) + names + cbor.text("Records")
        self._heads, self._tails = _Heads(), _Tails()

    def body_of(self, request: Request, random_keys: list[str] | None) -> bytes:
        """Return a body; records without a key take one of `random_keys`, or, with None, none at all.

        Raises UnicodeEncodeError: a key is not Unicode text.
        """
        data: list[bytes] = []
        tails: list[bytes] = []
        for chunk, _ in request.chunks:
            # A record alone is not packed, as with the KPL: it would grow for nothing, maybe beyond the limit.
            if request.aggregated and len(chunk) > 1:
                data.append(_aggregate_of(chunk))
                tail = self._tails[chunk.keys[0] or NO_KEY]
                tails.append(_with_explicit(tail, _first_hash(chunk)))
                continue
            keys = chunk.keys
            if request.aggregated:
                keys = [key or NO_KEY for key in keys]
            elif random_keys is not None and None in keys:
                keys = [random_keys.pop() if key is None else key for key in keys]
            chunk_tails = list(map(self._tails.__getitem__, keys))
            for index, explicit in (chunk.explicit or {}).items():
                chunk_tails[index] = _with_explicit(chunk_tails[index], explicit)
            data += chunk.data
            tails += chunk_tails
        parts: list[bytes] = [b""] * (3 * len(data))
        parts[::3] = map(self._heads.__getitem__, map(len, data))
        parts[1::3] = data
        parts[2::3] = tails
        return b"".join([self._head, cbor.head(cbor.ARRAY, len(data)), *parts])


def _with_explicit(tail: bytes, hash_key: str) -> bytes:
    return cbor.text("ExplicitHashKey") + cbor.text(hash_key) + tail


def _first_hash(chunk: Chunk) -> str:
    # An aggregate lands where its first record belongs.
    return chunk.explicit_of(0) or str(hash_key_of(chunk.keys[0] or NO_KEY))


def _aggregate_of(chunk: Chunk) -> bytes:
    keys = [key or NO_KEY for key in chunk.keys] if None in chunk.keys else chunk.keys
    return aggregate(keys, chunk.data, chunk.explicit or {})  # pyright: ignore[reportArgumentType]


def outcome_of(body: bytes, count: int, *, with_shards: bool) -> Outcome:
    """Return what an answer says of `count` entries; `with_shards` when their shards are needed now."""
    if not with_shards and _NONE_FAILED in body and body.count(_SHARD_ID) == count:
        return Outcome(answer=Answer(body, count))
    try:
        return Outcome(answer=Answer(body, count), results=results_of(body, count))
    except (ValueError, KeyError, TypeError):
        return Outcome(error=WireError("the answer to PutRecords cannot be read"))
