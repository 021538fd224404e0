"""S3's errors, with AWS's codes and messages, and its quotas.

Sources of the quotas (documented, read 2026): docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html (multipart),
object-keys.html, UsingMetadata.html, object-tagging.html, and the API reference of each listing.
"""

from __future__ import annotations

import re
from email.utils import format_datetime

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import BucketNotFound, ObjectNotFound
from headrace.core.values import moment
from headrace.services.s3.state import Marker

KEY_BYTES = 1024
PUT_BYTES = 5 * 1024**3
# How much of an object a service of this cloud may have in memory: headrace's own limit. Clients get slices of files.
HELD_BYTES = 64 * 1024**2
METADATA_BYTES = 2048
TAGS_PER_OBJECT = 10
TAGS_PER_BUCKET = 50
TAG_KEY_CHARS = 128
TAG_VALUE_CHARS = 256
MIN_PART_BYTES = 5 * 1024**2
PART_NUMBER = 10_000
LIST_KEYS = 1000
LIST_PARTS = 1000
LIST_UPLOADS = 1000
LIST_BUCKETS = 10_000
DELETE_KEYS = 1000
# The rules in a bucket's CORS configuration. Source: API_PutBucketCors.
CORS_RULES = 100
# The body of a document, such as a lifecycle configuration. Assumed: S3 does not document it.
XML_BYTES = 2 * 1024**2
# The fields before the file in a browser's form, their names too (documented: RESTObjectPOST).
POST_FIELDS_BYTES = 20 * 1024
# How many configurations of each kind with an Id a bucket may have (documented: TooManyConfigurations), and how many of
# them a page has (documented: API_List...).
LISTED_CONFIGURATIONS = 1000
LISTED_CONFIGURATIONS_PAGE = 100


def no_such_bucket(name: str) -> AwsError:
    """No bucket has this name, or it is an access point's, whose requests headrace does not take."""
    if name.startswith("arn:") or name.endswith(("-s3alias", "--ol-s3")):
        return access_point_refused(name)
    return AwsError(
        "NoSuchBucket", "The specified bucket does not exist", 404, {"BucketName": name}
    )


def access_point_refused(name: str) -> AwsError:
    """A request names an access point."""
    return AwsError("NotImplemented", _instead_of_point(name), 501)


def no_such_bucket_or_point(name: str) -> AwsError:
    """No bucket has the name in a host, where SDKs write an access point as `NAME-ACCOUNT`."""
    error = no_such_bucket(name)
    if error.code == "NoSuchBucket" and _POINT_OF_ACCOUNT.fullmatch(name):
        error.message += f". {_instead_of_point(name)}"
    return error


_POINT_OF_ACCOUNT = re.compile(r".+-\d{12}")


def _instead_of_point(name: str) -> str:
    return f"headrace takes no requests by access points: name the bucket instead of {name}."


def no_such_key(key: str) -> AwsError:
    """No object has this key."""
    return AwsError("NoSuchKey", "The specified key does not exist.", 404, {"Key": key})


def no_such_upload(upload_id: str) -> AwsError:
    """No multipart upload has this id."""
    return AwsError(
        "NoSuchUpload",
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or"
        " completed.",
        404,
        {"UploadId": upload_id},
    )


def precondition_failed(condition: str) -> AwsError:
    """The condition in an If-* header does not hold."""
    return AwsError(
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold",
        412,
        {"Condition": condition},
    )


def conflict(condition: str, key: str) -> AwsError:
    """The object was written or deleted during a multipart upload whose completion has a condition."""
    return AwsError(
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
        409,
        {"Condition": condition, "Key": key},
    )


def invalid_argument(message: str, name: str = "", value: str = "") -> AwsError:
    """S3 refuses the value of an argument."""
    members = {"ArgumentName": name, "ArgumentValue": value} if name else {}
    return AwsError("InvalidArgument", message, 400, members)


def not_implemented(header: str, details: str = "") -> AwsError:
    """S3 does not accept this header for the operation."""
    members = {"Header": header, **({"additionalMessage": details} if details else {})}
    return AwsError(
        "NotImplemented",
        "A header you provided implies functionality that is not implemented",
        501,
        members,
    )


def invalid_request(message: str) -> AwsError:
    """The parameters of the request contradict each other."""
    return AwsError("InvalidRequest", message)


class ErrorWithHeaders(AwsError):
    """An error whose response has additional headers."""

    def __init__(self, error: AwsError, headers: list[tuple[str, str]]) -> None:
        super().__init__(error.code, error.message, error.status, error.members)
        self.headers = headers


def build_marker_error(marker: Marker) -> AwsError:
    """The newest version of the key is a delete marker."""
    headers = [("x-amz-delete-marker", "true"), ("x-amz-version-id", marker.version_id)]
    return ErrorWithHeaders(no_such_key(marker.key), headers)


def is_marker(marker: Marker, method: str = "GET") -> AwsError:
    """The requested version is a delete marker; the only operation on it is DeleteObject."""
    modified = moment(marker.last_modified_ms)
    headers = [
        ("x-amz-delete-marker", "true"),
        ("x-amz-version-id", marker.version_id),
        ("Allow", "DELETE"),
        ("Last-Modified", format_datetime(modified.replace(microsecond=0), usegmt=True)),
    ]
    return ErrorWithHeaders(not_allowed(method, "DeleteMarker"), headers)


def not_allowed(method: str, resource_type: str) -> AwsError:
    """This kind of resource does not support the method."""
    return AwsError(
        "MethodNotAllowed",
        "The specified method is not allowed against this resource.",
        405,
        {"Method": method, "ResourceType": resource_type},
    )


def too_large_to_hold() -> AwsError:
    """A service of this cloud asks for more of an object than may be in memory; AWS has no such error."""
    message = f"headrace's services read at most {HELD_BYTES} bytes of an object"
    return AwsError("EntityTooLarge", message)


def no_such_version(key: str, version_id: str) -> AwsError:
    """No version has this id."""
    members = {"Key": key, "VersionId": version_id}
    return AwsError("NoSuchVersion", "The specified version does not exist.", 404, members)


def invalid_version(version_id: str) -> AwsError:
    """The version id is not one that S3 makes."""
    return invalid_argument("Invalid version id specified", "versionId", version_id)


def bad_digest(what: str) -> AwsError:
    """The body does not match the checksum in the request."""
    return AwsError("BadDigest", f"The {what} you specified did not match the calculated checksum.")


def invalid_bucket_name(name: str) -> AwsError:
    """The name breaks S3's bucket naming rules."""
    return AwsError(
        "InvalidBucketName", "The specified bucket is not valid.", 400, {"BucketName": name}
    )


def key_too_long(key: str) -> AwsError:
    """The key is longer than 1,024 bytes."""
    return AwsError(
        "KeyTooLongError",
        "Your key is too long",
        400,
        {"Size": str(len(key.encode())), "MaxSizeAllowed": str(KEY_BYTES)},
    )


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for a missing bucket, a missing object or a disk error, or None for any other error."""
    if isinstance(error, BucketNotFound):
        return no_such_bucket(str(error))
    if isinstance(error, ObjectNotFound):
        return no_such_key(str(error))
    if isinstance(error, OSError):
        return AwsError("InternalError", f"We encountered an internal error: {error.strerror}", 500)
    return None
