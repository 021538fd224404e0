"""The types of members in the bodies of REST services that moto answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.moto.requests.checks import check_types

LONG = "class com.amazon.coral.value.json.numbers.TruncatingBigNumber"
TEXT, FLAG = "class java.lang.String", "class java.lang.Boolean"


@pytest.mark.parametrize(
    ("service", "operation", "body", "sentence"),
    [
        ("apigateway", "CreateRestApi", {"name": 1}, f"{LONG} can not be converted to an String"),
        ("apigateway", "CreateRestApi", {"tags": {"a": True}}, f"{FLAG} can not be converted to an String"),
        ("apigateway", "CreateRestApi", {"minimumCompressionSize": "1"}, f"{TEXT} can not be converted to an Integer"),
        ("apigateway", "CreateRestApi", {"disableExecuteApiEndpoint": "x"}, "'X' can not be converted to an Boolean"),
        ("apigateway", "CreateRestApi", {"disableExecuteApiEndpoint": 2}, f"{LONG} can not be converted to an Boolean"),
        ("apigateway", "CreateRestApi", {"name": ["a"]}, "Start of list found where not expected"),
        ("apigateway", "CreateRestApi", {"name": {}}, "Start of structure or map found where not expected."),
        ("apigatewayv2", "CreateApi", {"name": 1}, f"{LONG} can not be converted to an String"),
        ("batch", "SubmitJob", {"arrayProperties": {"size": "2"}}, f"{TEXT} can not be converted to an Integer"),
    ],
)  # fmt: skip
def test_a_member_of_another_type_is_refused(
    service: str, operation: str, body: dict[str, Any], sentence: str
):
    with pytest.raises(AwsError) as refused:
        check_types(service, operation, json.dumps(body).encode())
    assert (refused.value.code, refused.value.message) == ("SerializationException", sentence)


@pytest.mark.parametrize(
    ("service", "operation", "body"),
    [
        ("apigateway", "CreateRestApi", b'{"disableExecuteApiEndpoint": "true", "description": null}'),
        ("apigateway", "CreateRestApi", b'{"minimumCompressionSize": 1.5, "unknown": 1}'),
        ("apigateway", "PutRestApi", b'{"openapi": 3}'),
        ("apigateway", "CreateRestApi", b"no JSON"),
        ("apigateway", "CreateRestApi", b"[1]"),
        ("scheduler", "CreateSchedule", b'{"StartDate": 1.0, "Name": "a"}'),
    ],
)  # fmt: skip
def test_what_is_of_its_type_or_of_no_concern_here_passes(
    service: str, operation: str, body: bytes
):
    check_types(service, operation, body)
