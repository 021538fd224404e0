"""The ARN of a bus names its account and its region: a bus of the same name in another place is another bus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud

ELSEWHERE = "eu-west-1"
PATTERN = json.dumps({"source": ["s"]})


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data") / "data") as cloud:
        for region in (REGION, ELSEWHERE):
            events, sqs = (cloud.client(name, region=region) for name in ("events", "sqs"))
            events.create_event_bus(Name="x")
            sqs.create_queue(QueueName="x")
            events.put_rule(Name="r", EventBusName="x", EventPattern=PATTERN)
            target = {"Id": "q", "Arn": f"arn:aws:sqs:{region}:{ACCOUNT}:x"}
            events.put_targets(Rule="r", EventBusName="x", Targets=[target])
        yield cloud


def bus(region: str, account: str = ACCOUNT, name: str = "x") -> str:
    return f"arn:aws:events:{region}:{account}:event-bus/{name}"


def put(cloud: InProcessCloud, *buses: str) -> Any:
    entry = {"Source": "s", "DetailType": "d", "Detail": "{}"}
    entries = [{**entry, "EventBusName": one} for one in buses]
    return cloud.client("events").put_events(Entries=entries)["Entries"]


def received(cloud: InProcessCloud, region: str) -> list[Any]:
    sqs = cloud.client("sqs", region=region)
    url = sqs.get_queue_url(QueueName="x")["QueueUrl"]
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [json.loads(one["Body"]) for one in answer.get("Messages", ())]


def test_events_reach_the_bus_of_the_region_in_its_arn(cloud: InProcessCloud):
    there, here = put(cloud, bus(ELSEWHERE), bus(REGION))
    (event,) = received(cloud, ELSEWHERE)
    # The event says where it was put.
    assert (event["id"], event["region"]) == (there["EventId"], REGION)
    assert [one["id"] for one in received(cloud, REGION)] == [here["EventId"]]


@pytest.mark.parametrize("arn", [bus(ELSEWHERE, name="none"), bus("mars-1"), bus("us-west-2")])
def test_an_event_for_a_missing_bus_elsewhere_reaches_no_other(
    cloud: InProcessCloud, arn: str, caplog: pytest.LogCaptureFixture
):
    (answer,) = put(cloud, arn)
    assert "EventId" in answer
    assert f"An event for the bus {arn} is dropped" in caplog.text
    assert received(cloud, REGION) == received(cloud, ELSEWHERE) == []


@pytest.mark.parametrize("arn", [bus(ELSEWHERE), bus(REGION, "222222222222")])
def test_a_bus_elsewhere_is_never_the_own_one_of_its_name(cloud: InProcessCloud, arn: str):
    events = cloud.client("events")
    for call, params in (
        (events.put_rule, {"Name": "y", "EventPattern": PATTERN}),
        (events.list_rules, {}),
        (events.list_targets_by_rule, {"Rule": "r"}),
    ):
        with pytest.raises(ClientError, match="buses of the caller's account and Region only"):
            call(EventBusName=arn, **params)
    for call, params in (
        (events.describe_event_bus, {"Name": arn}),
        (events.create_archive, {"ArchiveName": "a", "EventSourceArn": arn}),
    ):
        with pytest.raises(ClientError, match=f"Event bus {arn} does not exist"):
            call(**params)
    assert events.list_rules(EventBusName=bus(REGION))["Rules"][0]["Name"] == "r"
