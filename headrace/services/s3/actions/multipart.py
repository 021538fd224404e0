"""The operations on multipart uploads."""

import functools
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.s3 import (
    AbortMultipartUploadInput,
    CompletedPart,
    CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput,
    CreateMultipartUploadInput,
    CreateMultipartUploadOutput,
    ListMultipartUploadsInput,
    ListMultipartUploadsOutput,
    ListPartsInput,
    ListPartsOutput,
    UploadPartCopyInput,
    UploadPartCopyOutput,
    UploadPartInput,
    UploadPartOutput,
)
from headrace.aws.shapes.s3 import Part as ListedPart
from headrace.services.s3 import checksums, encryption, errors, object_headers
from headrace.services.s3.acls import OWNER
from headrace.services.s3.actions.copy_object import find_source_object
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import invalid_request
from headrace.services.s3.files import compute_file_md5, copy_file
from headrace.services.s3.notifications import CREATED_MULTIPART
from headrace.services.s3.object_headers import build_object_fields, build_parameter_fields
from headrace.services.s3.routing import check_key
from headrace.services.s3.state import (
    NULL_VERSION,
    EncryptionMembers,
    ObjectFields,
    Part,
    StoredObject,
    Upload,
)


def _convert_time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


@operation("CreateMultipartUpload")
def create_multipart_upload(
    s3: S3, call: Call, request: CreateMultipartUploadInput
) -> CreateMultipartUploadOutput:
    """Start a multipart upload. Source: API_CreateMultipartUpload."""
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    described = build_object_fields(s3.bucket(request["Bucket"]), request, s3.keys, call.now_ms)
    params = {
        "described": described,
        "Owner": OWNER,
        **checksums.read_new_upload(request),
    }
    upload = s3.uploads.create(request["Bucket"], request["Key"], params)
    answer = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        **encryption.render_members(upload.encryption),
        **_render_checksum(upload),
    }
    return cast("CreateMultipartUploadOutput", answer)


def _render_checksum(upload: Upload) -> dict[str, str]:
    names = ("ChecksumAlgorithm", "ChecksumType")
    return {name: upload.params[name] for name in names if upload.params.get(name)}


@operation("UploadPart")
def upload_part(s3: S3, call: Call, request: UploadPartInput) -> UploadPartOutput:
    """Store a part whose body is in memory; `fast_path` handles UploadPart over HTTP. Source: API_UploadPart."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    body = Body(request.get("Body", b""))
    etag, shown = s3.write_part(upload, int(request["PartNumber"]), body, request)
    answer = {"ETag": f'"{etag}"', **shown, **encryption.render_members(upload.encryption)}
    return cast("UploadPartOutput", answer)


@operation("UploadPartCopy")
def upload_part_copy(s3: S3, call: Call, request: UploadPartCopyInput) -> UploadPartCopyOutput:
    """Store a copy of an object, or of a range of it, as a part. Source: API_UploadPartCopy."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    source = find_source_object(s3, request, call.now_ms)
    first, length = object_headers.parse_copied_range(
        request.get("CopySourceRange"), source.size_bytes
    )
    temporary = s3.files.temporary()
    try:
        copy_file(source.path, temporary, first, length)
        etag = compute_file_md5(temporary)
        name = upload.checksum
        kept = {name: checksums.compute(name, Body(file=temporary))} if name else {}
        added = s3.uploads.add_part(upload, int(request["PartNumber"]), temporary, etag, kept)
    finally:
        temporary.unlink(missing_ok=True)
    result = {"ETag": f'"{etag}"', "LastModified": _convert_time(added.uploaded_ms), **kept}
    answer: dict[str, Any] = {
        "CopyPartResult": result,
        **encryption.render_members(upload.encryption),
    }
    if source.version_id != NULL_VERSION:
        answer["CopySourceVersionId"] = source.version_id
    return cast("UploadPartCopyOutput", answer)


@operation("CompleteMultipartUpload")
def complete_multipart_upload(
    s3: S3, call: Call, request: CompleteMultipartUploadInput
) -> CompleteMultipartUploadOutput:
    """Join the parts into the object. Source: API_CompleteMultipartUpload."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    parts = _choose_parts(s3, upload, request.get("MultipartUpload", {}).get("Parts") or [])
    size_bytes = sum(part.size_bytes for part in parts)
    checksums.check_completion(upload, cast("Mapping[str, Any]", request), size_bytes)
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    temporary = s3.files.temporary()
    try:
        for part in parts:
            copy_file(part.path, temporary, 0, part.size_bytes)
        stored = StoredObject(
            bucket=upload.bucket,
            key=upload.key,
            path=temporary,
            size_bytes=size_bytes,
            etag=etag,
            last_modified_ms=call.now_ms,
            mtime_ns=0,
            parts=len(parts),
            part_sizes=tuple(part.size_bytes for part in parts),
            **checksums.check_whole(upload, parts, temporary, cast("Mapping[str, Any]", request)),
            **_build_object_fields(upload),
        )
        stored = s3.publish(
            temporary,
            stored,
            request,
            event=CREATED_MULTIPART,
            disturbed=s3.uploads.is_disturbed(upload),
        )
    finally:
        temporary.unlink(missing_ok=True)
    s3.uploads.remove(upload)
    answer = {
        "Location": f"/{upload.bucket}/{upload.key}",
        "Bucket": upload.bucket,
        "Key": upload.key,
        "ETag": f'"{etag}"',
        **_remove_customer_key(encryption.render_members(stored.encryption)),
        **_render_completion_checksums(upload, stored),
    }
    if s3.bucket(stored.bucket).versioning == "Enabled":
        answer["VersionId"] = stored.version_id
    return cast("CompleteMultipartUploadOutput", answer)


def _render_completion_checksums(upload: Upload, stored: StoredObject) -> dict[str, str]:
    """Return the checksum members of CompleteMultipartUpload's response.

    An object with SSE-KMS or SSE-C encryption shows a checksum only if the upload asked for one (observed in AWS's
    recorded answers: test_s3_multipart_upload_sse, test_multipart_upload_sse_c).
    """
    if not stored.checksums or (stored.encryption and not upload.params.get("ChecksumAlgorithm")):
        return {}
    return {**stored.checksums, "ChecksumType": stored.checksum_type}


def _remove_customer_key(members: EncryptionMembers) -> EncryptionMembers:
    """Return the members without those of a customer-provided key, which CompleteMultipartUpload does not return."""
    shown = {name: value for name, value in members.items() if not name.startswith("SSECustomer")}
    return cast("EncryptionMembers", shown)


def _build_object_fields(upload: Upload) -> ObjectFields:
    """Return the fields of the object from CreateMultipartUpload; uploads of older versions store its parameters."""
    fields = upload.params.get("described")
    return (
        cast("ObjectFields", dict(fields))
        if fields is not None
        else build_parameter_fields(upload.params)
    )


def _choose_parts(s3: S3, upload: Upload, requested: list[CompletedPart]) -> list[Part]:
    numbers = [int(part.get("PartNumber") or 0) for part in requested]
    if not requested:
        raise invalid_request("You must specify at least one part")
    if not all(numbers):
        raise build_malformed_xml()
    if numbers != sorted(set(numbers)):
        raise AwsError(
            "InvalidPartOrder",
            "The list of parts was not in ascending order. Parts must be ordered by part number.",
            400,
            {"UploadId": upload.upload_id},
        )
    present = s3.uploads.parts(upload)
    chosen: list[Part] = []
    for number, part in zip(numbers, requested, strict=True):
        part_present = present.get(number)
        if part_present is None or not _is_the_part(upload, part, part_present):
            raise AwsError(
                "InvalidPart",
                "One or more of the specified parts could not be found.  The part may not have been uploaded, or the"
                " specified entity tag may not match the part's entity tag.",
                400,
                {
                    "UploadId": upload.upload_id,
                    "PartNumber": str(number),
                    "ETag": part.get("ETag", "").strip('"'),
                },
            )
        chosen.append(part_present)
    for part in chosen[:-1]:
        if part.size_bytes < errors.MIN_PART_BYTES:
            raise AwsError(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                400,
                {
                    "ProposedSize": str(part.size_bytes),
                    "MinSizeAllowed": str(errors.MIN_PART_BYTES),
                    "PartNumber": str(part.number),
                    "ETag": part.etag,
                },
            )
    return chosen


def _is_the_part(upload: Upload, requested: CompletedPart, part: Part) -> bool:
    """Whether an uploaded part has the ETag and the checksum that CompleteMultipartUpload names."""
    members = cast("Mapping[str, Any]", requested)
    has_checksum = checksums.check_part(upload, members, part)
    return has_checksum and requested.get("ETag", "").strip('"') == part.etag


@operation("AbortMultipartUpload")
def abort_multipart_upload(s3: S3, call: Call, request: AbortMultipartUploadInput) -> None:
    """Delete an upload and its parts. Source: API_AbortMultipartUpload."""
    s3.bucket(request["Bucket"])
    s3.uploads.remove(s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"]))


@operation("ListParts")
def list_parts(s3: S3, call: Call, request: ListPartsInput) -> ListPartsOutput:
    """Return a page of an upload's parts. Source: API_ListParts."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    after = int(request.get("PartNumberMarker") or 0)
    limit = min(int(request.get("MaxParts") or errors.LIST_PARTS), errors.LIST_PARTS)
    parts = [part for part in s3.uploads.parts(upload).values() if part.number > after]
    answer: dict[str, Any] = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        "PartNumberMarker": after,
        "MaxParts": limit,
        "IsTruncated": len(parts) > limit,
        "NextPartNumberMarker": parts[:limit][-1].number if parts[:limit] else 0,
        "StorageClass": _find_storage_class(upload),
        "Owner": OWNER,
        "Initiator": OWNER,
        **_render_checksum(upload),
    }
    if parts[:limit]:
        answer["Parts"] = [_render_part(part) for part in parts[:limit]]
    return cast("ListPartsOutput", answer)


def _find_storage_class(upload: Upload) -> str:
    return str(_build_object_fields(upload)["storage_class"])


def _render_part(part: Part) -> ListedPart:
    listed = {
        "PartNumber": part.number,
        "ETag": f'"{part.etag}"',
        "Size": part.size_bytes,
        "LastModified": _convert_time(part.uploaded_ms),
        **part.checksums,
    }
    return cast("ListedPart", listed)


@operation("ListMultipartUploads")
def list_multipart_uploads(
    s3: S3, call: Call, request: ListMultipartUploadsInput
) -> ListMultipartUploadsOutput:
    """Return a page of a bucket's uploads, sorted by key. Source: API_ListMultipartUploads."""
    s3.bucket(request["Bucket"])
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    after = (request.get("KeyMarker") or "", request.get("UploadIdMarker") or "")
    limit = min(int(request.get("MaxUploads") or errors.LIST_UPLOADS), errors.LIST_UPLOADS)
    uploads: list[Upload] = []
    rolled: set[str] = set()
    for upload in s3.uploads.list(request["Bucket"], prefix):
        if not _is_after(upload, *after):
            continue
        head, is_rolled, _ = upload.key[len(prefix) :].partition(delimiter or "\0\0")
        if delimiter and is_rolled:
            rolled.add(prefix + head + delimiter)
        else:
            uploads.append(upload)
    page = uploads[:limit]
    encode = functools.partial(quote, safe="/") if request.get("EncodingType") else str
    answer: dict[str, Any] = {
        "Bucket": request["Bucket"],
        "IsTruncated": len(uploads) > limit,
        "MaxUploads": limit,
        "Uploads": [
            {
                "Key": encode(upload.key),
                "UploadId": upload.upload_id,
                "Initiated": _convert_time(upload.initiated_ms),
                "StorageClass": _find_storage_class(upload),
                "Owner": OWNER,
                "Initiator": OWNER,
                **_render_checksum(upload),
            }
            for upload in page
        ],
        "KeyMarker": encode(request.get("KeyMarker") or ""),
        "UploadIdMarker": request.get("UploadIdMarker") or "",
        "NextKeyMarker": encode(page[-1].key) if page else "",
        "NextUploadIdMarker": page[-1].upload_id if page else "",
    }
    if not page:
        del answer["Uploads"]
    if rolled:
        answer["CommonPrefixes"] = [{"Prefix": encode(name)} for name in sorted(rolled)]
    members = cast("Mapping[str, Any]", request)
    for name in ("Prefix", "Delimiter"):
        if members.get(name):
            answer[name] = encode(members[name])
    if members.get("EncodingType"):
        answer["EncodingType"] = members["EncodingType"]
    return cast("ListMultipartUploadsOutput", answer)


def _is_after(upload: Upload, key: str, upload_id: str) -> bool:
    return upload.key > key or (
        upload.key == key and bool(upload_id) and upload.upload_id > upload_id
    )
