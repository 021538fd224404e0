"""`Expected`, `ConditionalOperator` and `AttributeUpdates`, as Java's Kinesis client library 1.x sends them.

What a condition means: documented (LegacyConditionalParameters.Conditions in DynamoDB's developer guide). Sentences
of refusals: observed by dynalite's tests against AWS.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from tests.support.moto_lab import MotoLab

ITEM = {
    "leaseKey": {"S": "shard-0"},
    "owner": {"S": "me"},
    "counter": {"N": "10"},
    "bytes": {"B": b"\x01\x02"},
    "names": {"SS": ["a", "b"]},
    "list": {"L": [{"S": "x"}, {"N": "1"}]},
}
S, N = (lambda v: {"S": v}), (lambda v: {"N": v})


@pytest.fixture
def leases(lab: MotoLab) -> Any:
    client = lab.client("dynamodb")
    client.create_table(
        TableName="leases",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
    )
    client.put_item(TableName="leases", Item=ITEM)
    return client


def get(leases: Any, key: str = "shard-0") -> dict[str, Any] | None:
    return leases.get_item(TableName="leases", Key={"leaseKey": S(key)}).get("Item")


def holds(leases: Any, expected: dict[str, Any], **more: Any) -> bool:
    """Whether AWS would go on, asked of all three operations that take conditions."""
    answers = set[bool]()
    for operation, params in (
        (
            "update_item",
            {"Key": {"leaseKey": S("shard-0")}, "AttributeUpdates": {"seen": {"Value": N("1")}}},
        ),
        ("put_item", {"Item": ITEM}),
        ("delete_item", {"Key": {"leaseKey": S("shard-0")}}),
    ):
        try:
            getattr(leases, operation)(TableName="leases", Expected=expected, **params, **more)
        except leases.exceptions.ConditionalCheckFailedException:
            answers.add(False)
        else:
            answers.add(True)
        leases.put_item(TableName="leases", Item=ITEM)
    assert len(answers) == 1, "the operations disagree"
    return answers.pop()


@pytest.mark.parametrize(
    ("expected", "met"),
    [
        ({"owner": {"Value": S("me")}}, True),
        ({"owner": {"Value": S("you")}}, False),
        ({"counter": {"Value": N("10.0")}}, True),
        ({"counter": {"Value": S("10")}}, False),
        ({"names": {"Value": {"SS": ["b", "a"]}}}, True),
        ({"missing": {"Value": S("x")}}, False),
        ({"missing": {"Exists": False}}, True),
        ({"owner": {"Exists": False}}, False),
        ({"owner": {"Exists": True, "Value": S("me")}}, True),
        ({"owner": {"Exists": True, "Value": S("you")}}, False),
        ({"owner": {"Value": S("me")}, "counter": {"Value": N("11")}}, False),
    ],
)
def test_values_and_existence(leases: Any, expected: dict[str, Any], met: bool):
    assert holds(leases, expected) is met


@pytest.mark.parametrize(
    ("attribute", "operator", "values", "met"),
    [
        ("counter", "EQ", [N("10")], True),
        ("counter", "NE", [N("10")], False),
        ("counter", "NE", [S("10")], True),
        ("missing", "NE", [N("10")], True),
        ("counter", "LT", [N("10")], False),
        ("counter", "LE", [N("10")], True),
        ("counter", "GT", [N("9")], True),
        ("counter", "GE", [N("10")], True),
        ("counter", "GT", [S("9")], False),
        ("missing", "GT", [N("9")], False),
        ("owner", "GT", [S("a")], True),
        ("bytes", "LT", [{"B": b"\x01\x03"}], True),
        ("counter", "BETWEEN", [N("9"), N("10")], True),
        ("counter", "BETWEEN", [N("1"), N("2")], False),
        ("owner", "IN", [S("you"), S("me")], True),
        ("owner", "IN", [S("you")], False),
        ("owner", "NOT_NULL", [], True),
        ("missing", "NOT_NULL", [], False),
        ("missing", "NULL", [], True),
        ("owner", "NULL", [], False),
        ("owner", "BEGINS_WITH", [S("m")], True),
        ("owner", "BEGINS_WITH", [S("e")], False),
        ("owner", "CONTAINS", [S("e")], True),
        ("names", "CONTAINS", [S("a")], True),
        ("names", "CONTAINS", [S("c")], False),
        ("list", "CONTAINS", [N("1")], True),
        ("names", "NOT_CONTAINS", [S("c")], True),
        ("missing", "NOT_CONTAINS", [S("c")], True),
        ("owner", "NOT_CONTAINS", [S("m")], False),
    ],
)
def test_comparisons(
    leases: Any, attribute: str, operator: str, values: list[dict[str, Any]], met: bool
):
    condition: dict[str, Any] = {"ComparisonOperator": operator}
    if values:
        condition["AttributeValueList"] = values
    assert holds(leases, {attribute: condition}) is met


def test_conditions_may_be_alternatives(leases: Any):
    either = {"owner": {"Value": S("you")}, "counter": {"Value": N("10")}}
    assert holds(leases, either, ConditionalOperator="OR")
    assert not holds(leases, either, ConditionalOperator="AND")
    neither = {"owner": {"Value": S("you")}, "counter": {"Value": N("1")}}
    assert not holds(leases, neither, ConditionalOperator="OR")


INVALID = "One or more parameter values were invalid: "


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        (
            {"Expected": {"a": {}}},
            f"{INVALID}Value must be provided when Exists is null for Attribute: a",
        ),
        (
            {"Expected": {"a": {"Exists": True}}},
            f"{INVALID}Value must be provided when Exists is true for Attribute: a",
        ),
        (
            {"Expected": {"a": {"Exists": False, "Value": S("x")}}},
            f"{INVALID}Value cannot be used when Exists is false for Attribute: a",
        ),
        (
            {"Expected": {"a": {"AttributeValueList": [S("x")]}}},
            f"{INVALID}AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
        ),
        (
            {"Expected": {"a": {"ComparisonOperator": "EQ"}}},
            f"{INVALID}Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a",
        ),
        (
            {"Expected": {"a": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [S("x")]}}},
            f"{INVALID}Invalid number of argument(s) for the BETWEEN ComparisonOperator",
        ),
        (
            {"ConditionalOperator": "OR"},
            "ConditionalOperator cannot be used without Filter or Expected",
        ),
        (
            {"ConditionalOperator": "OR", "Expected": {"a": {"Value": S("x")}}},
            "ConditionalOperator can only be used when Filter or Expected has two or more elements",
        ),
        (
            {"Expected": {"a": {"Value": S("x")}}, "ConditionExpression": "attribute_exists(a)"},
            (
                "Can not use both expression and non-expression parameters in the same request: "
                "Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}"
            ),
        ),
    ],
)
def test_bad_conditions(leases: Any, params: dict[str, Any], sentence: str):
    with pytest.raises(ClientError) as caught:
        leases.put_item(TableName="leases", Item=ITEM, **params)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert caught.value.response["Error"]["Message"] == sentence


# --- updates --------------------------------------------------------------------------------------


def update(
    leases: Any, updates: dict[str, Any], key: str = "shard-0", **more: Any
) -> dict[str, Any]:
    return leases.update_item(
        TableName="leases", Key={"leaseKey": S(key)}, AttributeUpdates=updates, **more
    )


@pytest.mark.parametrize(
    "value",
    [
        S("x"),
        N("7"),
        {"B": b"\x00\xff"},
        {"SS": ["q"]},
        {"NS": ["1"]},
        {"BS": [b"\x01"]},
        {"BOOL": False},
        {"NULL": True},
        {"L": [S("x")]},
        {"M": {"k": N("1")}},
    ],
)
def test_what_is_put_keeps_its_type(lab: MotoLab, leases: Any, value: dict[str, Any]):
    update(leases, {"put": {"Value": value}})
    lab.restart()
    item = get(leases)
    assert item is not None
    assert item["put"] == value


def test_adding_and_taking_away(leases: Any):
    update(
        leases,
        {
            "counter": {"Action": "ADD", "Value": N("-3")},
            "fresh": {"Action": "ADD", "Value": N("5")},
            "names": {"Action": "ADD", "Value": {"SS": ["b", "c"]}},
            "list": {"Action": "ADD", "Value": {"L": [S("y")]}},
            "owner": {"Action": "DELETE"},
            "missing": {"Action": "DELETE"},
        },
    )
    item = get(leases)
    assert item is not None
    assert (item["counter"], item["fresh"]) == (N("7"), N("5"))
    assert sorted(item["names"]["SS"]) == ["a", "b", "c"]
    assert item["list"]["L"][-1] == S("y")
    assert "owner" not in item
    update(leases, {"names": {"Action": "DELETE", "Value": {"SS": ["a", "b", "c"]}}})
    item = get(leases)
    assert item is not None
    # A set that would be empty is none.
    assert "names" not in item


@pytest.mark.parametrize(
    ("updates", "sentence"),
    [
        ({"a": {}}, f"{INVALID}Only DELETE action is allowed when no attribute value is specified"),
        (
            {"a": {"Action": "ADD", "Value": S("x")}},
            f"{INVALID}ADD action is not supported for the type S",
        ),
        (
            {"a": {"Action": "DELETE", "Value": N("1")}},
            f"{INVALID}DELETE action with value is not supported for the type N",
        ),
        ({"owner": {"Action": "ADD", "Value": N("1")}}, "Type mismatch for attribute to update"),
        (
            {"names": {"Action": "DELETE", "Value": {"NS": ["1"]}}},
            "Type mismatch for attribute to update",
        ),
        (
            {"leaseKey": {"Value": S("x")}},
            f"{INVALID}Cannot update attribute leaseKey. This attribute is part of the key",
        ),
    ],
)
def test_bad_updates_change_nothing(leases: Any, updates: dict[str, Any], sentence: str):
    good = {"aaa": {"Value": S("first")}}
    with pytest.raises(ClientError) as caught:
        update(leases, {**good, **updates})
    assert caught.value.response["Error"]["Message"] == sentence
    assert get(leases) == ITEM


def test_the_life_of_a_lease(lab: MotoLab, leases: Any):
    """Create if not there, take, renew, lose, evict and delete: the requests of KCL 1.x's lease manager."""
    key, create = {"leaseKey": S("shard-1")}, {"leaseKey": {"Exists": False}}
    lease = {
        **key,
        "leaseCounter": N("0"),
        "checkpoint": S("TRIM_HORIZON"),
        "childShardIds": {"SS": ["c"]},
    }
    leases.put_item(TableName="leases", Item=lease, Expected=create)
    with pytest.raises(leases.exceptions.ConditionalCheckFailedException):
        leases.put_item(TableName="leases", Item=lease, Expected=create)
    lab.restart()

    def take(owner: str, counter: int, expected: dict[str, Any]) -> None:
        update(
            leases,
            {
                "leaseOwner": {"Value": S(owner), "Action": "PUT"},
                "leaseCounter": {"Value": N(str(counter + 1)), "Action": "PUT"},
                "ownerSwitchesSinceCheckpoint": {"Value": N("1"), "Action": "ADD"},
            },
            key="shard-1",
            Expected={"leaseCounter": {"Value": N(str(counter))}, **expected},
        )

    take("me", 0, {"leaseOwner": {"Exists": False}})
    with pytest.raises(leases.exceptions.ConditionalCheckFailedException):
        take("you", 0, {"leaseOwner": {"Exists": False}})
    lab.restart()
    take("you", 1, {"leaseOwner": {"Value": S("me")}})
    update(
        leases,
        {"leaseOwner": {"Action": "DELETE"}},
        key="shard-1",
        Expected={"leaseOwner": {"Value": S("you")}, "leaseCounter": {"Value": N("2")}},
    )
    found = get(leases, "shard-1")
    assert found is not None
    assert "leaseOwner" not in found
    assert (found["leaseCounter"], found["ownerSwitchesSinceCheckpoint"]) == (N("2"), N("2"))
    gone = {"TableName": "leases", "Key": key}
    with pytest.raises(leases.exceptions.ConditionalCheckFailedException):
        leases.delete_item(Expected={"leaseOwner": {"Value": S("me")}}, **gone)
    leases.delete_item(Expected={"leaseOwner": {"Exists": False}}, **gone)
    assert get(leases, "shard-1") is None


def test_a_failed_condition_is_said_in_aws_s_form(lab: MotoLab, leases: Any):
    body = (
        b'{"TableName":"leases","Key":{"leaseKey":{"S":"shard-0"}},'
        b'"AttributeUpdates":{"a":{"Value":{"N":"1"}}},"Expected":{"owner":{"Value":{"S":"you"}}}}'
    )
    headers = {
        "x-amz-target": "DynamoDB_20120810.UpdateItem",
        "content-type": "application/x-amz-json-1.0",
        "authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request,",
    }
    response = lab.handle(HttpRequest("POST", "/", "", headers, body))
    assert response.status == 400
    assert b"ConditionalCheckFailedException" in bytes(response.body)
    assert b'"message": "The conditional request failed"' in bytes(response.body)
