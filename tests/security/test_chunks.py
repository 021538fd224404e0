"""Uploads in signed chunks: AWS's own worked examples, and every way of tampering with one.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and sigv4-streaming-trailers.html
(documented): the key, the requests and every signature below are theirs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.signatures.sigv4 import Claim, SigV4Chunks, signatures
from headrace.services.s3.bodies import unwrap
from headrace.services.s3.checksums import Body

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
DATA = b"a" * 66560
CHUNKS = (
    (DATA[:65536], "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
    (DATA[65536:], "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
    (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
)
WITH_TRAILER = (
    (DATA[:65536], "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"),
    (DATA[65536:], "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"),
    (b"", "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"),
)
TRAILER = "x-amz-checksum-crc32c:sOO8/Q=="
TRAILER_SIGNATURE = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"


def headers(*, trailer: bool) -> dict[str, str]:
    end = "-TRAILER" if trailer else ""
    return {
        "host": "s3.amazonaws.com",
        "x-amz-date": "20130524T000000Z",
        "x-amz-storage-class": "REDUCED_REDUNDANCY",
        "x-amz-content-sha256": f"STREAMING-AWS4-HMAC-SHA256-PAYLOAD{end}",
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": "66560",
        **({"x-amz-trailer": "x-amz-checksum-crc32c"} if trailer else {"content-length": "66824"}),
    }


def checker(*, trailer: bool) -> SigV4Chunks:
    """Return what checks the chunks of the example's request; its own signature is the first of them."""
    given = headers(trailer=trailer)
    claim = Claim(
        "AKIAIOSFODNN7EXAMPLE", "20130524", "us-east-1", "s3", tuple(sorted(given)), "", "20130524T000000Z"
    )  # fmt: skip
    request = HttpRequest("PUT", "/examplebucket/chunkObject.txt", "", given)
    signed = next(signatures(request, claim, SECRET, given["x-amz-content-sha256"]))
    expected = (
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
        if trailer
        else "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    )
    assert signed.signature == expected
    claim = Claim(
        claim.access_key, claim.date, claim.region, claim.service, claim.signed_headers,
        signed.signature, claim.timestamp,
    )  # fmt: skip
    return SigV4Chunks(claim, SECRET)


def body(chunks: tuple[tuple[bytes, str], ...], end: str = "") -> bytes:
    parts = [
        b"%x;chunk-signature=%b\r\n%b\r\n" % (len(data), signature.encode(), data)
        for data, signature in chunks
    ]
    whole = b"".join(parts)
    # What follows the last chunk's line is the trailers, and an empty line.
    return whole.removesuffix(b"\r\n") + end.encode() + b"\r\n" if end else whole


def read(data: bytes, tmp_path: Path, *, trailer: bool = False) -> tuple[bytes, dict[str, str]]:
    bare, trailers = unwrap(
        Body(data=data), tmp_path / "bare", headers(trailer=trailer), checker(trailer=trailer)
    )
    return bare.data, trailers


def test_aws_example_is_taken(tmp_path: Path):
    assert read(body(CHUNKS), tmp_path) == (DATA, {})


def test_aws_example_with_a_trailer_is_taken(tmp_path: Path):
    end = f"{TRAILER}\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n"
    data, trailers = read(body(WITH_TRAILER, end), tmp_path, trailer=True)
    assert (data, trailers) == (DATA, {"x-amz-checksum-crc32c": "sOO8/Q=="})


def test_a_body_in_a_file_is_checked_too(tmp_path: Path):
    source = tmp_path / "source"
    source.write_bytes(body(CHUNKS))
    bare, _ = unwrap(
        Body(file=source), tmp_path / "bare", headers(trailer=False), checker(trailer=False)
    )
    assert bare.file is not None
    assert bare.file.read_bytes() == DATA


@pytest.mark.parametrize(
    "chunks",
    [
        ((b"b" + DATA[1:65536], CHUNKS[0][1]), *CHUNKS[1:]),
        (CHUNKS[0], (b"b" * 1024, CHUNKS[1][1]), CHUNKS[2]),
        (CHUNKS[0], (CHUNKS[1][0], CHUNKS[0][1]), CHUNKS[2]),
        (CHUNKS[1], CHUNKS[0], CHUNKS[2]),
        (CHUNKS[0], CHUNKS[2]),
        (*CHUNKS[:2], (b"", CHUNKS[1][1])),
    ],
    ids=["data", "later data", "signature", "order", "left out", "end"],
)
def test_what_was_changed_is_refused(tmp_path: Path, chunks: tuple[tuple[bytes, str], ...]):
    with pytest.raises(AwsError) as caught:
        read(body(chunks), tmp_path)
    assert caught.value.code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    "end",
    [
        f"x-amz-checksum-crc32c:AAAAAA==\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n",
        f"{TRAILER}\r\n",
        f"{TRAILER}\r\nx-amz-checksum-crc32:AAAA\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n",
    ],
    ids=["value", "unsigned", "one more"],
)
def test_a_trailer_that_was_changed_is_refused(tmp_path: Path, end: str):
    with pytest.raises(AwsError) as caught:
        read(body(WITH_TRAILER, end), tmp_path, trailer=True)
    assert caught.value.code == "SignatureDoesNotMatch"


def test_a_trailer_that_is_gone_is_missed(tmp_path: Path):
    with pytest.raises(AwsError) as caught:
        read(body(WITH_TRAILER), tmp_path, trailer=True)
    assert caught.value.code == "MalformedTrailerError"


def test_unsigned_chunks_are_refused_where_signed_ones_were_said(tmp_path: Path):
    with pytest.raises(AwsError) as caught:
        read(b"5\r\nhello\r\n0\r\n\r\n", tmp_path)
    assert caught.value.code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("announced", "trailer", "code"),
    [
        ("", "x-amz-tagging:a=b", "MalformedTrailerError"),
        ("", "x-amz-checksum-crc32:NhCmhg==", "MalformedTrailerError"),
        ("x-amz-tagging", "x-amz-tagging:a=b", "InvalidRequest"),
        ("content-type", "content-type:text/html", "InvalidRequest"),
        (
            "x-amz-checksum-crc32",
            "x-amz-checksum-crc32:NhCmhg==\r\nx-amz-acl:public-read",
            "MalformedTrailerError",
        ),
        ("x-amz-checksum-crc32", "x-amz-checksum-crc32:NhCmhg==", ""),
        ("", "", ""),
    ],
)
def test_a_trailer_is_an_announced_checksum_and_no_parameter(
    tmp_path: Path, announced: str, trailer: str, code: str
):
    text = Body(data=f"5\r\nhello\r\n0\r\n{trailer}\r\n\r\n".encode())
    given = {"x-amz-trailer": announced} if announced else {}
    if not code:
        assert unwrap(text, tmp_path / "bare", given)[0].data == b"hello"
        return
    with pytest.raises(AwsError) as caught:
        unwrap(text, tmp_path / "bare", given)
    assert caught.value.code == code
