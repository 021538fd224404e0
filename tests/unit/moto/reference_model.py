"""Random requests to moto's services, made of two labs in the same way: one is killed now and then, the other never."""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from hypothesis import strategies as st

from tests.support.moto_lab import MotoLab
from tests.support.policies import PERMIT_TEXT, TRUST_TEXT

# What differs from run to run: read from the machine's clock, or made of its randomness; the numbers of FIFO queues'
# messages, which go on higher after a kill.
UNSTABLE = re.compile(
    r"(Date|Time|Timestamp|Modified|LastUsed|Expiration|SessionToken|ReceiptHandle|Ciphertext|Created"
    r"|Signature|SequenceNumber|SigningCertURL|creationTime|createdAt|RestorableDateTime|NextShardIterator|storedBytes"
    r"|StreamLabel|StreamArn|ShardIterator|LastUpdated|IngestionTime|ingestionTime|eventId|EventId|date)",
)
KEYS = ["a", "b", "c"]


def stable(value: Any) -> Any:
    """Return an answer without what is of its run only."""
    if isinstance(value, dict):
        return {
            k: stable(v)
            for k, v in value.items()
            if not UNSTABLE.search(k) and k != "ResponseMetadata"
        }
    if isinstance(value, list | tuple):
        return [stable(each) for each in value]
    if isinstance(value, datetime.datetime):
        return "a time"
    if isinstance(value, io.IOBase) or hasattr(value, "read"):
        return value.read()
    if isinstance(value, str) and value.startswith("{"):
        try:
            return stable(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, str):
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\d{14}-[0-9a-f]{8}", "T", value)
    return value


class Twin:
    """A lab and what its requests have handed out."""

    def __init__(self, lab: MotoLab) -> None:
        self.lab = lab
        self.handles: list[tuple[str, str]] = []
        self.secrets: list[bytes] = []
        self.backups: list[str] = []
        for ask in (make_tables, make_queues, make_the_rest):
            ask(self)

    def ask(self, service: str, operation: str, **params: Any) -> Any:
        """Return the answer, or the error's code, without what is unstable."""
        client = self.lab.client(service)
        try:
            answer = getattr(client, operation)(**params)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise
            details = error.response["Error"]
            return [details["Code"], stable(details.get("Message", ""))]
        self.note(service, operation, params, answer)
        return stable(answer)

    def note(self, service: str, operation: str, params: dict[str, Any], answer: Any) -> None:
        """Keep what later requests need of an answer."""
        for message in answer.get("Messages", ()) if operation == "receive_message" else ():
            self.handles.append((params["QueueUrl"], message["ReceiptHandle"]))
        if operation == "encrypt":
            self.secrets.append(answer["CiphertextBlob"])
        if operation == "create_backup":
            self.backups.append(answer["BackupDetails"]["BackupArn"])


# --- what there is at first -----------------------------------------------------------------------


def make_tables(twin: Twin) -> None:
    """Make a table with a hash key, and one with a range key of numbers, an index and a stream."""
    twin.ask(
        "dynamodb",
        "create_table",
        TableName="h",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )
    twin.ask(
        "dynamodb",
        "create_table",
        TableName="r",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "k", "KeyType": "HASH"},
            {"AttributeName": "n", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "k", "AttributeType": "S"},
            {"AttributeName": "n", "AttributeType": "N"},
            {"AttributeName": "g", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "i",
                "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def url(name: str) -> str:
    """Return a queue's URL."""
    return f"http://127.0.0.1:4566/000000000000/{name}"


def make_queues(twin: Twin) -> None:
    """Make a queue with a dead-letter queue, a FIFO queue, and a topic and a rule that send to the first."""
    sqs, queue = "sqs", "arn:aws:sqs:us-east-1:000000000000:q"
    twin.ask(sqs, "create_queue", QueueName="dead")
    redrive = {
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead",
        "maxReceiveCount": 2,
    }
    twin.ask(
        sqs,
        "create_queue",
        QueueName="q",
        tags={"t": "1"},
        Attributes={"RedrivePolicy": json.dumps(redrive), "VisibilityTimeout": "10"},
    )
    twin.ask(sqs, "create_queue", QueueName="f.fifo", Attributes={"FifoQueue": "true"})
    twin.ask("sns", "create_topic", Name="t")
    twin.ask(
        "sns",
        "subscribe",
        TopicArn="arn:aws:sns:us-east-1:000000000000:t",
        Protocol="sqs",
        Endpoint=queue,
        Attributes={"RawMessageDelivery": "true"},
    )
    twin.ask("events", "put_rule", Name="rule", EventPattern='{"source":["s"]}')
    twin.ask(
        "events",
        "put_targets",
        Rule="rule",
        Targets=[{"Id": "1", "Arn": queue, "InputPath": "$.detail"}],
    )
    twin.ask(
        "events",
        "create_archive",
        ArchiveName="arc",
        EventSourceArn="arn:aws:events:us-east-1:000000000000:event-bus/default",
    )


def make_the_rest(twin: Twin) -> None:
    """Make a key, a role, a database and a log group."""
    twin.ask(
        "kms",
        "create_alias",
        AliasName="alias/k",
        TargetKeyId=twin.lab.client("kms").create_key()["KeyMetadata"]["KeyId"],
    )
    twin.ask("iam", "create_role", RoleName="role", AssumeRolePolicyDocument=TRUST_TEXT)
    twin.ask("glue", "create_database", DatabaseInput={"Name": "d"})
    twin.ask(
        "glue",
        "create_table",
        DatabaseName="d",
        TableInput={"Name": "t", "PartitionKeys": [{"Name": "p", "Type": "string"}]},
    )
    twin.ask("logs", "create_log_group", logGroupName="g")


# --- requests -------------------------------------------------------------------------------------

Ask = Callable[[Twin], Any]
text = st.sampled_from(["x", "y", "zz"])
key = st.sampled_from(KEYS)
number = st.sampled_from(["1", "2", "1.0", "-3"])
few = st.integers(0, 3)


def asks(service: str, operation: str, **strategies: Any) -> st.SearchStrategy[Ask]:
    """Return a strategy of requests whose parameters are drawn."""
    drawn = st.fixed_dictionaries(
        {k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in strategies.items()}
    )
    return drawn.map(lambda params: lambda twin: twin.ask(service, operation, **params))


def item(k: str, v: Any) -> dict[str, Any]:
    return {"k": {"S": k}, "v": v}


values = st.one_of(
    text.map(lambda v: {"S": v}),
    number.map(lambda v: {"N": v}),
    st.just({"B": b"\x00b"}),
    st.just({"SS": ["p", "q"]}),
    st.just({"BOOL": True}),
    st.just({"NULL": True}),
    text.map(lambda v: {"M": {"in": {"L": [{"S": v}, {"N": "7"}]}}}),
)
items = st.builds(item, key, values)
ranged = st.builds(
    lambda k, n, v, g: {**item(k, v), "n": {"N": n}, **({"g": {"S": g}} if g else {})},
    key,
    number,
    values,
    st.sampled_from(["", "g1", "g2"]),
)

TABLES = st.one_of(
    asks("dynamodb", "put_item", TableName="h", Item=items, ReturnValues="ALL_OLD"),
    asks(
        "dynamodb",
        "put_item",
        TableName="h",
        Item=items,
        Expected=st.just({"k": {"Exists": False}}),
    ),
    asks("dynamodb", "put_item", TableName="r", Item=ranged),
    asks("dynamodb", "delete_item", TableName="h", Key=key.map(lambda k: {"k": {"S": k}})),
    asks(
        "dynamodb",
        "delete_item",
        TableName="r",
        Key=st.builds(lambda k, n: {"k": {"S": k}, "n": {"N": n}}, key, number),
    ),
    asks(
        "dynamodb",
        "update_item",
        TableName="h",
        Key=key.map(lambda k: {"k": {"S": k}}),
        ReturnValues="ALL_NEW",
        UpdateExpression=st.sampled_from(
            ["SET c = if_not_exists(c, :z) + :o", "REMOVE v", "ADD c :o", "SET v.x = :o"]
        ),
        ExpressionAttributeValues=st.just({":z": {"N": "0"}, ":o": {"N": "1"}}),
    ),
    asks(
        "dynamodb",
        "update_item",
        TableName="h",
        Key=key.map(lambda k: {"k": {"S": k}}),
        AttributeUpdates=text.map(
            lambda v: {
                "v": {"Value": {"S": v}, "Action": "PUT"},
                "n": {"Value": {"N": "1"}, "Action": "ADD"},
            }
        ),
        Expected=text.map(lambda v: {"v": {"Value": {"S": v}}}),
    ),
    asks(
        "dynamodb",
        "batch_write_item",
        RequestItems=st.builds(
            lambda one, other: {
                "h": [{"PutRequest": {"Item": one}}],
                "r": [{"PutRequest": {"Item": other}}],
            },
            items,
            ranged,
        ),
    ),
    asks(
        "dynamodb",
        "transact_write_items",
        TransactItems=st.builds(
            lambda one, k, v: [
                {"Put": {"TableName": "r", "Item": one}},
                {
                    "Update": {
                        "TableName": "h",
                        "Key": {"k": {"S": k}},
                        "UpdateExpression": "SET v = :v",
                        "ConditionExpression": "attribute_exists(k)",
                        "ExpressionAttributeValues": {":v": v},
                    }
                },
            ],
            ranged,
            key,
            values,
        ),
    ),
    asks(
        "dynamodb",
        "execute_statement",
        Statement=st.builds(lambda k, v: f"UPDATE \"h\" SET v='{v}' WHERE k='{k}'", key, text),
    ),
    asks(
        "dynamodb",
        "update_time_to_live",
        TableName="h",
        TimeToLiveSpecification=st.just({"Enabled": True, "AttributeName": "ttl"}),
    ),
    asks("dynamodb", "create_backup", TableName="r", BackupName=text),
    asks(
        "dynamodb",
        "update_continuous_backups",
        TableName="r",
        PointInTimeRecoverySpecification=st.just({"PointInTimeRecoveryEnabled": True}),
    ),
    asks(
        "dynamodb",
        "restore_table_to_point_in_time",
        SourceTableName="r",
        TargetTableName=st.sampled_from(["r2", "r3"]),
    ),
    asks("dynamodb", "delete_table", TableName=st.sampled_from(["r2", "r3"])),
    few.map(
        lambda n: (
            lambda twin: (
                twin.backups
                and twin.ask(
                    "dynamodb",
                    "restore_table_from_backup",
                    TargetTableName=f"b{n}",
                    BackupArn=twin.backups[-1],
                )
            )
        )
    ),
)


def receive(twin: Twin, queue: str, count: int) -> Any:
    return twin.ask(
        "sqs",
        "receive_message",
        QueueUrl=url(queue),
        MaxNumberOfMessages=count,
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
    )


def with_handle(operation: str, which: int, **params: Any) -> Ask:
    def ask(twin: Twin) -> Any:
        if not twin.handles:
            return None
        queue, handle = twin.handles[which % len(twin.handles)]
        return twin.ask("sqs", operation, QueueUrl=queue, ReceiptHandle=handle, **params)

    return ask


QUEUES = st.one_of(
    asks(
        "sqs",
        "send_message",
        QueueUrl=url("q"),
        MessageBody=text,
        DelaySeconds=st.sampled_from([0, 0, 5]),
    ),
    asks(
        "sqs",
        "send_message",
        QueueUrl=url("q"),
        MessageBody=text,
        MessageAttributes=st.just(
            {
                "b": {"DataType": "Binary", "BinaryValue": b"\x01"},
                "n": {"DataType": "Number", "StringValue": "1"},
            }
        ),
    ),
    asks(
        "sqs",
        "send_message",
        QueueUrl=url("f.fifo"),
        MessageBody=text,
        MessageGroupId=key,
        MessageDeduplicationId=text,
    ),
    asks(
        "sqs",
        "send_message_batch",
        QueueUrl=url("q"),
        Entries=text.map(
            lambda v: [{"Id": "1", "MessageBody": v}, {"Id": "2", "MessageBody": v * 2}]
        ),
    ),
    st.builds(
        lambda queue, count: lambda twin: receive(twin, queue, count),
        st.sampled_from(["q", "q", "f.fifo", "dead"]),
        st.integers(1, 3),
    ),
    st.builds(with_handle, st.just("delete_message"), few),
    st.builds(
        lambda which, s: with_handle("change_message_visibility", which, VisibilityTimeout=s),
        few,
        st.sampled_from([0, 3, 30]),
    ),
    asks("sqs", "purge_queue", QueueUrl=url("dead")),
    asks(
        "sqs",
        "set_queue_attributes",
        QueueUrl=url("q"),
        Attributes=st.sampled_from([{"DelaySeconds": "2"}, {"VisibilityTimeout": "7"}]),
    ),
    asks("sqs", "create_queue", QueueName=st.sampled_from(["n1", "n2"])),
    asks("sqs", "delete_queue", QueueUrl=st.sampled_from([url("n1"), url("n2")])),
    asks("sns", "publish", TopicArn="arn:aws:sns:us-east-1:000000000000:t", Message=text),
    asks(
        "events",
        "put_events",
        Entries=text.map(
            lambda v: [{"Source": "s", "DetailType": "d", "Detail": json.dumps({"v": v})}]
        ),
    ),
    st.sampled_from([1.0, 6.0, 400.0]).map(lambda s: lambda twin: twin.lab.clock.advance(s)),
)

REST = st.one_of(
    asks(
        "ssm",
        "put_parameter",
        Name=st.sampled_from(["/p/a", "/p/b", "/c", "plain"]),
        Value=text,
        Type="String",
        Overwrite=True,
    ),
    asks("ssm", "delete_parameter", Name=st.sampled_from(["/p/a", "/p/b", "/c", "plain"])),
    asks(
        "ssm",
        "add_tags_to_resource",
        ResourceType="Parameter",
        ResourceId="/p/a",
        Tags=st.just([{"Key": "t", "Value": "1"}]),
    ),
    asks(
        "glue",
        "create_partition",
        DatabaseName="d",
        TableName="t",
        PartitionInput=key.map(lambda k: {"Values": [k]}),
    ),
    asks(
        "glue",
        "delete_partition",
        DatabaseName="d",
        TableName="t",
        PartitionValues=key.map(lambda k: [k]),
    ),
    asks(
        "glue",
        "update_table",
        DatabaseName="d",
        TableInput=text.map(lambda v: {"Name": "t", "Description": v}),
    ),
    asks("kms", "encrypt", KeyId="alias/k", Plaintext=b"secret"),
    asks("kms", "describe_key", KeyId="alias/aws/s3"),
    asks(
        "iam",
        "attach_role_policy",
        RoleName="role",
        PolicyArn=st.sampled_from(
            [
                "arn:aws:iam::aws:policy/AdministratorAccess",
                "arn:aws:iam::aws:policy/ReadOnlyAccess",
            ]
        ),
    ),
    asks(
        "iam",
        "detach_role_policy",
        RoleName="role",
        PolicyArn="arn:aws:iam::aws:policy/ReadOnlyAccess",
    ),
    asks("iam", "put_role_policy", RoleName="role", PolicyName=key, PolicyDocument=PERMIT_TEXT),
    asks("iam", "create_user", UserName=key),
    asks("iam", "create_access_key", UserName="a"),
    asks("sts", "assume_role", RoleArn="arn:aws:iam::000000000000:role/role", RoleSessionName=text),
    asks("logs", "create_log_stream", logGroupName="g", logStreamName=key),
    asks("logs", "delete_log_stream", logGroupName="g", logStreamName=key),
    asks("logs", "put_retention_policy", logGroupName="g", retentionInDays=7),
    asks("sns", "create_topic", Name=text),
    asks("events", "put_rule", Name=key, EventPattern='{"source":["none"]}'),
    asks("events", "delete_rule", Name=key),
    asks(
        "secretsmanager",
        "create_secret",
        Name=key,
        SecretString=text,
        ClientRequestToken=text.map(lambda v: v * 36),
    ),
    asks(
        "secretsmanager",
        "put_secret_value",
        SecretId=key,
        SecretString=text,
        ClientRequestToken=text.map(lambda v: v * 36),
    ),
    asks("ecr", "create_repository", repositoryName=key),
    asks(
        "cloudwatch",
        "put_metric_alarm",
        AlarmName=key,
        MetricName="m",
        Namespace="n",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
    ),
)

REQUESTS = st.one_of(TABLES, QUEUES, REST)


def readable(twin: Twin) -> dict[str, Any]:
    """Return all that can be asked of what there is."""
    ask, found = twin.ask, dict[str, Any]()
    for name in ask("dynamodb", "list_tables")["TableNames"]:
        found[f"table {name}"] = ask("dynamodb", "describe_table", TableName=name)
        found[f"items {name}"] = ask("dynamodb", "scan", TableName=name)
        found[f"ttl {name}"] = ask("dynamodb", "describe_time_to_live", TableName=name)
        found[f"pitr {name}"] = ask("dynamodb", "describe_continuous_backups", TableName=name)
    found["index"] = ask(
        "dynamodb",
        "query",
        TableName="r",
        IndexName="i",
        KeyConditionExpression="g = :g",
        ExpressionAttributeValues={":g": {"S": "g1"}},
    )
    found["backups"] = ask("dynamodb", "list_backups")
    found["stream"] = stream_records(twin)
    for queue in twin.lab.client("sqs").list_queues()["QueueUrls"]:
        found[queue] = ask("sqs", "get_queue_attributes", QueueUrl=queue, AttributeNames=["All"])
        found[f"tags {queue}"] = ask("sqs", "list_queue_tags", QueueUrl=queue)
    for service, operation, params in (
        ("ssm", "describe_parameters", {}),
        ("ssm", "list_tags_for_resource", {"ResourceType": "Parameter", "ResourceId": "/p/a"}),
        *(
            ("ssm", "get_parameter_history", {"Name": name})
            for name in ("/p/a", "/p/b", "/c", "plain")
        ),
        ("glue", "get_table", {"DatabaseName": "d", "Name": "t"}),
        ("glue", "get_partitions", {"DatabaseName": "d", "TableName": "t"}),
        ("glue", "get_table_versions", {"DatabaseName": "d", "TableName": "t"}),
        ("kms", "list_keys", {}),
        ("kms", "list_aliases", {}),
        ("kms", "describe_key", {"KeyId": "alias/k"}),
        ("iam", "list_roles", {}),
        ("iam", "list_attached_role_policies", {"RoleName": "role"}),
        ("iam", "list_role_policies", {"RoleName": "role"}),
        ("iam", "list_users", {}),
        ("iam", "list_access_keys", {"UserName": "a"}),
        ("logs", "describe_log_groups", {}),
        ("logs", "describe_log_streams", {"logGroupName": "g"}),
        ("sns", "list_topics", {}),
        ("sns", "list_subscriptions", {}),
        ("events", "list_rules", {}),
        ("events", "describe_archive", {"ArchiveName": "arc"}),
        ("events", "list_targets_by_rule", {"Rule": "rule"}),
        ("secretsmanager", "list_secrets", {}),
        *(("secretsmanager", "get_secret_value", {"SecretId": k}) for k in KEYS),
        ("ecr", "describe_repositories", {}),
        ("cloudwatch", "describe_alarms", {}),
    ):
        found[f"{service} {operation} {params}"] = ask(service, operation, **params)
    found["secrets"] = [ask("kms", "decrypt", CiphertextBlob=blob) for blob in twin.secrets]
    # Last: it changes what it reads.
    for queue in ("q", "f.fifo", "dead"):
        found[f"messages {queue}"] = [receive(twin, queue, 10) for _ in range(3)]
    return found


def stream_records(twin: Twin) -> Any:
    """Return the records of the stream of table `r`."""
    streams = twin.lab.client("dynamodbstreams")
    arn = twin.lab.client("dynamodb").describe_table(TableName="r")["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return stable(streams.get_records(ShardIterator=iterator)["Records"])
