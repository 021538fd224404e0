"""Usual requests, which take a short cut, get the answers of the actions, byte for byte where it matters."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.protocols.encodings import count_padding, is_base64
from headrace.cloud import server_for
from headrace.services.kinesis.data_path.put import size_bytes
from headrace.services.kinesis.data_path.wire import JSON
from tests.api.kinesis.reference_model import ARN, NAME, Twins, ask, stored, twin_clouds
from tests.api.kinesis.test_cbor import CBOR
from tests.api.kinesis.test_cbor import loads as loads_cbor
from tests.support.cloud import InProcessCloud
from tests.support.wire import Wire


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
        answers.append(ask(cloud, "GetRecords", body, CBOR if cbor else JSON))
    assert answers[0] == answers[1]


Put = tuple[bytes, str]  # a body and its Content-Type


def put_in_one_turn(cloud: InProcessCloud, puts: list[Put]) -> list[tuple[int, Any]]:
    """Send PutRecords over a connection each, all in one turn of the server's loop; return (status, answer) of each."""

    async def talk() -> list[bytes]:
        server = server_for(cloud.cloud)
        wires = [Wire(server) for _ in range(max(8, len(puts)))]
        for wire in wires[: len(puts)]:
            # The first request of a connection is never put off.
            wire.send(b"GET /_headrace/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not all(wire.took for wire in wires[: len(puts)]):
            await asyncio.sleep(0.001)
        for (body, kind), wire in zip(puts, wires, strict=False):
            wire.took = b""
            wire.send(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: Kinesis_20131202.PutRecord\r\n"
                b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
                % (kind.encode(), len(body), body)
            )
        while not all(wire.took for wire in wires[: len(puts)]):
            await asyncio.sleep(0.001)
        return [wire.took for wire in wires[: len(puts)]]

    answers = asyncio.run(talk())
    loads = [loads_cbor if kind == CBOR else json.loads for _, kind in puts]
    return [
        (int(took[9:12]), load(took.partition(b"\r\n\r\n")[2]))
        for load, took in zip(loads, answers, strict=True)
    ]


def cbor_of(request: dict[str, Any]) -> bytes:
    """Return a request in CBOR, with the data as bytes if they are base64."""
    try:
        return cbor2.dumps({**request, "Data": base64.b64decode(request["Data"], validate=True)})
    except (KeyError, TypeError, ValueError):
        return cbor2.dumps(request)


requests = st.builds(
    lambda record, address: {**address, **record},
    st.one_of(sound_records, sound_records, flawed_records()),
    addresses,
)
puts_of_any_form = st.one_of(
    requests.map(lambda request: (json.dumps(request).encode(), JSON)),
    requests.map(lambda request: (cbor_of(request), CBOR)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(puts_of_any_form, max_size=12))
def test_puts_of_one_turn(twins: Twins, puts: list[Put]):
    alone = [ask(twins.long, "PutRecord", *put) for put in puts]
    assert put_in_one_turn(twins.short, puts) == alone


def test_puts_of_one_turn_share_one_write(twins: Twins, monkeypatch: pytest.MonkeyPatch):
    record = {"StreamName": NAME, "Data": "eA==", "PartitionKey": "k"}
    puts = [(json.dumps(record).encode(), JSON), (cbor_of(record), CBOR)] * 6
    writes: list[int] = []
    write = os.pwrite
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", lambda *given: writes.append(1) or write(*given))
        answers = put_in_one_turn(twins.short, puts)
    assert len(writes) == 1
    assert answers == [ask(twins.long, "PutRecord", *put) for put in puts]


def test_puts_of_one_turn_on_a_full_disk(twins: Twins, monkeypatch: pytest.MonkeyPatch):
    """The write that they share fails; each is put again by itself, and told what it would have been told."""

    def fail(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record = {"StreamName": NAME, "Data": "eA==", "PartitionKey": "k"}
    puts = [(json.dumps(record).encode(), JSON)] * 3
    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", fail)
        alone = [ask(twins.long, "PutRecord", *put) for put in puts]
        assert put_in_one_turn(twins.short, puts) == alone
    assert [status for status, _ in alone] == [500, 500, 500]


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


@given(st.lists(st.tuples(st.binary(max_size=400), st.text(min_size=1, max_size=5)), min_size=1))
def test_the_size_of_many_is_the_sum_of_each(records: list[tuple[bytes, str]]) -> None:
    texts = [base64.b64encode(blob).decode() for blob, _ in records]
    keys = [key for _, key in records]

    assert size_bytes(texts, keys) == sum(len(blob) + len(key.encode()) for blob, key in records)
