"""The requests that moto and its twin are both asked, drawn at random."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.support.policies import PERMIT_TEXT
from tests.unit.moto.reference_model import (
    KEYS,
    Twin,
    receive,
    url,
)

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
