"""DeleteObject and DeleteObjects."""

from typing import cast

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.aws.shapes.s3 import (
    DeletedObject,
    DeleteObjectInput,
    DeleteObjectOutput,
    DeleteObjectsInput,
    DeleteObjectsOutput,
    Error,
)
from headrace.services.s3 import limits
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_version, malformed_xml, precondition_failed
from headrace.services.s3.names import check_key


@operation("DeleteObject")
def delete_object(s3: S3, call: Call, request: DeleteObjectInput) -> DeleteObjectOutput:
    """Delete an object; a missing one is no error. Source: API_DeleteObject."""
    s3.bucket(request["Bucket"])
    _check_version(request.get("VersionId"))
    with s3.files.lock:
        match = request.get("IfMatch")
        if match is not None and match != "*":
            present = s3.files.find(request["Bucket"], request["Key"])
            if present is None or present.etag != match.strip('"'):
                raise precondition_failed("If-Match")
        s3.remove(request["Bucket"], request["Key"])
    return {}


@operation("DeleteObjects")
def delete_objects(s3: S3, call: Call, request: DeleteObjectsInput) -> DeleteObjectsOutput:
    """Delete up to 1,000 objects. Source: API_DeleteObjects."""
    s3.bucket(request["Bucket"])
    wanted = request["Delete"].get("Objects") or []
    if not 0 < len(wanted) <= limits.DELETE_KEYS:
        raise malformed_xml()
    if not all(item.get("Key") for item in wanted):
        raise malformed_xml()
    deleted: list[DeletedObject] = []
    errors: list[Error] = []
    for item in wanted:
        version_id = item.get("VersionId")
        entry: DeletedObject = {"Key": item["Key"]}
        if version_id:
            entry["VersionId"] = version_id
        try:
            _check_version(version_id)
            check_key(item["Key"])
        except AwsError as error:
            refused = {**entry, "Code": error.code, "Message": error.message}
            errors.append(cast("Error", refused))
            continue
        s3.remove(request["Bucket"], item["Key"])
        deleted.append(entry)
    quiet = request["Delete"].get("Quiet") in (True, "true")
    answer: DeleteObjectsOutput = {} if quiet or not deleted else {"Deleted": deleted}
    if errors:
        answer["Errors"] = errors
    return answer


def _check_version(version_id: str | None) -> None:
    """Refuse versions other than `null`, the only one of every object. Raises InvalidArgument."""
    if version_id not in (None, "", "null"):
        raise invalid_version(version_id or "")
