"""Who calls is judged: what AWS would deny is noted in report mode, and denied in its words in enforce mode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from headrace.permissions.decisions.report import in_words, report_of
from headrace.testing.clock import MovableClock
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements, trust

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/flights"
NOT = "is not authorized to perform:"
BECAUSE = "because no identity-based policy allows the kinesis:PutRecord action"
RECORDS = [{"Data": b"1", "PartitionKey": "a"}]


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("enforce"), iam="enforce") as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        cloud.client("s3").create_bucket(Bucket="box")
        yield cloud


@pytest.fixture(scope="module")
def reporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("report")) as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        yield cloud


def test_a_role_may_do_what_its_policy_allows_and_nothing_else(enforcing: InProcessCloud):
    make_role(enforcing, "putter", allow("kinesis:PutRecords", STREAM))
    kinesis = as_role(enforcing, "putter", "kinesis")
    assert kinesis.put_records(StreamName="flights", Records=RECORDS)["FailedRecordCount"] == 0
    assert refusal(kinesis.put_record, StreamName="flights", Data=b"1", PartitionKey="a") == (
        "AccessDeniedException",
        400,
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/putter/s1 {NOT} kinesis:PutRecord on resource: {STREAM} {BECAUSE}",
    )


def test_reading_asks_for_the_stream_of_the_iterator(enforcing: InProcessCloud):
    make_role(enforcing, "looker", allow("kinesis:GetShardIterator", STREAM))
    kinesis = as_role(enforcing, "looker", "kinesis")
    iterator = kinesis.get_shard_iterator(
        StreamName="flights", ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    code, _, sentence = refusal(kinesis.get_records, ShardIterator=iterator)
    assert code == "AccessDeniedException"
    assert f"kinesis:GetRecords on resource: {STREAM} because" in sentence


def test_s3_refuses_in_xml_and_hides_what_is_missing(enforcing: InProcessCloud):
    objects = "arn:aws:s3:::box/in/*"
    make_role(enforcing, "reader", allow(["s3:GetObject", "s3:PutObject"], objects))
    s3 = as_role(enforcing, "reader", "s3")
    s3.put_object(Bucket="box", Key="in/a", Body=b"1")
    assert s3.get_object(Bucket="box", Key="in/a")["Body"].read() == b"1"
    code, status, sentence = refusal(s3.put_object, Bucket="box", Key="out/a", Body=b"1")
    assert (code, status) == ("AccessDenied", 403)
    assert 's3:PutObject on resource: "arn:aws:s3:::box/out/a" because' in sentence
    # Who may not list the bucket is not told that there is no such object.
    assert refusal(s3.get_object, Bucket="box", Key="in/b")[0] == "AccessDenied"


def test_a_changed_policy_holds_at_once(enforcing: InProcessCloud):
    make_role(enforcing, "changing", allow("kinesis:PutRecords", STREAM))
    kinesis, iam = as_role(enforcing, "changing", "kinesis"), enforcing.client("iam")
    for _ in range(3):
        kinesis.put_records(StreamName="flights", Records=RECORDS)
        denied = {**allow("kinesis:PutRecords", STREAM), "Effect": "Deny"}
        iam.put_role_policy(
            RoleName="changing", PolicyName="no", PolicyDocument=json.dumps(statements(denied))
        )
        refused = refusal(kinesis.put_records, StreamName="flights", Records=RECORDS)
        assert refused[2].endswith("with an explicit deny in an identity-based policy")
        iam.delete_role_policy(RoleName="changing", PolicyName="no")


def test_a_user_is_himself_and_the_account_may_do_everything(enforcing: InProcessCloud):
    iam = enforcing.client("iam")
    user = iam.create_user(UserName="ann")["User"]
    key = iam.create_access_key(UserName="ann")["AccessKey"]
    kinesis = enforcing.client("kinesis", account=key["AccessKeyId"])
    assert refusal(kinesis.put_records, StreamName="flights", Records=RECORDS)[2].startswith(
        f"User: {user['Arn']} is not"
    )
    assert (
        enforcing.client("sts", account=key["AccessKeyId"]).get_caller_identity()["Arn"]
        == user["Arn"]
    )
    enforcing.client("kinesis").put_records(StreamName="flights", Records=RECORDS)


def test_motos_services_refuse_in_their_own_form(enforcing: InProcessCloud):
    make_role(enforcing, "nobody", allow("kinesis:PutRecords", STREAM))
    sqs, sns = (as_role(enforcing, "nobody", name) for name in ("sqs", "sns"))
    assert refusal(sqs.list_queues)[:2] == ("AccessDenied", 403)
    assert refusal(sns.list_topics)[:2] == ("AuthorizationError", 403)


def test_only_whom_the_role_trusts_becomes_it(enforcing: InProcessCloud):
    make_role(enforcing, "caller", allow("sts:AssumeRole", "*"))
    make_role(
        enforcing, "callee", allow("kinesis:PutRecords", STREAM), trusts="lambda.amazonaws.com"
    )
    sts = as_role(enforcing, "caller", "sts")
    arn = f"arn:aws:iam::{ACCOUNT}:role/callee"
    assert refusal(sts.assume_role, RoleArn=arn, RoleSessionName="x1")[0] == "AccessDenied"
    document = json.dumps(trust(f"arn:aws:iam::{ACCOUNT}:role/caller"))
    enforcing.client("iam").update_assume_role_policy(RoleName="callee", PolicyDocument=document)
    assert sts.assume_role(RoleArn=arn, RoleSessionName="x1")["Credentials"]


def test_a_session_policy_narrows_a_role(enforcing: InProcessCloud):
    make_role(enforcing, "wide", allow("kinesis:*", "*"))
    narrow = json.dumps(statements(allow("kinesis:PutRecords", "*")))
    kinesis = as_role(enforcing, "wide", "kinesis", policy=narrow)
    kinesis.put_records(StreamName="flights", Records=RECORDS)
    assert "because no session policy allows" in refusal(kinesis.list_streams)[2]


def test_a_session_outlives_its_role_for_nothing(enforcing: InProcessCloud):
    make_role(enforcing, "gone", allow("kinesis:PutRecords", STREAM))
    kinesis = as_role(enforcing, "gone", "kinesis")
    kinesis.put_records(StreamName="flights", Records=RECORDS)
    iam = enforcing.client("iam")
    iam.delete_role_policy(RoleName="gone", PolicyName="own")
    iam.delete_role(RoleName="gone")
    refused = refusal(kinesis.put_records, StreamName="flights", Records=RECORDS)
    # Assumed: AWS's users see this sentence after they have deleted the role of a running function.
    assert refused[0] == "UnrecognizedClientException"
    assert refused[2] == "The security token included in the request is invalid."


def test_a_report_names_who_what_on_which_and_why(reporting: InProcessCloud):
    make_role(reporting, "reported", allow("kinesis:PutRecords", STREAM))
    kinesis = as_role(reporting, "reported", "kinesis")
    for _ in range(3):
        kinesis.put_record(StreamName="flights", Data=b"1", PartitionKey="a")
        kinesis.put_records(StreamName="flights", Records=RECORDS)
    report = report_of(reporting.cloud.decisions)
    (row,) = [r for r in report["denied"] if r["principal"].endswith("role/reported")]
    assert (row["action"], row["resource"], row["count"]) == ("kinesis:PutRecord", STREAM, 3)
    assert row["reason"].endswith("no identity-based policy allows the kinesis:PutRecord action")
    assert any("role/reported: kinesis:PutRecord on" in line for line in in_words(report))


def test_what_was_done_is_judged_by_the_policies_of_its_time(reporting: InProcessCloud):
    make_role(reporting, "later", allow("kinesis:PutRecords", STREAM))
    as_role(reporting, "later", "kinesis").put_records(StreamName="flights", Records=RECORDS)
    iam = reporting.client("iam")
    iam.delete_role_policy(RoleName="later", PolicyName="own")
    iam.delete_role(RoleName="later")
    denied = report_of(reporting.cloud.decisions)["denied"]
    assert not [row for row in denied if row["principal"].endswith("role/later")]


def test_a_role_that_is_not_there_is_one_row(reporting: InProcessCloud):
    kinesis = as_role(reporting, "nowhere", "kinesis")
    kinesis.put_records(StreamName="flights", Records=RECORDS)
    kinesis.list_streams()
    denied = report_of(reporting.cloud.decisions)["denied"]
    (row,) = [row for row in denied if row["principal"].endswith("role/nowhere")]
    assert row["reason"] == f"arn:aws:iam::{ACCOUNT}:role/nowhere does not exist in IAM"
    assert row["count"] == 2


def test_off_looks_at_nothing(tmp_path_factory: pytest.TempPathFactory):
    with InProcessCloud(tmp_path_factory.mktemp("off"), iam="off") as cloud:
        with pytest.raises(ClientError):
            as_role(cloud, "nowhere", "kinesis").describe_stream_summary(StreamName="no")
        assert report_of(cloud.cloud.decisions)["accesses"] == 0


def test_the_policy_of_a_repository_is_none_of_an_identity(reporting: InProcessCloud):
    # As `cdk bootstrap` gives one: a principal, and no resource.
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "ecr:BatchGetImage",
    }
    ecr = reporting.client("ecr")
    ecr.create_repository(repositoryName="images")
    text = json.dumps(statements(statement))
    ecr.set_repository_policy(repositoryName="images", policyText=text)
    kept = ecr.get_repository_policy(repositoryName="images")["policyText"]
    assert json.loads(kept)["Statement"] == [statement]


def test_conditions_on_time_and_place_are_those_of_the_call(
    tmp_path_factory: pytest.TempPathFactory,
):
    """reference_policies_examples_aws-dates.html, with the cloud's clock; a decision on the time is not kept."""
    clock = MovableClock()
    with InProcessCloud(tmp_path_factory.mktemp("time"), iam="enforce", clock=clock) as cloud:
        until = datetime.fromtimestamp(clock.now_ms() / 1000 + 600, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        here = {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}
        make_role(
            cloud,
            "timed",
            {**allow("kinesis:ListStreams", "*"), "Condition": {"DateLessThan": {"aws:CurrentTime": until}}},
            {**allow("sqs:ListQueues", "*"), "Condition": here},
            {**allow("sns:ListTopics", "*"), "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}},
        )  # fmt: skip
        kinesis, sqs, sns = (as_role(cloud, "timed", name) for name in ("kinesis", "sqs", "sns"))
        assert kinesis.list_streams()["StreamNames"] == []
        clock.advance(601)
        assert refusal(kinesis.list_streams)[0] == "AccessDeniedException"
        sqs.list_queues()
        assert refusal(sns.list_topics)[0] == "AuthorizationError"
