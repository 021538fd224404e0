"""Sessions of roles: they end, they outlast the cloud's process, and nobody else's keys are taken for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.clock import MovableClock
from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, refusal, statements
from tests.support.server import wait_until

CONFLICT = (
    "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key from"
    " the calling session."
)
TOO_MANY_SECONDS = (
    "1 validation error detected: Value '43201' at 'durationSeconds' failed to satisfy constraint: Member must"
    " have value less than or equal to 43200"
)
ROOT = f"arn:aws:iam::{ACCOUNT}:root"


def test_a_session_ends_when_its_time_is_over(tmp_path: Path):
    clock = MovableClock()
    with InProcessCloud(tmp_path / "data", clock=clock) as cloud:
        make_role(cloud, "short", allow("kinesis:ListStreams", "*"))
        kinesis, s3, sqs = (as_role(cloud, "short", name) for name in ("kinesis", "s3", "sqs"))
        assert kinesis.list_streams()["StreamNames"] == []
        clock.advance(3600)
        expired = "The security token included in the request is expired"
        assert refusal(kinesis.list_streams) == ("ExpiredTokenException", 400, expired)
        assert refusal(sqs.list_queues)[0] in ("ExpiredToken", "ExpiredTokenException")
        assert refusal(s3.list_buckets) == ("ExpiredToken", 400, "The provided token has expired.")


def test_a_session_is_itself_after_a_restart_and_no_token_is_anothers(tmp_path: Path):
    with InProcessCloud(tmp_path / "data") as cloud:
        make_role(cloud, "lasting", allow("kinesis:ListStreams", "*"))
        arn = f"arn:aws:iam::{ACCOUNT}:role/lasting"
        assume = cloud.client("sts").assume_role
        one, two = (assume(RoleArn=arn, RoleSessionName=n)["Credentials"] for n in ("s1", "s2"))
    with InProcessCloud(tmp_path / "data") as cloud:

        def sts(key: str, token: str) -> Any:
            return client_of("sts", cloud.handle, account=key, region=REGION, token=token)

        found = sts(one["AccessKeyId"], one["SessionToken"]).get_caller_identity()["Arn"]
        assert found == f"arn:aws:sts::{ACCOUNT}:assumed-role/lasting/s1"
        mixed = sts(one["AccessKeyId"], two["SessionToken"])
        assert refusal(mixed.get_caller_identity) == (
            "InvalidClientTokenId",
            403,
            "The security token included in the request is invalid.",
        )


@pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "test", "123456789012"])
def test_keys_that_nobody_made_are_the_accounts_own(tmp_path: Path, key: str):
    with InProcessCloud(tmp_path / "data", iam="enforce") as cloud:
        kinesis = client_of("kinesis", cloud.handle, account=key, region=REGION)
        assert kinesis.list_streams()["StreamNames"] == []


# --- what a session is asked for, and what it carries ---------------------------------------------


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("sessions"), iam="enforce") as cloud:
        for name in ("first", "second", "narrow"):
            make_role(cloud, name, allow("*", "*"), trusts=ROOT)
        yield cloud


def arn(role: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{role}"


def client(cloud: InProcessCloud, service: str, keys: dict[str, Any]) -> Any:
    return client_of(
        service,
        cloud.handle,
        account=keys["AccessKeyId"],
        region=REGION,
        token=keys["SessionToken"],
    )


def assume(sts: Any, role: str, **params: Any) -> dict[str, Any]:
    return sts.assume_role(RoleArn=arn(role), RoleSessionName="ses", **params)


def trust_with_tags(cloud: InProcessCloud, role: str, condition: dict[str, Any]) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ROOT},
        "Action": ["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"],
        "Condition": condition,
    }
    cloud.client("iam").update_assume_role_policy(
        RoleName=role, PolicyDocument=json.dumps(statements(statement))
    )


def test_tags_of_a_session_are_keys_of_its_calls_and_are_inherited(enforcing: InProcessCloud):
    """The chain of id_session-tags.html: a transitive tag goes on, another one does not."""
    trust_with_tags(enforcing, "first", {})
    trust_with_tags(enforcing, "second", {"StringEquals": {"aws:PrincipalTag/team": "blue"}})
    sts = enforcing.client("sts")
    tags = [{"Key": "team", "Value": "blue"}, {"Key": "cost", "Value": "1"}]
    first = assume(sts, "first", Tags=tags, TransitiveTagKeys=["Team"])["Credentials"]
    chained = client(enforcing, "sts", first)
    other = [{"Key": "TEAM", "Value": "red"}]
    assert refusal(
        chained.assume_role, RoleArn=arn("second"), RoleSessionName="ses", Tags=other
    ) == (
        "InvalidParameterValue",
        400,
        CONFLICT,
    )
    second = assume(chained, "second")["Credentials"]
    of_team = {
        **allow("kinesis:ListStreams", "*"),
        "Condition": {"StringEquals": {"aws:PrincipalTag/Team": "blue"}},
    }
    of_cost = {
        **allow("sqs:ListQueues", "*"),
        "Condition": {"StringLike": {"aws:PrincipalTag/cost": "*"}},
    }
    enforcing.client("iam").put_role_policy(
        RoleName="second", PolicyName="own", PolicyDocument=json.dumps(statements(of_team, of_cost))
    )
    assert client(enforcing, "kinesis", second).list_streams()["StreamNames"] == []
    assert refusal(client(enforcing, "sqs", second).list_queues)[0] == "AccessDenied"
    untagged = assume(sts, "first")["Credentials"]
    refused = refusal(
        client(enforcing, "sts", untagged).assume_role,
        RoleArn=arn("second"),
        RoleSessionName="ses",
    )
    assert refused[0] == "AccessDenied"


def test_whom_a_trust_policy_lets_tag_may_tag(enforcing: InProcessCloud):
    first = client(enforcing, "sts", assume(enforcing.client("sts"), "first")["Credentials"])
    tags = [{"Key": "team", "Value": "blue"}]
    refused = refusal(first.assume_role, RoleArn=arn("narrow"), RoleSessionName="ses", Tags=tags)
    assert refused[0] == "AccessDenied"
    assert "is not authorized to perform: sts:TagSession" in refused[2]


@pytest.mark.parametrize(
    ("params", "code", "sentence"),
    [
        ({"Tags": [{"Key": "a", "Value": "1"}, {"Key": "A", "Value": "2"}]}, "InvalidParameterValue",
         "Duplicate tag keys found. Please note that Tag keys are case insensitive."),
        ({"TransitiveTagKeys": ["a"]}, "InvalidParameterValue",
         "The specified transitive tag key must be included in the requested tags."),
        ({"DurationSeconds": 3601}, "ValidationError",
         "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."),
        ({"DurationSeconds": 43201}, "ValidationError",
         TOO_MANY_SECONDS),
        ({"Policy": "{}"}, "MalformedPolicyDocument", "Syntax errors in policy."),
        ({"Policy": " " * 4096}, "PackedPolicyTooLarge",
         "Packed policy consumes 200% of allotted space, please use smaller policy."),
        ({"PolicyArns": [{"arn": "arn:aws:iam::aws:policy/NoSuchPolicy"}]}, "NoSuchEntity",
         "Policy arn:aws:iam::aws:policy/NoSuchPolicy does not exist or is not attachable."),
    ],
)  # fmt: skip
def test_what_a_session_may_not_be_asked_for(
    enforcing: InProcessCloud, params: dict[str, Any], code: str, sentence: str
):
    """Source: API_AssumeRole.html, and LocalStack's recorded sentences about tags."""
    sts = enforcing.client("sts")
    found = refusal(sts.assume_role, RoleArn=arn("first"), RoleSessionName="ses", **params)
    assert (found[0], found[2]) == (code, sentence)


def test_a_role_says_how_long_and_a_chain_lasts_an_hour(enforcing: InProcessCloud):
    enforcing.client("iam").update_role(RoleName="first", MaxSessionDuration=7200)
    first = assume(enforcing.client("sts"), "first", DurationSeconds=7200)["Credentials"]
    left = first["Expiration"] - datetime.now(UTC)
    assert timedelta(seconds=7000) < left <= timedelta(seconds=7200)
    chained = client(enforcing, "sts", first)
    found = refusal(
        chained.assume_role, RoleArn=arn("first"), RoleSessionName="ses", DurationSeconds=3601
    )
    assert found[2] == (
        "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."
    )


def test_managed_policies_and_a_text_limit_a_session_together(enforcing: InProcessCloud):
    text = json.dumps(statements(allow("kinesis:ListStreams", "*")))
    arns = [{"arn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"}]
    answer = assume(enforcing.client("sts"), "narrow", Policy=text, PolicyArns=arns)
    assert 0 < answer["PackedPolicySize"] <= 100
    keys = answer["Credentials"]
    assert client(enforcing, "kinesis", keys).list_streams()["StreamNames"] == []
    client(enforcing, "s3", keys).list_buckets()
    refused = refusal(client(enforcing, "s3", keys).create_bucket, Bucket="made-by-a-session")
    assert "because no session policy allows the s3:CreateBucket action" in refused[2]


@pytest.mark.parametrize("as_text", [True, False])
def test_what_a_limited_session_deploys_is_limited_too(enforcing: InProcessCloud, as_text: bool):
    make_role(
        enforcing, f"deployer-{as_text}", allow(["cloudformation:*", "kinesis:*", "sqs:*"], "*")
    )
    allowed = statements(allow(["cloudformation:*", "kinesis:*"], "*"))
    limits: dict[str, Any] = {"Policy": json.dumps(allowed)}
    if not as_text:
        managed = enforcing.client("iam").create_policy(
            PolicyName="streams-only", PolicyDocument=json.dumps(allowed)
        )
        limits = {"PolicyArns": [{"arn": managed["Policy"]["Arn"]}]}
    keys = assume(enforcing.client("sts"), f"deployer-{as_text}", **limits)["Credentials"]
    stacks = client(enforcing, "cloudformation", keys)
    name = f"limited-{as_text}".lower()
    template = {
        "Resources": {
            "S": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}},
            "Q": {"Type": "AWS::SQS::Queue", "DependsOn": "S"},
        }
    }
    stacks.create_stack(StackName=name, TemplateBody=json.dumps(template), DisableRollback=True)

    def status() -> str:
        return stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]

    wait_until(lambda: not status().endswith("PROGRESS"), what="the stack")
    assert status() == "CREATE_FAILED"
    (failed,) = [
        one["ResourceStatusReason"]
        for one in stacks.describe_stack_events(StackName=name)["StackEvents"]
        if (one["LogicalResourceId"], one["ResourceStatus"]) == ("Q", "CREATE_FAILED")
    ]
    assert "because no session policy allows the sqs:createqueue action" in failed.lower()
    enforcing.client("cloudformation").delete_stack(StackName=name)
    kinesis = enforcing.client("kinesis")
    wait_until(lambda: not kinesis.list_streams()["StreamNames"], what="the stream's end")


def test_a_source_identity_stays_that_of_the_first_of_a_chain(enforcing: InProcessCloud):
    trust_with_tags(enforcing, "first", {})
    trust_with_tags(enforcing, "second", {"StringEquals": {"aws:SourceIdentity": "ann"}})
    first = assume(enforcing.client("sts"), "first", SourceIdentity="ann")
    assert first["SourceIdentity"] == "ann"
    chained = client(enforcing, "sts", first["Credentials"])
    assert assume(chained, "second")["SourceIdentity"] == "ann"
    other = refusal(
        chained.assume_role, RoleArn=arn("second"), RoleSessionName="ses", SourceIdentity="bob"
    )
    assert other[2] == "The source identity is already set for this assume role session"


def test_an_external_id_is_asked_for_by_the_trust_policy(enforcing: InProcessCloud):
    trust_with_tags(enforcing, "second", {"StringEquals": {"sts:ExternalId": "unit-7"}})
    first = client(enforcing, "sts", assume(enforcing.client("sts"), "first")["Credentials"])
    refused = refusal(first.assume_role, RoleArn=arn("second"), RoleSessionName="ses")
    assert refused[0] == "AccessDenied"
    assert assume(first, "second", ExternalId="unit-7")["Credentials"]


def test_a_users_session_is_the_user_and_a_federated_one_has_what_both_allow(
    enforcing: InProcessCloud,
):
    iam = enforcing.client("iam")
    user = iam.create_user(UserName="ann")["User"]
    key = iam.create_access_key(UserName="ann")["AccessKey"]
    own = statements(allow(["kinesis:ListStreams", "sqs:ListQueues", "sts:*"], "*"))
    iam.put_user_policy(UserName="ann", PolicyName="own", PolicyDocument=json.dumps(own))
    sts = enforcing.client("sts", account=key["AccessKeyId"])
    mine = sts.get_session_token()["Credentials"]
    assert client(enforcing, "sts", mine).get_caller_identity()["Arn"] == user["Arn"]
    assert client(enforcing, "kinesis", mine).list_streams()["StreamNames"] == []
    assert refusal(client(enforcing, "sns", mine).list_topics)[0] == "AuthorizationError"
    policy = json.dumps(statements(allow(["kinesis:ListStreams", "sns:ListTopics"], "*")))
    answer = sts.get_federation_token(Name="guest", Policy=policy)
    named = {"FederatedUserId": f"{ACCOUNT}:guest", "Arn": f"arn:aws:sts::{ACCOUNT}:federated-user/guest"}  # fmt: skip
    assert answer["FederatedUser"] == named
    guest = answer["Credentials"]
    identity = client(enforcing, "sts", guest).get_caller_identity()
    assert (identity["Arn"], identity["UserId"]) == (named["Arn"], f"{ACCOUNT}:guest")
    assert client(enforcing, "kinesis", guest).list_streams()["StreamNames"] == []
    for service, call in (("sqs", "list_queues"), ("sns", "list_topics")):
        assert (
            "federated-user/guest is not authorized"
            in refusal(getattr(client(enforcing, service, guest), call))[2]
        )
    bare = sts.get_federation_token(Name="nobody")["Credentials"]
    assert refusal(client(enforcing, "kinesis", bare).list_streams)[0] == "AccessDeniedException"


def test_sessions_get_no_sessions_of_a_users_kind(enforcing: InProcessCloud):
    first = client(enforcing, "sts", assume(enforcing.client("sts"), "first")["Credentials"])
    assert refusal(first.get_session_token) == (
        "AccessDenied",
        403,
        "Cannot call GetSessionToken with session credentials",
    )
    assert refusal(first.get_federation_token, Name="guest")[2] == (
        "Cannot call GetFederationToken with session credentials"
    )


def test_the_accounts_own_session_is_the_account_for_an_hour(enforcing: InProcessCloud):
    keys = enforcing.client("sts").get_session_token(DurationSeconds=43200)["Credentials"]
    assert keys["Expiration"] - datetime.now(UTC) <= timedelta(hours=1)
    mine = client(enforcing, "sts", keys).get_caller_identity()
    assert mine["Arn"] == ROOT
    assert client(enforcing, "kinesis", keys).list_streams()["StreamNames"] == []
