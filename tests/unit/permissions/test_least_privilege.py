"""The smallest policy for what a role did, and what nobody used."""

from __future__ import annotations

import json

from headrace.permissions.decisions.explanations import (
    Unused,
    find_unused_statements,
    least_policy,
)
from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.grammar import check_policy
from headrace.permissions.policies.model import Access, NamedPolicy, Policies
from tests.unit.permissions.parties import ACCOUNT, MAPPER, STREAM, allow, deny, policy

REGION = "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/app"
DONE = [
    Access("kinesis:GetRecords", STREAM, ACCOUNT),
    Access("kinesis:GetShardIterator", STREAM, ACCOUNT),
    Access("kinesis:GetRecords", STREAM, ACCOUNT),
    Access("kinesis:ListStreams", "*", ACCOUNT),
    Access("s3:PutObject", "arn:aws:s3:::b/flights/2026/1.json", ACCOUNT),
    Access("s3:PutObject", "arn:aws:s3:::b/flights/2026/2.json", ACCOUNT),
    Access("s3:ListBucket", "arn:aws:s3:::b", ACCOUNT),
    Access("logs:PutLogEvents", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/f:log-stream:a", ACCOUNT),
    Access("iam:PassRole", ROLE, ACCOUNT, {"iam:passedtoservice": ("lambda.amazonaws.com",)}),
]  # fmt: skip


def test_the_policy_is_as_a_person_writes_it() -> None:
    arn = "arn:${AWS::Partition}:%s:${AWS::Region}:${AWS::AccountId}:%s"
    assert least_policy(DONE, ACCOUNT, REGION)["Statement"] == [
        {
            "Sid": "IamPass",
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/app",
            "Condition": {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}},
        },
        {
            "Sid": "KinesisGet",
            "Effect": "Allow",
            "Action": ["kinesis:GetRecords", "kinesis:GetShardIterator"],
            "Resource": arn % ("kinesis", "stream/flights"),
        },
        {"Sid": "KinesisList", "Effect": "Allow", "Action": "kinesis:ListStreams", "Resource": "*"},
        {
            "Sid": "LogsPut",
            "Effect": "Allow",
            "Action": "logs:PutLogEvents",
            "Resource": arn % ("logs", "log-group:/f:*"),
        },
        {
            "Sid": "S3List",
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn:${AWS::Partition}:s3:::b",
        },
        {
            "Sid": "S3Put",
            "Effect": "Allow",
            "Action": "s3:PutObject",
            "Resource": "arn:${AWS::Partition}:s3:::b/flights/*",
        },
    ]


def test_the_policy_is_one_that_iam_takes_and_allows_what_was_done_and_not_more_actions() -> None:
    text = json.dumps(least_policy(DONE, ACCOUNT, REGION, with_variables=False))
    check_policy(text, "identity")
    own = Policies((NamedPolicy.of("least", text),))
    assert all(evaluate(MAPPER, access, own).allowed for access in DONE)
    assert not evaluate(MAPPER, Access("kinesis:PutRecord", STREAM), own).allowed
    assert not evaluate(MAPPER, Access("kinesis:GetRecords", f"{STREAM}-2"), own).allowed
    passing = Access("iam:PassRole", ROLE, ACCOUNT, {"iam:passedtoservice": ("ec2.amazonaws.com",)})
    assert not evaluate(MAPPER, passing, own).allowed


def test_what_nobody_used_is_named() -> None:
    own = policy(
        allow(["kinesis:Get*", "kinesis:PutRecord"], STREAM, Sid="Stream"),
        allow("dynamodb:*", Sid="Table"),
        allow("s3:*"),
        deny("iam:*"),
        name="app",
    )
    assert find_unused_statements(MAPPER, DONE, Policies((own,))) == (
        Unused("app", 1, "Stream", ("kinesis:PutRecord",), is_whole=False),
        Unused("app", 2, "Table", ("dynamodb:*",), is_whole=True),
    )
