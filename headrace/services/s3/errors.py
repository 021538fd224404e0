"""S3's errors, with AWS's codes and words."""

from __future__ import annotations

from email.utils import format_datetime

from headrace.aws.errors import AwsError
from headrace.core.ports import BucketNotFound, ObjectNotFound
from headrace.core.values import moment
from headrace.services.s3 import limits
from headrace.services.s3.state import Marker


def no_such_bucket(name: str) -> AwsError:
    """There is no bucket of that name."""
    return AwsError(
        "NoSuchBucket", "The specified bucket does not exist", 404, {"BucketName": name}
    )


def no_such_key(key: str) -> AwsError:
    """There is no object under that key."""
    return AwsError("NoSuchKey", "The specified key does not exist.", 404, {"Key": key})


def no_such_upload(upload_id: str) -> AwsError:
    """There is no multipart upload of that id."""
    return AwsError(
        "NoSuchUpload",
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or"
        " completed.",
        404,
        {"UploadId": upload_id},
    )


def precondition_failed(condition: str) -> AwsError:
    """An If-* header was not met."""
    return AwsError(
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold",
        412,
        {"Condition": condition},
    )


def conflict(condition: str, key: str) -> AwsError:
    """A conditional completion met another write or a deletion of its object."""
    return AwsError(
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
        409,
        {"Condition": condition, "Key": key},
    )


def invalid_argument(message: str, name: str = "", value: str = "") -> AwsError:
    """An argument that S3 refuses."""
    members = {"ArgumentName": name, "ArgumentValue": value} if name else {}
    return AwsError("InvalidArgument", message, 400, members)


def not_implemented(header: str, details: str = "") -> AwsError:
    """A header that S3 does not take for this call."""
    members = {"Header": header, **({"additionalMessage": details} if details else {})}
    return AwsError(
        "NotImplemented",
        "A header you provided implies functionality that is not implemented",
        501,
        members,
    )


def invalid_request(message: str) -> AwsError:
    """A request that contradicts itself."""
    return AwsError("InvalidRequest", message)


class ErrorWithHeaders(AwsError):
    """An error whose answer has headers of its own."""

    def __init__(self, error: AwsError, headers: list[tuple[str, str]]) -> None:
        super().__init__(error.code, error.message, error.status, error.members)
        self.headers = headers


def marked_deleted(marker: Marker) -> AwsError:
    """The newest version of the key is a delete marker."""
    headers = [("x-amz-delete-marker", "true"), ("x-amz-version-id", marker.version_id)]
    return ErrorWithHeaders(no_such_key(marker.key), headers)


def is_marker(marker: Marker, method: str = "GET") -> AwsError:
    """The version that is asked for is a delete marker, which can only be deleted."""
    modified = moment(marker.last_modified_ms)
    headers = [
        ("x-amz-delete-marker", "true"),
        ("x-amz-version-id", marker.version_id),
        ("Allow", "DELETE"),
        ("Last-Modified", format_datetime(modified.replace(microsecond=0), usegmt=True)),
    ]
    return ErrorWithHeaders(not_allowed(method, "DeleteMarker"), headers)


def not_allowed(method: str, resource_type: str) -> AwsError:
    """The method is not one for that kind of resource."""
    return AwsError(
        "MethodNotAllowed",
        "The specified method is not allowed against this resource.",
        405,
        {"Method": method, "ResourceType": resource_type},
    )


def no_such_version(key: str, version_id: str) -> AwsError:
    """There is no version of that id."""
    members = {"Key": key, "VersionId": version_id}
    return AwsError("NoSuchVersion", "The specified version does not exist.", 404, members)


def invalid_version(version_id: str) -> AwsError:
    """A version id that S3 never made."""
    return invalid_argument("Invalid version id specified", "versionId", version_id)


def bad_digest(what: str) -> AwsError:
    """The body is not what its checksum says."""
    return AwsError("BadDigest", f"The {what} you specified did not match the calculated checksum.")


def invalid_bucket_name(name: str) -> AwsError:
    """The name breaks S3's rules."""
    return AwsError(
        "InvalidBucketName", "The specified bucket is not valid.", 400, {"BucketName": name}
    )


def key_too_long(key: str) -> AwsError:
    """The key is over 1,024 bytes."""
    return AwsError(
        "KeyTooLongError",
        "Your key is too long",
        400,
        {"Size": str(len(key.encode())), "MaxSizeAllowed": str(limits.KEY_BYTES)},
    )


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for a missing bucket, a missing object or a failed disk; None for any other error."""
    if isinstance(error, BucketNotFound):
        return no_such_bucket(str(error))
    if isinstance(error, ObjectNotFound):
        return no_such_key(str(error))
    if isinstance(error, OSError):
        return AwsError("InternalError", f"We encountered an internal error: {error.strerror}", 500)
    return None
