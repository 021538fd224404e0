"""A request has one caller: what the verifier read is what permissions, routing, moto, URLs and APIs go by.

The cloud runs with `--auth --iam enforce`. Most of these let a user without any policy in once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.signatures.sigv4 import derive_signing_key, sign
from headrace.pages.access import S3_PATH as ACCESS_PATH
from headrace.testing.in_process import http_request_of
from tests.security.auth_lab import HOST, Guarded
from tests.security.conftest import text
from tests.security.signing_lab import OTHER, Caller, SigningLab, said, unsigned_request
from tests.support.clients import ENDPOINT_URL
from tests.support.iam import ACCOUNT, REGION, statements
from tests.support.lambda_lab import zipped
from tests.support.policies import TRUST_TEXT

ECHO = """
import json
def handler(event, context):
    return {"statusCode": 200, "body": json.dumps(event)}
"""
LET_IN = ("root", "user with the policy", "role session")
KEPT_OUT = ("user without a policy", "role session without a policy")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningLab]:
    guarded = Guarded(tmp_path_factory.mktemp("callers") / "data", iam="enforce")
    guarded.client("s3").create_bucket(Bucket="box")
    guarded.client("s3").put_object(Bucket="box", Key="k", Body=b"secret")
    yield SigningLab(guarded)
    guarded.cloud.stop()


def get(path: str) -> AWSRequest:
    return AWSRequest("GET", f"{ENDPOINT_URL}{path}")


# --- other keys in the same request ---------------------------------------------------------------


def tricks() -> dict[str, Any]:
    """Return changes of a signed request that once named another caller to those who decide."""
    decoy = f"{ACCOUNT}/20260101/{REGION}/{{}}/aws4_request"

    def before(request: HttpRequest, scope: str, name: str) -> None:
        algorithm, _, rest = request.headers["authorization"].partition(" ")
        request.headers["authorization"] = f"{algorithm} {name}={decoy.format(scope)}, {rest}"

    def after(request: HttpRequest, scope: str, name: str) -> None:
        request.headers["authorization"] += f", {name}={decoy.format(scope)}"

    return {
        "a name that ends in Credential": lambda r, s: before(r, s, "XCredential"),
        "another Credential before": lambda r, s: before(r, s, "Credential"),
        "another Credential after": lambda r, s: after(r, s, "Credential"),
        "a name that ends in Credential, after": lambda r, s: after(r, s, "XCredential"),
        "a component without a name": lambda r, s: after(r, s, "Signature=x,"),
    }


@pytest.mark.parametrize("trick", tricks())
@pytest.mark.parametrize(
    ("service", "scope", "method"),
    [
        ("kinesis", "kinesis", "list_streams"),
        ("s3", "s3", "list_buckets"),
        ("sqs", "sqs", "list_queues"),
        ("lambda", "lambda", "list_functions"),
        ("iam", "iam", "list_users"),
    ],
)
def test_no_other_key_in_the_header_counts(
    lab: SigningLab, trick: str, service: str, scope: str, method: str
):
    request = unsigned_request(service, method, {})
    signed = lab.signed("header", request, lab.callers["user without a policy"], scope)
    tricks()[trick](signed, scope)
    code, status = said(lab.send(signed))
    assert status in (400, 403), trick
    assert code


def presigned(caller: Caller, path: str, headers: dict[str, str] | None = None) -> HttpRequest:
    """Return a presigned GET that also signs some headers."""
    request = AWSRequest("GET", f"{ENDPOINT_URL}{path}", headers=headers or {})
    S3SigV4QueryAuth(caller.credentials, "s3", REGION, expires=600).add_auth(request)
    arrived = http_request_of(request.prepare())
    arrived.headers.setdefault("host", HOST)
    return arrived


def test_a_name_in_the_query_that_is_percent_encoded_is_the_same_name(lab: SigningLab):
    request = presigned(lab.callers["user without a policy"], "/box/k")
    request.query = request.query.replace("X-Amz-Credential=", "X%2DAmz-Credential=")
    assert said(lab.send(request))[0] in ("AccessDenied", "SignatureDoesNotMatch")
    # A signer may write it so: the canonical query has the decoded names.
    mine = presigned(lab.callers["user with the policy"], "/box/k")
    mine.query = mine.query.replace("X-Amz-Credential=", "X%2DAmz-Credential=")
    assert said(lab.send(mine)) == ("", 200)


def test_another_token_in_a_header_does_not_make_a_session_the_account(lab: SigningLab):
    idle = lab.callers["role session without a policy"]
    request = presigned(idle, "/box/k", {"x-amz-security-token": "another"})
    # botocore signs it: the URL's own token is still the one that counts.
    assert said(lab.send(request))[0] in ("AccessDenied", "InvalidToken", "SignatureDoesNotMatch")
    assert said(lab.send(presigned(idle, "/box/k"))) == ("AccessDenied", 403)


@pytest.mark.parametrize("way", ["old header", "old query"])
def test_version_2_has_a_caller(lab: SigningLab, way: str):
    answers = {
        kind: said(lab.send(lab.signed(way, get("/box/k"), caller, "s3")))
        for kind, caller in lab.callers.items()
    }
    assert answers == {
        **dict.fromkeys(LET_IN, ("", 200)),
        **dict.fromkeys(KEPT_OUT, ("AccessDenied", 403)),
        "another account's user": ("AccessDenied", 403),
        "another account's root": ("AccessDenied", 403),
        "expired session": ("ExpiredToken", 400),
        "unknown key": ("InvalidAccessKeyId", 403),
        "wrong secret": ("SignatureDoesNotMatch", 403),
        "session without its token": ("InvalidToken", 400),
    }


def chunked(lab: SigningLab, caller: Caller) -> HttpRequest:
    """Return an upload of `hello` whose chunks are signed one by one (sigv4-streaming.html)."""
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    headers = {
        "x-amz-content-sha256": kind,
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": "5",
    }
    request = AWSRequest("PUT", f"{ENDPOINT_URL}/box/upload", headers=headers)
    with mock.patch.object(S3SigV4Auth, "payload", return_value=kind):
        S3SigV4Auth(caller.credentials, "s3", REGION).add_auth(request)
    del request.headers["x-amz-content-sha256"]
    request.headers["x-amz-content-sha256"] = kind
    arrived = http_request_of(request.prepare())
    arrived.headers.setdefault("host", HOST)
    date = arrived.headers["x-amz-date"]
    key = derive_signing_key(caller.credentials.secret_key, date[:8], REGION, "s3")
    previous = arrived.headers["authorization"].rpartition("Signature=")[2]
    empty = hashlib.sha256().hexdigest()
    for data in (b"hello", b""):
        scope = f"{date}\n{date[:8]}/{REGION}/s3/aws4_request"
        digest = hashlib.sha256(data).hexdigest()
        previous = sign(key, f"AWS4-HMAC-SHA256-PAYLOAD\n{scope}\n{previous}\n{empty}\n{digest}")
        arrived.body += b"%x;chunk-signature=%b\r\n%b\r\n" % (len(data), previous.encode(), data)
    return arrived


def test_an_upload_in_signed_chunks_has_a_caller(lab: SigningLab):
    answers = {kind: said(lab.send(chunked(lab, each))) for kind, each in lab.callers.items()}
    assert answers == {
        **dict.fromkeys(lab.callers, ("AccessDenied", 403)),
        **dict.fromkeys(LET_IN, ("", 200)),
        "expired session": ("ExpiredToken", 400),
        "unknown key": ("InvalidAccessKeyId", 403),
        "wrong secret": ("SignatureDoesNotMatch", 403),
        "session without its token": ("InvalidToken", 400),
    }


def test_a_credential_in_the_query_is_not_the_caller_of_version_2(lab: SigningLab):
    decoy = quote(f"{ACCOUNT}/20260101/{REGION}/s3/aws4_request", safe="")
    bob = lab.callers["user without a policy"]
    request = lab.signed("old header", get("/box/k"), bob, "s3")
    request.query = f"X-Amz-Credential={decoy}"
    assert said(lab.send(request)) == ("AccessDenied", 403)
    request = lab.signed("old query", get("/box/k"), bob, "s3")
    request.query += f"&X-Amz-Credential={decoy}"
    assert said(lab.send(request))[1] in (400, 403)


@pytest.mark.parametrize("kind", ["user with the policy", "role session"])
@pytest.mark.parametrize("way", ["header", "query"])
def test_moto_knows_the_same_caller(lab: SigningLab, kind: str, way: str):
    caller = lab.callers[kind]
    request = unsigned_request("sts", "get_caller_identity", {})
    signed = lab.signed(way, request, caller, "sts")
    if way == "header":
        signed.headers["authorization"] = signed.headers["authorization"].replace(
            " Credential=", " Other=AKIAIOSFODNN7EXAMPLE/x, Credential="
        )
    answer = text(lab.send(signed))
    assert f"<Arn>{caller.arn}</Arn>" in answer
    assert f"<UserId>{caller.user_id}</UserId>" in answer


def test_version_4a_is_refused_by_name(lab: SigningLab):
    own = lab.callers["user with the policy"].credentials.access_key
    headers = {
        "host": HOST,
        "authorization": f"AWS4-ECDSA-P256-SHA256 Credential={own}/20260101/s3/aws4_request,"
        " SignedHeaders=host, Signature=00",
        "x-amz-region-set": "*",
    }
    assert said(lab.send(HttpRequest("GET", "/box/k", "", headers))) == ("NotImplemented", 501)


# --- function URLs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def function(lab: SigningLab) -> str:
    """Return the ARN of a function that answers its event."""
    iam = lab.guarded.client("iam")
    role = iam.create_role(RoleName="for-lambda", AssumeRolePolicyDocument=TRUST_TEXT)["Role"]
    made = lab.guarded.client("lambda").create_function(
        FunctionName="echo", Runtime="python3.11", Handler="app.handler", Role=role["Arn"],
        Code={"ZipFile": zipped({"app.py": ECHO})},
    )  # fmt: skip
    return made["FunctionArn"]


def answers_at(lab: SigningLab, path: str, scope: str) -> dict[str, HttpResponse]:
    """Return each caller's answer to a signed GET, and that to an unsigned one."""
    callers: dict[str, Caller | None] = {**lab.callers, "unsigned": None}
    return {
        kind: lab.send(lab.signed("header", get(path), caller, scope))
        for kind, caller in callers.items()
    }


NAMED = ("root", "user with the policy", "role session")


@pytest.fixture(scope="module")
def url_path(lab: SigningLab, function: str) -> str:
    """Return the path of the function's URL, which asks for signatures."""
    lambda_ = lab.guarded.client("lambda")
    made = lambda_.create_function_url_config(FunctionName=function, AuthType="AWS_IAM")
    return f"/_headrace/function-url/{made['FunctionUrl'].rstrip('/').rpartition('/')[2]}/"


def test_a_function_url_asks_iam_and_names_who_calls(lab: SigningLab, function: str, url_path: str):
    lambda_ = lab.guarded.client("lambda")
    answers = answers_at(lab, url_path, "lambda")
    assert {kind: answer.status for kind, answer in answers.items()} == {
        **dict.fromkeys(answers, 403),
        **dict.fromkeys(NAMED, 200),
    }
    for kind in ("user without a policy", "role session without a policy", "unsigned"):
        assert json.loads(text(answers[kind]))["Message"].startswith("Forbidden. For troubleshoot")
    for kind in NAMED:
        caller = lab.callers[kind]
        context = json.loads(text(answers[kind]))["requestContext"]
        assert context["authorizer"] == {
            "iam": {
                "accessKey": caller.credentials.access_key,
                "accountId": ACCOUNT,
                "callerId": caller.user_id,
                "cognitoIdentity": None,
                "principalOrgId": None,
                "userArn": caller.arn,
                "userId": caller.user_id,
            }
        }
    # A statement in the function's own policy is enough for a caller of its account, and needed for another's.
    lambda_.add_permission(
        FunctionName=function, StatementId="bob", Action="lambda:InvokeFunctionUrl",
        Principal=lab.callers["user without a policy"].arn, FunctionUrlAuthType="AWS_IAM",
    )  # fmt: skip
    lambda_.add_permission(
        FunctionName=function, StatementId="other", Action="lambda:InvokeFunctionUrl",
        Principal=OTHER, FunctionUrlAuthType="AWS_IAM",
    )  # fmt: skip
    now = {kind for kind, each in answers_at(lab, url_path, "lambda").items() if each.status == 200}
    others = {"another account's user", "another account's root"}
    assert now == {*NAMED, "user without a policy", *others}


def test_a_signature_for_another_service_is_none_for_a_function_url(lab: SigningLab, url_path: str):
    ann = lab.callers["user with the policy"]
    answer = lab.send(lab.signed("header", get(url_path), ann, "kinesis"))
    assert said(answer) == ("InvalidSignatureException", 403)
    assert "Credential should be scoped to correct service: 'lambda'" in text(answer)


# --- APIs -----------------------------------------------------------------------------------------


def rest_api(lab: SigningLab, function: str) -> str:
    """Return the id of a REST API with a signed method, in the stage `v1`."""
    api: Any = lab.guarded.client("apigateway")
    made = api.create_rest_api(name="rest")
    (root,) = api.get_resources(restApiId=made["id"])["items"]
    where = {"restApiId": made["id"], "resourceId": root["id"], "httpMethod": "GET"}
    api.put_method(**where, authorizationType="AWS_IAM")
    api.put_integration(
        **where, type="AWS_PROXY", integrationHttpMethod="POST",
        uri=f"arn:aws:apigateway:{REGION}:lambda:path/2015-03-31/functions/{function}/invocations",
    )  # fmt: skip
    api.create_deployment(restApiId=made["id"], stageName="v1")
    return made["id"]


def http_api(lab: SigningLab, function: str, version: str) -> str:
    """Return the id of an HTTP API with a signed route."""
    api: Any = lab.guarded.client("apigatewayv2")
    api_id = api.create_api(Name="http", ProtocolType="HTTP")["ApiId"]
    integration = api.create_integration(
        ApiId=api_id,
        IntegrationType="AWS_PROXY",
        IntegrationUri=function,
        PayloadFormatVersion=version,
    )["IntegrationId"]
    api.create_route(
        ApiId=api_id,
        RouteKey="GET /",
        AuthorizationType="AWS_IAM",
        Target=f"integrations/{integration}",
    )
    api.create_stage(ApiId=api_id, StageName="$default", AutoDeploy=True)
    return api_id


@pytest.fixture(scope="module")
def invocable(lab: SigningLab, function: str) -> str:
    """Return the function's ARN; API Gateway may invoke it."""
    lab.guarded.client("lambda").add_permission(
        FunctionName=function, StatementId="api", Action="lambda:InvokeFunction",
        Principal="apigateway.amazonaws.com",
    )  # fmt: skip
    return function


def identity_of(caller: Caller) -> dict[str, str]:
    return {
        "accessKey": caller.credentials.access_key,
        "accountId": ACCOUNT,
        "caller": caller.user_id,
        "user": caller.user_id,
        "userArn": caller.arn,
    }


def test_a_rest_api_asks_iam_and_names_who_calls(lab: SigningLab, invocable: str):
    api_id = rest_api(lab, invocable)
    path = f"/_aws/execute-api/{api_id}/v1/"
    answers = answers_at(lab, path, "execute-api")
    assert {kind: answer.status for kind, answer in answers.items()} == {
        **dict.fromkeys(answers, 403),
        **dict.fromkeys(NAMED, 200),
    }
    arn = f"arn:aws:execute-api:{REGION}:********{ACCOUNT[8:]}:{api_id}/v1/GET/"
    denied = answers["user without a policy"]
    assert json.loads(text(denied))["message"].startswith(
        f"User: {lab.callers['user without a policy'].arn} is not authorized to perform: execute-api:Invoke on"
        f" resource: {arn}"
    )
    assert said(denied)[0] == "AccessDeniedException"
    codes = {
        "unsigned": "MissingAuthenticationTokenException",
        "wrong secret": "InvalidSignatureException",
        "unknown key": "UnrecognizedClientException",
        "expired session": "ExpiredTokenException",
    }
    assert {kind: said(answers[kind])[0] for kind in codes} == codes
    for kind in NAMED:
        identity = json.loads(text(answers[kind]))["requestContext"]["identity"]
        assert identity.items() >= identity_of(lab.callers[kind]).items()
    # The API's own policy is enough in its account.
    bob = {"Effect": "Allow", "Principal": {"AWS": lab.callers["user without a policy"].arn},
           "Action": "execute-api:Invoke", "Resource": "execute-api:/v1/GET/"}  # fmt: skip
    lab.guarded.client("apigateway").update_rest_api(
        restApiId=api_id,
        patchOperations=[
            {"op": "replace", "path": "/policy", "value": json.dumps(statements(bob))}
        ],
    )
    again = answers_at(lab, path, "execute-api")
    assert {kind for kind, each in again.items() if each.status == 200} == {
        *NAMED,
        "user without a policy",
    }


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_http_api_asks_iam_and_names_who_calls(lab: SigningLab, invocable: str, version: str):
    api_id = http_api(lab, invocable, version)
    answers = answers_at(lab, f"/_aws/execute-api/{api_id}/", "execute-api")
    assert {kind: answer.status for kind, answer in answers.items()} == {
        **dict.fromkeys(answers, 403),
        **dict.fromkeys(NAMED, 200),
    }
    for kind in ("user without a policy", "another account's user", "unsigned"):
        assert json.loads(text(answers[kind])) == {"message": "Forbidden"}
    for kind in NAMED:
        caller = lab.callers[kind]
        context = json.loads(text(answers[kind]))["requestContext"]
        if version == "1.0":
            assert context["identity"].items() >= identity_of(caller).items()
        else:
            assert context["authorizer"]["iam"]["userArn"] == caller.arn
            assert context["authorizer"]["iam"]["callerId"] == caller.user_id


# --- headrace's own paths -------------------------------------------------------------------------


def test_headraces_own_pages_are_for_operators_where_policies_count(lab: SigningLab):
    """No policy is about faults, reports and indexes of searches: whoever has a user's key gets none of them."""
    statuses = {
        kind: lab.send(lab.signed("header", get("/_headrace/faults"), caller, "headrace")).status
        for kind, caller in lab.callers.items()
    }
    operators = ("root", "another account's root")
    assert statuses == {**dict.fromkeys(lab.callers, 403), **dict.fromkeys(operators, 200)}


@pytest.mark.parametrize(
    ("kind", "status"),
    [("role session", 204), ("expired session", 400), ("user with the policy", 400)],
)
def test_spark_jobs_ask_with_a_session_that_is_valid(lab: SigningLab, kind: str, status: int):
    credentials = lab.callers[kind].credentials
    headers = {
        "host": HOST,
        "x-headrace-key": credentials.access_key,
        "x-headrace-token": credentials.token or "anything",
    }
    body = b"GetObject box k"
    assert lab.send(HttpRequest("POST", ACCESS_PATH, "", headers, body)).status == status


def test_a_website_has_a_caller_too(lab: SigningLab):
    s3 = lab.guarded.client("s3")
    s3.create_bucket(Bucket="pages")
    s3.put_object(Bucket="pages", Key="k", Body=b"secret")
    s3.put_bucket_website(
        Bucket="pages", WebsiteConfiguration={"IndexDocument": {"Suffix": "index.html"}}
    )
    site = "http://pages.s3-website.localhost:4566"
    answers: dict[str, int] = {}
    for kind in (*LET_IN, *KEPT_OUT):
        signed = lab.signed("header", AWSRequest("GET", f"{site}/k"), lab.callers[kind], "s3")
        signed.headers["host"] = site.partition("://")[2]
        answers[kind] = lab.send(signed).status
    assert answers == dict.fromkeys(LET_IN, 200) | dict.fromkeys(KEPT_OUT, 403)
