"""Multipart uploads."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
from headrace.services.s3 import reads
from headrace.services.s3.actions.copy_object import source_object
from headrace.services.s3.files import DEFAULT_CONTENT_TYPE, StoredObject, md5_of_file
from headrace.services.s3.service import S3
from headrace.services.s3.uploads import Part, Upload
from headrace.services.s3.writes import KEPT_HEADERS, check_key, copy_file, publish_if

MIN_PART_BYTES = 5 * 1024 * 1024
MOST_PARTS_LISTED = 1000


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


@operation("CreateMultipartUpload")
def create_multipart_upload(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Begin an upload. Source: API_CreateMultipartUpload."""
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    kept = ("ContentType", "Metadata", "ChecksumAlgorithm", *KEPT_HEADERS)
    params = {name: request[name] for name in kept if request.get(name)}
    upload = s3.uploads.create(request["Bucket"], request["Key"], params)
    answer: dict[str, Any] = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        "ServerSideEncryption": "AES256",
    }
    if "ChecksumAlgorithm" in params:
        answer["ChecksumAlgorithm"] = params["ChecksumAlgorithm"]
    return answer


@operation("UploadPart")
def upload_part(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Store a part from a body in memory; over HTTP see `raw`. Source: API_UploadPart."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    temporary = s3.files.write_temporary(request.get("Body", b""))
    etag = md5_of_file(temporary)
    s3.uploads.add_part(upload, int(request["PartNumber"]), temporary, etag, {})
    return {"ETag": f'"{etag}"'}


@operation("UploadPartCopy")
def upload_part_copy(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Store a part from an object. Source: API_UploadPartCopy."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    source = source_object(s3, request)
    part = reads.range_of(request.get("CopySourceRange"), source.size_bytes)
    first, length = part or (0, source.size_bytes)
    temporary = s3.files.temporary()
    copy_file(source.path, temporary, first, length)
    etag = md5_of_file(temporary)
    added = s3.uploads.add_part(upload, int(request["PartNumber"]), temporary, etag, {})
    return {"CopyPartResult": {"ETag": f'"{etag}"', "LastModified": _time(added.uploaded_ms)}}


@operation("CompleteMultipartUpload")
def complete_multipart_upload(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Join the parts into the object. Source: API_CompleteMultipartUpload."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    parts = _chosen(s3, upload, request.get("MultipartUpload", {}).get("Parts") or [])
    temporary = s3.files.temporary()
    for part in parts:
        copy_file(part.path, temporary, 0, part.size_bytes)
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    stored = StoredObject(
        bucket=upload.bucket,
        key=upload.key,
        path=temporary,
        size_bytes=sum(part.size_bytes for part in parts),
        etag=etag,
        last_modified_ms=call.now_ms,
        mtime_ns=0,
        content_type=upload.params.get("ContentType") or DEFAULT_CONTENT_TYPE,
        headers={name: upload.params[name] for name in KEPT_HEADERS if name in upload.params},
        metadata=upload.params.get("Metadata", {}),
        parts=len(parts),
    )
    publish_if(s3, temporary, stored, request)
    s3.uploads.remove(upload)
    return {
        "Location": f"/{upload.bucket}/{upload.key}",
        "Bucket": upload.bucket,
        "Key": upload.key,
        "ETag": f'"{etag}"',
        "ServerSideEncryption": "AES256",
    }


def _chosen(s3: S3, upload: Upload, wanted: list[dict[str, Any]]) -> list[Part]:
    if not wanted:
        raise AwsError(
            "MalformedXML",
            "The XML you provided was not well-formed or did not validate against our published schema",
        )
    numbers = [int(part["PartNumber"]) for part in wanted]
    if numbers != sorted(set(numbers)):
        raise AwsError(
            "InvalidPartOrder",
            "The list of parts was not in ascending order. Parts must be ordered by part number.",
            400,
            {"UploadId": upload.upload_id},
        )
    present = s3.uploads.parts(upload)
    chosen: list[Part] = []
    for part in wanted:
        found = present.get(int(part["PartNumber"]))
        if found is None or part.get("ETag", "").strip('"') != found.etag:
            raise AwsError(
                "InvalidPart",
                "One or more of the specified parts could not be found.  The part may not have been uploaded, or the"
                " specified entity tag may not match the part's entity tag.",
                400,
                {"UploadId": upload.upload_id, "PartNumber": str(part["PartNumber"])},
            )
        chosen.append(found)
    if any(part.size_bytes < MIN_PART_BYTES for part in chosen[:-1]):
        raise AwsError(
            "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size"
        )
    return chosen


@operation("AbortMultipartUpload")
def abort_multipart_upload(s3: S3, call: Call, request: dict[str, Any]) -> None:
    """Throw an upload away. Source: API_AbortMultipartUpload."""
    s3.bucket(request["Bucket"])
    s3.uploads.remove(s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"]))


@operation("ListParts")
def list_parts(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return a page of an upload's parts. Source: API_ListParts."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    after = int(request.get("PartNumberMarker") or 0)
    limit = min(int(request.get("MaxParts") or MOST_PARTS_LISTED), MOST_PARTS_LISTED)
    parts = [part for part in s3.uploads.parts(upload).values() if part.number > after]
    answer: dict[str, Any] = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        "PartNumberMarker": after,
        "MaxParts": limit,
        "IsTruncated": len(parts) > limit,
        "StorageClass": "STANDARD",
        "Parts": [
            {
                "PartNumber": part.number,
                "ETag": f'"{part.etag}"',
                "Size": part.size_bytes,
                "LastModified": _time(part.uploaded_ms),
                **part.checksums,
            }
            for part in parts[:limit]
        ],
    }
    if len(parts) > limit:
        answer["NextPartNumberMarker"] = parts[limit - 1].number
    return answer


@operation("ListMultipartUploads")
def list_multipart_uploads(s3: S3, call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return a bucket's uploads. Source: API_ListMultipartUploads."""
    s3.bucket(request["Bucket"])
    uploads = s3.uploads.list(request["Bucket"], request.get("Prefix") or "")
    return {
        "Bucket": request["Bucket"],
        "IsTruncated": False,
        "MaxUploads": MOST_PARTS_LISTED,
        "Uploads": [
            {
                "Key": upload.key,
                "UploadId": upload.upload_id,
                "Initiated": _time(upload.initiated_ms),
                "StorageClass": "STANDARD",
            }
            for upload in uploads
        ],
    }
