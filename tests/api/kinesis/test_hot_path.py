"""Usual requests, which take a short cut, get the answers of the actions, byte for byte where it matters."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.protocols.base64_texts import count_padding, is_base64
from headrace.services.kinesis.data_path import json_wire
from tests.api.kinesis.reference_model import ARN, NAME, Twins, ask, stored, twin_clouds
from tests.api.kinesis.test_cbor import CBOR


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twin_clouds(tmp_path_factory) as both:
        yield both


texts = st.text(max_size=20)
odd = st.one_of(st.none(), st.integers(-2, 3), st.booleans(), texts, st.lists(texts, max_size=2))
good_data = st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode())
data = st.one_of(
    good_data, good_data, st.text("AQgw+/= \n-_é", max_size=8), good_data.map(lambda t: t[:-1]), odd
)
keys = st.one_of(st.text(min_size=1, max_size=12), st.just("k" * 257), st.just(""), odd)
hash_keys = st.one_of(
    st.none(),
    st.integers(0, (1 << 128) - 1).map(str),
    st.sampled_from(["0", "00", "007", "-1", "+1", " 1", "1e3", "٣", str(1 << 128), "9" * 39, ""]),
    odd,
)


flaws = {
    "Data": data,
    "PartitionKey": keys,
    "ExplicitHashKey": hash_keys,
    "SequenceNumberForOrdering": st.sampled_from(["5", "x"]),
    "Unknown": odd,
}
sound_records = st.fixed_dictionaries(
    {"Data": good_data, "PartitionKey": st.text(min_size=1, max_size=12)},
    optional={"ExplicitHashKey": st.integers(0, (1 << 128) - 1).map(str)},
)


@st.composite
def flawed_records(draw: st.DrawFn) -> dict[str, Any]:
    """A sound record with one member replaced, or with several wrong or missing."""
    if draw(st.booleans()):
        member = draw(st.sampled_from(sorted(flaws)))
        return {**draw(sound_records), member: draw(flaws[member])}
    return draw(st.fixed_dictionaries({}, optional=flaws))


addresses = st.sampled_from(
    [
        {"StreamName": NAME},
        {"StreamName": NAME},
        {"StreamName": NAME},
        {"StreamARN": ARN},
        {"StreamName": NAME, "StreamARN": ARN},
        {"StreamName": "other", "StreamARN": ARN},
        {"StreamName": "nowhere"},
        {"StreamName": None},
        {"StreamName": "a b"},
        {"StreamARN": "arn:nonsense"},
        {"StreamName": NAME, "DryRun": True},
        {"StreamName": NAME, "Colour": "red"},
        {},
    ]
)


@settings(max_examples=150, deadline=None)
@given(sound_records, addresses)
def test_put_record_that_is_sound(twins: Twins, record: dict[str, Any], address: Any):
    short, long = twins.ask("PutRecord", json.dumps({**address, **record}).encode())
    assert short == long


@settings(max_examples=250, deadline=None)
@given(flawed_records(), addresses)
def test_put_record_with_anything_wrong(twins: Twins, record: dict[str, Any], address: Any):
    short, long = twins.ask("PutRecord", json.dumps({**address, **record}).encode())
    assert short == long


@settings(max_examples=150, deadline=None)
@given(st.lists(sound_records, max_size=8), addresses)
def test_put_records_that_are_sound(twins: Twins, entries: list[Any], address: Any):
    short, long = twins.ask("PutRecords", json.dumps({**address, "Records": entries}).encode())
    assert short == long


@settings(max_examples=250, deadline=None)
@given(st.lists(st.one_of(sound_records, flawed_records()), max_size=4) | odd, addresses)
def test_put_records_with_anything_wrong(twins: Twins, entries: Any, address: Any):
    short, long = twins.ask("PutRecords", json.dumps({**address, "Records": entries}).encode())
    assert short == long


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.sampled_from(["PutRecord", "PutRecords", "GetRecords"]))
def test_bodies_that_are_no_json(twins: Twins, body: bytes, operation: str):
    short, long = twins.ask(operation, body)
    assert short == long


@settings(max_examples=150, deadline=None)
@given(
    cbor=st.booleans(),
    shard=st.sampled_from(["0", "1", "2"]),
    limit=st.one_of(st.none(), st.integers(1, 9), odd),
    more=st.sampled_from([{}, {"StreamARN": ARN}, {"DryRun": True}, {"Colour": 1}]),
)
def test_get_records(twins: Twins, cbor: bool, shard: str, limit: Any, more: Any):
    answers: list[tuple[int, Any]] = []
    for cloud in (twins.short, twins.long):
        iterator = cloud.client("kinesis").get_shard_iterator(
            StreamName=NAME, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        value = {"ShardIterator": iterator, "Limit": limit, **more}
        body = cbor2.dumps(value) if cbor else json.dumps(value).encode()
        answers.append(ask(cloud, "GetRecords", body, CBOR if cbor else json_wire.JSON))
    assert answers[0] == answers[1]


def test_both_ways_have_stored_the_same_records(twins: Twins):
    """Last in this file: all that the tests above have put, if this process has run them, and a little more."""
    for number in range(40):
        record = {"StreamName": NAME, "Data": "eA==", "PartitionKey": str(number)}
        twins.ask("PutRecord", json.dumps(record).encode())
    short, long = stored(twins.short), stored(twins.long)
    assert all(short)
    assert short == long


ENDS = ["A==", "E==", "B==", "AE=", "AB=", "AAA", "=A=", "A=A", "===", "é=="]


@settings(max_examples=400)
@given(
    st.sampled_from(["A", "AAAAB", "=A=AA"]).flatmap(
        lambda begin: st.lists(
            st.sampled_from([begin + end for end in ENDS]), min_size=1, max_size=3
        )
    ),
    st.lists(good_data.filter(bool), max_size=1),
)
def test_base64_of_many_is_what_each_of_them_is(alike: list[str], others: list[str]) -> None:
    data = alike + others
    each = re.compile("[A-Za-z0-9+/]*(?:[AEIMQUYcgkosw048]=|[AQgw]==)?").fullmatch

    is_good = all(map(each, data))
    assert is_base64(data, set(map(len, data))) == is_good
    expected = "".join(data).count("=") if is_good else None
    assert count_padding(data, set(map(len, data))) == expected
