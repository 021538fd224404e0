"""`headrace iam`: reports, explanations and policies of a running cloud, and one sentence for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from headrace.cli import options
from headrace.cli.commands import headrace
from headrace.testing.clouds import ServedCloud
from tests.support.iam import allow, statements, trust

STREAM = "arn:aws:kinesis:us-east-1:000000000000:stream/flights"
ROLE = "arn:aws:iam::000000000000:role/putter"


@pytest.fixture(scope="module")
def cloud() -> Iterator[ServedCloud]:
    with ServedCloud() as cloud:
        iam = cloud.client("iam")
        document = json.dumps(trust("lambda.amazonaws.com"))
        iam.create_role(RoleName="putter", AssumeRolePolicyDocument=document)
        policy = json.dumps(statements(allow("kinesis:PutRecords", STREAM)))
        iam.put_role_policy(RoleName="putter", PolicyName="own", PolicyDocument=policy)
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        keys = cloud.client("sts").assume_role(RoleArn=ROLE, RoleSessionName="me")["Credentials"]
        as_role = cloud.session().client(
            "kinesis",
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
        as_role.put_record(StreamName="flights", Data=b"1", PartitionKey="a")
        yield cloud


def run(cloud: ServedCloud, *arguments: str) -> tuple[int, str]:
    url = str(cloud.endpoint_url)
    done = CliRunner().invoke(headrace, ["iam", *arguments, "--endpoint-url", url])
    return done.exit_code, done.output


def test_it_reports_what_aws_would_deny(cloud: ServedCloud):
    code, text = run(cloud, "report")
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "AWS would deny 1 thing that was done here:"
    assert lines[1] == f"  role/putter: kinesis:PutRecord on {STREAM}"
    assert lines[2].endswith("because no identity-based policy allows the kinesis:PutRecord action")
    assert json.loads(run(cloud, "report", "--json")[1])["denied"][0]["count"] == 1


def test_a_report_and_a_decision_fit_a_terminal(
    cloud: ServedCloud, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(options, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (("report",), ("why", ROLE, "kinesis:PutRecords", STREAM)):
        # An ARN is one word, so that it can be copied.
        assert max(map(len, run(cloud, *arguments)[1].splitlines())) <= 80


def test_it_explains_a_decision(cloud: ServedCloud):
    assert run(cloud, "why", ROLE, "kinesis:PutRecords", STREAM)[1].startswith("Allowed by")
    assert "does not apply" in run(cloud, "why", ROLE, "kinesis:PutRecord", STREAM)[1]


def test_it_writes_the_smallest_policy(cloud: ServedCloud):
    code, text = run(cloud, "policy", "putter")
    assert code == 0
    assert '"kinesis:PutRecord"' in text
    assert "Nobody used: own, statement 1" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("why", "putter", "a:B"), "'putter' is neither the ARN of a role"),
        (("why", ROLE, "put"), "An action is one such as kinesis:PutRecords, not 'put'."),
        (("policy", "nobody"), "role/nobody does not exist in IAM, and nobody acted as it."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    cloud: ServedCloud, arguments: tuple[str, ...], sentence: str
):
    code, text = run(cloud, *arguments)
    assert code == 1
    assert sentence in text
    assert len(text.splitlines()) == 1


def test_without_a_cloud_it_says_how_to_start_one():
    url = "http://127.0.0.1:1"
    done = CliRunner().invoke(headrace, ["iam", "report", "--endpoint-url", url])
    assert done.exit_code == 1
    assert "start one: headrace up" in done.output
