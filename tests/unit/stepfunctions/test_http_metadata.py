"""What the results of tasks tell of the HTTP answer."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.services.stepfunctions.interpreter.http_metadata import metadata_of

ITEM: dict[str, Any] = {"Item": {"data": {"S": "HelloWorld"}, "id": {"S": "id1"}}}


@pytest.mark.parametrize(
    ("operation", "output", "length"), [("PutItem", {}, "2"), ("GetItem", ITEM, "53")]
)
def test_dynamodb_tells_its_server_and_checksum(operation: str, output: Any, length: str):
    told = metadata_of("dynamodb", operation, output)
    headers = told["SdkHttpMetadata"]["HttpHeaders"]
    assert set(headers) == {
        *("Server", "Connection", "x-amzn-RequestId", "x-amz-crc32", "Content-Length"),
        *("Date", "Content-Type"),
    }
    assert headers["Content-Length"] == length
    assert told["SdkResponseMetadata"] == {"RequestId": headers["x-amzn-RequestId"]}
    assert told["SdkHttpMetadata"]["AllHttpHeaders"]["Server"] == ["Server"]


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("events", "PutEvents"),
        ("s3", "GetObject"),
        ("dynamodb", "Query"),
        ("lambda", "GetFunction"),
    ],
)
def test_other_results_tell_nothing(service: str, operation: str):
    assert metadata_of(service, operation, {}) == {}
