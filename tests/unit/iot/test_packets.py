"""MQTT packets: what is cut from any pieces, and what is refused. paho-mqtt reads and writes them in tests/api."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.iot.mqtt import packets
from headrace.services.iot.mqtt.packets import MqttError, PacketReader, Publish

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
CONNECT_5 = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01a"
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        packets.CONTENT_TYPE: st.text(
            st.characters(codec="utf-8", exclude_characters="\x00"), max_size=9
        ),
        packets.CORRELATION: st.binary(max_size=9),
        packets.EXPIRY_S: st.integers(0, 2**32 - 1),
        packets.USER: st.lists(st.just(["a", "b"]), min_size=1, max_size=3),
    },
)


@given(
    st.binary(max_size=400),
    st.integers(0, 1),
    st.booleans(),
    PROPERTIES,
    st.lists(st.integers(1, 30), max_size=30),
)
def test_a_message_survives_any_cutting(payload, qos, retain, properties, cuts):
    message = Publish("a/b", payload, qos, retain, packet_id=7 if qos else 0, properties=properties)
    data = CONNECT_5 + packets.publish(packets.V5, message)
    reader, found, at = PacketReader(10_000), [], 0
    for size in [*cuts, len(data)]:
        found += reader.feed(data[at : at + size])
        at += size
    assert found[1:] == [message]


@given(st.binary(max_size=80), st.sampled_from([CONNECT, CONNECT_5, b""]))
def test_no_bytes_break_the_reader(data, before):
    with contextlib.suppress(MqttError):
        PacketReader(10_000).feed(before + data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x30\x03\x00\x01a", packets.PROTOCOL),  # before CONNECT
        (CONNECT + CONNECT, packets.PROTOCOL),
        (
            b"\x10\x11\x00\x04MQTT\x05\x02\x00\x3c\x03\x21\x00\x00\x00\x01a",
            packets.PROTOCOL,
        ),  # Receive 0
        (
            b"\x10\x13\x00\x04MQTT\x05\x02\x00\x3c\x05\x27\x00\x00\x00\x00\x00\x01a",
            packets.PROTOCOL,
        ),  # Size 0
        (
            b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x02\x17\x02\x00\x01a",
            packets.PROTOCOL,
        ),  # no truth
        (CONNECT + b"\x34\x05\x00\x01a\x00\x01", packets.NO_QOS),
        (CONNECT + b"\x32\x05\x00\x01a\x00\x00", packets.PROTOCOL),  # no identifier
        (CONNECT + b"\x82\x02\x00\x01", packets.PROTOCOL),  # no filter
        (CONNECT + b"\x80\x06\x00\x01\x00\x01a\x01", packets.MALFORMED),  # flags
        (CONNECT + b"\x30\xff\xff\xff\xff\x01", packets.MALFORMED),
        (CONNECT + b"\x30\xff\xff\x7f", packets.TOO_LARGE),
        (CONNECT + b"\x30\x03\x00\x05a", packets.MALFORMED),
        (CONNECT + b"\x30\x03\x00\x01\xff", packets.MALFORMED),
        (b"\x10\x0d\x00\x04MQTT\x03\x02\x00\x3c\x00\x01a", packets.BAD_VERSION),
        (CONNECT_5 + b"\x30\x05\x00\x01a\x01\x63", packets.MALFORMED),  # property 99
        (CONNECT + b"\xf0\x00", packets.PROTOCOL),  # AUTH
    ],
)
def test_what_is_refused(data, code):
    with pytest.raises(MqttError) as error:
        PacketReader(10_000).feed(data)
    assert error.value.code == code
