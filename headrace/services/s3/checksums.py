"""The checksums in requests: they are stored, and verified where the standard library can compute them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.aws.errors import AwsError
from headrace.services.s3.errors import bad_digest, invalid_request

_CHUNK_BYTES = 1024 * 1024

# Parameter -> number of bytes of the checksum.
CHECKSUMS = {
    "ChecksumCRC32": 4,
    "ChecksumCRC32C": 4,
    "ChecksumCRC64NVME": 8,
    "ChecksumSHA1": 20,
    "ChecksumSHA256": 32,
}
CHECKSUM_HEADER = {
    name: f"x-amz-checksum-{name.removeprefix('Checksum').lower()}" for name in CHECKSUMS
}
# CRC32C and CRC64NVME are stored as given: the standard library has neither. See fidelity.py.
COMPUTABLE = ("ChecksumCRC32", "ChecksumSHA1", "ChecksumSHA256")


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
        """Return the digest by an algorithm of hashlib."""
        if self.file is None:
            return hashlib.new(algorithm, self.data, usedforsecurity=False).digest()
        with self.file.open("rb") as file:
            return hashlib.file_digest(
                file, lambda: hashlib.new(algorithm, usedforsecurity=False)
            ).digest()

    def crc32(self) -> int:
        """Return the CRC-32."""
        if self.file is None:
            return zlib.crc32(self.data)
        value = 0
        with self.file.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                value = zlib.crc32(chunk, value)
        return value


def compute(name: str, body: Body) -> str:
    """Return the checksum `name`, one of COMPUTABLE, in base64."""
    if name == "ChecksumCRC32":
        raw = body.crc32().to_bytes(4, "big")
    else:
        raw = body.digest("sha1" if name == "ChecksumSHA1" else "sha256")
    return base64.b64encode(raw).decode()


@dataclass(frozen=True, slots=True)
class Verified:
    """What is stored of a body: its MD5 in hexadecimal digits, which is the ETag, and the checksum in the request."""

    etag: str
    checksums: dict[str, str]


def verify(body: Body, params: Mapping[str, Any]) -> Verified:
    """Check a body against the checksums in `params`. Raises BadDigest, InvalidRequest, InvalidDigest."""
    etag = body.digest("md5").hex()
    md5 = params.get("ContentMD5")
    if md5 is not None:
        if len(_decoded(md5)) != hashlib.md5(usedforsecurity=False).digest_size:
            raise AwsError("InvalidDigest", "The Content-MD5 you specified was invalid.")
        if _decoded(md5).hex() != etag:
            raise AwsError(
                "BadDigest", "The Content-MD5 you specified did not match what we received."
            )
    given = {name: str(params[name]) for name in CHECKSUMS if params.get(name) is not None}
    if len(given) > 1:
        raise invalid_request(
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        )
    for name, value in given.items():
        if len(_decoded(value)) != CHECKSUMS[name]:
            raise invalid_request(f"Value for {CHECKSUM_HEADER[name]} header is invalid.")
        if name in COMPUTABLE and compute(name, body) != value:
            raise bad_digest(name.removeprefix("Checksum"))
    return Verified(etag, given)


def composite(name: str, checksums: Sequence[str]) -> str:
    """Return the checksum of the parts' checksums, which S3 gives to an object of several parts."""
    joined = Body(b"".join(_decoded(checksum) for checksum in checksums))
    return f"{compute(name, joined)}-{len(checksums)}"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
