"""What services send to for their resources: targets' own policies, and the roles of Firehose's destinations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.iam.test_services import BUCKET, until
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, make_role, refusal, statements


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("targets"), iam="enforce") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


def queue_of(cloud: InProcessCloud, name: str, *policy: dict[str, Any]) -> tuple[str, str]:
    """Make a queue with a policy, or set its policy; return its URL and ARN."""
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    if policy:
        text = json.dumps(statements(*policy))
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": text})
    return url, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def lets(service: str, action: str, resource: str, **condition: Any) -> dict[str, Any]:
    return {**allow(action, resource), "Principal": {"Service": service}, "Condition": condition}


def bodies(cloud: InProcessCloud, url: str) -> list[str]:
    found = cloud.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in found.get("Messages", ())]


def test_a_bucket_tells_only_queues_that_let_s3_send(cloud: InProcessCloud):
    url, arn = queue_of(cloud, "told")
    s3 = cloud.client("s3")
    configuration = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    put = s3.put_bucket_notification_configuration
    code, status, sentence = refusal(put, Bucket="lake", NotificationConfiguration=configuration)
    # Observed by many users (aws-cli#8162 has the second sentence).
    assert (code, status) == ("InvalidArgument", 400)
    assert sentence == "Unable to validate the following destination configurations"
    with pytest.raises(ClientError) as error:
        put(Bucket="lake", NotificationConfiguration=configuration)
    assert error.value.response["Error"]["ArgumentValue1"] == (  # type: ignore[typeddict-item]
        "Permissions on the destination queue do not allow S3 to publish notifications from this bucket"
    )
    other = {"aws:SourceArn": "arn:aws:s3:::other"}
    queue_of(cloud, "told", lets("s3.amazonaws.com", "sqs:SendMessage", arn, ArnLike=other))
    assert refusal(put, Bucket="lake", NotificationConfiguration=configuration)[0] == code
    mine = {"aws:SourceArn": BUCKET}, {"aws:SourceAccount": ACCOUNT}
    policy = lets("s3.amazonaws.com", "sqs:SendMessage", arn, ArnLike=mine[0], StringEquals=mine[1])
    queue_of(cloud, "told", policy)
    put(Bucket="lake", NotificationConfiguration=configuration)
    assert "s3:TestEvent" in bodies(cloud, url)[0]
    s3.put_object(Bucket="lake", Key="seen", Body=b"")
    assert "seen" in until(lambda: bodies(cloud, url))[0]
    # Whose policy changes afterwards is told no more.
    queue_of(cloud, "told", lets("sns.amazonaws.com", "sqs:SendMessage", arn))
    s3.put_object(Bucket="lake", Key="unseen", Body=b"")
    cloud.cloud.s3.notifications.step()
    put(Bucket="lake", NotificationConfiguration={})
    queue_of(cloud, "told", policy)
    assert bodies(cloud, url) == []


def test_a_topic_reaches_only_queues_that_let_it_send(cloud: InProcessCloud):
    url, arn = queue_of(cloud, "subscribed")
    dead_url, dead_arn = queue_of(cloud, "undelivered")
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="news")["TopicArn"]
    redrive = json.dumps({"deadLetterTargetArn": dead_arn})
    sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RedrivePolicy": redrive}
    )
    sns.publish(TopicArn=topic, Message="one")
    assert bodies(cloud, url) == []
    assert "one" in bodies(cloud, dead_url)[0]
    condition = {"ArnEquals": {"aws:SourceArn": topic}}
    queue_of(cloud, "subscribed", lets("sns.amazonaws.com", "sqs:SendMessage", arn, **condition))
    sns.publish(TopicArn=topic, Message="two")
    assert "two" in bodies(cloud, url)[0]


def test_a_rule_reaches_only_queues_that_let_it_send(cloud: InProcessCloud):
    url, arn = queue_of(cloud, "ruled")
    dead_url, dead_arn = queue_of(cloud, "unruled")
    events = cloud.client("events")
    pattern = json.dumps({"source": ["me"]})
    rule = events.put_rule(Name="mine", EventPattern=pattern)["RuleArn"]
    target = {"Id": "q", "Arn": arn, "DeadLetterConfig": {"Arn": dead_arn}}
    events.put_targets(Rule="mine", Targets=[target])
    entry = {"Source": "me", "DetailType": "d", "Detail": "{}"}
    events.put_events(Entries=[entry])
    assert '"source":"me"' in until(lambda: bodies(cloud, dead_url))[0].replace(" ", "")
    assert bodies(cloud, url) == []
    condition = {"ArnEquals": {"aws:SourceArn": rule}}
    queue_of(cloud, "ruled", lets("events.amazonaws.com", "sqs:SendMessage", arn, **condition))
    events.put_events(Entries=[entry])
    assert until(lambda: bodies(cloud, url))


def test_a_delivery_to_http_reads_its_secret_with_its_role(cloud: InProcessCloud):
    secrets = cloud.client("secretsmanager")
    secret = secrets.create_secret(Name="key", SecretString='{"api_key":"k"}')["ARN"]
    role = make_role(
        cloud, "posts", allow("s3:PutObject", f"{BUCKET}/*"), trusts="firehose.amazonaws.com"
    )
    firehose = cloud.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="posts",
        HttpEndpointDestinationConfiguration={
            "EndpointConfiguration": {"Url": "http://127.0.0.1:1/"},
            "SecretsManagerConfiguration": {"Enabled": True, "SecretARN": secret},
            "RoleARN": role,
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "RetryOptions": {"DurationInSeconds": 0},
            "S3Configuration": {
                "RoleARN": role,
                "BucketARN": BUCKET,
                "ErrorOutputPrefix": "posts/",
            },
        },
    )
    firehose.put_record(DeliveryStreamName="posts", Record={"Data": b"1"})
    s3 = cloud.client("s3")

    def failed() -> Any:
        return s3.list_objects_v2(Bucket="lake", Prefix="posts/").get("Contents")

    key = until(failed)[0]["Key"]
    line = json.loads(s3.get_object(Bucket="lake", Key=key)["Body"].read().splitlines()[0])
    assert line["errorCode"] == "HttpEndpoint.SecretsManagerFailure"
    assert "secretsmanager:GetSecretValue" in line["errorMessage"]
    firehose.delete_delivery_stream(DeliveryStreamName="posts")


def test_a_delivery_to_a_domain_writes_with_its_role(cloud: InProcessCloud):
    role = make_role(
        cloud, "indexes", allow("s3:PutObject", f"{BUCKET}/*"), trusts="firehose.amazonaws.com"
    )
    domain = f"arn:aws:es:{REGION}:{ACCOUNT}:domain/flights"
    firehose = cloud.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="indexes",
        AmazonopensearchserviceDestinationConfiguration={
            "RoleARN": role,
            "DomainARN": domain,
            "IndexName": "i",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "RetryOptions": {"DurationInSeconds": 0},
            "S3Configuration": {"RoleARN": role, "BucketARN": BUCKET, "ErrorOutputPrefix": "es/"},
        },
    )
    firehose.put_record(DeliveryStreamName="indexes", Record={"Data": b"{}"})
    s3 = cloud.client("s3")
    key = until(lambda: s3.list_objects_v2(Bucket="lake", Prefix="es/").get("Contents"))[0]["Key"]
    text = s3.get_object(Bucket="lake", Key=key)["Body"].read().decode()
    assert "OS.AccessDenied" in text
    assert "es:ESHttpPost" in text
    firehose.delete_delivery_stream(DeliveryStreamName="indexes")
