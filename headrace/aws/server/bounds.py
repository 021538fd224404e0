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
        connections: how many may be open, and at most half of the files that the process may open; beyond that the
            longest idle one is closed, or the new one's first request gets 503.
        busy_s: a connection that was used within this time is not closed to make room: its client's next request may
            be on its way.
        surplus: how many connections beyond `connections` may wait for their first request's headers; the next get 503
            without having asked.
        requests: how many may be running or waiting for a thread, over all connections; beyond that 503.
        turn_requests, turn_frames, turn_bytes: how much the event loop processes of one connection before it serves the
            others.
        threads: the threads that run requests which may block.
        service_threads: how many of these the requests to one service may hold.
        connection_threads: how many of these one connection's requests may hold (HTTP/2 has many at once).
        streams: how many streams of one HTTP/2 connection may be open.
        arriving_bytes: the bytes of incomplete bodies in memory, over all connections; beyond that they go to files.
        held_bytes: the bytes of complete bodies of unanswered requests; beyond that requests wait.
        small_body_bytes: bodies up to this size do not wait for memory.
        body_room_s: how long a request waits for memory for its body; then 503.
        unsent_bytes: the bytes of answers that clients do not read, over all connections; beyond that the connection
            with the most is closed.
        head_bytes, headers: the size and number of one request's header fields; beyond that 431.
        framing_bytes: the size of a chunked body's extensions and trailers, beyond twice the body's own size and 16
            bytes a chunk (the bound of Go's server since CVE-2023-39326); beyond that 400.
        head_s: the time from a request's first byte to its last header field; then 408.
        body_idle_s: the time without a byte of an incomplete body; then 408, or S3's RequestTimeout.
        answer_idle_s: the time without the client reading a byte of its answer: the length of a SubscribeToShard
            session.
        keep_alive_s: how long an unused connection stays open: longer than every SDK's pool keeps one (Java 60 s,
            .NET 60 s, Go and Rust 90 s, curl and PHP 118 s, browsers 300 s; botocore and Node.js keep theirs until
            the server closes).
        linger_s, linger_bytes: how long and how much a connection is still read after its last answer, so that the
            client can read the answer.
    """

    connections: int = 8192
    busy_s: float = 5.0
    surplus: int = 256
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
