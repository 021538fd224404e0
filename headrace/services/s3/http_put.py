"""PutObject and UploadPart over HTTP: they store the bytes in the body and return the description in headers."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.services.s3 import bodies, checksums, encryption, lifecycle, reads
from headrace.services.s3.backend import S3
from headrace.services.s3.routing import Target, parse_part_number


def put_object(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer PutObject. Raises AwsError, BucketNotFound."""
    s3.bucket(target.bucket)
    with bodies.open_object_body(s3.files, request, target) as (body, params):
        stored = s3.write(target.bucket, target.key, body, params)
    headers = _build_written_headers(stored.etag, stored.checksums, stored.encryption)
    headers.append(("x-amz-checksum-type", reads.find_checksum_type(stored)))
    holder = s3.bucket(target.bucket)
    headers += lifecycle.expiration_header(stored, holder)
    if holder.versioning == "Enabled":
        headers.append(("x-amz-version-id", stored.version_id))
    return HttpResponse(200, headers)


def upload_part(s3: S3, request: HttpRequest, target: Target) -> HttpResponse:
    """Answer UploadPart. Raises AwsError, BucketNotFound."""
    s3.bucket(target.bucket)
    upload = s3.uploads.find(target.bucket, target.key, target.query["uploadId"])
    number = parse_part_number(target.query.get("partNumber", ""))
    with bodies.open_object_body(s3.files, request, target) as (body, params):
        etag, shown = s3.write_part(upload, number, body, params)
    return HttpResponse(200, _build_written_headers(etag, shown, upload.encryption))


def _build_written_headers(
    etag: str, kept: Mapping[str, str], encrypted: Mapping[str, str]
) -> list[tuple[str, str]]:
    return [
        ("ETag", f'"{etag}"'),
        *encryption.render_headers(encrypted),
        *((checksums.CHECKSUM_HEADER[name], value) for name, value in kept.items()),
    ]
