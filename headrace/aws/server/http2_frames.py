"""Splits a connection's bytes into HTTP/2 frames and counts the frames, before h2 processes them.

h2 takes bytes and returns the events of all frames in them. Passing it one frame at a time has three advantages: each
frame takes effect before the next one is parsed (above all a GOAWAY), a turn on the event loop is limited in frames and
not in kilobytes, and floods of frames without content are noticed.

Makes the h2 connection object with this server's limits: windows, streams, header tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from headrace.aws.server.request_body import Bounds

# The receive windows: how many bytes a client may send without an acknowledgement on one stream, and on all.
STREAM_WINDOW_BYTES = 1024 * 1024
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
# The table for headers that this server sends: a client may allow more, but the server would have to store it.
MOST_TABLE_BYTES = 4096


class _H2Connection(H2Connection):
    """h2's connection, which remembers fewer closed streams."""

    MAX_CLOSED_STREAMS = 1000


def h2_of(bounds: Bounds) -> H2Connection:
    """Return the state of a new connection, on which nothing has been sent."""
    h2 = _H2Connection(H2Configuration(client_side=False))
    h2.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: bounds.streams,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: bounds.head_bytes,
        },
    )
    return h2


HEAD_BYTES = 9
END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8


class Kind(IntEnum):
    """The types of frames. Source: RFC 9113, 6."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class ExcessiveLoad(Exception):
    """The client asks for more work than any well-behaved client does (ENHANCE_YOUR_CALM)."""


class FrameTooLarge(Exception):
    """A frame is larger than this server's SETTINGS_MAX_FRAME_SIZE."""


@dataclass(slots=True)
class Frame:
    """A complete frame.

    Attributes:
        kind: the frame's type: one of `Kind`, or an unknown number.
        data: the frame with its header.
    """

    kind: int
    flags: int
    stream_id: int
    data: bytes

    @property
    def payload_bytes(self) -> int:
        """The payload's length, from the frame's header."""
        return len(self.data) - HEAD_BYTES

    @property
    def is_goodbye(self) -> bool:
        """Whether the frame is a well-formed GOAWAY; h2 refuses a malformed one."""
        return self.kind == Kind.GOAWAY and self.stream_id == 0 and self.payload_bytes >= 8

    @property
    def goodbye_code(self) -> int:
        """A GOAWAY's error code."""
        return int.from_bytes(self.data[HEAD_BYTES + 4 : HEAD_BYTES + 8])

    @property
    def is_empty_data(self) -> bool:
        """Whether the frame is DATA without content (but padding) that does not end its stream."""
        if self.kind != Kind.DATA or self.flags & END_STREAM:
            return False
        padding = self.data[HEAD_BYTES] + 1 if self.flags & PADDED and self.payload_bytes else 0
        return self.payload_bytes <= padding


class FrameReader:
    """Splits the bytes after the preface into frames."""

    def __init__(self, most_bytes: int) -> None:
        self._data = bytearray()
        self._most_bytes = most_bytes

    def add(self, data: bytes) -> None:
        """Add new bytes."""
        self._data += data

    @property
    def has_part(self) -> bool:
        """Whether an incomplete frame has arrived."""
        return bool(self._data)

    def next(self) -> Frame | None:
        """Return the next complete frame, if there is one. Raises FrameTooLarge."""
        if len(self._data) < HEAD_BYTES:
            return None
        size_bytes = int.from_bytes(self._data[:3])
        if size_bytes > self._most_bytes:
            raise FrameTooLarge
        end = HEAD_BYTES + size_bytes
        if len(self._data) < end:
            return None
        data = bytes(self._data[:end])
        del self._data[:end]
        return Frame(data[3], data[4], int.from_bytes(data[5:9]) & 0x7FFFFFFF, data)


@dataclass(slots=True)
class Allowance:
    """A token bucket with a burst and a rate per second.

    Attributes:
        left: how many tokens are left.
    """

    burst: float
    per_s: float
    left: float = 0.0
    _since_s: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.burst

    def spend(self, now_s: float) -> bool:
        """Take a token; return False when there is none."""
        self.left = min(self.burst, self.left + (now_s - self._since_s) * self.per_s)
        self._since_s = now_s
        if self.left < 1:
            return False
        self.left -= 1
        return True

    def add(self, more: float) -> None:
        """Add tokens, up to the burst."""
        self.left = min(self.burst, self.left + more)


class FrameGuard:
    """Counts one connection's frames that cost work and have no content.

    Each bound is many times what well-behaved clients need. The bound of RST_STREAM is nghttp2's, against
    CVE-2023-44487 (rapid reset). Sent data allows more WINDOW_UPDATE frames, since clients send them as they read.
    Against CVE-2024-27316 (CONTINUATION), a header block is bounded in bytes and in frames before any of it is decoded.
    """

    MOST_CONTINUATIONS = 32

    def __init__(self, bounds: Bounds, now_s: float) -> None:
        self._bounds = bounds
        self._resets = Allowance(1000, 33, _since_s=now_s)
        self._asks = Allowance(500, 10, _since_s=now_s)
        self._updates = Allowance(4000, 200, _since_s=now_s)
        self._idle_frames = Allowance(2000, 50, _since_s=now_s)
        self._block_bytes = 0
        self._block_frames = 0

    @property
    def in_headers(self) -> bool:
        """Whether a header block is incomplete; only CONTINUATION may follow then."""
        return self._block_frames > 0

    def sent(self, size_bytes: int) -> None:
        """Note that bytes of an answer were sent, for which the client will open its windows again."""
        self._updates.add(2 + size_bytes / 1024)

    def check(self, frame: Frame, now_s: float, *, wanted: bool) -> None:
        """Count a frame; DATA is `wanted` on a stream whose request is incomplete. Raises ExcessiveLoad."""
        allowance = self._idle_frames
        match frame.kind:
            case Kind.DATA if wanted and not frame.is_empty_data:
                return
            case Kind.HEADERS | Kind.CONTINUATION:
                self._check_block(frame)
                return
            case Kind.RST_STREAM:
                allowance = self._resets
            case Kind.SETTINGS | Kind.PING if not frame.flags & ACK:
                allowance = self._asks
            case Kind.WINDOW_UPDATE:
                allowance = self._updates
            case _:
                pass  # PRIORITY, GOAWAY, acknowledgements, unwanted DATA, and unknown types
        if not allowance.spend(now_s):
            raise ExcessiveLoad(f"too many {_name(frame.kind)} frames")

    def _check_block(self, frame: Frame) -> None:
        self._block_bytes += frame.payload_bytes
        self._block_frames += 1
        if (
            self._block_bytes > self._bounds.head_bytes
            or self._block_frames > self.MOST_CONTINUATIONS
        ):
            raise ExcessiveLoad("a header block without end")
        if frame.flags & END_HEADERS:
            self._block_bytes = self._block_frames = 0


def _name(kind: int) -> str:
    return Kind(kind).name if kind in Kind.__members__.values() else f"unknown ({kind})"
