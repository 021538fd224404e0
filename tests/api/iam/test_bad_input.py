"""Bad input of permissions: policies without end, wildcards that explode, roles and sessions that are gone, sizes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.aws.calls.http import HttpRequest
from headrace.testing.clock import MovableClock
from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, as_role, make_role, refusal, statements

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/flights"


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, clock: MovableClock
) -> Iterator[InProcessCloud]:
    folder = tmp_path_factory.mktemp("bad")
    with InProcessCloud(folder, iam="enforce", clock=clock) as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        yield cloud


def seconds_of(call: Any, **params: Any) -> float:
    began = time.process_time()
    call(**params)
    return time.process_time() - began


def test_a_bucket_policy_of_many_statements_is_judged_fast(cloud: InProcessCloud):
    """As many as S3 takes in 20 KiB; the first decision and the ones after it."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="crowded")
    role = make_role(cloud, "crowd")
    base = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject"}
    resource = "arn:aws:s3:::crowded/"
    rows = [{**base, "Resource": f"{resource}{n}*?*?*z"} for n in range(180)]
    lets = {
        "Effect": "Allow",
        "Principal": {"AWS": role},
        "Action": "s3:*",
        "Resource": f"{resource}*",
    }
    s3.put_bucket_policy(Bucket="crowded", Policy=json.dumps(statements(*rows, lets)))
    put = as_role(cloud, "crowd", "s3").put_object
    key = "1" * 1000
    assert seconds_of(put, Bucket="crowded", Key=key, Body=b"") < 2
    assert seconds_of(put, Bucket="crowded", Key=key, Body=b"") < 0.5
    assert refusal(put, Bucket="crowded", Key=f"{key}z", Body=b"")[0] == "AccessDenied"


def test_policies_as_many_and_as_long_as_iam_takes_are_judged(cloud: InProcessCloud):
    """Ten managed policies of 6,144 characters each: thousands of actions with wildcards."""
    iam = cloud.client("iam")
    make_role(cloud, "heavy")
    for number in range(10):
        actions = [f"kinesis:*{'*a' * 12}{n}*" for n in range(140)]
        text = json.dumps(statements(allow(actions, "*")), separators=(",", ":"))
        assert len(text) <= 6144
        arn = iam.create_policy(PolicyName=f"heavy{number}", PolicyDocument=text)["Policy"]["Arn"]
        iam.attach_role_policy(RoleName="heavy", PolicyArn=arn)
    put = as_role(cloud, "heavy", "kinesis").put_record
    record = {"StreamName": "flights", "Data": b"1", "PartitionKey": "a"}
    assert seconds_of(lambda: refusal(put, **record)) < 2
    # An eleventh is one too many (reference_iam-quotas.html).
    text = json.dumps(statements(allow("kinesis:PutRecord", "*")))
    one_more = iam.create_policy(PolicyName="heavy10", PolicyDocument=text)["Policy"]["Arn"]
    found = refusal(iam.attach_role_policy, RoleName="heavy", PolicyArn=one_more)
    assert found == ("LimitExceeded", 409, "Cannot exceed quota for PoliciesPerRole: 10")


def test_a_policy_of_thousands_of_statements_is_refused_by_its_size(cloud: InProcessCloud):
    rows = [{"Effect": "Allow", "Action": f"s3:A{n}", "Resource": "*"} for n in range(5000)]
    text = json.dumps(statements(*rows))
    make_role(cloud, "long")
    iam = cloud.client("iam")
    assert refusal(iam.create_policy, PolicyName="long", PolicyDocument=text)[0] in (
        "LimitExceeded",
        "ValidationError",
    )
    found = refusal(iam.put_role_policy, RoleName="long", PolicyName="p", PolicyDocument=text)
    assert found[0] in ("LimitExceeded", "ValidationError")
    sts = cloud.client("sts")
    params = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/long", "RoleSessionName": "ses"}
    assert refusal(sts.assume_role, **params, Policy=text)[0] in (
        "PackedPolicyTooLarge",
        "ValidationError",
    )
    simulate = iam.simulate_custom_policy
    # API_SimulateCustomPolicy.html: a policy has at most 131,072 characters there.
    asked = {"ActionNames": ["s3:A1999"], "PolicyInputList": [text]}
    assert refusal(simulate, **asked)[0] == "ValidationError"
    asked["PolicyInputList"] = [json.dumps(statements(*rows[:2000]))]
    answer = simulate(**asked)["EvaluationResults"][0]
    assert answer["EvalDecision"] == "allowed"


def test_a_session_of_a_role_that_is_deleted_is_nobodys(cloud: InProcessCloud):
    iam = cloud.client("iam")
    make_role(cloud, "leaving", allow("*", "*"))
    clients = {name: as_role(cloud, "leaving", name) for name in ("kinesis", "s3", "sqs", "iam")}
    record = {"StreamName": "flights", "Data": b"1", "PartitionKey": "a"}
    clients["kinesis"].put_record(**record)
    iam.delete_role_policy(RoleName="leaving", PolicyName="own")
    iam.delete_role(RoleName="leaving")
    gone = "The security token included in the request is invalid."
    found = refusal(clients["kinesis"].put_record, **record)
    assert found == ("UnrecognizedClientException", 400, gone)
    assert refusal(clients["s3"].list_buckets)[:2] == ("InvalidAccessKeyId", 403)
    assert refusal(clients["iam"].list_roles) == ("InvalidClientTokenId", 403, gone)
    assert refusal(clients["sqs"].list_queues)[0] == "InvalidClientTokenId"
    # A role made anew under the name is another, whose policies count from now on.
    make_role(cloud, "leaving", allow("kinesis:PutRecord", STREAM))
    as_role(cloud, "leaving", "kinesis").put_record(**record)


def test_a_session_ends_by_the_clouds_clock(cloud: InProcessCloud, clock: MovableClock):
    make_role(cloud, "brief", allow("*", "*"))
    params = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/brief", "RoleSessionName": "ses"}
    keys = cloud.client("sts").assume_role(**params, DurationSeconds=900)["Credentials"]

    def client(service: str) -> Any:
        key, token = keys["AccessKeyId"], keys["SessionToken"]
        return client_of(service, cloud.handle, account=key, region=REGION, token=token)

    record = {"StreamName": "flights", "Data": b"1", "PartitionKey": "a"}
    clock.advance(899)
    client("kinesis").put_record(**record)
    clock.advance(2)
    expired = "The security token included in the request is expired"
    assert refusal(client("kinesis").put_record, **record) == (
        "ExpiredTokenException",
        400,
        expired,
    )
    for service, call in (
        ("s3", "list_buckets"),
        ("sts", "get_caller_identity"),
        ("iam", "list_roles"),
    ):
        assert refusal(getattr(client(service), call))[0] == "ExpiredToken"


def test_what_is_no_policy_changes_nothing(cloud: InProcessCloud):
    """A refused Put leaves the policy that was."""
    iam = cloud.client("iam")
    make_role(cloud, "steady", allow("kinesis:PutRecord", STREAM))
    for text in (
        "{",
        "[]",
        "null",
        '{"Statement":' * 500,
        "\u2028",
        json.dumps({"Version": "2012-10-17"}),
    ):
        found = refusal(
            iam.put_role_policy, RoleName="steady", PolicyName="own", PolicyDocument=text
        )
        assert found[0] in ("MalformedPolicyDocument", "ValidationError")
    put = as_role(cloud, "steady", "kinesis").put_record
    put(StreamName="flights", Data=b"1", PartitionKey="a")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_request_of_which_nobody_can_tell_the_permission_is_refused(
    cloud: InProcessCloud, method: str
):
    """moto's own address answers methods that no operation has."""
    config = cloud.client("appconfig")
    shop = config.create_application(Name=f"shop-{method}")["Id"]
    config.create_environment(ApplicationId=shop, Name="prod")
    config.create_configuration_profile(ApplicationId=shop, Name="p", LocationUri="hosted")
    iam = cloud.client("iam")
    iam.create_user(UserName=method)
    key = iam.create_access_key(UserName=method)["AccessKey"]["AccessKeyId"]
    scope = f"{key}/20260101/{REGION}/appconfig/aws4_request"
    names = {"ApplicationIdentifier": shop, "EnvironmentIdentifier": "prod"}
    body = json.dumps({**names, "ConfigurationProfileIdentifier": "p"}).encode()
    headers = {
        "host": "localhost:4566",
        "content-type": "application/json",
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00",
    }
    answer = cloud.handle(HttpRequest(method, "/configurationsessions", "", headers, body))
    assert answer.status in (400, 403), answer.body
