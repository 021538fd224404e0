"""AWS's validation sentences."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols import validate as validation
from headrace.aws.protocols.validate import validate


def refused(service: str, operation: str, params: dict[str, Any]) -> AwsError:
    with pytest.raises(AwsError) as caught:
        validate(service, operation, params)
    return caught.value


def test_a_missing_member():
    error = refused("kinesis", "CreateStream", {})
    assert (error.code, error.status) == ("ValidationException", 400)
    assert error.message == (
        "1 validation error detected: Value null at 'streamName' failed to satisfy constraint:"
        " Member must not be null"
    )


def test_a_pattern_and_a_maximum_in_a_list():
    records = [{"Data": b"", "PartitionKey": "k" * 257}]
    error = refused("kinesis", "PutRecords", {"StreamName": "a b", "Records": records})
    assert error.message.startswith("2 validation errors detected: Value '" + "k" * 257)
    assert "at 'records.1.member.partitionKey' failed to satisfy constraint" in error.message
    assert error.message.endswith(
        "Value 'a b' at 'streamName' failed to satisfy constraint:"
        " Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    )


def test_an_enum():
    params = {"StreamName": "s", "ShardId": "x", "ShardIteratorType": "NOWHERE"}
    assert (
        "Member must satisfy enum value set: ["
        in refused("kinesis", "GetShardIterator", params).message
    )


def test_a_number_out_of_range():
    message = refused("kinesis", "GetRecords", {"ShardIterator": "x", "Limit": 0}).message
    assert "Value '0' at 'limit'" in message
    assert "Member must have value greater than or equal to 1" in message


def test_an_empty_list():
    message = refused("kinesis", "PutRecords", {"StreamName": "s", "Records": []}).message
    assert "Value '[]' at 'records'" in message
    assert "Member must have length greater than or equal to 1" in message


def test_what_keeps_every_constraint_passes():
    record = {"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": "0"}
    validate("kinesis", "PutRecords", {"StreamName": "s", "Records": [record] * 500})


def test_the_constraints_of_every_owned_operation_compile():
    from headrace.aws.calls.operation import service_model

    for service in ("kinesis", "firehose", "lambda", "emr", "cloudformation"):
        for operation in service_model(service).operation_names:
            required = getattr(
                service_model(service).operation_model(operation).input_shape,
                "required_members",
                [],
            )
            if required:
                assert "Member must not be null" in refused(service, operation, {}).message
            else:
                validate(service, operation, {})


def test_a_pattern_is_compiled_with_its_first_value(monkeypatch: pytest.MonkeyPatch):
    compiled: list[str] = []
    find = validation.model_pattern
    monkeypatch.setattr(
        validation, "model_pattern", lambda pattern: compiled.append(pattern) or find(pattern)
    )
    validation._compile_check.cache_clear()
    validation._compile_pattern.cache_clear()
    validate("firehose", "DescribeDeliveryStream", {"DeliveryStreamName": "a"})
    assert compiled == ["[a-zA-Z0-9_.-]+"]
    message = refused("firehose", "DescribeDeliveryStream", {"DeliveryStreamName": "a b"}).message
    assert "pattern: [a-zA-Z0-9_.-]+" in message
    assert len(compiled) == 1
