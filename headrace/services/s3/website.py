"""Static websites: answers requests to a bucket's website host, such as bucket.s3-website.localhost:4566.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/WebsiteHosting.html and its pages on redirects and
error documents (documented); for the error pages, AWS's answers to LocalStack's tests/aws/services/s3/test_s3.py,
recorded in August 2023 (observed). Without `--auth`, the website serves every object, whether it is public or not.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote, unquote

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.shapes.s3 import (
    Redirect,
    RedirectAllRequestsTo,
    RoutingRule,
    WebsiteConfiguration,
)
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import (
    invalid_argument,
    invalid_request,
    no_such_bucket,
    not_allowed,
)
from headrace.services.s3.routing import Target

NAME = "BucketWebsite"
HOST_ID = "headrace"
_READING = ("GET", "HEAD")
_PROTOCOLS = ("http", "https")
_MISSING = ("NoSuchKey", "NoSuchVersion")
_REDIRECT_CODE = re.compile(r"30[1-57-8]|3[1-9][0-9]")
_SENT_ON = ("range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since")

Get = Callable[[Target], HttpResponse]


def answer(s3: S3, request: HttpRequest, bucket: str, get: Get) -> HttpResponse:
    """Answer a request to a bucket's website; an error becomes an HTML page. `get` answers GET of an object."""
    try:
        if request.method not in _READING:
            raise not_allowed(request.method, "OBJECT")
        if not s3.has_bucket(bucket):
            raise no_such_bucket(bucket)
        site = s3.bucket(bucket).configurations.get(NAME)
        if site is None:
            raise AwsError(
                "NoSuchWebsiteConfiguration",
                "The specified bucket does not have a website configuration",
                404,
                {"BucketName": bucket},
            )
        return _Site(request, bucket, site, get).answer()
    except AwsError as error:
        return _render_page(request, error)


class _Site:
    """One request to a website."""

    def __init__(
        self, request: HttpRequest, bucket: str, site: WebsiteConfiguration, get: Get
    ) -> None:
        self._request = request
        self._bucket = bucket
        self._site = site
        self._get = get
        self._key = unquote(request.path, errors="surrogateescape").removeprefix("/")

    def answer(self) -> HttpResponse:
        everything = self._site.get("RedirectAllRequestsTo")
        if everything:
            protocol = everything.get("Protocol") or "http"
            return _redirect(f"{protocol}://{everything['HostName']}/{quote(self._key)}")
        rule = self._find_rule("")
        if rule is not None and self._key:
            return self._apply_rule(rule)
        suffix = _read_section(self._site, "IndexDocument")["Suffix"]
        key = self._key + suffix if not self._key or self._key.endswith("/") else self._key
        try:
            return self._get_object(key)
        except AwsError as error:
            if error.code in _MISSING and key == self._key and self._is_there(f"{key}/{suffix}"):
                return _redirect(f"/{quote(key)}/", 302)
            return self._answer_error(error)

    def _answer_error(self, error: AwsError) -> HttpResponse:
        """Answer an error with the redirect of a matching routing rule, or else with the error document."""
        rule = self._find_rule(str(error.status))
        if rule is not None:
            return self._apply_rule(rule)
        document: str | None = _read_section(self._site, "ErrorDocument").get("Key")
        if not document:
            raise error
        try:
            response = self._get_object(document, {})
        except AwsError as second:
            return _render_page(self._request, error, second)
        response.status = error.status
        return response

    def _get_object(self, key: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
        sent = self._request.headers if headers is None else headers
        kept = {name: sent[name] for name in _SENT_ON if name in sent}
        response = self._get(Target(self._bucket, key, {}, kept))
        for name, value in response.headers:
            if name.lower() == "x-amz-website-redirect-location":
                return _redirect(value)
        return response

    def _is_there(self, key: str) -> bool:
        try:
            self._get(Target(self._bucket, key, {}, {}))
        except AwsError:
            return False
        return True

    def _find_rule(self, status: str) -> RoutingRule | None:
        """Return the first routing rule for the key and an error's HTTP status; "" finds rules without a status."""
        for rule in self._site.get("RoutingRules") or []:
            condition = _read_section(rule, "Condition")
            is_for: str = condition.get("HttpErrorCodeReturnedEquals") or ""
            prefix: str = condition.get("KeyPrefixEquals") or ""
            if is_for == status and self._key.startswith(prefix):
                return rule
        return None

    def _apply_rule(self, rule: RoutingRule) -> HttpResponse:
        redirect = _read_section(rule, "Redirect")
        prefix: str = _read_section(rule, "Condition").get("KeyPrefixEquals") or ""
        key = self._key
        if redirect.get("ReplaceKeyWith") is not None:
            key = redirect["ReplaceKeyWith"]
        elif redirect.get("ReplaceKeyPrefixWith") is not None:
            key = redirect["ReplaceKeyPrefixWith"] + key[len(prefix) :]
        host = redirect.get("HostName") or self._request.headers.get("host", "localhost")
        protocol = redirect.get("Protocol") or "http"
        code = int(redirect.get("HttpRedirectCode") or 301)
        return _redirect(f"{protocol}://{host}/{quote(key)}", code)


def _read_section(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", value.get(name) or {})


def _redirect(location: str, status: int = 301) -> HttpResponse:
    return HttpResponse(status, [("Location", location.replace("\r", "").replace("\n", ""))])


def _render_page(
    request: HttpRequest, error: AwsError, second: AwsError | None = None
) -> HttpResponse:
    title = f"{error.status} {HTTPStatus(error.status).phrase}"
    call = request.call
    ids = {"RequestId": "" if call is None else call.request_id, "HostId": HOST_ID}
    text = (
        f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"
        f"{_list({**_list_members(error), **ids})}"
    )
    if second is not None:
        what = "An Error Occurred While Attempting to Retrieve a Custom Error Document"
        text += f"<h3>{what}</h3>\n{_list(_list_members(second))}"
    body = f"{text}<hr/>\n</body>\n</html>\n".encode("utf-8", "replace")
    headers = [
        ("Content-Type", "text/html; charset=utf-8"),
        ("x-amz-error-code", error.code),
        ("x-amz-error-message", error.message),
    ]
    return HttpResponse(error.status, headers, b"" if request.method == "HEAD" else body)


def _list_members(error: AwsError) -> dict[str, str]:
    return {"Code": error.code, "Message": error.message, **error.members}


def _list(items: Mapping[str, str]) -> str:
    lines = "".join(
        f"<li>{name}: {html.escape(str(value))}</li>\n" for name, value in items.items()
    )
    return f"<ul>\n{lines}</ul>\n"


# --- the configuration ----------------------------------------------------------------------------


def check(site: WebsiteConfiguration) -> None:
    """Check a website configuration as S3 does. Raises AwsError."""
    index, everything = site.get("IndexDocument"), site.get("RedirectAllRequestsTo")
    if everything:
        if index or site.get("ErrorDocument") or site.get("RoutingRules"):
            raise invalid_argument(
                "RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.",
                "RedirectAllRequestsTo",
                "not null",
            )
        _check_protocol(everything)
        return
    if index is None:
        raise invalid_argument(
            "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty",
            "IndexDocument",
            "null",
        )
    suffix: str = _read_section(site, "IndexDocument").get("Suffix") or ""
    if not suffix or "/" in suffix:
        raise invalid_argument(
            "The IndexDocument Suffix is not well formed", "IndexDocument", suffix
        )
    if site.get("RoutingRules", True) in (None, [], ""):
        raise malformed_xml()
    for rule in site.get("RoutingRules", ()):
        _check_rule(rule)


def _check_rule(rule: RoutingRule) -> None:
    redirect = rule.get("Redirect")
    if not redirect:
        raise malformed_xml()
    _check_protocol(redirect)
    if (
        redirect.get("ReplaceKeyWith") is not None
        and redirect.get("ReplaceKeyPrefixWith") is not None
    ):
        raise invalid_request("You can only define ReplaceKeyPrefix or ReplaceKey but not both.")
    if "Condition" in rule and not any(_read_section(rule, "Condition").values()):
        raise invalid_request(
            "Condition cannot be empty. To redirect all requests without a condition, the condition element shouldn't"
            " be present."
        )
    code = redirect.get("HttpRedirectCode")
    if code and not _REDIRECT_CODE.fullmatch(str(code)):
        # assumed: the message
        raise invalid_request(
            f"The provided HTTP redirect code ({code}) is not valid. Valid codes are 3XX except 300."
        )


def _check_protocol(redirect: Redirect | RedirectAllRequestsTo) -> None:
    protocol = redirect.get("Protocol")
    if protocol and protocol not in _PROTOCOLS:
        raise invalid_request(
            "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected"
            " automatically."
        )
