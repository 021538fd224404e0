"""Sources that listen: netcat and syslog, by TCP and UDP.

A full channel holds a TCP client up; netcat tells it with `FAILED` instead when it answers each event. What comes by
UDP while the channel is full is lost by the system, as UDP is.

Syslog messages (RFC 3164 and 5424) to events, as Flume's parser makes them.

Observed in Flume's source (SyslogUtils, release 1.11): the headers, what of a message is the body, how a time without
a year gets one.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.agent.flume.events import NO_HEADERS, ChannelFull, Event, Headers, Stopped
from headrace.agent.flume.intake import Intake
from headrace.agent.flume.tls import server_tls
from headrace.agent.properties import Section
from headrace.core.clock import Clock

_LOOK_S = 0.2
_CHUNK_BYTES = 1 << 16
_DATAGRAM_BYTES = 65_536
# A client that opens more waits in the system's queue.
MOST_CLIENTS = 512
HANDSHAKE_S = 10.0
_LOG = logging.getLogger("headrace.agent")


class TcpServer:
    """Listens on ports, a thread for each client. `close` ends it."""

    def __init__(
        self, host: str, ports: Sequence[int], serve: Callable[[socket.socket, int], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """Bind the ports; with `tls` its clients speak it. Raises OSError."""
        self._serve, self._room, self._tls = serve, threading.Semaphore(MOST_CLIENTS), tls
        self._sockets: list[socket.socket] = []
        try:
            for port in ports:
                self._sockets.append(socket.create_server((host, port), backlog=128))
        except OSError as error:
            self.close()
            raise OSError(error.errno, f"{host} port {port}: {error.strerror}") from error  # pyright: ignore[reportPossiblyUnboundVariable]
        self.ports = [int(s.getsockname()[1]) for s in self._sockets]

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set; then wait for the clients' threads."""
        threads: list[threading.Thread] = []
        accepting = [
            threading.Thread(target=self._accept, args=(listener, stop, threads))
            for listener in self._sockets
        ]
        for thread in accepting:
            thread.start()
        for thread in accepting:
            thread.join()
        for thread in threads:
            thread.join()
        self.close()

    def _accept(
        self, listener: socket.socket, stop: threading.Event, threads: list[threading.Thread]
    ) -> None:
        listener.settimeout(_LOOK_S)
        port = int(listener.getsockname()[1])
        while not stop.is_set():
            if not self._room.acquire(timeout=_LOOK_S):
                continue
            try:
                client, _ = listener.accept()
            except TimeoutError:
                self._room.release()
                continue
            except OSError as error:
                # Too many open files, or a client that has left already: the next ones are taken.
                self._room.release()
                _LOG.error("port %d: a client could not be taken: %s", port, error)
                stop.wait(_LOOK_S)
                continue
            thread = threading.Thread(target=self._run_client, args=(client, port), daemon=True)
            threads[:] = [one for one in threads if one.is_alive()]
            threads.append(thread)
            thread.start()

    def _run_client(self, client: socket.socket, port: int) -> None:
        try:
            with client:
                if self._tls is None:
                    client.settimeout(_LOOK_S)
                    self._serve(client, port)
                    return
                client.settimeout(HANDSHAKE_S)
                with self._tls.wrap_socket(client, server_side=True) as secure:
                    secure.settimeout(_LOOK_S)
                    self._serve(secure, port)
        except Stopped:
            return
        except OSError as error:
            _LOG.info("port %d: a client is gone: %s", port, error)
        finally:
            self._room.release()

    def close(self) -> None:
        """Close the ports."""
        for listener in self._sockets:
            listener.close()


def receive(client: socket.socket, stop: threading.Event) -> bytes:
    """Return what a client sends next; empty at its end. Raises Stopped, OSError."""
    while True:
        try:
            return client.recv(_CHUNK_BYTES)
        except TimeoutError:
            if stop.is_set():
                raise Stopped from None


class Netcat:
    """Lines by TCP, each an event, answered by OK."""

    ends = False

    def __init__(self, section: Section, intake: Intake, clock: Clock) -> None:
        """Take the keys and bind. Raises ConfigurationError, OSError."""
        del clock
        self._intake = intake
        self._longest = section.number("max-line-length", 512, least=1)
        self._answers = section.flag("ack-every-event", default=True)
        section.charset("encoding")
        self.server = TcpServer(
            section.text("bind"), [section.number("port", most=65_535)], self._serve
        )

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        self.server.run(self._intake.stop)

    def _serve(self, client: socket.socket, port: int) -> None:
        del port
        rest = b""
        while True:
            data = receive(client, self._intake.stop)
            *lines, rest = (rest + data).split(b"\n")
            if not data and rest:
                lines, rest = [*lines, rest], b""
            # As Flume: what came before a line that is too long is taken, and the client is left.
            sizes = map(len, [*lines, rest])
            too_long = next((n for n, size in enumerate(sizes) if size >= self._longest), None)
            self._put(client, [Event(NO_HEADERS, line) for line in lines[:too_long]])
            if too_long is not None:
                client.sendall(
                    b"FAILED: Event exceeds the maximum length (%d chars, including newline)\n"
                    % self._longest
                )
            if too_long is not None or not data:
                return

    def _put(self, client: socket.socket, events: list[Event]) -> None:
        if not self._answers:
            self._intake.put_all(events)
            return
        for at in range(0, len(events), self._intake.most):
            part = events[at : at + self._intake.most]
            try:
                self._intake.put(part)
            except ChannelFull as error:
                self._intake.counts.failures += len(part)
                client.sendall(f"FAILED: {error}\n".encode() * len(part))
            else:
                client.sendall(b"OK\n" * len(part))


class Datagrams:
    """Packets by UDP, each an event that `make_event` makes."""

    ends = False

    def __init__(
        self, intake: Intake, host: str, port: int, make_event: Callable[[bytes, str], Event]
    ) -> None:
        """Bind. Raises OSError."""
        self._intake, self._make_event = intake, make_event
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise OSError(error.errno, f"{host} port {port}: {error.strerror}") from error
        self.port = int(self._socket.getsockname()[1])

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        with self._socket:
            while not self._intake.stop.is_set():
                self._socket.settimeout(_LOOK_S)
                events: list[Event] = []
                with contextlib.suppress(TimeoutError, BlockingIOError):
                    while len(events) < self._intake.most:
                        packet, (host, *_) = self._socket.recvfrom(_DATAGRAM_BYTES)
                        events.append(self._make_event(packet, str(host)))
                        # What has come already goes in the same transaction.
                        self._socket.settimeout(0)
                self._intake.put_all(events)


def netcat_udp(section: Section, intake: Intake, clock: Clock) -> Datagrams:
    """Return netcatudp's source. Raises ConfigurationError, OSError."""
    del clock
    header = section.text("remoteAddressHeader", "")

    def make_event(packet: bytes, host: str) -> Event:
        headers: Headers = {header: host} if header else NO_HEADERS
        return Event(headers, packet.partition(b"\n")[0])

    return Datagrams(intake, section.text("bind"), section.number("port", most=65_535), make_event)


@dataclass(frozen=True, slots=True)
class _Syslog:
    """What the three syslog sources have in common."""

    kept: frozenset[str] | None
    ip_header: str
    name_header: str
    clock: Clock

    @staticmethod
    def of(section: Section, clock: Clock) -> _Syslog:
        return _Syslog(
            kept_fields(section.text("keepFields", "none")),
            section.text("clientIPHeader", ""),
            section.text("clientHostnameHeader", ""),
            clock,
        )

    def client_headers(self, host: str) -> Headers:
        headers: dict[str, str] = {}
        if self.ip_header:
            headers[self.ip_header] = host
        if self.name_header:
            headers[self.name_header] = socket.getfqdn(host)
        return headers

    def event(self, message: bytes, charset: str, more: Headers, *, is_cut: bool = False) -> Event:
        event = read_message(message, charset, self.kept, self.clock.now_ms(), is_cut=is_cut)
        return Event({**event.headers, **more}, event.body) if more else event


class SyslogTcp:
    """Syslog lines on one port or several."""

    ends = False

    def __init__(
        self, section: Section, intake: Intake, clock: Clock, *, is_multiport: bool
    ) -> None:
        """Take the keys and bind. Raises ConfigurationError, OSError."""
        self._intake, self._syslog = intake, _Syslog.of(section, clock)
        self._size = max(section.number("eventSize", SIZE, least=1), LEAST_SIZE)
        tls = server_tls(section)
        ports, self._port_header, self._charsets = [0], "", dict[int, str]()
        self._charset = "UTF-8"
        if is_multiport:
            words = section.words("ports")
            ports = [int(word) for word in words if word.isdigit() and int(word) < 65_536]
            if len(ports) < len(words) or not ports or len(set(ports)) < len(ports):
                raise section.error(
                    "ports", f"ports of {section.owner} are different numbers below 65536"
                )
            self._port_header, self._charset = (
                section.text("portHeader", ""),
                section.charset("charset.default"),
            )
            self._charsets = {
                int(port): section.charset(f"charset.port.{port}")
                for port in section.below("charset.port.")
            }
            section.ignore("batchSize", "readBufferSize", "numProcessors")
        else:
            ports = [section.number("port", most=65_535)]
        host = section.text("host", "0.0.0.0") or "0.0.0.0"
        self.server = TcpServer(host, ports, self._serve, tls)

    def run(self, *, once: bool) -> None:
        """See `Source.run`."""
        del once
        self.server.run(self._intake.stop)

    def _serve(self, client: socket.socket, port: int) -> None:
        more = {**self._syslog.client_headers(str(client.getpeername()[0]))}
        if self._port_header:
            more[self._port_header] = str(port)
        charset, rest = self._charsets.get(port, self._charset), b""
        while True:
            data = receive(client, self._intake.stop)
            *lines, rest = (rest + data).split(b"\n")
            if not data and rest:
                lines, rest = [*lines, rest], b""
            events: list[Event] = []
            for line in lines:
                events += self._events(line, charset, more)
            while len(rest) >= self._size:
                events.append(self._syslog.event(rest[: self._size], charset, more, is_cut=True))
                rest = rest[self._size :]
            self._intake.put_all(events)
            if not data:
                return

    def _events(self, line: bytes, charset: str, more: Headers) -> list[Event]:
        events: list[Event] = []
        while len(line) >= self._size:
            events.append(self._syslog.event(line[: self._size], charset, more, is_cut=True))
            line = line[self._size :]
        if line:
            events.append(self._syslog.event(line, charset, more))
        return events


def syslog_udp(section: Section, intake: Intake, clock: Clock) -> Datagrams:
    """Return syslogudp's source. Raises ConfigurationError, OSError."""
    syslog = _Syslog.of(section, clock)

    def make_event(packet: bytes, host: str) -> Event:
        return syslog.event(packet.removesuffix(b"\n"), "UTF-8", syslog.client_headers(host))

    host = section.text("host", "0.0.0.0") or "0.0.0.0"
    return Datagrams(intake, host, section.number("port", most=65_535), make_event)


LEAST_SIZE, SIZE = 10, 2500
STATUS = "flume.syslog.status"
_PRIORITY = re.compile(r"<(\d{1,3})>")
_RFC5424 = re.compile(
    r"<(\d{1,3})>(\d?)\s?(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[+-]\d\d:\d\d|Z)?)|-)\s"
    r"(?:(\w[\w.@-]*)|-)\s(.*)",
    re.ASCII,
)
_RFC3164 = re.compile(
    r"<(\d{1,3})>(\d)?\s?([A-Z][a-z][a-z]\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d)\s(\w[\w.@-]*)\s(.*)",
    re.ASCII,
)
_FIELDS = ("priority", "version", "timestamp", "hostname")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A time without a year lies between eleven months ago and one month ahead.
_AHEAD, _BEHIND = timedelta(days=31), timedelta(days=334)


def kept_fields(text: str) -> frozenset[str] | None:
    """Return what `keepFields` keeps in the body; None: the whole message."""
    words = text.strip().lower()
    if words in ("true", "all"):
        return None
    return frozenset(name for name in _FIELDS if words not in ("false", "none") and name in words)


def read_message(
    message: bytes, charset: str, kept: frozenset[str] | None, now_ms: int, *, is_cut: bool = False
) -> Event:
    """Return the event of a message without its newline; `is_cut`: it is longer than `eventSize`."""
    priority = _PRIORITY.match(message.decode("latin-1"))
    number = int(priority[1]) if priority else 0
    headers = {"Facility": str(number // 8), "Severity": str(number % 8)}
    if priority is None:
        return Event({**headers, STATUS: "Invalid"}, message)
    if is_cut:
        headers[STATUS] = "Incomplete"
    try:
        text = message.decode(charset)
    except UnicodeDecodeError:
        return Event({**headers, STATUS: "Invalid"}, message)
    match = _RFC5424.fullmatch(text) or _RFC3164.fullmatch(text)
    if match is None:
        return Event(headers, message)
    level, version, stamp, host, body = match.groups()
    headers["priority"] = level
    if version:
        headers["version"] = version
    if stamp and (moment := _moment(stamp, now_ms)) is not None:
        headers["timestamp"] = str(int(moment.timestamp() * 1000))
    if host:
        headers["host"] = host
    if kept is None:
        return Event(headers, message)
    # The order of Flume's: each is put before what there is.
    for name, before in (("hostname", f"{host} "), ("timestamp", f"{stamp} "),
                         ("version", f"{version} " if version else ""),
                         ("priority", f"<{level}>")):  # fmt: skip
        if name in kept:
            body = before + body
    return Event(headers, body.encode(charset) if body else message)


def _moment(stamp: str, now_ms: int) -> datetime | None:
    """Return a message's time, in this machine's zone when it names none; None when there is no such day."""
    try:
        if stamp[0].isdigit():
            moment = datetime.fromisoformat(stamp)
            return moment if moment.tzinfo else moment.astimezone()
        month, day, clock = stamp.split()
        hour, minute, second = map(int, clock.split(":"))
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        moment = datetime(
            now.year, _MONTHS.index(month) + 1, int(day), hour, minute, second
        ).astimezone()  # fmt: skip
        if moment - now > _AHEAD:
            return moment.replace(year=moment.year - 1)
        return moment.replace(year=moment.year + 1) if now - moment > _BEHIND else moment
    except (ValueError, OverflowError):
        # The year 9999 has a last hour that west of Greenwich is in the next year of UTC.
        return None
