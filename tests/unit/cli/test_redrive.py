"""`headrace redrive`: what was set aside comes back, each record once, also over kills."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from headrace.cli import redrive as command
from headrace.cli.commands import headrace
from headrace.deliveries.redrive_records import (
    Bucket,
    FailedRecord,
    FileTarget,
    ObjectProgress,
    RedriveCounts,
    redrive_object,
)
from headrace.testing.clock import MovableClock
from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"
BUCKET = "lake"


class Lab:
    """A cloud whose time moves on, and the command on it."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock, folder: Path) -> None:
        self.clock, self.folder = clock, folder
        self.cloud = cloud
        self.s3: Any = cloud.client("s3")
        self.firehose: Any = cloud.client("firehose")
        self.glue: Any = cloud.client("glue")

    def stream(self, name: str, **more: Any) -> None:
        self.firehose.create_delivery_stream(
            DeliveryStreamName=name,
            ExtendedS3DestinationConfiguration={
                "RoleARN": ROLE,
                "BucketARN": f"arn:aws:s3:::{BUCKET}",
                "Prefix": f"{name}/",
                "ErrorOutputPrefix": f"errors/{name}/!{{firehose:error-output-type}}/",
                "BufferingHints": {"SizeInMBs": 64, "IntervalInSeconds": 60},
                **more,
            },
        )

    def put(self, name: str, *datas: bytes) -> None:
        self.firehose.put_record_batch(
            DeliveryStreamName=name, Records=[{"Data": data} for data in datas]
        )

    def deliver(self) -> None:
        """Let the intervals pass until nothing waits."""

        def drained() -> bool:
            statuses = self.cloud.cloud.firehose.statuses()
            if any(not status["is_drained"] for status in statuses):
                self.clock.advance(30)
                return False
            return True

        until(drained, timeout_s=60)

    def keys(self, prefix: str) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [item["Key"] for item in found]

    def body(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def run(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(headrace, ["redrive", *arguments])
        assert done.exit_code == code, done.output
        return done.output

    def numbers(self) -> Counter[int]:
        """Return how often each record's `n` is in what was delivered."""
        found: list[int] = []
        for key in self.keys("converted/"):
            found += pq.read_table(io.BytesIO(self.body(key))).column("n").to_pylist()
        for prefix in ("parted/", "changed/"):
            for key in self.keys(prefix):
                for part in self.body(key).decode().split("{")[1:]:
                    found.append(json.loads(f"{{{part}")["n"])
        return Counter(found)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    clock = MovableClock()
    folder = tmp_path_factory.mktemp("redrive")
    with InProcessCloud(folder / "data", clock=clock) as cloud:
        yield Lab(cloud, clock, folder)


@pytest.fixture
def lab(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    def client(service: str, **_: Any) -> Any:
        return shared.cloud.client(service)

    monkeypatch.setattr(command, "client", client)
    return shared


def conversion(kind: str) -> dict[str, Any]:
    columns = [{"Name": "n", "Type": "int"}, {"Name": "a", "Type": kind}]
    return {"Name": "t", "StorageDescriptor": {"Columns": columns}}


def test_a_pipeline_broken_in_four_ways_is_mended_and_every_record_is_there_once(lab: Lab):
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    lab.s3.create_bucket(Bucket=BUCKET)
    lab.glue.create_database(DatabaseInput={"Name": "d"})
    lab.glue.create_table(DatabaseName="d", TableInput=conversion("int"))
    # 1: a column of a wrong type. 2: records that are no JSON. 3: no partition key. 4: a function that is not there.
    lab.stream(
        "converted",
        DataFormatConversionConfiguration={
            "SchemaConfiguration": {"RoleARN": ROLE, "DatabaseName": "d", "TableName": "t"},
            "InputFormatConfiguration": {"Deserializer": {"OpenXJsonSerDe": {}}},
            "OutputFormatConfiguration": {"Serializer": {"ParquetSerDe": {}}},
        },
    )
    lab.stream(
        "parted",
        Prefix="parted/!{partitionKeyFromQuery:c}/",
        DynamicPartitioningConfiguration={"Enabled": True},
        ProcessingConfiguration=processors(
            "MetadataExtraction", MetadataExtractionQuery="{c:.c}", JsonParsingEngine="JQ-1.6"
        ),
    )
    lab.stream(
        "changed",
        ProcessingConfiguration=processors(
            "Lambda", LambdaArn="arn:aws:lambda:us-east-1:000000000000:function:missing"
        ),
    )
    lab.put("converted", b'{"n":1,"a":5}', b'{"n":2,"a":"word"}', b'{"n":3,"a":6')
    lab.put("parted", b'{"n":4,"c":"x"}', b'{"n":5,"c":null}', b'{"n":6}')
    lab.put("changed", b'{"n":7}', b'{"n":8}')
    lab.deliver()
    assert lab.numbers() == Counter([1, 4])

    shown = lab.run(f"s3://{BUCKET}/errors/")
    for code in ("MalformedData", "ParseError", "MetadataExtractionFailed", "ResourceNotFound"):
        assert code in shown
    # Mended: the table, the producer's records by a fix, the processor.
    lab.glue.update_table(DatabaseName="d", TableInput=conversion("string"))
    lab.firehose.update_destination(
        DeliveryStreamName="changed",
        CurrentDeliveryStreamVersionId="1",
        DestinationId="destinationId-000000000001",
        ExtendedS3DestinationUpdate={"ProcessingConfiguration": {"Enabled": False}},
    )
    fix = lab.folder / "fix.py"
    fix.write_text(
        "import json\n"
        "def close(data, error):\n    return data + b'}'\n"
        "def key(data, error):\n    return {**json.loads(data), 'c': 'mended'}\n"
    )
    converted, errors = "s3://lake/errors/converted/", "DataFormatConversion."
    to = "firehose:converted"
    dry = lab.run(converted, "--to", to, "--map", f"{fix}:close", "--code", f"{errors}ParseError",
                  "--dry-run")  # fmt: skip
    assert '{"n":3,"a":6}' in dry
    lab.run(converted, "--to", to, "--map", f"{fix}:close", "--code", f"{errors}ParseError")
    lab.run(converted, "--to", to, "--code", f"{errors}MalformedData")
    assert "No records with that code and time" in lab.run(converted, "--code", "Parse")
    lab.run("s3://lake/errors/parted/", "--to", "firehose:parted", "--map", f"{fix}:key")
    lab.run("s3://lake/errors/changed/", "--to", "firehose:changed")
    lab.deliver()
    assert lab.numbers() == Counter(range(1, 9))
    # Again: nothing is sent.
    for source, target in (("converted", to), ("parted", "firehose:parted")):
        assert "0 records sent" in lab.run(f"s3://lake/errors/{source}/", "--to", target)
    lab.deliver()
    assert lab.numbers() == Counter(range(1, 9))


def processors(kind: str, **parameters: str) -> dict[str, Any]:
    given = [{"ParameterName": n, "ParameterValue": v} for n, v in parameters.items()]
    return {"Enabled": True, "Processors": [{"Type": kind, "Parameters": given}]}


def test_backed_up_records_go_to_a_file_and_to_a_stream(lab: Lab):
    lab.s3.create_bucket(Bucket="backup")
    lab.s3.put_object(Bucket="backup", Key="in/one", Body=b'{"k":"a"}\n{"k":"b"}\n')
    path = lab.folder / "back.jsonl"
    told = lab.run("s3://backup/in/", "--backup", "--to", f"file:{path}")
    assert "2 records sent" in told
    assert path.read_bytes() == b'{"k":"a"}\n{"k":"b"}\n'
    kinesis = lab.cloud.client("kinesis")
    kinesis.create_stream(StreamName="s", ShardCount=1)
    lab.run("s3://backup/in/", "--backup", "--to", "kinesis:s", "--key", "k")
    shard = kinesis.list_shards(StreamName="s")["Shards"][0]["ShardId"]
    iterator = kinesis.get_shard_iterator(
        StreamName="s", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records = kinesis.get_records(ShardIterator=iterator)["Records"]
    assert [record["PartitionKey"] for record in records] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lake/errors"], "is not a place in S3"),
        (["s3://backup/in/", "--since", "noon"], "is not a time"),
        (["s3://backup/in/", "--to", "sqs:q"], "must be firehose:NAME, kinesis:NAME, file:PATH"),
        (["s3://backup/in/", "--to", "firehose:nobody"], "ResourceNotFoundException"),
        (["s3://backup/in/", "--map", "none.py:f"], "names no file and function"),
        (["s3://backup/in/"], "is not an error line of Firehose"),
        (["s3://nobody/"], "NoSuchBucket"),
    ],
)
def test_a_mistake_is_one_sentence(lab: Lab, arguments: list[str], words: str):
    lab.s3.create_bucket(Bucket="backup")
    lab.s3.put_object(Bucket="backup", Key="in/one", Body=b'{"k":"a"}\n{"k":"b"}\n')
    output = lab.run(*arguments, code=1)
    assert words in output
    assert output.count("\n") == 1


# --- kills ------------------------------------------------------------------------------------


class _Killed(BaseException):
    """Stands for kill -9."""


class _Places:
    """A `Bucket` of which only the places are used."""

    def __init__(self) -> None:
        self.kept: dict[str, ObjectProgress] = {}

    def place(self, key: str, target: str) -> ObjectProgress:
        found = self.kept.get(key, ObjectProgress())
        return ObjectProgress(set(found.sent), set(found.sending))

    def keep(self, key: str, target: str, place: ObjectProgress) -> None:
        self.kept[key] = ObjectProgress(set(place.sent), set(place.sending))


def _lines(count: int) -> list[FailedRecord]:
    return [FailedRecord("k", n, "c", "", 0, b"%d" % n, True, {}) for n in range(count)]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_batch_that_a_kill_cut_short_is_not_sent_again_unless_asked(
    tmp_path: Path, arrived: bool
):
    path = tmp_path / "out"
    target, places = FileTarget(path), _Places()
    send = target.send

    def dies(datas: list[bytes]) -> list[int]:
        if datas[0] != b"500":
            return send(datas)
        if arrived:
            send(datas)
        raise _Killed

    target.send = dies  # type: ignore[method-assign]
    bucket: Any = places

    def run(*, again: bool = False) -> RedriveCounts:
        done = RedriveCounts()
        redrive_object(bucket, "k", _lines(1200), target, fix=None, again=again, done=done)
        return done

    assert isinstance(bucket, _Places)
    assert not isinstance(bucket, Bucket)
    with pytest.raises(_Killed):
        run()
    target.send = send  # type: ignore[method-assign]
    done = run()
    assert (done.before, done.uncertain, done.sent) == (500, 500, 200)
    found = Counter(map(int, path.read_bytes().split()))
    assert max(found.values()) == 1
    assert len(found) == (1200 if arrived else 700)
    if not arrived:
        assert run(again=True).sent == 500
        assert Counter(map(int, path.read_bytes().split())) == Counter(range(1200))
