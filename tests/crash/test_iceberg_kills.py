"""A real cloud that delivers to an Iceberg table is killed again and again: each record is a row, once."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.glue import GlueCatalog

from headrace.services.firehose.destinations.iceberg_commit import DELIVERY_ID
from tests.support.server import ServerProcess, wait_until
from tests.support.tables import scan_with_duckdb

ROLE = "arn:aws:iam::000000000000:role/r"
ERRORS = "bad/!{firehose:error-output-type}/"


def make(server: ServerProcess) -> None:
    server.client("s3").create_bucket(Bucket="lake")
    glue = server.client("glue")
    glue.create_database(DatabaseInput={"Name": "db"})
    columns = [{"Name": "id", "Type": "bigint"}, {"Name": "v", "Type": "string"}]
    glue.create_table(
        DatabaseName="db",
        TableInput={
            "Name": "t",
            "StorageDescriptor": {"Location": "s3://lake/t", "Columns": columns},
        },
        OpenTableFormatInput={"IcebergInput": {"MetadataOperation": "CREATE"}},
    )
    server.client("firehose").create_delivery_stream(
        DeliveryStreamName="d",
        IcebergDestinationConfiguration={
            "RoleARN": ROLE,
            "CatalogConfiguration": {"CatalogARN": "arn:aws:glue:us-east-1:000000000000:catalog"},
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "DestinationTableConfigurationList": [
                {"DestinationDatabaseName": "db", "DestinationTableName": "t", "UniqueKeys": ["id"]}
            ],
            "S3Configuration": {
                "RoleARN": ROLE,
                "BucketARN": "arn:aws:s3:::lake",
                "ErrorOutputPrefix": ERRORS,
            },
        },
    )


def table_of(server: ServerProcess) -> Any:
    """Return the table as somebody else's pyiceberg has it: by Glue's endpoint and S3's."""
    properties: dict[str, Any] = {
        "glue.endpoint": server.endpoint_url,
        "s3.endpoint": server.endpoint_url,
    }
    for service in ("glue", "s3"):
        properties |= {
            f"{service}.region": "us-east-1",
            f"{service}.access-key-id": "test",
            f"{service}.secret-access-key": "test",
        }
    return GlueCatalog("theirs", **properties).load_table(("db", "t"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_a_row_once_over_kills(tmp_path: Path, seed: int):
    rng, put = random.Random(seed), 0
    with ServerProcess(tmp_path / "data") as server:
        make(server)
        for _ in range(8):
            firehose = server.client("firehose")
            for _ in range(rng.randrange(1, 6)):
                count = rng.randrange(1, 200)
                records = [{"id": n, "v": f"v{n}"} for n in range(put, put + count)]
                answer = firehose.put_record_batch(
                    DeliveryStreamName="d",
                    Records=[{"Data": json.dumps(record)} for record in records],
                )
                assert answer["FailedPutCount"] == 0
                put += count
            delivered = rng.randrange(put + 1)
            wait_until(lambda least=delivered: status(server)["delivered_records"] >= least)
            server.kill9()
            server.start()
        wait_until(lambda: status(server)["is_drained"])
        table = table_of(server)
        rows = table.scan().to_arrow()
        assert sorted(rows["id"].to_pylist()) == list(range(put))
        snapshots = [one.summary.additional_properties for one in table.metadata.snapshots]
        ids = Counter(one[DELIVERY_ID] for one in snapshots)
        assert set(ids.values()) == {1}
        assert sum(int(one["added-records"]) for one in snapshots) == put
        assert "Contents" not in server.client("s3").list_objects_v2(Bucket="lake", Prefix="bad/")
        rows = scan_with_duckdb(tmp_path, tmp_path / "data" / "s3" / "lake" / "t", table)
        assert rows is None or sorted(row["id"] for row in rows) == list(range(put))


def status(server: ServerProcess) -> dict[str, Any]:
    (found,) = server.page("/_headrace/firehose")
    return dict(found)
