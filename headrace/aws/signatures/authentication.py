"""`--auth`: verifies that a request to an AWS operation is signed with a key that this cloud has given out.

It verifies Signature Version 4 (in the header and in presigned URLs), the chunks of S3's uploads, and S3's old
signatures (Version 2). `headrace.aws.calls.operation` decides what the holder of a key may do. Thread-safe; takes some
tens of microseconds.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, Scope
from headrace.aws.signatures import presigned, sigv4
from headrace.aws.signatures.access_keys import AccessKey, KeyRing, WrongToken
from headrace.aws.signatures.auth_errors import S3, SKEW_MINUTES, Wording, format_time, wording_of
from headrace.aws.signatures.credential_scopes import SIGV2, SIGV4, SIGV4A, parameters_of, scope_of
from headrace.aws.signatures.sigv4 import (
    AUTHORITY,
    UNSIGNED_PAYLOAD,
    Claim,
    OldClaim,
    Signed,
    SigV4Chunks,
    is_same,
    signatures,
)

_SKEW_MS = SKEW_MINUTES * 60_000
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SIGNED_CHUNKS = (
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
)
_NO_CHUNKS = (UNSIGNED_PAYLOAD, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_SIGV4A_CHUNKS = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"
_HASH = "x-amz-content-sha256"
_READ_BYTES = 1024 * 1024


class Authentication:
    """Verifies signatures against a ring of keys."""

    def __init__(self, keys: KeyRing) -> None:
        self.keys = keys

    def is_quick(self, access_key: str) -> bool:
        """Whether finding the key does not block, so that `verify` may run on the event loop."""
        return self.keys.is_quick(access_key)

    def verify(self, request: HttpRequest, service: str, now_ms: int) -> AccessKey:
        """Return the key that a request was signed with. Raises AwsError.

        The body's hash is compared too. For an upload in signed chunks, `request.chunk_signatures` is set, and the code
        that reads the body checks each chunk.
        """
        wording = wording_of(request, service)
        claim = _claim_of(request, wording, now_ms)
        key = self._key_of(request, claim, wording, now_ms)
        if isinstance(claim, OldClaim):
            return key
        declared = _read_declared_hash(request, claim, wording)
        if declared is None:
            declared = _hash_of(request)
        elif _SHA256.fullmatch(declared) and declared != _hash_of(request):
            raise _other_body(wording)
        _check_signature(request, claim, key, declared, wording)
        if declared in _SIGNED_CHUNKS:
            request.chunk_signatures = SigV4Chunks(claim, key.secret)
        return key

    def verify_head(self, request: HttpRequest, service: str, now_ms: int) -> None:
        """Refuse a request by its head alone, as far as that is possible. Raises AwsError. Never blocks."""
        wording = wording_of(request, service)
        claim = _claim_of(request, wording, now_ms)
        if not self.is_quick(claim.access_key):
            return
        key = self._key_of(request, claim, wording, now_ms)
        if isinstance(claim, Claim):
            declared = _read_declared_hash(request, claim, wording)
            if declared is not None:
                _check_signature(request, claim, key, declared, wording)

    # --- the key ------------------------------------------------------------------------------

    def _key_of(
        self, request: HttpRequest, claim: Claim | OldClaim, wording: Wording, now_ms: int
    ) -> AccessKey:
        """Return the key that a request names, after checking its token and, for Version 2, the signature."""
        try:
            key = self.keys.find(claim.access_key, claim.token)
        except WrongToken:
            raise wording.wrong_token() from None
        if key is None:
            raise wording.unknown_key(claim.access_key)
        if key.needs_token and (claim.token or None) != key.token:
            raise wording.wrong_token()
        if key.expires_ms is not None and now_ms >= key.expires_ms:
            raise wording.expired_token()
        if isinstance(claim, OldClaim):
            _check_old_signature(request, claim, key)
        elif claim.date != claim.timestamp[:8]:
            raise wording.date_of_scope(claim)
        return key


# Parameters that S3 does not accept beside an Authorization header.
_IN_QUERY = ("X-Amz-Algorithm", "X-Amz-Signature", "Signature", "AWSAccessKeyId")


def _claim_of(request: HttpRequest, wording: Wording, now_ms: int) -> Claim | OldClaim:
    authorization = request.headers.get("authorization", "")
    params = parameters_of(request) if request.query else {}
    scope = scope_of(request)
    if authorization:
        names = _IN_QUERY if wording is S3 else _IN_QUERY[:1]
        if any(name in params for name in names):
            raise wording.both()
        if wording is S3 and scope.algorithm == SIGV2:
            return _old_header_claim(request, scope, authorization, now_ms)
        return _header_claim(request, scope, authorization, wording, now_ms)
    if wording is S3 and scope.algorithm == SIGV2:
        old = presigned.old_claim_of(params, scope)
        presigned.check_old_time(old, now_ms)
        return old
    claim = presigned.claim_of(params, scope, wording)
    if claim is None:
        raise wording.missing()
    presigned.check_time(claim, wording, now_ms)
    return claim


def _header_claim(
    request: HttpRequest, scope: Scope, authorization: str, wording: Wording, now_ms: int
) -> Claim:
    algorithm = authorization.partition(" ")[0]
    if algorithm == SIGV4A:
        raise wording.sigv4a()
    if wording is S3 and algorithm != SIGV4:
        raise wording.algorithm(algorithm)
    timestamp = _timestamp(request)
    if wording is S3 and timestamp is None:
        sentence = "AWS authentication requires a valid Date or x-amz-date header"
        raise AwsError("AccessDenied", sentence, 403)
    components = presigned.header_components(authorization, wording, has_time=timestamp is not None)
    assert timestamp is not None
    if algorithm != SIGV4:
        raise wording.algorithm(algorithm)
    if not scope.access_key:
        raise wording.credential(scope.credential)
    signed_ms = presigned.time_ms(timestamp)
    if abs(signed_ms - now_ms) > _SKEW_MS:
        raise wording.skewed(timestamp, signed_ms, now_ms, SKEW_MINUTES)
    return Claim(
        scope.access_key,
        scope.date,
        scope.region,
        scope.service,
        signed_headers=tuple(components["SignedHeaders"].lower().split(";")),
        signature=components["Signature"],
        timestamp=timestamp,
        token=scope.token or None,
    )


def _timestamp(request: HttpRequest) -> str | None:
    """Return when a request was signed, in the format of signatures; None when no header says so."""
    for name in ("x-amz-date", "date"):
        text = request.headers.get(name, "")
        try:
            presigned.time_ms(text)
        except ValueError:
            pass
        else:
            return text
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            continue
        aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return format_time(round(aware.timestamp() * 1000))
    return None


def _old_header_claim(
    request: HttpRequest, scope: Scope, authorization: str, now_ms: int
) -> OldClaim:
    signature = authorization.partition(":")[2].strip()
    if not scope.access_key or not signature:
        sentence = "AWS authorization header is invalid. Expected AwsAccessKeyId:signature"
        raise AwsError("InvalidArgument", sentence)
    timestamp = _timestamp(request)
    if timestamp is None:
        sentence = "AWS authentication requires a valid Date or x-amz-date header"
        raise AwsError("AccessDenied", sentence, 403)
    signed_ms = presigned.time_ms(timestamp)
    if abs(signed_ms - now_ms) > _SKEW_MS:
        raise S3.skewed(timestamp, signed_ms, now_ms, SKEW_MINUTES)
    return OldClaim(scope.access_key, signature, token=scope.token or None)


# --- the signed content ---------------------------------------------------------------------------


def _read_declared_hash(request: HttpRequest, claim: Claim, wording: Wording) -> str | None:
    """Return the text that the signature uses for the body; None when that is the body's hash. Raises AwsError."""
    declared = request.headers.get(_HASH)
    if wording is not S3:
        # Only S3 accepts unsigned bodies.
        return declared if declared is not None and _SHA256.fullmatch(declared) else None
    if claim.is_query and declared is None:
        return UNSIGNED_PAYLOAD
    if declared is None:
        sentence = f"Missing required header for this request: {_HASH}"
        raise AwsError("InvalidRequest", sentence)
    if declared.startswith(_SIGV4A_CHUNKS):
        raise S3.sigv4a()
    if not (declared in _SIGNED_CHUNKS or declared in _NO_CHUNKS or _SHA256.fullmatch(declared)):
        sentence = (
            f"{_HASH} must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER,"
            " STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER,"
            " STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid"
            " sha256 value."
        )
        members = {"ArgumentName": _HASH, "ArgumentValue": declared}
        raise AwsError("InvalidArgument", sentence, 400, members)
    return declared


def _check_signature(
    request: HttpRequest, claim: Claim, key: AccessKey, payload_hash: str, wording: Wording
) -> None:
    if "host" not in claim.signed_headers and AUTHORITY not in claim.signed_headers:
        raise wording.incomplete(
            "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
        )
    if wording is S3:
        loose = [
            name
            for name in request.headers
            if name.startswith("x-amz-") and name not in claim.signed_headers and name != _HASH
        ]
        if loose:
            raise S3.not_signed(loose)
    hashes = [payload_hash]
    if claim.is_query and wording is S3 and payload_hash != UNSIGNED_PAYLOAD:
        # The signer of a presigned URL could not know the body.
        hashes.append(UNSIGNED_PAYLOAD)
    computed: Signed | None = None
    for payload in hashes:
        for signed in signatures(request, claim, key.secret, payload):
            if is_same(signed.signature, claim.signature):
                return
            computed = computed or signed
    assert computed is not None
    raise wording.wrong(claim, computed)


def _check_old_signature(request: HttpRequest, claim: OldClaim, key: AccessKey) -> None:
    texts = list(sigv4.strings_to_sign(request, claim))
    right = (signature for text in texts for signature in sigv4.signatures_v2(text, key.secret))
    if not any(is_same(signature, claim.signature) for signature in right):
        raise S3.mismatch(claim.access_key, claim.signature, texts[0])


def _hash_of(request: HttpRequest) -> str:
    if request.body_file is None:
        return hashlib.sha256(request.body).hexdigest()
    return _hash_of_file(request.body_file)


def _hash_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return digest.hexdigest()


def _other_body(wording: Wording) -> AwsError:
    if wording is S3:
        sentence = f"The provided '{_HASH}' header does not match what was computed."
        return AwsError("XAmzContentSHA256Mismatch", sentence)
    return wording.other_body()
