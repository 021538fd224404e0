"""Reads the parameters of a write: the headers, metadata and tags to store, and the conditions. Pure functions.

Reads the parameters of PutObject and UploadPart from the headers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from typing import Any, cast
from urllib.parse import parse_qsl

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.model import operation_model
from headrace.services.s3 import acls, checksums, encryption, limits, locks
from headrace.services.s3.encryption import Keys
from headrace.services.s3.errors import (
    conflict,
    invalid_argument,
    invalid_request,
    no_such_key,
    not_implemented,
    precondition_failed,
)
from headrace.services.s3.state import (
    DEFAULT_CONTENT_TYPE,
    STANDARD,
    Bucket,
    ObjectFields,
    StoredObject,
)

_METADATA_PREFIX = "x-amz-meta-"


def read_params(headers: Mapping[str, str]) -> dict[str, Any]:
    """Return PutObject's parameters from headers, whose names are in lower case. Raises AwsError."""
    names = _list_params_by_header()
    params: dict[str, Any] = {
        names[header]: value for header, value in headers.items() if value and header in names
    }
    params["Metadata"] = {
        name.removeprefix(_METADATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_METADATA_PREFIX)
    }
    if headers.get("x-amz-sdk-checksum-algorithm") and not any(
        name in params for name in checksums.CHECKSUMS
    ):
        raise invalid_request(
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers"
            " were found."
        )
    return params


def read_customer_key_params(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the customer-provided key in the headers."""
    params_by_header = _list_params_by_header()
    return {
        params_by_header[header]: value
        for header, value in headers.items()
        if params_by_header.get(header, "").startswith("SSECustomer")
    }


@functools.cache
def _list_params_by_header() -> dict[str, str]:
    """Return a dictionary from header names to PutObject's parameters, which include all of UploadPart's."""
    # botocore has no types: its shapes are Any here.
    shape: Any = cast("Any", operation_model("s3", "PutObject")).input_shape
    return {
        member.serialization["name"].lower(): name
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header" and name != "ContentLength"
    }


# Parameters that are stored with an object, and that GetObject returns as headers.
KEPT_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "Expires",
    "WebsiteRedirectLocation",
)


STORAGE_CLASSES = frozenset(
    {
        "STANDARD",
        "REDUCED_REDUNDANCY",
        "STANDARD_IA",
        "ONEZONE_IA",
        "INTELLIGENT_TIERING",
        "GLACIER",
        "DEEP_ARCHIVE",
        "GLACIER_IR",
    }
)
# Their objects are read only after RestoreObject.
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")


def build_object_fields(
    holder: Bucket, params: Mapping[str, Any], keys: Keys, now_ms: int
) -> dict[str, Any]:
    """Return the fields of a new object from a write's parameters and its bucket. Raises AwsError."""
    return {
        **build_parameter_fields(params),
        "encryption": encryption.read_write_settings(params, holder, keys),
        "grants": acls.list_object_grants(params, holder),
        **locks.build_write_fields(params, holder, now_ms),
    }


def build_parameter_fields(params: Mapping[str, Any]) -> ObjectFields:
    """Return the fields of a new object from a write's parameters alone. Raises AwsError."""
    user_metadata: dict[str, str] = params.get("Metadata") or {}
    metadata = {name.lower(): value for name, value in user_metadata.items()}
    _check_metadata(metadata)
    return {
        "storage_class": check_storage_class(params.get("StorageClass")),
        "content_type": params.get("ContentType") or DEFAULT_CONTENT_TYPE,
        "headers": {
            name: _render_header(params[name]) for name in KEPT_HEADERS if params.get(name)
        },
        "metadata": metadata,
        "tags": parse_tags_header(params["Tagging"]) if params.get("Tagging") else {},
    }


def check_storage_class(value: Any) -> str:
    """Return an object's storage class. Raises AwsError InvalidStorageClass."""
    if not value:
        return STANDARD
    if value not in STORAGE_CLASSES:
        raise AwsError(
            "InvalidStorageClass",
            "The storage class you specified is not valid",
            400,
            {"StorageClassRequested": str(value)},
        )
    return str(value)


def _render_header(value: Any) -> str:
    return format_datetime(value, usegmt=True) if isinstance(value, datetime) else str(value)


def check_conditions(
    key: str, present: StoredObject | None, params: Mapping[str, Any], *, disturbed: bool = False
) -> None:
    """Refuse a write whose conditions do not let it replace the object `present`.

    `disturbed` says that the object was written or deleted since the multipart upload started that is now completed.
    Raises AwsError PreconditionFailed, NoSuchKey, ConditionalRequestConflict, NotImplemented.
    """
    none_match, match = params.get("IfNoneMatch"), params.get("IfMatch")
    if none_match is not None and match is not None:
        raise not_implemented(
            "If-Match,If-None-Match", "Multiple conditional request headers present in the request"
        )
    if none_match is not None:
        if none_match != "*":
            raise not_implemented(
                "If-None-Match",
                "We don't accept the provided value of If-None-Match header for this API",
            )
        if present is not None:
            raise precondition_failed("If-None-Match")
        if disturbed:
            raise conflict("If-None-Match", key)
    if match is not None:
        if match == "*":
            raise not_implemented(
                "If-Match", "We don't accept the provided value of If-Match header for this API"
            )
        if present is None:
            raise no_such_key(key)
        if match.strip('"') != present.etag:
            raise precondition_failed("If-Match")
        if disturbed:
            raise conflict("If-Match", key)


def check_tags(
    pairs: list[tuple[str, str]],
    reserved: str = "Your TagKey cannot be prefixed with aws:",
    most: int = limits.TAGS_PER_OBJECT,
) -> dict[str, str]:
    """Return tags by key. `reserved` is the error message for keys that are reserved for AWS.

    Raises BadRequest, InvalidTag. Source: S3's object tagging rules.
    """
    if len(pairs) > most:
        kind = "Object" if most == limits.TAGS_PER_OBJECT else "Bucket"
        raise AwsError("BadRequest", f"{kind} tags cannot be greater than {most}")
    tags: dict[str, str] = {}
    for key, value in pairs:
        if not key or len(key) > limits.TAG_KEY_CHARS or not _TAG_TEXT.fullmatch(key):
            raise bad_tag("The TagKey you have provided is invalid", key)
        if len(value) > limits.TAG_VALUE_CHARS or not _TAG_TEXT.fullmatch(value):
            raise bad_tag("The TagValue you have provided is invalid", key, TagValue=value)
        if key in tags:
            raise bad_tag("Cannot provide multiple Tags with the same key", key)
        if key.startswith("aws:"):
            raise bad_tag(reserved, key)
        tags[key] = value
    return tags


def parse_tags_header(text: str) -> dict[str, str]:
    """Return the tags of the header x-amz-tagging. Raises AwsError InvalidArgument, InvalidTag."""
    pairs = parse_qsl(text, keep_blank_values=True)
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys) or any("," in key or "," in value for key, value in pairs):
        raise invalid_argument(
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name"
            " duplicates.",
            "x-amz-tagging",
            text,
        )
    return check_tags(pairs)


# The characters that tags may have. Source (documented): object-tagging.html.
_TAG_TEXT = re.compile(r"[\w\s.:/=+\-@]*")


def bad_tag(sentence: str, key: str, **more: str) -> AwsError:
    """Return the error for a tag that S3 refuses."""
    return AwsError("InvalidTag", sentence, 400, {"TagKey": key, **more})


def _check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > limits.METADATA_BYTES:
        raise AwsError(
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size",
            400,
            {"Size": str(size), "MaxSizeAllowed": str(limits.METADATA_BYTES)},
        )
