"""SNS refuses invalid requests in AWS's words: recorded answers of LocalStack's tests/aws/services/sns/test_sns.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import InProcessCloud

S = "arn:aws:sns:us-east-1:000000000000:"
Q = "arn:aws:sqs:us-east-1:000000000000:"
TOPIC, FIFO = f"{S}plain", f"{S}ordered.fifo"
TEXT = {"DataType": "String", "StringValue": "x"}
NO_DEFAULT = "Invalid parameter: Message Structure - No default entry in JSON message body"
NO_DEDUPLICATION = (
    "Invalid parameter: The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId"
    " provided explicitly"
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("sns") / "data") as cloud:
        sns, sqs = cloud.client("sns"), cloud.client("sqs")
        sns.create_topic(Name="plain")
        sns.create_topic(Name="ordered.fifo", Attributes={"FifoTopic": "true"})
        sqs.create_queue(QueueName="q")
        sns.subscribe(TopicArn=TOPIC, Protocol="sqs", Endpoint=f"{Q}q")
        yield cloud


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = caught.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            {"a": {"DataType": "String", "StringValue": ""}},
            (
                "The message attribute 'a' must contain non-empty message attribute value for message attribute type"
                " 'String'."
            ),
        ),
        (
            {"a": {"DataType": "String"}},
            (
                "The message attribute 'a' must contain non-empty message attribute value for message attribute type"
                " 'String'."
            ),
        ),
        (
            {"a": {"DataType": "Binary", "BinaryValue": b""}},
            (
                "The message attribute 'a' must contain non-empty message attribute value for message attribute type"
                " 'Binary'."
            ),
        ),
        (
            {"a": {"DataType": "Number", "BinaryValue": b"1"}},
            "The message attribute 'a' with type 'Number' must use field 'String'.",
        ),
        (
            {"a": {"DataType": "Binary", "StringValue": "1"}},
            "The message attribute 'a' with type 'Binary' must use field 'Binary'.",
        ),
        (
            {"a": {"DataType": "Stringy", "StringValue": "1"}},
            (
                "The message attribute 'a' has an invalid message attribute type, the set of supported type prefixes is"
                " Binary, Number, and String."
            ),
        ),
        ({"a" * 257: TEXT}, "Length of message attribute name must be less than 256 bytes."),
        (
            {"a^b": TEXT},
            (
                "Invalid non-alphanumeric character '#x5E' was found in the message attribute name. Can only include"
                " alphanumeric characters, hyphens, underscores, or dots."
            ),
        ),
        ({".a": TEXT}, "Invalid message attribute name starting with character '.' was found."),
        ({"a.": TEXT}, "Invalid message attribute name ending with character '.' was found."),
        ({"a..b": TEXT}, "Message attribute name can not have successive '.' character."),
    ],
)
def test_attributes_of_a_message_and_of_one_in_a_batch(
    cloud: InProcessCloud, attribute: dict[str, Any], message: str
) -> None:
    sns = cloud.client("sns")
    expected = ("ParameterValueInvalid", message)
    assert (
        refusal(sns.publish, TopicArn=TOPIC, Message="x", MessageAttributes=attribute) == expected
    )
    entry = {"Id": "1", "Message": "x", "MessageAttributes": attribute}
    batch = {"TopicArn": TOPIC, "PublishBatchRequestEntries": [entry]}
    assert refusal(sns.publish_batch, **batch) == expected


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"TopicArn": TOPIC, "Message": "x" * 262_145}, "Invalid parameter: Message too long"),
        (
            {
                "TopicArn": TOPIC,
                "Message": "x" * 262_144,
                "MessageAttributes": {"k": TEXT},
            },
            "Invalid parameter: Message too long",
        ),
        (
            {"TopicArn": FIFO, "Message": "x"},
            "Invalid parameter: The MessageGroupId parameter is required for FIFO topics",
        ),
        ({"TopicArn": FIFO, "Message": "x", "MessageGroupId": "g"}, NO_DEDUPLICATION),
        (
            {"TopicArn": TOPIC, "Message": "x", "MessageDeduplicationId": "d"},
            (
                "Invalid parameter: MessageDeduplicationId Reason: The request includes MessageDeduplicationId"
                " parameter that is not valid for this topic type"
            ),
        ),
        (
            {"PhoneNumber": "+1a234", "Message": "x"},
            "Invalid parameter: PhoneNumber Reason: +1a234 is not valid to publish to",
        ),
        (
            {"TopicArn": TOPIC.replace("us-east-1", "us-west-2"), "Message": "x"},
            "Invalid parameter: TopicArn",
        ),
    ],
)
def test_messages(cloud: InProcessCloud, params: dict[str, Any], message: str) -> None:
    assert refusal(cloud.client("sns").publish, **params) == ("InvalidParameter", message)


@pytest.mark.parametrize(
    ("topic", "entries", "code", "message"),
    [
        (
            FIFO,
            [{"Id": "1", "Message": "x", "MessageGroupId": "g"}],
            "InvalidParameter",
            NO_DEDUPLICATION,
        ),
        (
            TOPIC,
            [{"Id": "1", "Message": '{"a": "b"}', "MessageStructure": "json"}],
            "InvalidParameter",
            NO_DEFAULT,
        ),
        (
            TOPIC,
            [{"Id": str(n), "Message": "x" * 200_000} for n in range(2)],
            "BatchRequestTooLong",
            "The length of all the messages put together is more than the limit.",
        ),
    ],
)
def test_batches(
    cloud: InProcessCloud, topic: str, entries: list[Any], code: str, message: str
) -> None:
    batch = {"TopicArn": topic, "PublishBatchRequestEntries": entries}
    assert refusal(cloud.client("sns").publish_batch, **batch) == (code, message)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FakeAttr", "x", "AttributeName"),
        (
            "RawMessageDelivery",
            "yes",
            "RawMessageDelivery: Invalid value [yes]. Must be true or false.",
        ),
        ("RawMessageDelivery", "", "RawMessageDelivery: Invalid value []. Must be true or false."),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn": "fake"}',
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        ("RedrivePolicy", "{no json}", "RedrivePolicy: failed to parse JSON."),
        ("FilterPolicy", "{no json}", "FilterPolicy: failed to parse JSON."),
    ],
)
def test_attributes_of_a_subscription(
    cloud: InProcessCloud, name: str, value: str, message: str
) -> None:
    sns = cloud.client("sns")
    arn = sns.list_subscriptions_by_topic(TopicArn=TOPIC)["Subscriptions"][0]["SubscriptionArn"]
    code, text = refusal(
        sns.set_subscription_attributes,
        SubscriptionArn=arn,
        AttributeName=name,
        AttributeValue=value,
    )
    assert code == "InvalidParameter"
    assert text.startswith(f"Invalid parameter: {message}")


def test_subscriptions(cloud: InProcessCloud) -> None:
    sns, sqs = cloud.client("sns"), cloud.client("sqs")
    queue = {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": f"{Q}q"}
    assert refusal(sns.subscribe, **queue, Attributes={"RawMessageDelivery": "true"}) == (
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: Subscription already exists with different attributes",
    )
    assert refusal(sns.subscribe, **queue, Attributes={"RawMessageDelivery": "no"})[1] == (
        "Invalid parameter: Attributes Reason: RawMessageDelivery: Invalid value [no]. Must be true or false."
    )
    sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})
    ordered = sns.subscribe(TopicArn=FIFO, Protocol="sqs", Endpoint=f"{Q}q.fifo")["SubscriptionArn"]
    assert refusal(
        sns.set_subscription_attributes,
        SubscriptionArn=ordered,
        AttributeName="RedrivePolicy",
        AttributeValue=json.dumps({"deadLetterTargetArn": f"{Q}q"}),
    )[1] == (
        "Invalid parameter: RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."
    )
    for arn, message in (
        ("text", "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"),
        (TOPIC, "SubscriptionId"),
        ("", "SubscriptionArn Reason: no value for required parameter"),
    ):
        assert refusal(sns.unsubscribe, SubscriptionArn=arn)[1] == f"Invalid parameter: {message}"
    assert refusal(sns.confirm_subscription, TopicArn=TOPIC, Token="text")[1] == "Invalid token"


def test_topics_of_another_region(cloud: InProcessCloud) -> None:
    sns = cloud.client("sns")
    arn = TOPIC.replace("us-east-1", "us-west-2")
    for call in (sns.get_topic_attributes, sns.list_subscriptions_by_topic, sns.delete_topic):
        assert refusal(call, TopicArn=arn) == ("InvalidParameter", "Invalid parameter: TopicArn")


def test_an_archive_policy_is_refused_by_name(cloud: InProcessCloud) -> None:
    sns, policy = cloud.client("sns"), json.dumps({"MessageRetentionPeriod": "30"})
    fifo = {"FifoTopic": "true", "ArchivePolicy": policy}
    code, message = refusal(sns.create_topic, Name="archived.fifo", Attributes=fifo)
    assert code == "NotImplemented"
    assert message.startswith("headrace does not archive the messages of FIFO topics")
    to = {"TopicArn": FIFO, "AttributeName": "ArchivePolicy"}
    assert refusal(sns.set_topic_attributes, **to, AttributeValue=policy)[1] == message
    sns.set_topic_attributes(**to, AttributeValue="{}")


def test_a_replay_policy_is_refused_by_name(cloud: InProcessCloud) -> None:
    sns = cloud.client("sns")
    cloud.client("sqs").create_queue(QueueName="replayed.fifo", Attributes={"FifoQueue": "true"})
    to = {"TopicArn": FIFO, "Protocol": "sqs", "Endpoint": f"{Q}replayed.fifo"}
    policy = json.dumps({"PointType": "Timestamp", "StartingPoint": "2026-01-01T00:00:00.000Z"})
    code, message = refusal(sns.subscribe, **to, Attributes={"ReplayPolicy": policy})
    assert code == "NotImplemented"
    assert message.startswith("headrace does not archive the messages of FIFO topics")
    arn = sns.subscribe(**to)["SubscriptionArn"]
    change = {"AttributeName": "ReplayPolicy", "AttributeValue": policy}
    assert refusal(sns.set_subscription_attributes, SubscriptionArn=arn, **change)[1] == message
