"""What services send to for their resources: targets' own policies, and the roles of Firehose's destinations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.permissions.decisions.report import report_of
from tests.api.iam.test_services import BUCKET, make_function, put_policy
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, make_role, refusal, statements
from tests.support.server import wait_until


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


def dead_letters_of(cloud: InProcessCloud, name: str, service: str) -> tuple[str, str]:
    """Make a queue that takes what a service could not deliver; return its URL and ARN."""
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    return queue_of(cloud, name, lets(f"{service}.amazonaws.com", "sqs:SendMessage", arn))


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
    assert "seen" in wait_until(lambda: bodies(cloud, url))[0]
    # Whose policy changes afterwards is told no more.
    queue_of(cloud, "told", lets("sns.amazonaws.com", "sqs:SendMessage", arn))
    s3.put_object(Bucket="lake", Key="unseen", Body=b"")
    cloud.cloud.s3.notifications.step()
    put(Bucket="lake", NotificationConfiguration={})
    queue_of(cloud, "told", policy)
    assert bodies(cloud, url) == []


def test_a_topic_reaches_only_queues_that_let_it_send(cloud: InProcessCloud):
    url, arn = queue_of(cloud, "subscribed")
    dead_url, dead_arn = dead_letters_of(cloud, "undelivered", "sns")
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
    dead_url, dead_arn = dead_letters_of(cloud, "unruled", "events")
    events = cloud.client("events")
    pattern = json.dumps({"source": ["me"]})
    rule = events.put_rule(Name="mine", EventPattern=pattern)["RuleArn"]
    target = {"Id": "q", "Arn": arn, "DeadLetterConfig": {"Arn": dead_arn}}
    events.put_targets(Rule="mine", Targets=[target])
    entry = {"Source": "me", "DetailType": "d", "Detail": "{}"}
    events.put_events(Entries=[entry])
    assert '"source":"me"' in wait_until(lambda: bodies(cloud, dead_url))[0].replace(" ", "")
    assert bodies(cloud, url) == []
    condition = {"ArnEquals": {"aws:SourceArn": rule}}
    queue_of(cloud, "ruled", lets("events.amazonaws.com", "sqs:SendMessage", arn, **condition))
    events.put_events(Entries=[entry])
    assert wait_until(lambda: bodies(cloud, url))


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

    key = wait_until(failed)[0]["Key"]
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
    make: dict[str, Any] = {
        "DeliveryStreamName": "indexes",
        "AmazonopensearchserviceDestinationConfiguration": {
            "RoleARN": role,
            "DomainARN": domain,
            "IndexName": "i",
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
            "RetryOptions": {"DurationInSeconds": 0},
            "S3Configuration": {"RoleARN": role, "BucketARN": BUCKET, "ErrorOutputPrefix": "es/"},
        },
    }
    # Observed by users of AWS; that a domain that is not there is refused so, too, is assumed.
    sentence = f"Verify that the IAM role has access to the Elasticsearch domain: {domain}"
    expected = "InvalidArgumentException", 400, sentence
    assert refusal(firehose.create_delivery_stream, **make) == expected
    cloud.client("opensearch").create_domain(DomainName="flights")
    assert refusal(firehose.create_delivery_stream, **make) == expected
    seen = allow("es:DescribeElasticsearchDomain", domain)
    put_policy(cloud, "indexes", allow("s3:PutObject", f"{BUCKET}/*"), seen)
    firehose.create_delivery_stream(**make)
    firehose.put_record(DeliveryStreamName="indexes", Record={"Data": b"{}"})
    s3 = cloud.client("s3")
    key = wait_until(lambda: s3.list_objects_v2(Bucket="lake", Prefix="es/").get("Contents"))[0][
        "Key"
    ]
    text = s3.get_object(Bucket="lake", Key=key)["Body"].read().decode()
    assert "OS.AccessDenied" in text
    assert "es:ESHttpPost" in text
    firehose.delete_delivery_stream(DeliveryStreamName="indexes")


def error_lines(cloud: InProcessCloud, prefix: str) -> str:
    """Return what a delivery stream wrote below a prefix, once it has."""
    s3 = cloud.client("s3")

    def keys() -> Any:
        return s3.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents")

    found = [
        s3.get_object(Bucket="lake", Key=one["Key"])["Body"].read() for one in wait_until(keys)
    ]
    return b"".join(found).decode()


def test_a_delivery_to_a_collection_needs_its_role_to_use_collections(cloud: InProcessCloud):
    """firehose/latest/dev/controlling-access.html: aoss:APIAccessAll on the collection."""
    collection = f"arn:aws:aoss:{REGION}:{ACCOUNT}:collection/*"
    put = allow("s3:PutObject", f"{BUCKET}/*")
    role = make_role(cloud, "collects", put, trusts="firehose.amazonaws.com")
    firehose = cloud.client("firehose")
    for name in ("collects-not", "collects"):
        firehose.create_delivery_stream(
            DeliveryStreamName=name,
            AmazonOpenSearchServerlessDestinationConfiguration={
                "RoleARN": role,
                "CollectionEndpoint": f"https://{name}.{REGION}.aoss.amazonaws.com",
                "IndexName": "i",
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
                "RetryOptions": {"DurationInSeconds": 0},
                "S3Configuration": {"RoleARN": role, "BucketARN": BUCKET, "ErrorOutputPrefix": f"{name}/"},
            },
        )  # fmt: skip
    firehose.put_record(DeliveryStreamName="collects-not", Record={"Data": b"{}"})
    lines = error_lines(cloud, "collects-not/")
    assert ("AOSS.AccessDenied" in lines, "aoss:APIAccessAll" in lines) == (True, True)
    text = json.dumps(statements(put, allow("aoss:APIAccessAll", collection)))
    cloud.client("iam").put_role_policy(RoleName="collects", PolicyName="own", PolicyDocument=text)
    firehose.put_record(DeliveryStreamName="collects", Record={"Data": b"{}"})

    def found() -> Any:
        statuses = cloud.cloud.firehose.statuses()
        return [s for s in statuses if s["name"] == "collects" and not s["buffered_records"]]

    wait_until(found)
    assert "AccessDenied" not in str(found())
    for name in ("collects-not", "collects"):
        firehose.delete_delivery_stream(DeliveryStreamName=name)


def test_a_delivery_to_splunk_reads_its_token_and_backs_up_with_its_roles(cloud: InProcessCloud):
    secrets = cloud.client("secretsmanager")
    secret = secrets.create_secret(Name="hec", SecretString='{"hec_token":"t"}')["ARN"]
    put = allow("s3:PutObject", f"{BUCKET}/*")
    role = make_role(cloud, "splunks", put, trusts="firehose.amazonaws.com")
    firehose = cloud.client("firehose")

    def create(name: str) -> None:
        firehose.create_delivery_stream(
            DeliveryStreamName=name,
            SplunkDestinationConfiguration={
                "HECEndpoint": "http://127.0.0.1:1/",
                "HECEndpointType": "Raw",
                "SecretsManagerConfiguration": {"Enabled": True, "SecretARN": secret, "RoleARN": role},
                "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
                "RetryOptions": {"DurationInSeconds": 0},
                "S3Configuration": {"RoleARN": role, "BucketARN": BUCKET, "ErrorOutputPrefix": f"{name}/"},
            },
        )  # fmt: skip
        firehose.put_record(DeliveryStreamName=name, Record={"Data": b"1"})

    create("splunk-unread")
    assert "secretsmanager:GetSecretValue" in error_lines(cloud, "splunk-unread/")
    text = json.dumps(statements(put, allow("secretsmanager:GetSecretValue", secret)))
    cloud.client("iam").put_role_policy(RoleName="splunks", PolicyName="own", PolicyDocument=text)
    create("splunk-read")
    lines = error_lines(cloud, "splunk-read/")
    # Nobody listens there; the secret is no more what is wrong.
    assert ("Splunk." in lines, "secretsmanager" in lines) == (True, False)
    for name in ("splunk-unread", "splunk-read"):
        firehose.delete_delivery_stream(DeliveryStreamName=name)


MACHINE = {
    "StartAt": "Look",
    "States": {
        "Look": {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:kinesis:describeStreamSummary",
            "Parameters": {"StreamName": "told-of"},
            "End": True,
        }
    },
}


def test_a_rule_starts_a_machine_with_its_role_and_the_machine_acts_with_its_own(
    cloud: InProcessCloud,
):
    cloud.client("kinesis").create_stream(StreamName="told-of", ShardCount=1)
    stream = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/told-of"
    own = make_role(cloud, "machine", trusts="states.amazonaws.com")
    starts = make_role(cloud, "starts-machines", trusts="events.amazonaws.com")
    states, events, iam = (cloud.client(n) for n in ("stepfunctions", "events", "iam"))
    machine = states.create_state_machine(name="m", definition=json.dumps(MACHINE), roleArn=own)[
        "stateMachineArn"
    ]
    dead_url, dead_arn = dead_letters_of(cloud, "unstarted", "events")
    events.put_rule(Name="starts", EventPattern=json.dumps({"source": ["start"]}))
    target = {"Id": "m", "Arn": machine, "RoleArn": starts, "DeadLetterConfig": {"Arn": dead_arn}}
    events.put_targets(Rule="starts", Targets=[target])
    entry = {"Source": "start", "DetailType": "d", "Detail": "{}"}
    events.put_events(Entries=[entry])
    assert wait_until(lambda: bodies(cloud, dead_url))
    assert states.list_executions(stateMachineArn=machine)["executions"] == []

    def let(role: str, action: str, resource: str) -> None:
        text = json.dumps(statements(allow(action, resource)))
        iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=text)

    def ended(count: int) -> Any:
        found = states.list_executions(stateMachineArn=machine)["executions"]
        done = [e for e in found if e["status"] != "RUNNING"]
        return done if len(done) == count else None

    let("starts-machines", "states:StartExecution", machine)
    events.put_events(Entries=[entry])
    (failed,) = wait_until(lambda: ended(1))
    assert failed["status"] == "FAILED"
    cause = states.describe_execution(executionArn=failed["executionArn"])["cause"]
    assert "assumed-role/machine/" in cause
    assert "kinesis:DescribeStreamSummary" in cause
    let("machine", "kinesis:DescribeStreamSummary", stream)
    events.put_events(Entries=[entry])
    assert {e["status"] for e in wait_until(lambda: ended(2))} == {"FAILED", "SUCCEEDED"}


def test_a_mapping_of_a_table_reads_with_the_functions_role(cloud: InProcessCloud):
    made = cloud.client("dynamodb").create_table(
        TableName="flights",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    stream = made["LatestStreamArn"]
    make_function(cloud, "tabled", make_role(cloud, "tabled", allow("dynamodb:GetRecords", stream)))
    create = cloud.client("lambda").create_event_source_mapping
    settings = {"FunctionName": "tabled", "EventSourceArn": stream, "StartingPosition": "LATEST"}
    code, _, sentence = refusal(create, **settings)
    assert code == "InvalidParameterValueException"
    assert sentence.startswith(f"Cannot access stream {stream}. ")
    reads = ["dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:DescribeStream"]
    text = json.dumps(statements(allow(reads, stream)))
    cloud.client("iam").put_role_policy(RoleName="tabled", PolicyName="own", PolicyDocument=text)
    create(**settings)


def test_a_log_subscription_puts_with_its_role(cloud: InProcessCloud):
    cloud.client("kinesis").create_stream(StreamName="logged", ShardCount=1)
    stream = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/logged"
    role = make_role(cloud, "logs", trusts="logs.amazonaws.com")
    logs, kinesis = cloud.client("logs"), cloud.client("kinesis")
    logs.create_log_group(logGroupName="g")
    logs.create_log_stream(logGroupName="g", logStreamName="s")
    logs.put_subscription_filter(
        logGroupName="g", filterName="f", filterPattern="", destinationArn=stream, roleArn=role
    )

    def put() -> None:
        now_ms = cloud.cloud.clock.now_ms()
        logs.put_log_events(
            logGroupName="g", logStreamName="s", logEvents=[{"timestamp": now_ms, "message": "m"}]
        )

    put()
    wait_until(lambda: any(r["principal"].endswith("role/logs") for r in denied(cloud)))
    text = json.dumps(statements(allow("kinesis:PutRecord", stream)))
    cloud.client("iam").put_role_policy(RoleName="logs", PolicyName="own", PolicyDocument=text)
    put()
    shard_id = kinesis.list_shards(StreamName="logged")["Shards"][0]["ShardId"]
    start = {"StreamName": "logged", "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = kinesis.get_shard_iterator(**start)["ShardIterator"]
    found = wait_until(lambda: kinesis.get_records(ShardIterator=iterator)["Records"])
    assert len(found) == 1


def denied(cloud: InProcessCloud) -> list[dict[str, Any]]:
    return report_of(cloud.cloud.decisions)["denied"]
