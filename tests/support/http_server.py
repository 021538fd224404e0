"""A server around a handler of the test's own, on a thread; and an HTTP/2 client that shows what comes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import h2.connection
import h2.events
import h2.settings

from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.server.connection import Refuse
from headrace.aws.server.server import Server, bind

Handler = Callable[[HttpRequest], HttpResponse | Future[HttpResponse]]


@contextmanager
def serving(
    handle: Handler, tmp_path: Path, *, inline: bool = False, refuse: Refuse | None = None
) -> Iterator[int]:
    """Run a server on a thread of its own; yield its port."""
    server = Server(handle, is_inline=lambda _: inline, temp_dir=tmp_path / "tmp", refuse=refuse)
    with on_a_socket(server) as (port, _):
        yield port


@contextmanager
def on_a_socket(server: Server) -> Iterator[tuple[int, asyncio.AbstractEventLoop]]:
    """Run a server on a thread of its own; yield its port and its event loop."""
    bound = bind("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(bound), loop).result(10)
    try:
        yield bound.getsockname()[1], loop
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Client:
    """An HTTP/2 client that shows frames as they come."""

    def __init__(self, port: int, *, window_bytes: int | None = None, first_bytes: int = 0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.h2 = h2.connection.H2Connection()
        if window_bytes is not None:
            values = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window_bytes}
            self.h2.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self.h2.initiate_connection()
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytearray] = {}
        self.ended: list[int] = []
        self.reset: list[int] = []
        hello = self.h2.data_to_send()
        self.socket.sendall(hello[:first_bytes])
        self.socket.sendall(hello[first_bytes:])

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(
        self,
        path: str,
        body: bytes = b"",
        method: str = "POST",
        authority: str = "localhost",
        *,
        end: bool = True,
        fields: tuple[tuple[str, str], ...] = (),
    ) -> int:
        """Send a request, with more of its body to come unless it is to `end`; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        headers = [(":method", method), (":path", path), (":scheme", "http")]
        headers += [(":authority", authority), *fields]
        self.h2.send_headers(stream, headers, end_stream=end and not body)
        sent = 0
        while sent < len(body):
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                self.flush()
                self.hear()
                continue
            part = body[sent : sent + room]
            sent += len(part)
            self.h2.send_data(stream, part, end_stream=end and sent == len(body))
        self.flush()
        return stream

    @contextmanager
    def withheld(self) -> Iterator[bytearray]:
        """Collect what would be sent meanwhile."""
        sent = bytearray()
        self.flush, flush = (lambda: sent.extend(self.h2.data_to_send())), self.flush
        yield sent
        self.flush = flush

    def hear(self) -> None:
        """Take what has come, at least one piece. Raises ConnectionError at the end."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed")
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.ResponseReceived():
                    self.heads[event.stream_id] = {k.decode(): v.decode() for k, v in event.headers}
                case h2.events.DataReceived():
                    self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                    length = event.flow_controlled_length
                    self.h2.acknowledge_received_data(length, event.stream_id)
                case h2.events.StreamEnded():
                    self.ended.append(event.stream_id)
                case h2.events.StreamReset():
                    self.reset.append(event.stream_id)
                case _:
                    pass
        self.flush()

    def answer(self, stream: int) -> tuple[dict[str, str], bytes]:
        """Wait for a stream's whole answer."""
        while stream not in self.ended:
            self.hear()
        return self.heads[stream], bytes(self.bodies.get(stream, b""))
