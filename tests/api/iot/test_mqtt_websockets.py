"""MQTT over WebSocket: who may open one, and what ends it."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import WebsocketConnectionError

from headrace.aws.calls.http import HttpRequest
from tests.api.iot.devices import WITHIN_S, TestDevice
from tests.api.iot.test_mqtt import cloud as cloud  # a fixture
from tests.support.cloud import InProcessCloud
from tests.support.http_server import serving
from tests.support.server import wait_until

MQTT = "Sec-WebSocket-Protocol: mqtt"


def handshake(target: str = "/mqtt", *lines: str) -> bytes:
    """Return the request that opens a WebSocket."""
    head = [
        f"GET {target} HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
        *(lines or [MQTT]),
    ]  # fmt: skip
    return "\r\n".join([*head, "", ""]).encode()


@pytest.mark.parametrize("version", [4, 5])
def test_mqtt_over_websocket(cloud: InProcessCloud, version: int):
    with (
        TestDevice(cloud, "socket", version=version, transport="websockets") as device,
        TestDevice(cloud, "plain") as plain,
    ):
        assert device.subscribe("ws/#") == 1
        for size in (0, 1, 125, 126, 70_000, 128 * 1024):
            assert plain.publish("ws/in", b"x" * size) == 0
        assert [len(payload) for _, payload, _ in device.wait_for(6)] == [
            0,
            1,
            125,
            126,
            70_000,
            131_072,
        ]
        assert device.publish("ws/out", b"y" * 100_000) == 0
        assert len(device.wait_for(7)[6][1]) == 100_000
        # A topic too deep ends it, as without WebSocket.
        device.paho.publish("a/b/c/d/e/f/g/h/i", "x")
        device.wait_for_end()


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        (handshake("/other"), b"404", b"has the path /mqtt"),
        (handshake("/mqtt", "Sec-WebSocket-Protocol: wamp"), b"400", b"the subprotocol mqtt"),
        (handshake("/mqtt", MQTT, "Origin: https://evil.example"), b"403", b""),
        # A page whose name an attacker has let point here.
        (handshake("/mqtt", MQTT, "Origin: http://evil").replace(b": localhost", b": evil"), b"4", b""),
        (b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n", b"4", b""),
        (b"GET " + b"/" * 100_000, b"4", b""),
        (handshake("/mqtt", MQTT, "Sec-WebSocket-Extensions: \xff"), b"400", b""),
        (handshake().replace(b": localhost", b": \xff"), b"400", b""),
    ],
)  # fmt: skip
def test_a_websocket_that_is_none_or_foreign_is_refused(
    cloud: InProcessCloud, request_: bytes, status: bytes, sentence: bytes
):
    listener = cloud.cloud.mqtt.listener
    assert listener is not None
    with socket.create_connection(("127.0.0.1", listener.port)) as plain:
        plain.sendall(request_)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := plain.recv(4096):
                answer += part
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert sentence in answer


@pytest.mark.parametrize("host", ["localhost", "open-to-all.s3.localhost"])
def test_a_bucket_s_cors_rules_let_no_page_open_a_websocket(cloud: InProcessCloud, host: str):
    s3, listener = cloud.client("s3"), cloud.cloud.mqtt.listener
    assert listener is not None
    rule = {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]}
    for bucket in ("mqtt", "open-to-all"):
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    try:
        with socket.create_connection(("127.0.0.1", listener.port)) as plain:
            request = handshake("/mqtt", MQTT, "Origin: https://evil.example")
            plain.sendall(request.replace(b": localhost", f": {host}".encode()))
            assert plain.recv(4096).startswith(b"HTTP/1.1 403")
    finally:
        for bucket in ("mqtt", "open-to-all"):
            s3.delete_bucket(Bucket=bucket)


def test_custom_authorizers_are_refused_by_name(cloud: InProcessCloud):
    user = "me?x-amz-customauthorizer-name=mine"
    device = TestDevice(cloud, "custom", version=5, user=user, is_refused=True)
    assert device.refusal == 0x87
    assert device.answers[0][4].ReasonString == "headrace has no custom authorizers"
    # What AWS's SDKs say of themselves is no authorizer.
    TestDevice(cloud, "sdk", version=5, user="?SDK=Python&Version=1.31").close()
    target = "/mqtt?x-amz-customauthorizer-name=mine"
    with pytest.raises(WebsocketConnectionError):
        TestDevice(cloud, "custom", transport="websockets", target=target)


def test_what_is_no_mqtt_in_a_websocket_ends_it(cloud: InProcessCloud):
    listener = cloud.cloud.mqtt.listener
    assert listener is not None
    # A text; a frame without a mask; a packet before CONNECT.
    for frame in (b"\x81\x81\0\0\0\0a", b"\x82\x01a", b"\x82\x82\0\0\0\0\xc0\x00"):
        with socket.create_connection(("127.0.0.1", listener.port)) as plain:
            # In pieces, as a network may cut it.
            request = handshake()
            plain.sendall(request[:1])
            plain.sendall(request[1:])
            assert b"101" in plain.recv(4096)
            plain.sendall(frame)
            rest = b"".join(iter(lambda: plain.recv(4096), b""))
            # A frame that closes.
            assert b"\x88" in rest


def test_a_websocket_that_ends_with_its_last_packet_ends_in_order(
    cloud: InProcessCloud, caplog: pytest.LogCaptureFixture
):
    listener = cloud.cloud.mqtt.listener
    assert listener is not None
    connect = b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01w"
    with socket.create_connection(("127.0.0.1", listener.port)) as plain:
        plain.sendall(handshake())
        assert b"101" in plain.recv(4096)
        plain.sendall(b"\x82" + bytes([0x80 | len(connect)]) + bytes(4) + connect)
        assert plain.recv(4096) == b"\x82\x04\x20\x02\0\0"
        # PINGREQ and the frame that closes, at once.
        plain.sendall(b"\x82\x82\0\0\0\0\xc0\x00" + b"\x88\x82\0\0\0\0\x03\xe8")
        assert b"".join(iter(lambda: plain.recv(4096), b"")) == b"\x88\x02\x03\xe8"
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_connect_in_pieces_is_no_websocket(cloud: InProcessCloud):
    listener = cloud.cloud.mqtt.listener
    assert listener is not None
    with socket.create_connection(("127.0.0.1", listener.port)) as plain:
        plain.sendall(b"\x10\x10\0\x04MQTT\x04\x02\0\0\0\x04")
        accepted = listener.clients
        wait_until(
            lambda: any(client._reader.has_begun for client in list(accepted)),
            within_s=WITHIN_S,
            what="the first bytes",
        )
        plain.sendall(b"GET1")
        assert plain.recv(4096) == b"\x20\x02\0\0"


@pytest.mark.parametrize("options", [{}, {"auth": True}])
def test_websockets_to_the_port_of_aws_are_refused_by_name(tmp_path: Path, options: dict[str, Any]):
    scope = "AKIDEXAMPLE%2F20261127%2Fus-east-1%2Fiotdevicegateway%2Faws4_request"
    query = (
        f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={scope}&X-Amz-Date=20261127T120000Z"
        "&X-Amz-SignedHeaders=host&X-Amz-Signature=00"
    )
    head = (
        f"GET /mqtt?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    with InProcessCloud(tmp_path / "data", **options) as cloud:
        with (
            serving(cloud.cloud.handle, tmp_path, refuse=cloud.cloud.entrance.refuse) as port,
            socket.create_connection(("127.0.0.1", port)) as plain,
        ):
            plain.sendall(head.encode())
            answer = plain.recv(4096)
            while b":8883/mqtt" not in answer:
                piece = plain.recv(4096)
                assert piece, answer
                answer += piece
        bucket = cloud.handle(HttpRequest("GET", "/mqtt", "", {"host": "localhost"}))
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b"<Code>NotImplemented</Code>" in answer
    assert bucket.status != 501
