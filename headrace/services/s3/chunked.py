"""The aws-chunked content encoding that SDKs wrap uploads in; signatures in it are not checked."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from headrace.aws.errors import AwsError
from headrace.services.s3.checksums import Body

MAX_LINE_BYTES = 16 * 1024
MOST_TRAILERS = 100
_COPY_BYTES = 1024 * 1024
_CHUNK_HEAD = re.compile(rb"([0-9a-fA-F]{1,16})(;[^\r\n]*)?\r\n")


def is_chunked(headers: Mapping[str, str]) -> bool:
    """Whether a request's body is aws-chunked."""
    return headers.get("x-amz-content-sha256", "").startswith("STREAMING-") or "aws-chunked" in (
        headers.get("content-encoding", "")
    )


def unwrap(body: Body, temporary: Path, headers: Mapping[str, str]) -> tuple[Body, dict[str, str]]:
    """Return the bare body and the trailers; `temporary` holds it when the body is a file.

    Raises AwsError IncompleteBody, MalformedTrailerError.
    """
    if body.file is None:
        target = io.BytesIO()
        trailers = _copy(io.BytesIO(body.data), target)
        bare = Body(data=target.getvalue())
    else:
        with body.file.open("rb") as source, temporary.open("wb") as written:
            trailers = _copy(source, written)
        bare = Body(file=temporary)
    announced = headers.get("x-amz-decoded-content-length", "")
    if announced and announced != str(bare.size_bytes):
        raise _incomplete()
    for name in headers.get("x-amz-trailer", "").lower().split(","):
        if name.strip() and name.strip() not in trailers:
            raise AwsError(
                "MalformedTrailerError",
                "The request contained trailing data that was not well-formed or did not conform to our published"
                " schema.",
            )
    return bare, trailers


def _copy(source: IO[bytes], target: IO[bytes]) -> dict[str, str]:
    while True:
        head = _CHUNK_HEAD.fullmatch(source.readline(MAX_LINE_BYTES))
        if head is None:
            raise _incomplete()
        left = int(head[1], 16)
        if left == 0:
            return _trailers(source)
        while left > 0:
            data = source.read(min(left, _COPY_BYTES))
            if not data:
                raise _incomplete()
            target.write(data)
            left -= len(data)
        if source.read(2) != b"\r\n":
            raise _incomplete()


def _trailers(source: IO[bytes]) -> dict[str, str]:
    trailers: dict[str, str] = {}
    for _ in range(MOST_TRAILERS):
        line = source.readline(MAX_LINE_BYTES).strip()
        if not line:
            break
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            trailers[name.strip().lower()] = value.strip()
    return trailers


def _incomplete() -> AwsError:
    return AwsError(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
    )
