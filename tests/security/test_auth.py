"""`--auth`: operations of AWS for those who have a key, in every protocol, and AWS's errors for all others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import unescape

import pytest
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.auth_errors import format_time
from headrace.core.values import iso_seconds_of
from headrace.testing.in_process import http_request_of
from tests.security.auth_lab import HOST, Guarded, refused, sign_at
from tests.security.conftest import FRIEND, ROLE, body_of, header, text
from tests.support.clients import ENDPOINT_URL

INVALID_TOKEN = "The security token included in the request is invalid."
WRONG = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key"
    " and signing method. Consult the service documentation for details."
)
WRONG_S3 = WRONG.replace("your AWS Secret Access Key", "your key").partition(" Consult")[0]
Later = Callable[[float], None]


# One of each protocol, owned and moto's: json, rest-json, query, rest-xml, CBOR.
OPERATIONS = [
    ("kinesis", "list_streams"),
    ("firehose", "list_delivery_streams"),
    ("emr", "list_clusters"),
    ("dynamodb", "list_tables"),
    ("sqs", "list_queues"),
    ("cloudwatch", "list_metrics"),
    ("lambda", "list_functions"),
    ("emr-serverless", "list_applications"),
    ("iam", "list_users"),
    ("sns", "list_topics"),
    ("sts", "get_caller_identity"),
    ("cloudformation", "list_stacks"),
    ("s3", "list_buckets"),
]
QUERY = ("iam", "sns", "sts", "cloudformation")
STATUS = {"lambda": 403, "emr-serverless": 403}


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_a_key_opens_every_service(guarded: Guarded, service: str, operation: str):
    assert (
        getattr(guarded.client(service), operation)()["ResponseMetadata"]["HTTPStatusCode"] == 200
    )


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_a_wrong_secret_does_not(guarded: Guarded, service: str, operation: str):
    said = refused(getattr(guarded.client(service, secret="wrong"), operation))
    if service == "s3":
        assert said == ("SignatureDoesNotMatch", WRONG_S3, 403)
    elif service in QUERY:
        assert said == ("SignatureDoesNotMatch", WRONG, 403)
    else:
        assert said == ("InvalidSignatureException", WRONG, STATUS.get(service, 400))


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
@pytest.mark.parametrize("key", ["AKIAIOSFODNN7EXAMPLE", "test", "ASIAIOSFODNN7EXAMPLE"])
def test_nor_does_a_key_that_nobody_made(guarded: Guarded, service: str, operation: str, key: str):
    """The second is what everybody uses without --auth, the first what moto's own answers are full of."""
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY"
    said = refused(getattr(guarded.client(service, key, secret), operation))
    if service == "s3":
        sentence = "The AWS Access Key Id you provided does not exist in our records."
        assert said == ("InvalidAccessKeyId", sentence, 403)
    elif service in QUERY:
        assert said == ("InvalidClientTokenId", INVALID_TOKEN, 403)
    else:
        assert said == ("UnrecognizedClientException", INVALID_TOKEN, STATUS.get(service, 400))


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
def test_nor_does_no_signature(guarded: Guarded, service: str, operation: str):
    client = guarded.client(service, signature_version=UNSIGNED)
    said = refused(getattr(client, operation))
    if service in ("s3", "emr-serverless"):
        # Without a scope only the path tells the service, and theirs look alike.
        assert said == ("AccessDenied", "Access Denied", 403) or said[2] == 403
    elif service in QUERY:
        sentence = "Request is missing Authentication Token"
        assert said[0] in ("MissingAuthenticationToken", "AccessDenied")
        assert said[1] in (sentence, "Access Denied")
        assert said[2] == 403
    else:
        sentence = "Missing Authentication Token"
        assert said == ("MissingAuthenticationTokenException", sentence, STATUS.get(service, 400))


def test_the_accounts_number_is_no_key_to_everybody(guarded: Guarded):
    """Without --auth it is; with it, functions and jobs have a secret for it."""
    kinesis = guarded.client("kinesis", "000000000000", "headrace")
    assert refused(kinesis.list_streams)[0] == "InvalidSignatureException"
    keys = guarded.cloud.cloud.keys
    assert keys is not None
    secret = keys.secret_for("000000000000")
    assert guarded.client("kinesis", "000000000000", secret).list_streams()
    other = guarded.client("kinesis", "111111111111", secret)
    assert refused(other.list_streams)[0] == "InvalidSignatureException"


def test_a_wrong_answer_of_s3_shows_what_it_computed(guarded: Guarded):
    with pytest.raises(ClientError) as caught:
        guarded.client("s3", secret="wrong").get_object(Bucket="bucket", Key="k")
    error: dict[str, Any] = caught.value.response["Error"]
    assert set(error) == {
        "Code", "Message", "AWSAccessKeyId", "StringToSign", "SignatureProvided", "StringToSignBytes",
        "CanonicalRequest", "CanonicalRequestBytes", "RequestId", "HostId",
    } - ({"RequestId", "HostId"} - set(error))  # fmt: skip
    assert error["CanonicalRequest"].startswith("GET\n/bucket/k\n")
    digest = hashlib.sha256(error["CanonicalRequest"].encode()).hexdigest()
    assert error["StringToSign"].endswith(digest)
    assert bytes.fromhex(error["StringToSignBytes"]).decode() == error["StringToSign"]


# --- when -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [14 * 60, -14 * 60])
def test_a_quarter_of_an_hour_is_no_matter(guarded: Guarded, later: Later, seconds: float):
    later(seconds)
    assert guarded.client("kinesis").list_streams()
    assert guarded.client("s3").list_buckets()


@pytest.mark.parametrize(("service", "operation"), OPERATIONS)
@pytest.mark.parametrize("seconds", [16 * 60, -16 * 60])
def test_more_is(guarded: Guarded, later: Later, service: str, operation: str, seconds: float):
    later(seconds)
    before = format_time(guarded.clock.now_ms())
    code, message, status = refused(getattr(guarded.client(service), operation))
    after = format_time(guarded.clock.now_ms())
    if service == "s3":
        assert (code, status) == ("RequestTimeTooSkewed", 403)
        return
    assert code == ("SignatureDoesNotMatch" if service in QUERY else "InvalidSignatureException")
    sign = "-" if seconds > 0 else "+"
    start = "Signature expired: " if seconds > 0 else "Signature not yet current: "
    assert message.startswith(start)
    at, _, end = message.rpartition("(")[2].partition(" ")
    assert end == f"{sign} 15 min.)"
    assert before <= at <= after


def test_s3_says_how_far_the_clocks_are_apart(guarded: Guarded, later: Later):
    later(20 * 60)
    before = iso_seconds_of(guarded.clock.now_ms())
    with pytest.raises(ClientError) as caught:
        guarded.client("s3").list_buckets()
    error: dict[str, Any] = caught.value.response["Error"]
    assert (
        error["Message"]
        == "The difference between the request time and the current time is too large."
    )
    assert error["MaxAllowedSkewMilliseconds"] == "900000"
    assert before <= error["ServerTime"] <= iso_seconds_of(guarded.clock.now_ms())
    assert error["RequestTime"] < format_time(guarded.clock.now_ms())


# --- keys of IAM and STS --------------------------------------------------------------------------


def test_a_users_key_is_good_while_it_is_active(guarded: Guarded):
    iam = guarded.client("iam")
    iam.create_user(UserName="ann")
    made = iam.create_access_key(UserName="ann")["AccessKey"]
    hers = (made["AccessKeyId"], made["SecretAccessKey"])
    assert guarded.client("kinesis", *hers).list_streams()
    assert guarded.client("sts", *hers).get_caller_identity()["Arn"].endswith(":user/ann")
    iam.update_access_key(UserName="ann", AccessKeyId=hers[0], Status="Inactive")
    kinesis = guarded.client("kinesis", *hers)
    assert refused(kinesis.list_streams)[0] == "UnrecognizedClientException"
    iam.update_access_key(UserName="ann", AccessKeyId=hers[0], Status="Active")
    assert kinesis.list_streams()
    iam.delete_access_key(UserName="ann", AccessKeyId=hers[0])
    assert refused(kinesis.list_streams)[0] == "UnrecognizedClientException"
    iam.delete_user(UserName="ann")


def test_a_roles_session_is_good_with_its_token_and_for_its_time(guarded: Guarded, later: Later):
    sts = guarded.client("sts")
    made = sts.assume_role(RoleArn=ROLE, RoleSessionName="session", DurationSeconds=900)[
        "Credentials"
    ]
    key = (made["AccessKeyId"], made["SecretAccessKey"])
    token = made["SessionToken"]
    identity = guarded.client("sts", *key, token).get_caller_identity()
    assert identity["Arn"].endswith(":assumed-role/worker/session")
    assert guarded.client("s3", *key, token).list_buckets()
    for wrong in (None, "another"):
        assert refused(guarded.client("kinesis", *key, wrong).list_streams)[:2] == (
            "UnrecognizedClientException", INVALID_TOKEN,
        )  # fmt: skip
        said = refused(guarded.client("s3", *key, wrong).list_buckets)
        sentence = "The provided token is malformed or otherwise invalid."
        assert said == ("InvalidToken", sentence, 400)
    later(14 * 60)
    assert guarded.client("kinesis", *key, token).list_streams()
    # Its own end, not the request's: a clock that is a little ahead.
    later(59)
    guarded.clock.advance(30)
    expired = "The security token included in the request is expired"
    request = HttpRequest("POST", "/", "", {"x-amz-target": "Kinesis_20131202.ListStreams"}, b"{}")
    sign_at(guarded, request, Credentials(*key, token), "kinesis")
    answer = guarded.cloud.handle(request)
    assert body_of(answer) == {"__type": "ExpiredTokenException", "message": expired}
    guarded.clock.advance(-30)


def test_a_users_session_is_its_own_and_opens_nothing_without_its_token(guarded: Guarded):
    """Each of these has keys of its own, whose token is asked for (moto gives all callers the same)."""
    sts = guarded.client("sts")
    one, two = (sts.get_session_token()["Credentials"] for _ in range(2))
    federated = sts.get_federation_token(Name="name")["Credentials"]
    for key in (one, federated):
        named = (key["AccessKeyId"], key["SecretAccessKey"])
        assert (
            guarded.client("kinesis", *named, key["SessionToken"]).list_streams()["StreamNames"]
            == []
        )
        for token in (federated if key is one else two)["SessionToken"], None:
            client = guarded.client("kinesis", *named, token)
            assert refused(client.list_streams)[0] == "UnrecognizedClientException"


def test_nobody_gets_keys_for_a_token_that_nobody_verifies(guarded: Guarded):
    """AWS answers these unsigned, and verifies the token; moto does not."""
    sts = guarded.client("sts", signature_version=UNSIGNED)
    params = {"RoleArn": ROLE, "RoleSessionName": "session", "WebIdentityToken": "x" * 20}
    said = refused(sts.assume_role_with_web_identity, **params)
    assert said[0] == "MissingAuthenticationToken"


def test_the_certificate_of_notifications_needs_no_signature(guarded: Guarded):
    path = f"/SimpleNotificationService-{'0' * 32}.pem"
    assert guarded.ask("GET", path).status == 404
    action = "Action=DeleteTopic&Version=2010-03-31"
    assert guarded.ask("GET", f"{path}?{action}").status == 403
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert guarded.ask("POST", path, form, action.encode()).status == 403


def test_browsers_ask_unsigned_and_may_read_what_they_are_refused(guarded: Guarded):
    page = {"origin": FRIEND, "x-amz-target": "Kinesis_20131202.ListStreams"}
    question = {"origin": FRIEND, "access-control-request-method": "POST"}
    assert guarded.ask("OPTIONS", "/", question).status == 200
    answer = guarded.ask("POST", "/", page, b"{}")
    assert body_of(answer)["__type"] == "MissingAuthenticationTokenException"
    assert header(answer, "access-control-allow-origin") == "*"


def test_options_is_no_way_round(guarded: Guarded):
    body = b"Action=CreateUser&Version=2010-05-08&UserName=evil"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert guarded.ask("OPTIONS", "/", form, body).status == 403
    question = {"origin": "http://x", "access-control-request-method": "GET"}
    assert "CORSResponse" in text(guarded.ask("OPTIONS", "/bucket/k", question))


# --- what is malformed ----------------------------------------------------------------------------

V4 = "AWS4-HMAC-SHA256"
CREDENTIAL = "Credential=AKIA/20260101/us-east-1/{}/aws4_request"


@pytest.mark.parametrize(
    ("authorization", "code", "sentence"),
    [
        (f"{V4} {CREDENTIAL}", "IncompleteSignatureException",
         ("Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders'"
         " parameter. Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
         " Authorization=AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/kinesis/aws4_request")),
        ("AWS4-ECDSA-P256-SHA256 Credential=x", "IncompleteSignatureException",
         "headrace does not verify SigV4A (AWS4-ECDSA-P256-SHA256). Please use AWS4-HMAC-SHA256."),
        ("Bearer x", "IncompleteSignatureException",
         "'x' not a valid key=value pair (missing equal-sign) in Authorization header: 'Bearer x'."),
    ],
)  # fmt: skip
def test_kinesis_says_what_a_header_lacks(
    guarded: Guarded, authorization: str, code: str, sentence: str
):
    headers = {
        "authorization": authorization.replace("{}", "kinesis"),
        "x-amz-target": "Kinesis_20131202.ListStreams",
        "content-type": "application/x-amz-json-1.1",
    }
    answer = guarded.ask("POST", "/", headers, b"{}")
    assert (answer.status, body_of(answer)) == (400, {"__type": code, "message": sentence})
    assert header(answer, "x-amzn-errortype") == code


@pytest.mark.parametrize(
    ("authorization", "status", "code", "sentence"),
    [
        (f"{V4} {CREDENTIAL}", 400, "AuthorizationHeaderMalformed",
         ("The authorization header is malformed; the authorization header requires three components: Credential,"
         " SignedHeaders, and Signature.")),
        (f"{V4} {CREDENTIAL},SignedHeaders=host, Signature=", 400, "AuthorizationHeaderMalformed",
         'The authorization header is malformed; the authorization component " Signature=" is malformed.'),
        (f"{V4} {CREDENTIAL},SignedHeaders=host,Signature=x,Other=y", 400, "AuthorizationHeaderMalformed",
         "The authorization header is malformed; the authorization header requires three components: "),
        ("AWS4-ECDSA-P256-SHA256 Credential=x", 501, "NotImplemented", "headrace does not verify SigV4A"),
        ("Bearer x", 400, "InvalidArgument", "Unsupported Authorization Type"),
        ("AWS nonsense", 400, "InvalidArgument", "AWS authorization header is invalid."),
        ("", 403, "AccessDenied", "Access Denied"),
    ],
)  # fmt: skip
def test_s3_says_what_a_header_lacks(
    guarded: Guarded, authorization: str, status: int, code: str, sentence: str
):
    headers = {
        "authorization": authorization.format("s3"),
        "x-amz-date": format_time(guarded.clock.now_ms()),
    }
    answer = guarded.ask("GET", "/bucket/k", {n: v for n, v in headers.items() if v})
    assert answer.status == status
    assert f"<Code>{code}</Code><Message>{sentence}" in unescape(text(answer), {"&quot;": '"'})
    assert guarded.ask("HEAD", "/bucket/k").body == b""


@pytest.mark.parametrize("payload", ["STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "nonsense", None])
def test_s3_wants_to_know_what_is_signed_of_the_body(guarded: Guarded, payload: str | None):
    request = AWSRequest("PUT", f"{ENDPOINT_URL}/bucket/k", data=b"x")
    S3SigV4Auth(guarded.credentials(), "s3", "us-east-1").add_auth(request)
    ours = http_request_of(request.prepare())
    ours.headers["host"] = HOST
    if payload is None:
        del ours.headers["x-amz-content-sha256"]
        expected = "Missing required header for this request: x-amz-content-sha256"
    else:
        ours.headers["x-amz-content-sha256"] = payload
        expected = (
            "SigV4A" if "ECDSA" in payload else "x-amz-content-sha256 must be UNSIGNED-PAYLOAD,"
        )
    assert expected in text(guarded.cloud.handle(ours))


def test_users_of_a_pool_sign_up_without_a_signature_and_nobody_else_does(guarded: Guarded):
    idp = guarded.client("cognito-idp")
    pool = idp.create_user_pool(PoolName="p")["UserPool"]["Id"]
    client = idp.create_user_pool_client(UserPoolId=pool, ClientName="c")["UserPoolClient"]
    signed_up = guarded.client("cognito-idp", signature_version=UNSIGNED).sign_up(
        ClientId=client["ClientId"], Username="u", Password="Passw0rd!x"
    )
    assert signed_up["UserConfirmed"] is False
    nobody = guarded.client("cognito-idp", signature_version=UNSIGNED)
    with pytest.raises(ClientError, match="MissingAuthenticationTokenException"):
        nobody.list_user_pools(MaxResults=1)
    # The query names another operation than the target, by which the call is let in.
    asked = HttpRequest(
        "POST",
        "/",
        "Action=AdminDeleteUser",
        {"host": HOST, "x-amz-target": "AWSCognitoIdentityProviderService.SignUp"},
        json.dumps({"UserPoolId": pool, "Username": "u"}).encode(),
    )
    assert guarded.cloud.handle(asked).status == 400
    assert [user["Username"] for user in idp.list_users(UserPoolId=pool)["Users"]] == ["u"]
    with pytest.raises(ClientError, match="MissingAuthenticationToken"):
        guarded.client("sts", signature_version=UNSIGNED).get_caller_identity()
