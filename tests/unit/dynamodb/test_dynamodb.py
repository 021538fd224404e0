"""Items, transactions and streams of DynamoDB: whole or not at all, and the same after kill -9."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.core.ports import TrimHorizon
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.dynamodb import patches
from headrace.services.dynamodb import streams as dynamodb_streams
from tests.support.moto_lab import MotoLab


@pytest.fixture
def table(lab: MotoLab) -> Any:
    """A client; table `t` has a hash and a range key, and a stream."""
    client = lab.client("dynamodb")
    client.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[
            {"AttributeName": "h", "KeyType": "HASH"},
            {"AttributeName": "r", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "h", "AttributeType": "S"},
            {"AttributeName": "r", "AttributeType": "N"},
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    return client


def key(h: str = "a", r: int | str = 1) -> dict[str, Any]:
    return {"h": {"S": h}, "r": {"N": str(r)}}


def put(table: Any, h: str = "a", r: int | str = 1, **attributes: Any) -> None:
    table.put_item(TableName="t", Item={**key(h, r), **attributes})


def get(table: Any, h: str = "a", r: int | str = 1) -> Any:
    return table.get_item(TableName="t", Key=key(h, r)).get("Item")


def events(lab: MotoLab, kind: str = "TRIM_HORIZON", **more: Any) -> list[dict[str, Any]]:
    streams = lab.client("dynamodbstreams")
    return streams.get_records(ShardIterator=iterator(lab, kind, **more))["Records"]


def iterator(lab: MotoLab, kind: str = "TRIM_HORIZON", **more: Any) -> str:
    streams = lab.client("dynamodbstreams")
    arn = lab.client("dynamodb").describe_table(TableName="t")["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    return streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType=kind, **more
    )["ShardIterator"]


def names(records: list[dict[str, Any]]) -> list[str]:
    return [record["eventName"] for record in records]


@pytest.mark.parametrize("there", [False, True])
def test_an_update_that_fails_leaves_nothing_behind(lab: MotoLab, table: Any, there: bool):
    if there:
        put(table, x={"S": "old"}, n={"S": "no number"})
    before, count = get(table), len(events(lab))
    with pytest.raises(ClientError):
        table.update_item(
            TableName="t",
            Key=key(),
            UpdateExpression="SET x = :x, n = n + :one",
            ExpressionAttributeValues={":x": {"S": "new"}, ":one": {"N": "1"}},
        )
    lab.restart()
    assert get(table) == before
    assert len(events(lab)) == count


def test_numbers_that_are_equal_are_one_key(lab: MotoLab, table: Any):
    put(table, r="1", x={"S": "one"})
    put(table, r="1.0", x={"S": "the same"})
    lab.restart()
    assert table.scan(TableName="t")["Count"] == 1
    assert get(table, r="1.00")["x"] == {"S": "the same"}
    table.delete_item(TableName="t", Key=key(r="1.000"))
    lab.restart()
    assert table.scan(TableName="t")["Count"] == 0
    # Not even a row is left but the stream's.
    assert lab.database.query("SELECT count(*) FROM fallback_rows WHERE typeof(key) = 'blob'") == [
        (0,)
    ]


def test_keys_of_38_digits_are_each_an_item(lab: MotoLab, table: Any):
    numbers = ["1" * 37 + "1", "1" * 37 + "2", "0." + "1" * 29, "0." + "1" * 28 + "2"]
    for number in numbers:
        put(table, r=number, x={"S": number})
    lab.restart()
    assert [get(table, r=number)["x"]["S"] for number in numbers] == numbers


def test_an_update_says_its_capacity_when_it_is_asked(table: Any):
    update = {"TableName": "t", "Key": key(), "AttributeUpdates": {"x": {"Value": {"S": "a"}}}}
    assert "ConsumedCapacity" not in table.update_item(**update)
    asked = table.update_item(**update, ReturnConsumedCapacity="TOTAL")
    assert asked["ConsumedCapacity"]["TableName"] == "t"


def test_zero_is_one_key_whatever_its_sign(lab: MotoLab, table: Any):
    put(table, r="-0")
    put(table, r="0.0")
    table.delete_item(TableName="t", Key=key(r="0"))
    lab.restart()
    assert table.scan(TableName="t")["Count"] == 0


@pytest.mark.parametrize(
    "wrong", [{"h": {"S": "a"}}, {**key(), "more": {"S": "x"}}, {"h": {"N": "1"}, "r": {"N": "1"}}]
)
def test_an_update_of_no_whole_key_is_refused(table: Any, wrong: dict[str, Any]):
    with pytest.raises(ClientError, match="The provided key element does not match the schema"):
        table.update_item(TableName="t", Key=wrong)


def test_a_cancelled_transaction_changes_nothing(lab: MotoLab, table: Any):
    put(table, r=1, x={"S": "one"})
    put(table, r=2, x={"S": "two"})
    before, told = table.scan(TableName="t")["Items"], names(events(lab))
    update = {
        "TableName": "t",
        "UpdateExpression": "SET x = :x",
        "ExpressionAttributeValues": {":x": {"S": "!"}},
    }
    with pytest.raises(table.exceptions.TransactionCanceledException):
        table.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": "t", "Item": {**key(r=3), "x": {"S": "new"}}}},
                {"Update": {**update, "Key": key(r=1)}},
                {"Delete": {"TableName": "t", "Key": key(r=2)}},
                {
                    "Update": {
                        **update,
                        "Key": key(r=9),
                        "ConditionExpression": "attribute_exists(h)",
                    }
                },
            ]
        )
    for _ in range(2):
        assert table.scan(TableName="t")["Items"] == before
        assert names(events(lab)) == told
        lab.restart()
    # What follows is numbered and kept as if it had not been.
    put(table, r=4)
    lab.restart()
    assert names(events(lab)) == [*told, "INSERT"]


def test_a_large_item_is_taken_at_once_and_a_larger_is_refused(lab: MotoLab, table: Any):
    many = {f"attribute{n:05}": {"S": "x" * 20} for n in range(10_000)}
    put(table, **many)
    lab.restart()
    assert len(get(table)) == 10_002
    with pytest.raises(ClientError, match="Item size has exceeded the maximum allowed size"):
        put(table, r=2, x={"S": "x" * 410_000})
    with pytest.raises(ClientError, match="Item size to update has exceeded"):
        table.update_item(
            TableName="t",
            Key=key(),
            UpdateExpression="SET y = :y",
            ExpressionAttributeValues={":y": {"S": "y" * 380_000}},
        )
    assert len(get(table)) == 10_002


def test_asking_for_what_is_not_there_leaves_no_trace(lab: MotoLab, table: Any):
    from moto.dynamodb.models import dynamodb_backends

    for n in range(50):
        assert get(table, h=f"no{n}") is None
        table.delete_item(TableName="t", Key=key(h=f"no{n}"))
        put(table, h="some", r=n)
        table.delete_item(TableName="t", Key=key("some", n))
    assert not dynamodb_backends["000000000000"]["us-east-1"].tables["t"].items


def test_a_backup_shows_its_table(table: Any):
    backup = table.create_backup(TableName="t", BackupName="b")["BackupDetails"]["BackupArn"]
    shown = table.describe_backup(BackupArn=backup)["BackupDescription"]
    described = table.describe_table(TableName="t")["Table"]
    assert shown["SourceTableDetails"]["BillingMode"] == "PAY_PER_REQUEST"
    features = {"StreamDescription": described["StreamSpecification"]}
    assert shown["SourceTableFeatureDetails"] == features
    [listed] = table.list_backups(TableName="t")["BackupSummaries"]
    assert listed["TableId"] == described["TableId"]


def test_backups_and_restored_tables_last(lab: MotoLab, table: Any):
    put(table, r=1, x={"B": b"\x00"})
    backup = table.create_backup(TableName="t", BackupName="b")["BackupDetails"]["BackupArn"]
    put(table, r=2)
    lab.restart()
    table.restore_table_from_backup(TargetTableName="from", BackupArn=backup)
    table.restore_table_to_point_in_time(SourceTableName="t", TargetTableName="now")
    lab.restart()
    assert [i["r"]["N"] for i in table.scan(TableName="from")["Items"]] == ["1"]
    assert [i["r"]["N"] for i in table.scan(TableName="now")["Items"]] == ["1", "2"]
    table.delete_table(TableName="now")
    table.delete_item(TableName="from", Key=key(r=1))
    lab.restart()
    assert sorted(table.list_tables()["TableNames"]) == ["from", "t"]
    assert table.scan(TableName="from")["Count"] == 0
    assert table.restore_table_from_backup(TargetTableName="again", BackupArn=backup)
    assert table.scan(TableName="again")["Items"][0]["x"] == {"B": b"\x00"}


def test_a_query_reads_its_partition(table: Any):
    for r in range(5):
        put(table, h="a", r=r)
        put(table, h="b", r=r)
    asked = {
        "TableName": "t",
        "KeyConditionExpression": "h = :h AND r > :r",
        "ExpressionAttributeValues": {":h": {"S": "a"}, ":r": {"N": "1"}},
    }
    first = table.query(**asked, Limit=2)
    assert [item["r"]["N"] for item in first["Items"]] == ["2", "3"]
    rest = table.query(**asked, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [item["r"]["N"] for item in rest["Items"]] == ["4"]
    assert table.query(**asked, ScanIndexForward=False)["Items"][0]["r"]["N"] == "4"
    nobody = {**asked, "ExpressionAttributeValues": {":h": {"S": "z"}, ":r": {"N": "1"}}}
    assert table.query(**nobody)["Count"] == 0


# --- streams --------------------------------------------------------------------------------------


def test_a_stream_tells_each_change_once(lab: MotoLab, table: Any):
    set_x = {"UpdateExpression": "SET x = :x", "ExpressionAttributeValues": {":x": {"S": "1"}}}
    table.update_item(TableName="t", Key=key(), **set_x)
    table.update_item(TableName="t", Key=key(), **set_x)  # changes nothing, and AWS tells nothing
    table.update_item(TableName="t", Key=key(), UpdateExpression="REMOVE x")
    table.delete_item(TableName="t", Key=key())
    table.delete_item(TableName="t", Key=key())
    lab.restart()
    records = events(lab)
    assert names(records) == ["INSERT", "MODIFY", "REMOVE"]
    assert records[0]["dynamodb"]["NewImage"]["x"] == {"S": "1"}
    assert "OldImage" not in records[0]["dynamodb"]
    assert records[1]["dynamodb"]["OldImage"]["x"] == {"S": "1"}
    assert {record["awsRegion"] for record in records} == {"us-east-1"}
    told_ms = records[0]["dynamodb"]["ApproximateCreationDateTime"].timestamp() * 1000
    assert abs(told_ms - lab.clock.now_ms()) < 1000


def test_an_iterator_outlasts_kill_9_and_ends_after_a_quarter_hour(lab: MotoLab, table: Any):
    put(table, r=1)
    place = iterator(lab, "LATEST")
    put(table, r=2)
    lab.restart()
    streams = lab.client("dynamodbstreams")
    answer = streams.get_records(ShardIterator=place, Limit=1)
    assert [r["dynamodb"]["Keys"]["r"]["N"] for r in answer["Records"]] == ["2"]
    assert streams.get_records(ShardIterator=answer["NextShardIterator"])["Records"] == []
    lab.clock.advance(16 * 60)
    with pytest.raises(streams.exceptions.ExpiredIteratorException):
        streams.get_records(ShardIterator=place)


def test_records_go_after_a_day_and_numbers_go_on(lab: MotoLab, table: Any):
    put(table, r=1)
    first = events(lab)[0]["dynamodb"]["SequenceNumber"]
    lab.clock.advance(25 * 3600)
    put(table, r=2)
    lab.restart()
    (second,) = events(lab)
    assert int(second["dynamodb"]["SequenceNumber"]) == int(first) + 1
    streams = lab.client("dynamodbstreams")
    with pytest.raises(streams.exceptions.TrimmedDataAccessException):
        iterator(lab, "AT_SEQUENCE_NUMBER", SequenceNumber=first)
    after = events(lab, "AFTER_SEQUENCE_NUMBER", SequenceNumber=first)
    assert [r["dynamodb"]["SequenceNumber"] for r in after] == [
        second["dynamodb"]["SequenceNumber"]
    ]


def test_a_stream_is_bounded(lab: MotoLab, table: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dynamodb_streams, "MOST_RECORDS", 5)
    for r in range(12):
        put(table, r=r)
    lab.restart()
    assert [r["dynamodb"]["Keys"]["r"]["N"] for r in events(lab)] == ["7", "8", "9", "10", "11"]
    assert lab.database.query(
        "SELECT count(*) FROM fallback_rows WHERE typeof(key) = 'integer'"
    ) == [(6,)]


def test_a_stream_that_is_switched_off_gets_nothing_and_fails_nobody(lab: MotoLab, table: Any):
    put(table, r=1)
    table.update_table(TableName="t", StreamSpecification={"StreamEnabled": False})
    lab.restart()
    put(table, r=2)
    assert names(events(lab)) == ["INSERT"]


@pytest.mark.parametrize(
    "bad", ["nonsense", "arn:aws:dynamodb:us-east-1:000000000000:table/t/stream/x|1|!!"]
)
def test_a_bad_iterator_is_refused(lab: MotoLab, table: Any, bad: str):
    with pytest.raises(ClientError, match="ValidationException"):
        lab.client("dynamodbstreams").get_records(ShardIterator=bad)


@pytest.mark.parametrize("expression", ["SET a = :v", "SET a = if_not_exists(b, :v)"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"N": "abc"}, "The parameter cannot be converted to a numeric value: abc"),
        ({"N": "1e200"}, "Number overflow"),
        ({"M": {"m": {"N": ""}}}, "The parameter cannot be converted to a numeric value: "),
        ({"SS": []}, "An string set  may not be empty"),
    ],
)
def test_an_update_with_a_value_that_no_item_has_is_refused(
    table: Any, expression: str, value: dict[str, Any], why: str
):
    put(table)
    with pytest.raises(ClientError) as refused:
        table.update_item(
            TableName="t",
            Key=key(),
            UpdateExpression=expression,
            ExpressionAttributeValues={":v": value},
        )
    error: Any = refused.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert error["Message"].startswith("ExpressionAttributeValues contains invalid value: ")
    assert why in error["Message"]
    assert error["Message"].endswith(" for key :v")
    assert get(table) == key()


# --- items that expire ----------------------------------------------------------------------------


def test_items_whose_time_is_over_are_deleted_by_the_service(lab: MotoLab, table: Any):
    now_s = lab.clock.now_ms() // 1000
    table.update_time_to_live(
        TableName="t", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    kinesis = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
    table.enable_kinesis_streaming_destination(TableName="t", StreamArn=kinesis)
    ends: dict[str, Any] = {
        "over": {"N": str(now_s - 1)},
        "later": {"N": str(now_s + 600)},
        # Milliseconds, a text, and a time of more than five years ago do not count.
        "unit": {"N": str(now_s * 1000)},
        "text": {"S": str(now_s - 1)},
        "old": {"N": str(now_s - 6 * 365 * 24 * 3600)},
    }
    for name, end in ends.items():
        put(table, name, ttl=end)
    table.delete_item(TableName="t", Key=key("text"))
    lab.item_expiry.step()
    left = {item["h"]["S"] for item in table.scan(TableName="t")["Items"]}
    assert left == {"later", "unit", "old"}
    lab.clock.advance(601)
    lab.item_expiry.step()
    lab.restart()
    left = {item["h"]["S"] for item in lab.client("dynamodb").scan(TableName="t")["Items"]}
    assert left == {"unit", "old"}
    by_client, first, second = [record for record in events(lab) if record["eventName"] == "REMOVE"]
    assert "userIdentity" not in by_client
    service = {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"}
    assert first["userIdentity"] == second["userIdentity"] == service
    assert first["dynamodb"]["OldImage"]["h"] == {"S": "over"}
    lab.outbox.step()
    sent = [call[2]["Data"] for call in lab.outside.calls if "Data" in call[2]]
    told = [json.loads(data) for data in sent]
    assert [one["userIdentity"] for one in told if one["eventName"] == "REMOVE"] == [
        None,
        *[{"principalId": "dynamodb.amazonaws.com", "type": "Service"}] * 2,
    ]
    arn = lab.client("dynamodb").describe_table(TableName="t")["Table"]["LatestStreamArn"]
    (shard,) = lab.table_streams.shards(arn)
    read = lab.table_streams.read(
        arn, shard.shard_id, TrimHorizon(), max_records=100, max_bytes=1_000_000
    )
    assert json.loads(read.records[-1].data)["userIdentity"] == {
        "principalId": "dynamodb.amazonaws.com",
        "type": "Service",
    }


def test_an_item_that_is_written_anew_meanwhile_stays(
    lab: MotoLab, table: Any, monkeypatch: pytest.MonkeyPatch
):
    table.update_time_to_live(
        TableName="t", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    put(table, ttl={"N": str(lab.clock.now_ms() // 1000 - 1)})
    change = lab.moto.change

    def change_later(*args: Any) -> None:
        put(table, ttl={"N": str(lab.clock.now_ms() // 1000 + 60)})
        change(*args)

    monkeypatch.setattr(lab.moto, "change", change_later)
    lab.item_expiry.step()
    assert get(table) is not None


def test_requests_go_on_while_a_table_is_looked_through(
    lab: MotoLab, table: Any, monkeypatch: pytest.MonkeyPatch
):
    table.update_time_to_live(
        TableName="t", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    put(table, ttl={"N": str(lab.clock.now_ms() // 1000 + 60)})
    seen: list[bool] = []

    def is_free() -> bool:
        if MOTO_LOCK.acquire(blocking=False):
            MOTO_LOCK.release()
            return True
        return False

    def look(*_: Any) -> bool:
        with ThreadPoolExecutor(1) as another:
            seen.append(another.submit(is_free).result())
        return False

    monkeypatch.setattr(patches, "_is_over", look)
    lab.item_expiry.step()
    assert seen == [True]


@pytest.mark.parametrize(
    ("update", "old", "new"),
    [
        ({"UpdateExpression": "SET n.c = :n, l[0] = :n"}, {"n", "l"}, {"n", "l"}),
        ({"UpdateExpression": "SET s = :n"}, {"s"}, {"s"}),
        ({"UpdateExpression": "REMOVE s ADD q :n"}, {"s"}, {"q"}),
    ],
)
def test_an_update_tells_what_was_before_it(
    lab: MotoLab, update: Any, old: set[str], new: set[str]
):
    table = lab.client("dynamodb")
    table.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    item = {
        "k": {"S": "x"},
        "s": {"S": "y"},
        "n": {"M": {"c": {"N": "1"}}},
        "l": {"L": [{"N": "1"}]},
    }
    told: dict[str, Any] = {}
    for wanted in ("ALL_OLD", "UPDATED_OLD", "UPDATED_NEW", "NONE"):
        table.put_item(TableName="t", Item=item)
        told[wanted] = table.update_item(
            TableName="t",
            Key={"k": {"S": "x"}},
            ExpressionAttributeValues={":n": {"N": "2"}},
            ReturnValues=wanted,
            **update,
        ).get("Attributes")
    assert told["ALL_OLD"] == item
    assert set(told["UPDATED_OLD"]) == old
    assert all(told["UPDATED_OLD"][name] == item[name] for name in {"s"} & old)
    assert set(told["UPDATED_NEW"]) == new
    assert told["NONE"] is None


@pytest.mark.parametrize("place", ["eu-west-1:000000000000", "us-east-1:222222222222"])
def test_a_stream_is_found_by_its_whole_arn(lab: MotoLab, table: Any, place: str):
    own = table.describe_table(TableName="t")["Table"]["LatestStreamArn"]
    arn = own.replace("us-east-1:000000000000", place)
    streams = lab.client("dynamodbstreams")
    with pytest.raises(ClientError, match=f"Stream: {arn} not found"):
        streams.describe_stream(StreamArn=arn)
    position = {"ShardId": "shardId-1", "ShardIteratorType": "LATEST"}
    with pytest.raises(ClientError, match=f"Stream: {arn} not found"):
        streams.get_shard_iterator(StreamArn=arn, **position)
