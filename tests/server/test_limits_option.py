"""`headrace up --limits aws --state-delay`, as a process."""

from __future__ import annotations

from pathlib import Path

from headrace.client.faults import Faults
from tests.support.server import ServerProcess, wait_until


def test_a_cloud_with_awss_limits_and_delays(data_dir: Path) -> None:
    with ServerProcess(data_dir, "--limits", "aws", "--state-delay", "0.3") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)

        def status() -> str:
            summary = kinesis.describe_stream_summary(StreamName="flights")
            return summary["StreamDescriptionSummary"]["StreamStatus"]

        assert status() == "CREATING"
        wait_until(lambda: status() == "ACTIVE", what="the stream")
        records = [{"Data": b"x", "PartitionKey": "k"}] * 500
        failed = [
            kinesis.put_records(StreamName="flights", Records=records)["FailedRecordCount"]
            for _ in range(20)
        ]
        assert sum(failed) > 0
        assert failed[0] == 0
        assert Faults(server.endpoint_url).list() == []
