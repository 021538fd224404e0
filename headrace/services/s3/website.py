"""Static websites: answers requests to a bucket's website host, such as bucket.s3-website.localhost:4566.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/WebsiteHosting.html and its pages on redirects and
error documents (documented); for the error pages, AWS's answers to LocalStack's tests/aws/services/s3/test_s3.py,
recorded in August 2023 (observed). Without `--auth`, the website serves every object, whether it is public or not.

The CORS rules of buckets: which web pages may send requests to a bucket and read the responses.

Sources for the choice of the rule, the headers and the error messages:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors.html (documented), and AWS's answers to LocalStack's
tests/aws/services/s3/test_s3_cors.py, recorded between July 2023 and July 2025 (observed).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote, unquote

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import is_admin
from headrace.aws.shapes.s3 import (
    CORSConfiguration,
    CORSRule,
    Redirect,
    RedirectAllRequestsTo,
    RoutingRule,
    WebsiteConfiguration,
)
from headrace.aws.signatures.bucket_hosts import parse_bucket_host
from headrace.services.s3 import errors
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import (
    invalid_argument,
    invalid_request,
    no_such_bucket,
    not_allowed,
)
from headrace.services.s3.routing import Target, parse_target

CORS_NAME = "BucketCors"
_METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD")
_VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"


@dataclass(frozen=True, slots=True)
class _Match:
    """A rule that permits a request, and the pattern in its AllowedOrigins that matches the origin."""

    rule: CORSRule
    origin_pattern: str


class BucketRules:
    """Decides by a bucket's CORS rules about browsers' requests. Implements `browser_rules.OwnRules`."""

    def __init__(self, s3: S3, service_of_head: Callable[[HttpRequest], str | None]) -> None:
        self._s3 = s3
        self._service_of_head = service_of_head

    def covers(self, request: HttpRequest) -> bool:
        """See `OwnRules.covers`. Like the gateway, it uses only the head of the request."""
        if is_admin(request.path) or self._service_of_head(request) != "s3":
            return False
        try:
            bucket = parse_target(request).bucket
        except AwsError:
            return False
        return bool(bucket) and self._s3.has_bucket(bucket)

    def is_alone(self, request: HttpRequest) -> bool:
        """See `OwnRules.is_alone`. True for a request to a bucket's own host, such as `bucket.s3.localhost`."""
        bucket = parse_bucket_host(request.headers.get("host", ""))
        return bool(bucket) and self._s3.has_bucket(bucket)

    def permits(self, request: HttpRequest, origin: str) -> bool:
        """See `OwnRules.permits`. S3 itself answers preflights: `answer_options`.

        CORS rules are meant for objects. On AWS, a page also needs credentials to change a bucket's configuration or to
        copy from another bucket. headrace may not ask for credentials, so a CORS rule of the bucket alone does not
        permit either.
        """
        if request.method == "OPTIONS":
            return True
        target = parse_target(request)
        if request.method not in ("GET", "HEAD") and not target.key:
            is_objects = request.method == "POST" and "delete" in target.query
            return is_objects and self._lets(target.bucket, origin, "POST")
        source = unquote(target.headers.get("x-amz-copy-source", "")).lstrip("/").partition("/")[0]
        if source and not self._lets(source, origin, "GET"):
            return False
        return self._lets(target.bucket, origin, request.method)

    def _lets(self, bucket: str, origin: str, method: str) -> bool:
        rules = _list_rules(self._s3, bucket)
        return rules is not None and _match(rules, origin, method, []) is not None


def answer_options(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer a browser's preflight request. Raises AwsError BadRequest, AccessForbidden."""
    headers = request.headers
    origin = headers.get("origin")
    method = headers.get("access-control-request-method")
    if origin is None:
        raise AwsError("BadRequest", "Insufficient information. Origin request header needed.")
    if not s3.has_bucket(target.bucket):
        raise _forbidden("Bucket not found", request.method, "BUCKET")
    rules = _list_rules(s3, target.bucket)
    if rules is None:
        sentence = "CORS is not enabled for this bucket."
        raise _forbidden(sentence, method or request.method, "BUCKET")
    if method is None:
        raise AwsError("BadRequest", "Invalid Access-Control-Request-Method: null")  # assumed
    asked = _list_names(headers.get("access-control-request-headers", ""))
    match = _match(rules, origin, method, asked)
    if match is None:
        sentence = (
            "This CORS request is not allowed. This is usually because the evalution of Origin, request method /"
            " Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's"
            " CORS spec."
        )
        raise _forbidden(sentence, method, "OBJECT" if target.key else "BUCKET")
    answer = HttpResponse(200, _build_headers(match, origin))
    if asked:
        answer.headers.append(("Access-Control-Allow-Headers", ", ".join(asked)))
    if headers.get("access-control-request-private-network") == "true":
        # AWS does not send this header; browsers require it from servers on the same machine or in a local network.
        answer.headers.append(("Access-Control-Allow-Private-Network", "true"))
    return answer


def answer_headers(s3: S3, request: HttpRequest) -> list[tuple[str, str]]:
    """Return the CORS headers of a response, or [] when no rule lets the page read it."""
    origin = request.headers["origin"]
    try:
        rules = _list_rules(s3, parse_target(request).bucket)
    except AwsError:
        return []
    # AWS checks Access-Control-Request-* headers in every request, not only in preflight requests (observed).
    method = request.headers.get("access-control-request-method", request.method)
    asked = _list_names(request.headers.get("access-control-request-headers", ""))
    match = None if rules is None else _match(rules, origin, method, asked)
    return [] if match is None else _build_headers(match, origin)


def check_cors(configuration: CORSConfiguration) -> None:
    """Refuse a CORS configuration that AWS refuses. Raises AwsError MalformedXML, InvalidRequest."""
    rules = configuration.get("CORSRules") or []
    if not rules or len(rules) > errors.CORS_RULES:
        raise build_malformed_xml()
    for rule in rules:
        for method in rule.get("AllowedMethods", []):
            if method not in _METHODS:
                raise invalid_request(
                    f"Found unsupported HTTP method in CORS config. Unsupported method is {method}"
                )
        # The sentences below are assumed from AWS's public answers, not recorded.
        for values, element in (
            (rule.get("AllowedOrigins", []), "AllowedOrigin"),
            (rule.get("AllowedHeaders", []), "AllowedHeader"),
        ):
            for value in values:
                if value.count("*") > 1:
                    raise invalid_request(
                        f'{element} "{value}" can not have more than one wildcard.'
                    )
        for value in rule.get("ExposeHeaders", []):
            if "*" in value:
                raise invalid_request(
                    f'ExposeHeader "{value}" contains wildcard. We currently do not support wildcard for ExposeHeader.'
                )


# --- matching -------------------------------------------------------------------------------------


def _list_rules(s3: S3, bucket: str) -> list[CORSRule] | None:
    if not s3.has_bucket(bucket):
        return None
    configuration = s3.bucket(bucket).configurations.get(CORS_NAME)
    return None if configuration is None else configuration.get("CORSRules", [])


def _match(rules: list[CORSRule], origin: str, method: str, asked: list[str]) -> _Match | None:
    """Return the first rule that allows the origin, the method and every requested header."""
    for rule in rules:
        if method not in rule.get("AllowedMethods", []):
            continue
        allowed = [pattern.lower() for pattern in rule.get("AllowedHeaders", [])]
        if not all(any(_fits(pattern, name) for pattern in allowed) for name in asked):
            continue
        for pattern in rule.get("AllowedOrigins", []):
            if _fits(pattern, origin):
                return _Match(rule, pattern)
    return None


def _fits(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern, in which one `*` may stand for any characters."""
    head, star, tail = pattern.partition("*")
    if not star:
        return pattern == text
    return len(text) >= len(head) + len(tail) and text.startswith(head) and text.endswith(tail)


def _list_names(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split(",") if name.strip()]


def _build_headers(match: _Match, origin: str) -> list[tuple[str, str]]:
    everybody = match.origin_pattern == "*"
    headers = [
        ("Access-Control-Allow-Origin", "*" if everybody else origin),
        ("Access-Control-Allow-Methods", ", ".join(match.rule["AllowedMethods"])),
    ]
    names = match.rule.get("ExposeHeaders")
    if names:
        exposed = ", ".join(names)
        headers.append(("Access-Control-Expose-Headers", exposed))
    age_s = match.rule.get("MaxAgeSeconds")
    if age_s is not None:
        headers.append(("Access-Control-Max-Age", str(age_s)))
    if not everybody:
        headers.append(("Access-Control-Allow-Credentials", "true"))
    return [*headers, ("Vary", _VARY)]


def _forbidden(sentence: str, method: str, resource_type: str) -> AwsError:
    members = {"Method": method, "ResourceType": resource_type}
    return AwsError("AccessForbidden", f"CORSResponse: {sentence}", 403, members)


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
        raise build_malformed_xml()
    for rule in site.get("RoutingRules", ()):
        _check_rule(rule)


def _check_rule(rule: RoutingRule) -> None:
    redirect = rule.get("Redirect")
    if not redirect:
        raise build_malformed_xml()
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
