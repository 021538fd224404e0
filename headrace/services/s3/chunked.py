"""The aws-chunked content encoding that SDKs wrap uploads in; signatures in it are not checked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO

from headrace.aws.errors import AwsError
from headrace.services.s3.writes import Body

MAX_LINE_BYTES = 16 * 1024


def is_chunked(headers: dict[str, str]) -> bool:
    """Whether a request's body is aws-chunked."""
    return headers.get("x-amz-content-sha256", "").startswith("STREAMING-") or "aws-chunked" in (
        headers.get("content-encoding", "")
    )


def unwrap(body: Body, temporary: Path) -> tuple[Body, dict[str, str]]:
    """Return the bare body and the trailers. `temporary` is used for a body that is a file."""
    if body.file is None:
        target = io.BytesIO()
        trailers = _copy(io.BytesIO(body.data), target)
        return Body(data=target.getvalue()), trailers
    with body.file.open("rb") as source, temporary.open("wb") as written:
        trailers = _copy(source, written)
    return Body(file=temporary), trailers


def _copy(source: IO[bytes], target: IO[bytes]) -> dict[str, str]:
    while True:
        size = _chunk_size(source.readline(MAX_LINE_BYTES))
        if size == 0:
            return _trailers(source)
        data = source.read(size)
        if len(data) != size or source.read(2) != b"\r\n":
            raise _malformed()
        target.write(data)


def _chunk_size(line: bytes) -> int:
    digits = line.strip().partition(b";")[0]
    try:
        size = int(digits, 16)
    except ValueError as error:
        raise _malformed() from error
    if size < 0 or not line.endswith(b"\n"):
        raise _malformed()
    return size


def _trailers(source: IO[bytes]) -> dict[str, str]:
    trailers: dict[str, str] = {}
    while line := source.readline(MAX_LINE_BYTES).strip():
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            trailers[name.strip().lower()] = value.strip()
    return trailers


def _malformed() -> AwsError:
    return AwsError(
        "IncompleteBody", "The request body terminated unexpectedly or is not aws-chunked."
    )
