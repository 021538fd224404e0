"""MQTT over WebSocket: the handshake of `GET /mqtt`, and frames around MQTT's bytes, by wsproto.

Documented: docs.aws.amazon.com/iot/latest/developerguide/protocols.html: the path is /mqtt, the subprotocol mqtt, and a
request is signed in its query for the service iotdevicegateway, to which the session token may be added afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.signatures.credential_scopes import scope_of
from headrace.services.iot.mqtt.access import CUSTOM_AUTHORIZER, NO_AUTHORIZERS

SERVICE = "iotdevicegateway"
_PATH = "/mqtt"
_SUBPROTOCOLS = ("mqtt", "mqttv3.1")
_TOKEN = "X-Amz-Security-Token="
_NO_BYTES, _BROKEN = 1003, 1002


@dataclass(slots=True)
class Received:
    """What the bytes of a client were: MQTT's, what is to be written at once, a request to open, and the end."""

    mqtt: bytes = b""
    reply: bytes = b""
    request: HttpRequest | None = None
    is_over: bool = False


class WebSocket:
    """The server's side of one WebSocket. For one thread."""

    def __init__(self) -> None:
        self._socket = WSConnection(ConnectionType.SERVER)
        self._subprotocol = ""
        self.is_open = False

    def receive(self, data: bytes) -> Received:
        """Take what a client sent."""
        received = Received()
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                self._take(event, received)
        except (RemoteProtocolError, UnicodeError) as error:
            # wsproto decodes some headers without a check of its own.
            received.is_over = True
            received.reply += self.close(_BROKEN) if self.is_open else self.refuse(400, str(error))
        return received

    def _take(self, event: object, received: Received) -> None:
        match event:
            case Request():
                self._subprotocol = next((p for p in event.subprotocols if p in _SUBPROTOCOLS), "")
                path, _, query = event.target.partition("?")
                headers = {
                    name.decode(): value.decode("latin-1") for name, value in event.extra_headers
                }
                if path != _PATH or not self._subprotocol:
                    sentence = f"MQTT over WebSocket has the path {_PATH} and the subprotocol mqtt."
                    received.reply += self.refuse(404 if path != _PATH else 400, sentence)
                    received.is_over = True
                    return
                received.request = HttpRequest(
                    "GET", path, query, {**headers, "host": event.host}
                )  # fmt: skip
            case BytesMessage():
                received.mqtt += bytes(event.data)
            case TextMessage():
                received.reply += self.close(_NO_BYTES)
                received.is_over = True
            case Ping():
                received.reply += self._socket.send(event.response())
            case CloseConnection():
                received.reply += self._socket.send(event.response())
                received.is_over = True
            case _:
                pass

    def accept(self) -> bytes:
        """Return the answer that opens it."""
        self.is_open = True
        return self._socket.send(AcceptConnection(subprotocol=self._subprotocol))

    def refuse(self, status: int, body: str) -> bytes:
        """Return the answer that does not open it."""
        data = body.encode()
        headers = [
            (b"content-type", b"text/plain"),
            (b"content-length", str(len(data)).encode()),
            (b"connection", b"close"),
        ]
        try:
            head = self._socket.send(RejectConnection(status, headers, has_body=True))
            return head + self._socket.send(RejectData(data))
        except LocalProtocolError:
            # What came was no handshake at all.
            return f"HTTP/1.1 {status} Bad Request\r\nConnection: close\r\n\r\n{body}".encode()

    def wrap(self, data: bytes) -> bytes:
        """Return MQTT's bytes as a frame; nothing when it has ended, as by a frame that came with what they answer."""
        return self._send(BytesMessage(data))

    def close(self, code: int = 1000) -> bytes:
        """Return the frame that ends it; nothing when it has ended."""
        return self._send(CloseConnection(code))

    def _send(self, event: BytesMessage | CloseConnection) -> bytes:
        try:
            return self._socket.send(event)
        except LocalProtocolError:
            return b""


def admit_signed(
    request: HttpRequest, admit: Callable[[HttpRequest, str], HttpResponse | None]
) -> HttpResponse | None:
    """Note who signed a request to open, or return the refusal; the token of a session may be unsigned."""
    if request.headers.get("origin", "").partition("://")[2] == request.headers["host"]:
        # What clients send that are no browser's page, such as paho's.
        del request.headers["origin"]
    if CUSTOM_AUTHORIZER in " ".join((request.query, *request.headers)).lower():
        return HttpResponse(501, body=f"{NO_AUTHORIZERS}.".encode())
    parts = request.query.split("&")
    others = [part for part in parts if not part.startswith(_TOKEN)]
    if len(others) < len(parts):
        unsigned = msgspec.structs.replace(request, query="&".join(others), scope=scope_of(request))
        if admit(unsigned, SERVICE) is None:
            request.signer = unsigned.signer
            return None
    return admit(request, SERVICE)
