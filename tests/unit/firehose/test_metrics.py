"""CloudWatch's metrics of Firehose: every name of the table comes, with its unit, and AWS's list is covered."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import AnyKeys, Metric
from headrace.services.firehose import metrics, reports
from headrace.services.firehose.permits import KeyUnusable
from headrace.services.firehose.reports import Reports
from tests.support.endpoint import endpoint
from tests.support.hec import TOKEN, hec
from tests.support.objects import MemoryLogs, MemoryMetrics
from tests.unit.firehose.destinations.helpers import DestinationLab
from tests.unit.firehose.destinations.test_deliveries import http, sound
from tests.unit.firehose.destinations.test_opensearch_deliveries import Domains
from tests.unit.firehose.destinations.test_redshift import Warehouses, lab_of, run
from tests.unit.firehose.helpers import CONVERSION, FUNCTION, Lab, processing, several
from tests.unit.firehose.iceberg.helpers import IcebergLab
from tests.unit.firehose.test_partitions import PARTITIONED, record
from tests.unit.firehose.test_transform import upper


def partitioned(tmp_path: Path) -> Iterable[Metric]:
    pytest.importorskip("jq", reason="JQ 1.6 has no wheel for this Python")
    lab = Lab(tmp_path, **PARTITIONED)
    lab.put(record(1, "a"), record(2, "b"))
    lab.deliver()
    return lab.metrics.metrics


def transformed(tmp_path: Path) -> Iterable[Metric]:
    given = processing("Lambda", LambdaArn=FUNCTION)
    backup = {"BucketARN": "arn:aws:s3:::kept"}
    lab = Lab(
        tmp_path,
        ProcessingConfiguration=given,
        S3BackupMode="Enabled",
        S3BackupConfiguration=backup,
    )
    lab.functions.functions[FUNCTION] = upper
    lab.put(b"one", b"two")
    lab.deliver()
    return lab.metrics.metrics


def decompressed(tmp_path: Path) -> Iterable[Metric]:
    lab = Lab(
        tmp_path,
        ProcessingConfiguration=several(("Decompression", {"CompressionFormat": "GZIP"})),
    )
    envelope = {"messageType": "DATA_MESSAGE", "owner": "o", "logGroup": "g", "logStream": "s"}
    text = json.dumps({**envelope, "subscriptionFilters": [], "logEvents": []}).encode()
    lab.put(gzip.compress(text), b"plain")
    lab.deliver()
    return lab.metrics.metrics


def converted(tmp_path: Path) -> Iterable[Metric]:
    lab = Lab(tmp_path, **CONVERSION)
    lab.put(b'{"a": 1}', b'{"a": "word"}')
    lab.deliver()
    return lab.metrics.metrics


def put_directly(tmp_path: Path) -> Iterable[Metric]:
    lab = Lab(tmp_path)
    sink = MemoryMetrics()
    lab.stream.source_arn = ""
    reports = Reports(lab.stream, lab.clock, MemoryLogs(), sink)
    reports.incoming("PutRecord", 1, 5, lab.clock.now_ms())
    reports.incoming("PutRecordBatch", 2, 10, lab.clock.now_ms())
    reports.report_throttled(3)
    reports.report_call("DescribeDeliveryStream", lab.clock.now_ms())
    reports.report_call("UpdateDeliveryStream", lab.clock.now_ms())
    return sink.metrics


class OneKey(AnyKeys):
    """KMS whose keys are all in one state; without a state there are none."""

    def __init__(self, state: str) -> None:
        self.state = state

    def state_of_key(self, key_id: str, account: str, region: str) -> tuple[str, str]:
        return (key_id if self.state else ""), self.state


def encrypted(tmp_path: Path) -> Iterable[Metric]:
    found: list[Metric] = []
    for place, state in enumerate(("", "Disabled", "PendingDeletion")):
        folder = tmp_path / str(place)
        folder.mkdir()
        lab = Lab(folder)
        lab.stream.encryption = {"KeyARN": "arn:aws:kms:us-east-1:000000000000:key/k"}
        lab.ports.keys._keys = OneKey(state)
        lab.put(b"one")
        with pytest.raises(KeyUnusable):
            lab.deliver()
        found += lab.metrics.metrics
        assert not lab.objects.objects
        # It waited, and nothing was lost.
        lab.ports.keys._keys = AnyKeys()
        lab.settle()
        assert list(lab.objects.objects.values()) == [b"one"]
    return found


def to_endpoint(tmp_path: Path) -> Iterable[Metric]:
    with endpoint(sound) as server:
        lab = http(tmp_path, server, S3BackupMode="AllData")
        lab.put(b"one")
        lab.deliver()
    return lab.metrics.metrics


def to_splunk(tmp_path: Path) -> Iterable[Metric]:
    with hec() as server:
        lab = DestinationLab(
            tmp_path,
            "Splunk",
            HECEndpoint=server.url,
            HECEndpointType="Raw",
            HECToken=TOKEN,
        )
        lab.put(b"one")
        lab.deliver()
    return lab.metrics.metrics


def to_search(tmp_path: Path) -> Iterable[Metric]:
    found: list[Metric] = []
    for kind in ("Amazonopensearchservice", "Elasticsearch", "AmazonOpenSearchServerless"):
        folder = tmp_path / kind
        folder.mkdir()
        named: dict[str, Any] = {"DomainARN": "arn:aws:es:us-east-1:000000000000:domain/flights"}
        if kind == "AmazonOpenSearchServerless":
            named = {"CollectionEndpoint": "https://flights"}
        lab = DestinationLab(folder, kind, IndexName="flights", **named)
        lab.search = Domains(folder, lab.clock)
        lab.start()
        lab.put(b'{"a":1}')
        lab.deliver()
        found += lab.metrics.metrics
    return found


def to_redshift(tmp_path: Path) -> Iterable[Metric]:
    lab = lab_of(tmp_path, Warehouses())
    lab.put(b'{"a":1}')
    run(lab)
    return lab.metrics.metrics


def to_iceberg(tmp_path: Path) -> Iterable[Metric]:
    lab = IcebergLab(tmp_path)
    lab.put_json({"id": 1, "v": "a"}, {"id": "no number", "v": "b"})
    lab.deliver()
    return lab.metrics.metrics


def test_every_metric_of_the_table_comes_with_its_unit(tmp_path: Path):
    units: dict[str, str] = {}
    for scenario in (
        partitioned,
        transformed,
        decompressed,
        converted,
        put_directly,
        encrypted,
        to_endpoint,
        to_splunk,
        to_search,
        to_redshift,
        to_iceberg,
    ):
        folder = tmp_path / scenario.__name__
        folder.mkdir()
        for metric in scenario(folder):
            assert metric.namespace == metrics.NAMESPACE
            assert metric.dimensions == (("DeliveryStreamName", "d"),)
            assert units.setdefault(metric.name, metric.unit) == metric.unit
    assert units == dict(metrics.EMITTED)


def test_failures_count(tmp_path: Path):
    values: dict[str, list[float]] = {}
    for scenario in (decompressed, converted):
        folder = tmp_path / scenario.__name__
        folder.mkdir()
        for metric in scenario(folder):
            values.setdefault(metric.name, []).append(metric.value)
    assert values["OutputDecompressedRecords.Failed"] == [1]
    assert values["OutputDecompressedBytes.Failed"] == [5]
    assert values["FailedConversion.Records"] == [1]
    assert values["SucceedConversion.Records"] == [1]
    # A record of the error output is not delivered.
    assert values["DeliveryToS3.Records"] == [1, 1]


def test_rows_of_tables_are_counted_as_they_went(tmp_path: Path):
    values = {metric.name: metric.value for metric in to_iceberg(tmp_path)}
    start = "DeliveryToIceberg."
    found = {name.removeprefix(start): v for name, v in values.items() if name.startswith(start)}
    assert found.pop("Bytes") > 0
    assert found.pop("DataFreshness") >= 0
    assert found == {
        "IncomingRowCount": 2,
        "SuccessfulRowCount": 1,
        "FailedRowCount": 1,
        "Success": 1,
    }


def test_an_object_for_copy_is_a_delivery_to_s3_and_has_no_freshness_of_redshift(tmp_path: Path):
    values = {metric.name: metric.value for metric in to_redshift(tmp_path)}
    assert values["DeliveryToS3.Records"] == values["DeliveryToRedshift.Records"] == 1
    assert values["DeliveryToS3.Bytes"] == values["DeliveryToRedshift.Bytes"] == 7
    assert "DeliveryToRedshift.DataFreshness" not in values


def test_what_is_not_emitted_has_a_reason_and_no_name_is_in_both_lists():
    assert not metrics.EMITTED.keys() & metrics.NOT_EMITTED.keys()
    assert all(metrics.NOT_EMITTED.values())
    assert all(
        re.fullmatch(r"[A-Z][A-Za-z0-9]+(\.[A-Z][A-Za-z]+)?", name)
        for name in (*metrics.EMITTED, *metrics.NOT_EMITTED)
    )


def test_a_tally_is_what_its_values_add_up_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MOST_REPEATED", 5)
    chosen, names = random.Random(3), ("IncomingBytes", "PutRecord.Bytes", "PutRecord.Latency")
    tally = reports.Tally()
    for _ in range(50):
        noted: dict[str, list[float]] = {}
        for _ in range(chosen.randrange(40)):
            values = [(name, chosen.randrange(3)) for name in chosen.sample(names, 2)]
            tally.note(*values)
            for name, value in values:
                noted.setdefault(name, []).append(value)
        found = {name: statistics for (name, _, _), statistics in tally.take()}
        assert found == {
            name: (len(each), sum(each), min(each), max(each)) for name, each in noted.items()
        }
