"""The CORS rules of buckets: which web pages may send requests to a bucket and read the responses.

Sources for the choice of the rule, the headers and the error messages:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors.html (documented), and AWS's answers to LocalStack's
tests/aws/services/s3/test_s3_cors.py, recorded between July 2023 and July 2025 (observed).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.gateway.documents import is_admin
from headrace.aws.shapes.s3 import CORSConfiguration, CORSRule
from headrace.services.s3 import limits
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_request
from headrace.services.s3.routing import Target, parse_bucket_host, parse_target

NAME = "BucketCors"
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
    if not rules or len(rules) > limits.CORS_RULES:
        raise malformed_xml()
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
    configuration = s3.bucket(bucket).configurations.get(NAME)
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
