"""What sessions say of themselves: MFA, when they began, and for whom another provider vouches."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.permissions.decisions.report import report_of
from headrace.services.iam.sts_sessions import code_of
from headrace.testing.clock import MovableClock
from tests.support.clients import client_of
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.iam import allow, make_role, refusal, statements

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
SERIAL = f"arn:aws:iam::{ACCOUNT}:mfa/phone"
ISSUER = "token.actions.githubusercontent.com"
PROVIDER = f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}"
SAML = f"arn:aws:iam::{ACCOUNT}:saml-provider/corp"
WITH_MFA = {"Bool": {"aws:MultiFactorAuthPresent": "true"}}


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="module")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, clock: MovableClock
) -> Iterator[InProcessCloud]:
    folder = tmp_path_factory.mktemp("keys")
    with InProcessCloud(folder, iam="enforce", clock=clock) as cloud:
        yield cloud


def of_keys(cloud: InProcessCloud, service: str, keys: dict[str, Any]) -> Any:
    token = keys.get("SessionToken", "")
    return client_of(service, cloud.handle, account=keys["AccessKeyId"], region=REGION, token=token)


def put_user_policy(cloud: InProcessCloud, *given: dict[str, Any]) -> None:
    text = json.dumps(statements(*given))
    cloud.client("iam").put_user_policy(UserName="ann", PolicyName="own", PolicyDocument=text)


@pytest.fixture(scope="module")
def ann(cloud: InProcessCloud) -> dict[str, Any]:
    """A user's key; she has a virtual MFA device."""
    iam = cloud.client("iam")
    iam.create_user(UserName="ann")
    device = iam.create_virtual_mfa_device(VirtualMFADeviceName="phone")["VirtualMFADevice"]
    assert device["SerialNumber"] == SERIAL
    iam.enable_mfa_device(
        UserName="ann",
        SerialNumber=SERIAL,
        AuthenticationCode1="123456",
        AuthenticationCode2="654321",
    )
    key = iam.create_access_key(UserName="ann")["AccessKey"]
    seed = base64.b32decode(device["Base32StringSeed"])
    return {**key, "seed": seed}


def code(cloud: InProcessCloud, ann: dict[str, Any]) -> str:
    return code_of(ann["seed"], cloud.cloud.clock.now_ms() // 30_000)


def test_a_device_gives_the_codes_of_the_standard():
    """RFC 6238, appendix B, with six digits."""
    seed = b"12345678901234567890"
    times = {59: "287082", 1111111109: "081804", 20000000000: "353130"}
    assert {at_s: code_of(seed, at_s // 30) for at_s in times} == times


def test_what_asks_for_mfa_is_done_with_a_devices_code(
    cloud: InProcessCloud, clock: MovableClock, ann: dict[str, Any]
):
    """The scenario of id_credentials_mfa_configure-api-require.html, with aws:MultiFactorAuthAge."""
    listing = allow("kinesis:ListStreams", "*")
    put_user_policy(cloud, {**listing, "Condition": WITH_MFA}, allow("sts:*", "*"))
    sts = of_keys(cloud, "sts", ann)
    plain = sts.get_session_token()["Credentials"]
    right = {"SerialNumber": SERIAL, "TokenCode": code(cloud, ann)}
    strong = sts.get_session_token(**right)["Credentials"]
    for keys in (ann, plain):
        found = refusal(of_keys(cloud, "kinesis", keys).list_streams)
        assert found[0] == "AccessDeniedException"
    mine = of_keys(cloud, "kinesis", strong).list_streams
    assert mine()["StreamNames"] == []
    # The report has the user, and not the key.
    principals = {row["principal"] for row in report_of(cloud.cloud.decisions)["denied"]}
    assert f"arn:aws:iam::{ACCOUNT}:user/ann" in principals
    assert not any(one.startswith("AKIA") for one in principals)
    age = {"NumericLessThan": {"aws:MultiFactorAuthAge": "3600"}}
    put_user_policy(cloud, {**listing, "Condition": age}, allow("sts:*", "*"))
    assert mine()["StreamNames"] == []
    clock.advance(3601)
    assert refusal(mine)[0] == "AccessDeniedException"
    # A key of one's own says nothing of MFA: BoolIfExists denies it, Bool does not.
    denying = {"Effect": "Deny", "Action": "kinesis:*", "Resource": "*"}
    for operator, is_denied in (("BoolIfExists", True), ("Bool", False)):
        condition = {operator: {"aws:MultiFactorAuthPresent": "false"}}
        put_user_policy(cloud, listing, {**denying, "Condition": condition})
        own = of_keys(cloud, "kinesis", ann).list_streams
        assert (refusal(own)[0] if is_denied else own()["StreamNames"]) in (
            "AccessDeniedException",
            [],
        )
        assert refusal(of_keys(cloud, "kinesis", plain).list_streams)[0] == "AccessDeniedException"


def test_a_wrong_code_gives_no_session(cloud: InProcessCloud, ann: dict[str, Any]):
    put_user_policy(cloud, allow("sts:*", "*"))
    sts = of_keys(cloud, "sts", ann)
    wrong = f"{(int(code(cloud, ann)) + 1) % 1_000_000:06d}"
    found = refusal(sts.get_session_token, SerialNumber=SERIAL, TokenCode=wrong)
    # aws/aws-cli#2951
    assert found[:2] == ("AccessDenied", 403)
    assert found[2].startswith("MultiFactorAuthentication failed with invalid MFA one time pass")
    other = {"SerialNumber": f"{SERIAL}-2", "TokenCode": code(cloud, ann)}
    assert "MFA serial number is valid" in refusal(sts.get_session_token, **other)[2]
    # What a role trusts with MFA is asked for with the code, which must be right.
    make_role(cloud, "guarded", trusts=ROOT)
    trusting = {"Effect": "Allow", "Principal": {"AWS": ROOT}, "Action": "sts:AssumeRole"}
    cloud.client("iam").update_assume_role_policy(
        RoleName="guarded",
        PolicyDocument=json.dumps(statements({**trusting, "Condition": WITH_MFA})),
    )
    role = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/guarded", "RoleSessionName": "ses"}
    assert "role trust policy" in refusal(sts.assume_role, **role)[2]
    bad = {**role, "SerialNumber": SERIAL, "TokenCode": wrong}
    assert "one time pass code" in refusal(sts.assume_role, **bad)[2]
    sts.assume_role(**role, SerialNumber=SERIAL, TokenCode=code(cloud, ann))


def test_older_sessions_are_revoked(cloud: InProcessCloud, clock: MovableClock):
    """The policy that the console attaches: id_roles_use_revoke-sessions.html."""
    make_role(cloud, "revoked", allow("kinesis:ListStreams", "*"), trusts=ROOT)
    sts = cloud.client("sts")
    role = {"RoleArn": f"arn:aws:iam::{ACCOUNT}:role/revoked", "RoleSessionName": "ses"}
    old = of_keys(cloud, "kinesis", sts.assume_role(**role)["Credentials"])
    assert old.list_streams()["StreamNames"] == []
    clock.advance(60)
    at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    clock.advance(60)
    denying = {"Effect": "Deny", "Action": "*", "Resource": "*"}
    condition = {"DateLessThan": {"aws:TokenIssueTime": at}}
    text = json.dumps(statements({**denying, "Condition": condition}))
    cloud.client("iam").put_role_policy(
        RoleName="revoked", PolicyName="AWSRevokeOlderSessions", PolicyDocument=text
    )
    found = refusal(old.list_streams)
    assert (found[0], "explicit deny" in found[2]) == ("AccessDeniedException", True)
    young = of_keys(cloud, "kinesis", sts.assume_role(**role)["Credentials"])
    assert young.list_streams()["StreamNames"] == []
    assert refusal(old.list_streams)[0] == "AccessDeniedException"


# --- web identities -------------------------------------------------------------------------------


def token(**claims: Any) -> str:
    said = {
        "iss": f"https://{ISSUER}",
        "aud": "sts.amazonaws.com",
        "sub": "repo:me/app:ref:refs/heads/main",
        **claims,
    }
    parts = ({"alg": "RS256"}, {k: v for k, v in said.items() if v is not None})
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    ]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@pytest.fixture(scope="module")
def web(cloud: InProcessCloud) -> str:
    """A role for GitHub's actions, as id_roles_create_for-idp_oidc.html makes one."""
    iam = cloud.client("iam")
    iam.create_open_id_connect_provider(
        Url=f"https://{ISSUER}", ClientIDList=["sts.amazonaws.com"], ThumbprintList=["a" * 40]
    )
    trusting = {
        "Effect": "Allow",
        "Principal": {"Federated": PROVIDER},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com"},
            "StringLike": {f"{ISSUER}:sub": "repo:me/app:*"},
        },
    }
    role = iam.create_role(
        RoleName="web", AssumeRolePolicyDocument=json.dumps(statements(trusting))
    )
    put = allow("kinesis:ListStreams", "*")
    put["Condition"] = {"StringLike": {f"{ISSUER}:sub": "*:ref:refs/heads/main"}}
    iam.put_role_policy(
        RoleName="web", PolicyName="own", PolicyDocument=json.dumps(statements(put))
    )
    return role["Role"]["Arn"]


def test_a_web_identity_becomes_the_role_that_trusts_it(cloud: InProcessCloud, web: str):
    assume = cloud.client("sts").assume_role_with_web_identity
    answer = assume(RoleArn=web, RoleSessionName="ses", WebIdentityToken=token())
    shown = (answer["SubjectFromWebIdentityToken"], answer["Provider"], answer["Audience"])
    assert shown == (
        "repo:me/app:ref:refs/heads/main",
        f"https://{ISSUER}",
        "sts.amazonaws.com",
    )
    # The keys are those of its calls, too.
    mine = of_keys(cloud, "kinesis", answer["Credentials"])
    assert mine.list_streams()["StreamNames"] == []
    branch = token(sub="repo:me/app:ref:refs/heads/other")
    other = assume(RoleArn=web, RoleSessionName="ses", WebIdentityToken=branch)["Credentials"]
    assert refusal(of_keys(cloud, "kinesis", other).list_streams)[0] == "AccessDeniedException"
    assert refusal(of_keys(cloud, "sqs", answer["Credentials"]).list_queues)[0] == "AccessDenied"
    long = {"RoleArn": web, "RoleSessionName": "ses", "DurationSeconds": 7200}
    found = refusal(assume, **long, WebIdentityToken=token())
    assert found[2].startswith("The requested DurationSeconds exceeds the MaxSessionDuration")


@pytest.mark.parametrize(
    ("claims", "expected", "sentence"),
    [
        ({"sub": "repo:other/app:x"}, "AccessDenied",
         "Not authorized to perform sts:AssumeRoleWithWebIdentity"),
        # aws-actions/configure-aws-credentials#280, awslabs/amazon-eks-irsa-cfn#18
        ({"iss": "https://accounts.example.com"}, "InvalidIdentityToken",
         "No OpenIDConnect provider found in your account for https://accounts.example.com"),
        ({"aud": "sigstore"}, "InvalidIdentityToken", "Incorrect token audience"),
        ({"exp": 1_500_000_000}, "ExpiredTokenException", "Token expired: current date/time"),
    ],
)  # fmt: skip
def test_a_web_identity_that_nobody_trusts(
    cloud: InProcessCloud, web: str, claims: dict[str, Any], expected: str, sentence: str
):
    assume = cloud.client("sts").assume_role_with_web_identity
    found = refusal(assume, RoleArn=web, RoleSessionName="ses", WebIdentityToken=token(**claims))
    assert (found[0], found[2][: len(sentence)]) == (expected, sentence)


def test_a_text_is_no_web_identity(cloud: InProcessCloud, web: str):
    assume = cloud.client("sts").assume_role_with_web_identity
    for text in ("a.b.c", "abcd", "e30.e30"):
        found = refusal(assume, RoleArn=web, RoleSessionName="ses", WebIdentityToken=text)
        assert found[0] == "InvalidIdentityToken"


def test_a_cognito_user_has_a_folder_of_his_own(cloud: InProcessCloud):
    """reference_policies_examples_s3_cognito-bucket.html"""
    issuer = "cognito-identity.amazonaws.com"
    trusting = {
        "Effect": "Allow",
        "Principal": {"Federated": issuer},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {f"{issuer}:aud": "us-east-1:pool"},
            "ForAnyValue:StringLike": {f"{issuer}:amr": "authenticated"},
        },
    }
    iam, s3 = cloud.client("iam"), cloud.client("s3")
    role = iam.create_role(
        RoleName="cognito", AssumeRolePolicyDocument=json.dumps(statements(trusting))
    )["Role"]["Arn"]
    mine = f"arn:aws:s3:::app/cognito/game/${{{issuer}:sub}}"
    own = allow(["s3:GetObject", "s3:PutObject"], [mine, f"{mine}/*"])
    listing = allow("s3:ListBucket", "arn:aws:s3:::app")
    listing["Condition"] = {"StringLike": {"s3:prefix": [f"cognito/game/${{{issuer}:sub}}"]}}
    text = json.dumps(statements(own, listing))
    iam.put_role_policy(RoleName="cognito", PolicyName="own", PolicyDocument=text)
    s3.create_bucket(Bucket="app")
    claims = {"iss": f"https://{issuer}", "aud": "us-east-1:pool", "sub": "us-east-1:me"}
    assume = cloud.client("sts").assume_role_with_web_identity
    params = {"RoleArn": role, "RoleSessionName": "ses"}
    guest = token(**claims, amr=["unauthenticated"])
    assert refusal(assume, **params, WebIdentityToken=guest)[0] == "AccessDenied"
    known = token(**claims, amr=["authenticated", "graph.facebook.com"])
    keys = assume(**params, WebIdentityToken=known)["Credentials"]
    own_s3 = of_keys(cloud, "s3", keys)
    own_s3.put_object(Bucket="app", Key="cognito/game/us-east-1:me/a", Body=b"1")
    own_s3.list_objects_v2(Bucket="app", Prefix="cognito/game/us-east-1:me")
    for key in ("cognito/game/us-east-1:you/a", "cognito/other/us-east-1:me/a"):
        found = refusal(own_s3.put_object, Bucket="app", Key=key, Body=b"1")
        assert found[0] == "AccessDenied"
    assert refusal(own_s3.list_objects_v2, Bucket="app", Prefix="cognito/game")[0] == "AccessDenied"


# --- SAML -----------------------------------------------------------------------------------------

_RESPONSE = """<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol"
 xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"><saml:Assertion><saml:Issuer>https://idp.corp</saml:Issuer>
<saml:Subject><saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent">ann</saml:NameID>
<saml:SubjectConfirmation><saml:SubjectConfirmationData Recipient="{recipient}"/></saml:SubjectConfirmation>
</saml:Subject><saml:Conditions NotOnOrAfter="{ends}"/><saml:AttributeStatement>
<saml:Attribute Name="https://aws.amazon.com/SAML/Attributes/Role"><saml:AttributeValue>{role},{provider}</saml:AttributeValue>
</saml:Attribute><saml:Attribute Name="https://aws.amazon.com/SAML/Attributes/RoleSessionName">
<saml:AttributeValue>ann@corp</saml:AttributeValue></saml:Attribute></saml:AttributeStatement></saml:Assertion>
</samlp:Response>"""
_SIGN_IN = "https://signin.aws.amazon.com/saml"


def assertion(role: str, **given: str) -> str:
    said = {
        "recipient": _SIGN_IN,
        "ends": "2999-01-01T00:00:00Z",
        "role": role,
        "provider": SAML,
        **given,
    }
    return base64.b64encode(_RESPONSE.format(**said).encode()).decode()


def test_a_saml_assertion_becomes_the_role_that_trusts_its_provider(cloud: InProcessCloud):
    """id_roles_create_for-idp_saml.html"""
    iam = cloud.client("iam")
    iam.create_saml_provider(Name="corp", SAMLMetadataDocument="<m/>" + " " * 1000)
    trusting = {
        "Effect": "Allow",
        "Principal": {"Federated": SAML},
        "Action": "sts:AssumeRoleWithSAML",
        "Condition": {
            "StringEquals": {"saml:aud": _SIGN_IN, "saml:iss": "https://idp.corp"},
            "ForAllValues:StringLike": {"saml:sub": "a*"},
        },
    }
    role = iam.create_role(
        RoleName="corp", AssumeRolePolicyDocument=json.dumps(statements(trusting))
    )["Role"]["Arn"]
    put = allow("kinesis:ListStreams", "*")
    put["Condition"] = {"StringEquals": {"saml:sub": "ann"}}
    text = json.dumps(statements(put))
    iam.put_role_policy(RoleName="corp", PolicyName="own", PolicyDocument=text)
    assume = cloud.client("sts").assume_role_with_saml
    params = {"RoleArn": role, "PrincipalArn": SAML}
    answer = assume(**params, SAMLAssertion=assertion(role))
    assert answer["AssumedRoleUser"]["Arn"].endswith("assumed-role/corp/ann@corp")
    shown = {name: answer[name] for name in ("Subject", "SubjectType", "Issuer", "Audience")}
    assert shown == {
        "Subject": "ann",
        "SubjectType": "persistent",
        "Issuer": "https://idp.corp",
        "Audience": _SIGN_IN,
    }
    mine = of_keys(cloud, "kinesis", answer["Credentials"])
    assert mine.list_streams()["StreamNames"] == []
    for broken, expected in (
        (assertion(role, recipient="https://elsewhere"), "AccessDenied"),
        (assertion(f"{role}-2"), "AccessDenied"),
        (assertion(role, ends="2020-01-01T00:00:00Z"), "ExpiredTokenException"),
        (base64.b64encode(b"<a/>").decode(), "InvalidIdentityToken"),
        (base64.b64encode(b"<a").decode(), "InvalidIdentityToken"),
    ):
        assert refusal(assume, **params, SAMLAssertion=broken)[0] == expected
    nobody = {"RoleArn": role, "PrincipalArn": f"{SAML}-2"}
    found = refusal(assume, **nobody, SAMLAssertion=assertion(role, provider=f"{SAML}-2"))
    assert found[0] == "InvalidIdentityToken"


# --- tags of what is accessed ---------------------------------------------------------------------


def test_what_is_tagged_may_be_touched(cloud: InProcessCloud):
    """tutorial_attribute-based-access-control.html, for headrace's own services and for moto's."""
    blue, red = {"team": "blue"}, {"team": "red"}
    kinesis, sqs, iam = (cloud.client(name) for name in ("kinesis", "sqs", "iam"))
    table = {
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    urls: dict[str, str] = {}
    for name, tags in (("blue", blue), ("red", red)):
        kinesis.create_stream(StreamName=name, ShardCount=1, Tags=tags)
        urls[name] = sqs.create_queue(QueueName=name, tags=tags)["QueueUrl"]
        listed = [{"Key": "team", "Value": tags["team"]}]
        cloud.client("dynamodb").create_table(TableName=name, **table, Tags=listed)
        cloud.client("secretsmanager").create_secret(Name=name, SecretString="1", Tags=listed)
        iam.create_user(UserName=name, Tags=listed)
    same = {"StringEquals": {"aws:ResourceTag/team": "${aws:PrincipalTag/team}"}}
    make_role(cloud, "tagged", {**allow("*", "*"), "Condition": same}, trusts=ROOT)
    iam.tag_role(RoleName="tagged", Tags=[{"Key": "team", "Value": "blue"}])
    keys = cloud.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/tagged", RoleSessionName="ses"
    )["Credentials"]
    key = {"Key": {"id": {"S": "1"}}}

    def calls(name: str) -> list[Any]:
        services = ("kinesis", "sqs", "dynamodb", "secretsmanager", "iam")
        own = {service: of_keys(cloud, service, keys) for service in services}
        return [
            lambda: own["kinesis"].put_record(StreamName=name, Data=b"1", PartitionKey="a"),
            lambda: own["sqs"].send_message(QueueUrl=urls[name], MessageBody="1"),
            lambda: own["dynamodb"].get_item(TableName=name, **key),
            lambda: own["secretsmanager"].get_secret_value(SecretId=name),
            lambda: own["iam"].get_user(UserName=name),
        ]

    for call in calls("blue"):
        call()
    for call in calls("red"):
        assert refusal(call)[0].startswith("AccessDenied")
    # A tag counts from when it is there.
    arn = kinesis.describe_stream_summary(StreamName="red")["StreamDescriptionSummary"]["StreamARN"]
    kinesis.tag_resource(ResourceARN=arn, Tags=blue)
    calls("red")[0]()
