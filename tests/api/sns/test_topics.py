"""A topic's attributes, by the API and by stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.cloudformation.test_stacks import create, physical, template, update
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("topics") / "data") as running:
        yield running


def test_what_is_set_at_the_creation_or_later_is_shown(cloud: InProcessCloud):
    sns = cloud.client("sns")
    given = {"TracingConfig": "Active", "SignatureVersion": "2"}
    arn = sns.create_topic(Name="traced", Attributes=given)["TopicArn"]

    def shown(*names: str) -> list[str | None]:
        attributes = sns.get_topic_attributes(TopicArn=arn)["Attributes"]
        return [attributes.get(name) for name in names]

    assert shown("TracingConfig", "SignatureVersion", "FifoThroughputScope") == [
        "Active",
        "2",
        None,
    ]
    sns.set_topic_attributes(
        TopicArn=arn, AttributeName="TracingConfig", AttributeValue="PassThrough"
    )
    assert shown("TracingConfig") == ["PassThrough"]


def test_a_stack_s_topic_is_traced_and_never_archived(cloud: InProcessCloud):
    cfn, sns = cloud.client("cloudformation"), cloud.client("sns")

    def topic(**properties: Any) -> dict[str, Any]:
        return template(Topic={"Type": "AWS::SNS::Topic", "Properties": properties})

    assert create(cfn, topic(TracingConfig="Active")) == "CREATE_COMPLETE"
    arn = physical(cfn, "Topic")
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"]["TracingConfig"] == "Active"
    assert update(cfn, topic(TracingConfig="PassThrough")) == "UPDATE_COMPLETE"
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"]["TracingConfig"] == "PassThrough"
    archived = topic(FifoTopic=True, ArchivePolicy={"MessageRetentionPeriod": 7})
    assert create(cfn, archived, "archived") == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="archived")["StackEvents"]
    said = [one.get("ResourceStatusReason", "") for one in events]
    assert any(one.startswith("headrace does not archive the messages of") for one in said)
