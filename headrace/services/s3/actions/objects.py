"""The actions of objects: put, get, head, tags, attributes, ACLs. Over HTTP, bytes are handled in `raw`."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.s3 import (
    DeleteObjectTaggingInput,
    DeleteObjectTaggingOutput,
    GetObjectAclInput,
    GetObjectAclOutput,
    GetObjectAttributesInput,
    GetObjectAttributesOutput,
    GetObjectInput,
    GetObjectOutput,
    GetObjectTaggingInput,
    GetObjectTaggingOutput,
    HeadObjectInput,
    HeadObjectOutput,
    PutObjectAclInput,
    PutObjectAclOutput,
    PutObjectInput,
    PutObjectOutput,
    PutObjectTaggingInput,
    PutObjectTaggingOutput,
)
from headrace.services.s3 import reads
from headrace.services.s3.actions.owner import FULL_CONTROL, OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import is_marker
from headrace.services.s3.names import check_key
from headrace.services.s3.notifications import TAGGED, UNTAGGED
from headrace.services.s3.state import StoredObject
from headrace.services.s3.writes import checked_tags


@operation("PutObject")
def put_object(s3: S3, call: Call, request: PutObjectInput) -> PutObjectOutput:
    """Write an object from bytes. Source: API_PutObject."""
    body = cast("bytes | str", request.get("Body", b""))
    data = body.encode() if isinstance(body, str) else bytes(body)
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    stored = s3.write(request["Bucket"], request["Key"], Body(data=data), request)
    answer = {"ETag": f'"{stored.etag}"', "ServerSideEncryption": "AES256", **stored.checksums}
    if s3.bucket(request["Bucket"]).versioning == "Enabled":
        answer["VersionId"] = stored.version_id
    return cast("PutObjectOutput", answer)


def _version_id(s3: S3, stored: StoredObject) -> dict[str, Any]:
    """Return the member of answers in buckets that keep versions, or did once."""
    return {"VersionId": stored.version_id} if s3.bucket(stored.bucket).versioning else {}


def _found(s3: S3, request: Any) -> StoredObject:
    """Return the object or the version that a request names; a delete marker on top is refused as one by its id."""
    bucket, key, version_id = request["Bucket"], request["Key"], request.get("VersionId")
    try:
        return s3.object(bucket, key, version_id)
    except AwsError as error:
        marker = s3.histories.latest_marker(bucket, key) if error.code == "NoSuchKey" else None
        if marker is None:
            raise
        raise is_marker(marker) from error


def _description(s3: S3, stored: StoredObject) -> HeadObjectOutput:
    description: dict[str, Any] = {
        "ContentLength": stored.size_bytes,
        "ContentType": stored.content_type,
        "ETag": f'"{stored.etag}"',
        "LastModified": datetime.fromtimestamp(stored.last_modified_ms // 1000, UTC),
        "Metadata": stored.metadata,
        "AcceptRanges": "bytes",
        **stored.headers,
        **_version_id(s3, stored),
    }
    return cast("HeadObjectOutput", description)


@operation("GetObject")
def get_object(s3: S3, call: Call, request: GetObjectInput) -> GetObjectOutput:
    """Return an object with its bytes, or those of `Range`. Source: API_GetObject."""
    asked = request.get("Range")

    def part(stored: StoredObject) -> tuple[int, int]:
        return reads.range_of(asked, stored.size_bytes) or (0, stored.size_bytes)

    stored, data = s3.read(request["Bucket"], request["Key"], part, request.get("VersionId"))
    answer = cast("GetObjectOutput", _description(s3, stored))
    answer["Body"], answer["ContentLength"] = data, len(data)
    if reads.range_of(asked, stored.size_bytes) is not None:
        first, length = part(stored)
        answer["ContentRange"] = f"bytes {first}-{first + length - 1}/{stored.size_bytes}"
    return answer


@operation("HeadObject")
def head_object(s3: S3, call: Call, request: HeadObjectInput) -> HeadObjectOutput:
    """Return an object without its bytes. Source: API_HeadObject."""
    return _description(s3, s3.object(request["Bucket"], request["Key"], request.get("VersionId")))


@operation("GetObjectTagging")
def get_object_tagging(
    s3: S3, call: Call, request: GetObjectTaggingInput
) -> GetObjectTaggingOutput:
    """Return an object's tags. Source: API_GetObjectTagging."""
    stored = _found(s3, request)
    tags = [{"Key": key, "Value": value} for key, value in stored.tags.items()]
    return cast("GetObjectTaggingOutput", {"TagSet": tags, **_version_id(s3, stored)})


@operation("PutObjectTagging")
def put_object_tagging(
    s3: S3, call: Call, request: PutObjectTaggingInput
) -> PutObjectTaggingOutput:
    """Replace an object's tags. Source: API_PutObjectTagging."""
    given = request["Tagging"].get("TagSet") or []
    tags = checked_tags([(tag["Key"], tag["Value"]) for tag in given])
    with s3.files.lock:
        stored = _found(s3, request)
        s3.update(replace(stored, tags=tags))
        s3.notify(TAGGED, stored)
    return cast("PutObjectTaggingOutput", _version_id(s3, stored))


@operation("DeleteObjectTagging")
def delete_object_tagging(
    s3: S3, call: Call, request: DeleteObjectTaggingInput
) -> DeleteObjectTaggingOutput:
    """Remove an object's tags. Source: API_DeleteObjectTagging."""
    with s3.files.lock:
        stored = _found(s3, request)
        s3.update(replace(stored, tags={}))
        s3.notify(UNTAGGED, stored)
    return cast("DeleteObjectTaggingOutput", _version_id(s3, stored))


def _checksum(stored: StoredObject) -> dict[str, str] | None:
    if not stored.checksums:
        return None
    is_composite = any("-" in value for value in stored.checksums.values())
    return {**stored.checksums, "ChecksumType": "COMPOSITE" if is_composite else "FULL_OBJECT"}


@operation("GetObjectAttributes")
def get_object_attributes(
    s3: S3, call: Call, request: GetObjectAttributesInput
) -> GetObjectAttributesOutput:
    """Return the attributes that are asked for. Source: API_GetObjectAttributes."""
    stored = s3.object(request["Bucket"], request["Key"], request.get("VersionId"))
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
    answer |= _version_id(s3, stored)
    return cast("GetObjectAttributesOutput", answer)


@operation("GetObjectAcl")
def get_object_acl(s3: S3, call: Call, request: GetObjectAclInput) -> GetObjectAclOutput:
    """Return the owner's full control: ACLs are off. Source: API_GetObjectAcl."""
    s3.object(request["Bucket"], request["Key"], request.get("VersionId"))
    return {"Owner": OWNER, "Grants": FULL_CONTROL}


@operation("PutObjectAcl")
def put_object_acl(s3: S3, call: Call, request: PutObjectAclInput) -> PutObjectAclOutput:
    """Accept `private` and `bucket-owner-full-control`; refuse all other ACLs, as a bucket with ACLs off does."""
    _found(s3, request)
    if request.get("ACL") not in (None, "private", "bucket-owner-full-control"):
        raise AwsError("AccessControlListNotSupported", "The bucket does not allow ACLs")
    return {}
