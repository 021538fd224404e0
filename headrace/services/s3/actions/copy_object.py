"""CopyObject, and the lookup of a copy's source object, which UploadPartCopy shares."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import unquote, urlencode

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    CopyObjectInput,
    CopyObjectOutput,
    CopyObjectResult,
    UploadPartCopyInput,
)
from headrace.core.values import moment
from headrace.services.s3 import checksums, encryption, object_headers
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import invalid_argument, invalid_request, precondition_failed
from headrace.services.s3.files import copy_file
from headrace.services.s3.notifications import CREATED_COPY
from headrace.services.s3.object_headers import KEPT_HEADERS
from headrace.services.s3.routing import check_key
from headrace.services.s3.state import NULL_VERSION, StoredObject


def find_source_object(
    s3: S3, request: CopyObjectInput | UploadPartCopyInput, now_ms: int
) -> StoredObject:
    """Return the object that CopySource names, after checking the request's conditions. Raises AwsError."""
    source = cast("str | dict[str, str]", request["CopySource"])
    if isinstance(source, str):
        path, _, version = source.removeprefix("/").partition("?versionId=")
        version = unquote(version)
        bucket, _, key = unquote(path, errors="surrogateescape").partition("/")
    else:  # the dict form of boto3, from callers inside this process
        bucket, key, version = source["Bucket"], source["Key"], source.get("VersionId") or ""
    if not bucket or not key:
        sentence = "Invalid copy source object key"
        raise invalid_argument(sentence, "x-amz-copy-source", "x-amz-copy-source")
    check_key(key)
    stored = _version(s3, bucket, key, version)
    _check_conditions(stored, request, now_ms)
    return stored


def _version(s3: S3, bucket: str, key: str, version_id: str) -> StoredObject:
    try:
        return s3.object(bucket, key, version_id or None)
    except AwsError as error:
        if error.code != "MethodNotAllowed":
            raise
        raise invalid_request(
            "The source of a copy request may not specifically refer to a delete marker by version id."
        ) from error


def _check_conditions(
    stored: StoredObject, request: CopyObjectInput | UploadPartCopyInput, now_ms: int
) -> None:
    """Raise PreconditionFailed when a condition fails. Source for pairs of conditions: API_CopyObject.

    A CopySourceIfModifiedSince in the future is ignored (observed).
    """
    modified_s = stored.last_modified_ms // 1000
    match = request.get("CopySourceIfMatch")
    if match is not None:
        if match.strip('"') != stored.etag:
            raise precondition_failed("x-amz-copy-source-If-Match")
    elif _convert_to_seconds(request.get("CopySourceIfUnmodifiedSince"), modified_s) < modified_s:
        raise precondition_failed("x-amz-copy-source-If-Unmodified-Since")
    none_match = request.get("CopySourceIfNoneMatch")
    if none_match is not None:
        if none_match.strip('"') == stored.etag:
            raise precondition_failed("x-amz-copy-source-If-None-Match")
    else:
        since_s = _convert_to_seconds(request.get("CopySourceIfModifiedSince"), -1)
        if now_ms // 1000 >= since_s >= modified_s:
            raise precondition_failed("x-amz-copy-source-If-Modified-Since")


def _convert_to_seconds(value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, datetime):
        try:
            value = parsedate_to_datetime(str(value))
        except (ValueError, TypeError):
            return default
    return int(value.timestamp())


@operation("CopyObject")
def copy_object(s3: S3, call: Call, request: CopyObjectInput) -> CopyObjectOutput:
    """Copy an object with its metadata, or with new metadata. Source: API_CopyObject."""
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    source = find_source_object(s3, request, call.now_ms)
    _check_directives(request)
    encryption.check_read(source, request, "CopySource")
    object_headers.check_readable(source)
    replace = request.get("MetadataDirective") == "REPLACE"
    itself = (source.bucket, source.key) == (request["Bucket"], request["Key"])
    # Copying an older version onto its own key is allowed: AWS documents it as the way to restore the version.
    if itself and not replace and not _names_version(request) and not _changes(s3, source, request):
        raise AwsError(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the"
            " object's metadata, storage class, website redirect location or encryption attributes.",
        )
    params = _build_params(source, request, replace=replace)
    temporary = s3.files.temporary()
    try:
        copy_file(source.path, temporary, 0, source.size_bytes)
        body = Body(file=temporary)
        for name in _list_wanted_checksums(source, request):
            params[name] = checksums.compute(name, body)
        stored = s3.write(request["Bucket"], request["Key"], body, params, event=CREATED_COPY)
    finally:
        temporary.unlink(missing_ok=True)
    modified = moment(stored.last_modified_ms)
    result = {"ETag": f'"{stored.etag}"', "LastModified": modified, **stored.checksums}
    answer: CopyObjectOutput = {
        "CopyObjectResult": cast("CopyObjectResult", result),
    }
    answer |= cast("CopyObjectOutput", encryption.render_members(stored.encryption))
    if source.version_id != NULL_VERSION:
        answer["CopySourceVersionId"] = source.version_id
    if s3.bucket(stored.bucket).versioning:
        answer["VersionId"] = stored.version_id
    return answer


def _check_directives(request: CopyObjectInput) -> None:
    for name, header in (
        ("MetadataDirective", "x-amz-metadata-directive"),
        ("TaggingDirective", "x-amz-tagging-directive"),
    ):
        value = request.get(name)
        if value not in (None, "", "COPY", "REPLACE"):
            kind = name.removesuffix("Directive").lower()
            raise invalid_argument(f"Unknown {kind} directive.", header, str(value))


def _changes(s3: S3, source: StoredObject, request: CopyObjectInput) -> bool:
    """Whether a copy of an object onto itself changes something, as AWS requires."""
    has_default = "BucketEncryption" in s3.bucket(source.bucket).configurations
    return (
        bool(request.get("StorageClass"))
        or bool(request.get("WebsiteRedirectLocation"))
        or bool(request.get("ServerSideEncryption") or request.get("SSECustomerAlgorithm"))
        or bool(source.encryption)
        or has_default
    )


def _names_version(request: CopyObjectInput) -> bool:
    source = cast("str | dict[str, str]", request["CopySource"])
    return "?versionId=" in source if isinstance(source, str) else bool(source.get("VersionId"))


# The parameters that a copy never takes from its source, whatever the directives say.
_OF_THE_COPY = (
    "IfMatch",
    "IfNoneMatch",
    "StorageClass",
    "ServerSideEncryption",
    "SSEKMSKeyId",
    "BucketKeyEnabled",
    "SSECustomerAlgorithm",
    "SSECustomerKey",
    "SSECustomerKeyMD5",
    "ObjectLockMode",
    "ObjectLockRetainUntilDate",
    "ObjectLockLegalHoldStatus",
    "ACL",
    "GrantFullControl",
    "GrantRead",
    "GrantReadACP",
    "GrantWriteACP",
)


def _build_params(
    source: StoredObject, request: CopyObjectInput, *, replace: bool
) -> dict[str, object]:
    """Return the parameters of the PutObject that writes the copy."""
    params: dict[str, object] = {
        name: value for name, value in request.items() if name in _OF_THE_COPY
    }
    if replace:
        params["Metadata"] = request.get("Metadata", {})
        for name in ("ContentType", *KEPT_HEADERS):
            params[name] = request.get(name)
    else:
        params["Metadata"] = source.metadata
        params["ContentType"] = source.content_type
        params.update(source.headers)
        elsewhere = request.get("WebsiteRedirectLocation")
        if elsewhere:
            params["WebsiteRedirectLocation"] = elsewhere
        else:
            params.pop("WebsiteRedirectLocation", None)
    if request.get("TaggingDirective") == "REPLACE":
        params["Tagging"] = request.get("Tagging")
    else:
        params["Tagging"] = urlencode(source.tags)
    return params


def _list_wanted_checksums(source: StoredObject, request: CopyObjectInput) -> list[str]:
    """Return the name of the copy's checksum: the requested one, or else the source's."""
    name = checksums.find_checksum_name(request.get("ChecksumAlgorithm"))
    return [name] if name else list(source.checksums)[:1]
