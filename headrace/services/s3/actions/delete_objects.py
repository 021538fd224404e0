"""DeleteObject and DeleteObjects."""

from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.services.s3 import limits
from headrace.services.s3.backend import S3
from headrace.services.s3.errors import invalid_version, malformed_xml, precondition_failed
from headrace.services.s3.names import check_key


@operation("DeleteObject")
def delete_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
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
def delete_objects(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Delete up to 1,000 objects. Source: API_DeleteObjects."""
    s3.bucket(request["Bucket"])
    wanted: list[dict[str, str]] = request["Delete"].get("Objects") or []
    if not 0 < len(wanted) <= limits.DELETE_KEYS:
        raise malformed_xml()
    if not all(item.get("Key") for item in wanted):
        raise malformed_xml()
    deleted: list[dict[str, str]] = []
    errors: list[dict[str, str]] = []
    for item in wanted:
        entry: dict[str, str] = {"Key": item["Key"]}
        if item.get("VersionId"):
            entry["VersionId"] = item["VersionId"]
        try:
            _check_version(item.get("VersionId"))
            check_key(item["Key"])
        except AwsError as error:
            errors.append({**entry, "Code": error.code, "Message": error.message})
            continue
        s3.remove(request["Bucket"], item["Key"])
        deleted.append(entry)
    quiet = request["Delete"].get("Quiet") in (True, "true")
    answer = {} if quiet or not deleted else {"Deleted": deleted}
    return {**answer, "Errors": errors} if errors else answer


def _check_version(version_id: str | None) -> None:
    """Raise InvalidArgument for another version than the one that every object has."""
    if version_id not in (None, "", "null"):
        raise invalid_version(version_id or "")
