"""What the broker sends to clients: messages for those who asked for their topics, and the answers of a round.

Whoever uses `Messages` holds moto's lock, and stores what it has noted before the answers go out.

What of MQTT lasts: sessions that are kept, their messages, and retained messages. Callers hold moto's lock.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from headrace.core.clock import Clock
from headrace.services.iot.mqtt import packets, topics
from headrace.services.iot.mqtt.access import Answers, Client, DeviceAccess
from headrace.services.iot.mqtt.packets import USER, MqttError, Publish
from headrace.services.iot.mqtt.sessions import (
    Place,
    Queued,
    Session,
    Subscription,
    Subscriptions,
    Waiting,
)
from headrace.services.iot.mqtt.topics import filter_matches
from headrace.store.database import Database

# headrace's own bounds on the retained messages of a cloud, which are in memory too.
MOST_RETAINED, MOST_RETAINED_BYTES = 20_000, 256 * 1024 * 1024


class _StoredMessage(msgspec.Struct, omit_defaults=True, array_like=True):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    expires_ms: int
    properties: dict[int, Any]


class SessionStore:
    """Sessions that are kept, their messages, and retained messages, in the cloud's database.

    `write` stores what was noted since the last call, in one transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(
            "mqtt",
            [
                "CREATE TABLE mqtt_sessions (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
                "CREATE TABLE mqtt_messages (number INTEGER PRIMARY KEY, session TEXT NOT NULL, message BLOB NOT NULL)",
                "CREATE INDEX mqtt_messages_session ON mqtt_messages (session)",
                (
                    "CREATE TABLE mqtt_retained (account TEXT, region TEXT, topic TEXT, modified_ms INTEGER,"
                    " message BLOB NOT NULL, PRIMARY KEY (account, region, topic)) WITHOUT ROWID"
                ),
            ],
        )
        ((last,),) = database.query("SELECT COALESCE(MAX(number), 0) FROM mqtt_messages")
        self._last = int(last)
        self._statements: list[tuple[str, tuple[Any, ...]]] = []

    def write(self) -> None:
        """Store what was noted. Raises DiskFull, OSError; then nothing of it is stored."""
        statements, self._statements = self._statements, []
        if statements:
            with self._database.transaction():
                for statement, values in statements:
                    self._database.execute(statement, values)

    def put_session(self, session: Session) -> None:
        """Note a session as it is now, if it is kept."""
        if not session.is_kept:
            return
        value = {
            "expiry_s": session.expiry_s,
            "expires_ms": session.expires_ms,
            "filters": {
                name: [subscription.qos, subscription.ignores_own, subscription.keeps_retain]
                for name, subscription in session.filters.items()
            },
        }
        self._note(
            "INSERT INTO mqtt_sessions VALUES (?, ?)"
            " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
            session.key,
            json.dumps(value),
        )

    def drop_session(self, session: Session) -> None:
        """Note that a session and its messages are gone."""
        self._note("DELETE FROM mqtt_sessions WHERE key = ?", session.key)
        self._note("DELETE FROM mqtt_messages WHERE session = ?", session.key)

    def put_message(self, session: Session, message: Publish, expires_ms: int) -> int:
        """Note a message for a session; return its number."""
        self._last += 1
        self._note(
            "INSERT INTO mqtt_messages VALUES (?, ?, ?)",
            self._last,
            session.key,
            _encode(message, expires_ms),
        )
        return self._last

    def drop_messages(self, numbers: Iterable[int]) -> None:
        """Note that messages were acknowledged, or have expired."""
        for number in numbers:
            self._note("DELETE FROM mqtt_messages WHERE number = ?", number)

    def retain(self, scope: Place, message: Publish, now_ms: int, expires_ms: int) -> None:
        """Note a topic's retained message; an empty payload removes it."""
        if not message.payload:
            self._note(
                "DELETE FROM mqtt_retained WHERE account = ? AND region = ? AND topic = ?",
                *scope,
                message.topic,
            )
            return
        self._note(
            "INSERT INTO mqtt_retained VALUES (?, ?, ?, ?, ?) ON CONFLICT(account, region, topic)"
            " DO UPDATE SET message = excluded.message, modified_ms = excluded.modified_ms",
            *scope,
            message.topic,
            now_ms,
            _encode(message, expires_ms),
        )

    def _note(self, statement: str, *values: Any) -> None:
        self._statements.append((statement, values))

    def sessions(self, of_all: Waiting) -> list[Session]:
        """Return the stored sessions, with their messages, which count in `of_all`."""
        sessions: dict[str, Session] = {}
        for key, text in self._database.query("SELECT key, value FROM mqtt_sessions"):
            account, region, client_id = key.split("/", 2)
            value = json.loads(text)
            filters = {name: Subscription(*columns) for name, columns in value["filters"].items()}
            sessions[key] = Session(
                (account, region),
                client_id,
                value["expiry_s"],
                filters,
                expires_ms=value["expires_ms"],
                of_all=of_all,
            )
        rows = self._database.query(
            "SELECT number, session, message FROM mqtt_messages ORDER BY number"
        )
        for number, key, encoded in rows:
            if key in sessions:
                message, expires_ms = _decode(encoded)
                sessions[key].add(Queued(message, number, expires_ms))
        return list(sessions.values())

    def retained(self) -> Iterator[tuple[Place, Publish, int, int]]:
        """Yield the retained messages: place, message, when it was retained, when it expires (0: never)."""
        rows = self._database.query(
            "SELECT account, region, modified_ms, message FROM mqtt_retained"
        )
        for account, region, modified_ms, encoded in rows:
            message, expires_ms = _decode(encoded)
            yield (account, region), message, modified_ms, expires_ms


def _encode(message: Publish, expires_ms: int) -> bytes:
    return msgspec.msgpack.encode(
        _StoredMessage(
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            expires_ms,
            dict(message.properties),
        )
    )


def _decode(encoded: bytes) -> tuple[Publish, int]:
    stored = msgspec.msgpack.decode(encoded, type=_StoredMessage)
    message = Publish(
        stored.topic, stored.payload, stored.qos, stored.retain, properties=stored.properties
    )
    return message, stored.expires_ms


class Retained:
    """The message that each topic retains."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        # Place -> topic -> the message, when it was retained, when it expires (0: never).
        self._messages: dict[Place, dict[str, tuple[Publish, int, int]]] = {}
        self._count = self._bytes = 0

    def load(self) -> None:
        """Read what is stored."""
        for home, message, modified_ms, expires_ms in self._store.retained():
            self._put(home, message, modified_ms, expires_ms)

    def retain(self, scope: Place, message: Publish, now_ms: int, expires_ms: int) -> None:
        """Let a topic retain a message; an empty payload removes it. With too many, a new one is left out (logged)."""
        self._drop(scope, message.topic)
        is_full = (
            self._count >= MOST_RETAINED or self._bytes + len(message.payload) > MOST_RETAINED_BYTES
        )
        if message.payload and is_full:
            log.warning("%s does not retain its message: too many are retained", message.topic)
            message = Publish(message.topic, b"")
        if message.payload:
            self._put(scope, message, now_ms, expires_ms)
        self._store.retain(scope, message, now_ms, expires_ms)

    def _put(self, scope: Place, message: Publish, now_ms: int, expires_ms: int) -> None:
        self._messages.setdefault(scope, {})[message.topic] = (message, now_ms, expires_ms)
        self._count += 1
        self._bytes += len(message.payload)

    def _drop(self, scope: Place, topic: str) -> None:
        older = self._messages.get(scope, {}).pop(topic, None)
        if older is not None:
            self._count -= 1
            self._bytes -= len(older[0].payload)

    def matching(
        self, scope: Place, topic_filter: str, now_ms: int
    ) -> Iterator[tuple[Publish, int]]:
        """Yield the messages that a new subscription gets, with their expiry."""
        for topic, (message, _, expires_ms) in list(self._messages.get(scope, {}).items()):
            is_valid = not expires_ms or expires_ms > now_ms
            if is_valid and filter_matches(topic_filter, topic):
                yield message, expires_ms

    def listed(self, scope: Place, now_ms: int) -> list[dict[str, Any]]:
        """See `headrace.moto.current_cloud.Devices.retained`."""
        return [
            {
                "topic": topic,
                "payload": message.payload,
                "qos": message.qos,
                "modified_ms": modified_ms,
                "user_properties": message.properties.get(USER),
            }
            for topic, (message, modified_ms, expires_ms) in sorted(
                self._messages.get(scope, {}).items()
            )
            if not expires_ms or expires_ms > now_ms
        ]


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
