"""DynamoDB's bound on expressions: 4,096 bytes each, wherever they stand in a request."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.dynamodb.expressions import refusal_of

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
