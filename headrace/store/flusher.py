"""Group commit: many appends wait for one fsync."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from headrace.store.shard_log import ShardLog

log = logging.getLogger(__name__)


class Flusher:
    """Syncs logs on one thread; whoever asks while it works is served by the next round. Thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[ShardLog, Future[None]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._thread.start()

    def sync(self, shard_log: ShardLog) -> Future[None]:
        """Return a Future that is done when all that `shard_log` holds now is on the disk.

        Those who wait for the same round of the same log are given the same one.
        """
        with self._condition:
            future = self._waiting.get(shard_log)
            if future is None:
                future = self._waiting[shard_log] = Future()
                self._condition.notify()
        return future

    def stop(self) -> None:
        """Serve those who wait, then end."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._stopping:
                    self._condition.wait()
                if not self._waiting:
                    return
                round_, self._waiting = self._waiting, {}
            failures: dict[ShardLog, OSError] = {}
            for shard_log in round_:
                try:
                    shard_log.sync()
                except OSError as error:
                    log.exception("fsync of %s failed", shard_log.folder)
                    failures[shard_log] = error
            for shard_log, future in round_.items():
                failure = failures.get(shard_log)
                if failure is None:
                    future.set_result(None)
                else:
                    future.set_exception(failure)
