"""Reads the bodies of requests (objects' bytes, checked XML), and names the XML roots of responses.

Checks that an input has all members that AWS's model requires; the XML parser does not check this.

The XML root elements of S3's responses that differ from the output's name in botocore's model.

SDKs ignore the root element, but programs that read the XML themselves may not. Each root is documented at
https://docs.aws.amazon.com/AmazonS3/latest/API/API_<operation>.html, except that of GetObjectAttributes, which is
observed in AWS's recorded answers (the documentation shows `GetObjectAttributesOutput`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import IO, Any, cast
from xml.parsers import expat

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.aws.calls.http import ChunkSignatures, HttpRequest
from headrace.aws.calls.operation import operation_model
from headrace.services.s3 import checksums, errors
from headrace.services.s3.checksums import Body
from headrace.services.s3.errors import invalid_argument
from headrace.services.s3.files import ObjectFiles
from headrace.services.s3.object_headers import read_params
from headrace.services.s3.routing import Target

_ROOTS = {
    "GetBucketAccelerateConfiguration": b"AccelerateConfiguration",
    "GetBucketRequestPayment": b"RequestPaymentConfiguration",
    "GetBucketVersioning": b"VersioningConfiguration",
    "GetBucketWebsite": b"WebsiteConfiguration",
    "GetObjectAttributes": b"GetObjectAttributesResponse",
    "ListBucketAnalyticsConfigurations": b"ListBucketAnalyticsConfigurationResult",
    "ListBucketIntelligentTieringConfigurations": b"ListBucketIntelligentTieringConfigurationsOutput",
    "ListBucketInventoryConfigurations": b"ListInventoryConfigurationsResult",
    "ListBucketMetricsConfigurations": b"ListMetricsConfigurationsResult",
    "ListParts": b"ListPartsResult",
}
_FIRST = re.compile(rb"<([A-Za-z]+)(?=[ />])")


def add_root(operation: str, body: bytes) -> bytes:
    """Return the XML of a response with AWS's root element."""
    root = _ROOTS.get(operation)
    match = _FIRST.search(body)
    if root is None or match is None:
        return body
    name = match[1]
    end = b"</" + name + b">"
    if body.rstrip().endswith(end):
        body = body.rstrip()[: -len(end)] + b"</" + root + b">"
    return body[: match.start(1)] + root + body[match.end(1) :]


def check_required(operation: str, params: dict[str, Any]) -> None:
    """Refuse an input that lacks a required member. Raises AwsError MalformedXML, InvalidArgument."""
    # botocore has no types: its shapes are Any here.
    shape: Any = cast("Any", operation_model("s3", operation)).input_shape
    if shape is None:
        return
    payload: str | None = shape.serialization.get("payload")
    for name in shape.required_members:
        if name not in params:
            if name == payload:
                raise build_malformed_xml()
            raise invalid_argument(f"{name} is required", name, "")
    if payload in params and not _is_complete(shape.members[payload], params[payload]):
        raise build_malformed_xml()


def _is_complete(shape: Any, value: Any) -> bool:
    if shape.type_name == "structure" and isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return all(members.get(name) is not None for name in shape.required_members) and all(
            _is_complete(shape.members[name], member)
            for name, member in members.items()
            if name in shape.members and member is not None
        )
    if shape.type_name == "list" and isinstance(value, list):
        return all(_is_complete(shape.member, item) for item in cast("list[Any]", value))
    return True


# Decodes aws-chunked bodies, which SDKs use for uploads, and checks the signatures of their chunks.

MAX_LINE_BYTES = 16 * 1024
MOST_TRAILERS = 100
_COPY_BYTES = 1024 * 1024
_CHUNK_HEAD = re.compile(rb"([0-9a-fA-F]{1,16})(;[^\r\n]*)?\r\n")
_CHUNK_SIGNATURE = re.compile(rb";\s*chunk-signature=([0-9a-f]{64})")
_TRAILER_SIGNATURE = "x-amz-trailer-signature"


def unwrap(
    body: Body,
    temporary: Path,
    headers: Mapping[str, str],
    signatures: ChunkSignatures | None = None,
) -> tuple[Body, dict[str, str]]:
    """Return the decoded body and the trailers. If `body` is a file, the decoded body is in the file `temporary`.

    Raises AwsError IncompleteBody, InvalidRequest, MalformedTrailerError; with `signatures`, SignatureDoesNotMatch.
    """
    if body.file is None:
        target = io.BytesIO()
        trailers = _copy(io.BytesIO(body.data), target, signatures)
        bare = Body(data=target.getvalue())
    else:
        with body.file.open("rb") as source, temporary.open("wb") as written:
            trailers = _copy(source, written, signatures)
        bare = Body(file=temporary)
    announced = headers.get("x-amz-decoded-content-length", "")
    if announced and announced != str(bare.size_bytes):
        raise _incomplete()
    _check_trailers(headers.get("x-amz-trailer", ""), trailers)
    return bare, trailers


def _check_trailers(announced: str, trailers: Mapping[str, str]) -> None:
    """Refuse other trailers than the announced checksums: as parameters, nobody has signed or been asked about them.

    Both refusals are observed by others: github.com/versity/versitygw/issues/1161 and 1691.
    """
    names = {name.strip() for name in announced.lower().split(",")} - {""}
    if not names <= set(checksums.CHECKSUM_HEADER.values()):
        raise AwsError(
            "InvalidRequest", "The value specified in the x-amz-trailer header is not supported"
        )
    if names != set(trailers):
        raise AwsError(
            "MalformedTrailerError",
            "The request contained trailing data that was not well-formed or did not conform to our published schema.",
        )


def _copy(
    source: IO[bytes], target: IO[bytes], signatures: ChunkSignatures | None
) -> dict[str, str]:
    while True:
        head = _CHUNK_HEAD.fullmatch(source.readline(MAX_LINE_BYTES))
        if head is None:
            raise _incomplete()
        left = int(head[1], 16)
        is_last = left == 0
        digest = hashlib.sha256()
        while left > 0:
            data = source.read(min(left, _COPY_BYTES))
            if not data:
                raise _incomplete()
            target.write(data)
            if signatures is not None:
                digest.update(data)
            left -= len(data)
        if signatures is not None:
            signature = _CHUNK_SIGNATURE.match(head[2] or b"")
            if signature is None or not signatures.is_right(
                digest.hexdigest(), signature[1].decode()
            ):
                raise _wrongly_signed()
        if is_last:
            return _read_trailers(source, signatures)
        if source.read(2) != b"\r\n":
            raise _incomplete()


def _read_trailers(source: IO[bytes], signatures: ChunkSignatures | None) -> dict[str, str]:
    trailers: dict[str, str] = {}
    for _ in range(MOST_TRAILERS):
        line = source.readline(MAX_LINE_BYTES).strip()
        if not line:
            break
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            trailers[name.strip().lower()] = value.strip()
    signature = trailers.pop(_TRAILER_SIGNATURE, "")
    if signatures is not None and trailers:
        signed = "".join(f"{name}:{value}\n" for name, value in trailers.items())
        if not signatures.is_right_trailer(signed.encode("latin-1"), signature):
            raise _wrongly_signed()
    return trailers


def _wrongly_signed() -> AwsError:
    return AwsError(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your key and signing"
        " method.",
        403,
    )


def _incomplete() -> AwsError:
    return AwsError(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    )


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
            body, trailers = unwrap(body, temporary, headers, request.chunk_signatures)
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
    if request.body_file is not None or len(request.body) > errors.XML_BYTES:
        raise AwsError(
            "MaxMessageLengthExceeded",
            "Your request was too big.",
            400,
            {"MaxMessageLengthBytes": errors.XML_BYTES},
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
        raise build_malformed_xml() from error


def _refuse_document_type(*_: Any) -> None:
    raise build_malformed_xml()
