"""The wire formats and the actions answer alike: JSON in unusual layouts, and CBOR of every form."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.services.kinesis.data_path import wire
from tests.api.kinesis.reference_model import ARN, NAME, Twins, ask, stored, twin_clouds
from tests.api.kinesis.test_cbor import CBOR
from tests.support.cloud import InProcessCloud


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twin_clouds(tmp_path_factory) as both:
        yield both


# --- JSON as nobody writes it -----------------------------------------------------------------

Draw = Callable[[Any], Any]
blanks = st.text(" \t\n\r", max_size=2)
texts = st.text(min_size=1, max_size=12)
# Padding and trailing bits as encoders leave them, and as they must not be.
encoded = st.one_of(
    st.binary(max_size=30).map(lambda data: base64.b64encode(data).decode()),
    st.binary(max_size=30).map(lambda data: base64.urlsafe_b64encode(data).decode()),
    st.binary(max_size=30).map(lambda data: base64.b64encode(data).decode().rstrip("=")),
    st.sampled_from(
        ["QQ==", "QR==", "QUI=", "QUJ=", "Q===", "====", "QQ=Q", "QQ==QQ==", "QQ\n==", ""]
    ),
)
hash_keys = st.one_of(
    st.integers(0, (1 << 128) - 1).map(str), st.sampled_from(["0", "00", "", "1.0"])
)
wrong = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.just([]), st.just({}))
members = {
    "Data": st.one_of(encoded, encoded, encoded, wrong),
    "PartitionKey": st.one_of(texts, texts, texts, st.text(max_size=300), wrong),
    "ExplicitHashKey": st.one_of(hash_keys, hash_keys, wrong),
}


def quoted(draw: Draw, text: str) -> str:
    """Return a JSON string of the text, any of its characters escaped in any way."""
    parts: list[str] = []
    for character in text:
        way = draw(st.integers(0, 7))
        if way == 0 or character in '"\\' or character < " ":
            code = character.encode("utf-16-be", "surrogatepass").hex()
            units = [code[i : i + 4] for i in range(0, len(code), 4)]
            parts += [f"\\u{unit.upper() if way == 1 else unit}" for unit in units]
        elif way == 1 and character == "/":
            parts.append("\\/")
        else:
            parts.append(character)
    return f'"{"".join(parts)}"'


def written(draw: Draw, value: Any) -> str:
    """Return JSON of the value with blanks anywhere, members in any order and some of them twice."""
    before, after = draw(blanks), draw(blanks)
    if isinstance(value, dict):
        names = draw(st.permutations(list(value)))
        pairs = [(name, value[name]) for name in names]
        if pairs and draw(st.integers(0, 5)) == 0:
            # The last of two counts.
            name = draw(st.sampled_from(names))
            pairs.insert(0, (name, draw(members.get(name, wrong))))
        inner = ",".join(
            f"{quoted(draw, name)}{draw(blanks)}:{written(draw, item)}" for name, item in pairs
        )
        return f"{before}{{{inner}}}{after}"
    if isinstance(value, list):
        return f"{before}[{','.join(written(draw, item) for item in value)}]{after}"
    if isinstance(value, str):
        return f"{before}{quoted(draw, value)}{after}"
    return f"{before}{json.dumps(value)}{after}"


records = st.fixed_dictionaries(
    {"Data": members["Data"], "PartitionKey": members["PartitionKey"]},
    optional={"ExplicitHashKey": members["ExplicitHashKey"], "Colour": wrong},
)
addresses = st.sampled_from(
    [{"StreamName": NAME}, {"StreamName": NAME}, {"StreamARN": ARN}, {"StreamName": None}, {}]
)


@st.composite
def bodies(draw: Draw, operation: str) -> bytes:
    address = draw(addresses)
    value = (
        {**address, **draw(records)}
        if operation == "PutRecord"
        else {**address, "Records": draw(st.lists(records, max_size=3))}
    )
    text = written(draw, value)
    return text.encode("utf-8", "surrogatepass")


@settings(max_examples=300, deadline=None)
@given(bodies("PutRecord"))
def test_put_record_in_any_layout(twins: Twins, body: bytes):
    short, long = twins.ask("PutRecord", body)
    assert short == long


@settings(max_examples=300, deadline=None)
@given(bodies("PutRecords"))
def test_put_records_in_any_layout(twins: Twins, body: bytes):
    short, long = twins.ask("PutRecords", body)
    assert short == long


@pytest.mark.parametrize("text", ["QR==", "QUJ=", "QUF=", "Q/=="])
def test_base64_whose_last_bits_count_for_nothing_is_refused(twins: Twins, text: str):
    """Recorded by kinesalite from AWS, AWS's spelling included."""
    record = {"Data": text, "PartitionKey": "k"}
    for operation, body in (
        ("PutRecord", {"StreamName": NAME, **record}),
        ("PutRecords", {"StreamName": NAME, "Records": [{**record, "Data": "QUJD"}, record]}),
    ):
        short, long = twins.ask(operation, json.dumps(body).encode())
        assert short == long
        assert short[0] == 400
        assert b"Invalid last non-pad Base64 character dectected" in str(short).encode()


@pytest.mark.parametrize("text", ["QQ==", "QUI=", "", "QUJD", "Qw=="])
def test_base64_is_stored_as_strict_decoders_take_it(twins: Twins, text: str):
    record = {"Data": text, "PartitionKey": "k", "ExplicitHashKey": "0"}
    for body in (
        {"StreamName": NAME, **record},
        {"StreamName": NAME, "Records": [{**record, "Data": "QUJD"}, record]},
    ):
        operation = "PutRecords" if "Records" in body else "PutRecord"
        short, long = twins.ask(operation, json.dumps(body).encode())
        assert short == long
        assert short[0] == 200
    for cloud in (twins.short, twins.long):
        canonical = base64.b64encode(base64.b64decode(text)).decode()
        assert stored_texts(cloud, "0")[-1] == canonical


# --- CBOR -------------------------------------------------------------------------------------

odd_cbor = st.one_of(
    wrong,
    st.binary(max_size=4),
    st.text(max_size=4),
    st.just(cbor2.undefined),
    st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    st.just(cbor2.CBORTag(99, "x")),
)
good_cbor = st.fixed_dictionaries(
    {"Data": st.binary(max_size=300), "PartitionKey": texts},
    optional={"ExplicitHashKey": st.integers(0, (1 << 128) - 1).map(str)},
)
any_cbor = st.one_of(
    good_cbor,
    good_cbor,
    st.fixed_dictionaries(
        {},
        optional={
            "Data": st.one_of(st.binary(max_size=9), encoded, odd_cbor),
            "PartitionKey": st.one_of(texts, st.just(""), st.just("é" * 257), odd_cbor),
            "ExplicitHashKey": st.one_of(hash_keys, odd_cbor),
            "Colour": odd_cbor,
        },
    ),
)
cbor_addresses = st.one_of(
    addresses,
    st.sampled_from(
        [{"StreamName": NAME, "StreamARN": ARN}, {"StreamName": b"flights"}, {"StreamName": 1},
         {"StreamName": NAME, "DryRun": True}, {"StreamName": NAME, 1: 2}]
    ),
)  # fmt: skip


def endless(value: Any) -> bytes:
    """Return CBOR with lists, maps, texts and bytes of indefinite length, as some encoders write them."""
    if isinstance(value, dict):
        return (
            b"\xbf"
            + b"".join(endless(name) + endless(item) for name, item in value.items())
            + b"\xff"
        )
    if isinstance(value, list):
        return b"\x9f" + b"".join(map(endless, value)) + b"\xff"
    if isinstance(value, str | bytes) and len(value) > 1:
        parts = cbor2.dumps(value[:1]) + cbor2.dumps(value[1:])
        return (b"\x7f" if isinstance(value, str) else b"\x5f") + parts + b"\xff"
    return cbor2.dumps(value)


@settings(max_examples=250, deadline=None)
@given(any_cbor, cbor_addresses, st.booleans())
def test_put_record_in_cbor(twins: Twins, record: Any, address: Any, is_endless: bool):
    dump = endless if is_endless else cbor2.dumps
    short, long = twins.ask("PutRecord", dump({**address, **record}), CBOR)
    assert short == long


@settings(max_examples=250, deadline=None)
@given(st.lists(any_cbor, max_size=5) | odd_cbor, cbor_addresses, st.booleans())
def test_put_records_in_cbor(twins: Twins, entries: Any, address: Any, is_endless: bool):
    dump = endless if is_endless else cbor2.dumps
    short, long = twins.ask("PutRecords", dump({**address, "Records": entries}), CBOR)
    assert short == long


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.sampled_from(["PutRecord", "PutRecords", "GetRecords"]))
def test_bodies_that_are_no_cbor(twins: Twins, body: bytes, operation: str):
    short, long = twins.ask(operation, body, CBOR)
    assert short == long


def test_cbor_at_its_limits(twins: Twins):
    def ask_both(data: list[bytes], **more: Any) -> int:
        value = {
            "StreamName": NAME,
            "Records": [{"Data": each, "PartitionKey": "k", **more} for each in data],
        }
        short, long = twins.ask("PutRecords", cbor2.dumps(value), CBOR)
        assert short == long
        return short[0]

    mebibyte = 1024 * 1024
    assert ask_both([b"x" * mebibyte]) == 200
    assert ask_both([b"x" * (mebibyte + 1)]) == 400
    assert ask_both([b"x" * mebibyte] * 10) == 400
    assert ask_both([b""] * 500) == 200
    assert ask_both([b""] * 501) == 400
    assert ask_both([]) == 400
    assert ask_both([b""], ExplicitHashKey=str(1 << 128)) == 400


def test_both_ways_have_stored_the_same_records(twins: Twins):
    """Last of those that share the twins: all that the tests above have put, if this process ran them, and more."""
    for number in range(40):
        record = {"StreamName": NAME, "Data": "eA==", "PartitionKey": str(number)}
        twins.ask("PutRecord", json.dumps(record).encode())
    short, long = stored(twins.short), stored(twins.long)
    assert all(short)
    assert short == long
    for cloud in (twins.short, twins.long):
        for record in stored_texts(cloud):
            assert base64.b64encode(base64.b64decode(record)).decode() == record


def stored_texts(cloud: InProcessCloud, shards: str = "012") -> list[str]:
    """Return the data of all records as it stands in JSON answers: what a strict decoder is given."""
    client = cloud.client("kinesis")
    found: list[str] = []
    for shard in shards:
        iterator = client.get_shard_iterator(
            StreamName=NAME, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        body = json.dumps({"ShardIterator": iterator}).encode()
        _, answer = ask(cloud, "GetRecords", body, wire.JSON)
        found += [record["Data"] for record in answer["Records"]]
    return found


def test_an_encrypted_stream_says_so_in_cbor(tmp_path_factory: pytest.TempPathFactory):
    with twin_clouds(tmp_path_factory) as twins:
        answers: list[Any] = []
        for cloud in (twins.short, twins.long):
            client = cloud.client("kinesis")
            client.start_stream_encryption(
                StreamName=NAME, EncryptionType="KMS", KeyId="alias/aws/kinesis"
            )
            put = {"Data": b"x", "PartitionKey": "k"}
            one = ask(cloud, "PutRecord", cbor2.dumps({"StreamName": NAME, **put}), CBOR)
            two = ask(
                cloud, "PutRecords", cbor2.dumps({"StreamName": NAME, "Records": [put]}), CBOR
            )
            shard = one[1]["ShardId"]
            iterator = client.get_shard_iterator(
                StreamName=NAME, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            got = ask(cloud, "GetRecords", cbor2.dumps({"ShardIterator": iterator}), CBOR)
            assert one[1]["EncryptionType"] == two[1]["EncryptionType"] == "KMS"
            assert [record["EncryptionType"] for record in got[1]["Records"]] == ["KMS", "KMS"]
            answers.append((one, two, got))
        assert answers[0] == answers[1]
