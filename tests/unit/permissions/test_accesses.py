"""Which actions and resources requests stand for; names are held against botocore's operations and AWS's reference."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from headrace.permissions.requests.accesses import RENAMED, accesses_of, needs_nothing, why_unknown
from headrace.permissions.requests.table import prefix_named, prefix_of, services
from tests.support.owned import OWNED
from tests.unit.permissions.parties import ACCOUNT, STREAM
from tests.unit.permissions.requests import CASES, KEY, KNOWN, ON_KEY, REGION, ROLE, arn
from tests.unit.test_model_coverage import NOT_BUILT


def pairs(service: str, operation: str, parameters: dict[str, Any]) -> list[tuple[str, str]]:
    found = accesses_of(
        service, operation, parameters, ACCOUNT, REGION, lambda *named: KNOWN.get(named)
    )
    return [(access.action, access.resource) for access in found]


@pytest.mark.parametrize(("service", "operation", "parameters", "expected"), CASES)
def test_a_request_stands_for(
    service: str, operation: str, parameters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert pairs(service, operation, parameters) == expected


@pytest.mark.parametrize("service", OWNED)
def test_every_operation_of_an_owned_service_has_an_action_that_aws_knows(service: str) -> None:
    model = botocore.session.get_session().get_service_model(service)
    for operation in model.operation_names:
        if operation in NOT_BUILT.get(service, ()) and why_unknown(service, operation):
            continue  # newer than the table
        assert why_unknown(service, operation) == ""
        given = {
            name: f"some-{name}"
            for name in model.operation_model(operation).input_shape.required_members
        }
        if operation == "DeleteObjects":
            given["Delete"] = {"Objects": [{"Key": "k"}]}
        found = accesses_of(service, operation, given, ACCOUNT, REGION)
        assert found, operation
        for access in found:
            name, _, action = access.action.partition(":")
            prefix = prefix_named(name)
            # Requests for directory buckets and object lambdas need actions of services that the table leaves out.
            assert prefix is None or action.lower() in prefix.actions, access.action
            assert prefix is not None or name in ("s3express", "s3-object-lambda")


def test_what_is_renamed_has_no_action_of_its_own_and_the_rest_of_the_long_tail_says_why() -> None:
    unknown: dict[str, int] = {}
    for service in services():
        prefix = prefix_of(service)
        assert prefix is not None
        names = botocore.session.get_session().get_service_model(service).operation_names
        assert {name for of_service, name in RENAMED if of_service == service} <= set(names)
        reasons = [why_unknown(service, name) for name in names if not needs_nothing(service, name)]
        unknown[service] = sum(1 for reason in reasons if reason)
    # By name, what no source says; operations newer than the table's data.
    assert {service: count for service, count in unknown.items() if count} == {
        "athena": 5, "autoscaling": 3, "backup": 19, "batch": 4, "budgets": 15, "cloudformation": 2, "cloudfront": 14,
        "cloudtrail": 28, "cloudwatch": 7, "codebuild": 17, "codedeploy": 8, "cognito-idp": 21, "config": 46, "dms":
        14, "dynamodb": 4, "ec2": 94, "ecr": 1, "ecs": 7, "efs": 3, "eks": 4, "elasticache": 4, "elbv2": 1, "es": 1,
        "glue": 48, "iam": 3, "iot": 2, "kafka": 9, "kinesisanalyticsv2": 8, "lakeformation": 4, "lambda": 3, "mq":
        10, "opensearch": 1, "organizations": 29, "rds": 54, "resource-groups": 1, "route53": 12, "s3tables": 10,
        "sagemaker": 72, "secretsmanager": 3, "servicecatalog-appregistry": 14, "servicediscovery": 3, "ses": 1,
        "sesv2": 20, "ssm": 2, "sts": 1, "timestream-query": 2, "wafv2": 7, "xray": 2,
    }  # fmt: skip
    assert why_unknown("guardduty", "ListDetectors") == (
        "No table says which actions guardduty needs."
    )
    assert why_unknown("ecs", "DeleteGateway") == (
        "A request of ecs's DeleteGateway does not say which resource it is for."
    )
    assert why_unknown("cognito-idp", "SignUp") == "AWS lets everybody call SignUp."
    assert why_unknown("ecr", "ListImageReferrers") == (
        "No source says which action ecr's ListImageReferrers needs."
    )


def context_of(service: str, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return dict(
        accesses_of(service, operation, parameters, ACCOUNT, REGION, lambda *n: KNOWN.get(n))[
            0
        ].context
    )


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "key", "values"),
    [
        ("s3", "ListObjectsV2", {"Bucket": "b", "Prefix": "home/"}, "s3:prefix", ("home/",)),
        (
            "s3",
            "PutObject",
            {**ON_KEY, "ServerSideEncryption": "aws:kms"},
            "s3:x-amz-server-side-encryption",
            ("aws:kms",),
        ),
        ("s3", "PutObject", {**ON_KEY, "Tagging": "Team=x"}, "s3:requestobjecttag/team", ("x",)),
        (
            "lambda",
            "UpdateEventSourceMapping",
            {"UUID": "u-1"},
            "lambda:functionarn",
            (arn("lambda", "function:f"),),
        ),
        (
            "lambda",
            "CreateEventSourceMapping",
            {"FunctionName": "f"},
            "lambda:functionarn",
            (arn("lambda", "function:f"),),
        ),
        (
            "sqs",
            "CreateQueue",
            {"QueueName": "q", "tags": {"Team": "x"}},
            "aws:requesttag/team",
            ("x",),
        ),
        (
            "kinesis",
            "AddTagsToStream",
            {"StreamName": "s", "Tags": {"a": "1", "b": "2"}},
            "aws:tagkeys",
            ("a", "b"),
        ),
        ("kinesis", "PutRecord", {"StreamName": "s"}, "aws:requestedregion", (REGION,)),
        (
            "kms",
            "Decrypt",
            {"KeyId": KEY, "EncryptionContext": {"App": "x"}},
            "kms:encryptioncontext:app",
            ("x",),
        ),
        ("sts", "AssumeRole", {"RoleArn": ROLE, "ExternalId": "e"}, "sts:externalid", ("e",)),
        (
            "cloudformation",
            "CreateStack",
            {"StackName": "a", "RoleARN": ROLE},
            "cloudformation:rolearn",
            (ROLE,),
        ),
        ("cloudwatch", "PutMetricData", {"Namespace": "App"}, "cloudwatch:namespace", ("App",)),
    ],
)
def test_a_request_gives_condition_keys(
    service: str, operation: str, parameters: dict[str, Any], key: str, values: tuple[str, ...]
) -> None:
    assert context_of(service, operation, parameters)[key] == values


def test_a_role_is_passed_to_the_service_that_takes_it() -> None:
    found = accesses_of(
        "emr", "RunJobFlow", {"ServiceRole": "s", "JobFlowRole": "n"}, ACCOUNT, REGION
    )
    to = {a.resource: a.context["iam:passedtoservice"] for a in found if a.action == "iam:PassRole"}
    assert list(to.values()) == [("elasticmapreduce.amazonaws.com",), ("ec2.amazonaws.com",)]


def test_a_key_is_used_by_the_service() -> None:
    access = accesses_of(
        "kinesis", "GetRecords", {"StreamARN": f"{STREAM}-secret"}, ACCOUNT, REGION, lambda *n: KNOWN.get(n)
    )[1]  # fmt: skip
    assert access.context["kms:viaservice"] == ("kinesis.eu-west-1.amazonaws.com",)


def test_a_bucket_belongs_to_its_owner() -> None:
    for bucket, account in (("b", ACCOUNT), ("elsewhere", "444455556666")):
        (access,) = accesses_of(
            "s3", "GetObject", {"Bucket": bucket, "Key": "k"}, ACCOUNT, REGION, lambda *n: KNOWN.get(n)
        )  # fmt: skip
        assert access.account == account


def test_tags_that_are_cloudformations_own_need_no_leave() -> None:
    system = {"aws:cloudformation:stack-name": "s"}
    pairs_of = [{"Key": key, "Value": value} for key, value in system.items()]
    assert pairs("lambda", "TagResource", {"Resource": "x", "Tags": system}) == []
    tagging = {"Bucket": "lake", "Tagging": {"TagSet": pairs_of}}
    assert pairs("s3", "PutBucketTagging", tagging) == []
    stream = {"StreamName": "s", "Tags": system}
    assert [action for action, _ in pairs("kinesis", "CreateStream", stream)] == [
        "kinesis:CreateStream"
    ]
    both = {"Resource": "x", "Tags": {**system, "own": "1"}}
    assert [action for action, _ in pairs("lambda", "TagResource", both)] == ["lambda:TagResource"]
