"""Reads the bodies of requests: decodes and checks objects' bytes, and checks the XML of other operations."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.aws.calls.http import HttpRequest
from headrace.services.s3 import checksums, chunked, limits
from headrace.services.s3.checksums import Body
from headrace.services.s3.files import ObjectFiles
from headrace.services.s3.object_headers import read_params
from headrace.services.s3.routing import Target

_DIGEST_CHARACTERS = 64


@contextlib.contextmanager
def open_object_body(
    files: ObjectFiles, request: HttpRequest, target: Target
) -> Generator[tuple[Body, dict[str, Any]]]:
    """Yield an object's bytes, and the parameters in the headers and trailers.

    Temporary files that the caller has not moved are deleted at the end. Raises AwsError.
    """
    with contextlib.ExitStack() as scratch:
        headers = dict(target.headers)
        body = Body(request.body, _adopt(files, request, scratch))
        if _is_chunked(headers):
            temporary = files.temporary()
            scratch.callback(temporary.unlink, missing_ok=True)
            body, trailers = chunked.unwrap(body, temporary, headers, request.chunk_signatures)
            headers.update(trailers)
            encodings = [e.strip() for e in headers.get("content-encoding", "").split(",")]
            headers["content-encoding"] = ",".join(e for e in encodings if e and e != "aws-chunked")
        else:
            _check_signed_digest(headers.get("x-amz-content-sha256", ""), body)
        yield body, read_params(headers)


def _is_chunked(headers: dict[str, str]) -> bool:
    return headers.get("x-amz-content-sha256", "").startswith("STREAMING-") or "aws-chunked" in (
        headers.get("content-encoding", "")
    )


def _adopt(files: ObjectFiles, request: HttpRequest, scratch: contextlib.ExitStack) -> Path | None:
    """Move a body from the server's temporary file, which the server deletes, to a temporary file of S3."""
    if request.body_file is None:
        return None
    temporary = files.temporary()
    request.body_file.replace(temporary)
    scratch.callback(temporary.unlink, missing_ok=True)
    return temporary


def _check_signed_digest(digest: str, body: Body) -> None:
    if len(digest) != _DIGEST_CHARACTERS:  # UNSIGNED-PAYLOAD, or not signed
        return
    if body.digest("sha256").hex() != digest.lower():
        raise AwsError(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )


def check_xml(request: HttpRequest, headers: dict[str, str]) -> None:
    """Refuse a body that is too large, does not match its checksum, or is XML with a document type.

    A document type can define entities that expand without end. Raises AwsError.
    """
    if request.body_file is not None or len(request.body) > limits.XML_BYTES:
        raise AwsError(
            "MaxMessageLengthExceeded",
            "Your request was too big.",
            400,
            {"MaxMessageLengthBytes": limits.XML_BYTES},
        )
    checksums.verify(
        Body(request.body),
        {
            "ContentMD5": headers.get("content-md5"),
            **{name: headers.get(header) for name, header in checksums.CHECKSUM_HEADER.items()},
        },
    )
    if not request.body.strip() or request.body.lstrip()[:1] == b"{":  # a policy is JSON
        return
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        parser.Parse(request.body, True)
    except expat.ExpatError as error:
        raise malformed_xml() from error


def _refuse_document_type(*_: Any) -> None:
    raise malformed_xml()
