"""The errors for requests that are unsigned or wrongly signed, in one form for each family of protocols.

Sources: https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html and
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html (documented). S3's full answers to wrong and expired
presigned URLs, and the headers that must be signed: AWS's answers to LocalStack's tests/aws/services/s3/test_s3.py,
recorded in 2025 (observed). Sentences about an incomplete Authorization header: as API Gateway and Kinesis answer, by
the reports of many users (observed by others).
"""

from __future__ import annotations

from datetime import UTC, datetime

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.calls.operation import service_model
from headrace.aws.protocols.codec_json import is_cbor
from headrace.aws.signatures.credential_scopes import SIGV4, SIGV4A
from headrace.aws.signatures.sigv4 import Claim, Signed
from headrace.core.values import iso_seconds_of

# The service that signatures of requests to APIs of API Gateway name.
API_SERVICE = "execute-api"
SKEW_MINUTES = 15
MOST_EXPIRES_S = 604_800
_TIMESTAMP = "%Y%m%dT%H%M%SZ"
_INVALID_TOKEN = "The security token included in the request is invalid."
_WRONG = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key"
    " and signing method. Consult the service documentation for details."
)
_NO_SIGV4A = f"headrace does not verify SigV4A ({SIGV4A}). Please use {SIGV4}."
_EXPECTED_CREDENTIAL = "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request"


class Wording:
    """The errors of a service that is not S3.

    JSON protocols add `Exception` to some of the codes; those with an `X-Amz-Target` use status 400 for every error.
    """

    def __init__(self, *, query: bool, status: int, incomplete_status: int = 400) -> None:
        self._query = query
        self._status = status
        self._incomplete_status = incomplete_status

    def missing(self) -> AwsError:
        """The request is not signed."""
        if self._query:
            sentence = "Request is missing Authentication Token"
            return AwsError("MissingAuthenticationToken", sentence, self._status)
        return AwsError(
            "MissingAuthenticationTokenException", "Missing Authentication Token", self._status
        )

    def unknown_key(self, key_id: str) -> AwsError:
        """The key does not exist, is not active, or has another token."""
        code = "InvalidClientTokenId" if self._query else "UnrecognizedClientException"
        return AwsError(code, _INVALID_TOKEN, self._status)

    def wrong_token(self) -> AwsError:
        """The session token does not belong to the key."""
        return self.unknown_key("")

    def expired_token(self) -> AwsError:
        """The temporary key has expired."""
        code = "ExpiredToken" if self._query else "ExpiredTokenException"
        return AwsError(code, "The security token included in the request is expired", self._status)

    def wrong(self, claim: Claim, computed: Signed) -> AwsError:
        """The signature is wrong."""
        return self._wrong(_WRONG)

    def other_body(self) -> AwsError:
        """The body does not have the hash that was signed."""
        return self._wrong(_WRONG)

    def _wrong(self, sentence: str) -> AwsError:
        code = "SignatureDoesNotMatch" if self._query else "InvalidSignatureException"
        return AwsError(code, sentence, self._status)

    def skewed(self, timestamp: str, signed_ms: int, now_ms: int, minutes: int) -> AwsError:
        """Return the error of a request that was signed too long ago, or in the future."""
        now = format_time(now_ms)
        if signed_ms < now_ms:
            limit = format_time(now_ms - minutes * 60_000)
            sentence = f"Signature expired: {timestamp} is now earlier than {limit} ({now} - {minutes} min.)"
        else:
            limit = format_time(now_ms + minutes * 60_000)
            sentence = f"Signature not yet current: {timestamp} is still later than {limit} ({now} + {minutes} min.)"
        return self._wrong(sentence)

    def both(self) -> AwsError:
        """Return the error of a request with signatures in a header and in the query. Source: kinesalite (observed)."""
        return self._wrong(
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
        )

    def incomplete(self, sentence: str) -> AwsError:
        """Parts of the signature are missing or malformed."""
        code = "IncompleteSignature" if self._query else "IncompleteSignatureException"
        return AwsError(code, sentence, self._incomplete_status)

    def no_pair(self, component: str, authorization: str) -> AwsError:
        """A component of the Authorization header has no equal sign.

        Source: API Gateway's and IAM's answers, such as in AstronomyAPI/Samples#20 (observed by others).
        """
        return self.incomplete(
            f"'{component}' not a valid key=value pair (missing equal-sign) in Authorization header:"
            f" '{authorization}'."
        )

    def credential(self, credential: str) -> AwsError:
        """The credential does not have five parts that end in aws4_request."""
        return self.incomplete(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term,"
            f" got '{credential}'"
        )

    def other_service(self, service: str) -> AwsError:
        """The credential is for another service. Source: IAM's signature-v4-troubleshooting.html (documented)."""
        return self._wrong(f"Credential should be scoped to correct service: '{service}'. ")

    def date_of_scope(self, claim: Claim) -> AwsError:
        """The day of the credential is not the day of the request."""
        return self._wrong(
            f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP:"
            f" '{claim.date}' != '{claim.timestamp[:8]}', from '{claim.timestamp}'."
        )

    def sigv4a(self) -> AwsError:
        """The algorithm is SigV4A, which headrace does not verify."""
        return self.incomplete(_NO_SIGV4A)

    def algorithm(self, algorithm: str) -> AwsError:
        """The algorithm is unknown."""
        return self.incomplete(f"Unsupported AWS 'algorithm': '{algorithm}'.")


class S3Wording(Wording):
    """S3's errors: they have codes of their own, and show what S3 computed."""

    def __init__(self) -> None:
        super().__init__(query=True, status=403)

    def missing(self) -> AwsError:
        """See `Wording.missing`."""
        return AwsError("AccessDenied", "Access Denied", 403)

    def unknown_key(self, key_id: str) -> AwsError:
        """See `Wording.unknown_key`."""
        sentence = "The AWS Access Key Id you provided does not exist in our records."
        return AwsError("InvalidAccessKeyId", sentence, 403, {"AWSAccessKeyId": key_id})

    def wrong_token(self) -> AwsError:
        """See `Wording.wrong_token`."""
        return AwsError(
            "InvalidToken", "The provided token is malformed or otherwise invalid.", 400
        )

    def expired_token(self) -> AwsError:
        """See `Wording.expired_token`."""
        return AwsError("ExpiredToken", "The provided token has expired.", 400)

    def wrong(self, claim: Claim, computed: Signed) -> AwsError:
        """See `Wording.wrong`."""
        canonical = computed.canonical_request
        error = self.mismatch(claim.access_key, claim.signature, computed.string_to_sign)
        error.members |= {
            "CanonicalRequest": canonical.decode("utf-8", "replace"),
            "CanonicalRequestBytes": canonical.hex(" "),
        }
        return error

    def mismatch(self, key_id: str, signature: str, string_to_sign: str) -> AwsError:
        """Return the error of a wrong signature, of either version."""
        sentence = (
            "The request signature we calculated does not match the signature you provided. Check your key and signing"
            " method."
        )
        members = {
            "AWSAccessKeyId": key_id,
            "StringToSign": string_to_sign,
            "SignatureProvided": signature,
            "StringToSignBytes": string_to_sign.encode("utf-8", "replace").hex(" "),
        }
        return AwsError("SignatureDoesNotMatch", sentence, 403, members)

    def skewed(self, timestamp: str, signed_ms: int, now_ms: int, minutes: int) -> AwsError:
        """See `Wording.skewed`."""
        return AwsError(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            403,
            {
                "RequestTime": timestamp,
                "ServerTime": iso_seconds_of(now_ms),
                "MaxAllowedSkewMilliseconds": str(minutes * 60_000),
            },
        )

    def both(self) -> AwsError:
        """See `Wording.both`."""
        return AwsError(
            "InvalidArgument",
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string"
            " parameter or the Authorization header should be specified",
        )

    def incomplete(self, sentence: str) -> AwsError:
        """See `Wording.incomplete`."""
        text = f"The authorization header is malformed; {sentence}"
        return AwsError("AuthorizationHeaderMalformed", text, 400)

    def component(self, component: str) -> AwsError:
        """A component of the authorization header has no value, or a malformed one."""
        return self.incomplete(f'the authorization component "{component}" is malformed.')

    def three_components(self) -> AwsError:
        """The authorization header has other components than these, fewer, or one twice."""
        return self.incomplete(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature."
        )

    def credential(self, credential: str) -> AwsError:
        """See `Wording.credential`."""
        return self.incomplete(f'the Credential is mal-formed; expecting "{_EXPECTED_CREDENTIAL}".')

    def date_of_scope(self, claim: Claim) -> AwsError:
        """See `Wording.date_of_scope`."""
        return self.incomplete(
            f'Invalid credential date "{claim.date}". This date is not the same as X-Amz-Date: "{claim.timestamp[:8]}".'
        )

    def sigv4a(self) -> AwsError:
        """See `Wording.sigv4a`."""
        return AwsError("NotImplemented", _NO_SIGV4A, 501)

    def algorithm(self, algorithm: str) -> AwsError:
        """See `Wording.algorithm`."""
        members = {"ArgumentName": "Authorization", "ArgumentValue": algorithm}
        return AwsError("InvalidArgument", "Unsupported Authorization Type", 400, members)

    def query_parameters(self, sentence: str) -> AwsError:
        """The parameters of a presigned URL are malformed."""
        return AwsError("AuthorizationQueryParametersError", sentence, 400)

    def query_credential(self) -> AwsError:
        """The credential of a presigned URL is malformed."""
        return self.query_parameters(
            "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; expecting"
            f' "{_EXPECTED_CREDENTIAL}".'
        )

    def expired(self, expires_ms: int, now_ms: int, expires: str | None) -> AwsError:
        """A presigned URL has expired."""
        members = {} if expires is None else {"X-Amz-Expires": expires}
        members |= {"Expires": iso_seconds_of(expires_ms), "ServerTime": iso_seconds_of(now_ms)}
        return AwsError("AccessDenied", "Request has expired", 403, members)

    def not_yet(self) -> AwsError:
        """A presigned URL is not valid yet."""
        return AwsError("AccessDenied", "Request is not valid yet", 403)

    def not_signed(self, names: list[str]) -> AwsError:
        """Headers that change the request's meaning are not among the signed headers."""
        sentence = "There were headers present in the request which were not signed"
        return AwsError("AccessDenied", sentence, 403, {"HeadersNotSigned": ", ".join(names)})


S3 = S3Wording()
_JSON = Wording(query=False, status=400)
_REST_JSON = Wording(query=False, status=403)
_QUERY = Wording(query=True, status=403)
# API Gateway answers 403 for these too (observed by others, as for `Wording.no_pair`).
_API = Wording(query=False, status=403, incomplete_status=403)


def wording_of(request: HttpRequest, service: str) -> Wording:
    """Return the wording of the errors of the service that a request is for."""
    if service == "s3":
        return S3
    if service == API_SERVICE:
        return _API
    if "x-amz-target" in request.headers or is_cbor(request.headers.get("content-type", "")):
        return _JSON
    try:
        protocol = str(service_model(service).metadata["protocol"])
    except UnknownServiceError:
        return _JSON
    if protocol == "rest-json":
        return _REST_JSON
    is_form = request.headers.get("content-type", "").startswith("application/x-www-form")
    return _JSON if protocol in ("json", "smithy-rpc-v2-cbor") and not is_form else _QUERY


def format_time(time_ms: int) -> str:
    """Return a time in the format of signatures."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime(_TIMESTAMP)
