"""CopyObject."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.services.s3.errors import invalid_argument, precondition_failed
from headrace.services.s3.files import StoredObject
from headrace.services.s3.service import S3
from headrace.services.s3.writes import KEPT_HEADERS, Body, copy_file, write_object


def source_object(s3: S3, request: dict[str, Any]) -> StoredObject:
    """Return the object that CopySource names, its conditions checked. Raises AwsError."""
    source = request["CopySource"]
    if isinstance(source, dict):
        bucket, key = source["Bucket"], source["Key"]
    else:
        bucket, _, key = unquote(source.lstrip("/").partition("?versionId")[0]).partition("/")
    if not bucket or not key:
        raise invalid_argument(
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey",
            "x-amz-copy-source",
            str(source),
        )
    stored = s3.object(bucket, key)
    match = request.get("CopySourceIfMatch")
    if match is not None and match.strip('"') != stored.etag:
        raise precondition_failed("x-amz-copy-source-If-Match")
    none_match = request.get("CopySourceIfNoneMatch")
    if none_match is not None and none_match.strip('"') == stored.etag:
        raise precondition_failed("x-amz-copy-source-If-None-Match")
    return stored


@operation("CopyObject")
def copy_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Copy an object with its metadata, or with new ones. Source: API_CopyObject."""
    s3.bucket(request["Bucket"])
    source = source_object(s3, request)
    replace = request.get("MetadataDirective") == "REPLACE"
    if (source.bucket, source.key) == (request["Bucket"], request["Key"]) and not replace:
        raise AwsError(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing the"
            " object's metadata, storage class, website redirect location or encryption attributes.",
        )
    params: dict[str, Any] = {
        name: request[name] for name in ("IfMatch", "IfNoneMatch") if name in request
    }
    if replace:
        params["Metadata"] = request.get("Metadata", {})
        for name in ("ContentType", *KEPT_HEADERS):
            params[name] = request.get(name)
    else:
        params["Metadata"] = source.metadata
        params["ContentType"] = source.content_type
        params.update(source.headers)
    params.update(source.checksums)
    temporary = s3.files.temporary()
    copy_file(source.path, temporary, 0, source.size_bytes)
    stored = write_object(s3, request["Bucket"], request["Key"], Body(file=temporary), params)
    modified = datetime.fromtimestamp(stored.last_modified_ms / 1000, UTC)
    return {
        "CopyObjectResult": {
            "ETag": f'"{stored.etag}"',
            "LastModified": modified,
            **stored.checksums,
        },
        "ServerSideEncryption": "AES256",
    }
