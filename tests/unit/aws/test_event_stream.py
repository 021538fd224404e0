"""Event-stream messages, decoded by botocore."""

from __future__ import annotations

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from headrace.aws.protocols import encodings

NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=80)


@given(headers=st.dictionaries(NAMES, st.text(max_size=300), max_size=8), payload=st.binary())
def test_what_is_encoded_is_decoded(headers: dict[str, str], payload: bytes):
    buffer = EventStreamBuffer()
    buffer.add_data(encodings.encode(list(headers.items()), payload))
    (message,) = list(buffer)
    assert (message.headers, message.payload) == (headers, payload)


def test_messages_follow_each_other():
    buffer = EventStreamBuffer()
    buffer.add_data(encodings.event("a", b"1", "t") + encodings.exception("B", b"2", "t"))
    event, exception = [message.to_response_dict() for message in buffer]
    assert event["headers"] == {":message-type": "event", ":event-type": "a", ":content-type": "t"}
    assert exception["status_code"] == 400
    assert exception["headers"][":exception-type"] == "B"


@pytest.mark.parametrize("at", [0, 5, 9, 14, 40, -1])
def test_a_flipped_bit_is_noticed(at: int):
    message = bytearray(encodings.event("event", b"payload", "application/json"))
    message[at] ^= 1
    buffer = EventStreamBuffer()
    buffer.add_data(bytes(message))
    with pytest.raises(ChecksumMismatch):
        list(buffer)
