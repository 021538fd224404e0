"""All streams in memory, by name and by id, and the listeners that are told of new records."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import AnyKeys, KeyStates
from headrace.services.kinesis.data_path.permits import StreamKeys
from headrace.services.kinesis.state import Stream, Wake

Key = tuple[str, str, str]


class StreamRegistry:
    """The streams of all accounts and regions. Thread-safe.

    Args:
        keys: KMS.

    Attributes:
        by_name: the streams by (account, region, name).
        by_id: the streams by `stream_id`.
        keys: checks the KMS keys of the streams.
    """

    def __init__(self, keys: KeyStates | None = None) -> None:
        self.by_name: dict[Key, Stream] = {}
        self.by_id: dict[str, Stream] = {}
        self.keys = StreamKeys(keys or AnyKeys())
        # By ARN, not in the stream: a listener stays when its stream is deleted and created again.
        self._listeners: dict[str, tuple[Wake, ...]] = {}
        # Reentrant: the garbage collector may unsubscribe a reader while this thread holds the lock.
        self._lock = threading.RLock()

    def add(self, stream: Stream) -> None:
        """Let requests see a stream, and index its open shards."""
        stream.index_routes()
        with self._lock:
            stream.listeners = self._listeners.get(stream.arn, ())
            self.by_name[(stream.account, stream.region, stream.name)] = stream
            self.by_id[stream.stream_id] = stream

    def remove(self, stream: Stream) -> None:
        """Hide a stream from requests."""
        self.by_name.pop((stream.account, stream.region, stream.name), None)
        self.by_id.pop(stream.stream_id, None)

    def find_arn(self, arn: str) -> Stream | None:
        """Return the stream with this ARN, or None."""
        key = key_of_arn(arn)
        return None if key is None else self.by_name.get(key)

    def subscribe(self, stream_arn: str, wake: Wake) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        with self._lock:
            self._listen(stream_arn, (*self._listeners.get(stream_arn, ()), wake))

        def undo() -> None:
            with self._lock:
                left = tuple(w for w in self._listeners.get(stream_arn, ()) if w is not wake)
                self._listen(stream_arn, left)

        return undo

    def _listen(self, stream_arn: str, listeners: tuple[Wake, ...]) -> None:
        self._listeners[stream_arn] = listeners
        stream = self.find_arn(stream_arn)
        if stream is not None:
            stream.listeners = listeners

    def wake(self, stream: Stream) -> None:
        """Tell the listeners of a stream that it has new records or has changed, even after `remove`."""
        for wake in self._listeners.get(stream.arn, ()):
            wake()


@functools.lru_cache(maxsize=1000)
def key_of_arn(arn: str) -> Key | None:
    """Return (account, region, name) from a stream's ARN, or None for any other text."""
    try:
        parsed = Arn.parse(arn)
    except InvalidArn:
        return None
    kind, _, name = parsed.resource.partition("/")
    return (parsed.account, parsed.region, name) if kind == "stream" else None
