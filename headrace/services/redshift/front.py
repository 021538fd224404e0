"""Stands before a cluster's PostgreSQL on the cluster's port, and lets Redshift's own drivers in.

Amazon's drivers name themselves in the first message, by parameters that PostgreSQL refuses. The front leaves these out
and passes every other byte on, both ways; a client that asks for TLS gets the cloud's, because Amazon's drivers ask by
default and for a login by IAM always. It has no password, no socket of the superuser's and no opinion: PostgreSQL
gets the client's login over TCP, as it would without a front.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)

# What Amazon's drivers send (observed: redshift_connector 2.2; the JDBC driver's have the same names).
_OF_REDSHIFT = frozenset(
    {
        b"client_protocol_version", b"driver_version", b"os_version", b"driver_discovery_version", b"plugin_name",
        b"idp_type", b"provider_name", b"identity_namespace", b"token_type", b"idc_client_display_name",
    }
)  # fmt: skip
# The codes of PostgreSQL's first messages; docs: postgresql.org/docs/current/protocol-message-formats.html.
_CANCEL, _SSL, _GSS = 80877102, 80877103, 80877104
_ACCEPTED, _REFUSED = b"S", b"N"
# PostgreSQL's own limits for a first message, and the time until a client must have logged in.
_MOST_FIRST_BYTES = 10_000
_FIRST_WITHIN_S = 60.0
# A client may ask once for TLS and once for GSSAPI.
_MOST_QUESTIONS = 2
# More than PostgreSQL's max_connections, whose answer the last ones get.
_MOST_CLIENTS = 100
_CHUNK_BYTES = 1 << 16
# How long the last bytes may wait for a client that does not read.
_CLOSED_WITHIN_S = 10.0


class Front:
    """One front, with one thread for all its clients; a client that neither reads nor writes delays no other.

    Thread-safe.
    """

    def __init__(
        self, listening: socket.socket, server: tuple[str, int], tls: Callable[[], ssl.SSLContext]
    ) -> None:
        """Serve at a listening socket, which the front closes, for the PostgreSQL at the address `server`.

        `tls` returns the context of TLS, and raises OSError when its certificate cannot be stored.
        """
        self._listening = listening
        # Its connections have the option too: no part of an answer waits for the acknowledgement of the one before.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tls = tls
        # Now, so that clients find the certificate to trust before they connect.
        _context(tls)
        self._server = server
        self._clients = 0
        self._loop = asyncio.new_event_loop()
        self._is_closed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="redshift front", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it and its clients' connections."""
        self._loop.call_soon_threadsafe(self._is_closed.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        accepting = await asyncio.start_server(self._take, sock=self._listening, limit=_CHUNK_BYTES)
        await self._is_closed.wait()
        # The runner cancels the clients' tasks.
        accepting.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            _keep_alive(writer)
            if self._clients > _MOST_CLIENTS:
                writer.write(_refusal(b"53300", b"sorry, too many clients already"))
            else:
                await self._introduce(reader, writer)
            await _close(writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
            # The client or the server has gone, the client took too long (TimeoutError), or the front closes.
            log.debug("redshift: a client's connection ended: %r", error)
        finally:
            self._clients -= 1
            writer.transport.abort()

    async def _introduce(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a client's first message on, and what follows it."""
        async with asyncio.timeout(_FIRST_WITHIN_S):
            message = await _first_message(reader, writer, self._tls)
        if message is None:
            return
        try:
            from_server, to_server = await asyncio.open_connection(
                *self._server, limit=_CHUNK_BYTES
            )
        except OSError:
            writer.write(_refusal(b"57P03", b"the database system is not up"))
            return
        try:
            to_server.write(message)
            await _first_of(_copy(reader, to_server), _copy(from_server, writer))
        finally:
            # What the client sent last is in its buffer; PostgreSQL reads it, or ends.
            to_server.close()


async def _first_message(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: Callable[[], ssl.SSLContext]
) -> bytes | None:
    """Read a client's first message, start TLS and refuse GSSAPI; return what PostgreSQL gets, None for no message.

    Raises OSError, asyncio.IncompleteReadError.
    """
    for _ in range(_MOST_QUESTIONS + 1):
        head = await reader.readexactly(8)
        length, code = struct.unpack("!ii", head)
        if not len(head) <= length <= _MOST_FIRST_BYTES:
            return None
        message = head + await reader.readexactly(length - len(head))
        if code == _CANCEL:
            return message
        if code not in (_SSL, _GSS):
            return without_redshift_parameters(message)
        context = _context(tls) if code == _SSL else None
        if context is None:
            writer.write(_REFUSED)
            await writer.drain()
        elif not await _start_tls(reader, writer, context):
            return None
    return None


def _context(tls: Callable[[], ssl.SSLContext]) -> ssl.SSLContext | None:
    try:
        return tls()
    except OSError as error:
        log.warning("redshift: TLS is refused, because its certificate cannot be stored: %s", error)
        return None


async def _start_tls(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
) -> bool:
    """Speak TLS from here on; return False for a client that has said more than its question. Raises OSError."""
    # What comes from here on belongs to the handshake.
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            # Bytes without TLS must not count as bytes that came through it, as in PostgreSQL.
            if await reader.read(1):
                writer.write(_refusal(b"08P01", b"received unencrypted data after SSL request"))
                return False
    writer.write(_ACCEPTED)
    await writer.start_tls(context)
    return True


def without_redshift_parameters(message: bytes) -> bytes:
    """Return a StartupMessage without the parameters that only Redshift knows; every other byte stays."""
    words = message[8:].split(b"\0")
    kept: list[bytes] = []
    at = 0
    # Names and values, until an empty name.
    while at + 1 < len(words) and words[at]:
        if words[at] not in _OF_REDSHIFT:
            kept += words[at : at + 2]
        at += 2
    body = message[4:8] + b"\0".join([*kept, *words[at:]])
    return struct.pack("!i", len(body) + 4) + body


def _refusal(state: bytes, sentence: bytes) -> bytes:
    """Return an ErrorResponse."""
    fields = b"SFATAL\0VFATAL\0C" + state + b"\0M" + sentence + b"\0\0"
    return b"E" + struct.pack("!i", len(fields) + 4) + fields


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the reader's side ends; read no more than the writer's side takes."""
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def _first_of(*copies: Coroutine[Any, Any, None]) -> None:
    """Run both directions until one ends; the other one ends with it. Raises what ended it."""
    tasks = [asyncio.ensure_future(copy) for copy in copies]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSED_WITHIN_S):
            await writer.wait_closed()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel notice a client whose machine has gone: its session must not stay for ever."""
    own: socket.socket = writer.get_extra_info("socket")
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
