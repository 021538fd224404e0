"""The checksums of objects: verifies the checksum in a request, or computes one if the request has none.

Those of multipart uploads are of the whole object, or of the parts' checksums.

Source (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html. The error
messages are observed in AWS's recorded answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anycrc  # pyright: ignore[reportMissingTypeStubs]

from headrace.aws.calls.errors import AwsError
from headrace.services.s3.errors import bad_digest, invalid_request, not_implemented
from headrace.services.s3.state import Part, Upload

_CHUNK_BYTES = 1024 * 1024

# Parameter -> number of bytes of the checksum.
CHECKSUMS = {
    "ChecksumCRC32": 4,
    "ChecksumCRC32C": 4,
    "ChecksumCRC64NVME": 8,
    "ChecksumSHA1": 20,
    "ChecksumSHA256": 32,
    "ChecksumSHA512": 64,
    "ChecksumMD5": 16,
}
_HASHES = {
    "ChecksumSHA1": "sha1",
    "ChecksumSHA256": "sha256",
    "ChecksumSHA512": "sha512",
    "ChecksumMD5": "md5",
}
# Checksum algorithms that headrace cannot compute: a request with such a checksum is refused.
_NOT_BUILT = ("ChecksumXXHASH64", "ChecksumXXHASH3", "ChecksumXXHASH128")
CHECKSUM_HEADER = {
    name: f"x-amz-checksum-{name.removeprefix('Checksum').lower()}" for name in CHECKSUMS
}
# The checksum that S3 computes if a request has none. Source (documented): checking-object-integrity.html.
DEFAULT = "ChecksumCRC64NVME"
FULL_OBJECT, COMPOSITE = "FULL_OBJECT", "COMPOSITE"

# anycrc has no types.
_CRC32C: Any = cast("Any", anycrc).Model("CRC32-ISCSI")
_CRC64NVME: Any = cast("Any", anycrc).Model("CRC64-NVME")


@dataclass(slots=True)
class Body:
    """An object's bytes: in memory, or in a temporary file that the write moves or deletes."""

    data: bytes = b""
    file: Path | None = None

    @property
    def size_bytes(self) -> int:
        """The number of bytes."""
        return len(self.data) if self.file is None else self.file.stat().st_size

    def digest(self, algorithm: str) -> bytes:
        """Return the digest of the bytes; `algorithm` is a name that hashlib knows."""
        if self.file is None:
            return hashlib.new(algorithm, self.data, usedforsecurity=False).digest()
        with self.file.open("rb") as file:
            return hashlib.file_digest(
                file, lambda: hashlib.new(algorithm, usedforsecurity=False)
            ).digest()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in pieces."""
        if self.file is None:
            yield self.data
            return
        with self.file.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk


def compute(name: str, body: Body) -> str:
    """Return the checksum called `name` (`ChecksumCRC32`, ...) in base64."""
    if name == "ChecksumCRC32":
        crc = 0
        for chunk in body.chunks():
            crc = zlib.crc32(chunk, crc)
        raw = crc.to_bytes(4, "big")
    elif name in ("ChecksumCRC32C", DEFAULT):
        model = _CRC32C if name == "ChecksumCRC32C" else _CRC64NVME
        value: int = 0
        for chunk in body.chunks():
            value = model.combine(value, model.calc(chunk), len(chunk))
        raw = value.to_bytes(CHECKSUMS[name], "big")
    else:
        raw = body.digest(_HASHES[name])
    return base64.b64encode(raw).decode()


@dataclass(frozen=True, slots=True)
class BodyDigests:
    """The ETag of a body (its MD5 in hexadecimal digits) and its checksums, which are stored with the object."""

    etag: str
    checksums: dict[str, str]


def verify(body: Body, params: Mapping[str, Any], *, is_part: bool = False) -> BodyDigests:
    """Check a body against the checksums in `params`. Raises BadDigest, InvalidRequest, InvalidDigest.

    In the error, AWS returns the expected MD5 of an object in hexadecimal digits, that of a part in base64 (observed).
    """
    etag = body.digest("md5").hex()
    md5 = params.get("ContentMD5")
    if md5 is not None:
        if len(_decode_base64(md5)) != hashlib.md5(usedforsecurity=False).digest_size:
            sentence = "The Content-MD5 you specified was invalid."
            raise AwsError("InvalidDigest", sentence, 400, {"Content-MD5": md5})
        if _decode_base64(md5).hex() != etag:
            raise AwsError(
                "BadDigest",
                "The Content-MD5 you specified did not match what we received.",
                400,
                {
                    "ExpectedDigest": md5 if is_part else _decode_base64(md5).hex(),
                    "CalculatedDigest": base64.b64encode(bytes.fromhex(etag)).decode(),
                },
            )
    for name in _NOT_BUILT:
        if params.get(name) is not None:
            raise not_implemented(f"x-amz-checksum-{name.removeprefix('Checksum').lower()}")
    checksums = {name: str(params[name]) for name in CHECKSUMS if params.get(name) is not None}
    if len(checksums) > 1:
        raise invalid_request(
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        )
    for name, value in checksums.items():
        if len(_decode_base64(value)) != CHECKSUMS[name]:
            raise invalid_request(f"Value for {CHECKSUM_HEADER[name]} header is invalid.")
        if compute(name, body) != value:
            raise bad_digest(name.removeprefix("Checksum"))
    return BodyDigests(etag, checksums)


def find_checksum_name(algorithm: Any) -> str:
    """Return the name of an algorithm's checksum, or "" for no algorithm. Raises AwsError InvalidRequest."""
    if not algorithm:
        return ""
    name = f"Checksum{str(algorithm).upper()}"
    if name not in CHECKSUMS:
        raise invalid_request(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C,"
            " CRC64NVME, SHA1, SHA256]"
        )
    return name


def compute_composite(name: str, checksums: Sequence[str]) -> str:
    """Return the composite checksum of a multipart object: the checksum of its parts' checksums."""
    joined = Body(b"".join(_decode_base64(checksum) for checksum in checksums))
    return f"{compute(name, joined)}-{len(checksums)}"


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


_TYPES = (COMPOSITE, FULL_OBJECT)


def read_new_upload(params: Mapping[str, Any]) -> dict[str, str]:
    """Return ChecksumAlgorithm and ChecksumType of a new upload, or {} for none. Raises AwsError InvalidRequest."""
    algorithm, kind = params.get("ChecksumAlgorithm"), params.get("ChecksumType")
    if not algorithm:
        if kind:
            raise invalid_request(
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
            )
        return {}
    if f"Checksum{algorithm}" not in CHECKSUMS:
        raise invalid_request(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C,"
            " SHA1, SHA256]"
        )
    if kind and kind not in _TYPES:
        raise invalid_request("Value for x-amz-checksum-type header is invalid.")  # assumed
    is_full_only = algorithm == "CRC64NVME"
    kind = kind or (FULL_OBJECT if is_full_only else COMPOSITE)
    is_composite_only = algorithm.startswith("SHA")
    if (kind == COMPOSITE and is_full_only) or (kind == FULL_OBJECT and is_composite_only):
        raise invalid_request(
            f"The {kind} checksum type cannot be used with the {algorithm.lower()} checksum algorithm."
        )
    return {"ChecksumAlgorithm": algorithm, "ChecksumType": kind}


def read_part_checksum(upload: Upload, sent: Mapping[str, str], body: Body) -> dict[str, str]:
    """Return the checksum of a part: that in the request, or else a computed one. Raises AwsError InvalidRequest."""
    algorithm = upload.checksum
    if not algorithm:
        return dict(sent)
    if sent and algorithm not in sent:
        (actual,) = sent
        raise invalid_request(
            f"Checksum Type mismatch occurred, expected checksum Type: {_shorten(algorithm)}, actual checksum Type:"
            f" {_shorten(actual)}"
        )
    return dict(sent) or {algorithm: compute(algorithm, body)}


def check_completion(upload: Upload, request: Mapping[str, Any], size_bytes: int) -> None:
    """Check the checksum type and the object size in CompleteMultipartUpload. Raises AwsError InvalidRequest."""
    kind = request.get("ChecksumType")
    begun_with = upload.params.get("ChecksumType") or "null"
    if kind and kind != begun_with:
        raise invalid_request(
            f"The upload was created using the {begun_with} checksum mode. The complete request must use the same"
            " checksum mode."
        )
    declared_bytes = request.get("MpuObjectSize")
    if declared_bytes is not None and str(declared_bytes) != str(size_bytes):
        raise invalid_request(
            f"The provided 'x-amz-mp-object-size' header value {declared_bytes} does not match what was computed:"
            f" {size_bytes}"
        )


def check_part(upload: Upload, requested: Mapping[str, Any], part: Part) -> bool:
    """Check a part's checksum in CompleteMultipartUpload. Raises AwsError BadDigest, InvalidRequest."""
    sent = {name: requested[name] for name in CHECKSUMS if requested.get(name)}
    name = upload.checksum
    if not name:
        return not sent
    others = [other for other in sent if other != name]
    if others:
        raise AwsError(
            "BadDigest",
            f"The {_shorten(others[0])} you specified for part {part.number} did not match what we received.",
        )
    if name not in sent:
        if upload.params.get("ChecksumType") == COMPOSITE:
            raise invalid_request(
                f"The upload was created using a {_shorten(name)} checksum. The complete request must include the"
                f" checksum for each part. It was missing for part {part.number} in the request."
            )
        return True
    return sent[name] == part.checksums.get(name)


def check_whole(
    upload: Upload, parts: Sequence[Part], whole: Path, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the object's checksum fields; with a customer-provided key, only if the upload asked for a checksum.

    Raises AwsError BadDigest.
    """
    if not upload.checksum and "customer_md5" in upload.encryption:
        return {}
    name = upload.checksum or DEFAULT
    if upload.params.get("ChecksumType") == COMPOSITE:
        of_parts = tuple(part.checksums[name] for part in parts)
        value = compute_composite(name, of_parts)
        kept = {"checksum_type": COMPOSITE, "part_checksums": of_parts}
    else:
        value = compute(name, Body(file=whole))
        kept = {"checksum_type": FULL_OBJECT}
    sent = {other: request[other] for other in CHECKSUMS if request.get(other)}
    if sent and value not in (sent.get(name), f"{sent.get(name)}-{len(parts)}"):
        raise AwsError(
            "BadDigest",
            f"The {_shorten(name)} you specified did not match the calculated checksum.",
        )
    return {"checksums": {name: value}, **kept}


def _shorten(name: str) -> str:
    return name.removeprefix("Checksum").lower()
