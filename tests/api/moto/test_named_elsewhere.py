"""What a request names by an ARN or a URL of another Region is not the resource of that name in its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import refusal

ELSEWHERE = "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("elsewhere") / "data") as cloud:
        cloud.client("ecs").create_cluster(clusterName="c")
        cloud.client("sqs").create_queue(QueueName="q")
        yield cloud


@pytest.mark.parametrize("place", [f"{ELSEWHERE}:{ACCOUNT}", f"{REGION}:111111111111"])
def test_clusters_and_what_is_in_them(cloud: InProcessCloud, place: str):
    ecs = cloud.client("ecs")
    arn = f"arn:aws:ecs:{place}:cluster/c"
    described = ecs.describe_clusters(clusters=[arn, "c"])
    assert [one["clusterName"] for one in described["clusters"]] == ["c"]
    assert described["failures"] == [{"arn": arn, "reason": "MISSING"}]
    assert ecs.describe_clusters(clusters=[arn])["clusters"] == []
    for call in (
        ecs.delete_cluster,
        ecs.list_services,
        ecs.list_tasks,
        ecs.list_container_instances,
    ):
        assert refusal(call, cluster=arn)[0] == "ClusterNotFoundException"
    tags = [{"key": "a", "value": "b"}]
    assert refusal(ecs.tag_resource, resourceArn=arn, tags=tags)[0] == "InvalidParameterException"
    service = f"arn:aws:ecs:{place}:service/c/s"
    described = refusal(ecs.describe_services, cluster="c", services=[service])
    assert described[0] == "InvalidParameterException"
    own = f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/c"
    ecs.tag_resource(resourceArn=own, tags=tags)
    assert ecs.describe_clusters(clusters=[own])["clusters"][0]["status"] == "ACTIVE"


@pytest.mark.parametrize(
    "host", [f"sqs.{ELSEWHERE}.amazonaws.com", f"{ELSEWHERE}.queue.amazonaws.com"]
)
def test_queues(cloud: InProcessCloud, host: str):
    sqs = cloud.client("sqs")
    named = {"QueueUrl": f"https://{host}/{ACCOUNT}/q"}
    for call, given in (
        (sqs.send_message, {"MessageBody": "x"}),
        (sqs.purge_queue, {}),
        (sqs.receive_message, {}),
    ):
        assert "NonExistentQueue" in refusal(call, **named, **given)[0]
    own: dict[str, Any] = {"QueueUrl": f"https://{host.replace(ELSEWHERE, REGION)}/{ACCOUNT}/q"}
    sqs.send_message(**own, MessageBody="x")
    assert sqs.receive_message(**own)["Messages"][0]["Body"] == "x"


def test_targets_of_rules_and_pipes(cloud: InProcessCloud):
    events, pipes = cloud.client("events"), cloud.client("pipes")
    events.put_rule(Name="r", EventPattern='{"source": ["a"]}')
    function = f"arn:aws:lambda:{ELSEWHERE}:{ACCOUNT}:function:f"
    targets = [{"Id": "1", "Arn": function}]
    code, _, sentence = refusal(events.put_targets, Rule="r", Targets=targets)
    assert (code, sentence) == ("ValidationException", "Cross-region API call is not allowed.")
    bus = f"arn:aws:events:{ELSEWHERE}:{ACCOUNT}:event-bus/b"
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": bus, "RoleArn": ROLE}])
    given = {"Name": "p", "RoleArn": ROLE, "Source": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"}
    assert refusal(pipes.create_pipe, **given, Target=function)[0] == "ValidationException"


@pytest.mark.parametrize(
    "target",
    [
        "timestream:{}:database/d/table/t",
        "redshift:{}:cluster:c",
        "ecs:{}:cluster/c",
        "batch:{}:job-queue/q",
    ],
)
def test_a_pipe_to_where_nothing_is_delivered_is_refused_by_name(
    cloud: InProcessCloud, target: str
):
    arn = f"arn:aws:{target.format(f'{REGION}:{ACCOUNT}')}"
    given = {"Name": "p", "RoleArn": ROLE, "Source": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"}
    code, status, sentence = refusal(cloud.client("pipes").create_pipe, **given, Target=arn)
    assert (code, status) == ("NotImplemented", 501)
    assert f"headrace's pipes do not deliver to {arn.split(':')[2]}" in sentence
