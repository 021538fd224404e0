"""Asks whether a caller may do what a request is for, and refuses it in the words and the form of each service.

Who decides is behind `Permissions`; the gateway and the services only ask, and only for callers who are not the
account itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import UnknownServiceError

from headrace.aws.errors import AwsError
from headrace.aws.model import service_model
from headrace.core.ports import Acting

# Keys of users and of sessions begin so, on AWS too; all other keys are the account's own.
_KEY_PREFIXES = ("AKIA", "ASIA")


class Permit(Protocol):
    """One caller. Thread-safe."""

    @property
    def acting(self) -> Acting | None:
        """Who calls, for what a service goes on to do for the caller; None for the account itself."""
        ...

    def ask(
        self, service: str, operation: str, params: Mapping[str, Any], *, account: str, region: str
    ) -> None:
        """Note an operation with its parameters, or refuse it. Raises AwsError."""
        ...

    def ask_for(self, service: str, action: str, resource: str) -> None:
        """Note an action of a service (`kinesis:PutRecords`) on a resource, or refuse it. Raises AwsError.

        Cheaper than `ask`: a dictionary's lookup, for the operations that must be fast.
        """
        ...


class Permissions(Protocol):
    """Knows callers. Thread-safe."""

    @property
    def enforces(self) -> bool:
        """Whether it refuses, for which it may have to wait for policies to be loaded."""
        ...

    def permit_of(self, access_key: str, token: str) -> Permit | None:
        """Return the permit of the holder of a key; None when it is the account itself. Never blocks."""
        ...

    def permit_as(self, acting: Acting) -> Permit | None:
        """Return the permit of those for whom a service acts. Never blocks."""
        ...


def is_restricted(access_key: str) -> bool:
    """Whether a key may be of a user or of a session, and not of the account itself."""
    return len(access_key) == 20 and access_key.startswith(_KEY_PREFIXES)


def refused(service: str, sentence: str) -> AwsError:
    """Return the error with which a service refuses a caller who may not do what he asks for.

    Source: docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html and each service's page of
    common errors (documented): AccessDenied in XML, AccessDeniedException in JSON, and some services' own.
    """
    code, status = _code_of(service)
    return AwsError(code, sentence, status)


# How services refuse a caller who may not use the key of what they encrypt. Kinesis' is observed
# (github.com/serverless-operations/serverless-apigateway-service-proxy/issues/101), the others are documented in each
# operation's reference.
_KEY_CODES = {
    "kinesis": "KMSAccessDeniedException",
    "firehose": "InvalidKMSResourceException",
    "sqs": "KMS.AccessDeniedException",
    "sns": "KMSAccessDenied",
}


def refused_key(service: str, sentence: str) -> AwsError:
    """Return the error of a service for a caller who may not use the key of what he asks for."""
    code = _KEY_CODES.get(service)
    return refused(service, sentence) if code is None else AwsError(code, sentence, 400)


@functools.cache
def _code_of(service: str) -> tuple[str, int]:
    own = {"sns": ("AuthorizationError", 403), "ec2": ("UnauthorizedOperation", 403)}
    if service in own:
        return own[service]
    try:
        protocol = str(service_model(service).metadata["protocol"])
    except UnknownServiceError:
        protocol = "json"
    # SQS answers in JSON with the codes of the days of its query protocol (observed by many users).
    if protocol in ("query", "rest-xml") or service == "sqs":
        return "AccessDenied", 403
    return "AccessDeniedException", 403 if protocol == "rest-json" else 400


def gone(service: str) -> AwsError:
    """Return the error for a session whose role is no more. Source: users' reports (assumed for every service)."""
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
