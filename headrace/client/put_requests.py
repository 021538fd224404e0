"""The bodies of PutRecords requests, and what their answers say. Standard library only."""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from dataclasses import dataclass, field
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import Any

from headrace.client.aggregation import aggregate
from headrace.client.hash_keys import hash_key_of
from headrace.client.lanes import NO_KEY, Lane
from headrace.client.receipts import Answer, Chunk
from headrace.client.wire import ServiceError, WireError

MOST_RECORDS = 500
_NONE_FAILED = re.compile(rb'"FailedRecordCount": ?0[,}]')
_HEAD = b'},{"Data":"'
_REMEMBERED_KEYS = 100_000
_encode: Any = partial(b2a_base64, newline=False)


@dataclass(slots=True)
class Request:
    """Chunks that are sent together, each with its lane; aggregated, each is one entry, else each record is one."""

    chunks: list[tuple[Chunk, Lane]]
    aggregated: bool
    entries: int = 0
    bytes_: int = 0


@dataclass(slots=True)
class Outcome:
    """What became of a request: an answer, with each entry's result if any is needed now, or an error."""

    answer: Answer | None = None
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: ServiceError | WireError | None = None


class _Tails(dict[str | None, bytes]):
    """What follows an entry's data, by partition key."""

    def __missing__(self, key: str | None) -> bytes:
        if len(self) >= _REMEMBERED_KEYS:
            self.clear()
        text = '"' if key is None else f'","PartitionKey":{encode_basestring_ascii(key)}'
        tail = self[key] = text.encode("ascii")
        return tail


class Bodies:
    """Makes the bodies of requests for one stream. Thread-safe."""

    def __init__(self, name_member: dict[str, str]) -> None:
        """Take the member that names the stream."""
        self._head = (json.dumps(name_member)[:-1] + ',"Records":[{"Data":"').encode()
        self._tails = _Tails()

    def body_of(self, request: Request, random_keys: list[str] | None) -> bytes:
        """Return a body; records without a key take one of `random_keys`, or, with None, none at all.

        Raises UnicodeEncodeError: a key is not Unicode text.
        """
        data: list[bytes] = []
        tails: list[bytes] = []
        for chunk, _ in request.chunks:
            if request.aggregated:
                data.append(_aggregate_of(chunk))
                tails.append(self._tails[chunk.keys[0] or NO_KEY] + _explicit(_first_hash(chunk)))
                continue
            keys = chunk.keys
            if random_keys is not None and None in keys:
                keys = [random_keys.pop() if key is None else key for key in keys]
            chunk_tails = list(map(self._tails.__getitem__, keys))
            for index, explicit in (chunk.explicit or {}).items():
                chunk_tails[index] += _explicit(explicit)
            data += chunk.data
            tails += chunk_tails
        parts: list[bytes] = [_HEAD] * (3 * len(data))
        parts[0] = self._head
        parts[1::3] = map(_encode, data)
        parts[2::3] = tails
        parts.append(b"}]}")
        return b"".join(parts)


def _explicit(hash_key: str) -> bytes:
    return f',"ExplicitHashKey":"{hash_key}"'.encode()


def _first_hash(chunk: Chunk) -> str:
    # An aggregate lands where its first record belongs.
    return chunk.explicit_of(0) or str(hash_key_of(chunk.keys[0] or NO_KEY))


def _aggregate_of(chunk: Chunk) -> bytes:
    keys = [key or NO_KEY for key in chunk.keys] if None in chunk.keys else chunk.keys
    return aggregate(keys, chunk.data, chunk.explicit or {})  # pyright: ignore[reportArgumentType]


def outcome_of(body: bytes, count: int, *, with_shards: bool) -> Outcome:
    """Return what an answer says of `count` entries; `with_shards` when their shards are needed now."""
    if not with_shards and _NONE_FAILED.search(body) and body.count(b'"ShardId"') == count:
        return Outcome(answer=Answer(body))
    try:
        results: list[dict[str, Any]] = json.loads(body)["Records"]
        if len(results) == count:
            return Outcome(answer=Answer(body), results=results)
    except (ValueError, KeyError, TypeError):
        pass
    return Outcome(error=WireError("the answer to PutRecords cannot be read"))
