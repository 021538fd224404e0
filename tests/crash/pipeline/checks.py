"""What must hold of the pipeline, in the middle of it and at its end. Each check names what it found in a Broken."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from headrace.store import sequence
from tests.crash.pipeline.ledger import Ledger, Place
from tests.crash.pipeline.producers import Caller, Told, all_shards

SHOWN = 5


class Broken(AssertionError):
    """A promise that was not kept."""


@dataclass(slots=True)
class Stored:
    """A record as a stream gave it back."""

    place: Place
    key: str
    data: dict[str, Any]


@dataclass(slots=True)
class Counts:
    """What the certificate says."""

    acknowledged: int = 0
    lost: int = 0
    out_of_order: int = 0
    duplicates: dict[str, int] = field(default_factory=dict[str, int])
    poison: int = 0
    objects: int = 0
    # Of the third stream: its records, and the channel's objects.
    jobs: int = 0
    archived: int = 0


# --- in the middle: a cloud that is dead ------------------------------------------------------


class CheckpointsWatch:
    """Holds what a dead cloud has stored of its progress against what was really done, each record once."""

    def __init__(self, told: list[Told], ledger: Ledger, lines: DeliveredLines) -> None:
        self._told = [(one, _News(one.places)) for one in told]
        self._ledger = ledger
        self._lines = lines
        self._copies = _News(ledger.copies)
        # By shard, what no checkpoint has passed yet.
        self._unread: dict[str, set[int]] = defaultdict(set)
        self._undelivered: dict[str, dict[int, str]] = defaultdict(dict)

    def look(self, data_dir: Path) -> None:
        """Look once; the cloud must be dead. Raises Broken."""
        mapping, delivery = stored_progress(data_dir)
        for one, news in self._told:
            for identity in news.take():
                if identity not in one.poison:
                    shard, number = one.places[identity]
                    self._unread[shard].add(int(number))
        for shard, numbers in self._unread.items():
            for number in [n for n in numbers if _index(n) < mapping.get(shard, 0)]:
                if number not in self._ledger.forwarded.get(shard, ()):
                    raise Broken(
                        f"the mapping's checkpoint in {shard} is past {number}, not put on"
                    )
                numbers.discard(number)
        self._lines.read_new()
        for copy_id in self._copies.take():
            shard, number = self._ledger.copies[copy_id].place
            self._undelivered[shard][number] = copy_id
        for shard, copies in self._undelivered.items():
            for number in [n for n in copies if _index(n) < delivery.get(shard, 0)]:
                if copies[number] not in self._lines.seen:
                    raise Broken(
                        f"the delivery's position in {shard} is past {number}, in no object"
                    )
                del copies[number]


class _News:
    """The keys that a dictionary, which other threads add to, has got since the last time."""

    def __init__(self, source: dict[Any, Any]) -> None:
        self._source = source
        self._taken = 0

    def take(self) -> list[Any]:
        keys = list(islice(list(self._source), self._taken, None))
        self._taken += len(keys)
        return keys


def stored_progress(data_dir: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by shard, the index before which the mapping, and the delivery, are done."""
    connection = sqlite3.connect(f"file:{data_dir / 'state.sqlite'}?mode=ro", uri=True)
    try:
        checkpoints = connection.execute("SELECT key, value FROM doc_lambda_checkpoints").fetchall()
        # Not that of channels, whose shards have the same names.
        progress = connection.execute(
            "SELECT value FROM doc_firehose_progress WHERE key IN (SELECT key FROM doc_firehose_streams)"
        ).fetchall()
    finally:
        connection.close()
    mapping: dict[str, int] = {}
    for key, text in checkpoints:
        value = json.loads(text)
        number = value.get("sequence")
        if number is not None:
            # AT a record: what stands before it is done.
            mapping[key.partition("/")[2]] = _index(number) + (value["kind"] == "after")
    delivery = {
        shard: _index(position) + 1
        for (text,) in progress
        for shard, position in json.loads(text)["positions"].items()
        if position.isdigit()
    }
    return mapping, delivery


def _index(number: str | int) -> int:
    """Return a record's place in its shard: the rest of its number is times, which clocks that jump may turn."""
    return sequence.parse(str(number)).index


class DeliveredLines:
    """The lines of the delivered objects, read as the plain files that they are, each file once."""

    def __init__(self, bucket_folder: Path) -> None:
        self._folder = bucket_folder
        self._read: set[Path] = set()
        self.seen: dict[str, int] = defaultdict(int)
        self.objects: dict[str, list[dict[str, Any]]] = {}

    def read_new(self) -> None:
        """Take in the objects that have come since."""
        for path in sorted(self._folder.rglob("*")):
            if path in self._read or not path.is_file() or path.name.startswith("."):
                continue
            self._read.add(path)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.objects[path.relative_to(self._folder).as_posix()] = lines
            for line in lines:
                self.seen[line["id"]] += 1


# --- at the end -------------------------------------------------------------------------------


def read_stream(port: int, stream: str) -> list[Stored]:
    """Return every record of a stream, by sequence number: parents before children, too."""
    caller = Caller(port)
    found = [
        Stored(
            (shard["ShardId"], int(record["SequenceNumber"])),
            record["PartitionKey"],
            json.loads(base64.b64decode(record["Data"])),
        )
        for shard in all_shards(caller, stream)
        for record in _records(caller, stream, shard["ShardId"])
    ]
    return sorted(found, key=lambda stored: stored.place[1])


def _records(caller: Caller, stream: str, shard_id: str) -> Iterator[dict[str, Any]]:
    start = {"StreamName": stream, "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = caller.call("GetShardIterator", start)["ShardIterator"]
    while iterator:
        answer = caller.call("GetRecords", {"ShardIterator": iterator})
        yield from answer["Records"]
        if not answer["Records"]:
            return
        iterator = answer["NextShardIterator"]


def check_first_stream(stored: list[Stored], told: list[Told], counts: Counts) -> None:
    """Every acknowledged record is where producers were told; more copies only of unanswered requests."""
    by_place = {one.place: one for one in stored}
    if len(by_place) != len(stored):
        raise Broken("the first stream gives a record twice under one number")
    copies: dict[tuple[str, int], int] = defaultdict(int)
    for one in stored:
        copies[(one.key, one.data["n"])] += 1
    lost: list[Any] = []
    for one in told:
        counts.acknowledged += len(one.places)
        for identity, (shard, number) in one.places.items():
            there = by_place.get((shard, int(number)))
            if there is None or (there.key, there.data["n"]) != identity:
                lost.append((identity, shard, number))
        for identity, sent in one.sent.items():
            if copies[identity] > sent:
                raise Broken(
                    f"{identity} was sent {sent} times and is there {copies[identity]} times"
                )
    counts.lost += len(lost)
    if lost:
        raise Broken(f"{len(lost)} acknowledged records are lost: {lost[:SHOWN]}")
    counts.duplicates["first stream (requests that were not answered)"] = sum(
        n - 1 for n in copies.values() if n
    )
    seen: dict[str, int] = defaultdict(int)
    for one in stored:
        number = one.data["n"]
        # A copy of what is there already is a request tried again; anything new must be the next.
        if number > seen[one.key] + 1:
            counts.out_of_order += 1
            raise Broken(f"{one.key}: {number} comes after {seen[one.key]}")
        seen[one.key] = max(seen[one.key], number)


def check_second_stream(
    first: list[Stored], second: list[Stored], ledger: Ledger, discarded: list[dict[str, Any]],
    counts: Counts,
) -> None:  # fmt: skip
    """Every record went on, or, poisoned, to the failure queue; in order; twice only after a fault."""
    copies: dict[Place, list[Stored]] = defaultdict(list)
    for one in second:
        shard, number = one.data["from"]
        copies[(shard, int(number))].append(one)
    lost: list[Place] = []
    for one in first:
        if one.data.get("poison"):
            counts.poison += 1
            if not any(_covers(batch, one.place) for batch in discarded):
                raise Broken(f"the poisoned record {one.place} is not in the failure queue")
        elif one.place not in copies:
            lost.append(one.place)
    counts.lost += len(lost)
    if lost:
        raise Broken(f"{len(lost)} records never reached the second stream: {lost[:SHOWN]}")
    _check_discarded(first, discarded)
    duplicates = 0
    acknowledged: dict[str, set[Place]] = defaultdict(set)
    for copy in ledger.copies.values():
        acknowledged[copy.copy_id.rpartition("/")[0]].add(copy.made_from)
    for place, several in copies.items():
        duplicates += len(several) - 1
        _check_copies(place, several, ledger, acknowledged)
    counts.duplicates["second stream (batches that were tried again)"] = duplicates
    known = {one.place for one in second}
    gone = [copy for copy in ledger.copies.values() if copy.place not in known]
    if gone:
        counts.lost += len(gone)
        raise Broken(
            f"{len(gone)} acknowledged records of the second stream are lost: {gone[:SHOWN]}"
        )
    newest: dict[str, int] = defaultdict(int)
    seen: set[Place] = set()
    for one in second:
        made_from = (one.data["from"][0], int(one.data["from"][1]))
        if made_from in seen:
            continue
        seen.add(made_from)
        if made_from[1] < newest[one.key]:
            counts.out_of_order += 1
            raise Broken(f"{one.key}: {made_from} comes after {newest[one.key]} downstream")
        newest[one.key] = made_from[1]


def _covers(batch: dict[str, Any], place: Place) -> bool:
    first, last = int(batch["startSequenceNumber"]), int(batch["endSequenceNumber"])
    return batch["shardId"] == place[0] and first <= place[1] <= last


def _check_discarded(first: list[Stored], discarded: list[dict[str, Any]]) -> None:
    poisoned = {one.place for one in first if one.data.get("poison")}
    for batch in discarded:
        place = (batch["shardId"], int(batch["startSequenceNumber"]))
        if batch["batchSize"] != 1 or place not in poisoned:
            raise Broken(f"the failure queue holds more than poisoned records: {batch}")


def _check_copies(
    place: Place, several: list[Stored], ledger: Ledger, acknowledged: dict[str, set[Place]]
) -> None:
    """Let a record be there twice only when what put it before did not count as done.

    `acknowledged` holds, by invocation and its request, what was.
    """
    tries = [one.data["id"].split("/") for one in several]
    for (request, put, _), (next_request, _, _) in pairwise(tries):
        if request == next_request:
            # The function may not have heard whether its first try was taken.
            if place in acknowledged[f"{request}/{put}"]:
                raise Broken(f"{place} was acknowledged and put again in one invocation")
            continue
        ended_well = ledger.outcomes.get(request) == "ok"
        same_cloud = ledger.begun_in.get(request) == ledger.begun_in.get(next_request)
        if ended_well and same_cloud and request in ledger.begun_in:
            cloud = ledger.begun_in[request]
            raise Broken(
                f"{place} went through {request} and again through {next_request}, both of cloud {cloud}"
            )


def check_objects(second: list[Stored], lines: DeliveredLines, counts: Counts) -> None:
    """Each record of the second stream is in one object, once; each object keeps the order of its keys."""
    lines.read_new()
    counts.objects = len(lines.objects)
    wanted = {one.data["id"] for one in second}
    lost = wanted - set(lines.seen)
    counts.lost += len(lost)
    if lost:
        raise Broken(f"{len(lost)} records are in no object: {sorted(lost)[:SHOWN]}")
    strange = set(lines.seen) - wanted
    if strange:
        raise Broken(f"{len(strange)} lines were never put: {sorted(strange)[:SHOWN]}")
    twice = [copy_id for copy_id, count in lines.seen.items() if count > 1]
    counts.duplicates["objects"] = len(twice)
    if twice:
        raise Broken(f"{len(twice)} records are in objects twice: {twice[:SHOWN]}")
    order: dict[str, dict[str, int]] = defaultdict(dict)
    for one in second:
        order[one.key][one.data["id"]] = len(order[one.key])
    for name, content in lines.objects.items():
        last: dict[str, int] = {}
        for line in content:
            at = order[line["key"]][line["id"]]
            if line["key"] in last and at != last[line["key"]] + 1:
                counts.out_of_order += 1
                raise Broken(f"{name}: {line['key']} is out of order at {line['id']}")
            last[line["key"]] = at


def check_table(table: Any, told: list[Told]) -> None:
    """The table holds the last tracked number of each key."""
    for one in told:
        for key, number in one.last_tracked.items():
            item = table.get_item(TableName="last", Key={"key": {"S": key}}).get("Item")
            if item is None or int(item["n"]["N"]) != number:
                raise Broken(f"the table has {item} for {key}, not {number}")
