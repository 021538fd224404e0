"""The actions of multipart uploads."""

import functools
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from headrace.aws.errors import AwsError
from headrace.aws.operation import Call, operation
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
from headrace.services.s3 import checksums, limits, reads
from headrace.services.s3.actions.copy_object import source_object
from headrace.services.s3.backend import S3
from headrace.services.s3.checksums import CHECKSUMS, COMPUTABLE, Body
from headrace.services.s3.errors import malformed_xml
from headrace.services.s3.files import copy_file, md5_of_file
from headrace.services.s3.names import check_key
from headrace.services.s3.notifications import CREATED_MULTIPART
from headrace.services.s3.state import NULL_VERSION, Part, StoredObject, Upload
from headrace.services.s3.writes import KEPT_HEADERS, described_by

_KEPT = ("ContentType", "Metadata", "Tagging", "ChecksumAlgorithm", "ChecksumType", *KEPT_HEADERS)


def _time(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


@operation("CreateMultipartUpload")
def create_multipart_upload(
    s3: S3, call: Call, request: CreateMultipartUploadInput
) -> CreateMultipartUploadOutput:
    """Begin an upload. Source: API_CreateMultipartUpload."""
    s3.bucket(request["Bucket"])
    check_key(request["Key"])
    described_by(request)  # refuses what the object could not keep
    params = {name: value for name, value in request.items() if name in _KEPT and value}
    upload = s3.uploads.create(request["Bucket"], request["Key"], params)
    answer: CreateMultipartUploadOutput = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        "ServerSideEncryption": "AES256",
    }
    algorithm = request.get("ChecksumAlgorithm")
    if algorithm:
        answer["ChecksumAlgorithm"] = algorithm
        answer["ChecksumType"] = request.get("ChecksumType") or "COMPOSITE"
    return answer


@operation("UploadPart")
def upload_part(s3: S3, call: Call, request: UploadPartInput) -> UploadPartOutput:
    """Store a part from a body in memory; over HTTP see `raw`. Source: API_UploadPart."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    body = Body(request.get("Body", b""))
    verified = checksums.verify(body, request)
    etag, kept = verified.etag, verified.checksums
    temporary = s3.files.write_temporary(body.data)
    s3.uploads.add_part(upload, int(request["PartNumber"]), temporary, etag, kept)
    return cast("UploadPartOutput", {"ETag": f'"{etag}"', **kept})


@operation("UploadPartCopy")
def upload_part_copy(s3: S3, call: Call, request: UploadPartCopyInput) -> UploadPartCopyOutput:
    """Store a part from an object. Source: API_UploadPartCopy."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    source = source_object(s3, request)
    part = reads.range_of(request.get("CopySourceRange"), source.size_bytes)
    first, length = part or (0, source.size_bytes)
    temporary = s3.files.temporary()
    try:
        copy_file(source.path, temporary, first, length)
        etag = md5_of_file(temporary)
        name = f"Checksum{upload.params.get('ChecksumAlgorithm', '')}"
        kept = {name: checksums.compute(name, Body(file=temporary))} if name in COMPUTABLE else {}
        added = s3.uploads.add_part(upload, int(request["PartNumber"]), temporary, etag, kept)
    finally:
        temporary.unlink(missing_ok=True)
    answer: UploadPartCopyOutput = {
        "CopyPartResult": {"ETag": f'"{etag}"', "LastModified": _time(added.uploaded_ms)}
    }
    if source.version_id != NULL_VERSION:
        answer["CopySourceVersionId"] = source.version_id
    return answer


@operation("CompleteMultipartUpload")
def complete_multipart_upload(
    s3: S3, call: Call, request: CompleteMultipartUploadInput
) -> CompleteMultipartUploadOutput:
    """Join the parts into the object. Source: API_CompleteMultipartUpload."""
    s3.bucket(request["Bucket"])
    upload = s3.uploads.find(request["Bucket"], request["Key"], request["UploadId"])
    parts = _chosen(s3, upload, request.get("MultipartUpload", {}).get("Parts") or [])
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
            size_bytes=sum(part.size_bytes for part in parts),
            etag=etag,
            last_modified_ms=call.now_ms,
            mtime_ns=0,
            checksums=_whole_checksum(upload, parts, temporary),
            parts=len(parts),
            part_sizes=tuple(part.size_bytes for part in parts),
            **described_by(upload.params),
        )
        stored = s3.publish(temporary, stored, request, event=CREATED_MULTIPART)
    finally:
        temporary.unlink(missing_ok=True)
    s3.uploads.remove(upload)
    answer = {
        "Location": f"/{upload.bucket}/{upload.key}",
        "Bucket": upload.bucket,
        "Key": upload.key,
        "ETag": f'"{etag}"',
        "ServerSideEncryption": "AES256",
        **stored.checksums,
    }
    if s3.bucket(stored.bucket).versioning == "Enabled":
        answer["VersionId"] = stored.version_id
    return cast("CompleteMultipartUploadOutput", answer)


def _whole_checksum(upload: Upload, parts: list[Part], whole: Path) -> dict[str, str]:
    """Return the object's checksum of the algorithm that the upload began with, if it is computable."""
    name = f"Checksum{upload.params.get('ChecksumAlgorithm', '')}"
    if name not in COMPUTABLE:
        return {}
    if upload.params.get("ChecksumType") == "FULL_OBJECT":
        return {name: checksums.compute(name, Body(file=whole))}
    of_parts = [part.checksums.get(name) for part in parts]
    if None in of_parts:
        return {}
    return {name: checksums.composite(name, [value for value in of_parts if value])}


def _chosen(s3: S3, upload: Upload, wanted: list[CompletedPart]) -> list[Part]:
    numbers = [int(part.get("PartNumber") or 0) for part in wanted]
    if not wanted or not all(numbers):
        raise malformed_xml()
    if numbers != sorted(set(numbers)):
        raise AwsError(
            "InvalidPartOrder",
            "The list of parts was not in ascending order. Parts must be ordered by part number.",
            400,
            {"UploadId": upload.upload_id},
        )
    present = s3.uploads.parts(upload)
    chosen: list[Part] = []
    for number, part in zip(numbers, wanted, strict=True):
        found = present.get(number)
        if found is None or not _is_the_part(part, found):
            raise AwsError(
                "InvalidPart",
                "One or more of the specified parts could not be found.  The part may not have been uploaded, or the"
                " specified entity tag may not match the part's entity tag.",
                400,
                {"UploadId": upload.upload_id, "PartNumber": str(number)},
            )
        chosen.append(found)
    for part in chosen[:-1]:
        if part.size_bytes < limits.MIN_PART_BYTES:
            raise AwsError(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                400,
                {
                    "ProposedSize": str(part.size_bytes),
                    "MinSizeAllowed": str(limits.MIN_PART_BYTES),
                    "PartNumber": str(part.number),
                    "ETag": part.etag,
                },
            )
    return chosen


def _is_the_part(wanted: CompletedPart, found: Part) -> bool:
    """Whether an uploaded part has the ETag and the checksums that the completion names."""
    given = cast("Mapping[str, Any]", wanted)
    return wanted.get("ETag", "").strip('"') == found.etag and all(
        given[name] == found.checksums[name]
        for name in CHECKSUMS
        if given.get(name) and name in found.checksums
    )


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
    limit = min(int(request.get("MaxParts") or limits.LIST_PARTS), limits.LIST_PARTS)
    parts = [part for part in s3.uploads.parts(upload).values() if part.number > after]
    answer: ListPartsOutput = {
        "Bucket": upload.bucket,
        "Key": upload.key,
        "UploadId": upload.upload_id,
        "PartNumberMarker": after,
        "MaxParts": limit,
        "IsTruncated": len(parts) > limit,
        "StorageClass": "STANDARD",
        "Parts": [_listed_part(part) for part in parts[:limit]],
    }
    if len(parts) > limit:
        answer["NextPartNumberMarker"] = parts[limit - 1].number
    return answer


def _listed_part(part: Part) -> ListedPart:
    listed = {
        "PartNumber": part.number,
        "ETag": f'"{part.etag}"',
        "Size": part.size_bytes,
        "LastModified": _time(part.uploaded_ms),
        **part.checksums,
    }
    return cast("ListedPart", listed)


@operation("ListMultipartUploads")
def list_multipart_uploads(
    s3: S3, call: Call, request: ListMultipartUploadsInput
) -> ListMultipartUploadsOutput:
    """Return a page of a bucket's uploads, by key. Source: API_ListMultipartUploads."""
    s3.bucket(request["Bucket"])
    prefix, delimiter = request.get("Prefix") or "", request.get("Delimiter") or ""
    after = (request.get("KeyMarker") or "", request.get("UploadIdMarker") or "")
    limit = min(int(request.get("MaxUploads") or limits.LIST_UPLOADS), limits.LIST_UPLOADS)
    found: list[Upload] = []
    rolled: set[str] = set()
    for upload in s3.uploads.list(request["Bucket"], prefix):
        if not _is_after(upload, *after):
            continue
        head, is_rolled, _ = upload.key[len(prefix) :].partition(delimiter or "\0\0")
        if delimiter and is_rolled:
            rolled.add(prefix + head + delimiter)
        else:
            found.append(upload)
    page = found[:limit]
    encode = functools.partial(quote, safe="/") if request.get("EncodingType") else str
    answer: dict[str, Any] = {
        "Bucket": request["Bucket"],
        "IsTruncated": len(found) > limit,
        "MaxUploads": limit,
        "Uploads": [
            {
                "Key": encode(upload.key),
                "UploadId": upload.upload_id,
                "Initiated": _time(upload.initiated_ms),
                "StorageClass": "STANDARD",
            }
            for upload in page
        ],
        "CommonPrefixes": [{"Prefix": encode(name)} for name in sorted(rolled)],
    }
    given = cast("Mapping[str, Any]", request)
    for name in ("Prefix", "Delimiter", "KeyMarker"):
        if given.get(name):
            answer[name] = encode(given[name])
    for name in ("UploadIdMarker", "EncodingType"):
        if given.get(name):
            answer[name] = given[name]
    if len(found) > limit:
        answer["NextKeyMarker"] = encode(page[-1].key)
        answer["NextUploadIdMarker"] = page[-1].upload_id
    return cast("ListMultipartUploadsOutput", answer)


def _is_after(upload: Upload, key: str, upload_id: str) -> bool:
    return upload.key > key or (
        upload.key == key and bool(upload_id) and upload.upload_id > upload_id
    )
