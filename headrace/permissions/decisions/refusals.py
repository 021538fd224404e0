"""The errors of services for requests that IAM denies."""

from __future__ import annotations

import functools

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.model import protocol_of

# The end of the reason when the caller's role or user does not exist.
NOT_IN_IAM = "does not exist in IAM"


def refusal(service: str, sentence: str, action: str) -> AwsError:
    """Return the service's error for a denied action, which may be an action on the resource's key."""
    if sentence.endswith(NOT_IN_IAM):
        return gone(service)
    is_key = action.startswith("kms:") and service != "kms"
    return refused_key(service, sentence) if is_key else refused(service, sentence)


def refused(service: str, sentence: str) -> AwsError:
    """Return a service's error for an action that IAM denies the caller.

    Source: docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html and each service's page of
    common errors (documented): AccessDenied in XML, AccessDeniedException in JSON, and some services' own.
    """
    code, status = _code_of(service)
    return AwsError(code, sentence, status)


# The errors of services for a caller who may not use the key of an encrypted resource. Kinesis' is observed
# (github.com/serverless-operations/serverless-apigateway-service-proxy/issues/101), the others are documented in each
# operation's reference.
_KEY_CODES = {
    "kinesis": "KMSAccessDeniedException",
    "firehose": "InvalidKMSResourceException",
    "sqs": "KMS.AccessDeniedException",
    "sns": "KMSAccessDenied",
}


def refused_key(service: str, sentence: str) -> AwsError:
    """Return a service's error for a caller who may not use the key of the requested resource."""
    code = _KEY_CODES.get(service)
    return refused(service, sentence) if code is None else AwsError(code, sentence, 400)


@functools.cache
def _code_of(service: str) -> tuple[str, int]:
    own = {"sns": ("AuthorizationError", 403), "ec2": ("UnauthorizedOperation", 403)}
    if service in own:
        return own[service]
    protocol = protocol_of(service)
    # SQS's JSON protocol has the error codes of its query protocol (observed by many users).
    if protocol in ("query", "rest-xml") or service == "sqs":
        return "AccessDenied", 403
    return "AccessDeniedException", 403 if protocol == "rest-json" else 400


def gone(service: str) -> AwsError:
    """Return the error for a session whose role is deleted. Source: users' reports (assumed for every service)."""
    sentence = "The security token included in the request is invalid."
    code, status = _code_of(service)
    if service == "s3":
        return AwsError(
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
            403,
        )
    is_json = code == "AccessDeniedException"
    return AwsError(
        "UnrecognizedClientException" if is_json else "InvalidClientTokenId", sentence, status
    )
