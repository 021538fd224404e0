"""The checksums of objects: verifies the checksum in a request, or computes one if the request has none."""

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
