"""DescribeType, ListTypes, ListTypeVersions."""

from __future__ import annotations

import json
from typing import Any

from tests.api.cloudformation.test_stacks import refused

QUEUE_ARN = "arn:aws:cloudformation:us-east-1::type/resource/AWS-SQS-Queue"


def test_types_that_are_here_are_described_and_listed(cfn: Any) -> None:
    queue = cfn.describe_type(Type="RESOURCE", TypeName="AWS::SQS::Queue")
    assert queue["Arn"] == QUEUE_ARN
    assert (queue["Visibility"], queue["ProvisioningType"]) == ("PUBLIC", "FULLY_MUTABLE")
    schema = json.loads(queue["Schema"])
    assert "VisibilityTimeout" in schema["properties"]
    # CDK asks for these before it patches a resource.
    assert "/properties/QueueName" in schema["createOnlyProperties"]
    assert "/properties/VisibilityTimeout" not in schema["createOnlyProperties"]
    partition = cfn.describe_type(Type="RESOURCE", TypeName="AWS::Glue::Partition")
    fixed = json.loads(partition["Schema"])["createOnlyProperties"]
    assert "/properties/PartitionInput/Values" in fixed
    assert "/properties/PartitionInput" not in fixed
    assert cfn.describe_type(Arn=QUEUE_ARN)["TypeName"] == "AWS::SQS::Queue"
    (version,) = cfn.list_type_versions(Arn=QUEUE_ARN)["TypeVersionSummaries"]
    assert version["IsDefaultVersion"]
    prefix = {"Category": "AWS_TYPES", "TypeNamePrefix": "AWS::Kinesis"}
    pages = cfn.get_paginator("list_types").paginate(
        Visibility="PUBLIC", Filters=prefix, PaginationConfig={"PageSize": 2}
    )
    names = [one["TypeName"] for page in pages for one in page["TypeSummaries"]]
    assert {"AWS::Kinesis::Stream", "AWS::KinesisFirehose::DeliveryStream"} <= set(names)
    assert names == sorted(set(names))
    assert cfn.list_types()["TypeSummaries"] == []


def test_types_that_are_not_here_are_refused(cfn: Any) -> None:
    assert refused(cfn.describe_type, Type="RESOURCE", TypeName="AWS::No::Type") == (
        "TypeNotFoundException",
        "The type 'AWS::No::Type' cannot be found.",
    )
    assert refused(cfn.describe_type, Type="MODULE", TypeName="AWS::SQS::Queue")[0] == (
        "TypeNotFoundException"
    )
    assert refused(cfn.describe_type)[0] == "ValidationError"
