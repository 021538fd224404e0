"""DynamoDB's bound on expressions: 4,096 bytes each, wherever they stand in a request."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.dynamodb.expressions import refusal_of
from tests.support.moto_lab import MotoLab

FITS = "é" * 2048
LONG = FITS + "x"


@pytest.mark.parametrize(
    "request_of",
    [
        lambda text: {"TableName": "t", "FilterExpression": text},
        lambda text: {"RequestItems": {"t": {"Keys": [], "FilterExpression": text}}},
        lambda text: {"TransactItems": [{"Put": {}}, {"Put": {"FilterExpression": text}}]},
    ],
)
def test_an_expression_has_at_most_4_096_bytes(request_of: Any):
    assert refusal_of(request_of(FITS)) is None
    assert refusal_of(request_of(LONG)) == (
        "Invalid FilterExpression: Expression size has exceeded the maximum allowed size;"
        " expression size: 4097"
    )


def test_names_and_values_are_no_expressions():
    assert refusal_of({"ExpressionAttributeValues": {":v": {"S": LONG}}, "TableName": LONG}) is None


@pytest.mark.parametrize(
    "expression", ["(" * 1500 + "n = :v" + ")" * 1500, " AND ".join(["(n = :v)"] * 300) + ")" * 9]
)
def test_an_expression_that_nests_too_deeply_is_refused(lab: MotoLab, expression: str):
    table = lab.client("dynamodb")
    table.create_table(
        TableName="t",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    table.put_item(TableName="t", Item={"k": {"S": "x"}})
    with pytest.raises(ClientError, match="ValidationException"):
        table.scan(
            TableName="t",
            FilterExpression=expression,
            ExpressionAttributeValues={":v": {"N": "1"}},
        )
