"""Requests that browsers send for pages of other origins, to everything that this cloud has."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.browser_rules import BrowserRules, restraints
from headrace.aws.gateway.documents import is_admin
from headrace.aws.gateway.hosts import AllowedOrigins, Hosts
from tests.security.conftest import FRIEND, Door, body_of, header, text
from tests.support.cloud import InProcessCloud

EVIL = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
PLAIN = {"content-type": "text/plain;charset=UTF-8"}
IAM = "X-Amz-Credential=a%2F20200101%2Fus-east-1%2Fiam%2Faws4_request"
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "accept": "text/html"}

# What was found to work on the first evening, and its like: each a request that no browser asks about first.
ATTACKS = [
    ("POST", "/2015-03-31/functions", PLAIN),
    ("POST", "/2015-03-31/functions/f/invocations", PLAIN),
    ("POST", "/", FORM),  # CloudFormation, IAM, STS, SQS, SNS by the body's Version
    ("POST", f"/?{IAM}", PLAIN),
    ("POST", "/applications", PLAIN),
    ("POST", "/_headrace/faults", PLAIN),
    ("POST", "/_headrace/function-url/abc/", PLAIN),
    ("POST", "/plain/key", {"content-type": "multipart/form-data; boundary=x"}),
    ("GET", "/_headrace/faults", {}),
    ("GET", "/_headrace/function-url/abc/", {}),
    ("GET", "/plain/page.html", {}),
    ("GET", "/shared/page.html", {}),
    ("HEAD", "/plain/page.html", {}),
    ("PUT", "/plain/page.html", {}),
    ("DELETE", "/plain/page.html", {}),
    ("PUT", "/_headrace/cfn-response/token", {}),
    ("DELETE", "/_headrace/faults", {}),
    ("GET", "/_localstack/health", {}),
    ("GET", "/", {}),
    ("POST", "/", {"x-amz-target": "Kinesis_20131202.PutRecord"}),
    ("POST", "/", {"x-amz-target": "DynamoDB_20120810.PutItem"}),
]


@pytest.mark.parametrize(("method", "path", "headers"), ATTACKS)
@pytest.mark.parametrize(
    "page",
    [
        EVIL,
        {"origin": "http://evil.example"},  # a browser without Sec-Fetch
        {"origin": "null", "sec-fetch-site": "cross-site"},  # a sandboxed frame, a document in a bucket
        {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-site"},  # another port of this machine
        {"origin": "http://localhost:4566", "sec-fetch-site": "cross-site"},  # another of its names
        {"sec-fetch-site": "cross-site"},  # an image, a script, a frame
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:4566", "sec-fetch-site": "cross-site"},  # led round through another site
        {"origin": "http://localhost:3000,http://evil.example"},  # two Origin headers
        {"origin": ""},
    ],
)  # fmt: skip
def test_a_page_of_another_origin_is_refused(
    door: Door, method: str, path: str, headers: dict[str, str], page: dict[str, str]
):
    answer = door.ask(method, path, {**headers, **page})
    assert answer.status == 403
    assert "OriginNotAllowed" in text(answer) or is_admin(path) or method == "HEAD"
    assert header(answer, "access-control-allow-origin") is None


@pytest.mark.parametrize(("method", "path", "headers"), ATTACKS)
def test_a_page_of_another_origin_may_not_ask_either(
    door: Door, method: str, path: str, headers: dict[str, str]
):
    question = {**EVIL, "access-control-request-method": method}
    answer = door.ask("OPTIONS", path, question)
    assert answer.status == 403
    assert header(answer, "access-control-allow-origin") is None


def test_the_refusal_names_the_flag(door: Door):
    json = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "Kinesis_20131202.X"}
    answer = door.ask("POST", "/", {**json, **EVIL})
    assert body_of(answer)["__type"] == "OriginNotAllowed"
    assert body_of(answer)["message"] == (
        "This cloud refuses requests of a page of http://evil.example. To let it in, start the cloud with"
        " --allow-origin http://evil.example (HEADRACE_ALLOW_ORIGIN)."
    )
    assert "bucket a CORS rule" in text(door.ask("GET", "/plain/page.html", EVIL))
    assert "a Cors configuration" in text(door.ask("GET", "/_headrace/function-url/a/", EVIL))
    assert "--allow-origin '*'" in text(door.ask("POST", "/", {"origin": "null"}))


def test_the_refusal_is_logged_once_for_an_origin(door: Door, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            door.ask("POST", "/", {"origin": "http://logged.example\x1b"})
    (logged,) = (r.getMessage() for r in caplog.records if "logged" in r.getMessage())
    assert logged == (
        "refused a browser's request: This cloud refuses requests of a page of http://logged.example\\x1b. To let"
        " it in, start the cloud with --allow-origin http://logged.example\\x1b (HEADRACE_ALLOW_ORIGIN)."
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user-agent": "Boto3/1.43", "amz-sdk-invocation-id": "1"},
        {"user-agent": "node", "sec-fetch-mode": "cors"},  # fetch of Node.js
        {"user-agent": "curl/8"},
        {"user-agent": "Mozilla/5.0"},
        {"origin": "http://127.0.0.1:4566", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},  # typed
        {"origin": FRIEND, "sec-fetch-site": "cross-site"},
        {"referer": f"{FRIEND}/app", "sec-fetch-site": "cross-site"},
        {"origin": "HTTP://LOCALHOST:3000"},
    ],
)
def test_programs_the_clouds_own_pages_and_allowed_origins_go_on(
    door: Door, headers: dict[str, str]
):
    assert door.status("GET", "/plain/page.html", headers) == 200
    assert door.status("GET", "/_headrace/health", headers) == 200
    target = {"x-amz-target": "Kinesis_20131202.ListStreams", **headers}
    assert door.ask("POST", "/", target, b"{}").status == 200


# --- links ------------------------------------------------------------------------------------


def test_a_link_from_elsewhere_shows_a_page_in_a_window_of_its_own(door: Door):
    there = {**LINK, "sec-fetch-dest": "document"}
    assert door.status("GET", "/_headrace/", there) == 200
    assert door.status("HEAD", "/_headrace/emr", there) == 200


@pytest.mark.parametrize(
    ("method", "path", "changed"),
    [
        ("GET", "/_headrace/", {"sec-fetch-dest": "iframe"}),
        ("GET", "/_headrace/", {"sec-fetch-dest": "object"}),
        ("GET", "/_headrace/", {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}),
        ("GET", "/_headrace/", {}),
        ("POST", "/_headrace/faults", {"sec-fetch-dest": "document"}),
        ("DELETE", "/_headrace/faults", {"sec-fetch-dest": "document"}),
        ("GET", "/_headrace/function-url/abc/", {"sec-fetch-dest": "document"}),
        ("GET", "/plain/page.html", {"sec-fetch-dest": "document"}),
        ("GET", f"/?Action=DeleteUser&{IAM}", {"sec-fetch-dest": "document"}),
    ],
)
def test_a_link_from_elsewhere_reaches_nothing_else(
    door: Door, method: str, path: str, changed: dict[str, str]
):
    assert door.status(method, path, {**LINK, **changed}) == 403


@pytest.mark.parametrize(
    "query", [f"Action=DeleteUser&{IAM}", f"%41ction=DeleteUser&{IAM}", "x=1&Action="]
)
@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "none"}, {"user-agent": "Mozilla/5.0 (old)"}, LINK]
)
def test_no_link_runs_an_operation_though_nobody_says_where_it_stood(
    door: Door, query: str, headers: dict[str, str]
):
    """A link in a mail program has `Sec-Fetch-Site: none`, one over plain HTTP from afar none at all."""
    answer = door.ask("GET", f"/?{query}", headers)
    assert answer.status == 403
    assert "OperationByLinkNotAllowed" in text(answer) or "not named" in text(answer)


def test_programs_may_run_an_operation_by_get(door: Door):
    sts = IAM.replace("iam", "sts")
    answer = door.ask("GET", f"/?Action=GetCallerIdentity&Version=2011-06-15&{sts}")
    assert answer.status == 200
    assert "<Arn>" in text(answer)


def test_the_history_server_is_not_started_by_a_link_from_elsewhere(door: Door):
    there = {**LINK, "sec-fetch-dest": "document"}
    answer = door.ask("GET", "/_headrace/emr/history", there)
    assert answer.status == 200
    assert 'href="/_headrace/emr/history"' in text(answer)


def test_a_page_of_the_clouds_own_changes_nothing(door: Door):
    """They have no scripts: whatever comes from one was put there."""
    own = {"origin": "http://127.0.0.1:4566", "sec-fetch-site": "same-origin"}
    for method in ("POST", "DELETE", "PUT"):
        assert door.status(method, "/_headrace/faults", own) == 403
        assert door.status(method, "/_headrace/faults", {"sec-fetch-site": "none"}) == 403


# --- what browsers are told of answers --------------------------------------------------------


def test_the_clouds_own_answers_are_tied_down(door: Door):
    for path in ("/_headrace/", "/_headrace/health", "/_headrace/faults", "/_headrace/nowhere"):
        answer = door.ask("GET", path)
        policy = header(answer, "content-security-policy") or ""
        assert "default-src 'none'" in policy
        # The page alone has scripts: files of its own.
        assert ("script-src 'self'" in policy) == (path == "/_headrace/")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert header(answer, "x-content-type-options") == "nosniff"
        assert header(answer, "x-frame-options") == "DENY"
        assert header(answer, "referrer-policy") == "no-referrer"
        assert len({name for name, _ in answer.headers}) == len(answer.headers)


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "none"}, {"user-agent": "Mozilla/5.0"}, {"origin": FRIEND}],
)
def test_documents_from_buckets_are_of_no_origin(door: Door, headers: dict[str, str]):
    answer = door.ask("GET", "/plain/page.html", {**headers, "accept": "text/html,*/*"})
    policy = header(answer, "content-security-policy") or ""
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert "allow-top-navigation" not in policy
    assert header(answer, "x-content-type-options") == "nosniff"
    assert answer.body == b"<p>"
    etag = {"if-none-match": header(answer, "etag") or ""}
    again = door.ask("GET", "/plain/page.html", {**headers, **etag})
    assert (again.status, header(again, "content-security-policy")) == (304, policy)


@pytest.mark.parametrize(
    ("kind", "tied"),
    [("text/html", True), ("TEXT/HTML; charset=x", True), ("image/svg+xml", True), ("text/xml", True),
     ("application/xhtml+xml", True), ("text/plain", True), ("", True), ("nonsense", True),
     ("image/png", False), ("video/mp4", False), ("application/pdf", False)],
)  # fmt: skip
def test_whatever_may_run_something_is_tied_down(kind: str, tied: bool):
    answer = HttpResponse(200, [("content-type", kind)] if kind else [])
    assert bool(restraints(HttpRequest("GET", "/b/k"), answer)) is tied


def test_images_and_what_programs_load_stay_as_they_were(door: Door):
    image = door.ask("GET", "/plain/a.png", {"sec-fetch-site": "none"})
    assert header(image, "content-security-policy") is None
    loaded = door.ask("GET", "/plain/page.html", {"user-agent": "Boto3/1.43"})
    assert header(loaded, "content-security-policy") is None
    assert header(loaded, "x-content-type-options") is None


def test_on_its_own_host_a_bucket_is_alone(door: Door):
    """So its documents keep their origin, with their images, styles and scripts: it is worth nothing else."""
    host = {"host": "plain.s3.localhost:4566"}
    own = {**host, "origin": "http://plain.s3.localhost:4566", "sec-fetch-site": "same-origin"}
    shown = door.ask("GET", "/page.html", {**host, "sec-fetch-site": "none"})
    assert (shown.status, header(shown, "content-security-policy")) == (200, None)
    part = {**host, "sec-fetch-site": "same-origin", "user-agent": "Mozilla/5.0"}
    for page in (part, {**host, "user-agent": "Mozilla/5.0"}):  # a browser without Sec-Fetch
        assert door.status("GET", "/a.png", page) == 200
        assert door.status("GET", "/_headrace/faults", page) == 403
        assert door.status("GET", "/2015-03-31/functions", page) == 403
        assert door.status("GET", f"/?Action=ListUsers&{IAM}", page) == 403
        assert door.status("GET", f"/a.png?{IAM}", page) == 403
    for method in ("PUT", "POST", "DELETE"):
        assert door.status(method, "/a.png", own) == 403
        assert door.status(method, "/_headrace/faults", own) == 403
        assert door.status(method, "/", {**own, "x-amz-target": "Kinesis_20131202.X"}) == 403
    assert door.status("GET", "/a.png", {**own, "host": "127.0.0.1:4566"}) == 403
    # Programs use it as ever.
    assert door.status("PUT", "/new", host) == 200
    assert door.status("PUT", "/new", {**host, "user-agent": "Mozilla/5.0 (a tool)"}) == 200
    assert door.status("GET", "/_headrace/health", host) == 200
    assert door.status("GET", "/_headrace/health", {**host, "host": "no-bucket.localhost"}) == 200


class NoRules:
    """Nothing has rules of its own."""

    def covers(self, request: HttpRequest) -> bool:
        return False

    def permits(self, request: HttpRequest, origin: str) -> bool:
        return False

    def is_alone(self, request: HttpRequest) -> bool:
        return False


def test_pages_of_the_clouds_own_origin_may_be_allowed(door: Door):
    """Whoever keeps an application in a bucket says so; then its documents have their origin, and may do all."""
    own = "http://localhost:4566"
    rules = NoRules()
    front = BrowserRules(
        hosts=Hosts(), origins=AllowedOrigins([own]), own_addresses=rules, buckets=rules
    )
    page = {"host": "localhost:4566", "origin": own, "sec-fetch-site": "same-origin"}
    posted = HttpRequest("POST", "/_headrace/faults", "", page)
    assert front.refusal_of(posted) is None
    answer = HttpResponse(200, [("Content-Type", "text/html")])
    front.add_browser_headers(HttpRequest("GET", "/bucket/app.html", "", page), answer)
    assert answer.headers == [("Content-Type", "text/html")]
    elsewhere = {**page, "host": "127.0.0.1:4566"}
    assert front.refusal_of(HttpRequest("POST", "/_headrace/faults", "", elsewhere)) is None
    typed = {"host": "localhost:4566", "sec-fetch-site": "none"}
    link = HttpRequest("GET", "/", f"Action=DeleteUser&{IAM}", typed)
    refusal = front.refusal_of(link)
    assert refusal is not None
    assert refusal.status == 403


# --- CORS of AWS's endpoints --------------------------------------------------------------------

ASKED = "content-type,x-amz-target,authorization,amz-sdk-invocation-id"
QUESTION = {
    "origin": FRIEND,
    "sec-fetch-site": "cross-site",
    "access-control-request-method": "POST",
    "access-control-request-headers": ASKED,
}


@pytest.mark.parametrize(
    ("path", "exposed"),
    [
        ("/", "x-amzn-RequestId,x-amzn-ErrorType,x-amz-request-id,x-amz-id-2,x-amzn-ErrorMessage,Date"),
        (
            "/2015-03-31/functions/f/invocations",
            "x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date,x-amz-log-result,x-amz-function-error",
        ),
    ],
)  # fmt: skip
def test_an_allowed_page_is_answered_as_aws_answers(door: Door, path: str, exposed: str):
    """Observed by aws-sdk-js-v3 on 26 October 2020, see `headrace.aws.gateway.browser_rules`."""
    answer = door.ask("OPTIONS", path, QUESTION)
    assert (answer.status, answer.body) == (200, b"")
    assert dict(answer.headers) == {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Headers": ASKED,
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Expose-Headers": exposed,
        "Access-Control-Max-Age": "172800",
    }


def test_a_browser_that_asks_about_the_local_network_is_answered(door: Door):
    asked = {**QUESTION, "access-control-request-private-network": "true"}
    answer = door.ask("OPTIONS", "/", asked)
    assert header(answer, "access-control-allow-private-network") == "true"


@pytest.mark.parametrize(
    ("target", "status"),
    [("Kinesis_20131202.ListStreams", 200), ("Kinesis_20131202.PutRecord", 400),
     ("DynamoDB_20120810.ListTables", 200)],
)  # fmt: skip
def test_an_allowed_page_may_read_answers_and_errors(door: Door, target: str, status: int):
    headers = {
        "origin": FRIEND,
        "x-amz-target": target,
        "content-type": "application/x-amz-json-1.1",
    }
    answer = door.ask("POST", "/", headers, b"{}")
    assert answer.status == status
    assert header(answer, "access-control-allow-origin") == "*"
    assert "x-amzn-RequestId" in (header(answer, "access-control-expose-headers") or "")


def test_programs_get_no_such_headers(door: Door):
    answer = door.ask("POST", "/", {"x-amz-target": "Kinesis_20131202.ListStreams"}, b"{}")
    assert not [n for n, _ in answer.headers if n.lower().startswith(("access-", "content-sec"))]


# --- rules of a bucket's own ----------------------------------------------------------------------

READER = {"origin": "https://a.readers.example", "sec-fetch-site": "cross-site"}


def test_a_buckets_rules_let_pages_in_and_do_not_let_them_further(door: Door):
    answer = door.ask("GET", "/shared/page.html", READER)
    assert answer.status == 200
    assert header(answer, "access-control-allow-origin") == "https://a.readers.example"
    assert door.status("PUT", "/shared/page.html", READER) == 403
    assert door.status("GET", "/plain/page.html", READER) == 403
    assert door.status("GET", "/shared/page.html", {"origin": "https://readers.example"}) == 403
    # Whatever its path says, the request is another service's.
    assert door.status("GET", f"/shared/page.html?{IAM}", READER) == 403
    target = {"x-amz-target": "Kinesis_20131202.ListStreams"}
    assert door.status("GET", "/shared/page.html", {**READER, **target}) == 403
    assert door.status("GET", "/shared/page.html", {**READER, **FORM}) == 403


def test_rules_are_about_objects_and_not_about_the_bucket_or_another(door: Door):
    """A bucket to which every page may upload: with no key, none of them gets any further."""
    s3 = door.cloud.client("s3")
    s3.create_bucket(Bucket="inbox")
    rule = {
        "AllowedMethods": ["GET", "PUT", "POST", "DELETE"],
        "AllowedOrigins": ["*"],
        "AllowedHeaders": ["*"],
    }
    s3.put_bucket_cors(Bucket="inbox", CORSConfiguration={"CORSRules": [rule]})
    for page in (EVIL, {"origin": "null"}):
        assert door.ask("PUT", "/inbox/key", page, b"x").status == 200
        assert door.status("GET", "/inbox/key", page) == 200
        assert door.status("GET", "/inbox?list-type=2", page) == 200
        copy = {"x-amz-copy-source": "/inbox/key"}
        assert door.status("PUT", "/inbox/copy", {**page, **copy}) == 200
        for source in (
            "plain/page.html",
            "/plain/page.html",
            "%2Fplain/page.html",
            "shared/page.html",
        ):
            steal = {"x-amz-copy-source": source}
            assert door.status("PUT", "/inbox/stolen", {**page, **steal}) == 403
        assert door.status("PUT", "/inbox/stolen?x-amz-copy-source=plain/page.html", page) == 403
        for query in ("notification", "policy", "cors", "website", "replication"):
            assert door.status("PUT", f"/inbox?{query}", page) == 403
            assert door.status("DELETE", f"/inbox?{query}", page) == 403
        assert door.status("DELETE", "/inbox", page) == 403
        assert door.status("PUT", "/other", page) == 403
        deletion = b"<Delete><Object><Key>copy</Key></Object></Delete>"
        assert door.ask("POST", "/inbox?delete", page, deletion).status == 200


def test_an_allowed_page_still_needs_the_buckets_rules_to_read(door: Door):
    """As on AWS: what works here must work there."""
    question = {"origin": FRIEND, "access-control-request-method": "PUT"}
    answer = door.ask("OPTIONS", "/plain/page.html", question)
    assert answer.status == 403
    assert "CORSResponse: CORS is not enabled for this bucket." in text(answer)
    loaded = door.ask("GET", "/plain/page.html", {"origin": FRIEND})
    assert (loaded.status, header(loaded, "access-control-allow-origin")) == (200, None)


def test_options_without_a_method_is_answered_as_on_aws(door: Door):
    # Source: kinesalite's test/connection.js (observed).
    answer = door.ask("OPTIONS", "/", {"origin": FRIEND, "access-control-request-headers": "a, b"})
    headers = {name.lower(): value for name, value in answer.headers}
    assert (answer.status, answer.body) == (200, b"")
    assert headers["access-control-allow-origin"] == "*"
    assert headers["access-control-allow-headers"] == "a, b"
    assert headers["access-control-max-age"] == "172800"
    assert "access-control-allow-methods" not in headers


def test_what_a_page_or_a_function_answers_never_runs_on_the_event_loop(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path) as cloud:
        entrance = cloud.cloud.entrance
        headers = {"host": "127.0.0.1:4566", "x-amz-target": "Kinesis_20131202.PutRecord"}

        def runs_at_once(path: str, **more: str) -> bool:
            entrance.answer_at_once(HttpRequest("POST", "/", "", dict(headers), b"{}"))
            request = HttpRequest("POST", path, "", {**headers, **more}, b"{}")
            entrance.answer_at_once(request)
            return request.at_once

        assert runs_at_once("/")
        assert not runs_at_once("/restapis/a/stage/_user_request_/path")
        assert not runs_at_once("/_headrace/streams")
        assert not runs_at_once("/", host="a.lambda-url.us-east-1.localhost:4566")
