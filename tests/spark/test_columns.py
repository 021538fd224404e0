"""The quick way to read an answer gives what the JSON parser gives, or leaves the answer to it."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark import get_records as quick
from headrace.spark.client import KinesisClient
from headrace.spark.get_records import PAGE_SCHEMA, parse_records
from headrace.spark.offsets import TrimHorizon
from headrace.spark.options import Options
from headrace.spark.untyped import untyped
from tests.spark.conftest import Stream
from tests.support.server import REGION, ServerProcess

RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.text(st.characters(codec="utf-8"), max_size=12),
        st.integers(0, 2**186),
        st.integers(0, 4_000_000_000_000),
    ),
    min_size=1,
    max_size=12,
)
# What services write beside the records.
REST = {"NextShardIterator": "AAAA/+==", "MillisBehindLatest": 7, "ChildShards": [{"ShardId": "s"}]}


def answer(records: list[tuple[bytes, str, int, int]], **more: str) -> dict[str, Any]:
    return {
        "Records": [
            {
                "SequenceNumber": str(number),
                "ApproximateArrivalTimestamp": arrival_ms / 1000,
                "Data": b64encode(data).decode(),
                "PartitionKey": key,
                **more,
            }
            for data, key, number, arrival_ms in records
        ],
        **REST,
    }


def compact(value: Any, *, ascii_only: bool = False) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only).encode()


def lines(body: bytes) -> bytes:
    """A line break between some records, as headrace's answers have them."""
    return body.replace(b'},{"Sequence', b'},\n{"Sequence', 2)


def by_json(body: bytes) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick, "np", None)
        return untyped(parse_records(body)).to_pylist()


def _json(body: bytes) -> list[dict[str, Any]] | None:
    try:
        return by_json(body)
    except (ValueError, KeyError, TypeError):
        return None


def quickly(body: bytes) -> list[dict[str, Any]] | None:
    found = quick.columns(body, PAGE_SCHEMA)
    return None if found is None else untyped(found).to_pylist()


@given(RECORDS, st.sampled_from([{}, {"EncryptionType": "KMS"}]), st.booleans())
def test_what_is_read_quickly_is_what_the_json_parser_reads(
    records: list[tuple[bytes, str, int, int]], more: dict[str, str], with_lines: bool
) -> None:
    body = compact(answer(records, **more))
    body = lines(body) if with_lines else body

    found = quickly(body)

    assert found == by_json(body) or (found is None and b"\\" in body)


def test_an_answer_as_services_write_it_is_read_quickly() -> None:
    body = compact(
        answer([(b"abc", "k},{", 1, 1_700_000_000_123), (b"", "", 2, 0), (b"abcd", "é", 3, 1)])
    )

    assert quickly(body) == by_json(body)


@given(RECORDS, st.integers(0, 2_000), st.sampled_from(list(b'"{}[],:=A1\\ \n\xff')), st.booleans())
def test_a_changed_byte_is_never_read_as_something_else(
    records: list[tuple[bytes, str, int, int]], place: int, byte: int, with_lines: bool
) -> None:
    body = compact(answer(records))
    changed = bytearray(lines(body) if with_lines else body)
    changed[place % len(changed)] = byte
    body = bytes(changed)

    found = quickly(body)

    # Of what is no JSON at all nothing is promised: a client that cannot trust the service's JSON has its own troubles.
    if found is not None and (parsed := _json(body)) is not None:
        assert found == parsed


ONE = answer([(b"a", "k", 1, 1)])
TURNED = dict(reversed(ONE["Records"][0].items()))


@pytest.mark.parametrize(
    "body",
    [
        compact({"Records": [], **REST}),
        compact(answer([(b"a", '"', 1, 1)])),
        compact(answer([(b"a", "é", 1, 1)]), ascii_only=True),
        json.dumps(ONE).encode(),
        compact({"Records": [{**ONE["Records"][0], "Other": "x"}]}),
        compact({"Records": [TURNED, *ONE["Records"]]}),
    ],
    ids=["no records", "a quote in a key", "escapes", "blanks", "an unknown member", "two orders"],
)
def test_what_looks_otherwise_is_left_to_the_json_parser(body: bytes) -> None:
    assert quickly(body) is None


@pytest.mark.parametrize("text", ["YQ=", "Y===", "YQ==YQ==", "Y-==", "YQ", "Y Q="])
def test_what_is_not_base64_is_left_to_the_json_parser(text: str) -> None:
    records = answer([(b"a", "k", 1, 1), (b"b", "k", 2, 1)])
    records["Records"][0]["Data"] = text

    assert quickly(compact(records)) is None


def test_long_data_is_decoded_in_parts() -> None:
    body = compact(answer([(bytes(range(256)) * 1_000, "k", 1, 1), (b"end", "k", 2, 1)]))

    assert quickly(body) == by_json(body)


def test_the_clouds_own_answers_are_read_quickly(server: ServerProcess) -> None:
    stream = Stream(server, "read-quickly", 1)
    stream.put(1_200)
    options = Options(stream=stream.name, region=REGION, endpoint_url=server.endpoint_url)
    client = KinesisClient(options)
    try:
        iterator = client.iterator(client.shards()[0].shard_id, None, TrimHorizon())
        body = client.send("GetRecords", json.dumps({"ShardIterator": iterator}).encode())
    finally:
        client.close()

    found = quickly(body)

    assert found is not None
    assert found == by_json(body)
    assert [row["data"] for row in found] == [str(n).encode() for n in range(1_200)]
