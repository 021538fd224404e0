"""MQTT: what one client may send, what waits for one that does not read, and what a restart keeps."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.services.iot import rules
from headrace.services.iot.mqtt import broker as broker_module
from headrace.services.iot.mqtt import listener as listener_module
from headrace.services.iot.mqtt import messages, packets, sessions
from headrace.services.iot.mqtt.broker import Broker
from headrace.services.iot.mqtt.messages import Retained, SessionStore
from headrace.services.iot.mqtt.packets import Publish
from headrace.services.iot.mqtt.sessions import Queued, Session, Subscription, Subscriptions
from headrace.store.database import Database
from tests.api.iot.devices import WITHIN_S, TestDevice
from tests.support.clock import HandClock
from tests.support.cloud import InProcessCloud
from tests.support.server import wait_until

OPTIONS = {"mqtt": True, "mqtt_port": 0, "mqtt_tls_port": 0, "limits": "aws"}


def test_aws_rates_waiting_messages_and_a_restart(tmp_path: Path):
    clock = HandClock()
    with InProcessCloud(tmp_path / "data", clock=clock, **OPTIONS) as cloud:
        cloud.cloud.start_devices()
        with TestDevice(cloud, "fast", version=5) as device:
            device.publish("kept", "x", retain=True)
            infos = [device.paho.publish("t", "x", 1) for _ in range(150)]
            wait_until(
                lambda: all(info.mid in device.acknowledged for info in infos),
                within_s=WITHIN_S,
                what="150 answers",
            )
            refused = [info for info in infos if device.reasons[info.mid] == 0x97]
            assert len(refused) == 51
            clock.advance(2)
            # While rules' deliveries pile up, nothing is acknowledged.
            broker = cloud.cloud.mqtt.broker
            has_room, broker._has_room = broker._has_room, lambda: False
            held = device.paho.publish("t", "x", 1)
            device.paho.publish("t", "x", 0)
            assert held.mid not in device.acknowledged
            broker._has_room = has_room
            wait_until(lambda: held.mid in device.acknowledged, within_s=WITHIN_S, what="PUBACK")
        asleep = TestDevice(cloud, "asleep", is_clean=False)
        asleep.subscribe("kept")
        asleep.close()
        cloud.client("iot-data").publish(topic="kept", qos=1, payload=b"later")
    with InProcessCloud(tmp_path / "data", clock=clock, **OPTIONS) as cloud:
        cloud.cloud.start_devices()
        with TestDevice(cloud, "asleep", is_clean=False) as awake:
            assert awake.is_present
            wait_until(
                lambda: ("kept", b"later", False) in awake.messages,
                within_s=WITHIN_S,
                what="the message",
            )
        assert cloud.client("iot-data").get_retained_message(topic="kept")["payload"] == b"x"
        wait_until(lambda: "asleep" not in names(cloud, connected=True), what="the goodbye")
        clock.advance(3601)
        with TestDevice(cloud, "other") as other:
            other.publish("unseen", "x")
        wait_until(lambda: "asleep" not in names(cloud), within_s=WITHIN_S, what="the expiry")


def names(cloud: InProcessCloud, *, connected: bool = False) -> set[str]:
    """Return the client ids whose sessions exist, or only those of connected clients."""
    sessions = list(cloud.cloud.mqtt.broker._sessions.values())
    return {each.client_id for each in sessions if each.receiver is not None or not connected}


def test_what_waits_for_one_client_is_bounded(caplog: pytest.LogCaptureFixture):
    session = Session(("a", "r"), "c", 60)
    message = Publish("t", b"x" * 1024 * 1024, 1)
    accepted = [session.add(Queued(message, 0)) for _ in range(100)]
    assert accepted.count(True) == sessions.MOST_WAITING_BYTES // (1024 * 1024)
    assert [record.message for record in caplog.records] == [
        "messages for the MQTT client a/r/c are dropped: too many wait"
    ]


def test_what_a_client_does_not_acknowledge_counts():
    receiver = SimpleNamespace(version=4, is_congested=False, receive_maximum=100)
    session = Session(("a", "r"), "c", 60, receiver=receiver)
    message = Publish("t", b"x" * (sessions.MOST_WAITING_BYTES // 2), 1)
    for _ in range(2):
        assert session.add(Queued(message, 0))
    assert len(session.take(0)[0]) == 2
    assert not session.add(Queued(message, 0))
    session.land()
    assert not session.add(Queued(message, 0))
    first, _ = session.take(0)[0]
    session.acknowledge(first.packet_id)
    assert session.add(Queued(message, 0))
    session.acknowledge(first.packet_id)
    assert session.of_all.size_bytes == session.waiting_bytes == sessions.MOST_WAITING_BYTES
    session.clear()
    assert session.of_all.size_bytes == 0


def test_what_is_retained_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(messages, "MOST_RETAINED", 2)
    retained = Retained(SessionStore(Database(tmp_path / "state.sqlite")))
    for number in (1, 2, 3, 1):
        retained.retain(("a", "r"), Publish(f"t{number}", b"x"), 1, 0)
    assert [each["topic"] for each in retained.listed(("a", "r"), 2)] == ["t1", "t2"]
    retained.retain(("a", "r"), Publish("t2", b""), 1, 0)
    retained.retain(("a", "r"), Publish("t3", b"x"), 1, 0)
    assert [each["topic"] for each in retained.listed(("a", "r"), 2)] == ["t1", "t3"]
    assert len(caplog.records) == 1


def test_what_cannot_be_stored_is_not_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        broker = cloud.cloud.mqtt.broker
        device = TestDevice(cloud, "d", version=5)
        change = broker._change

        def fail(_: object) -> None:
            broker._change = change
            raise OSError(28, "No space left on device")

        broker._change = fail
        info = device.paho.publish("t", "x", 1)
        assert device.wait_for_end() == 0x80
        assert info.mid not in device.acknowledged
        with TestDevice(cloud, "d", version=5) as again:
            assert again.publish("t", "x") == 0
        listener = cloud.cloud.mqtt.listener
        assert listener is not None
        assert listener.waiting_bytes == 0
    assert "is not stored" in caplog.text


def test_a_defect_disconnects_only_the_client_that_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    publish = rules.publish

    def fail(account: str, region: str, topic: str, payload: bytes, **more: object) -> None:
        if topic == "defect":
            raise ZeroDivisionError("a defect")
        publish(account, region, topic, payload, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(rules, "publish", fail)
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        broker = cloud.cloud.mqtt.broker
        bad = TestDevice(cloud, "bad", version=5)
        with TestDevice(cloud, "good", version=5) as good:
            has_room, broker._has_room = broker._has_room, lambda: False
            unanswered = bad.paho.publish("defect", "x", 1)
            held = good.paho.publish("t", "x", 1)
            wait_until(lambda: len(broker._work) == 2, within_s=WITHIN_S, what="both in one round")
            broker._has_room = has_room
            assert bad.wait_for_end() == 0x80
            wait_until(lambda: held.mid in good.acknowledged, within_s=WITHIN_S, what="PUBACK")
            assert not good.ends
        assert unanswered.mid not in bad.acknowledged
    assert "a defect" in caplog.text


def test_who_waited_for_others_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listener_module, "_MOST_BYTES_OF_ALL", 10)
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        broker = cloud.cloud.mqtt.broker
        with TestDevice(cloud, "first") as first, TestDevice(cloud, "second") as second:
            has_room, broker._has_room = broker._has_room, lambda: False
            for count, device in enumerate((first, second), 1):
                device.paho.publish("t", b"x" * 20, 1)
                wait_until(
                    lambda count=count: len(broker._work) == count, within_s=WITHIN_S, what="it"
                )
            # The first one's answer comes while the second one's bytes still count.
            broker._has_room = has_room
            for device in (second, first):
                device.publish("t", "x")


def test_a_client_that_does_not_read_is_not_read(tmp_path: Path):
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        listener = cloud.cloud.mqtt.listener
        assert listener is not None
        with TestDevice(cloud, "idle") as device:
            (connection,) = listener.clients
            # As asyncio does when the client leaves too many answers unread.
            listener.loop.call_soon_threadsafe(connection.pause_writing)
            wait_until(
                lambda: not connection._transport.is_reading(), within_s=WITHIN_S, what="the pause"
            )
            info = device.paho.publish("t", "x", 1)
            listener.loop.call_soon_threadsafe(connection.resume_writing)
            wait_until(lambda: info.mid in device.acknowledged, within_s=WITHIN_S, what="PUBACK")


def test_a_client_that_is_lost_while_nothing_can_be_stored_leaves(tmp_path: Path):
    clock = HandClock()
    options = {"mqtt": True, "mqtt_port": 0, "mqtt_tls_port": 0, "clock": clock}
    with InProcessCloud(tmp_path / "data", **options) as cloud:
        cloud.cloud.start_devices()
        broker = cloud.cloud.mqtt.broker
        with TestDevice(cloud, "watcher") as watcher:
            watcher.subscribe("wills/+")
            lost = TestDevice(cloud, "lost", will=("wills/lost", "gone"))
            change = broker._change

            def fail(_: object) -> None:
                broker._change = change
                raise OSError(28, "No space left on device")

            broker._change = fail
            lost.break_off()
            wait_until(
                lambda: "lost" not in names(cloud, connected=True),
                within_s=WITHIN_S,
                what="the end of the connection",
            )
            # Until the worker waits for the clock, it does not see it move.
            wait_until(
                lambda: clock.advance(2) or watcher.messages, within_s=WITHIN_S, what="the will"
            )
            assert watcher.wait_for(1) == [("wills/lost", b"gone", False)]
            wait_until(lambda: "lost" not in names(cloud), within_s=WITHIN_S, what="the end")


def test_a_session_is_taken_up_again_when_there_may_be_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broker_module, "_MOST_SESSIONS", 1)
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        TestDevice(cloud, "first", version=5, is_clean=False, expiry_s=600).close()
        other = TestDevice(cloud, "second", version=5, is_refused=True)
        assert other.refusal == 0x89
        with TestDevice(cloud, "first", version=5, is_clean=False, expiry_s=600) as again:
            assert again.is_present


def test_what_one_round_has_of_best_effort_messages_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(messages, "_MOST_BEST_EFFORT_BYTES", 100)
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        broker = cloud.cloud.mqtt.broker
        with TestDevice(cloud, "reader") as reader, TestDevice(cloud, "writer") as writer:
            reader.subscribe("t/+", qos=0)
            has_room, broker._has_room = broker._has_room, lambda: False
            for number in range(9):
                writer.paho.publish(f"t/{number}", b"x" * 40, 0)
            wait_until(lambda: len(broker._work) == 9, within_s=WITHIN_S, what="one round")
            broker._has_room = has_room
            assert len(reader.wait_for(2)) == 2
            # The next round has its own.
            writer.publish("t/last", b"x" * 40)
            assert [topic for topic, _, _ in reader.wait_for(3)] == ["t/0", "t/1", "t/last"]
    assert caplog.text.count("are dropped: too many come at once") == 1


def test_a_flood_by_one_client_starves_nobody(tmp_path: Path):
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        listener = cloud.cloud.mqtt.listener
        assert listener is not None
        stop = threading.Event()
        packet = packets.publish(4, Publish("flood", b"x" * 1000, 0)) * 500
        with (
            TestDevice(cloud, "good") as good,
            TestDevice(cloud, "flood") as bad,
            socket.create_connection(("127.0.0.1", listener.port)) as flood,
        ):
            flood.sendall(bytes([0x10, 14]) + b"\0\4MQTT\4\2\0\0\0\2ff")
            assert flood.recv(4) == b"\x20\2\0\0"

            def send() -> None:
                while not stop.is_set():
                    flood.sendall(packet)

            sending = threading.Thread(target=send)
            sending.start()
            try:
                # What waits of one client is at most what it may have in flight: the others come in between.
                for number in range(30):
                    assert good.publish("calm", str(number)) == 0
                assert not good.ends
                assert not bad.ends
            finally:
                stop.set()
                sending.join()


def test_a_client_gets_nothing_larger_than_it_takes(tmp_path: Path):
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        with TestDevice(cloud, "small", version=5, largest_packet=100) as device:
            device.subscribe("t")
            for qos in (0, 1):
                for payload in (b"x" * 100, b"small%d" % qos):
                    cloud.client("iot-data").publish(topic="t", payload=payload, qos=qos)
            assert [payload for _, payload, _ in device.wait_for(2)] == [b"small0", b"small1"]
            session = next(iter(cloud.cloud.mqtt.broker._sessions.values()))
            wait_until(lambda: session.waiting_bytes == 0, within_s=WITHIN_S, what="no debt")


def test_a_shadow_reviews_no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reviews: list[int] = []
    monkeypatch.setattr(Broker, "_review", lambda _: reviews.append(1))
    with InProcessCloud(tmp_path / "data", mqtt=True, mqtt_port=0, mqtt_tls_port=0) as cloud:
        cloud.cloud.start_devices()
        cloud.client("iot").create_thing(thingName="t")
        with TestDevice(cloud, "t") as device:
            wait_until(lambda: bool(reviews), within_s=WITHIN_S, what="the review of the new thing")
            count = len(reviews)
            device.publish("$aws/things/t/shadow/update", {"state": {"reported": {"a": 1}}})
            cloud.client("iot-data").update_thing_shadow(
                thingName="t", payload='{"state": {"desired": {"a": 2}}}'
            )
            device.publish("t", "x")
            assert len(reviews) == count


def test_filters_match_as_mqtt_says():
    tree = Subscriptions()
    filters = ["a/b", "a/+", "a/#", "#", "+/b", "a/b/#", "$aws/#", "b"]
    for name in filters:
        tree.add(name, Session(("a", "r"), name), Subscription(1))
    matches = {
        topic: {each.client_id for each in tree.match(topic)}
        for topic in ("a/b", "a", "$aws/x", "b")
    }
    assert matches == {
        "a/b": {"a/b", "a/+", "a/#", "#", "+/b", "a/b/#"},
        "a": {"a/#", "#"},
        "$aws/x": {"$aws/#"},
        "b": {"#", "b"},
    }
    one = next(each for each in tree.match("b") if each.client_id == "b")
    tree.remove("b", one)
    assert {each.client_id for each in tree.match("b")} == {"#"}
