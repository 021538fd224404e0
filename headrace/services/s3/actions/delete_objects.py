"""DeleteObject and DeleteObjects."""

from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.services.s3.errors import precondition_failed
from headrace.services.s3.service import S3

MOST_AT_ONCE = 1000


@operation("DeleteObject")
def delete_object(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Delete an object; a missing one is no error. Source: API_DeleteObject."""
    s3.bucket(request["Bucket"])
    with s3.files.lock:
        match = request.get("IfMatch")
        if match is not None and match != "*":
            present = s3.files.find(request["Bucket"], request["Key"])
            if present is None or present.etag != match.strip('"'):
                raise precondition_failed("If-Match")
        s3.files.remove(request["Bucket"], request["Key"])
    return {}


@operation("DeleteObjects")
def delete_objects(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Delete up to 1,000 objects. Source: API_DeleteObjects."""
    s3.bucket(request["Bucket"])
    wanted = request["Delete"].get("Objects") or []
    if not 0 < len(wanted) <= MOST_AT_ONCE:
        raise AwsError(
            "MalformedXML",
            "The XML you provided was not well-formed or did not validate against our published schema",
        )
    deleted: list[dict[str, str]] = []
    for item in wanted:
        s3.files.remove(request["Bucket"], item["Key"])
        entry = {"Key": item["Key"]}
        if item.get("VersionId"):
            entry["VersionId"] = item["VersionId"]
        deleted.append(entry)
    quiet = request["Delete"].get("Quiet") in (True, "true")
    return {} if quiet else {"Deleted": deleted}
