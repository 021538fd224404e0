"""KPL's format, by the bytes of its documentation, by headrace's other readers of it, and by damage."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.aggregation import MAGIC, UserRecord, aggregate, disaggregate
from headrace.services.firehose.processing import split_aggregate

_KEYS = st.text(
    st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=20
)  # no surrogates: they are no text
_RECORDS = st.lists(
    st.tuples(_KEYS, st.none() | st.integers(0, 2**128 - 1), st.binary(max_size=300)), min_size=1
)


@given(_RECORDS)
def test_what_is_put_in_comes_out(records: list[tuple[str, int | None, bytes]]):
    explicit = {
        i: str(hash_key) for i, (_, hash_key, _) in enumerate(records) if hash_key is not None
    }
    blob = aggregate([key for key, _, _ in records], [data for _, _, data in records], explicit)
    assert disaggregate(blob) == [
        UserRecord(key, None if hash_key is None else str(hash_key), data)
        for key, hash_key, data in records
    ]
    assert split_aggregate(blob) == [(key, data) for key, _, data in records]


def test_the_bytes_are_those_of_the_format():
    message = b"\x0a\x01k" + b"\x12\x011" + b"\x1a\x09" + b"\x08\x00\x10\x00\x1a\x03abc"
    blob = aggregate(["k"], [b"abc"], {0: "1"})
    assert blob == MAGIC + message + hashlib.md5(message).digest()


def test_more_keys_than_one_byte_counts():
    keys = [f"key-{i}" for i in range(300)]
    blob = aggregate(keys, [b"x" * 200] * 300, {})
    users = disaggregate(blob)
    assert users is not None
    assert [user.key for user in users] == keys


@pytest.mark.parametrize("damage", ["digest", "magic", "short", "message"])
def test_what_is_damaged_is_a_plain_record(damage: str):
    blob = bytearray(aggregate(["k"], [b"abc"], {}))
    if damage == "short":
        blob = blob[:12]
    else:
        blob[{"digest": -1, "magic": 0, "message": 8}[damage]] ^= 1
    assert disaggregate(bytes(blob)) is None


def test_a_message_that_cannot_be_read_is_a_plain_record():
    for message in (
        b"\x0a\x7fk",
        b"\x1a\x04\x08\x05\x1a\x00",
        b"\x22\x00",
        b"\x1a\x02\x08\x00",
        b"\x1a",
    ):
        assert disaggregate(MAGIC + message + hashlib.md5(message).digest()) is None


def test_tags_are_passed_over():
    tag = b"\x22\x05\x0a\x03tag"
    record = b"\x08\x00" + b"\x1a\x01x" + tag
    message = b"\x0a\x01k" + b"\x1a" + bytes((len(record),)) + record
    blob = MAGIC + message + hashlib.md5(message).digest()
    assert disaggregate(blob) == [UserRecord("k", None, b"x")]
