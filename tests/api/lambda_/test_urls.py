"""Function URLs: their configuration, who may call them, what the function is told and what it answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from tests.support.lambda_lab import LambdaLab

ECHO = "def handler(event, context):\n    return event\n"
SCRIPT = "import json\ndef handler(event, context):\n    return json.loads(event['body'])\n"
SIGNED = "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/lambda/aws4_request, Signature=x"


def make(lab: LambdaLab, name: str, source: str = ECHO, *, public: bool = True, **url: Any) -> str:
    """Create a function with a URL that anybody may call; return the URL's id."""
    lab.create(name, source)
    answer = lab.client().create_function_url_config(
        **{"FunctionName": name, "AuthType": "NONE", **url}
    )
    if public:
        allow(lab, name)
    return answer["FunctionUrl"].rstrip("/").rpartition("/")[2]


def allow(lab: LambdaLab, name: str, **members: Any) -> None:
    lab.client().add_permission(
        **{
            "FunctionName": name,
            "StatementId": "url",
            "Action": "lambda:InvokeFunctionUrl",
            "Principal": "*",
            "FunctionUrlAuthType": "NONE",
            **members,
        }
    )


def ask(
    lab: LambdaLab,
    url_id: str,
    path: str = "/",
    *,
    method: str = "GET",
    query: str = "",
    body: bytes = b"",
    **headers: str,
) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("host", "127.0.0.1:4566")
    return lab.handle(
        HttpRequest(method, f"/_headrace/function-url/{url_id}{path}", query, named, body)
    )


def text(response: HttpResponse) -> str:
    assert isinstance(response.body, bytes)
    return response.body.decode()


def said(lab: LambdaLab, url_id: str, value: Any) -> HttpResponse:
    """Return the HTTP answer to what the function returns."""
    return ask(
        lab, url_id, method="POST", body=json.dumps(value).encode(), content_type="application/json"
    )


# --- configuration ----------------------------------------------------------------------------


def test_a_url_is_created_shown_changed_and_deleted(lab: LambdaLab) -> None:
    lab.create("f", ECHO)
    client = lab.client()
    made = client.create_function_url_config(FunctionName="f", AuthType="AWS_IAM")
    assert made["FunctionArn"].endswith(":function:f")
    assert "InvokeMode" not in made
    client.update_function_url_config(
        FunctionName="f", AuthType="NONE", Cors={"AllowOrigins": ["*"]}
    )
    shown = client.get_function_url_config(FunctionName="f")
    assert shown["InvokeMode"] == "BUFFERED"
    assert shown["FunctionUrl"] == made["FunctionUrl"]
    assert (shown["AuthType"], shown["Cors"]) == ("NONE", {"AllowOrigins": ["*"]})
    lab.restart()
    (listed,) = client.list_function_url_configs(FunctionName="f")["FunctionUrlConfigs"]
    assert listed["FunctionUrl"] == made["FunctionUrl"]
    client.delete_function_url_config(FunctionName="f")
    with pytest.raises(ClientError) as caught:
        client.get_function_url_config(FunctionName="f")
    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize(
    ("members", "code", "status"),
    [
        ({}, "ResourceConflictException", 409),
        ({"Qualifier": "other"}, "ResourceNotFoundException", 404),
        ({"AuthType": "SOME"}, "ValidationException", 400),
        ({"FunctionName": "missing"}, "ResourceNotFoundException", 404),
    ],
)
def test_bad_urls_are_refused(
    lab: LambdaLab, members: dict[str, Any], code: str, status: int
) -> None:
    make(lab, "f")
    with pytest.raises(ClientError) as caught:
        lab.client().create_function_url_config(
            **{"FunctionName": "f", "AuthType": "NONE", **members}
        )
    response = caught.value.response
    assert response["Error"]["Code"] == code
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status


# --- who may ----------------------------------------------------------------------------------


def test_without_a_statement_nobody_may(lab: LambdaLab) -> None:
    url_id = make(lab, "closed", public=False)
    answer = ask(lab, url_id)
    assert answer.status == 403
    assert json.loads(text(answer))["Message"].startswith("Forbidden")
    allow(lab, "closed")
    assert ask(lab, url_id).status == 200


def test_iam_wants_a_signature_of_the_account_or_a_statement(lab: LambdaLab) -> None:
    url_id = make(lab, "iam", public=False, AuthType="AWS_IAM")
    assert ask(lab, url_id).status == 403
    answer = ask(lab, url_id, authorization=SIGNED.format("000000000000"))
    assert answer.status == 200
    context = json.loads(text(answer))["requestContext"]
    assert context["authorizer"]["iam"]["accountId"] == "000000000000"
    other = SIGNED.format("111111111111")
    assert ask(lab, url_id, authorization=other).status == 403
    allow(lab, "iam", Principal="111111111111", FunctionUrlAuthType="AWS_IAM")
    assert ask(lab, url_id, authorization=other).status == 200


def test_an_unknown_url_is_forbidden(lab: LambdaLab) -> None:
    assert ask(lab, "0" * 32).status == 403


# --- the event --------------------------------------------------------------------------------


def test_the_event_has_payload_format_2(lab: LambdaLab) -> None:
    url_id = make(lab, "echo")
    answer = ask(
        lab, url_id, "/a%20b/c", method="PUT", query="x=1&x=2&y=%C3%BC", body=b'{"n": 1}',
        content_type="application/json", cookie="a=1; b=2", user_agent="tests",
    )  # fmt: skip
    event = json.loads(text(answer))
    assert (event["version"], event["rawPath"]) == ("2.0", "/a%20b/c")
    assert event["rawQueryString"] == "x=1&x=2&y=%C3%BC"
    assert event["queryStringParameters"] == {"x": "1,2", "y": "ü"}
    assert event["cookies"] == ["a=1", "b=2"]
    assert event["headers"]["content-type"] == "application/json"
    assert (event["body"], event["isBase64Encoded"]) == ('{"n": 1}', False)
    context = event["requestContext"]
    assert context["http"]["method"] == "PUT"
    assert context["http"]["userAgent"] == "tests"
    assert context["accountId"] == "anonymous"
    assert context["apiId"] == url_id
    assert ("x-amzn-RequestId", context["requestId"]) in answer.headers


def test_a_binary_body_comes_as_base64(lab: LambdaLab) -> None:
    url_id = make(lab, "echo")
    event = json.loads(text(ask(lab, url_id, method="POST", body=b"\xff\x00")))
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b"\xff\x00"


def test_the_host_names_the_function_too(lab: LambdaLab) -> None:
    url_id = make(lab, "echo")
    host = f"{url_id}.lambda-url.us-east-1.localhost:4566"
    event = json.loads(text(lab.handle(HttpRequest("GET", "/x", "", {"host": host}))))
    assert event["rawPath"] == "/x"
    assert event["requestContext"]["domainName"] == host.partition(":")[0]


def test_an_alias_has_an_address_of_its_own(lab: LambdaLab) -> None:
    lab.create("f", "def handler(e, c):\n    return c.function_version\n")
    client = lab.client()
    client.publish_version(FunctionName="f")
    client.create_alias(FunctionName="f", Name="live", FunctionVersion="1")
    made = client.create_function_url_config(FunctionName="f", Qualifier="live", AuthType="NONE")
    allow(lab, "f", Qualifier="live")
    assert made["FunctionArn"].endswith(":f:live")
    url_id = made["FunctionUrl"].rstrip("/").rpartition("/")[2]
    assert text(ask(lab, url_id)) == "1"


# --- the answer -------------------------------------------------------------------------------


def test_an_answer_says_status_headers_cookies_and_body(lab: LambdaLab) -> None:
    url_id = make(lab, "script", SCRIPT)
    answer = said(
        lab, url_id,
        {"statusCode": 201, "headers": {"X-Mine": "1"}, "body": "hi", "cookies": ["a=1", "b=2"]},
    )  # fmt: skip
    assert (answer.status, text(answer)) == (201, "hi")
    assert ("x-mine", "1") in answer.headers
    assert [v for n, v in answer.headers if n == "Set-Cookie"] == ["a=1", "b=2"]


def test_any_other_json_is_the_body(lab: LambdaLab) -> None:
    url_id = make(lab, "script", SCRIPT)
    answer = said(lab, url_id, {"a": 1})
    assert (answer.status, json.loads(text(answer))) == (200, {"a": 1})
    assert ("Content-Type", "application/json") in answer.headers


@pytest.mark.parametrize(
    ("value", "body"),
    [("hello", "hello"), ("", ""), ("a \"b\" \u00e9", 'a "b" \u00e9'), (3, "3"), (None, "null"), (True, "true")],
)  # fmt: skip
def test_a_text_is_the_body_without_its_quotes(lab: LambdaLab, value: Any, body: str) -> None:
    answer = said(lab, make(lab, "script", SCRIPT), value)
    assert (answer.status, text(answer)) == (200, body)


def test_a_text_that_is_no_unicode_is_no_failure(lab: LambdaLab) -> None:
    assert said(lab, make(lab, "script", SCRIPT), "\ud800").status == 200


def test_a_base64_body_is_decoded(lab: LambdaLab) -> None:
    url_id = make(lab, "script", SCRIPT)
    encoded = base64.b64encode(b"\xff\x01").decode()
    answer = said(lab, url_id, {"statusCode": 200, "body": encoded, "isBase64Encoded": True})
    assert answer.body == b"\xff\x01"


@pytest.mark.parametrize("value", [{"statusCode": "many"}, {"statusCode": 200, "headers": [1]}])
def test_a_malformed_answer_is_a_bad_gateway(lab: LambdaLab, value: Any) -> None:
    assert said(lab, make(lab, "script", SCRIPT), value).status == 502


def test_a_failing_function_is_a_bad_gateway(lab: LambdaLab) -> None:
    url_id = make(lab, "fails", "def handler(e, c):\n    raise ValueError\n")
    answer = ask(lab, url_id)
    assert (answer.status, text(answer)) == (502, "Internal Server Error")


def test_limits_are_told_by_status(lab: LambdaLab) -> None:
    url_id = make(lab, "limits")
    body = b"x" * (6 * 1024 * 1024 + 1)
    assert ask(lab, url_id, method="POST", body=body).status == 413
    lab.client().put_function_concurrency(FunctionName="limits", ReservedConcurrentExecutions=0)
    assert ask(lab, url_id).status == 429


# --- CORS -------------------------------------------------------------------------------------

CORS = {
    "AllowOrigins": ["https://*.example.com"],
    "AllowMethods": ["GET", "PUT"],
    "AllowHeaders": ["x-mine"],
    "ExposeHeaders": ["x-theirs"],
    "MaxAge": 60,
    "AllowCredentials": True,
}


def test_a_browsers_question_is_answered_without_the_function(lab: LambdaLab) -> None:
    url_id = make(lab, "cors", "1 / 0\n", Cors=CORS)
    answer = ask(lab, url_id, method="OPTIONS", origin="https://a.example.com")
    headers = dict(answer.headers)
    assert answer.status == 200
    assert headers["Access-Control-Allow-Origin"] == "https://a.example.com"
    assert headers["Access-Control-Allow-Methods"] == "GET,PUT"
    assert headers["Access-Control-Max-Age"] == "60"
    other = ask(lab, url_id, method="OPTIONS", origin="https://evil.com")
    assert "Access-Control-Allow-Origin" not in dict(other.headers)


def test_answers_carry_the_configured_headers_in_place_of_the_functions(lab: LambdaLab) -> None:
    url_id = make(lab, "cors", SCRIPT, Cors=CORS)
    value = {"statusCode": 200, "headers": {"access-control-allow-origin": "https://other"}}
    answer = ask(
        lab, url_id, method="POST", body=json.dumps(value).encode(),
        content_type="application/json", origin="https://a.example.com",
    )  # fmt: skip
    allowed = [v for n, v in answer.headers if n.lower() == "access-control-allow-origin"]
    assert allowed == ["https://a.example.com"]
    assert dict(answer.headers)["Access-Control-Expose-Headers"] == "x-theirs"


def test_a_page_is_let_in_by_the_configuration_alone(lab: LambdaLab) -> None:
    rules = lab.lambda_.url_endpoints().rules
    with_cors = make(lab, "with", ECHO, Cors=CORS)
    every = make(lab, "every", ECHO, Cors={"AllowOrigins": ["*"]})
    without = make(lab, "without", ECHO)

    def may(url_id: str, method: str, origin: str) -> bool:
        request = HttpRequest(method, f"/_headrace/function-url/{url_id}/", "", {"origin": origin})
        assert rules.covers(request)
        return rules.permits(request, origin)

    assert may(with_cors, "GET", "https://a.example.com")
    assert not may(with_cors, "GET", "https://evil.com")
    assert not may(with_cors, "POST", "https://a.example.com")  # a form needs no preflight
    assert may(with_cors, "OPTIONS", "https://evil.com")  # answered without the function
    assert may(every, "POST", "null")
    assert not may(every, "DELETE", "https://a.example.com")
    assert not may(without, "GET", "https://a.example.com")
    assert not may(without, "OPTIONS", "https://a.example.com")  # the function would see it
    assert not may("nobodys", "GET", "https://a.example.com")


def test_on_its_own_host_a_function_is_alone(lab: LambdaLab) -> None:
    one, other = make(lab, "one", ECHO), make(lab, "other", ECHO)
    host = {"host": f"{one}.lambda-url.us-east-1.localhost:4566"}
    path = f"/_headrace/function-url/{other}/"
    event = json.loads(text(lab.handle(HttpRequest("GET", path, "", host))))
    assert (event["requestContext"]["apiId"], event["rawPath"]) == (one, path)
