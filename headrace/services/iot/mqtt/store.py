"""What of MQTT lasts: sessions that are kept, their messages, and retained messages. Callers hold moto's lock."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from headrace.services.iot.mqtt.packets import USER, Publish
from headrace.services.iot.mqtt.sessions import Place, Queued, Session, Subscription, Waiting
from headrace.services.iot.mqtt.topics import filter_matches
from headrace.store.database import Database

log = logging.getLogger(__name__)

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
