"""Listens for MQTT clients: in plain text and with TLS, on an event loop of its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import ssl
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Signer
from headrace.core.clock import Clock
from headrace.services.iot.mqtt import packets
from headrace.services.iot.mqtt.access import (
    LARGEST_PACKET,
    LOST,
    Aliases,
    Answers,
    Client,
    Device,
    Lost,
    Rates,
)
from headrace.services.iot.mqtt.broker import Broker
from headrace.services.iot.mqtt.packets import MqttError, PacketReader, Publish
from headrace.services.iot.mqtt.sessions import MOST_IN_FLIGHT, Session

if TYPE_CHECKING:
    from headrace.services.iot.mqtt.websocket import Received, WebSocket

log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 10_000
_CONNECT_WITHIN_S = 10.0
# What one connection, and all together, may have handed over that is not carried out yet; then they are not read.
_MOST_BYTES, _MOST_BYTES_OF_ALL = 1024 * 1024, 128 * 1024 * 1024
_STOPS_WITHIN_S = 10.0
Admit = Callable[[HttpRequest, str], HttpResponse | None]


class Listener:
    """The sockets of a cloud's MQTT clients. `start` and `stop` are for one thread.

    Attributes:
        port, tls_port: where it listens, once started; `port` only when clients need no TLS.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        host: str,
        port: int,
        tls_port: int,
        is_open: bool,
        tls_context: ssl.SSLContext,
        clock: Clock,
        is_throttled: bool,
        admit: Admit,
    ) -> None:
        """Take the addresses (port 0: a free one), whether clients need no TLS, and whether AWS's rates apply.

        `admit` notes who signed a WebSocket's request, or returns its refusal; it may block.
        """
        self.broker = broker
        self.port, self.tls_port = port, tls_port
        self._host = host
        self._tls_context = tls_context
        self.clock = clock
        self.is_throttled = is_throttled
        self.is_open, self.admit = is_open, admit
        self.clients: set[MqttConnection] = set()
        self.waiting_bytes = 0
        # Those that are not read only because of what all together have handed over.
        self.held_back: set[MqttConnection] = set()
        self.loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._servers: list[asyncio.Server] = []
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft // 4
        self._most_connections = min(_MOST_CONNECTIONS, most)

    def start(self, shown_host: str, wake: Callable[[], None]) -> None:
        """Accept clients, to whom AWS's API names `shown_host`; `wake` wakes the worker. Raises OSError."""
        self._thread = threading.Thread(target=self.loop.run_forever, name="mqtt", daemon=True)
        self._thread.start()
        self.broker.serve(shown_host, self._post, wake)
        try:
            self._call(self._listen())
        except OSError:
            self.stop()
            raise

    def stop(self) -> None:
        """Disconnect every client and end the thread."""
        if self._thread is None:
            return
        self._call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_STOPS_WITHIN_S)
        self._thread = None
        self.loop.close()

    def _call(self, task: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self.loop).result(_STOPS_WITHIN_S)

    async def _listen(self) -> None:
        self.tls_port = await self._listen_on(self.tls_port, self._tls_context)
        if self.is_open:
            self.port = await self._listen_on(self.port, None)

    async def _listen_on(self, port: int, context: ssl.SSLContext | None) -> int:
        server = await self.loop.create_server(
            lambda: MqttConnection(self),
            self._host,
            port,
            ssl=context,
            ssl_handshake_timeout=None if context is None else _CONNECT_WITHIN_S,
            backlog=1024,
        )
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for client in list(self.clients):
            client.close(packets.disconnect(client.version, packets.SHUTTING_DOWN))
        await asyncio.sleep(0)

    def _post(self, answers: dict[Client, Answers]) -> None:
        def settle() -> None:
            for client, answer in answers.items():
                client.settle(answer)
            if not self.is_full:
                # None of them has an answer to wait for.
                held_back, self.held_back = self.held_back, set()
                for client in held_back:
                    client.read_on()

        # A stopped loop has no clients any longer.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(settle)

    @property
    def is_full(self) -> bool:
        """Whether all together have handed over as much as may wait."""
        return self.waiting_bytes >= _MOST_BYTES_OF_ALL

    def opened(self, client: MqttConnection) -> bool:
        """Note a connection; False when there are too many."""
        self.clients.add(client)
        return len(self.clients) <= self._most_connections


class MqttConnection(asyncio.Protocol):
    """One client's connection. Its methods run on the loop's thread; implements `Client`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._reader = PacketReader(LARGEST_PACKET)
        self._aliases = Aliases()
        # The sizes of what waits, and their sum.
        self._sizes: deque[int] = deque()
        self._waiting_bytes = 0
        self._is_closing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._heard_s = 0.0
        self._rates = Rates(listener.clock.now_ms()) if listener.is_throttled else None
        self.device: Device | None = None
        self.session: Session | None = None
        self.version = packets.V3
        self.is_congested = False
        self.receive_maximum = MOST_IN_FLIGHT
        self.keep_alive_s = 0
        self.largest_packet = LARGEST_PACKET
        self.address = ""
        self.certificate: bytes | None = None
        self.signer: Signer | None = None
        self._websocket: WebSocket | None = None

    # --- the socket ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        tls = transport.get_extra_info("ssl_object")
        self.certificate = None if tls is None else tls.getpeercert(binary_form=True)
        if not self._listener.opened(self):
            log.warning("an MQTT client is refused: too many are connected")
            transport.abort()
            return
        self._heard_s = self._listener.loop.time()
        self._alarm = self._listener.loop.call_later(_CONNECT_WITHIN_S, self._look)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_closing:
            return
        if self._reader.version:
            # Bytes before CONNECT are no sign of a client: it has its time for all of them.
            self._heard_s = self._listener.loop.time()
        # No MQTT client begins with the letter of GET.
        if self._websocket is None and not self._reader.has_begun and data.startswith(b"G"):
            # Imported by the first client: wsproto takes as long as a service.
            from headrace.services.iot.mqtt.websocket import WebSocket

            self._websocket = WebSocket()
        if self._websocket is not None:
            self._receive(self._websocket.receive(data))
        else:
            self._read(data)

    def _receive(self, received: Received) -> None:
        """Carry out what came by a WebSocket."""
        if received.mqtt:
            self._read(received.mqtt)
        if received.reply:
            self._transport.write(received.reply)
        if received.is_over:
            self.close()
        elif received.request is not None:
            from headrace.services.iot.mqtt.websocket import admit_signed

            self._transport.pause_reading()
            admission = self._listener.loop.run_in_executor(
                None, admit_signed, received.request, self._listener.admit
            )
            request = received.request
            admission.add_done_callback(lambda done: self._open(request, done))

    def _open(self, request: HttpRequest, admission: asyncio.Future[HttpResponse | None]) -> None:
        """Open a WebSocket, unless who signed it may not: nobody may where clients need a certificate."""
        socket = self._websocket
        if socket is None or self._is_closing:
            return
        error = admission.exception()
        refusal = None if error is not None else admission.result()
        if error is not None:
            log.error("whether a WebSocket may open cannot be told", exc_info=error)
            self._transport.write(socket.refuse(500, "Internal error"))
        elif refusal is not None:
            body = refusal.body if isinstance(refusal.body, bytes) else b""
            self._transport.write(socket.refuse(refusal.status, body.decode(errors="replace")))
        elif request.signer is None and not self._listener.is_open and self.certificate is None:
            self._transport.write(socket.refuse(403, "Missing Authentication Token"))
        else:
            self.signer = request.signer
            self._heard_s = self._listener.loop.time()
            self._transport.write(socket.accept())
            self._transport.resume_reading()
            return
        log.warning("an MQTT client at %s may not open a WebSocket", self.address)
        self.close()

    def _write(self, data: bytes) -> None:
        """Write MQTT's bytes."""
        self._transport.write(data if self._websocket is None else self._websocket.wrap(data))

    def _read(self, data: bytes) -> None:
        """Take MQTT's bytes."""
        try:
            for packet in self._reader.feed(data):
                self._take(packet)
        except MqttError as error:
            self._refuse(error)

    def _take(self, packet: packets.Packet) -> None:
        match packet:
            case packets.Ping():
                self._write(packets.PONG)
                return
            case Publish():
                packet = self._aliases.resolve(packet)
                if not self._has_token(packet):
                    return
                size = len(packet.payload)
            case packets.Connect():
                self.version, size = packet.version, 0
                self._heard_s = self._listener.loop.time()
            case _:
                size = 0
        self._submit(packet, size)
        if self._is_full:
            self._transport.pause_reading()

    def _submit(self, packet: packets.Packet | Lost, size: int) -> None:
        self._sizes.append(size)
        self._waiting_bytes += size
        self._listener.waiting_bytes += size
        self._listener.broker.submit(self, packet)

    @property
    def _is_full(self) -> bool:
        return (
            len(self._sizes) >= MOST_IN_FLIGHT
            or self._waiting_bytes >= _MOST_BYTES
            or self._listener.is_full
            # Answers to a client that does not read them would pile up.
            or self.is_congested
        )

    def _has_token(self, packet: Publish) -> bool:
        """Whether AWS's rates let a message in; MQTT 5 is told, MQTT 3.1.1 gets no PUBACK (assumed)."""
        rates, now_ms = self._rates, self._listener.clock.now_ms()
        if rates is None or rates.let_in(packet, now_ms, self.address):
            return True
        if packet.qos and self.version >= packets.V5:
            self._write(packets.puback(self.version, packet.packet_id, packets.QUOTA))
        return False

    def _refuse(self, error: MqttError) -> None:
        log.warning("the MQTT client at %s is disconnected: %s", self.address, error.sentence)
        last = b""
        if self._reader.version:
            last = packets.disconnect(self.version, error.code, error.sentence)
        elif error.code == packets.BAD_VERSION:
            last = packets.connack(packets.V3, error.code, is_present=False)
        self.close(last)

    def _look(self) -> None:
        """Disconnect a client that says nothing for one and a half times its keep-alive."""
        allowed_s = self.keep_alive_s * 1.5 if self.keep_alive_s else _CONNECT_WITHIN_S
        left_s = self._heard_s + allowed_s - self._listener.loop.time()
        # A client that is not read says nothing.
        if left_s > 0 or self._sizes:
            self._alarm = self._listener.loop.call_later(max(left_s, 1.0), self._look)
        elif not self._is_closing:
            self.close(packets.disconnect(self.version, packets.KEEP_ALIVE))

    # --- answers ------------------------------------------------------------------------------

    def settle(self, answers: Answers) -> None:
        """See `Client.settle`."""
        done_bytes = sum(self._sizes.popleft() for _ in range(answers.done))
        self._waiting_bytes -= done_bytes
        self._listener.waiting_bytes -= done_bytes
        if self._is_closing:
            return
        if answers.parts:
            self._write(b"".join(answers.parts))
        if answers.ends:
            self.close()
        else:
            self.read_on()

    def read_on(self) -> None:
        """Read the socket again, unless too much waits; with nothing of its own that waits, the listener reads on."""
        if not self._is_full:
            self._transport.resume_reading()
        elif not self._sizes and not self.is_congested:
            self._listener.held_back.add(self)

    def close(self, last: bytes = b"") -> None:
        """Write the last bytes and close."""
        if not self._is_closing:
            self._is_closing = True
            if self._websocket is None:
                self._transport.write(last)
            elif self._websocket.is_open:
                frame = self._websocket.wrap(last) if last else b""
                self._transport.write(frame + self._websocket.close())
            self._transport.close()
            # A client that does not read is not waited for.
            self._listener.loop.call_later(_CONNECT_WITHIN_S, self._transport.abort)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_congested = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_congested = False
        # It reads, so it is alive, though what it said was not read.
        self._heard_s = self._listener.loop.time()
        self.read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._is_closing = True
        self._listener.clients.discard(self)
        self._listener.held_back.discard(self)
        if self._alarm is not None:
            self._alarm.cancel()
        self._submit(LOST, 0)
