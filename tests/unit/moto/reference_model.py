"""Random requests to moto's services, made of two labs in the same way: one is killed now and then, the other never."""

from __future__ import annotations

import datetime
import io
import json
import re
from typing import Any

from botocore.exceptions import ClientError

from tests.support.moto_lab import MotoLab
from tests.support.policies import TRUST_TEXT

# What differs from run to run: read from the machine's clock, or made of its randomness; the numbers of FIFO queues'
# messages, which go on higher after a kill.
UNSTABLE = re.compile(
    r"(Date|Time|Timestamp|Modified|LastUsed|Expiration|SessionToken|ReceiptHandle|Ciphertext|Created"
    r"|Signature|SequenceNumber|SigningCertURL|creationTime|createdAt|RestorableDateTime|NextShardIterator|storedBytes"
    r"|StreamLabel|StreamArn|ShardIterator|LastUpdated|IngestionTime|ingestionTime|eventId|EventId|date|KeyMaterialId)",
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


def receive(twin: Twin, queue: str, count: int) -> Any:
    return twin.ask(
        "sqs",
        "receive_message",
        QueueUrl=url(queue),
        MaxNumberOfMessages=count,
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
    )


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
