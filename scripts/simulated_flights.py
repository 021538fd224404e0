"""Simulates the flights pipeline (stream, `enrich`, second stream, Firehose, bucket) and checks its promises.

The promises: no acknowledged record is lost; a carrier's flights stay in order; no checkpoint is ahead of the completed
work; each record is in S3 once; the failure queue names every record that cannot be enriched.
"""

from __future__ import annotations

import gc
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from botocore.exceptions import ClientError, ConnectionClosedError

from headrace.core.ports import StreamRecord, TrimHorizon
from headrace.services.firehose.processing import split_aggregate
from headrace.testing import ROUGH, Chances, simulation
from headrace.testing.simulated.world import SimulatedCloud
from scripts.simulated_deployment import (
    BUCKET,
    ENRICHED,
    FAILURES,
    FLIGHTS,
    Trigger,
    arn_of,
    deploy,
    deployed,
    small_enrich,
)

CARRIERS = ("AA", "B6", "DL", "EV", "UA", "9E")
REQUESTS = 8
MOST_SHARDS = 4
# Some tens of megabytes.
_SEEDS_BETWEEN_COLLECTIONS = 10
# One in this many seeds deploys in its own simulation.
FROM_THE_START = 8


class PromiseBroken(AssertionError):
    """The pipeline has not kept a promise; the text says which."""


@dataclass(slots=True)
class Acknowledgements:
    """The acknowledgements that the producer got: flights by event id, and the sequence numbers of poison records."""

    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    poison: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed."""

    seed: int
    digest: str
    crashes: int
    steps: int
    acknowledged: int
    history: list[str]


def run(seed: int, *, chances: Chances = ROUGH, enrich: Path | None = None) -> Outcome:
    """Simulate one seed. Raises PromiseBroken, with the seed in its notes."""
    enrich = enrich or small_enrich()
    chosen = random.Random(f"{seed}/flights")
    trigger = Trigger(chosen.choice((3, 10, 100)), chosen.choice((0, 1)), chosen.choice((1, 1, 2)))
    # For some seeds faults may also hit the deployment.
    start_from = deployed(enrich, trigger) if seed % FROM_THE_START else None
    with simulation(seed, chances=chances, start_from=start_from) as cloud:
        if start_from is None:
            with cloud.undisturbed():
                deploy(cloud, enrich, trigger)
        flights = _Flights(cloud, chosen)
        flights.live()
        return Outcome(
            seed,
            cloud.digest(),
            cloud.crashes,
            len(cloud.history),
            len(flights.acknowledgements.acknowledged),
            cloud.history,
        )


def run_each(seeds: Iterable[int]) -> Iterator[Outcome]:
    """Simulate one seed after the other. Raises PromiseBroken.

    An ended cloud is a reference cycle: they are collected together, and never the modules, whose objects are most.
    """
    was_on = gc.isenabled()
    try:
        for number, seed in enumerate(seeds):
            outcome = run(seed)
            if number == 0:
                # All modules, with moto's, are loaded now.
                gc.freeze()
                gc.disable()
            if number % _SEEDS_BETWEEN_COLLECTIONS == 0:
                gc.collect()
            yield outcome
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


class _Flights:
    """One simulation of the pipeline."""

    def __init__(self, cloud: SimulatedCloud, chosen: random.Random) -> None:
        self.cloud = cloud
        self.acknowledgements = Acknowledgements()
        self._chosen = chosen
        self._numbers: dict[str, int] = dict.fromkeys(CARRIERS, 0)
        self._kinesis = cloud.client("kinesis")

    def live(self) -> None:
        """Put flights while faults happen, wait until the cloud is quiet, and check the promises."""
        self.cloud.when_up.append(self._check_checkpoints)
        for _ in range(REQUESTS):
            self._put()
            if self._chosen.random() < 0.2:
                self._reshard()
            self.cloud.advance(seconds=self._chosen.choice((0, 0.05, 0.4, 2.5)))
        self.cloud.run_until_quiet()
        with self.cloud.undisturbed():
            self.cloud.run_until_quiet()
            self._check_end()

    # --- producing ----------------------------------------------------------------------------

    def _put(self) -> None:
        """Put one flight of each of some carriers until all are acknowledged; so a carrier's flights stay in order."""
        left = [self._record(c) for c in self._chosen.sample(CARRIERS, self._chosen.randint(1, 6))]
        while left:
            try:
                answer = self._kinesis.put_records(
                    StreamName=FLIGHTS, Records=[record for record, _ in left]
                )
            except (ConnectionClosedError, ClientError):
                self.cloud.advance(seconds=0.1)
                continue
            pairs = list(zip(left, answer["Records"], strict=True))
            for (_, event_id), result in pairs:
                if "ErrorCode" not in result:
                    number = result["SequenceNumber"]
                    if event_id is None:
                        self.acknowledgements.poison[number] = result["ShardId"]
                    else:
                        self.acknowledgements.acknowledged[event_id] = number
            left = [one for one, result in pairs if "ErrorCode" in result]

    def _record(self, carrier: str) -> tuple[dict[str, Any], str | None]:
        if self._chosen.random() < 0.03:
            return {"Data": b"no flight", "PartitionKey": carrier}, None
        number = self._numbers[carrier] = self._numbers[carrier] + 1
        event = {
            "event_id": f"{carrier}-{number}",
            "event_time": f"2013-01-01T{number % 24:02d}:00:00Z",
            "carrier": carrier,
            "flight": number,
            "tailnum": None,
            "origin": "JFK",
            "dest": "BOS",
            "sched_dep_time": 600,
            "sched_arr_time": 700,
            "dep_time": 601,
            "dep_delay": 1,
            "arr_delay": -2,
            "distance": 187,
        }
        data = json.dumps(event).encode()
        return {"Data": data, "PartitionKey": carrier}, str(event["event_id"])

    def _reshard(self) -> None:
        """Split or merge a shard of one of the streams; ignore a lost answer."""
        stream = self._chosen.choice((FLIGHTS, ENRICHED))
        shards = [
            shard
            for shard in self.cloud.cloud.kinesis.reader.shards(arn_of(self.cloud, stream))
            if shard.ending_sequence_number is None
        ]
        shards.sort(key=lambda shard: int(shard.starting_hash_key))
        try:
            if len(shards) < MOST_SHARDS:
                shard = self._chosen.choice(shards)
                middle = (int(shard.starting_hash_key) + int(shard.ending_hash_key)) // 2
                self._kinesis.split_shard(
                    StreamName=stream,
                    ShardToSplit=shard.shard_id,
                    NewStartingHashKey=str(middle),
                )
            else:
                self._kinesis.merge_shards(
                    StreamName=stream,
                    ShardToMerge=shards[0].shard_id,
                    AdjacentShardToMerge=shards[1].shard_id,
                )
        except (ConnectionClosedError, ClientError):
            return

    # --- checking -----------------------------------------------------------------------------

    def _stored(self, stream: str) -> list[tuple[str, StreamRecord]]:
        """Return a stream's records with their shards, read below the API, without any effect on metrics or history."""
        reader = self.cloud.cloud.kinesis.reader
        found: list[tuple[str, StreamRecord]] = []
        for shard in reader.shards(arn_of(self.cloud, stream)):
            position: Any = TrimHorizon()
            while position is not None:
                read = reader.read(
                    arn_of(self.cloud, stream),
                    shard.shard_id,
                    position,
                    max_records=10_000,
                    max_bytes=1 << 24,
                )
                found += [(shard.shard_id, record) for record in read.records]
                if not read.records:
                    break
                position = read.next_position
        return sorted(found, key=lambda one: int(one[1].sequence_number))

    def _enriched(self) -> list[tuple[str, StreamRecord]]:
        """Return the enriched flights as if each had its own record."""
        return [
            (shard, msgspec.structs.replace(record, data=data))
            for shard, record in self._stored(ENRICHED)
            for data in _user_records(record.data)
        ]

    def _check_checkpoints(self) -> None:
        """Compare the checkpoints of a dead cloud with the records that are really there."""
        mapping, delivery = _progress(self.cloud)
        enriched = self._enriched()
        known = {_event_id(record.data) for _, record in enriched}
        for shard_id, record in self._stored(FLIGHTS):
            event_id = _event_id(record.data)
            is_passed = int(record.sequence_number) < mapping.get(shard_id, 0)
            if is_passed and event_id is not None and event_id not in known:
                raise PromiseBroken(
                    f"the checkpoint in {shard_id} is past {event_id}, which is not enriched"
                )
        lines = self._lines()
        for shard_id, record in enriched:
            is_passed = int(record.sequence_number) < delivery.get(shard_id, 0)
            if is_passed and not lines[record.data]:
                raise PromiseBroken(
                    f"the delivery in {shard_id} is past {_event_id(record.data)}, which is in no object"
                )

    def _lines(self) -> Counter[bytes]:
        """Return how often the bucket's objects contain each record's data."""
        counter: Counter[bytes] = Counter()
        folder = self.cloud.data_dir / "s3" / BUCKET
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                counter.update(_documents(path.read_bytes()))
        return counter

    def _check_end(self) -> None:
        flights, enriched = self._stored(FLIGHTS), self._enriched()
        ids = {_event_id(record.data) for _, record in flights}
        lost = sorted(set(self.acknowledgements.acknowledged) - ids)
        if lost:
            raise PromiseBroken(f"acknowledged flights are lost: {lost}")
        done = {_event_id(record.data) for _, record in enriched}
        lost = sorted(set(self.acknowledgements.acknowledged) - done)
        if lost:
            raise PromiseBroken(f"acknowledged flights were never enriched: {lost}")
        self._check_order(enriched)
        lines, wanted = self._lines(), Counter(record.data for _, record in enriched)
        if lines != wanted:
            more, less = lines - wanted, wanted - lines
            raise PromiseBroken(f"in S3 too often: {dict(more)}; missing: {dict(less)}")
        self._check_failures(flights)

    def _check_order(self, enriched: list[tuple[str, StreamRecord]]) -> None:
        """Check that each carrier's flights are in order."""
        shown: dict[str, list[int]] = defaultdict(list)
        for _, record in enriched:
            event = json.loads(record.data)
            shown[str(event["carrier"])].append(int(event["flight"]))
        for carrier, numbers in shown.items():
            newest = 0
            for number in numbers:
                # After a failure earlier flights may come again; a new flight must be the next one.
                if number > newest + 1:
                    raise PromiseBroken(f"{carrier}: {number} comes after {newest}")
                newest = max(newest, number)

    def _check_failures(self, flights: list[tuple[str, StreamRecord]]) -> None:
        sqs = self.cloud.client("sqs")
        queue_url = f"{self.cloud.endpoint_url}/{self.cloud.account}/{FAILURES}"
        named: set[tuple[str, int]] = set()
        good = {(s, int(r.sequence_number)) for s, r in flights if _event_id(r.data) is not None}
        most, full = 10, True
        while full:
            messages = sqs.receive_message(
                QueueUrl=queue_url, MaxNumberOfMessages=most, VisibilityTimeout=3600
            ).get("Messages", ())
            full = len(messages) == most
            for message in messages:
                batch = json.loads(message["Body"])["KinesisBatchInfo"]
                place = (batch["shardId"], int(batch["startSequenceNumber"]))
                if batch["batchSize"] != 1 or place in good:
                    raise PromiseBroken(f"the failure queue names good records: {batch}")
                named.add(place)
        missing = {(shard, int(n)) for n, shard in self.acknowledgements.poison.items()} - named
        if missing:
            raise PromiseBroken(f"no failure message names these poison records: {sorted(missing)}")


def _user_records(data: bytes) -> list[bytes]:
    users = split_aggregate(data)
    return [data] if users is None else [payload for _, payload in users]


class _Identified(msgspec.Struct):
    event_id: str


_identified = msgspec.json.Decoder(_Identified).decode


def _event_id(data: bytes) -> str | None:
    try:
        return _identified(data).event_id
    except msgspec.DecodeError:
        return None


def _documents(data: bytes) -> Iterator[bytes]:
    """Yield the JSON documents of an object; Firehose writes no separator between them."""
    text, start = data.decode(), 0
    decoder = json.JSONDecoder()
    while start < len(text):
        _, end = decoder.raw_decode(text, start)
        yield text[start:end].encode()
        start = end


def _progress(cloud: SimulatedCloud) -> tuple[dict[str, int], dict[str, int]]:
    """Return, by shard, the checkpoints of the mapping and of the delivery: all records before them are done."""
    stored = cloud.cloud.database
    checkpoints = stored.query("SELECT key, value FROM doc_lambda_checkpoints")
    progress = stored.query("SELECT value FROM doc_firehose_progress")
    mapping: dict[str, int] = {}
    for key, text in checkpoints:
        value = json.loads(text)
        if value.get("sequence") is not None:
            mapping[key.partition("/")[2]] = int(value["sequence"]) + (value["kind"] == "after")
        elif value["kind"] == "done":
            mapping[key.partition("/")[2]] = 1 << 200
    delivery = {
        shard: int(position) + 1
        for (text,) in progress
        for shard, position in json.loads(text)["positions"].items()
        if position.isdigit()
    }
    return mapping, delivery
