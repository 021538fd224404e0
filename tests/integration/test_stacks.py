"""CloudFormation: what a template says is what comes to be, updates change it, and failures leave what was there."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.clouds import CloudUnderTest


def template(name: str, *, hours: int = 24, shards: int = 1, **more: Any) -> dict[str, Any]:
    """Return a template with a stream of that name."""
    stream = {
        "Type": "AWS::Kinesis::Stream",
        "Properties": {"Name": name, "ShardCount": shards, "RetentionPeriodHours": hours},
    }
    outputs = {"Arn": {"Value": {"Fn::GetAtt": ["Stream", "Arn"]}}}
    return {"Resources": {"Stream": stream, **more}, "Outputs": outputs}


def refused(name: str) -> dict[str, Any]:
    """Return a second stream of a name that is taken: its creation fails."""
    properties = {"Name": name, "ShardCount": 1}
    return {"Type": "AWS::Kinesis::Stream", "DependsOn": "Stream", "Properties": properties}


@pytest.mark.smoke
def test_a_streams_properties_are_those_of_the_template(cloud: CloudUnderTest) -> None:
    name = cloud.name("stream")
    _, status = cloud.create_stack(template(name, hours=48, shards=2))
    assert status == "CREATE_COMPLETE"
    summary = cloud.until_active(name)
    assert summary["OpenShardCount"] == 2
    assert summary["RetentionPeriodHours"] == 48
    assert summary["StreamModeDetails"]["StreamMode"] == "PROVISIONED"


def test_an_update_changes_what_is_there_and_keeps_its_records(cloud: CloudUnderTest) -> None:
    name = cloud.name("stream")
    stack, _ = cloud.create_stack(template(name))
    cloud.put(name, [("key", "kept")])
    assert cloud.update_stack(stack, template(name, hours=72)) == "UPDATE_COMPLETE"
    assert cloud.until_active(name)["RetentionPeriodHours"] == 72
    assert cloud.read(name) == [("key", "kept")]


def test_an_update_that_fails_is_rolled_back(cloud: CloudUnderTest) -> None:
    taken, name = cloud.stream(), cloud.name("stream")
    stack, _ = cloud.create_stack(template(name))
    changed = template(name, hours=72, Second=refused(taken))
    assert cloud.update_stack(stack, changed) == "UPDATE_ROLLBACK_COMPLETE"
    assert cloud.until_active(name)["RetentionPeriodHours"] == 24


def test_a_creation_that_fails_leaves_nothing_behind(cloud: CloudUnderTest) -> None:
    taken, name = cloud.stream(), cloud.name("stream")
    _, status = cloud.create_stack(template(name, Second=refused(taken)))
    assert status == "ROLLBACK_COMPLETE"
    streams = cloud.client("kinesis").list_streams(Limit=100)["StreamNames"]
    assert name not in streams
    assert taken in streams


def test_a_type_that_aws_has_not_is_refused(cloud: CloudUnderTest) -> None:
    body = {"Resources": {"Thing": {"Type": "AWS::Kinesis::Sluice", "Properties": {}}}}
    # AWS refuses the template as a whole.
    with pytest.raises(ClientError, match="ValidationError"):
        cloud.create_stack(body)


def test_a_deleted_stack_takes_its_stream_along(cloud: CloudUnderTest) -> None:
    name = cloud.name("stream")
    stack, _ = cloud.create_stack(template(name))
    cloud.delete_stack(stack)
    streams = cloud.client("kinesis").list_streams(Limit=100)["StreamNames"]
    assert name not in streams
