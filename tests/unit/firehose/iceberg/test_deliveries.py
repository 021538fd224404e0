"""Records insert, update and delete rows of Iceberg tables, each once; what fits no table goes to the error output."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from headrace.aws.calls.errors import AwsError
from headrace.deliveries.redrive_records import lines_of
from headrace.services.firehose.destinations import iceberg_bounds
from headrace.services.firehose.destinations.iceberg_commit import DELIVERY_ID
from tests.unit.firehose.helpers import FUNCTION, processing
from tests.unit.firehose.iceberg.helpers import PLAIN, ROUTE, IcebergLab, query, table

OPERATION = query("{operation: .op}")


def test_a_buffer_becomes_one_snapshot(tmp_path: Path):
    lab = IcebergLab(tmp_path)
    lab.put_json({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    lab.put_json({"id": 1, "v": "again"})
    lab.deliver()
    assert lab.rows() == [{"id": 1, "v": "a"}, {"id": 1, "v": "again"}, {"id": 2, "v": "b"}]
    (snapshot,) = lab.table().metadata.snapshots
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[DELIVERY_ID]
    assert lab.is_drained
    assert lab.errors("iceberg-failed") == []


def test_updates_and_deletions_go_by_unique_keys_in_order(tmp_path: Path):
    lab = IcebergLab(tmp_path, ProcessingConfiguration=OPERATION)
    lab.put_json(*[{"id": n, "v": "a"} for n in range(4)])
    lab.deliver()
    lab.put_json(
        {"op": "update", "id": 1, "v": "b"},
        {"op": "delete", "id": 2},
        {"op": "update", "id": 9, "v": "new"},
        {"op": "delete", "id": 3},
        {"op": "insert", "id": 3, "v": "back"},
        {"op": "update", "id": 1, "v": "c"},
        {"op": "delete", "id": 77},
    )
    lab.deliver()
    assert lab.rows() == [
        {"id": 0, "v": "a"},
        {"id": 1, "v": "c"},
        {"id": 3, "v": "back"},
        {"id": 9, "v": "new"},
    ]
    assert len(lab.table().metadata.snapshots) == 2


def test_rows_are_told_by_several_keys_of_a_partitioned_table(tmp_path: Path):
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "v", StringType(), required=True),
        NestedField(3, "n", LongType(), required=False),
    )
    lab = IcebergLab(
        tmp_path,
        ProcessingConfiguration=query(ROUTE),
        DestinationTableConfigurationList=[table("p", "id", "v")],
    )
    lab.make("p", schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v")))
    lab.put_json(*[{"to": "p", "id": n, "v": v, "n": 0} for n in range(3) for v in "ab"])
    lab.deliver()
    lab.put_json(
        {"to": "p", "op": "update", "id": 1, "v": "a", "n": 5},
        {"to": "p", "op": "delete", "id": 2, "v": "b"},
    )
    lab.deliver()
    found = {(row["id"], row["v"]): row["n"] for row in lab.rows("p")}
    assert found == {(0, "a"): 0, (0, "b"): 0, (1, "a"): 5, (1, "b"): 0, (2, "a"): 0}
    assert any("/v=a/" in key for key in lab.disk.objects)


def test_rows_go_into_the_hours_of_a_partitioned_table(tmp_path: Path):
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "v", TimestamptzType(), required=False),
    )
    lab = IcebergLab(tmp_path, DestinationTableConfigurationList=[table("p", "id")])
    lab.make("p", schema, PartitionSpec(PartitionField(2, 1000, HourTransform(), "hour")))
    lab.put_json(*[{"id": n, "v": f"2026-01-01T0{n // 2}:00:00Z"} for n in range(4)])
    lab.deliver()
    assert [row["id"] for row in lab.rows("p")] == [0, 1, 2, 3]
    folders = {key.split("/data/")[1].split("/")[0] for key in lab.disk.objects if "/data/" in key}
    assert folders == {"hour=2026-01-01-00", "hour=2026-01-01-01"}


def test_identifier_fields_are_keys_without_unique_keys(tmp_path: Path):
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "v", StringType(), required=False),
        identifier_field_ids=[1],
    )
    lab = IcebergLab(
        tmp_path,
        schema,
        ProcessingConfiguration=OPERATION,
        DestinationTableConfigurationList=[table("t")],
    )
    lab.put_json({"id": 1, "v": "a"}, {"op": "update", "id": 1, "v": "b"})
    lab.deliver()
    assert lab.rows() == [{"id": 1, "v": "b"}]


def test_a_function_routes_and_the_query_fills_in(tmp_path: Path):
    processors = [
        *processing("Lambda", LambdaArn=FUNCTION)["Processors"],
        *query('{destinationDatabaseName: "db", operation: "delete"}')["Processors"],
    ]
    lab = IcebergLab(
        tmp_path,
        ProcessingConfiguration={"Enabled": True, "Processors": processors},
        DestinationTableConfigurationList=[table("t", "id"), table("u", "id")],
    )
    lab.make("u")

    def routes(event: dict[str, Any]) -> dict[str, Any]:
        meta = {"destinationTableName": "u", "operation": "insert"}
        return {
            "records": [
                {
                    "recordId": record["recordId"],
                    "result": "Ok",
                    "data": record["data"],
                    "metadata": {"otfMetadata": meta},
                }
                for record in event["records"]
            ]
        }

    lab.functions.functions[FUNCTION] = routes
    lab.put_json({"id": 1, "v": "a"})
    lab.deliver()
    assert lab.rows("u") == [{"id": 1, "v": "a"}]
    assert lab.rows("t") == []


def test_what_fits_no_table_goes_to_the_error_output(tmp_path: Path):
    tables = [table("t", "id"), table("bare")]
    lab = IcebergLab(
        tmp_path,
        ProcessingConfiguration=query(ROUTE),
        DestinationTableConfigurationList=tables,
    )
    lab.make("bare")
    lab.glue.tables["hive"] = {**lab.glue.tables["t"], "Name": "hive", "Parameters": {}}
    records = [
        ({"to": "t", "id": 1, "v": "a"}, ""),
        ({"to": "t", "id": 2, "v": "b", "more": 1}, ""),
        ({"to": "t", "id": "x"}, "Iceberg.SchemaTypeMismatch"),
        ({"to": "t", "ID": 1}, "Iceberg.MissingColumnWithinRecord"),
        ({"to": "t", "op": "delete", "v": "a"}, "Iceberg.UniqueKeysNotFound"),
        ({"to": "bare", "op": "update", "id": 1}, "Iceberg.UniqueKeysNotFound"),
        ({"to": "nowhere", "id": 1}, "Iceberg.GlueTableNotFound"),
        ({"to": "hive", "id": 1}, "Iceberg.NotAnIcebergTable"),
        ({"to": "t", "op": "upsert", "id": 1}, "Iceberg.RoutingInformationNotFound"),
        ({"id": 3}, "Iceberg.RoutingInformationNotFound"),
    ]
    lab.put_json(*[record for record, _ in records])
    lab.put(b'{"to": "t"}{"to": "t"}', b"[]")
    lab.deliver()
    assert lab.rows() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    found = {line["rawData"]: line["errorCode"] for line in lab.errors("iceberg-failed")}
    expected = {json.dumps(record).encode(): code for record, code in records if code}
    expected |= dict.fromkeys((b'{"to": "t"}{"to": "t"}', b"[]"), "Iceberg.InvalidJson")
    assert found == expected
    assert lab.is_drained


def test_an_error_line_has_the_members_of_aws(tmp_path: Path):
    lab = IcebergLab(tmp_path)
    lab.put_json({"id": "x"})
    lab.deliver()
    (line,) = lab.errors("iceberg-failed")
    arrival_ms = line["arrivalTimestamp"]
    assert line == {
        "attemptsMade": 1,
        "arrivalTimestamp": arrival_ms,
        "errorCode": "Iceberg.SchemaTypeMismatch",
        "errorMessage": "id: 'x' is no long",
        "attemptEndingTimestamp": line["attemptEndingTimestamp"],
        "rawData": b'{"id": "x"}',
        "EventId": f"{lab.number(0)}.0",
        "SubsequenceNumber": 0,
        "ApproximateArrivalTimestamp": arrival_ms,
    }


def test_redrive_reads_the_error_output(tmp_path: Path):
    """What could not be a row comes back as it was tried: after the function, not as the producer sent it."""
    lab = IcebergLab(tmp_path)
    lab.put_json({"id": "x"})
    lab.deliver()
    (key,) = [key for key in lab.disk.objects if "iceberg-failed" in key]
    (line,) = lines_of(key, lab.disk.objects[key], backup=False)
    assert (line.code, line.data) == ("Iceberg.SchemaTypeMismatch", b'{"id": "x"}')
    assert not line.is_source


def test_a_table_has_an_error_prefix_of_its_own(tmp_path: Path):
    tables = [table("t", errors="of-t/!{firehose:error-output-type}/"), table("u")]
    lab = IcebergLab(
        tmp_path,
        ProcessingConfiguration=query(ROUTE),
        DestinationTableConfigurationList=tables,
    )
    lab.make("u")
    lab.put_json({"to": "t", "id": "x"}, {"to": "u", "id": "y"})
    lab.deliver()
    keys = sorted(key.rpartition("/")[0] for key in lab.disk.objects if "failed" in key)
    assert keys == ["lake/bad/iceberg-failed", "lake/of-t/iceberg-failed"]


def test_a_commit_that_loses_is_made_anew(tmp_path: Path):
    lab = IcebergLab(tmp_path, ProcessingConfiguration=OPERATION)
    lab.put_json({"id": 1, "v": "a"})
    lab.deliver()

    def other(name: str) -> None:
        lab.table(name).append(lab.table(name).scan().to_arrow().slice(0, 1))

    lab.glue.other_commit = other
    # The other's own commit takes a fate, too.
    lab.glue.fates = ["lose", "ok"]
    lab.put_json({"op": "update", "id": 1, "v": "b"})
    lab.deliver()
    assert lab.rows() == [{"id": 1, "v": "b"}]
    assert lab.is_drained


def test_a_role_without_access_is_tried_again_and_then_given_up(tmp_path: Path):
    lab = IcebergLab(tmp_path, RetryOptions={"DurationInSeconds": 20})
    lab.glue.refusal = AwsError("AccessDeniedException", "not authorized to perform: glue:GetTable")
    lab.put_json({"id": 1, "v": "a"})
    lab.settle()
    lab.clock.advance(60)
    seconds = lab.settle_until(lambda: lab.is_drained)
    assert 20 <= seconds < 60
    (line,) = lab.errors("iceberg-failed")
    assert line["errorCode"] == "Iceberg.AccessDenied"
    assert line["attemptsMade"] > 2


def test_tables_are_tried_again_apart(tmp_path: Path):
    lab = IcebergLab(tmp_path, ProcessingConfiguration=query(ROUTE))
    lab.make("u")
    at = lab.glue.tables["u"]["Parameters"]["metadata_location"].removeprefix("s3://")
    metadata = lab.disk.objects.pop(at)
    lab.put_json({"to": "t", "id": 1, "v": "a"}, {"to": "u", "id": 2, "v": "b"})
    lab.deliver()
    assert len(lab.rows("t")) == 1
    assert not lab.is_drained
    lab.disk.objects[at] = metadata
    lab.settle_until(lambda: lab.is_drained)
    assert lab.rows("u") == [{"id": 2, "v": "b"}]
    assert len(lab.table("t").metadata.snapshots) == 1


@pytest.mark.parametrize("is_packed", [True, False])
def test_metadata_that_takes_too_much_memory_is_not_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    is_packed: bool,
):
    lab = IcebergLab(tmp_path)
    parameters = lab.glue.tables["t"]["Parameters"]
    at = parameters["metadata_location"].removeprefix("s3://")
    body = lab.disk.objects[at] + b" " * 1_000_000
    if is_packed:
        at, body = at.replace(".metadata", ".gz.metadata"), gzip.compress(body)
        assert len(body) < 10_000
    parameters["metadata_location"] = f"s3://{at}"
    lab.disk.objects[at] = body
    monkeypatch.setattr(iceberg_bounds, "MOST_METADATA_BYTES", 500_000)
    lab.put_json({"id": 1, "v": "a"})
    lab.deliver()
    assert "cannot be written: its metadata has more than 500000 bytes" in caplog.text
    assert not lab.is_drained
    monkeypatch.undo()
    lab.settle_until(lambda: lab.is_drained)
    assert lab.rows() == [{"id": 1, "v": "a"}]


def test_a_destination_that_changes_while_it_is_tried_again_loses_nothing(tmp_path: Path):
    """Records of a table that cannot be written go to another, which has a part of the delivery already."""
    lab = IcebergLab(tmp_path, ProcessingConfiguration=query(ROUTE))
    lab.make("u")
    at = lab.glue.tables["u"]["Parameters"]["metadata_location"].removeprefix("s3://")
    del lab.disk.objects[at]
    lab.put_json({"to": "t", "id": 1, "v": "a"}, {"to": "u", "id": 2, "v": "b"})
    lab.deliver()
    changed = {
        **lab.stream.destination,
        "ProcessingConfiguration": query('{operation: "insert"}'),
    }
    lab.stream = replace(lab.stream, version=2, destination=changed)
    lab.start()
    lab.settle_until(lambda: lab.is_drained)
    assert [row["id"] for row in lab.rows("t")].count(2) == 1


@pytest.mark.parametrize("fate", ["die before", "die after"])
def test_a_commit_is_there_once_over_a_kill(tmp_path: Path, fate: str):
    lab = IcebergLab(tmp_path, PLAIN, ProcessingConfiguration=OPERATION)
    lab.put_json({"id": 1, "v": "a"}, {"id": "bad"})
    lab.glue.fates = [fate]
    lab.settle()
    lab.clock.advance(60)
    lab.settle_through_kills()
    lab.settle_until(lambda: lab.is_drained)
    assert lab.rows() == [{"id": 1, "v": "a"}]
    assert len(lab.table().metadata.snapshots) == 1
    assert [line["rawData"] for line in lab.errors("iceberg-failed")] == [b'{"id": "bad"}']
