"""What the pipeline's function says it did, over a socket, so that no fault of the cloud can take it back."""

from __future__ import annotations

import json
import socketserver
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Copy:
    """One acknowledged record of the second stream. `made_from` and `place`: shard and sequence number."""

    copy_id: str
    made_from: Place
    place: Place


class Ledger:
    """A server on a free port. Thread-safe.

    Attributes:
        copies: what was acknowledged by the second stream, by id.
        forwarded: shards and sequence numbers of the first stream that were.
        outcomes: how each invocation that came to its end answered: ok, partial or raise.
        begun_in: the incarnation of the cloud whose process of the function had the invocation.
    """

    def __init__(self, incarnation: Callable[[], int]) -> None:
        self.copies: dict[str, Copy] = {}
        self.forwarded: dict[str, set[int]] = defaultdict(set)
        self.outcomes: dict[str, str] = {}
        self.begun_in: dict[str, int] = {}
        self.count = 0
        self._incarnation = incarnation
        self._lock = threading.Lock()
        ledger = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    for line in self.rfile:
                        self.wfile.write(b"%d\n" % ledger.take(json.loads(line)))
                except (ConnectionError, ValueError):
                    return  # the function was killed while it spoke

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="ledger", daemon=True).start()

    def take(self, line: dict[str, Any]) -> int:
        """Note what an invocation says; return the incarnation of the cloud that runs now."""
        with self._lock:
            if "req" not in line:
                return self._incarnation()
            self.begun_in.setdefault(line["req"], int(line["cloud"]))
            for copy_id, shard, number, to_shard, to_number in line.get("put", ()):
                made_from = (shard, int(number))
                self.copies[copy_id] = Copy(copy_id, made_from, (to_shard, int(to_number)))
                if made_from[1] not in self.forwarded[shard]:
                    self.forwarded[shard].add(made_from[1])
                    self.count += 1
            if "outcome" in line:
                self.outcomes[line["req"]] = line["outcome"]
            return self._incarnation()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
