"""Operations on objects: put, get, head, delete, lock, restore, tags, attributes and ACLs. `fast_path` has bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypedDict, cast

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    DeletedObject,
    DeleteObjectInput,
    DeleteObjectOutput,
    DeleteObjectsInput,
    DeleteObjectsOutput,
    DeleteObjectTaggingInput,
    DeleteObjectTaggingOutput,
    Error,
    GetObjectAclInput,
    GetObjectAclOutput,
    GetObjectAttributesInput,
    GetObjectAttributesOutput,
    GetObjectAttributesParts,
    GetObjectInput,
    GetObjectLegalHoldInput,
    GetObjectLegalHoldOutput,
    GetObjectOutput,
    GetObjectRetentionInput,
    GetObjectRetentionOutput,
    GetObjectTaggingInput,
    GetObjectTaggingOutput,
    Grant,
    HeadObjectInput,
    HeadObjectOutput,
    ObjectIdentifier,
    ObjectPart,
    PutObjectAclInput,
    PutObjectAclOutput,
    PutObjectInput,
    PutObjectLegalHoldInput,
    PutObjectLegalHoldOutput,
    PutObjectOutput,
    PutObjectRetentionInput,
    PutObjectRetentionOutput,
    PutObjectTaggingInput,
    PutObjectTaggingOutput,
    RestoreObjectInput,
    RestoreObjectOutput,
)
from headrace.core.ports import ObjectNotFound
from headrace.core.values import moment
from headrace.services.s3 import acls, encryption, errors, locks, object_headers
from headrace.services.s3.acls import OWNER
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import (
    invalid_argument,
    is_marker,
    no_such_key,
    no_such_version,
    not_implemented,
    precondition_failed,
    too_large_to_hold,
)
from headrace.services.s3.history import check_version_id, is_version_id
from headrace.services.s3.notifications import (
    ACL_PUT,
    RESTORE_ASKED,
    RESTORED,
    TAGGED,
    UNTAGGED,
    ObjectEvent,
)
from headrace.services.s3.object_headers import ARCHIVES, check_tags
from headrace.services.s3.routing import check_key
from headrace.services.s3.state import EmptyAnswer, Marker, StoredObject


@operation("DeleteObject")
def delete_object(s3: S3, call: Call, request: DeleteObjectInput) -> DeleteObjectOutput:
    """Delete an object, add a delete marker, or permanently delete a version. Source: API_DeleteObject."""
    holder = s3.bucket(request["Bucket"])
    for name, header in _DIRECTORY_BUCKETS_ONLY:
        if request.get(name) is not None:
            raise not_implemented(header)
    bypass = request.get("BypassGovernanceRetention")
    locks.check_bypass(holder, bypass)
    version_id = request.get("VersionId")
    if version_id is not None:
        check_version_id(version_id)
    with s3.files.lock:
        match = request.get("IfMatch")
        if match is not None and match != "*":
            present = s3.files.find(request["Bucket"], request["Key"])
            if present is None or present.etag != match.strip('"'):
                raise precondition_failed("If-Match")
        return _delete(
            s3, request["Bucket"], request["Key"], version_id, bypass=encryption.is_true(bypass)
        )


# General purpose buckets refuse these parameters (observed in AWS's recorded answers).
_DIRECTORY_BUCKETS_ONLY = (
    ("IfMatchLastModifiedTime", "x-amz-if-match-last-modified-time"),
    ("IfMatchSize", "x-amz-if-match-size"),
)


def _delete(
    s3: S3, bucket: str, key: str, version_id: str | None, *, bypass: bool
) -> DeleteObjectOutput:
    """Delete an object or a version, and return the members VersionId and DeleteMarker of the response."""
    if version_id is None:
        marker = s3.remove(bucket, key)
        return {} if marker is None else {"DeleteMarker": True, "VersionId": marker.version_id}
    removed = s3.remove_version(bucket, key, version_id, bypass=bypass)
    answer: DeleteObjectOutput = {"VersionId": version_id}
    if isinstance(removed, Marker):
        answer["DeleteMarker"] = True
    return answer


@operation("DeleteObjects")
def delete_objects(s3: S3, call: Call, request: DeleteObjectsInput) -> DeleteObjectsOutput:
    """Delete up to 1,000 objects or versions. Source: API_DeleteObjects."""
    bypass = request.get("BypassGovernanceRetention")
    locks.check_bypass(s3.bucket(request["Bucket"]), bypass)
    objects = request["Delete"].get("Objects") or []
    if not 0 < len(objects) <= errors.DELETE_KEYS:
        raise build_malformed_xml()
    if not all(item.get("Key") for item in objects):
        raise build_malformed_xml()
    deleted: list[DeletedObject] = []
    failed: list[Error] = []
    for item in objects:
        try:
            deleted.append(
                _delete_one(s3, request["Bucket"], item, bypass=encryption.is_true(bypass))
            )
        except AwsError as error:
            refused = {**item, "Code": error.code, "Message": error.message}
            failed.append(cast("Error", refused))
    quiet = request["Delete"].get("Quiet") in (True, "true")
    answer: DeleteObjectsOutput = {} if quiet or not deleted else {"Deleted": deleted}
    if failed:
        answer["Errors"] = failed
    return answer


def _delete_one(s3: S3, bucket: str, item: ObjectIdentifier, *, bypass: bool) -> DeletedObject:
    key, version_id = item["Key"], item.get("VersionId") or None
    check_key(key)
    if version_id is not None and not is_version_id(version_id):
        raise no_such_version(key, version_id)
    done = _delete(s3, bucket, key, version_id, bypass=bypass)
    entry: DeletedObject = {"Key": key}
    if version_id is not None:
        entry["VersionId"] = version_id
    if done.get("DeleteMarker"):
        entry["DeleteMarker"] = True
        entry["DeleteMarkerVersionId"] = done.get("VersionId", "")
    return entry


@operation("PutObject")
def put_object(s3: S3, call: Call, request: PutObjectInput) -> PutObjectOutput:
    """Write an object whose body is in memory. Source: API_PutObject."""
    body = cast("bytes | str", request.get("Body", b""))
    data = body.encode() if isinstance(body, str) else bytes(body)
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    stored = s3.write(request["Bucket"], request["Key"], Body(data=data), request)
    answer: dict[str, Any] = {
        "ETag": f'"{stored.etag}"',
        **encryption.render_members(stored.encryption),
        **stored.checksums,
        "ChecksumType": object_headers.find_checksum_type(stored),
    }
    if s3.bucket(request["Bucket"]).versioning == "Enabled":
        answer["VersionId"] = stored.version_id
    return cast("PutObjectOutput", answer)


class VersionMember(TypedDict, total=False):
    """The member of several answers that names the version."""

    VersionId: str


def _version_id(s3: S3, stored: StoredObject) -> VersionMember:
    """Return the member VersionId of responses, which exists if the bucket's versioning was ever enabled."""
    return {"VersionId": stored.version_id} if s3.bucket(stored.bucket).versioning else {}


def find_object_or_marker(s3: S3, request: Any) -> StoredObject:
    """Return the object or the version that a request names.

    If the latest version is a delete marker, the error is the same as for a request that names the marker's id.
    """
    bucket, key, version_id = request["Bucket"], request["Key"], request.get("VersionId")
    try:
        return s3.object(bucket, key, version_id)
    except AwsError as error:
        marker = s3.histories.latest_marker(bucket, key) if error.code == "NoSuchKey" else None
        if marker is None:
            raise
        raise is_marker(marker) from error


def _describe_object(s3: S3, stored: StoredObject) -> HeadObjectOutput:
    description: dict[str, Any] = {
        "ContentLength": stored.size_bytes,
        "ContentType": stored.content_type,
        "ETag": f'"{stored.etag}"',
        "LastModified": datetime.fromtimestamp(stored.last_modified_ms // 1000, UTC),
        "Metadata": stored.metadata,
        "AcceptRanges": "bytes",
        **stored.headers,
        **encryption.render_members(stored.encryption),
        **_version_id(s3, stored),
    }
    return cast("HeadObjectOutput", description)


@operation("GetObject")
def get_object(s3: S3, call: Call, request: GetObjectInput) -> GetObjectOutput:
    """Return an object with its bytes, or with the bytes of `Range`. Source: API_GetObject.

    For calls in this process, which have the bytes in memory; clients' requests get slices of the file.
    """
    asked = request.get("Range")

    def part(stored: StoredObject) -> tuple[int, int]:
        first, length = object_headers.parse_range(asked, stored.size_bytes) or (
            0,
            stored.size_bytes,
        )
        if length > errors.HELD_BYTES:
            raise too_large_to_hold()
        return first, length

    stored, data = s3.read(request["Bucket"], request["Key"], part, request.get("VersionId"))
    answer = cast("GetObjectOutput", _describe_object(s3, stored))
    answer["Body"], answer["ContentLength"] = data, len(data)
    if object_headers.parse_range(asked, stored.size_bytes) is not None:
        first, length = part(stored)
        answer["ContentRange"] = f"bytes {first}-{first + length - 1}/{stored.size_bytes}"
    return answer


@operation("HeadObject")
def head_object(s3: S3, call: Call, request: HeadObjectInput) -> HeadObjectOutput:
    """Return an object without its bytes. Source: API_HeadObject."""
    return _describe_object(
        s3, s3.object(request["Bucket"], request["Key"], request.get("VersionId"))
    )


@operation("GetObjectTagging")
def get_object_tagging(
    s3: S3, call: Call, request: GetObjectTaggingInput
) -> GetObjectTaggingOutput:
    """Return an object's tags. Source: API_GetObjectTagging."""
    try:
        stored = find_object_or_marker(s3, request)
    except ObjectNotFound as error:
        # In the error of this operation only, the key starts with the bucket's name (observed).
        raise no_such_key(f"{request['Bucket']}/{request['Key']}") from error
    tags = [{"Key": key, "Value": value} for key, value in stored.tags.items()]
    return cast("GetObjectTaggingOutput", {"TagSet": tags, **_version_id(s3, stored)})


@operation("PutObjectTagging")
def put_object_tagging(
    s3: S3, call: Call, request: PutObjectTaggingInput
) -> PutObjectTaggingOutput:
    """Replace an object's tags. Source: API_PutObjectTagging."""
    tag_set = request["Tagging"].get("TagSet") or []
    tags = check_tags([(tag["Key"], tag["Value"]) for tag in tag_set])
    with s3.files.lock:
        stored = find_object_or_marker(s3, request)
        s3.update(replace(stored, tags=tags))
        s3.notify(TAGGED, stored)
    return {**_version_id(s3, stored)}


@operation("DeleteObjectTagging")
def delete_object_tagging(
    s3: S3, call: Call, request: DeleteObjectTaggingInput
) -> DeleteObjectTaggingOutput:
    """Remove an object's tags. Source: API_DeleteObjectTagging."""
    with s3.files.lock:
        stored = find_object_or_marker(s3, request)
        s3.update(replace(stored, tags={}))
        s3.notify(UNTAGGED, stored)
    return {**_version_id(s3, stored)}


def _render_checksum(stored: StoredObject) -> dict[str, str] | None:
    if not stored.checksums:
        return None
    bare = {name: value.partition("-")[0] for name, value in stored.checksums.items()}
    return {**bare, "ChecksumType": object_headers.find_checksum_type(stored)}


def _render_parts(
    stored: StoredObject, request: GetObjectAttributesInput
) -> GetObjectAttributesParts | None:
    """Return the parts of an object. As on AWS, they are listed only if they have checksums of their own."""
    if not stored.parts:
        return None
    if not stored.part_checksums:
        return {"TotalPartsCount": stored.parts}
    most = request.get("MaxParts")
    limit = errors.LIST_PARTS if most is None else min(int(most), errors.LIST_PARTS)
    after = int(request.get("PartNumberMarker") or 0)
    (name,) = stored.checksums
    every = [
        {"PartNumber": number, "Size": size, name: value}
        for number, (size, value) in enumerate(
            zip(stored.part_sizes, stored.part_checksums, strict=True), 1
        )
    ]
    page = every[after : after + limit]
    return {
        "TotalPartsCount": stored.parts,
        "PartNumberMarker": after,
        "NextPartNumberMarker": after + len(page),
        "MaxParts": limit,
        "IsTruncated": after + len(page) < len(every),
        "Parts": cast("list[ObjectPart]", page),
    }


_ATTRIBUTES = ("ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize")


@operation("GetObjectAttributes")
def get_object_attributes(
    s3: S3, call: Call, request: GetObjectAttributesInput
) -> GetObjectAttributesOutput:
    """Return the requested attributes. Source: API_GetObjectAttributes."""
    attributes = request.get("ObjectAttributes") or []
    # The header may have several names on one line, with spaces between them.
    names = [name.strip() for one in attributes for name in one.split(",")]
    if not set(names) <= set(_ATTRIBUTES) or not names:
        raise invalid_argument("Invalid attribute name specified.", "x-amz-object-attributes", "")
    stored = s3.object(request["Bucket"], request["Key"], request.get("VersionId"))
    encryption.check_read(stored, request)
    known: dict[str, Any] = {
        "ETag": stored.etag,
        "ObjectSize": stored.size_bytes,
        "StorageClass": stored.storage_class,
        "Checksum": _render_checksum(stored),
        "ObjectParts": _render_parts(stored, request),
    }
    answer = {name: known[name] for name in names if known[name] is not None}
    answer["LastModified"] = datetime.fromtimestamp(stored.last_modified_ms // 1000, UTC)
    answer.update(_version_id(s3, stored))
    return cast("GetObjectAttributesOutput", answer)


@operation("GetObjectAcl")
def get_object_acl(s3: S3, call: Call, request: GetObjectAclInput) -> GetObjectAclOutput:
    """Return an object's grants; by default the owner has full control. Source: API_GetObjectAcl."""
    stored = s3.object(request["Bucket"], request["Key"], request.get("VersionId"))
    return {"Owner": OWNER, "Grants": cast("list[Grant]", acls.render_grants(stored.grants))}


@operation("PutObjectAcl")
def put_object_acl(s3: S3, call: Call, request: PutObjectAclInput) -> PutObjectAclOutput:
    """Replace an object's grants. They are stored and returned, but do not give access. Source: API_PutObjectAcl."""
    with s3.files.lock:
        stored = find_object_or_marker(s3, request)
        grants = acls.read_new_grants(request, s3.bucket(request["Bucket"]), is_bucket=False)
        s3.update(replace(stored, grants=grants))
        s3.notify(ACL_PUT, stored)
    return {}


def _find_lockable(s3: S3, request: Any) -> StoredObject:
    holder = s3.bucket(request["Bucket"])
    stored = find_object_or_marker(s3, request)
    locks.check_locking(holder)
    return stored


@operation("PutObjectRetention")
def put_object_retention(
    s3: S3, call: Call, request: PutObjectRetentionInput
) -> PutObjectRetentionOutput:
    """Set a version's retention: it cannot be deleted before a date. Source: API_PutObjectRetention."""
    with s3.files.lock:
        stored = _find_lockable(s3, request)
        requested = cast("dict[str, Any]", request.get("Retention") or {})
        bypass = request.get("BypassGovernanceRetention")
        retention = locks.check_new_retention(stored, requested, call.now_ms, bypass)
        s3.update(replace(stored, retention=retention))
    return {}


@operation("GetObjectRetention")
def get_object_retention(
    s3: S3, call: Call, request: GetObjectRetentionInput
) -> GetObjectRetentionOutput:
    """Return a version's retention. Source: API_GetObjectRetention."""
    stored = _find_lockable(s3, request)
    if not stored.retention:
        raise locks.no_lock()
    until = locks.parse_date(stored.retention["RetainUntilDate"])
    retention = {"Mode": stored.retention["Mode"], "RetainUntilDate": until}
    return cast("GetObjectRetentionOutput", {"Retention": retention})


@operation("PutObjectLegalHold")
def put_object_legal_hold(
    s3: S3, call: Call, request: PutObjectLegalHoldInput
) -> PutObjectLegalHoldOutput:
    """Turn a version's legal hold on or off: a held version cannot be deleted. Source: API_PutObjectLegalHold."""
    with s3.files.lock:
        stored = _find_lockable(s3, request)
        status = (request.get("LegalHold") or {}).get("Status")
        if status not in ("ON", "OFF"):
            raise build_malformed_xml()
        s3.update(replace(stored, legal_hold=status))
    return {}


@operation("GetObjectLegalHold")
def get_object_legal_hold(
    s3: S3, call: Call, request: GetObjectLegalHoldInput
) -> GetObjectLegalHoldOutput:
    """Return whether a version's legal hold is on. Source: API_GetObjectLegalHold."""
    stored = _find_lockable(s3, request)
    if not stored.legal_hold:
        raise locks.no_lock()
    return {"LegalHold": {"Status": stored.legal_hold}}


@operation("RestoreObject")
def restore_object(s3: S3, call: Call, request: RestoreObjectInput) -> RestoreObjectOutput:
    """Make an archived object readable for some days; it is readable at once. Source: API_RestoreObject."""
    with s3.files.lock:
        stored = find_object_or_marker(s3, request)
        if stored.storage_class not in ARCHIVES:
            raise AwsError(
                "InvalidObjectState",
                "Restore is not allowed for the object's current storage class",
                403,
                {"StorageClass": stored.storage_class},
            )
        days = int((request.get("RestoreRequest") or {}).get("Days") or 0)
        # AWS does not document its limit; a hundred years is longer than anyone needs.
        if not 1 <= days <= 36_500:
            raise build_malformed_xml()
        was_restored = bool(stored.restored_until)
        # AWS rounds up to the next midnight.
        until = moment(call.now_ms) + timedelta(days=days + 1)
        until = until.replace(hour=0, minute=0, second=0, microsecond=0)
        s3.update(replace(stored, restored_until=format_datetime(until, usegmt=True)))
        if not was_restored:
            holder = s3.bucket(stored.bucket)
            glacier = {
                "storage_class": stored.storage_class,
                "expiry": until.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            }
            asked = ObjectEvent.of(RESTORE_ASKED, stored, holder)
            s3.notifications.keep(asked, holder)
            done = replace(ObjectEvent.of(RESTORED, stored, holder), glacier=glacier)
            s3.notifications.keep(done, holder)
    # Documented: 202 the first time; 200 when a restored copy exists already and its expiry date changes.
    return cast("RestoreObjectOutput", EmptyAnswer(200 if was_restored else 202))
