"""What goes wrong with one delivery stream stays with it: the others go on, and no record is dropped in silence."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.firehose import queries, sorting
from headrace.testing.clock import MovableClock
from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud
from tests.support.endpoint import endpoint

ROLE = "arn:aws:iam::000000000000:role/r"
LAKE = "lake"
HUNG = 30


class Lab:
    """A cloud with a sound delivery stream, beside which others are tried."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock) -> None:
        self.cloud, self.clock = cloud, clock
        self.s3: Any = cloud.client("s3")
        self.firehose: Any = cloud.client("firehose")
        self.s3.create_bucket(Bucket=LAKE)
        self.stream("sound")

    def stream(self, name: str, **more: Any) -> None:
        self.firehose.create_delivery_stream(
            DeliveryStreamName=name,
            ExtendedS3DestinationConfiguration={
                **s3(name),
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
                **more,
            },
        )

    def put(self, name: str, *datas: bytes) -> None:
        for start in range(0, len(datas), 500):
            self.firehose.put_record_batch(
                DeliveryStreamName=name,
                Records=[{"Data": data} for data in datas[start : start + 500]],
            )

    def bodies(self, prefix: str) -> list[bytes]:
        found: list[bytes] = []
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=LAKE, Prefix=prefix)
        for page in pages:
            found += [
                self.s3.get_object(Bucket=LAKE, Key=item["Key"])["Body"].read()
                for item in page.get("Contents", [])
            ]
        return found

    def failed(self, name: str) -> list[dict[str, Any]]:
        lines = [line for body in self.bodies(f"errors/{name}/") for line in body.splitlines()]
        return [json.loads(line) for line in lines]

    def status(self, name: str) -> dict[str, Any]:
        return next(s for s in self.cloud.cloud.firehose.statuses() if s["name"] == name)

    def drain(self, *names: str) -> None:
        """Let intervals pass until nothing waits in these."""

        def drained() -> bool:
            if all(self.status(name)["is_drained"] for name in names):
                return True
            self.clock.advance(20)
            return False

        until(drained, timeout_s=60)

    def check_others_go_on(self, word: bytes) -> None:
        """A record of the sound delivery stream is delivered now."""
        self.put("sound", word)
        self.drain("sound")
        assert word in b"".join(self.bodies("sound/"))


def s3(name: str) -> dict[str, Any]:
    return {
        "RoleARN": ROLE,
        "BucketARN": f"arn:aws:s3:::{LAKE}",
        "Prefix": f"{name}/",
        "ErrorOutputPrefix": f"errors/{name}/",
    }


def by_query(name: str, query: str) -> dict[str, Any]:
    given = {"MetadataExtractionQuery": query, "JsonParsingEngine": "JQ-1.6"}
    parameters = [{"ParameterName": n, "ParameterValue": v} for n, v in given.items()]
    processors = [{"Type": "MetadataExtraction", "Parameters": parameters}]
    return {
        "Prefix": f"{name}/!{{partitionKeyFromQuery:c}}/",
        "DynamicPartitioningConfiguration": {"Enabled": True},
        "ProcessingConfiguration": {"Enabled": True, "Processors": processors},
    }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    clock = MovableClock()
    with InProcessCloud(tmp_path_factory.mktemp("bad") / "data", clock=clock) as cloud:
        yield Lab(cloud, clock)


def test_endpoints_that_hang_hold_up_nobody_else(lab: Lab):
    with endpoint(lambda request: server.hang(request)) as server:
        for number in range(HUNG):
            lab.firehose.create_delivery_stream(
                DeliveryStreamName=f"hung-{number}",
                HttpEndpointDestinationConfiguration={
                    "EndpointConfiguration": {"Url": server.url},
                    "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
                    "S3Configuration": s3(f"hung-{number}"),
                },
            )
            lab.put(f"hung-{number}", b"x")
        until(lambda: len(server.requests) == HUNG)
        lab.check_others_go_on(b"beside those that hang")
        server.released.set()
        for number in range(HUNG):
            lab.firehose.delete_delivery_stream(DeliveryStreamName=f"hung-{number}")


@pytest.mark.parametrize(
    ("name", "query", "data"),
    [
        ("loop", "{c: (if .n == 1 then (0 | until(false; . + 1)) else .c end)}", '{"n":1}'),
        (
            "regex",
            '{c: (if .t then (.t | test("^(a+)+$") | tostring) else .c end)}',
            json.dumps({"t": "a" * 40 + "!"}),
        ),
        pytest.param(
            "memory",
            "{c: (if .n == 1 then ([range(1e12)] | tojson) else .c end)}",
            '{"n":1}',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_endless_query_costs_its_record_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str, query: str, data: str
):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    monkeypatch.setattr(queries, "_BASE_S", 0.2)
    lab.stream(name, **by_query(name, query))
    lab.put(name, data.encode(), b'{"c":"fine","v":1}', b'{"c":"fine","v":2}')
    lab.check_others_go_on(f"beside {name}".encode())
    lab.drain(name)
    assert lab.bodies(f"{name}/fine/") == [b'{"c":"fine","v":1}{"c":"fine","v":2}']
    failed = lab.failed(name)
    # The expression may be answered by an engine that bounds itself; then it is a key like any other.
    if failed:
        assert [base64.b64decode(line["rawData"]) for line in failed] == [data.encode()]
    else:
        assert name == "regex"
        assert lab.bodies(f"{name}/false/") == [data.encode()]


@pytest.mark.parametrize(
    ("count", "most"), [(600, 30), pytest.param(10_000, 500, marks=pytest.mark.slow)]
)
def test_many_more_partitions_than_may_be_active(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, count: int, most: int
):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    monkeypatch.setattr(sorting, "ACTIVE_PARTITIONS", most)
    name = f"many-{count}"
    lab.stream(name, **by_query(name, "{c:.c}"))
    sent = [json.dumps({"c": f"k{number}"}).encode() for number in range(count)]
    lab.put(name, *sent)
    lab.check_others_go_on(f"beside {count} partitions".encode())
    lab.drain(name)
    delivered = lab.bodies(f"{name}/")
    failed = lab.failed(name)
    assert {line["errorCode"] for line in failed} == {
        "DynamicPartitioning.ActivePartitionsLimitExceeded"
    }
    # Each once: in an object of its own, or in the error output.
    found = [*delivered, *(base64.b64decode(line["rawData"]) for line in failed)]
    assert sorted(found) == sorted(sent)
    assert len(delivered) >= most


def test_the_largest_records(lab: Lab):
    lab.stream("large", CompressionFormat="GZIP")
    sent = [bytes([65 + number]) * 1_024_000 for number in range(3)]
    lab.put("large", *sent)
    with pytest.raises(ClientError, match="less than or equal to 1024000"):
        lab.put("large", b"x" * 1_024_001)
    lab.drain("large")
    assert b"".join(map(gzip.decompress, lab.bodies("large/"))) == b"".join(sent)


def test_a_full_disk_refuses_puts_and_loses_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    lab.stream("full")
    lab.put("full", b"before,")
    write = os.pwrite

    def full(fd: int, data: bytes, offset: int) -> int:
        if data.startswith(b"HRB1"):  # a put's records
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(ClientError, match="No space left on device") as caught:
            lab.put("full", b"refused")
        answer: Any = caught.value.response
        assert answer["Error"]["Code"] == "ServiceUnavailableException"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 503
    lab.put("full", b"after")
    lab.check_others_go_on(b"after a full disk")
    lab.drain("full")
    assert lab.bodies("full/") == [b"before,after"]


def test_a_disk_that_is_full_at_delivery_delays_it_and_the_log_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    lab.stream("stuck")
    lab.put("stuck", b"patient")
    objects: Any = lab.cloud.cloud.objects
    put = objects.put

    def full(bucket: str, key: str, *rest: Any, **more: Any) -> Any:
        if key.startswith("stuck/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(bucket, key, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(type(objects), "put", lambda _self, *rest, **more: full(*rest, **more))

        def is_said() -> bool:
            lab.clock.advance(20)
            return "No space left" in lab.status("stuck")["last_error"]

        until(is_said)
        lab.check_others_go_on(b"beside a disk that is full")
        assert not lab.bodies("stuck/")
    lab.drain("stuck")
    assert lab.bodies("stuck/") == [b"patient"]


@pytest.mark.parametrize("kind", ["bucket", "function", "endpoint"])
def test_what_is_not_there_at_delivery_is_said_and_holds_up_nobody(lab: Lab, kind: str):
    name = f"no-{kind}"
    hints = {"SizeInMBs": 1, "IntervalInSeconds": 0}
    if kind == "endpoint":
        lab.firehose.create_delivery_stream(
            DeliveryStreamName=name,
            HttpEndpointDestinationConfiguration={
                "EndpointConfiguration": {"Url": "http://127.0.0.1:9/"},
                "BufferingHints": hints,
                "RetryOptions": {"DurationInSeconds": 10},
                "S3Configuration": s3(name),
            },
        )
    elif kind == "function":
        arn = "arn:aws:lambda:us-east-1:000000000000:function:none"
        parameters = [{"ParameterName": "LambdaArn", "ParameterValue": arn}]
        processors = [{"Type": "Lambda", "Parameters": parameters}]
        lab.stream(name, ProcessingConfiguration={"Enabled": True, "Processors": processors})
    else:
        lab.stream(name, BucketARN="arn:aws:s3:::none")
    lab.put(name, b'{"a":1}')
    lab.check_others_go_on(f"beside {name}".encode())
    if kind == "bucket":
        until(lambda: "S3.NoSuchBucket" in lab.status(name)["last_error"])
        lab.s3.create_bucket(Bucket="none")
        lab.drain(name)
        assert lab.s3.list_objects_v2(Bucket="none")["KeyCount"] == 1
        return
    lab.drain(name)
    (line,) = lab.failed(name)
    assert base64.b64decode(line["rawData"]) == b'{"a":1}'
    assert line["errorCode"]
