"""The checksums of multipart uploads: of the whole object, or of the parts' checksums. Pure functions.

Source (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html. The error
messages are observed in AWS's recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.services.s3 import checksums
from headrace.services.s3.checksums import CHECKSUMS, COMPOSITE, DEFAULT, FULL_OBJECT, Body
from headrace.services.s3.errors import invalid_request
from headrace.services.s3.state import Part, Upload

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
    return dict(sent) or {algorithm: checksums.compute(algorithm, body)}


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
        value = checksums.compute_composite(name, of_parts)
        kept = {"checksum_type": COMPOSITE, "part_checksums": of_parts}
    else:
        value = checksums.compute(name, Body(file=whole))
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
