"""The limits on what one client, and all clients together, may hold of the server: bytes, counts, seconds.

The figures are headrace's own unless a source is named. `docs/security.md` has the same table for people.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The server's bounds. Tests make small ones.

    Attributes:
        connections: open at once; past it the longest idle one makes room, or the new one is answered 503.
        requests: being answered, or waiting for a thread, over all connections; past it 503.
        turn_requests, turn_frames, turn_bytes: what one connection may have done before the others have their
            turn on the event loop.
        threads: that run requests which may block.
        service_threads: of these, held by requests to one service.
        connection_threads: of these, held by one connection's requests (HTTP/2 has many side by side).
        streams: of one HTTP/2 connection, open at once.
        arriving_bytes: of bodies that are not whole yet, in memory, over all connections; past it they go to files.
        held_bytes: of bodies that are whole and whose requests are not answered yet; past it requests wait.
        small_body_bytes: bodies up to this size do not wait for room.
        body_room_s: how long a request waits for room; then 503.
        unsent_bytes: of answers that their clients do not take, over all connections; past it the connection with
            the most is cut off.
        head_bytes, headers: of one request's line and header fields; past it 431.
        framing_bytes: of a chunked body's extensions and trailers, beyond twice the body's own size and 16 bytes a
            chunk (the bound that Go's server has had since CVE-2023-39326); past it 400.
        head_s: from a request's first byte to its last header field; then 408.
        body_idle_s: without a byte of a body that is not whole; then 408, or S3's RequestTimeout.
        answer_idle_s: without the client taking a byte of its answer. As long as a SubscribeToShard session lasts.
        keep_alive_s: that an unused connection stays open: longer than every SDK's own pool keeps one (Java 60 s,
            .NET 60 s, Go and Rust 90 s, curl and PHP 118 s, browsers 300 s; botocore and Node.js keep theirs until
            the server closes).
        linger_s, linger_bytes: that a connection is read on after its last answer, so that the client can read it.
    """

    connections: int = 1024
    requests: int = 4096
    turn_requests: int = 8
    turn_frames: int = 8
    turn_bytes: int = 64 * KIB
    threads: int = 512
    service_threads: int = 256
    connection_threads: int = 64
    streams: int = 256
    arriving_bytes: int = 128 * MIB
    held_bytes: int = 256 * MIB
    small_body_bytes: int = 16 * KIB
    body_room_s: float = 20.0
    unsent_bytes: int = 256 * MIB
    head_bytes: int = 64 * KIB
    headers: int = 256
    framing_bytes: int = 16 * KIB
    head_s: float = 60.0
    body_idle_s: float = 60.0
    answer_idle_s: float = 300.0
    keep_alive_s: float = 900.0
    linger_s: float = 2.0
    linger_bytes: int = 1 * MIB
