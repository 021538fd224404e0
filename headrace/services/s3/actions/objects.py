"""Objects in process (over HTTP see `raw`), their tags and attributes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.services.s3 import reads
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.state import StoredObject
from headrace.services.s3.writes import checked_tags

_OWNER = {"DisplayName": "headrace", "ID": "0" * 64}


@operation("PutObject")
def put_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Write an object from bytes. Source: API_PutObject."""
    body = request.get("Body", b"")
    data = body.encode() if isinstance(body, str) else bytes(body)
    stored = s3.write(request["Bucket"], request["Key"], Body(data=data), request)
    return {"ETag": f'"{stored.etag}"', "ServerSideEncryption": "AES256", **stored.checksums}


def _description(stored: StoredObject) -> dict[str, Any]:
    return {
        "ContentLength": stored.size_bytes,
        "ContentType": stored.content_type,
        "ETag": f'"{stored.etag}"',
        "LastModified": datetime.fromtimestamp(stored.last_modified_ms // 1000, UTC),
        "Metadata": stored.metadata,
        "AcceptRanges": "bytes",
        **stored.headers,
    }


@operation("GetObject")
def get_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its bytes, or those of `Range`. Source: API_GetObject."""
    asked = request.get("Range")

    def part(stored: StoredObject) -> tuple[int, int]:
        return reads.range_of(asked, stored.size_bytes) or (0, stored.size_bytes)

    stored, data = s3.read(request["Bucket"], request["Key"], part)
    answer = {**_description(stored), "Body": data, "ContentLength": len(data)}
    if reads.range_of(asked, stored.size_bytes) is not None:
        first, length = part(stored)
        answer["ContentRange"] = f"bytes {first}-{first + length - 1}/{stored.size_bytes}"
    return answer


@operation("HeadObject")
def head_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its bytes. Source: API_HeadObject."""
    return _description(s3.object(request["Bucket"], request["Key"]))


@operation("GetObjectTagging")
def get_object_tagging(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return an object's tags. Source: API_GetObjectTagging."""
    stored = s3.object(request["Bucket"], request["Key"])
    return {"TagSet": [{"Key": key, "Value": value} for key, value in stored.tags.items()]}


@operation("PutObjectTagging")
def put_object_tagging(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Replace an object's tags. Source: API_PutObjectTagging."""
    given: list[dict[str, str]] = request["Tagging"].get("TagSet") or []
    tags = checked_tags([(tag["Key"], tag["Value"]) for tag in given])
    with s3.files.lock:
        stored = s3.object(request["Bucket"], request["Key"])
        s3.files.update(replace(stored, tags=tags))
    return {}


@operation("DeleteObjectTagging")
def delete_object_tagging(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Remove an object's tags. Source: API_DeleteObjectTagging."""
    with s3.files.lock:
        stored = s3.object(request["Bucket"], request["Key"])
        s3.files.update(replace(stored, tags={}))
    return {}


def _checksum(stored: StoredObject) -> dict[str, str] | None:
    if not stored.checksums:
        return None
    is_composite = any("-" in value for value in stored.checksums.values())
    return {**stored.checksums, "ChecksumType": "COMPOSITE" if is_composite else "FULL_OBJECT"}


@operation("GetObjectAttributes")
def get_object_attributes(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that are asked for. Source: API_GetObjectAttributes."""
    stored = s3.object(request["Bucket"], request["Key"])
    known: dict[str, Any] = {
        "ETag": stored.etag,
        "ObjectSize": stored.size_bytes,
        "StorageClass": "STANDARD",
        "Checksum": _checksum(stored),
        "ObjectParts": {"TotalPartsCount": stored.parts} if stored.parts else None,
    }
    wanted: list[str] = request.get("ObjectAttributes") or []
    answer = {name: known[name] for name in wanted if known.get(name) is not None}
    answer["LastModified"] = datetime.fromtimestamp(stored.last_modified_ms // 1000, UTC)
    return answer


@operation("GetObjectAcl")
def get_object_acl(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return the owner's full control: ACLs are off. Source: API_GetObjectAcl."""
    s3.object(request["Bucket"], request["Key"])
    grantee = {"Type": "CanonicalUser", **_OWNER}
    return {"Owner": _OWNER, "Grants": [{"Grantee": grantee, "Permission": "FULL_CONTROL"}]}


@operation("PutObjectAcl")
def put_object_acl(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Take `private` and `bucket-owner-full-control`; refuse the rest, as a bucket with ACLs off does."""
    s3.object(request["Bucket"], request["Key"])
    if request.get("ACL") not in (None, "private", "bucket-owner-full-control"):
        raise AwsError("AccessControlListNotSupported", "The bucket does not allow ACLs")
    return {}
