"""Uploads with a browser's form: a POST to a bucket with a multipart/form-data body.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html (documented), and the recordings that
the comment on the policies of forms names. Without `--auth` a signature must be present but is not verified, as for
presigned URLs; whom it names is asked for permission, and a session must be valid. With `--auth` forms are refused,
because headrace cannot verify a signature in a body.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.http import HttpRequest, HttpResponse, Scope
from headrace.aws.signatures.credential_scopes import SIGV4
from headrace.services.s3 import encryption, errors, lifecycle
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.notifications import CREATED_POST
from headrace.services.s3.object_headers import check_tags, read_params
from headrace.services.s3.routing import Target, check_key
from headrace.services.s3.state import StoredObject

# The policy of a browser's form: checks its expiration and the form's fields. Pure functions.
#
# Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html (documented); for the
# error messages, AWS's answers to LocalStack's tests/aws/services/s3/test_s3.py, recorded in March 2025 (observed).

_SIGNED_V4 = ("x-amz-signature", "x-amz-algorithm", "x-amz-credential", "x-amz-date")
_SIGNED_V2 = ("signature", "awsaccesskeyid")
_SHOWN = {
    "x-amz-signature": "X-Amz-Signature",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "signature": "Signature",
    "awsaccesskeyid": "AWSAccessKeyId",
}
# Fields that need no condition in the policy.
_FREE = frozenset({*_SIGNED_V2, "x-amz-signature", "file", "policy"})
_IGNORED_PREFIX = "x-ignore-"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The file sizes that a policy allows, in bytes."""

    least: int
    most: int


def check_signed(fields: Mapping[str, str]) -> None:
    """Refuse a form whose policy has no signature, or only a part of one. `fields` is by lower-case names."""
    names = _SIGNED_V4 if any(name in fields for name in _SIGNED_V4) else _SIGNED_V2
    if not any(name in fields for name in names):
        raise AwsError("AccessDenied", "Access Denied", 403)
    for name in names:
        if name not in fields:
            raise field_missing(_SHOWN[name])


def field_missing(name: str) -> AwsError:
    """The form lacks a required field."""
    return invalid_argument(
        f"Bucket POST must contain a field named '{name}'."
        "  If it is specified, please check the order of the fields.",
        name,
        "",
    )


def check(text: str, fields: Mapping[str, str], now_ms: int) -> list[SizeRange]:
    """Check a policy, and the form against it. Return the allowed file sizes. Raises AwsError."""
    policy = _read_policy(text)
    if _parse_expiry_ms(policy) < now_ms:
        raise _build_refusal("Policy expired.")
    sizes: list[SizeRange] = []
    named: set[str] = set()
    for condition in policy["conditions"]:
        operator, first, second = _split_condition(condition)
        if operator == "content-length-range":
            sizes.append(_size_range(first, second))
            continue
        name = str(first)
        if not _holds(operator, name, str(second), fields):
            raise _build_condition_error([operator, first, second])
        named.add(name[1:].lower())
    extra = [name for name in fields if name not in named and not _is_free(name)]
    if extra:
        raise _build_refusal(f"Extra input fields: {extra[0]}")
    return sizes


def check_size(size_bytes: int, ranges: list[SizeRange]) -> None:
    """Refuse a file that is larger or smaller than a policy allows. Raises AwsError."""
    for bounds in ranges:
        if size_bytes > bounds.most:
            raise AwsError(
                "EntityTooLarge",
                "Your proposed upload exceeds the maximum allowed size",
                400,
                {"ProposedSize": str(size_bytes), "MaxSizeAllowed": str(bounds.most)},
            )
        if size_bytes < bounds.least:
            raise AwsError(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                400,
                {"ProposedSize": str(size_bytes), "MinSizeAllowed": str(bounds.least)},
            )


def _read_policy(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _invalid("Invalid JSON.") from error
    if not isinstance(value, dict):
        raise _invalid("Invalid JSON.")
    policy = cast("dict[str, Any]", value)
    if not isinstance(policy.get("expiration"), str):
        raise _invalid("Policy missing expiration.")
    if not isinstance(policy.get("conditions"), list):
        raise _invalid("Policy missing conditions.")
    return policy


def _parse_expiry_ms(policy: dict[str, Any]) -> float:
    text = str(policy["expiration"])
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _invalid(f"Invalid 'expiration' value: '{text}'") from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000


def _split_condition(condition: Any) -> tuple[str, Any, Any]:
    if isinstance(condition, dict):
        members = cast("dict[str, Any]", condition)
        if len(members) != 1:
            raise _invalid(
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified."
            )
        ((name, value),) = members.items()
        return "eq", f"${name}", value
    if isinstance(condition, list):
        items = cast("list[Any]", condition)
        if len(items) == 3:
            return str(items[0]).lower(), items[1], items[2]
    raise _invalid("Invalid JSON.")


def _size_range(least: Any, most: Any) -> SizeRange:
    try:
        return SizeRange(int(least), int(most))
    except (TypeError, ValueError, OverflowError) as error:
        raise _build_condition_error(["content-length-range", least, most]) from error


def _holds(operator: str, name: str, value: str, fields: Mapping[str, str]) -> bool:
    if not name.startswith("$"):
        return False
    field = fields.get(name[1:].lower())
    if operator == "eq":
        return field == value
    if operator == "starts-with":
        return (field or "").startswith(value)
    raise _invalid(f"Invalid Condition: {operator}")


def _is_free(name: str) -> bool:
    # The bucket is part of the request's address, so it needs no condition.
    return name in _FREE or name == "bucket" or name.startswith(_IGNORED_PREFIX)


def _build_condition_error(condition: list[Any]) -> AwsError:
    return _build_refusal(f"Policy Condition failed: {json.dumps(condition)}")


def _build_refusal(why: str) -> AwsError:
    return AwsError("AccessDenied", f"Invalid according to Policy: {why}", 403)


def _invalid(why: str) -> AwsError:
    return AwsError("InvalidPolicyDocument", f"Invalid Policy: {why}")


_PIECE_BYTES = 1024 * 1024
_PLAIN_HEADERS = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-type",
    "expires",
)
_FORM = "multipart/form-data"


@dataclass(slots=True)
class _Form:
    """A form: its fields by lower-case names, in the order of the form, and the file's name and bytes."""

    fields: dict[str, str]
    file_name: str | None
    body: Body


# Takes a form's signer for the caller who writes the object of these parameters; returns or raises the refusal.
AdmitForm = Callable[[HttpRequest, Scope, Mapping[str, object]], HttpResponse | None]


def is_upload(request: HttpRequest, target: Target) -> bool:
    """Whether a POST is an upload with a form."""
    return bool(target.bucket) and not target.key and not request.query


def answer(
    s3: S3, request: HttpRequest, target: Target, now_ms: int, admit: AdmitForm
) -> HttpResponse:
    """Store the file in a form, or return the refusal of its signer. Raises AwsError, BucketNotFound."""
    content_type = target.headers.get("content-type", "")
    if not content_type.startswith(_FORM):
        raise AwsError(
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
            412,
            {"Condition": f"Bucket POST must be of the enclosure-type {_FORM}"},
        )
    s3.bucket(target.bucket)
    with _read(s3, request, content_type) as form:
        fields = form.fields
        key = fields.get("key")
        if not key:
            raise field_missing("key")
        if form.file_name is not None:
            key = key.replace("${filename}", form.file_name)
        check_key(target.bucket, key)
        sizes: list[SizeRange] = []
        if "policy" in fields:
            check_signed(fields)
            named = {**fields, "bucket": target.bucket, "key": key}
            sizes = check(fields["policy"], named | {"key": fields["key"]}, now_ms)
        check_size(form.body.size_bytes, sizes)
        params = _build_params(fields) | _convert_tags(fields.get("tagging"))
        if "policy" in fields:
            named = {"Bucket": target.bucket, "Key": key, **params}
            if (refusal := admit(request, _scope_of(fields), named)) is not None:
                return refusal
        stored = s3.write(target.bucket, key, form.body, params, event=CREATED_POST)
    return _answer(s3, request, target, stored, fields)


def _scope_of(fields: Mapping[str, str]) -> Scope:
    """Return who signed a form, as it says, in either version's fields."""
    key, date, region, *_ = (*fields.get("x-amz-credential", "").split("/"), "", "")
    return Scope(
        key or fields.get("awsaccesskeyid", ""),
        region,
        "s3",
        date,
        SIGV4,
        fields.get("x-amz-security-token", ""),
    )


# --- reading --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _read(s3: S3, request: HttpRequest, content_type: str) -> Generator[_Form]:
    """Yield a form. At the end, delete the temporary file if the write has not moved it. Raises AwsError."""
    boundary = _parse_boundary(content_type)
    temporary = s3.files.temporary()
    source: BinaryIO = (
        io.BytesIO(request.body) if request.body_file is None else request.body_file.open("rb")
    )
    try:
        with source:
            yield _parse(source, boundary, temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _parse_boundary(content_type: str) -> bytes:
    for part in content_type.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "boundary" and value.strip('"'):
            return value.strip('"').encode()
    raise _build_malformed_error()


def _parse(source: BinaryIO, boundary: bytes, temporary: Path) -> _Form:
    # Like AWS, ignore the fields after the file.
    from werkzeug.sansio import multipart  # on first use: moto has loaded it by then

    fields: dict[str, str] = {}
    name, file_name, is_file = "", None, False
    value = bytearray()
    before_bytes = 0
    with temporary.open("wb") as out:
        try:
            for event in _iterate_events(source, multipart.MultipartDecoder(boundary)):
                if isinstance(event, multipart.Field | multipart.File):
                    name = (event.name or "").lower()
                    is_file = name == "file"
                    if is_file and isinstance(event, multipart.File):
                        file_name = event.filename.rpartition("\\")[2].rpartition("/")[2]
                    value.clear()
                    before_bytes += len(name)
                elif isinstance(event, multipart.Data):
                    if is_file:
                        out.write(event.data)
                    else:
                        value += event.data
                        before_bytes += len(event.data)
                        _check_length(before_bytes)
                    if not event.more_data:
                        if is_file:
                            return _Form(fields, file_name, Body(file=temporary))
                        fields[name] = value.decode("utf-8", "replace")
        except ValueError as error:
            raise _build_malformed_error() from error
    raise invalid_argument("POST requires exactly one file upload per request.", "file", "0")


def _iterate_events(source: BinaryIO, decoder: object) -> Iterator[object]:
    from werkzeug.sansio import multipart

    assert isinstance(decoder, multipart.MultipartDecoder)
    while True:
        event = decoder.next_event()
        if isinstance(event, multipart.NeedData):
            piece = source.read(_PIECE_BYTES)
            decoder.receive_data(piece or None)
        elif isinstance(event, multipart.Epilogue):
            return
        else:
            yield event


def _check_length(before_bytes: int) -> None:
    if before_bytes > errors.POST_FIELDS_BYTES:
        raise AwsError(
            "MaxPostPreDataLengthExceeded",
            "Your POST request fields preceding the upload file were too large.",
        )


def _build_malformed_error() -> AwsError:
    return AwsError(
        "MalformedPOSTRequest",
        "The body of your POST request is not well-formed multipart/form-data.",
    )


# --- the parameters of the write ------------------------------------------------------------------


def _build_params(fields: dict[str, str]) -> dict[str, object]:
    headers = {
        name: value
        for name, value in fields.items()
        if name.startswith("x-amz-") or name in _PLAIN_HEADERS
    }
    if "acl" in fields:
        headers["x-amz-acl"] = fields["acl"]
    return read_params(headers)


def _convert_tags(text: str | None) -> dict[str, str]:
    """Return PutObject's parameter `Tagging` for the tags of a form, which are XML."""
    if text is None:
        return {}
    if "<!" in text:
        raise build_malformed_xml()
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise build_malformed_xml() from error
    pairs = [
        (tag.findtext("{*}Key", ""), tag.findtext("{*}Value", ""))
        for tag in root.findall("{*}TagSet/{*}Tag")
    ]
    tags = check_tags(pairs)
    return {"Tagging": urlencode(tags)} if tags else {}


# --- answering ------------------------------------------------------------------------------------


def _answer(
    s3: S3, request: HttpRequest, target: Target, stored: StoredObject, fields: dict[str, str]
) -> HttpResponse:
    location = _build_location(request, target, stored.key)
    etag = f'"{stored.etag}"'
    headers = [
        ("ETag", etag),
        ("Location", location),
        *encryption.render_headers(stored.encryption),
    ]
    holder = s3.bucket(target.bucket)
    headers += lifecycle.expiration_header(stored, holder)
    if holder.versioning == "Enabled":
        headers.append(("x-amz-version-id", stored.version_id))
    redirect = fields.get("success_action_redirect", fields.get("redirect", ""))
    if _is_url(redirect):
        query = urlencode({"bucket": target.bucket, "key": stored.key, "etag": etag})
        joined = "&" if urlsplit(redirect).query else "?"
        headers[1] = ("Location", f"{redirect}{joined}{query}")
        return HttpResponse(303, headers)
    if fields.get("success_action_status") == "201":
        members = {"Location": location, "Bucket": target.bucket, "Key": stored.key, "ETag": etag}
        inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in members.items())
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<PostResponse>{inner}</PostResponse>'
        return HttpResponse(201, [("Content-Type", "application/xml"), *headers], text.encode())
    return HttpResponse(200 if fields.get("success_action_status") == "200" else 204, headers)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_plain = not any(character in text for character in "\r\n")
    return is_plain and parts.scheme in ("http", "https") and bool(parts.netloc)


def _build_location(request: HttpRequest, target: Target, key: str) -> str:
    host = request.headers.get("host", "localhost")
    in_path = request.path.strip("/") == quote(target.bucket, safe="")
    path = f"{target.bucket}/{quote(key)}" if in_path else quote(key)
    return f"http://{host}/{path}"
