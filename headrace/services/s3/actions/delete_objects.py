"""DeleteObject and DeleteObjects."""

from typing import cast

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    DeletedObject,
    DeleteObjectInput,
    DeleteObjectOutput,
    DeleteObjectsInput,
    DeleteObjectsOutput,
    Error,
    ObjectIdentifier,
)
from headrace.services.s3 import encryption, limits, locks
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import (
    no_such_version,
    not_implemented,
    precondition_failed,
)
from headrace.services.s3.history import check_version_id, is_version_id
from headrace.services.s3.routing import check_key
from headrace.services.s3.state import Marker


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
    if not 0 < len(objects) <= limits.DELETE_KEYS:
        raise malformed_xml()
    if not all(item.get("Key") for item in objects):
        raise malformed_xml()
    deleted: list[DeletedObject] = []
    errors: list[Error] = []
    for item in objects:
        try:
            deleted.append(
                _delete_one(s3, request["Bucket"], item, bypass=encryption.is_true(bypass))
            )
        except AwsError as error:
            refused = {**item, "Code": error.code, "Message": error.message}
            errors.append(cast("Error", refused))
    quiet = request["Delete"].get("Quiet") in (True, "true")
    answer: DeleteObjectsOutput = {} if quiet or not deleted else {"Deleted": deleted}
    if errors:
        answer["Errors"] = errors
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
