"""Makes the h2 connection object with this server's limits: windows, streams, header tables."""

from __future__ import annotations

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from headrace.aws.server.bounds import Bounds

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
