"""`headrace redrive` of Redshift's `errors/manifests`: COPY again, or the records back, each once, also over kills."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import redrive as command
from headrace.cli import redrive_queues
from headrace.cli.commands import headrace
from headrace.deliveries import redrive_records
from headrace.testing.clock import MovableClock
from headrace.testing.waiting import until
from tests.support.cloud import InProcessCloud

ROLE = "arn:aws:iam::000000000000:role/r"


class Killed(BaseException):
    """Stands for kill -9 of the command."""


class Lab:
    """A cloud with a cluster, a delivery stream whose COPY found no table, and the command on it."""

    def __init__(self, cloud: InProcessCloud, clock: MovableClock, database: str) -> None:
        self.cloud, self.clock, self.database = cloud, clock, database
        cloud.client("s3").create_bucket(Bucket="lake")
        redshift = cloud.client("redshift")
        redshift.create_cluster(
            ClusterIdentifier="flights",
            NodeType="ra3.large",
            MasterUsername="admin",
            MasterUserPassword="Secret123",
            DBName=database,
            IamRoles=[ROLE],
        )

    def stream(self, name: str) -> None:
        self.cloud.client("firehose").create_delivery_stream(
            DeliveryStreamName=name,
            RedshiftDestinationConfiguration={
                "RoleARN": ROLE,
                "ClusterJDBCURL": f"jdbc:redshift://flights.abc.us-east-1.redshift.amazonaws.com:5439/{self.database}",
                "CopyCommand": {"DataTableName": name, "CopyOptions": "json 'auto'"},
                "Username": "admin",
                "Password": "Secret123",
                "RetryOptions": {"DurationInSeconds": 0},
                "S3Configuration": {
                    "RoleARN": ROLE,
                    "BucketARN": "arn:aws:s3:::lake",
                    "Prefix": f"{name}/",
                    "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 60},
                },
            },
        )

    def give_up(self, name: str, *batches: list[int]) -> None:
        """Put records that no COPY loads: there is no such table yet; a manifest for each batch."""
        firehose = self.cloud.client("firehose")
        for numbers in batches:
            records = [{"Data": json.dumps({"n": n}).encode()} for n in numbers]
            firehose.put_record_batch(DeliveryStreamName=name, Records=records)
            self.deliver()

    def deliver(self) -> None:
        def drained() -> bool:
            if all(status["is_drained"] for status in self.cloud.cloud.firehose.statuses()):
                return True
            self.clock.advance(30)
            return False

        until(drained, timeout_s=60)

    def sql(self, sql: str) -> list[list[Any]]:
        data = self.cloud.client("redshift-data")
        where = {"ClusterIdentifier": "flights", "Database": self.database}
        begun = data.execute_statement(Sql=sql, **where)
        described = data.describe_statement(Id=begun["Id"], WaitTimeSeconds=30)
        assert described["Status"] == "FINISHED", described
        if not described["HasResultSet"]:
            return []
        records = data.get_statement_result(Id=begun["Id"])["Records"]
        return [[next(iter(field.values())) for field in row] for row in records]

    def numbers(self, table: str) -> Counter[int]:
        return Counter(row[0] for row in self.sql(f"select n from {table}"))

    def run(self, *arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(headrace, ["redrive", *arguments], catch_exceptions=True)
        assert done.exit_code == code, done.output
        return done.output


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Lab]:
    clock = MovableClock()
    folder = tmp_path_factory.mktemp("copies")
    with InProcessCloud(folder / "data", clock=clock, redshift_url=postgres_url) as cloud:
        yield Lab(cloud, clock, f"db_{folder.name.replace('-', '_')}")


@pytest.fixture
def lab(shared: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    def client(service: str, **_: Any) -> Any:
        return shared.cloud.client(service)

    monkeypatch.setattr(command, "client", client)
    return shared


def test_what_was_given_up_is_loaded_once_also_over_kills(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    lab.stream("late")
    lab.give_up("late", [1, 2], [3], [4, 5])
    shown = lab.run("s3://lake/late/errors/")
    assert "Redshift.NotLoaded" in shown
    assert "5" in shown
    assert "nonexistent table late" in lab.run(
        "s3://lake/late/errors/", "--to", "redshift:late", code=1
    )
    lab.sql("create table late (n int)")
    dry = lab.run("s3://lake/late/errors/", "--to", "redshift:late", "--dry-run")
    assert dry.count("copy late from 's3://lake/late/errors/manifests/") == 3
    assert lab.numbers("late") == Counter()

    fates = ["before its end", "", "after its end"]
    end = redrive_queues.Copier._end

    def killed(self: Any, statement_id: str) -> None:
        described = self.data.describe_statement(Id=statement_id)
        fate = fates.pop(0) if fates and "SubStatements" in described else ""
        if fate == "before its end":
            raise Killed
        end(self, statement_id)
        if fate == "after its end":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(redrive_queues.Copier, "_end", killed)
        for _ in range(2):
            with pytest.raises(Killed):
                lab.run("s3://lake/late/errors/", "--to", "redshift:late")
    told = lab.run("s3://lake/late/errors/", "--to", "redshift:late")
    assert "0 manifests loaded, 3 loaded before" in told
    assert lab.numbers("late") == Counter(dict.fromkeys((1, 2, 3, 4, 5), 1))


def test_records_of_manifests_go_back_to_the_delivery_stream_and_to_a_file(
    lab: Lab, tmp_path: Path
):
    lab.stream("back")
    lab.give_up("back", [1, 2], [3])
    out = tmp_path / "records"
    lab.run("s3://lake/back/errors/", "--to", f"file:{out}")
    assert [json.loads(line)["n"] for line in out.read_text().splitlines()] == [1, 2, 3]
    lab.sql("create table back (n int)")
    told = lab.run("s3://lake/back/errors/", "--to", "firehose:back")
    assert "3 records sent to firehose:back" in told
    lab.deliver()
    assert lab.numbers("back") == Counter({1: 1, 2: 1, 3: 1})
    assert "0 records sent to firehose:back, 3 sent before" in lab.run(
        "s3://lake/back/errors/", "--to", "firehose:back"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "redshift:late", "--map", "x.py:f"], "takes whole manifests"),
        (["--to", "redshift:plain"], "does not deliver to Redshift"),
    ],
)
def test_a_mistake_is_one_sentence(lab: Lab, arguments: list[str], words: str, tmp_path: Path):
    firehose = lab.cloud.client("firehose")
    if "late" not in firehose.list_delivery_streams()["DeliveryStreamNames"]:
        lab.stream("late")
    if "plain" not in firehose.list_delivery_streams()["DeliveryStreamNames"]:
        firehose.create_delivery_stream(
            DeliveryStreamName="plain",
            ExtendedS3DestinationConfiguration={"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::lake"},
        )
    (tmp_path / "x.py").write_text("def f(data, error): return data\n")
    given = [part.replace("x.py", str(tmp_path / "x.py")) for part in arguments]
    assert words in lab.run("s3://lake/errors/", *given, code=1)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"a":1}{"a":2}', 2),
        (b'{"a":1}\n{"a":2}\n', 2),
        (b'[1]\n{"a":\n2} ', 2),
        (b"1,2\n3,4\n", 2),
        (b'1,"x\n', 1),
        (b'{"a":1}\nno JSON\n', 2),
        (b"\xff\n\xfe", 2),
        (b"", 0),
    ],
)
def test_records_joined_are_the_object(body: bytes, count: int):
    found = redrive_records.records_of(body)
    assert len(found) == count
    assert b"".join(found) == body


def test_what_is_no_manifest():
    for body in (b"", b"{}", b'{"entries": 1}', b'{"entries": [1]}', b'{"rawData": ""}\n{}'):
        assert redrive_records.urls_of(body) is None
