"""Makes h2's state of one connection, with this server's limits: windows, streams, header tables."""

from __future__ import annotations

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from headrace.aws.bounds import Bounds

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# What a client may send before it hears from us: of one stream, and of all.
STREAM_WINDOW_BYTES = 1024 * 1024
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
# Of the headers that we send: a client may allow more, but what it allows we would keep for it.
MOST_TABLE_BYTES = 4096


class _H2Connection(H2Connection):
    """h2's, that remembers fewer of the streams that are over."""

    MAX_CLOSED_STREAMS = 1000


def h2_of(bounds: Bounds) -> H2Connection:
    """Return the state of a connection on which nothing has been sent."""
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
