"""Managed Flink's applications change in place; each change is a new version (documented: API_UpdateApplication)."""

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


ROLE = "arn:aws:iam::000000000000:role/r"


def make(client: Any, **given: Any) -> dict[str, Any]:
    return client.create_application(
        ApplicationName="a",
        RuntimeEnvironment="FLINK-1_18",
        ServiceExecutionRole=ROLE,
        **given,
    )["ApplicationDetail"]


def test_an_application_changes_in_place_and_keeps_the_rest(lab: MotoLab):
    client = lab.client("kinesisanalyticsv2")
    made = make(
        client,
        ApplicationConfiguration={
            "FlinkApplicationConfiguration": {
                "MonitoringConfiguration": {"ConfigurationType": "CUSTOM", "LogLevel": "WARN"},
                "ParallelismConfiguration": {"ConfigurationType": "CUSTOM", "Parallelism": 2},
            },
            "ApplicationCodeConfiguration": {
                "CodeContentType": "PLAINTEXT",
                "CodeContent": {
                    "S3ContentLocation": {"BucketARN": "arn:aws:s3:::b", "FileKey": "1"}
                },
            },
        },
        CloudWatchLoggingOptions=[{"LogStreamARN": STREAM.format("x")}],
    )
    assert made["ApplicationStatus"] == "READY"
    updated = client.update_application(
        ApplicationName="a",
        CurrentApplicationVersionId=1,
        RuntimeEnvironmentUpdate="FLINK-1_20",
        ApplicationConfigurationUpdate={
            "FlinkApplicationConfigurationUpdate": {
                "MonitoringConfigurationUpdate": {"ConfigurationTypeUpdate": "DEFAULT"},
                "ParallelismConfigurationUpdate": {"ParallelismUpdate": 4},
            },
            "EnvironmentPropertyUpdates": {
                "PropertyGroups": [{"PropertyGroupId": "g", "PropertyMap": {"k": "v"}}]
            },
            "ApplicationCodeConfigurationUpdate": {
                "CodeContentUpdate": {"S3ContentLocationUpdate": {"FileKeyUpdate": "2"}}
            },
        },
    )["ApplicationDetail"]
    found = client.describe_application(ApplicationName="a")["ApplicationDetail"]
    assert found == updated
    assert (found["ApplicationName"], found["ApplicationVersionId"]) == ("a", 2)
    assert found["RuntimeEnvironment"] == "FLINK-1_20"
    assert found["ServiceExecutionRole"] == ROLE
    assert (
        found["CloudWatchLoggingOptionDescriptions"] == made["CloudWatchLoggingOptionDescriptions"]
    )
    described = found["ApplicationConfigurationDescription"]
    flink = described["FlinkApplicationConfigurationDescription"]
    assert flink["MonitoringConfigurationDescription"]["LogLevel"] == "INFO"
    parallel = flink["ParallelismConfigurationDescription"]
    assert (parallel["Parallelism"], parallel["CurrentParallelism"]) == (4, 4)
    code = described["ApplicationCodeConfigurationDescription"]["CodeContentDescription"]
    location = code["S3ApplicationCodeLocationDescription"]
    assert location == {"BucketARN": "arn:aws:s3:::b", "FileKey": "2"}
    groups = described["EnvironmentPropertyDescriptions"]["PropertyGroupDescriptions"]
    assert groups == [{"PropertyGroupId": "g", "PropertyMap": {"k": "v"}}]


def test_a_change_of_another_version_is_refused_and_changes_nothing(lab: MotoLab):
    client = lab.client("kinesisanalyticsv2")
    made = make(client)

    def refusal(**given: Any) -> str:
        with pytest.raises(ClientError) as caught:
            client.update_application(ApplicationName="a", **given)
        return str(caught.value)

    change = {"RuntimeEnvironmentUpdate": "FLINK-1_20"}
    stale = {**change, "CurrentApplicationVersionId": 2}
    assert "ConcurrentModificationException" in refusal(**stale)
    assert "ConcurrentModificationException" in refusal(**change, ConditionalToken="x")
    assert "InvalidArgumentException" in refusal(**change)
    no_option = [{"CloudWatchLoggingOptionId": "9.9", "LogStreamARNUpdate": STREAM.format("y")}]
    given = {"CurrentApplicationVersionId": 1, "CloudWatchLoggingOptionUpdates": no_option}
    assert "ResourceNotFoundException" in refusal(**change, **given)
    with pytest.raises(ClientError, match="ResourceInUseException"):
        make(client)
    left = client.describe_application(ApplicationName="a")["ApplicationDetail"]
    assert left == made
    client.update_application(
        ApplicationName="a", ConditionalToken=made["ConditionalToken"], **change
    )
    assert "ConcurrentModificationException" in refusal(ConditionalToken=made["ConditionalToken"])


def test_a_network_is_added_changed_and_taken_away(lab: MotoLab):
    client = lab.client("kinesisanalyticsv2")
    make(client)
    network = {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}

    def add(version: int) -> dict[str, Any]:
        return client.add_application_vpc_configuration(
            ApplicationName="a", CurrentApplicationVersionId=version, VpcConfiguration=network
        )["VpcConfigurationDescription"]

    added = add(1)
    with pytest.raises(ClientError, match="InvalidArgumentException"):
        add(2)
    update = {"VpcConfigurationId": added["VpcConfigurationId"], "SubnetIdUpdates": ["subnet-2"]}
    changed = client.update_application(
        ApplicationName="a",
        CurrentApplicationVersionId=2,
        ApplicationConfigurationUpdate={"VpcConfigurationUpdates": [update]},
    )["ApplicationDetail"]["ApplicationConfigurationDescription"]
    assert changed["VpcConfigurationDescriptions"] == [{**added, "SubnetIds": ["subnet-2"]}]
    client.delete_application_vpc_configuration(
        ApplicationName="a",
        CurrentApplicationVersionId=3,
        VpcConfigurationId=added["VpcConfigurationId"],
    )
    left = client.describe_application(ApplicationName="a")["ApplicationDetail"]
    assert "VpcConfigurationDescriptions" not in left["ApplicationConfigurationDescription"]


def test_tags_are_added_and_taken_away(lab: MotoLab):
    client = lab.client("kinesisanalyticsv2")
    arn = make(client, Tags=[{"Key": "a", "Value": "1"}])["ApplicationARN"]
    client.tag_resource(ResourceARN=arn, Tags=[{"Key": "b", "Value": "2"}])
    client.untag_resource(ResourceARN=arn, TagKeys=["a"])
    assert client.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client.untag_resource(ResourceARN=arn + "x", TagKeys=["a"])
