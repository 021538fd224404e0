"""Kill -9 a cloud while Firehose loads into Redshift: each acknowledged record is in the table once."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ServerProcess, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ROLE = "arn:aws:iam::000000000000:role/r"
KILLS = 6
BATCH = 100


def made(server: ServerProcess) -> None:
    """Make a cluster with a table, and a delivery stream into it that buffers nothing."""
    redshift = server.client("redshift")
    redshift.create_cluster(
        ClusterIdentifier="c",
        NodeType="ra3.large",
        MasterUsername="admin",
        MasterUserPassword="Secret123",
        DBName="dev",
        Port=25600,
    )
    endpoint = redshift.describe_clusters()["Clusters"][0]["Endpoint"]
    assert query(server, "create table t (n int)") == []
    server.client("s3").create_bucket(Bucket="lake")
    server.client("firehose").create_delivery_stream(
        DeliveryStreamName="d",
        RedshiftDestinationConfiguration={
            "RoleARN": ROLE,
            "ClusterJDBCURL": f"jdbc:redshift://{endpoint['Address']}:{endpoint['Port']}/dev",
            "CopyCommand": {"DataTableName": "t", "CopyOptions": "json 'auto'"},
            "Username": "admin",
            "Password": "Secret123",
            "S3Configuration": {
                "RoleARN": ROLE,
                "BucketARN": "arn:aws:s3:::lake",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            },
        },
    )


def query(server: ServerProcess, sql: str) -> list[Any]:
    data = server.client("redshift-data")
    begun = data.execute_statement(
        ClusterIdentifier="c", Database="dev", Sql=sql, WaitTimeSeconds=30
    )
    described = data.describe_statement(Id=begun["Id"])
    assert described["Status"] == "FINISHED", described
    if not described["HasResultSet"]:
        return []
    records = data.get_statement_result(Id=begun["Id"])["Records"]
    return [next(iter(field.values())) for field in records[0]]


def test_each_record_is_in_the_table_once(tmp_path: Path) -> None:
    chosen = random.Random(14)
    put = 0
    with ServerProcess(tmp_path / "data") as server:
        made(server)
        for _ in range(KILLS):
            firehose = server.client("firehose")
            for _ in range(3):
                records = [{"Data": json.dumps({"n": n}).encode()} for n in range(put, put + BATCH)]
                answer = firehose.put_record_batch(DeliveryStreamName="d", Records=records)
                assert answer["FailedPutCount"] == 0
                put += BATCH
            # A delivery takes some tens of milliseconds: the kill falls before, in or after its transaction.
            time.sleep(chosen.uniform(0, 0.4))
            server.kill9()
            server.start()
        wait_until(
            lambda: server.page("/_headrace/firehose")[0]["is_drained"],
            within_s=120,
            what="the delivery",
        )
        assert query(server, "select count(*), count(distinct n), max(n) from t") == [
            put,
            put,
            put - 1,
        ]
