"""How long a client's connection may take until CONNECT, by a loop whose time is set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.clock import SystemClock
from headrace.services.iot.mqtt.access import Answers
from headrace.services.iot.mqtt.listener import MqttConnection

CONNECT = b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a"


class Loop:
    """A loop whose callbacks run when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Any:
        self.due.append((self.now_s + delay_s, work))
        return SimpleNamespace(cancel=lambda: None)

    def go_on(self, until_s: float) -> None:
        """Run what is due until a time."""
        while self.due and (first := min(self.due, key=lambda one: one[0]))[0] <= until_s:
            self.due.remove(first)
            self.now_s = first[0]
            first[1]()
        self.now_s = until_s


class Transport(asyncio.Transport):
    """Notes whether it was closed."""

    is_closed = False

    def write(self, data: Any) -> None:
        del data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def connection(loop: Loop) -> MqttConnection:
    listener: Any = SimpleNamespace(
        loop=loop, clock=SystemClock(), broker=SimpleNamespace(submit=lambda *_: None),
        opened=lambda _: True, waiting_bytes=0, is_full=False, is_throttled=False,
    )  # fmt: skip
    return MqttConnection(listener)


@pytest.mark.parametrize("start", [b"\x10", b"GET"])
def test_a_client_that_trickles_has_ten_seconds_until_connect(
    loop: Loop, connection: MqttConnection, start: bytes
) -> None:
    transport = Transport()
    connection.connection_made(transport)
    for at_s, byte in enumerate(start + bytes([0xFF, 0xFF, 0x01]) + b"a" * 20):
        if transport.is_closed:
            break
        connection.data_received(bytes([byte]))
        loop.go_on(at_s * 3.0)
    assert transport.is_closed
    assert loop.now_s <= 12.0


def test_a_client_that_connects_late_has_its_whole_keep_alive(
    loop: Loop, connection: MqttConnection
) -> None:
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(CONNECT[:1])
    loop.go_on(9.0)
    connection.data_received(CONNECT[1:])
    connection.keep_alive_s = 60
    connection.settle(Answers([b""], 1))
    loop.go_on(98.0)
    assert not transport.is_closed
    loop.go_on(100.0)
    assert transport.is_closed
