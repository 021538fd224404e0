"""The broker: what clients sent becomes changes of sessions, messages for rules and subscribers, and answers.

Connections hand over their packets (`submit`); a worker takes many at a time, carries them out under moto's lock, and
stores what must last in one round: deliveries of rules, messages for sessions that are kept, retained messages. Only
then do answers go out, so a message whose PUBACK a client has survives kill -9. Documented behaviour:
docs.aws.amazon.com/iot/latest/developerguide/mqtt.html.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.iot import rules
from headrace.services.iot.mqtt import packets, topics
from headrace.services.iot.mqtt.access import (
    CUSTOM_AUTHORIZER,
    LONGEST_KEEP_ALIVE_S,
    NO_AUTHORIZERS,
    Answers,
    Client,
    Device,
    DeviceAccess,
    Lost,
    Review,
    connack_properties,
)
from headrace.services.iot.mqtt.messages import Messages, SessionStore, name_of
from headrace.services.iot.mqtt.packets import MqttError, Packet, Publish
from headrace.services.iot.mqtt.sessions import MOST_IN_FLIGHT, Place, Session
from headrace.services.iot.mqtt.shadows import answer_shadow_request

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 500
# Documented: a persistent session of MQTT 3.1.1 is kept an hour, one of MQTT 5 seven days at most.
_EXPIRY_S, _LONGEST_EXPIRY_S = 3600, 7 * 86_400
_LOOK_EVERY_MS = 1000
# headrace's own bound, on connected clients and kept sessions.
_MOST_SESSIONS = 50_000
# How long messages wait when rules' deliveries pile up, before the broker looks again.
_PILED_UP_S = 0.05
_Work = Sequence[tuple[Client | None, Packet | Lost | Review]]


class Broker:
    """All sessions of a cloud; implements `Devices`. Its state is guarded by moto's lock. Also the `Worker` of them."""

    name = "mqtt"

    def __init__(
        self,
        store: SessionStore,
        access: DeviceAccess,
        *,
        clock: Clock,
        ids: Ids,
        change: Callable[[Callable[[], None]], None],
        has_room: Callable[[], bool],
    ) -> None:
        """Take what runs a change of moto's state and stores it, and whether rules' deliveries have room."""
        self._store = store
        self._access = access
        self._clock = clock
        self._ids = ids
        self._change = change
        self._has_room = has_room
        self._work: deque[tuple[Client | None, Packet | Lost | Review]] = deque()
        self._sessions: dict[str, Session] = {}
        self._messages = Messages(store, access, clock)
        self._is_in_round = False
        self._looks_at_ms = 0
        self._post: Callable[[dict[Client, Answers]], None] = lambda _: None
        self._wake: Callable[[], None] = lambda: None
        self.host = ""

    # --- start --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what is stored; once, before any client."""
        now_ms = self._clock.now_ms()
        self._messages.retained.load()
        for session in self._store.sessions(self._messages.waiting):
            # A connection that ended by a kill has left now.
            session.expires_ms = session.expires_ms or now_ms + session.expiry_s * 1000
            self._sessions[session.key] = session
            for topic_filter, subscription in session.filters.items():
                self._messages.subscribers(session.place).add(topic_filter, session, subscription)

    def serve(
        self, host: str, post: Callable[[dict[Client, Answers]], None], wake: Callable[[], None]
    ) -> None:
        """Serve clients: `post` carries answers to their loop, `wake` wakes the worker; both return at once."""
        self.host, self._post, self._wake = host, post, wake

    def submit(self, client: Client | None, packet: Packet | Lost | Review) -> None:
        """Let the worker carry out what a client sent. Thread-safe; never blocks."""
        self._work.append((client, packet))
        self._wake()

    # --- the worker ---------------------------------------------------------------------------

    def step(self) -> float:
        """Carry out what has come, store it, and send the answers."""
        if not self._has_room():
            return _PILED_UP_S
        work = [self._work.popleft() for _ in range(min(len(self._work), _MOST_AT_ONCE))]
        if not work and not self._sessions:
            return math.inf
        try:
            self._change(lambda: self._run(work))
        except Exception:
            log.exception("what MQTT clients sent is not stored, they are disconnected")
            with MOTO_LOCK:
                self._give_up(work)
        with MOTO_LOCK:
            self._send()
        return 0.0 if self._work else self._next_s()

    def _give_up(self, work: _Work) -> None:
        """Acknowledge nothing, and disconnect the clients; their sessions end when their connections have."""
        for client, count in Counter(client for client, _ in work if client is not None).items():
            sentence = "What was sent could not be stored"
            last = packets.disconnect(client.version, packets.UNSPECIFIED, sentence)
            answer = self._messages.answer(client)
            answer.parts, answer.done, answer.ends = [last], count, True
        for client, packet in work:
            if isinstance(packet, Lost) and client is not None:
                # Nobody says it again: the next look at the sessions publishes the will and forgets.
                self._detach(client, is_orderly=False)

    def _next_s(self) -> float:
        """Return when a session may expire or a will may be due."""
        waits = any(session.receiver is None for session in self._sessions.values())
        return 1.0 if waits else math.inf

    def _run(self, work: _Work) -> None:
        self._is_in_round = True
        try:
            for client, packet in work:
                if client is not None:
                    self._messages.answer(client).done += 1
                    self._carry_out(client, packet)
                else:
                    self._review()
            self._expire()
            self._store.write()
        finally:
            self._is_in_round = False

    def _carry_out(self, client: Client, packet: Packet | Lost | Review) -> None:
        if isinstance(packet, Lost):
            self._leave(client, is_orderly=False)
            return
        if self._messages.answer(client).ends or (client.session is None) != isinstance(
            packet, packets.Connect
        ):
            return  # It was disconnected before.
        try:
            match packet:
                case packets.Connect():
                    self._connect(client, packet)
                case Publish():
                    self._publish(client, packet)
                case packets.Acknowledge():
                    self._messages.acknowledge(client, packet)
                case packets.Subscribe():
                    self._messages.subscribe(client, packet)
                case packets.Unsubscribe():
                    self._messages.unsubscribe(client, packet)
                case packets.Disconnect():
                    self._disconnect(client, packet)
                case _:
                    pass
        except MqttError as error:
            log.warning("the MQTT client %s is disconnected: %s", name_of(client), error.sentence)
            self._end(client, error.code, error.sentence)
        except OSError:
            raise  # What must last cannot be stored: the round is given up.
        except Exception:
            # A defect that one client's packet meets is no matter of the others in the round.
            log.exception("the MQTT client %s is disconnected", name_of(client))
            self._end(client, packets.UNSPECIFIED, "This cannot be carried out")

    def _send(self) -> None:
        answers = self._messages.take_answers()
        if answers:
            self._post(answers)

    def _end(self, client: Client, code: int, sentence: str) -> None:
        """Let a client be disconnected after its answers; its will is published, as after a lost connection."""
        answer = self._messages.answer(client)
        answer.parts.append(packets.disconnect(client.version, code, sentence))
        answer.ends = True
        self._leave(client, is_orderly=False)

    # --- sessions -----------------------------------------------------------------------------

    def _connect(self, client: Client, packet: packets.Connect) -> None:
        client.version = packet.version
        if CUSTOM_AUTHORIZER in packet.username:
            log.warning("the MQTT client %s may not connect: %s", packet.client_id, NO_AUTHORIZERS)
            self._refuse(client, packets.NOT_AUTHORIZED, NO_AUTHORIZERS)
            return
        device = self._access.identify(
            client.certificate, client.signer, packet.client_id, client.address
        )
        assigned = ""
        if not packet.client_id:
            if not packet.is_clean:
                self._refuse(client, packets.BAD_ID)
                return
            assigned = self._ids.uuid()
        client_id = packet.client_id or assigned
        if len(client_id.encode()) > topics.MOST_CLIENT_ID_BYTES:
            self._refuse(client, packets.BAD_ID)
            return
        if device is not None:
            device = replace(device, client_id=client_id)
        if device is None or not self._access.may(device, "iot:Connect", f"client/{client_id}"):
            log.warning("the MQTT client %s may not connect", client_id)
            self._refuse(client, packets.NOT_AUTHORIZED)
            return
        try:
            if packet.will is not None:
                self._check_publish(device, packet.will)
        except MqttError as error:
            log.warning("the MQTT client %s may not have its will: %s", client_id, error.sentence)
            self._refuse(client, error.code)
            return
        home = (device.account, device.region)
        is_new = Session(home, client_id).key not in self._sessions
        if is_new and len(self._sessions) >= _MOST_SESSIONS:
            self._refuse(client, packets.SERVER_BUSY)
            return
        session, is_present = self._open_session(home, client_id, packet)
        client.device, client.session = device, session
        session.receiver, session.expires_ms, session.will_due_ms = client, 0, 0
        session.will = packet.will
        client.receive_maximum = min(
            MOST_IN_FLIGHT, packet.properties.get(packets.RECEIVE_MAXIMUM, MOST_IN_FLIGHT)
        )
        client.largest_packet = packet.properties.get(
            packets.LARGEST_PACKET, packets.MOST_PACKET_BYTES
        )
        client.keep_alive_s = min(packet.keep_alive_s or LONGEST_KEEP_ALIVE_S, LONGEST_KEEP_ALIVE_S)
        self._store.put_session(session)
        properties = connack_properties(packet, session, client.keep_alive_s, assigned)
        self._messages.answer(client).parts.append(
            packets.connack(packet.version, 0, is_present=is_present, properties=properties)
        )
        self._messages.pump(session)
        self._tell_presence(session, device, "connected", versionNumber=0)

    def _refuse(self, client: Client, code: int, sentence: str = "") -> None:
        answer = self._messages.answer(client)
        reason = {packets.REASON: sentence} if sentence and client.version >= packets.V5 else {}
        answer.parts.append(
            packets.connack(client.version, code, is_present=False, properties=reason)
        )
        answer.ends = True

    def _open_session(
        self, scope: Place, client_id: str, packet: packets.Connect
    ) -> tuple[Session, bool]:
        """Return the client's session, and whether it is an older one. A client with the same id is disconnected."""
        asked_s = packet.properties.get(packets.SESSION_EXPIRY_S, 0)
        expiry_s = min(asked_s, _LONGEST_EXPIRY_S)
        if packet.version < packets.V5:
            expiry_s = 0 if packet.is_clean else _EXPIRY_S
        session = Session(scope, client_id, of_all=self._messages.waiting)
        older = self._sessions.get(session.key)
        if older is not None and older.receiver is not None:
            self._end(older.receiver, packets.TAKEN_OVER, "The client id has connected again")  # type: ignore[arg-type]
            older = self._sessions.get(session.key)
        if older is not None and packet.is_clean:
            self._forget(older)
            older = None
        session = older or session
        if session.is_kept and not expiry_s:
            # From now on it ends with its connection, by a kill too.
            self._store.drop_session(session)
        session.expiry_s = expiry_s
        self._sessions[session.key] = session
        return session, older is not None

    def _forget(self, session: Session) -> None:
        for topic_filter in session.filters:
            self._messages.subscribers(session.place).remove(topic_filter, session)
        self._sessions.pop(session.key, None)
        session.clear()
        self._store.drop_session(session)

    def _leave(self, client: Client, *, is_orderly: bool) -> None:
        """End a connection's session, or keep it for its time; the will is published unless it left in order."""
        session = self._detach(client, is_orderly=is_orderly)
        if session is None:
            return
        if client.device is not None:
            reason = "CLIENT_INITIATED_DISCONNECT" if is_orderly else "CONNECTION_LOST"
            self._tell_presence(
                session,
                client.device,
                "disconnected",
                clientInitiatedDisconnect=is_orderly,
                disconnectReason=reason,
            )
        self._publish_will(session, self._clock.now_ms())
        self._store.put_session(session)
        if not session.is_kept:
            self._forget(session)

    def _detach(self, client: Client, *, is_orderly: bool) -> Session | None:
        """Part a connection from its session, and set when the session's will and its end are due."""
        session, client.session = client.session, None
        if session is None:
            return None
        now_ms = self._clock.now_ms()
        session.receiver = None
        session.land()
        if is_orderly:
            session.will = None
        delay_s = 0
        if session.will is not None:
            delay_s = min(session.will.properties.get(packets.WILL_DELAY_S, 0), session.expiry_s)
        session.will_due_ms = now_ms + delay_s * 1000
        session.expires_ms = now_ms + session.expiry_s * 1000
        return session

    def _publish_will(self, session: Session, now_ms: int) -> None:
        will = session.will
        if will is not None and session.will_due_ms <= now_ms:
            session.will = None
            self._accept(session.place, session.client_id, "N/A", will)

    def _disconnect(self, client: Client, packet: packets.Disconnect) -> None:
        session = client.session
        assert session is not None
        expiry_s = packet.properties.get(packets.SESSION_EXPIRY_S)
        if expiry_s is not None and session.is_kept:
            session.expiry_s = min(expiry_s, _LONGEST_EXPIRY_S)
        self._messages.answer(client).ends = True
        # MQTT 5: code 4 asks for the will.
        self._leave(client, is_orderly=packet.code != 4)

    def _expire(self) -> None:
        """Publish the wills that are due, and forget the sessions whose time is over."""
        now_ms = self._clock.now_ms()
        if now_ms < self._looks_at_ms:
            return
        self._looks_at_ms = now_ms + _LOOK_EVERY_MS
        for session in [expired for expired in self._sessions.values() if expired.receiver is None]:
            self._publish_will(session, now_ms)
            if session.expires_ms <= now_ms:
                self._forget(session)

    def _review(self) -> None:
        """Disconnect the clients whose certificates are no longer active."""
        for session in list(self._sessions.values()):
            client: Any = session.receiver
            if client is not None and not self._access.is_still_active(client.device):
                self._end(client, packets.NOT_AUTHORIZED, "The certificate is not active")

    def _tell_presence(self, session: Session, device: Device, event: str, **details: Any) -> None:
        """Publish a lifecycle event. Documented: developerguide/life-cycle-events.html."""
        topics.publish_json(
            lambda topic, payload: rules.publish(*session.place, topic, payload),
            f"$aws/events/presence/{event}/{session.client_id}",
            {
                "clientId": session.client_id,
                "timestamp": self._clock.now_ms(),
                "eventType": event,
                "sessionIdentifier": self._ids.uuid(),
                "principalIdentifier": device.principal or device.account,
                "ipAddress": device.address,
                **details,
            },
        )

    # --- messages -----------------------------------------------------------------------------

    def _check_publish(self, device: Device, message: Publish) -> None:
        """Raises MqttError for a message that a client may not publish."""
        topics.check_topic(message.topic)
        if len(message.payload) > topics.MOST_PAYLOAD_BYTES:
            raise MqttError(packets.TOO_LARGE, "A payload has more than 128 KB")
        topic = f"topic/{message.topic}"
        if not self._access.may(device, "iot:Publish", topic):
            raise MqttError(packets.NOT_AUTHORIZED, f"iot:Publish on {topic} is not allowed")
        if message.retain and not self._access.may(device, "iot:RetainPublish", topic):
            raise MqttError(packets.NOT_AUTHORIZED, f"iot:RetainPublish on {topic} is not allowed")

    def _publish(self, client: Client, message: Publish) -> None:
        device, session = client.device, client.session
        assert device is not None
        assert session is not None
        try:
            self._check_publish(device, message)
        except MqttError as error:
            # Only MQTT 5 can say so; AWS disconnects others.
            if client.version < packets.V5 or not message.qos or error.code == packets.TOO_LARGE:
                raise
            self._messages.answer(client).parts.append(
                packets.puback(client.version, message.packet_id, error.code)
            )
            return
        self._accept(session.place, session.client_id, device.principal or "N/A", message)
        if message.qos:
            self._messages.answer(client).parts.append(
                packets.puback(client.version, message.packet_id)
            )

    def _accept(self, scope: Place, client_id: str, principal: str, message: Publish) -> None:
        def publish(topic: str, payload: bytes) -> None:
            rules.publish(*scope, topic, payload, client_id=client_id, principal=principal)

        kept = {
            number: value
            for number, value in message.properties.items()
            if number in packets.OF_MESSAGES
        }
        rules.publish(
            *scope,
            message.topic,
            message.payload,
            client_id=client_id,
            principal=principal,
            qos=message.qos,
            retain=message.retain,
            properties=kept,
            publisher=client_id,
        )
        answer_shadow_request(scope, message, publish)

    def deliver(
        self,
        account: str,
        region: str,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Mapping[int, Any] | None = None,
        publisher: str = "",
    ) -> None:
        """See `Devices.deliver`."""
        message = Publish(topic, payload, qos, retain, properties=properties or {})
        self._messages.deliver((account, region), message, publisher)
        if not self._is_in_round:
            self._store.write()
            self._send()

    def retained(self, account: str, region: str) -> list[dict[str, Any]]:
        """See `Devices.retained`."""
        return self._messages.retained.listed((account, region), self._clock.now_ms())
