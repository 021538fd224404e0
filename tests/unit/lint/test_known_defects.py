"""Defects that AWS's own patterns had: each is found in a template that shows it, and not where it is put right.

The Streaming Data Solution swapped retries and parallel batches; others named permissions that do not exist, or error
prefixes that do not say the type of error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.commands import headrace

STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"
NUMBERS = {
    name: {"Type": "Number", "Default": default, "MinValue": 1, "MaxValue": 10}
    for name, default in (("RetryAttempts", 3), ("ParallelBatches", 2))
}


def mapping(retries: str, batches: str) -> dict[str, Any]:
    properties = {
        "EventSourceArn": STREAM,
        "FunctionName": "count",
        "StartingPosition": "LATEST",
        "MaximumRetryAttempts": {"Ref": retries},
        "ParallelizationFactor": {"Ref": batches},
    }
    return {"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties}


def role(action: str) -> dict[str, Any]:
    trusted = {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    statement = {"Effect": "Allow", "Action": [action], "Resource": STREAM}
    policy = {
        "PolicyName": "read",
        "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]},
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trusted]},
            "Policies": [policy],
        },
    }


def delivery(errors: str) -> dict[str, Any]:
    destination = {
        "BucketARN": "arn:aws:s3:::clicks",
        "RoleARN": "arn:aws:iam::123456789012:role/delivery",
        "Prefix": "clicks/!{timestamp:yyyy/MM/dd}/",
        **({"ErrorOutputPrefix": errors} if errors else {}),
    }
    return {
        "Type": "AWS::KinesisFirehose::DeliveryStream",
        "Properties": {"ExtendedS3DestinationConfiguration": destination},
    }


CASES = [
    ("W9008", mapping("ParallelBatches", "RetryAttempts"), mapping("RetryAttempts", "ParallelBatches")),
    ("W3037", role("kinesis:ReadRecords"), role("kinesis:GetRecords")),
    ("E9023", delivery("errors/!{timestamp:yyyy}/"), delivery("errors/!{firehose:error-output-type}/")),
    ("E9023", delivery(""), delivery("errors/!{firehose:error-output-type}/")),
]  # fmt: skip


def found(folder: Path, resource: dict[str, Any]) -> set[str]:
    """Return the ids of what `headrace lint` finds in a template of one resource."""
    of_mapping = resource["Type"] == "AWS::Lambda::EventSourceMapping"
    template = {"Resources": {"One": resource}, **({"Parameters": NUMBERS} if of_mapping else {})}
    file = folder / "template.json"
    file.write_text(json.dumps(template))
    answer = CliRunner().invoke(headrace, ["lint", str(file), "--format", "json"])
    return {match["Rule"]["Id"] for match in json.loads(answer.output)}


@pytest.mark.parametrize(("rule", "bad", "good"), CASES)
def test_a_defect_of_a_published_pattern_is_found(
    tmp_path: Path, rule: str, bad: dict[str, Any], good: dict[str, Any]
):
    assert rule in found(tmp_path, bad)
    assert rule not in found(tmp_path, good)
