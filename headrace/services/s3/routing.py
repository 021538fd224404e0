"""Finds a request's bucket, key and parameters in its host, path, query and headers, and checks their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.bucket_hosts import parse_bucket_host
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.services.s3 import errors
from headrace.services.s3.errors import (
    access_point_refused,
    invalid_argument,
    invalid_bucket_name,
    key_too_long,
)

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# AWS reserves it for the buckets behind S3 Tables' tables (documented: bucketnamingrules).
TABLE_STORAGE = "--table-s3"
# Hosts of access points, of object lambdas, of buckets on Outposts, and of access points of many Regions; and what
# their requests are signed for where an endpoint of its own replaces the host.
_POINT_HOST = re.compile(
    r"\.(?:s3-(?:accesspoint|object-lambda|outposts)|accesspoint\.s3-global)\b"
)
_POINT_SCOPES = ("s3-object-lambda", "s3-outposts")
_IP_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def is_bucket_name(name: str) -> bool:
    """Whether a general purpose bucket may have this name. Source: S3's bucket naming rules."""
    return (
        _BUCKET.fullmatch(name) is not None
        and ".." not in name
        and ".-" not in name
        and "-." not in name
        and _IP_ADDRESS.fullmatch(name) is None
        and not name.startswith(("xn--", "sthree-", "amzn-s3-demo-"))
        and not name.endswith(("-s3alias", "--ol-s3", TABLE_STORAGE))
    )


def check_key(*names: str) -> None:
    """Refuse keys and bucket names that are too long or not valid UTF-8. Raises KeyTooLongError, InvalidURI."""
    for name in names:
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise AwsError("InvalidURI", "Couldn't parse the specified URI.") from error
        if size > errors.KEY_BYTES:
            raise key_too_long(name)


@dataclass(frozen=True, slots=True)
class Target:
    """The decoded bucket and key of a request (each may be ""; the key is legal), and its parameters."""

    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def path(self) -> str:
        """The path with a placeholder for the key, because a router could take the key for another operation's path."""
        return f"/{quote(self.bucket, safe='')}{'/key' if self.key else ''}"


def parse_target(request: HttpRequest) -> Target:
    """Return a request's bucket, key and parameters. Raises AwsError KeyTooLongError, InvalidURI, NotImplemented."""
    return parse_target_in(request, parse_bucket_host(request.headers.get("host", "")))


def parse_target_in(request: HttpRequest, bucket: str) -> Target:
    """Do as `parse_target`, with the bucket that `parse_bucket_host` found in the host; "" for none."""
    path = unquote(request.path, errors="surrogateescape").removeprefix("/")
    if bucket:
        host, key = request.headers["host"], path
        if _POINT_HOST.search(host) or scope_of(request).service in _POINT_SCOPES:
            raise access_point_refused(host.partition(":")[0])
    else:
        bucket, _, key = path.partition("/")
    if not bucket and key:
        raise invalid_bucket_name("")
    check_key(bucket, key)
    query = request.query_params()
    # A presigned URL has its headers in the query.
    headers = {
        name.lower(): value
        for name, value in query.items()
        if name.lower().startswith("x-amz-") and not name.startswith("X-Amz-")
    }
    return Target(bucket, key, query, {**headers, **request.headers})


def parse_part_number(text: str) -> int:
    """Return the part number in a parameter. Raises AwsError InvalidArgument."""
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= errors.PART_NUMBER:
        raise invalid_argument(
            "Part number must be an integer between 1 and 10000, inclusive", "partNumber", text
        )
    return int(text)
