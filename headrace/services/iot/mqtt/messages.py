"""What the broker sends to clients: messages for those who asked for their topics, and the answers of a round.

Whoever uses `Messages` holds moto's lock, and stores what it has noted before the answers go out.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from headrace.core.clock import Clock
from headrace.services.iot.mqtt import packets, topics
from headrace.services.iot.mqtt.access import DeviceAccess
from headrace.services.iot.mqtt.clients import Answers, Client
from headrace.services.iot.mqtt.packets import MqttError, Publish
from headrace.services.iot.mqtt.sessions import (
    Place,
    Queued,
    Session,
    Subscription,
    Subscriptions,
    Waiting,
)
from headrace.services.iot.mqtt.store import Retained, SessionStore

log = logging.getLogger(__name__)

_MOST_FILTERS_AT_ONCE, _MOST_FILTERS = 8, 50
# What one round may have of messages of QoS 0 for one client, and for all of them.
_MOST_BEST_EFFORT_BYTES, _MOST_BEST_EFFORT_BYTES_OF_ALL = 4 << 20, 128 << 20


class Messages:
    """The subscriptions and retained messages of a cloud, and what this round sends.

    Attributes:
        waiting: what waits for all clients together.
        retained: the message that each topic retains.
    """

    def __init__(self, store: SessionStore, access: DeviceAccess, clock: Clock) -> None:
        self.waiting, self.retained = Waiting(), Retained(store)
        self._store, self._access, self._clock = store, access, clock
        self._subscriptions: dict[Place, Subscriptions] = {}
        self._answers: dict[Client, Answers] = {}
        # Of this round, for all clients; and whether the log has named what was dropped.
        self._best_effort_bytes, self._has_dropped = 0, False

    def answer(self, client: Client) -> Answers:
        """Return what this round has for a client."""
        return self._answers.setdefault(client, Answers())

    def take_answers(self) -> dict[Client, Answers]:
        """Return what the round has for its clients, and begin the next one."""
        answers, self._answers = self._answers, {}
        self._best_effort_bytes, self._has_dropped = 0, False
        return answers

    # --- messages -----------------------------------------------------------------------------

    def deliver(self, home: Place, message: Publish, publisher: str) -> None:
        """Give a message to those who asked for its topic; a retained one also waits for those who ask later."""
        now_ms = self._clock.now_ms()
        expiry_s = message.properties.get(packets.EXPIRY_S)
        expires_ms = 0 if expiry_s is None else now_ms + expiry_s * 1000
        if message.retain:
            self.retained.retain(home, message, now_ms, expires_ms)
        for session, subscription in self.subscribers(home).match(message.topic).items():
            if subscription.ignores_own and session.client_id == publisher:
                continue
            keeps = message.retain and subscription.keeps_retain
            level = min(message.qos, subscription.qos)
            self._give(session, replace(message, qos=level, retain=keeps), expires_ms)

    def _give(self, session: Session, message: Publish, expires_ms: int) -> None:
        client: Any = session.receiver
        if client is not None and not self._access.may(
            client.device, "iot:Receive", f"topic/{message.topic}"
        ):
            return
        if message.qos == 0:
            if client is not None:
                self._give_now(client, message)
            return
        if client is None and not session.is_kept:
            return
        queued = Queued(message, 0, expires_ms)
        if session.add(queued) and session.is_kept:
            queued.number = self._store.put_message(session, message, expires_ms)
        self.pump(session)

    def _give_now(self, client: Client, message: Publish) -> None:
        """Send a message of QoS 0, which is best effort: what a client does not read, or cannot, is dropped."""
        if client.is_congested:
            return
        answer, data = self.answer(client), packets.publish(client.version, _for(client, message))
        size = len(data)
        if size > client.largest_packet:
            return
        if (
            answer.best_effort_bytes + size > _MOST_BEST_EFFORT_BYTES
            or self._best_effort_bytes + size > _MOST_BEST_EFFORT_BYTES_OF_ALL
        ):
            if not self._has_dropped:
                self._has_dropped = True
                log.warning(
                    "messages of QoS 0 for the MQTT client %s are dropped: too many come at once",
                    name_of(client),
                )
            return
        answer.parts.append(data)
        answer.best_effort_bytes += size
        self._best_effort_bytes += size

    def pump(self, session: Session) -> None:
        """Send a connected client what waits for it, as much as it takes at once."""
        client: Any = session.receiver
        too_large = client is not None
        while too_large:
            ready, gone = session.take(self._clock.now_ms())
            too_large = False
            for message in ready:
                data = packets.publish(client.version, _for(client, message))
                if len(data) <= client.largest_packet:
                    self.answer(client).parts.append(data)
                    continue
                # MQTT 5: as if it had been sent and acknowledged.
                too_large = True
                number = session.acknowledge(message.packet_id)
                gone += [number] if number else []
            self._store.drop_messages(gone)

    def acknowledge(self, client: Client, packet: packets.Acknowledge) -> None:
        """Forget a message that a client has; send it the next ones."""
        session = client.session
        assert session is not None
        number = session.acknowledge(packet.packet_id)
        self._store.drop_messages([number] if number else [])
        self.pump(session)

    # --- subscriptions ------------------------------------------------------------------------

    def subscribers(self, scope: Place) -> Subscriptions:
        """Return who asked for which topics of an account and region."""
        return self._subscriptions.setdefault(scope, Subscriptions())

    def subscribe(self, client: Client, packet: packets.Subscribe) -> None:
        """Add subscriptions, and send what their topics retain. Raises MqttError."""
        if packets.SUBSCRIPTION_ID in packet.properties:
            raise MqttError(0xA1, "AWS IoT has no subscription identifiers")
        if len(packet.filters) > _MOST_FILTERS_AT_ONCE:
            raise MqttError(
                packets.QUOTA, f"A request has more than {_MOST_FILTERS_AT_ONCE} topic filters"
            )
        codes: list[int] = []
        retained: list[tuple[str, int]] = []
        for topic_filter, options in packet.filters:
            is_new = topic_filter not in client.session.filters if client.session else True
            codes.append(self._add_subscription(client, topic_filter, options))
            handling = options >> 4 & 3
            if codes[-1] < packets.UNSPECIFIED and (handling == 0 or (handling == 1 and is_new)):
                retained.append((topic_filter, codes[-1]))
        session = client.session
        assert session is not None
        self._store.put_session(session)
        self.answer(client).parts.append(packets.suback(client.version, packet.packet_id, codes))
        for topic_filter, qos in retained:
            self._give_retained(session, topic_filter, qos)

    def _add_subscription(self, client: Client, topic_filter: str, options: int) -> int:
        device, session = client.device, client.session
        assert device is not None
        assert session is not None
        if options & 3 > 1:
            raise MqttError(packets.NO_QOS, "AWS IoT has no QoS 2")
        topics.check_filter(topic_filter)
        if len(session.filters) >= _MOST_FILTERS and topic_filter not in session.filters:
            return packets.QUOTA
        if not self._access.may(device, "iot:Subscribe", f"topicfilter/{topic_filter}"):
            log.warning("%s may not subscribe to %s", session.key, topic_filter)
            return packets.NOT_AUTHORIZED
        subscription = Subscription(options & 1, bool(options & 4), bool(options & 8))
        session.filters[topic_filter] = subscription
        self.subscribers(session.place).add(topic_filter, session, subscription)
        return subscription.qos

    def unsubscribe(self, client: Client, packet: packets.Unsubscribe) -> None:
        """Remove subscriptions."""
        session = client.session
        assert session is not None
        codes: list[int] = []
        for topic_filter in packet.filters:
            was_there = session.filters.pop(topic_filter, None) is not None
            codes.append(0 if was_there else 0x11)
            if was_there:
                self.subscribers(session.place).remove(topic_filter, session)
        self._store.put_session(session)
        self.answer(client).parts.append(packets.unsuback(client.version, packet.packet_id, codes))

    def _give_retained(self, session: Session, topic_filter: str, qos: int) -> None:
        if not topic_filter.startswith("$share/"):
            now_ms = self._clock.now_ms()
            for message, expires_ms in self.retained.matching(session.place, topic_filter, now_ms):
                self._give(session, replace(message, qos=min(qos, message.qos)), expires_ms)


def name_of(client: Client) -> str:
    """Return what the log calls a client."""
    return client.session.key if client.session is not None else client.address


def _for(client: Client, message: Publish) -> Publish:
    return message if client.version >= packets.V5 else replace(message, properties={})
