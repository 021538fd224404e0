"""Managed Flink's log streams: each addition has an id of its own (documented: each change is a new version)."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab

STREAM = "arn:aws:logs:us-east-1:000000000000:log-group:g:log-stream:{}"


def test_a_log_streams_id_does_not_come_again(lab: MotoLab):
    client = lab.client("kinesisanalyticsv2")
    client.create_application(
        ApplicationName="a",
        RuntimeEnvironment="FLINK-1_18",
        ServiceExecutionRole="arn:aws:iam::000000000000:role/r",
    )

    def add(name: str) -> dict[str, Any]:
        return client.add_application_cloud_watch_logging_option(
            ApplicationName="a", CloudWatchLoggingOption={"LogStreamARN": STREAM.format(name)}
        )

    def delete(option: str) -> dict[str, Any]:
        return client.delete_application_cloud_watch_logging_option(
            ApplicationName="a", CloudWatchLoggingOptionId=option
        )

    first = add("x")["CloudWatchLoggingOptionDescriptions"][0]["CloudWatchLoggingOptionId"]
    second = add("y")["CloudWatchLoggingOptionDescriptions"][1]["CloudWatchLoggingOptionId"]
    left = delete(first)["CloudWatchLoggingOptionDescriptions"]
    assert [each["LogStreamARN"] for each in left] == [STREAM.format("y")]
    third = add("z")
    ids = [e["CloudWatchLoggingOptionId"] for e in third["CloudWatchLoggingOptionDescriptions"]]
    assert ids[0] == second
    assert len({first, *ids}) == 3
    assert third["ApplicationVersionId"] == 5
    with pytest.raises(ClientError) as caught:
        delete(first)
    assert "(ResourceNotFoundException)" in str(caught.value)


def test_an_application_that_is_not_there_is_not_deleted(lab: MotoLab):
    with pytest.raises(ClientError) as caught:
        lab.client("kinesisanalyticsv2").delete_application(
            ApplicationName="none", CreateTimestamp="2026-01-01"
        )
    assert "(ResourceNotFoundException)" in str(caught.value)
