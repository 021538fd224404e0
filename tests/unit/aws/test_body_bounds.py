"""Bodies that swell when they are taken apart are refused, in AWS's words, before they do."""

from __future__ import annotations

import gc
import gzip
import json
import zlib
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest
from headrace.aws.protocols.codec_json import (
    CBOR_1_1,
    JSON_1_1,
    decode_body,
    decode_input,
    decode_rest_json,
)
from headrace.aws.protocols.codec_moto import (
    MOST_FORM_FIELDS,
    MOST_JSON_LEVELS,
    MOST_UNPACKED_BYTES,
    MOST_XML_LEVELS,
    check_body,
    check_json,
    check_xml,
    unpack,
)

FORM = {"content-type": "application/x-www-form-urlencoded"}


def failure(call: Any, *arguments: Any) -> tuple[str, int]:
    with pytest.raises(AwsError) as caught:
        call(*arguments)
    return caught.value.code, caught.value.status


# --- gzip -------------------------------------------------------------------------------------


def test_what_sdks_pack_is_unpacked():
    """botocore packs PutMetricData's body when it is larger than 10 KiB."""
    body = json.dumps({"Namespace": "n" * 20_000}).encode()
    packed = gzip.compress(body)
    headers = {"content-encoding": "gzip", "content-length": str(len(packed)), "x": "y"}
    request = HttpRequest("POST", "/", "", headers, packed)
    check_body(request)
    assert request.body == body
    assert request.headers == {"content-length": str(len(body)), "x": "y"}
    assert headers["content-encoding"] == "gzip", "the caller's own headers are left alone"


def test_members_one_after_the_other_are_one_body():
    assert unpack(gzip.compress(b"one, ") + gzip.compress(b"two")) == b"one, two"
    assert unpack(gzip.compress(b"")) == b""


@pytest.mark.parametrize("members", [1, 40])
def test_megabytes_in_kilobytes_are_not_unpacked(members: int):
    """Whether as one stream or as many; no more than the bound is ever in memory."""
    import tracemalloc

    size = 200 << 20 if members == 1 else 1 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    bomb = packed * members
    assert len(bomb) < 210_000
    tracemalloc.start()
    assert failure(unpack, bomb) == ("RequestEntityTooLargeException", 413)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3 * MOST_UNPACKED_BYTES


def test_many_small_members_do_not_take_quadratic_time():
    """What follows a member used to be copied for each: 16 MB of them took an hour."""
    member = gzip.compress(b"")
    assert unpack(member * 1000) == b""
    assert failure(unpack, member * 500_000) == ("RequestEntityTooLargeException", 413)


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(0, 3))
def test_members_come_apart_at_any_byte(members: list[bytes], level: int):
    body = b"".join(member * 900 for member in members)
    packed = b"".join(gzip.compress(member * 900, level) for member in members)
    assert unpack(packed) == body


def test_the_largest_body_is_unpacked():
    assert len(unpack(gzip.compress(bytes(MOST_UNPACKED_BYTES)))) == MOST_UNPACKED_BYTES
    over = gzip.compress(bytes(MOST_UNPACKED_BYTES + 1))
    assert failure(unpack, over) == ("RequestEntityTooLargeException", 413)


@pytest.mark.parametrize(
    "packed",
    [
        b"no gzip",
        gzip.compress(b"x" * 100, mtime=0)[:-9],
        gzip.compress(b"x", mtime=0) + b"rest",
        b"\x1f",
    ],
    # Not the bytes, which have the time in them: tests on several processes must have the same names.
    ids=["none", "cut", "rest", "one byte"],
)
def test_what_is_no_gzip(packed: bytes):
    assert failure(unpack, packed) == ("SerializationException", 400)


def test_a_body_that_is_a_file_is_too_large(tmp_path: Any):
    request = HttpRequest("POST", "/", body_file=tmp_path / "f")
    assert failure(check_body, request) == ("RequestEntityTooLargeException", 413)


# --- JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'[{"a":' * 51])
def test_json_that_nests_too_deep(body: bytes):
    assert failure(check_json, body) == ("SerializationException", 400)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * MOST_JSON_LEVELS + b"]" * MOST_JSON_LEVELS,
        b"[" + b"[]," * 10_000 + b"[]]",
        json.dumps({"text": "[" * 1000 + '\\"{' * 1000}).encode(),
        json.dumps(["[\\", '"{' * 300, "\\\\"]).encode(),
        b'"' + b"[" * 1000,  # broken: the decoder's to refuse
        b"[" * 99 + b'"' + b'\\"' * 200_000 + b"[[[",  # in a time that grows with its length
        b"[" * 99 + b'"' + b'\\"[' * 200_000 + b"\\",
    ],
)
def test_json_that_only_has_many_brackets(body: bytes):
    check_json(body)


@pytest.mark.parametrize("pairs", [("[", "]"), ('{"a":', "}"), ('[{"]}":', "}]")])
def test_depth_is_told_to_the_level(pairs: tuple[str, str]):
    opened, closed = pairs
    times = MOST_JSON_LEVELS // len(closed)
    deep = (opened * times + "1" + closed * times).encode()
    wide = b"[],{}," * 200
    check_json(deep + wide)
    assert failure(check_json, b"[" + wide + deep + b"]") == ("SerializationException", 400)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"Data":' * 100_000])
def test_our_own_decoders_refuse_depth_too(body: bytes):
    # What earlier tests have left would else be finalised in the depth, where nothing can be called any more.
    gc.collect()
    assert failure(decode_body, body, JSON_1_1) == ("SerializationException", 400)
    assert failure(decode_body, b"\x81" * 100_000, CBOR_1_1) == ("SerializationException", 400)
    assert failure(decode_body, b"\x9f" * 100_000, CBOR_1_1) == ("SerializationException", 400)


@pytest.mark.parametrize(
    "before", [b" " * 65, b"\xef\xbb\xbf", b"\n\t\r "], ids=["spaces", "mark", "lines"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "utf-32"])
def test_depth_is_found_behind_whatever_decoders_read_past(before: bytes, encoding: str):
    """`json.loads` takes bytes in each of these encodings."""
    deep = ("[" * 1000).encode(encoding)
    assert failure(check_body, HttpRequest("POST", "/", body=before + deep)) == (
        "SerializationException",
        400,
    )


@pytest.mark.parametrize(
    "body",
    [b'{"a":' * 20_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000, b"[" + b"9" * 5000 + b"]"],
    ids=["depth", "whole", "digits"],
)
def test_a_rest_services_sentence_about_json_bears_depth_too(body: bytes):
    code = failure(decode_rest_json, "lambda", "CreateFunction", body)
    assert code == ("InvalidRequestContentException", 400)


# --- CBOR -------------------------------------------------------------------------------------


def test_cbor_values_that_stand_for_others_are_refused():
    """A megabyte of data that 500 records point to would be half a gigabyte."""
    shared = cbor2.dumps(
        {"StreamName": "s", "Records": [{"Data": b"x" * 1000, "PartitionKey": "k"}] * 3},
        value_sharing=True,
    )
    assert b"\xd8\x1d" in shared
    decode = ("kinesis", "PutRecords", shared, CBOR_1_1)
    assert failure(decode_input, *decode) == ("SerializationException", 400)
    strings = cbor2.dumps({"StreamName": "flights", "x": ["flights"] * 3}, string_referencing=True)
    assert failure(decode_body, strings, CBOR_1_1) == ("SerializationException", 400)


@pytest.mark.parametrize(
    "value",
    [
        b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
        b"\xd8\x23\x67(a+)+$a",  # a regular expression
        b"\xd9\x01\x02\x80",  # a set
    ],
)
def test_cbor_of_kinds_that_no_sdk_sends(value: bytes):
    assert failure(decode_body, b"\xa1\x61a" + value, CBOR_1_1) == ("SerializationException", 400)


def test_cbor_times_and_numbers_are_taken():
    body = cbor2.dumps({"big": 2**70, "time": cbor2.CBORTag(1, 1_700_000_000_000)})
    decoded = decode_body(body, CBOR_1_1)
    assert decoded["big"] == 2**70
    assert decoded["time"].year == 2023


# --- XML and forms ----------------------------------------------------------------------------

LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    b"<Delete><Key>&b;</Key></Delete>"
)


@pytest.mark.parametrize(
    "body",
    [
        LAUGHS,
        LAUGHS.replace(b"<!DOCTYPE", b"<!-- --><!DOCTYPE"),
        LAUGHS.decode().encode("utf-16"),
        b" " * 65 + LAUGHS.partition(b"?>")[2],
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b"<a>" * 100_000,
        b"<a><b>" * (MOST_XML_LEVELS // 2) + b"<c>",
    ],
)
def test_xml_that_swells(body: bytes):
    assert failure(check_xml, body) == ("MalformedXML", 400)


@pytest.mark.parametrize(
    "body",
    [
        b"<a>" * MOST_XML_LEVELS + b"</a>" * MOST_XML_LEVELS,
        b"<a>" + b"<b/><c>x</c>" * 10_000 + b"</a>",
        b"<a><![CDATA[" + b"<p>" * 1000 + b"]]></a>",
        b"<a>&lt;!DOCTYPE&gt;</a>",
        b"<no xml",
    ],
)
def test_xml_that_does_not(body: bytes):
    check_xml(body)


def test_a_form_of_too_many_parameters():
    body = b"&".join(b"P%d=1" % n for n in range(MOST_FORM_FIELDS + 1))
    request = HttpRequest("POST", "/", "", dict(FORM), body)
    assert failure(check_body, request) == ("MalformedQueryString", 400)
    check_body(HttpRequest("POST", "/", "", dict(FORM), body.rpartition(b"&")[0]))
    check_body(HttpRequest("POST", "/", "", {}, body))
