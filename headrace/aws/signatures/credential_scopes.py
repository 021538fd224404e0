"""Reads what a request says about its signature: the only reader of Authorization headers and of signed queries.

Whoever needs the access key, the session token, the date, the region or the service of a request takes it from
`scope_of`: the verifier, routing, permissions, callers, moto. So no request shows one key to the verifier and another
to somebody else. Nothing is verified here.

Source: Kinesis' answers to kinesalite's test/connection.js, and the rules that scratchstack-aws-signature lists
(src/canonical.rs; both observed by others): a header is split at commas and blanks, each component has an equal sign,
of a repeated name the last counts, unknown names are ignored; in a query the first of a repeated name counts. S3 is
stricter (`headrace.aws.signatures.presigned`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from headrace.aws.calls.http import HttpRequest, Scope
from headrace.aws.protocols.service import Profile

SIGV4 = "AWS4-HMAC-SHA256"
SIGV4A = "AWS4-ECDSA-P256-SHA256"
# S3's old signatures; no other service still accepts them.
SIGV2 = "AWS"
_OLD_SERVICE = "s3"
_COMPONENTS = re.compile(r"[^,\s]+")
_WHOLE = frozenset({"Credential", "SignedHeaders", "Signature"})
_TOKEN = "x-amz-security-token"
# S3 Control's signatures name S3; each of its requests has this header, which S3's have not, and such a path.
_S3_CONTROL_HEADER, _S3_CONTROL_PATH = "x-amz-account-id", "/v20180820/"
# Parameters of which each makes a query a signed one.
_SIGNED_QUERY = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature")
_OLD_QUERY = ("AWSAccessKeyId", "Signature")
UNSIGNED = Scope()
_ANY_SIGNATURE = "Signature=0"


class NoPair(ValueError):
    """A component of an Authorization header has no equal sign; the text is the component."""


def scope_of(request: HttpRequest) -> Scope:
    """Return who signed a request, as it says; read once for each request. Never raises."""
    scope = request.scope
    if scope is None:
        scope = request.scope = scope_of_headers(request.headers)
        if scope is UNSIGNED and request.query and not request.headers.get("authorization"):
            scope = request.scope = _scope_of_query(parameters_of(request))
    return scope


def scope_of_headers(headers: Mapping[str, str]) -> Scope:
    """Return who signed a request by its headers alone; `UNSIGNED` when they do not say. Never raises."""
    authorization = headers.get("authorization")
    if not authorization:
        return UNSIGNED
    token = headers.get(_TOKEN, "")
    # A client's requests of a day differ in their signatures only, which usually come last.
    head, name, signature = authorization.rpartition("Signature=")
    if name and signature.isalnum():
        return _scope_of_signed(head, token)
    return _scope_of_header(authorization, token)


@functools.lru_cache(maxsize=256)
def _scope_of_signed(head: str, token: str) -> Scope:
    return _scope_of_header(head + _ANY_SIGNATURE, token)


def _scope_of_header(authorization: str, token: str) -> Scope:
    algorithm, _, rest = authorization.partition(" ")
    if algorithm in (SIGV4, SIGV4A):
        # Without `--auth`, clients get through with headers that the verifier refuses.
        pairs, alone = _pairs_of(rest)
        is_whole = pairs.keys() >= _WHOLE and not alone and all(pairs.values())
        return _scope(pairs.get("Credential", ""), algorithm, token, False, is_whole)
    if algorithm == SIGV2:
        key = rest.strip().partition(":")[0]
        return Scope(key, service=_OLD_SERVICE, algorithm=SIGV2, token=token)
    return UNSIGNED


def components_of(text: str) -> dict[str, str]:
    """Return the components after the algorithm of an Authorization header, by name. Raises NoPair."""
    pairs, alone = _pairs_of(text)
    if alone:
        raise NoPair(alone)
    return pairs


def _pairs_of(text: str) -> tuple[dict[str, str], str]:
    """Return the components, and the first one without an equal sign; empty when each has one."""
    pairs: dict[str, str] = {}
    alone = ""
    for component in _COMPONENTS.findall(text):
        name, equals, value = component.partition("=")
        if equals:
            pairs[name] = value
        else:
            alone = alone or component
    return pairs, alone


def parameters_of(request: HttpRequest) -> dict[str, str]:
    """Return the query's parameters, decoded; of a repeated one the first, as AWS's verifier does."""
    return dict(reversed(parse_qsl(request.query, keep_blank_values=True)))


def token_of(request: HttpRequest) -> str:
    """Return the session token of a request, empty without one."""
    return scope_of(request).token


def _scope_of_query(parameters: Mapping[str, str]) -> Scope:
    if any(name in parameters for name in _SIGNED_QUERY):
        return _scope(
            parameters.get("X-Amz-Credential", ""),
            parameters.get("X-Amz-Algorithm", ""),
            parameters.get("X-Amz-Security-Token", ""),
            True,
            True,
        )
    if any(name in parameters for name in _OLD_QUERY):
        key = parameters.get("AWSAccessKeyId", "")
        token = parameters.get(_TOKEN, "")
        return Scope(key, "", _OLD_SERVICE, algorithm=SIGV2, token=token, is_query=True)
    return UNSIGNED


def _scope(credential: str, algorithm: str, token: str, is_query: bool, is_whole: bool) -> Scope:
    parts = credential.split("/")
    if algorithm == SIGV4A and len(parts) == 4:
        # Its credential names no region: the signature is valid in those of X-Amz-Region-Set.
        parts.insert(2, "")
    if len(parts) != 5 or parts[4] != "aws4_request" or not parts[0]:
        return Scope(
            algorithm=algorithm, credential=credential, is_query=is_query, is_whole=is_whole
        )
    key, date, region, service, _ = parts
    return Scope(key, region, service, date, algorithm, token, credential, is_query, is_whole)


# Finds which service a request is for: by its signature's scope, its target, its path, or its form's Version.


class ServiceNames:
    """Finds the service of a request by the services' profiles."""

    def __init__(self) -> None:
        self._of_scope: dict[str, str] = {}
        self._of_target: dict[str, str] = {}
        self._of_path: dict[str, str] = {}
        self._paths: tuple[str, ...] = ()
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        self._of_version: dict[bytes, str] = {}
        self._of_bare_query: dict[str, str] = {}
        self._rest = ""

    def add(self, name: str, profile: Profile) -> None:
        """Note how requests name a service."""
        self._of_scope.update(dict.fromkeys(profile.signing_scopes, name))
        if profile.target_prefix:
            self._of_target[profile.target_prefix] = name
        self._of_path.update(dict.fromkeys(profile.paths, name))
        self._paths = tuple(self._of_path)
        if profile.path_pattern:
            self._patterns.append((re.compile(profile.path_pattern), name))
        if profile.query_version:
            self._of_version[f"Version={profile.query_version}".encode()] = name
        self._of_bare_query.update(dict.fromkeys(profile.bare_queries, name))
        if profile.takes_the_rest:
            self._rest = name

    def service_of(self, request: HttpRequest) -> str:
        """Return botocore's name of a request's service, computed once; empty when it is unknown."""
        service = request.service
        if not service:
            known = self.of_head(request, scope_of(request))
            service = request.service = known or self.of_body(request.body)
        return service

    def of_head(self, request: HttpRequest, scope: Scope) -> str | None:
        """Return botocore's name of a request's service by its head; None when only the body can tell."""
        if scope.service:
            if scope.service == _OLD_SERVICE and _S3_CONTROL_HEADER in request.headers:
                return "s3control" if request.path.startswith(_S3_CONTROL_PATH) else _OLD_SERVICE
            return self._of_scope.get(scope.service, scope.service)
        target = request.headers.get("x-amz-target", "")
        if target:
            prefix = target.partition(".")[0]
            return self._of_target.get(prefix, prefix.partition("_")[0].lower())
        if request.path.startswith(self._paths):
            return next(n for path, n in self._of_path.items() if request.path.startswith(path))
        for pattern, name in self._patterns:
            if pattern.fullmatch(request.path):
                return name
        # curl and old clients put a form's parameters into the query: `/ACCOUNT/QUEUE?Action=SendMessage&...`.
        if "Action=" in request.query:
            bare = (
                n for start, n in self._of_bare_query.items() if request.query.startswith(start)
            )
            return next(bare, None) or self.of_body(request.query.encode())
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return None
        return self._rest

    def of_body(self, body: bytes) -> str:
        """Return the service of a form by the form's Version."""
        return next((n for version, n in self._of_version.items() if version in body), self._rest)
