"""A cloud with MQTT is killed: what a device's PUBACK acknowledged is in the rule's stream, and sessions stay."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from headrace.testing.waiting import records_of
from tests.support.server import ServerProcess, wait_until

pytestmark = pytest.mark.crash
BEFORE_KILL = 150
ROLE = "arn:aws:iam::000000000000:role/r"


class Publisher:
    """A device that publishes numbers one after the other, each once the one before is acknowledged or lost."""

    def __init__(self, port: int, client_id: str) -> None:
        self._numbers: dict[int, int] = {}
        # Of packets. paho calls back with a lock of its own held, under which nothing may wait for `publish`.
        self._acknowledged_ids: list[int] = []
        self._paho = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id)
        self._paho.on_publish = self._published
        self._paho.max_inflight_messages_set(20)
        self._paho.connect("127.0.0.1", port)
        self._paho.loop_start()

    def _published(self, _: Any, __: Any, mid: int, ___: Any, ____: Any) -> None:
        self._acknowledged_ids.append(mid)

    @property
    def acknowledged(self) -> set[int]:
        """The numbers whose messages the broker has acknowledged; for the thread that publishes."""
        return {self._numbers[mid] for mid in self._acknowledged_ids}

    def publish(self, number: int) -> None:
        mid = self._paho.publish("meter/1", json.dumps({"n": number}), 1).mid
        self._numbers[mid] = number

    def stop(self) -> None:
        self._paho.loop_stop()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_what_is_acknowledged_is_in_the_stream(tmp_path: Path, nightly: bool) -> None:
    port = free_port()
    options = ("--mqtt", "--mqtt-port", str(port), "--mqtt-tls-port", "0")
    acknowledged: set[int] = set()
    numbers = iter(range(1_000_000))
    with ServerProcess(tmp_path / "cloud", *options) as server:
        server.client("kinesis").create_stream(StreamName="meters", ShardCount=1)
        kinesis = {"streamName": "meters", "partitionKey": "${topic()}", "roleArn": ROLE}
        server.client("iot").create_topic_rule(
            ruleName="meters",
            topicRulePayload={"sql": "SELECT * FROM 'meter/+'", "actions": [{"kinesis": kinesis}]},
        )
        wait_until(lambda: listens(port), within_s=60, what="MQTT")
        sleeper = paho.Client(CallbackAPIVersion.VERSION2, client_id="s", clean_session=False)
        sleeper.connect("127.0.0.1", port)
        subscribed = threading.Event()
        sleeper.on_subscribe = lambda *_: subscribed.set()
        sleeper.subscribe("meter/1", 1)
        sleeper.loop_start()
        assert subscribed.wait(20)
        sleeper.disconnect()
        sleeper.loop_stop()
        for _ in range(6 if nightly else 1):
            publisher = Publisher(port, "p")

            def enough(publisher: Publisher = publisher) -> bool:
                for _ in range(10):
                    publisher.publish(next(numbers))
                return len(publisher.acknowledged) >= BEFORE_KILL

            wait_until(enough, within_s=60, what="acknowledgements")
            server.kill9()
            publisher.stop()
            acknowledged |= publisher.acknowledged
            server.start()
            wait_until(lambda: listens(port), within_s=60, what="MQTT")
        found: set[int] = set()

        def all_there() -> bool:
            found.update(json.loads(record.data)["n"] for record in records_of(server, "meters"))
            return acknowledged <= found

        wait_until(all_there, within_s=60, what="every acknowledged message in the stream")
        received: set[int] = set()
        sleeper.on_message = lambda _, __, m: received.add(json.loads(m.payload)["n"])
        sleeper.connect("127.0.0.1", port)
        sleeper.loop_start()
        wait_until(lambda: acknowledged <= received, within_s=60, what="the session's messages")
        sleeper.loop_stop()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
