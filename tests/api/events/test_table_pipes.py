"""Tables' changes go to streams."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.events.test_deliveries import cloud as cloud  # a fixture
from tests.api.events.test_deliveries import records, refusal, stream, table
from tests.support.cloud import REGION, InProcessCloud


def test_the_changes_of_a_table_go_into_its_kinesis_stream(cloud: InProcessCloud):
    arn = stream(cloud, "changes")
    table(cloud, "t")
    dynamodb = cloud.client("dynamodb")
    answer = dynamodb.enable_kinesis_streaming_destination(TableName="t", StreamArn=arn)
    assert (answer["DestinationStatus"], answer["StreamArn"]) == ("ENABLING", arn)
    key = {"id": {"S": "test"}}
    dynamodb.put_item(TableName="t", Item=key)
    # One that changes nothing gives no record.
    dynamodb.put_item(TableName="t", Item=key)
    dynamodb.update_item(
        TableName="t",
        Key=key,
        UpdateExpression="SET n = :n",
        ExpressionAttributeValues={":n": {"N": "1"}},
    )
    with pytest.raises(ClientError):
        dynamodb.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": "t", "Item": {"id": {"S": "other"}}}},
                {
                    "ConditionCheck": {
                        "TableName": "t",
                        "Key": key,
                        "ConditionExpression": "n = :n",
                        "ExpressionAttributeValues": {":n": {"N": "2"}},
                    }
                },
            ]
        )
    dynamodb.delete_item(TableName="t", Key=key)
    made, changed, removed = records(cloud, "changes", 3)
    assert [each["eventName"] for each in (made, changed, removed)] == [
        "INSERT", "MODIFY", "REMOVE",
    ]  # fmt: skip
    change = made.pop("dynamodb")
    assert made.pop("eventID")
    assert made == {
        "awsRegion": REGION,
        "eventName": "INSERT",
        "userIdentity": None,
        "recordFormat": "application/json",
        "tableName": "t",
        "eventSource": "aws:dynamodb",
    }
    assert change.pop("ApproximateCreationDateTime") > 10**12
    assert change == {"Keys": key, "NewImage": key, "SizeBytes": 12}
    assert removed["dynamodb"]["OldImage"] == {**key, "n": {"N": "1"}}
    dynamodb.disable_kinesis_streaming_destination(TableName="t", StreamArn=arn)
    shown = dynamodb.describe_kinesis_streaming_destination(TableName="t")
    assert shown["KinesisDataStreamDestinations"] == []


def test_streaming_destinations_are_refused_in_awss_words(cloud: InProcessCloud):
    arn = stream(cloud, "refused")
    table(cloud, "words")
    dynamodb = cloud.client("dynamodb")
    with pytest.raises(ClientError) as error:
        dynamodb.enable_kinesis_streaming_destination(TableName="bad-table", StreamArn=arn)
    missing = "Requested resource not found: Table: bad-table not found"
    assert refusal(error) == ("ResourceNotFoundException", missing)
    dynamodb.enable_kinesis_streaming_destination(TableName="words", StreamArn=arn)
    shown = dynamodb.describe_kinesis_streaming_destination(TableName="words")
    destination = {"StreamArn": arn, "DestinationStatus": "ACTIVE"}
    assert shown["KinesisDataStreamDestinations"] == [destination]
    with pytest.raises(ClientError) as error:
        dynamodb.update_kinesis_streaming_destination(
            TableName="words",
            StreamArn=f"{arn}-bad",
            UpdateKinesisStreamingConfiguration={
                "ApproximateCreationDateTimePrecision": "MICROSECOND"
            },
        )
    assert refusal(error)[1] == (
        "Table is not in a valid state to enable Kinesis Streaming Destination: No streaming"
        f" destination with streamArn: {arn}-bad found for table with tableName: words"
    )
    precise: dict[str, Any] = {
        "TableName": "words",
        "StreamArn": arn,
        "UpdateKinesisStreamingConfiguration": {
            "ApproximateCreationDateTimePrecision": "MICROSECOND"
        },
    }
    assert dynamodb.update_kinesis_streaming_destination(**precise)["DestinationStatus"] == (
        "UPDATING"
    )
    with pytest.raises(ClientError) as error:
        dynamodb.update_kinesis_streaming_destination(**precise)
    assert refusal(error)[1].startswith(
        "Invalid Request: Precision is already set to the desired value of MICROSECOND for tableId: "
    )
    dynamodb.put_item(TableName="words", Item={"id": {"S": "x"}})
    (made,) = records(cloud, "refused", 1)
    assert made["dynamodb"]["ApproximateCreationDateTime"] > 10**15
