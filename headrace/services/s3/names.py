"""Checks the names of buckets and the keys of objects."""

from __future__ import annotations

import re

from headrace.aws.calls.errors import AwsError
from headrace.services.s3 import limits
from headrace.services.s3.errors import key_too_long

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# AWS reserves it for the buckets behind S3 Tables' tables (documented: bucketnamingrules).
TABLE_STORAGE = "--table-s3"
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
        if size > limits.KEY_BYTES:
            raise key_too_long(name)
