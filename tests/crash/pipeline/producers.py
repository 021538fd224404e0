"""Who puts records and who reshards, through every fault: trying again until it is acknowledged."""

from __future__ import annotations

import base64
import http.client
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

RETRY_S = 0.02


class Unanswered(Exception):
    """No answer, or one that says to try again."""


class Caller:
    """One connection to Kinesis, in JSON. For one thread."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def call(self, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises Unanswered, and ValueError when the request itself is refused."""
        headers = {
            "X-Amz-Target": f"Kinesis_20131202.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        }
        try:
            self._connection.request("POST", "/", json.dumps(body), headers)
            response = self._connection.getresponse()
            value = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise Unanswered(str(error)) from error
        if response.status >= 500:
            raise Unanswered(str(value))
        if response.status != 200:
            raise ValueError(f"{operation}: {value}")
        return value


@dataclass(slots=True)
class Told:
    """What producers were told: for each key and number, where the record is and how often it was sent."""

    places: dict[tuple[str, int], tuple[str, str]] = field(
        default_factory=dict[tuple[str, int], tuple[str, str]]
    )
    sent: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    poison: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    last_tracked: dict[str, int] = field(default_factory=dict[str, int])
    refused: int = 0
    acknowledged: int = 0
    last_acknowledged_s: float = 0.0


class Producer:
    """Puts one record a key in each request, and the next only when all of it was acknowledged."""

    def __init__(
        self,
        name: str,
        port: int,
        stream: str,
        chosen: random.Random,
        may_put: Callable[[], bool],
        *,
        special_every: int,
    ) -> None:
        """Describe it; of so many records one is kept in the table, and of eight times as many one is poisoned."""
        self._special_every = special_every
        self.told = Told()
        self._keys = [f"{name}k{number}" for number in range(8)]
        self._numbers = dict.fromkeys(self._keys, 0)
        self._caller = Caller(port)
        self._stream = stream
        self._chosen = chosen
        self._may_put = may_put
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def stop(self) -> None:
        """Put what was begun to its end, and no more."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._may_put():
                    self._put(self._chosen.sample(self._keys, self._chosen.choice((1, 3, 8))))
                self._stopping.wait(0.01)
        except Exception as error:  # noqa: BLE001 - told to the test's own thread
            self.failure = error

    def _put(self, keys: list[str]) -> None:
        left = [self._record(key) for key in keys]
        while left:
            for _, identity in left:
                self.told.sent[identity] += 1
            try:
                answer = self._caller.call(
                    "PutRecords",
                    {"StreamName": self._stream, "Records": [record for record, _ in left]},
                )
            except Unanswered:
                self.told.refused += 1
                time.sleep(RETRY_S)
                continue
            pairs = list(zip(left, answer["Records"], strict=True))
            for (_, identity), result in pairs:
                if "ErrorCode" not in result:
                    self.told.places[identity] = (result["ShardId"], result["SequenceNumber"])
                    self.told.acknowledged += 1
                    self.told.last_acknowledged_s = time.monotonic()
            # Of one request each key has one record: putting the refused ones later harms no order.
            left = [one for one, result in pairs if "ErrorCode" in result]
            if left:
                self.told.refused += 1
                time.sleep(RETRY_S)

    def _record(self, key: str) -> tuple[dict[str, str], tuple[str, int]]:
        number = self._numbers[key] = self._numbers[key] + 1
        data: dict[str, Any] = {"n": number, "pad": "x" * self._chosen.randrange(100)}
        if self._chosen.random() < 1 / (8 * self._special_every):
            data["poison"] = True
            self.told.poison.add((key, number))
        elif number % self._special_every == 0:
            data["tracked"] = True
            self.told.last_tracked[key] = number
        text = base64.b64encode(json.dumps(data).encode()).decode()
        return {"Data": text, "PartitionKey": key}, (key, number)


class Resharder:
    """Splits up to a few shards, merges down again, and so on, with pauses."""

    def __init__(
        self, port: int, streams: list[str], chosen: random.Random, pause_s: float
    ) -> None:
        self.reshards = 0
        self._caller = Caller(port)
        self._growing = dict.fromkeys(streams, True)
        self._chosen = chosen
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run, name="resharder", daemon=True)

    def stop(self) -> None:
        """Begin no more."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause_s * (0.5 + self._chosen.random())):
                try:
                    self._reshard(self._chosen.choice(list(self._growing)))
                except Unanswered:
                    continue
        except Exception as error:  # noqa: BLE001 - told to the test's own thread
            self.failure = error

    def _reshard(self, stream: str) -> None:
        shards = all_shards(self._caller, stream)
        opened = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        opened.sort(key=lambda shard: hash_keys(shard).start)
        growing = self._growing[stream]
        self._growing[stream] = growing = len(opened) < 2 if not growing else len(opened) < 5
        if growing:
            widest = max(opened, key=lambda s: hash_keys(s).stop - hash_keys(s).start)
            keys = hash_keys(widest)
            body = {
                "ShardToSplit": widest["ShardId"],
                "NewStartingHashKey": str((keys.start + keys.stop) // 2),
            }
            self._caller.call("SplitShard", {"StreamName": stream, **body})
        else:
            body = {
                "ShardToMerge": opened[0]["ShardId"],
                "AdjacentShardToMerge": opened[1]["ShardId"],
            }
            self._caller.call("MergeShards", {"StreamName": stream, **body})
        self.reshards += 1


def all_shards(caller: Caller, stream: str) -> list[dict[str, Any]]:
    """Return every shard of a stream, over all pages."""
    answer = caller.call("ListShards", {"StreamName": stream})
    shards = list(answer["Shards"])
    while "NextToken" in answer:
        answer = caller.call("ListShards", {"NextToken": answer["NextToken"]})
        shards += answer["Shards"]
    return shards


def hash_keys(shard: dict[str, Any]) -> range:
    """Return a shard's hash keys."""
    keys = shard["HashKeyRange"]
    return range(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]) + 1)
