"""The pages that explain decisions and write the smallest policy; and what they say to bad questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.permissions.decisions.report import in_words
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/flights"
RECORDS = [{"Data": b"1", "PartitionKey": "a"}]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("answers")) as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        make_role(
            cloud,
            "putter",
            allow(["kinesis:PutRecords", "kinesis:PutRecord"], STREAM),
            {**allow("s3:*", "*"), "Sid": "Idle"},
        )
        as_role(cloud, "putter", "kinesis").put_records(StreamName="flights", Records=RECORDS)
        yield cloud


def page(cloud: InProcessCloud, path: str, method: str = "GET", **query: str) -> tuple[int, Any]:
    headers = {"host": "127.0.0.1:4566"}
    request = HttpRequest(method, f"/_headrace/iam{path}", urlencode(query), headers, b"")
    answer = cloud.handle(request)
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def test_the_smallest_policy_and_what_nobody_used(cloud: InProcessCloud):
    status, found = page(cloud, "/policy", role="putter")
    assert status == 200
    (statement,) = found["policy"]["Statement"]
    assert statement["Action"] == "kinesis:PutRecords"
    assert statement["Resource"] == (
        "arn:${AWS::Partition}:kinesis:${AWS::Region}:${AWS::AccountId}:stream/flights"
    )
    assert found["unused"] == ["own, statement 1: kinesis:PutRecord", "own, statement 2 (Idle)"]


def test_a_decision_is_explained_statement_by_statement(cloud: InProcessCloud):
    arn = f"arn:aws:iam::{ACCOUNT}:role/putter"
    assert page(cloud, "/why", arn=arn, action="kinesis:PutRecord", resource=STREAM)[1]["allowed"]
    _, denied = page(cloud, "/why", arn=arn, action="kinesis:DeleteStream", resource=STREAM)
    assert not denied["allowed"]
    assert "is not authorized to perform: kinesis:DeleteStream" in denied["lines"][0]
    assert [each["verdict"] for each in denied["statements"]] == ["does not apply"] * 2


@pytest.mark.parametrize(
    ("path", "query", "sentence"),
    [
        ("/policy", {}, "Name a role, or its ARN."),
        (
            "/policy",
            {"role": "nobody"},
            f"arn:aws:iam::{ACCOUNT}:role/nobody does not exist in IAM, and nobody acted as it.",
        ),
        (
            "/policy",
            {"role": "Putt"},
            f"arn:aws:iam::{ACCOUNT}:role/Putt does not exist in IAM, and nobody acted as it; of such names there is"
            " putter.",
        ),
        (
            "/why",
            {"arn": "putter", "action": "a:B"},
            "'putter' is neither the ARN of a role or user nor a service such as lambda.amazonaws.com.",
        ),
        (
            "/why",
            {"arn": f"arn:aws:iam::{ACCOUNT}:role/putter", "action": "put"},
            "An action is one such as kinesis:PutRecords, not 'put'.",
        ),
        (
            "/why",
            {
                "arn": f"arn:aws:iam::{ACCOUNT}:role/putter",
                "action": "s3:GetObject",
                "resource": "b",
            },
            "A resource is an ARN or *, not 'b'.",
        ),
    ],
)
def test_a_bad_question_gets_one_sentence(
    cloud: InProcessCloud, path: str, query: dict[str, str], sentence: str
):
    assert page(cloud, path, **query) == (400, {"message": sentence})


def test_the_report_is_read_and_forgotten(cloud: InProcessCloud):
    assert page(cloud, "", format="json")[1]["denied"] == []
    assert page(cloud, "", method="POST")[0] == 405
    rows = page(cloud, "/accesses")[1]["accesses"]
    assert {row["action"] for row in rows} == {"kinesis:PutRecords"}
    assert page(cloud, "", method="DELETE")[1] == {"forgotten": 1}
    assert page(cloud, "/accesses")[1]["accesses"] == []


def test_an_action_that_aws_does_not_have_is_named(cloud: InProcessCloud):
    arn = f"arn:aws:iam::{ACCOUNT}:role/putter"
    _, found = page(cloud, "/why", arn=arn, action="kinesis:PutRecordz", resource=STREAM)
    assert found["lines"][-1] == "  AWS's list of the actions of kinesis has no PutRecordz."


def test_many_resources_of_one_folder_are_one_line():
    row = {"principal": "arn:aws:iam::1:role/r", "action": "s3:PutObject", "reason": "because", "count": 2}  # fmt: skip
    rows = [{**row, "resource": f"arn:aws:s3:::b/{n}"} for n in range(6)]
    report = {"mode": "report", "denied": rows, "not_judged": 7, "accesses": 9, "callers": 1}
    assert in_words(report) == [
        "AWS would deny 1 thing that was done here:",
        "  role/r: s3:PutObject on 6 resources in arn:aws:s3:::b/* (12 times)",
        "    because",
        "Not looked at: 7 calls, of very many different resources.",
    ]
    assert len(in_words({**report, "denied": rows[:5], "not_judged": 0})) == 11
