"""A request's permission is for the resource that it works on, whatever else it names, and however it names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
PLACE = f"{REGION}:{ACCOUNT}"
OTHER = "111111111111"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("elsewhere"), iam="enforce") as cloud:
        yield cloud


def _caller(cloud: InProcessCloud, name: str, service: str, *given: dict[str, Any]) -> Any:
    make_role(cloud, name, *given, trusts=ROOT)
    return as_role(cloud, name, service)


def _deny(resource: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return statements that allow everything but what is done with one resource."""
    return allow("*", "*"), {**allow("*", resource), "Effect": "Deny"}


def test_an_arn_in_a_text_takes_the_place_of_no_name(cloud: InProcessCloud):
    parameter = f"arn:aws:ssm:{PLACE}:parameter/allowed"
    ssm = _caller(cloud, "texts", "ssm", allow("ssm:*", parameter))
    put = {"Name": "victim", "Type": "String"}
    assert "parameter/victim" in refusal(ssm.put_parameter, **put, Value=parameter)[2]
    described = {**put, "Value": "x", "Description": parameter}
    assert "parameter/victim" in refusal(ssm.put_parameter, **described)[2]
    ssm.put_parameter(Name="allowed", Type="String", Value=parameter)


def test_tags_of_a_parameter_need_the_permission_on_it(cloud: InProcessCloud):
    cloud.client("ssm").put_parameter(Name="/a/tagged", Type="String", Value="x")
    ssm = _caller(cloud, "tags", "ssm", *_deny(f"arn:aws:ssm:{PLACE}:parameter/a/tagged"))
    named = {"ResourceType": "Parameter", "ResourceId": "/a/tagged"}
    tags = [{"Key": "a", "Value": "b"}]
    assert "explicit deny" in refusal(ssm.add_tags_to_resource, **named, Tags=tags)[2]
    assert "explicit deny" in refusal(ssm.list_tags_for_resource, **named)[2]


@pytest.mark.parametrize("place", [f"eu-west-1:{ACCOUNT}", f":{ACCOUNT}", f"{REGION}:"])
@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_a_deny_holds_for_arns_that_name_another_place(
    cloud: InProcessCloud, partition: str, place: str
):
    caller = f"place{abs(hash((partition, place)))}"
    bus = f"{caller}-bus"
    cloud.client("events").create_event_bus(Name=bus)
    events = _caller(cloud, caller, "events", *_deny(f"arn:aws:events:{PLACE}:event-bus/{bus}"))
    entry = {"Source": "s", "DetailType": "d", "Detail": "{}"}
    arn = f"arn:{partition}:events:{place}:event-bus/{bus}"
    for name in (arn, bus, f"x/{bus}"):
        sent = [{**entry, "EventBusName": name}]
        assert "explicit deny" in refusal(events.put_events, Entries=sent)[2]


def test_groups_of_logs_are_found_by_their_own_identifier(cloud: InProcessCloud):
    logs = cloud.client("logs")
    for name in ("first", "last"):
        logs.create_log_group(logGroupName=name)
        logs.create_log_stream(logGroupName=name, logStreamName=f"of-{name}")
    own = f"arn:aws:logs:{PLACE}:log-group:first"
    for identifier in (own, "first"):
        found = logs.describe_log_streams(logGroupIdentifier=identifier)["logStreams"]
        assert [one["logStreamName"] for one in found] == ["of-first"]
    other = own.replace(REGION, "eu-west-1")
    for identifier in (other, "none"):
        code, _, _ = refusal(logs.describe_log_streams, logGroupIdentifier=identifier)
        assert code == "ResourceNotFoundException"


def test_many_secrets_are_read_with_the_permission_on_each(cloud: InProcessCloud):
    secrets = cloud.client("secretsmanager")
    arn = secrets.create_secret(Name="one", SecretString="1")["ARN"]
    batch = allow("secretsmanager:BatchGetSecretValue", "*")
    caller = _caller(cloud, "batch", "secretsmanager", batch)
    asked = ({"SecretIdList": ["one"]}, {"Filters": [{"Key": "name", "Values": ["one"]}]})
    for params in asked:
        sentence = refusal(caller.batch_get_secret_value, **params)[2]
        assert f"secretsmanager:GetSecretValue on resource: {arn}" in sentence
    reads = allow("secretsmanager:GetSecretValue", arn)
    caller = _caller(cloud, "reader", "secretsmanager", batch, reads)
    for params in asked:
        assert caller.batch_get_secret_value(**params)["SecretValues"][0]["SecretString"] == "1"


def test_a_secret_is_denied_by_its_arn_without_the_letters_at_its_end(cloud: InProcessCloud):
    arn = cloud.client("secretsmanager").create_secret(Name="sealed", SecretString="1")["ARN"]
    caller = _caller(cloud, "partial", "secretsmanager", *_deny(arn))
    assert "explicit deny" in refusal(caller.get_secret_value, SecretId=arn[:-7])[2]


def test_the_tagging_api_needs_the_permissions_of_the_services(cloud: InProcessCloud):
    cloud.client("kinesis").create_stream(StreamName="tagged", ShardCount=1)
    arn = f"arn:aws:kinesis:{PLACE}:stream/tagged"
    change = {"ResourceARNList": [arn], "Tags": {"team": "x"}}
    tagging = _caller(cloud, "tagger", "resourcegroupstaggingapi", allow("tag:*", "*"))
    failed = tagging.tag_resources(**change)["FailedResourcesMap"]
    assert "kinesis:AddTagsToStream" in failed[arn]["ErrorMessage"]
    both = (allow("tag:*", "*"), allow("kinesis:AddTagsToStream", arn))
    tagging = _caller(cloud, "whole-tagger", "resourcegroupstaggingapi", *both)
    assert tagging.tag_resources(**change)["FailedResourcesMap"] == {}


def test_the_tagging_api_tags_nothing_of_another_account_or_region(cloud: InProcessCloud):
    cloud.client("ssm").put_parameter(Name="here", Type="String", Value="x")
    cloud.client("s3", account=OTHER).create_bucket(Bucket="theirs")
    tagging = cloud.client("resourcegroupstaggingapi")
    for arn in (
        f"arn:aws:ssm:{REGION}:{OTHER}:parameter/here",
        f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/here",
        "arn:aws:s3:::theirs",
    ):
        failed = tagging.tag_resources(ResourceARNList=[arn], Tags={"a": "b"})["FailedResourcesMap"]
        assert failed[arn]["ErrorCode"] == "InvalidParameterException"
