"""A backup has buffering hints of its own: its objects come in their own time, each record once, over kills too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from headrace.services.firehose.output import NotPut
from tests.support.endpoint import endpoint
from tests.unit.firehose.destinations.helpers import S3
from tests.unit.firehose.destinations.test_deliveries import http, sound
from tests.unit.firehose.helpers import FUNCTION, INTERVAL_S, Lab, processing
from tests.unit.firehose.test_partitions import PARTITIONED, record
from tests.unit.firehose.test_transform import upper

SLOW = {"SizeInMBs": 1, "IntervalInSeconds": 4 * INTERVAL_S}
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 200))]


def backed_up(tmp_path: Path, hints: dict[str, int] = SLOW, **more: Any) -> Lab:
    kept = {"BucketARN": "arn:aws:s3:::kept", "BufferingHints": hints}
    return Lab(tmp_path, S3BackupMode="Enabled", S3BackupConfiguration=kept, **more)


def bodies(lab: Lab, begin: str) -> list[bytes]:
    return [body for key, body in sorted(lab.objects.objects.items()) if key.startswith(begin)]


def test_the_backup_waits_for_its_own_interval(tmp_path: Path):
    lab = backed_up(tmp_path, ProcessingConfiguration=processing("Lambda", LambdaArn=FUNCTION))
    lab.functions.functions[FUNCTION] = upper
    lab.put(b"one")
    lab.deliver()
    assert (bodies(lab, "lake/"), bodies(lab, "kept/")) == ([b"ONE"], [])
    assert not lab.delivery.status()["is_drained"]
    lab.put(b"two")
    lab.deliver()
    assert (bodies(lab, "lake/"), bodies(lab, "kept/")) == ([b"ONE", b"TWO"], [])
    lab.clock.advance(2 * INTERVAL_S)
    lab.settle()
    assert bodies(lab, "kept/") == [b"onetwo"]
    assert lab.delivery.status()["is_drained"]
    assert lab.delivery.status()["delivered_records"] == 2


def test_a_backup_that_fails_is_in_its_own_log(tmp_path: Path):
    # Documented: monitoring-with-cloudwatch-logs.html, where Redshift's objects and its cluster have a log each.
    own = {"Enabled": True, "LogGroupName": "g", "LogStreamName": "BackupDelivery"}
    kept = {
        "BucketARN": "arn:aws:s3:::kept",
        "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": INTERVAL_S},
        "CloudWatchLoggingOptions": own,
    }
    lab = Lab(tmp_path, S3BackupMode="Enabled", S3BackupConfiguration=kept)
    lab.objects.missing = {"kept"}
    lab.put(b"one")
    with pytest.raises(NotPut):
        lab.deliver()
    (text,) = lab.logs.lines
    assert lab.logs.place == ("g", "BackupDelivery")
    assert json.loads(text)["errorCode"] == "S3.NoSuchBucket"
    assert json.loads(text)["destination"] == "arn:aws:s3:::kept"
    assert ("BackupToS3.Success", 0) in [(m.name, m.value) for m in lab.metrics.metrics]
    lab.objects.missing = set()
    lab.settle()
    assert bodies(lab, "kept/") == bodies(lab, "lake/") == [b"one"]


def test_the_backup_comes_first_where_its_interval_is_shorter(tmp_path: Path):
    lab = backed_up(tmp_path, {"SizeInMBs": 1, "IntervalInSeconds": 10})
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(10)
    lab.settle()
    assert (bodies(lab, "lake/"), bodies(lab, "kept/")) == ([], [b"one"])
    lab.deliver()
    assert (bodies(lab, "lake/"), bodies(lab, "kept/")) == ([b"one"], [b"one"])


def test_the_backup_has_a_size_of_its_own(tmp_path: Path):
    lab = backed_up(
        tmp_path,
        {"SizeInMBs": 1, "IntervalInSeconds": 900},
        BufferingHints={"SizeInMBs": 3, "IntervalInSeconds": 600},
    )
    for number in range(5):
        lab.put(bytes([number]) * 500_000)
        lab.settle()
    assert not bodies(lab, "lake/")
    assert [len(body) for body in bodies(lab, "kept/")] == [1_500_000]
    lab.put(b"more" * 250_000)
    lab.settle()
    assert [len(body) for body in bodies(lab, "kept/")] == [1_500_000, 2_000_000]
    assert [len(body) for body in bodies(lab, "lake/")] == [3_500_000]


def test_with_partitions_the_backup_is_one(tmp_path: Path):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    lab = backed_up(tmp_path, **PARTITIONED)
    lab.put(record(1, "a"), record(2, "b"))
    lab.deliver()
    assert (len(bodies(lab, "lake/")), bodies(lab, "kept/")) == (2, [])
    lab.clock.advance(3 * INTERVAL_S)
    lab.settle()
    assert bodies(lab, "kept/") == [record(1, "a") + record(2, "b")]


def test_all_data_of_an_endpoint_waits_for_the_hints_of_its_bucket(tmp_path: Path):
    with endpoint(sound) as server:
        s3 = {**S3, "BufferingHints": SLOW}
        lab = http(tmp_path, server, S3BackupMode="AllData", S3Configuration=s3)
        lab.put(b"one")
        lab.deliver()
        assert (len(server.requests), bodies(lab, "lake/")) == (1, [])
        lab.put(b"two")
        lab.clock.advance(3 * INTERVAL_S)
        lab.settle()
    assert bodies(lab, "lake/") == [b"onetwo"]


def test_metrics_of_a_backup_alone_are_the_backups(tmp_path: Path):
    lab = backed_up(tmp_path, {"SizeInMBs": 1, "IntervalInSeconds": 10})
    lab.put(b"one")
    lab.settle()
    lab.clock.advance(10)
    lab.settle()
    names = {metric.name for metric in lab.metrics.metrics}
    assert "BackupToS3.Records" in names
    assert "DeliveryToS3.Records" not in names


@pytest.mark.parametrize("seed", SEEDS)
def test_any_run_of_kills_has_each_record_once_in_both_buckets(tmp_path: Path, seed: int):
    chance = random.Random(seed)
    size = {"SizeInMBs": 1, "IntervalInSeconds": chance.choice([10, 45, 200])}
    lab = backed_up(tmp_path, size)
    sent: list[bytes] = []
    for _ in range(12):
        fresh = [b"%d;" % (len(sent) + n) for n in range(chance.randrange(4))]
        sent += fresh
        lab.put(*fresh)
        if chance.random() < 0.5:
            lab.objects.fates = [
                chance.choice(["ok", "refuse", "die before", "die after"])
                for _ in range(chance.randrange(4))
            ]
        if chance.random() < 0.3:
            lab.start()
        lab.settle_through_kills()
        lab.clock.advance(chance.choice([5, 20, 70]))
        lab.settle_through_kills()
    lab.objects.fates = []
    for _ in range(2):
        lab.clock.advance(300)
        lab.settle_through_kills()
    for bucket in ("lake/", "kept/"):
        found = b"".join(bodies(lab, bucket)).split(b";")[:-1]
        assert sorted(found, key=int) == [text[:-1] for text in sent]
    assert lab.delivery.status()["is_drained"]
