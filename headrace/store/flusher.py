"""Group commit: many appends wait for one fsync."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from headrace.store.shard_log import ShardLog

log = logging.getLogger(__name__)

# How long a round waits for the clients of the previous round, which have their answers and are likely to ask again.
GATHER_S = 0.001


class Flusher:
    """Syncs logs on one thread, in rounds; a request during one round is served by the next. Thread-safe.

    A round that began at the first request would serve that request alone, and the others would wait for two rounds. So
    a round first waits up to GATHER_S for as many requests as the last round served, unless that was one.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: dict[ShardLog, Future[None]] = {}
        self._asked = 0
        self._expected = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._thread.start()

    def sync(self, shard_log: ShardLog) -> Future[None]:
        """Return a Future that is done when every record that `shard_log` holds now is on the disk.

        Callers that wait for the same round of the same log get the same Future.
        """
        with self._condition:
            self._asked += 1
            future = self._waiting.get(shard_log)
            if future is None:
                future = self._waiting[shard_log] = Future()
            if self._asked == 1 or self._asked == self._expected:
                self._condition.notify()
        return future

    def stop(self) -> None:
        """Serve the waiting requests, then end the thread."""
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
                if self._expected > 1:
                    self._condition.wait_for(self._is_gathered, GATHER_S)
                self._expected, self._asked = self._asked, 0
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

    def _is_gathered(self) -> bool:
        return self._asked >= self._expected or self._stopping
