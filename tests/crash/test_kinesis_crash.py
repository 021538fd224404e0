"""Kill -9 a cloud while producers put records: what was acknowledged is there once, in order."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import random
import socket
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.store.check import check
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash

STREAM = "flights"
PRODUCERS = 3
# So many clients that the puts of one turn of the server's loop share their writes.
SINGLES = 8


@dataclass
class Producer:
    """Puts batches one after another, noting what was acknowledged, until the cloud is gone."""

    name: str
    port: int
    chosen: random.Random
    acknowledged: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    sent: list[list[str]] = field(default_factory=list[list[str]])
    next_number: int = 0

    @property
    def unanswered(self) -> list[list[str]]:
        """The batch that was on its way when the cloud was killed."""
        told = {text for text, _, _ in self.acknowledged}
        return [texts for texts in self.sent if texts[0] not in told]

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            while True:
                self._put(connection)
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    def _put(self, connection: http.client.HTTPConnection) -> None:
        texts = [
            f"{self.name}-{self.next_number + i}" for i in range(self.chosen.choice((1, 7, 400)))
        ]
        self.next_number += len(texts)
        self.sent.append(texts)
        answer = call(
            connection,
            "PutRecords",
            {
                "StreamName": STREAM,
                "Records": [
                    {"Data": base64.b64encode(text.encode()).decode(), "PartitionKey": text}
                    for text in texts
                ],
            },
        )
        assert answer["FailedRecordCount"] == 0
        self.acknowledged += [
            (text, record["ShardId"], record["SequenceNumber"])
            for text, record in zip(texts, answer["Records"], strict=True)
        ]


class Single(Producer):
    """Puts record after record, each in one piece."""

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
                while True:
                    self._put_one(connection)
        except (OSError, http.client.HTTPException):
            return

    def _put_one(self, connection: socket.socket) -> None:
        text = f"{self.name}-{self.next_number}"
        self.next_number += 1
        self.sent.append([text])
        data = base64.b64encode(text.encode()).decode()
        body = json.dumps({"StreamName": STREAM, "Data": data, "PartitionKey": text}).encode()
        connection.sendall(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: Kinesis_20131202.PutRecord\r\n"
            b"Content-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        self.acknowledged.append((text, answer["ShardId"], answer["SequenceNumber"]))


def call(connection: http.client.HTTPConnection, operation: str, body: Any) -> Any:
    headers = {
        "X-Amz-Target": f"Kinesis_20131202.{operation}",
        "Content-Type": "application/x-amz-json-1.1",
    }
    connection.request("POST", "/", json.dumps(body), headers)
    response = connection.getresponse()
    value = json.loads(response.read() or b"{}")
    assert response.status == 200, value
    return value


def stored(server: ServerProcess) -> dict[str, list[tuple[str, str]]]:
    """Return (text, sequence number) of every record, by shard."""
    client = server.client("kinesis")
    found: dict[str, list[tuple[str, str]]] = {}
    for shard in client.list_shards(StreamName=STREAM)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=STREAM, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records: list[tuple[str, str]] = []
        while iterator:
            got = client.get_records(ShardIterator=iterator)
            records += [(r["Data"].decode(), r["SequenceNumber"]) for r in got["Records"]]
            if not got["Records"]:
                break
            iterator = got.get("NextShardIterator")
        found[shard["ShardId"]] = records
    return found


def put_until_killed(
    server: ServerProcess, chosen: random.Random, round_number: int, *, reshard: bool
) -> list[Producer]:
    """Run producers, kill the cloud at a chosen moment, and return what each was told."""
    producers = [
        (Producer if number < PRODUCERS else Single)(
            f"r{round_number}p{number}", server.port, random.Random(chosen.random())
        )
        for number in range(PRODUCERS + SINGLES)
    ]
    threads = [threading.Thread(target=producer.run) for producer in producers]
    if reshard:
        threads.append(threading.Thread(target=_reshard_on, args=(server.port,)))
    kill_after = chosen.randrange(1, 6000)
    for thread in threads:
        thread.start()
    wait_until(
        lambda: sum(len(producer.acknowledged) for producer in producers) >= kill_after,
        what=f"{kill_after} acknowledged records",
    )
    server.kill9()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return producers


def _reshard_on(port: int) -> None:
    """Split up to eight shards, merge down to two, and so on, until the cloud is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    growing = True
    try:
        while True:
            answer = call(connection, "ListShards", {"StreamName": STREAM})
            opened = [
                shard
                for shard in answer["Shards"]
                if "EndingSequenceNumber" not in shard["SequenceNumberRange"]
            ]
            opened.sort(key=lambda shard: _range(shard).start)
            growing = len(opened) < 3 if not growing else len(opened) < 8
            if growing:
                _split_widest(connection, opened)
            else:
                _merge_first(connection, opened)
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def _split_widest(connection: http.client.HTTPConnection, opened: list[dict[str, Any]]) -> None:
    widest = max(opened, key=lambda shard: _range(shard).stop - _range(shard).start)
    keys = _range(widest)
    middle = (keys.start + keys.stop) // 2
    body = {"ShardToSplit": widest["ShardId"], "NewStartingHashKey": str(middle)}
    call(connection, "SplitShard", {"StreamName": STREAM, **body})


def _merge_first(connection: http.client.HTTPConnection, opened: list[dict[str, Any]]) -> None:
    body = {"ShardToMerge": opened[0]["ShardId"], "AdjacentShardToMerge": opened[1]["ShardId"]}
    call(connection, "MergeShards", {"StreamName": STREAM, **body})


@pytest.mark.parametrize(
    ("seed", "durability", "reshard"),
    [
        pytest.param(1, "os", False, marks=pytest.mark.slow),
        (2, "os", True),
        pytest.param(3, "fsync", False, marks=pytest.mark.slow),
        (4, "fsync", True),
    ],
)
def test_acknowledged_records_outlast_kill_9(
    tmp_path: Path, seed: int, durability: str, reshard: bool, nightly: bool
):
    """Kill at 8 points, nightly at 200: two, or fifty, of each kind."""
    chosen = random.Random(seed)
    told: list[tuple[str, str, str]] = []
    with ServerProcess(tmp_path / "data", "--durability", durability) as server:
        server.client("kinesis").create_stream(StreamName=STREAM, ShardCount=2)
        for round_number in range(50 if nightly else 2):
            producers = put_until_killed(server, chosen, round_number, reshard=reshard)
            told += [entry for producer in producers for entry in producer.acknowledged]
            server.start()
            shards = server.client("kinesis").list_shards(StreamName=STREAM)["Shards"]
            found = stored(server)
            _assert_all_there(found, told)
            _assert_resharding_is_whole(shards)
            for producer in producers:
                for texts in producer.unanswered:
                    _assert_whole_or_absent(shards, found, texts)
    assert list(check(tmp_path / "data")) == []


def _assert_all_there(
    found: dict[str, list[tuple[str, str]]], told: list[tuple[str, str, str]]
) -> None:
    for records in found.values():
        numbers = [int(number) for _, number in records]
        assert numbers == sorted(set(numbers))
    texts = [text for records in found.values() for text, _ in records]
    assert len(texts) == len(set(texts)), "a record is there twice"
    by_shard: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for text, shard, number in told:
        by_shard[shard].add((text, number))
    for shard, records in by_shard.items():
        assert records <= set(found[shard])
    last: dict[tuple[str, str], int] = {}
    for text, shard, number in told:
        # One producer's records of a shard lie in the order in which it put them.
        key = (text.partition("-")[0], shard)
        assert int(number) > last.get(key, 0)
        last[key] = int(number)


def _range(shard: dict[str, Any]) -> range:
    keys = shard["HashKeyRange"]
    return range(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]) + 1)


def _assert_resharding_is_whole(shards: list[dict[str, Any]]) -> None:
    """Open shards share out all hash keys; who has children is closed, and who is closed has them."""
    closed = {s["ShardId"] for s in shards if "EndingSequenceNumber" in s["SequenceNumberRange"]}
    parents = {s.get(name) for s in shards for name in ("ParentShardId", "AdjacentParentShardId")}
    assert closed == parents - {None}
    ranges = sorted(
        (_range(s) for s in shards if s["ShardId"] not in closed), key=lambda keys: keys.start
    )
    assert ranges[0].start == 0
    assert ranges[-1].stop == 1 << 128
    assert all(low.stop == high.start for low, high in pairwise(ranges))


def _assert_whole_or_absent(
    shards: list[dict[str, Any]], found: dict[str, list[tuple[str, str]]], texts: list[str]
) -> None:
    """What a shard has of a batch that was not answered is all that belongs to it, or nothing."""
    for shard in shards:
        keys = _range(shard)
        belong = {
            text
            for text in texts
            if int.from_bytes(hashlib.md5(text.encode()).digest(), "big") in keys
        }
        there = {text for text, _ in found[shard["ShardId"]]} & set(texts)
        assert there in (set(), belong)
