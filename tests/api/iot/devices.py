"""A device for tests: a client of paho-mqtt on a thread of its own, whose messages and refusals are lists."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any, Literal, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

WITHIN_S = 20


class TestDevice:
    """A connected device; a context manager that disconnects it.

    Attributes:
        messages: the (topic, payload, retained) that it got.
        ends: the reason codes of the connections that ended.
    """

    __test__ = False

    def __init__(
        self,
        cloud: InProcessCloud,
        client_id: str,
        *,
        version: int = 4,
        is_clean: bool = True,
        tls: ssl.SSLContext | None = None,
        will: tuple[str, str] | None = None,
        expiry_s: int = 0,
        is_refused: bool = False,
        keep_alive_s: int = 60,
        largest_packet: int = 0,
        transport: Literal["tcp", "websockets"] = "tcp",
        target: str = "/mqtt",
    ) -> None:
        self.messages: list[tuple[str, bytes, bool]] = []
        self.ends: list[int] = []
        self.answers: list[Any] = []
        self.acknowledged: set[int] = set()
        self.reasons: dict[int, int] = {}
        self._granted: dict[int, list[int]] = {}
        kept = {} if version == 5 else {"clean_session": is_clean}
        self.paho = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTProtocolVersion(version),
            reconnect_on_failure=False,
            transport=transport,
            **kept,
        )
        if transport == "websockets":
            self.paho.ws_set_options(path=target)
        self.paho.on_message = lambda _, __, m: self.messages.append((m.topic, m.payload, m.retain))
        self.paho.on_disconnect = lambda *a: self.ends.append(a[3].value)
        self.paho.on_connect = lambda *a: self.answers.append(a)
        self.paho.on_publish = self._published
        self.paho.on_subscribe = self._subscribed
        if will is not None:
            self.paho.will_set(*will, qos=1)
        listener = cloud.cloud.mqtt.listener
        assert listener is not None
        if tls is not None:
            self.paho.tls_set_context(tls)
        properties = None
        more: dict[str, Any] = {}
        if version == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
            if largest_packet:
                properties.MaximumPacketSize = largest_packet
            more = {"clean_start": is_clean, "properties": properties}
        self.paho.connect(
            "localhost" if tls is not None else "127.0.0.1",
            listener.tls_port if tls is not None else listener.port,
            keep_alive_s,
            **more,
        )
        self.paho.loop_start()
        wait_until(lambda: bool(self.answers or self.ends), within_s=WITHIN_S, what="CONNACK")
        assert is_refused or not self.answers[0][3].is_failure, self.answers

    @property
    def is_present(self) -> bool:
        """Whether the broker had a session of this client."""
        return bool(self.answers[-1][2].session_present)

    @property
    def refusal(self) -> int:
        """The reason code of the answer to CONNECT."""
        return self.answers[0][3].value

    def _published(self, _: Any, __: Any, number: int, reason: Any, ___: Any) -> None:
        self.reasons[number] = reason.value
        self.acknowledged.add(number)

    def _subscribed(self, _: Any, __: Any, number: int, codes: Any, ___: Any) -> None:
        self._granted[number] = [code.value for code in codes]

    def subscribe(self, topic_filter: str, qos: int = 1) -> int:
        """Subscribe; return the code of the answer."""
        number = self.paho.subscribe(topic_filter, qos)[1]
        wait_until(lambda: number in self._granted, within_s=WITHIN_S, what="SUBACK")
        return self._granted[number][0]

    def publish(self, topic: str, payload: Any, qos: int = 1, *, retain: bool = False) -> int:
        """Publish, and wait for the acknowledgement; return its reason code."""
        text = payload if isinstance(payload, bytes | str) else json.dumps(payload)
        info = self.paho.publish(topic, text, qos, retain)
        wait_until(lambda: info.mid in self.acknowledged, within_s=WITHIN_S, what="PUBACK")
        return self.reasons[info.mid]

    def wait_for(self, count: int) -> list[tuple[str, bytes, bool]]:
        """Return the messages, once there are `count`."""
        wait_until(lambda: len(self.messages) >= count, within_s=WITHIN_S, what=f"{count} messages")
        return self.messages

    def wait_for_end(self) -> int:
        """Return why the broker ended the connection, once it did."""
        wait_until(lambda: bool(self.ends), within_s=WITHIN_S, what="the end of a connection")
        self.paho.loop_stop()
        return self.ends[0]

    def break_off(self) -> None:
        """End the connection without DISCONNECT."""
        self.paho.loop_stop()
        self.paho.socket().close()

    def close(self) -> None:
        """Disconnect."""
        self.paho.disconnect()
        self.paho.loop_stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tls_of(folder: Path, data_dir: Path, keys: Any) -> ssl.SSLContext:
    """Return a device's TLS: what CreateKeysAndCertificate returned, and trust in the cloud."""
    context = ssl.create_default_context(cafile=str(data_dir / "tls" / "trusted.pem"))
    if keys is not None:
        both = folder / f"{keys['certificateId'][:8]}.pem"
        both.write_text(keys["certificatePem"] + keys["keyPair"]["PrivateKey"])
        context.load_cert_chain(both)
    return context
