"""Dynamic partitioning: a buffer for each partition, the limit, AWS's error codes, and each record once over kills."""

from __future__ import annotations

import base64
import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import CallerIdentity, NoGuard
from headrace.services.firehose import sorting
from headrace.services.firehose.delivery import Delivery
from headrace.services.firehose.prefix import LIMIT_OUTPUT
from headrace.services.firehose.s3_settings import check_extended_s3
from tests.support.objects import Killed
from tests.unit.firehose.helpers import FUNCTION, INTERVAL_S, SHARD, Lab, several
from tests.unit.firehose.test_transform import answer

pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")

PARTITIONED: dict[str, Any] = {
    "Prefix": "in/!{partitionKeyFromQuery:c}/!{timestamp:yyyy}/",
    "ErrorOutputPrefix": "bad/!{firehose:error-output-type}/",
    "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": INTERVAL_S},
    "DynamicPartitioningConfiguration": {"Enabled": True},
    "ProcessingConfiguration": several(
        ("MetadataExtraction", {"MetadataExtractionQuery": "{c:.c}", "JsonParsingEngine": "JQ-1.6"})
    ),
}


# Nightly many more.
SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 200))]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, **PARTITIONED)


def record(number: int, key: Any) -> bytes:
    return json.dumps({"n": number, "c": key}, separators=(",", ":")).encode()


def by_folder(lab: Lab) -> dict[str, list[bytes]]:
    """Return the objects by their folder."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for key in sorted(lab.objects.objects):
        found[key.rpartition("/")[0]].append(lab.objects.objects[key])
    return found


def errors(lab: Lab) -> list[dict[str, Any]]:
    folders = by_folder(lab)
    bodies = [
        body
        for kind in ("processing-failed", LIMIT_OUTPUT)
        for body in folders.get(f"lake/bad/{kind}", [])
    ]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


def numbers(lab: Lab) -> list[int]:
    """Return the numbers of all records that are in an object, errors included."""
    found = [json.loads(base64.b64decode(line["rawData"]))["n"] for line in errors(lab)]
    for folder, bodies in by_folder(lab).items():
        if "/bad/" not in folder:
            found += [
                json.loads(f"{{{part}")["n"] for part in b"".join(bodies).decode().split("{")[1:]
            ]
    return found


def test_each_value_has_a_buffer_and_an_object_of_its_own(lab: Lab):
    lab.put(record(1, "a"), record(2, "b"), record(3, "a"))
    lab.deliver()
    assert by_folder(lab) == {
        "lake/in/a/2023": [record(1, "a") + record(3, "a")],
        "lake/in/b/2023": [record(2, "b")],
    }


def test_each_interval_counts_from_the_partitions_first_record(lab: Lab):
    lab.put(record(1, "a"))
    lab.settle()
    lab.clock.advance(30)
    lab.put(record(2, "b"))
    lab.settle()
    assert lab.delivery.status()["active_partitions"] == 2
    lab.clock.advance(30)
    lab.settle()
    assert list(by_folder(lab)) == ["lake/in/a/2023"]
    lab.clock.advance(30)
    lab.settle()
    assert list(by_folder(lab)) == ["lake/in/a/2023", "lake/in/b/2023"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"c":null}', "partitionKeys values must not be null or empty"),
        (b'{"c":""}', "partitionKeys values must not be null or empty"),
        (b"{}", "partitionKeys values must not be null or empty"),
        (b"nonsense", "Non JSON record provided"),
        (b"[1]", "Non JSON record provided"),
        (b"", "Non JSON record provided"),
    ],
)
def test_a_record_without_a_key_goes_to_the_error_output(lab: Lab, data: bytes, message: str):
    lab.put(data, record(1, "a"))
    lab.deliver()
    (line,) = errors(lab)
    assert line["errorCode"] == "DynamicPartitioning.MetadataExtractionFailed"
    assert line["errorMessage"] == message
    assert base64.b64decode(line["rawData"]) == data
    assert "lambdaARN" not in line
    assert len(lab.objects.objects) == 2


def test_numbers_are_written_as_jq_1_6_writes_them(lab: Lab):
    lab.put(b'{"c":1.0}', b'{"c":12345678901234567890}', b'{"c":1e3}', b'{"c":true}')
    lab.deliver()
    folders = {folder.split("/")[2] for folder in by_folder(lab)}
    assert folders == {"1", "12345678901234567000", "1000", "true"}


def test_records_beyond_the_limit_of_active_partitions(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorting, "ACTIVE_PARTITIONS", 2)
    lab.put(record(1, "a"), record(2, "b"), record(3, "c"), record(4, "a"))
    lab.deliver()
    (line,) = errors(lab)
    assert line["errorCode"] == "DynamicPartitioning.ActivePartitionsLimitExceeded"
    assert (
        line["errorMessage"] == "The number of active partitions has exceeded the configured limit"
    )
    assert sorted(numbers(lab)) == [1, 2, 3, 4]
    exceeded = [m.value for m in lab.metrics.metrics if m.name == "PartitionCountExceeded"]
    assert 1.0 in exceeded
    # The partitions are delivered, so there is room again.
    lab.put(record(5, "c"))
    lab.deliver()
    assert "lake/in/c/2023" in by_folder(lab)


def test_a_functions_keys_name_the_partition(tmp_path: Path):
    lab = Lab(
        tmp_path,
        **{
            **PARTITIONED,
            "Prefix": "in/!{partitionKeyFromLambda:who}/",
            "ProcessingConfiguration": several(("Lambda", {"LambdaArn": FUNCTION})),
        },
    )

    def keyed(event: dict[str, Any]) -> dict[str, Any]:
        made = answer(event, lambda data: ("Ok", data))
        for number, item in enumerate(made["records"]):
            item["metadata"] = {"partitionKeys": {"who": "x" if number else None}}
        return made

    lab.functions.functions[FUNCTION] = keyed
    lab.put(record(1, "-"), record(2, "-"))
    lab.deliver()
    (folder,) = [name for name in by_folder(lab) if "/in/x/" in f"{name}/"]
    assert by_folder(lab)[folder] == [record(2, "-")]
    (line,) = errors(lab)
    assert line["errorMessage"] == "partitionKeys values must not be null or empty"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fickle_functions_first_answer_holds_over_kills(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """A function that gives other keys, or fails, when it is asked again must not lose or double a record."""
    monkeypatch.setattr(sorting, "ACTIVE_PARTITIONS", 3)
    dice = random.Random(seed)
    processing = several(("Lambda", {"LambdaArn": FUNCTION, "NumberOfRetries": "0"}))
    prefix = {"Prefix": "in/!{partitionKeyFromLambda:who}/", "ProcessingConfiguration": processing}
    lab = Lab(tmp_path, **{**PARTITIONED, **prefix})

    def fickle(event: dict[str, Any]) -> dict[str, Any]:
        if dice.random() < 0.1:
            raise ZeroDivisionError
        made = answer(event, lambda data: (dice.choice(["Ok"] * 9 + ["ProcessingFailed"]), data))
        for item in made["records"]:
            item["metadata"] = {"partitionKeys": {"who": dice.choice("abcd")}}
        return made

    lab.functions.functions[FUNCTION] = fickle
    sent = 0
    for _ in range(60):
        fates = ["ok", "ok", "die before", "die after", "refuse"]
        lab.objects.fates = [dice.choice(fates) for _ in range(3)]
        match dice.randrange(4):
            case 0:
                lab.start()
            case 1:
                lab.clock.advance(dice.choice([20, 60]))
            case _:
                count = dice.randrange(6)
                lab.put(*[record(sent + n, "-") for n in range(count)])
                sent += count
        lab.settle_through_kills()
    lab.objects.fates = []
    for _ in range(4):
        lab.clock.advance(60)
        lab.settle_through_kills()
    assert Counter(numbers(lab)) == Counter(range(sent))
    assert lab.store.routes("id").load() == {}


def test_an_update_delivers_what_waits_under_the_prefix_that_it_was_sorted_by(lab: Lab):
    lab.put(record(1, "a"), record(2, "b"))
    lab.settle()
    moved = {**lab.stream.destination, "Prefix": "moved/!{partitionKeyFromQuery:c}/"}
    lab.stream.destination, lab.stream.version = check_extended_s3(moved), 2
    lab.put(record(3, "a"))
    lab.deliver()
    assert sorted(numbers(lab)) == [1, 2, 3]
    folders = sorted(by_folder(lab))
    assert folders[:2] == ["lake/in/a/2023", "lake/in/b/2023"]
    assert folders[2].startswith("lake/moved/a")


def test_a_kill_between_two_partitions_delivers_the_other_and_not_the_first_again(lab: Lab):
    lab.put(record(1, "a"), record(2, "b"), record(3, "a"))
    lab.settle()
    lab.clock.advance(INTERVAL_S)
    lab.objects.fates = ["ok", "die before"]
    with pytest.raises(Killed):
        lab.settle()
    lab.start()
    lab.put(record(4, "a"))
    lab.deliver()
    lab.deliver()
    assert Counter(numbers(lab)) == Counter([1, 2, 3, 4])


@pytest.mark.parametrize("seed", SEEDS)
def test_any_run_of_kills_and_changes_delivers_each_record_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sorting, "ACTIVE_PARTITIONS", 4)
    dice = random.Random(seed)
    lab = Lab(tmp_path, **PARTITIONED)
    shards, made, sent = [SHARD], 1, 0
    for _ in range(60):
        lab.objects.fates = [
            dice.choice(["ok", "ok", "ok", "die before", "die after", "refuse"]) for _ in range(4)
        ]
        match dice.randrange(8):
            case 0 if made < 8:
                parent = shards.pop(dice.randrange(len(shards)))
                children = [f"shardId-{100 + made}", f"shardId-{101 + made}"]
                made += 2
                lab.streams.replace(parent, *children)
                shards += children
            case 1:
                lab.start()
            case 2 | 3:
                lab.clock.advance(dice.choice([20, 60]))
            case 4 if dice.random() < 0.5:
                prefix = dice.choice(["in", "moved"])
                given = {
                    **lab.stream.destination,
                    "Prefix": prefix + "/!{partitionKeyFromQuery:c}/",
                }
                lab.stream.destination = check_extended_s3(given)
                lab.stream.version += 1
            case _:
                for _ in range(dice.randrange(6)):
                    key = dice.choice(["a", "b", "c", "d", "e", "f", None])
                    lab.put(record(sent, key), shard=dice.choice(shards))
                    sent += 1
        lab.settle_through_kills()
    lab.objects.fates = []
    for _ in range(4):
        lab.clock.advance(60)
        lab.settle_through_kills()
    assert Counter(numbers(lab)) == Counter(range(sent))
    assert lab.delivery.progress.delivered_records == sent
    assert lab.delivery.progress.passed == {}


class Forbids(NoGuard):
    """Lets nobody put an object whose key holds a word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def denial(
        self, acting: CallerIdentity, action: str, resource: str, context: Any = None
    ) -> str:
        return "not allowed" if action == "s3:PutObject" and self.word in resource else ""


def test_a_prefix_that_refuses_is_tried_for_retry_options_and_holds_nobody_up_after_that(
    tmp_path: Path,
):
    retry = {"Enabled": True, "RetryOptions": {"DurationInSeconds": 90}}
    lab = Lab(tmp_path, **{**PARTITIONED, "DynamicPartitioningConfiguration": retry})
    lab.ports = replace(lab.ports, guard=Forbids("/a/"))
    lab.delivery = Delivery(lab.stream, lab.source, lab.store, lab.ports, lambda: True)
    lab.put(record(1, "a"), record(2, "b"))
    lab.deliver()
    began_ms = lab.clock.now_ms()
    while (wait_s := lab.settle()) < math.inf:
        lab.clock.advance(wait_s)
    assert 90 <= (lab.clock.now_ms() - began_ms) / 1000 < 160
    (line,) = errors(lab)
    assert line["errorCode"] == "S3.AccessDenied"
    assert line["attemptsMade"] > 3
    assert base64.b64decode(line["rawData"]) == record(1, "a")
    assert numbers(lab) == [1, 2]


def test_a_retry_duration_of_zero_is_one_try(tmp_path: Path):
    retry = {"Enabled": True, "RetryOptions": {"DurationInSeconds": 0}}
    lab = Lab(tmp_path, **{**PARTITIONED, "DynamicPartitioningConfiguration": retry})
    lab.ports = replace(lab.ports, guard=Forbids("/a/"))
    lab.delivery = Delivery(lab.stream, lab.source, lab.store, lab.ports, lambda: True)
    lab.put(record(1, "a"))
    lab.deliver()
    assert [line["attemptsMade"] for line in errors(lab)] == [1]
