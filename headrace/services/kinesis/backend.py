"""The streams of all accounts: finding, creating, changing and deleting them.

Pagination tokens: opaque and authenticated, valid for 300 seconds and only for the operation that returned them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headrace.aws.calls.errors import AwsError
from headrace.aws.gateway.faults import Faults
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import MetricSink, PrincipalCheck, accept_principal
from headrace.core.workers import Supervisor, Worker, WorkerHandle
from headrace.services.kinesis.channels import Channels
from headrace.services.kinesis.data_path.get import Iterators
from headrace.services.kinesis.data_path.reader import KinesisReader
from headrace.services.kinesis.errors import (
    NEXT_TOKEN_LIFE_MS,
    invalid_argument,
    not_active,
    stream_not_found,
)
from headrace.services.kinesis.permits import Throttle
from headrace.services.kinesis.pushes import Pushes
from headrace.services.kinesis.queues.queues import Queues
from headrace.services.kinesis.state import Consumer, Stream
from headrace.services.kinesis.store import AccountSettings, StreamRegistry, StreamStore, key_of_arn
from headrace.services.kinesis.subscriptions import Consumers, Subscriptions
from headrace.store.flusher import Flusher
from headrace.store.memory import keep_freed_memory

_MAC_BYTES = 16
T = TypeVar("T")


class TokenCodec:
    """Makes and reads tokens. Thread-safe. The key is stored, so a token survives a restart."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, operation: str, value: dict[str, Any], now_ms: int) -> str:
        """Return a token that holds `value` (anything that json can dump)."""
        body = json.dumps([operation, now_ms, value], separators=(",", ":")).encode()
        return base64.b64encode(self._mac(body) + body).decode("ascii")

    def open(self, operation: str, text: str, now_ms: int) -> dict[str, Any]:
        """Return the value in a token. Raises InvalidArgumentException, ExpiredNextTokenException."""
        try:
            sealed = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid_argument("NextToken is invalid.") from error
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            raise invalid_argument("NextToken is invalid.")
        made_for, made_ms, value = json.loads(body)
        if made_for != operation:
            raise invalid_argument("NextToken is invalid.")
        if now_ms - made_ms > NEXT_TOKEN_LIFE_MS:
            raise AwsError("ExpiredNextTokenException", "NextToken has expired.")
        return value

    def cut_page(
        self,
        operation: str,
        items: Iterable[T],
        name_of: Callable[[T], str],
        *,
        token: str | None,
        limit: int,
        now_ms: int,
        after: str = "",
        scope: str = "",
    ) -> tuple[list[T], str | None]:
        """Return a page of a list that is sorted by name, and the token of the next page; None at the end.

        Args:
            operation: the operation that lists.
            items: the whole list.
            name_of: returns an item's name, which no other one has.
            token: the token that the request brings.
            limit: the most items of the page.
            now_ms: the time.
            after: without a token, the page begins behind this name.
            scope: a token that was made for another scope is refused.

        Raises InvalidArgumentException, ExpiredNextTokenException.
        """
        if token is not None:
            held = self.open(operation, token, now_ms)
            if held.get("of", "") != scope:
                raise invalid_argument("NextToken was not given for the stream that is named.")
            after = held["after"]
        rest = sorted((one for one in items if name_of(one) > after), key=name_of)
        page = rest[:limit]
        if len(rest) <= limit:
            return page, None
        value = {"of": scope, "after": name_of(page[-1])}
        return page, self.seal(operation, value, now_ms)

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(b"token" + body, key=self._key, digest_size=_MAC_BYTES).digest()


log = logging.getLogger(__name__)


class Kinesis:
    """All streams of all accounts and regions. Every action takes it as its first argument.

    Thread-safe. Control-plane changes hold `lock` and are in the database before requests see them. Appends
    hold the lock of their shard's log instead.

    Attributes:
        streams: the streams by (account, region, name); `registry` holds them.
        by_id: the streams by `stream_id`.
        flusher: syncs appends to disk with `durability=fsync`, otherwise None.
        throttle: AWS's throughput limits and call rates with `limits=aws`, otherwise None.
        state_delay_ms: how long a stream stays CREATING, UPDATING or DELETING.
        losses: one sentence for each gap of missing records that `start` found.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        registry: StreamRegistry,
        store: StreamStore,
        account_settings: AccountSettings,
        iterators: Iterators,
        tokens: TokenCodec,
        consumers: Consumers,
        subscriptions: Subscriptions,
        pushes: Pushes,
        reader: KinesisReader,
        queues: Queues,
        channels: Channels,
        supervisor: Supervisor,
        workers: Callable[[Kinesis], Sequence[Worker]],
        flusher: Flusher | None = None,
        throttle: Throttle | None = None,
        metrics: MetricSink | None = None,
        faults: Faults | None = None,
        state_delay_ms: int = 0,
        has_principal: PrincipalCheck = accept_principal,
    ) -> None:
        """Take the parts that `api.build_kinesis` makes. `workers` returns the background workers."""
        self.has_principal = has_principal
        self.clock = clock
        self.ids = ids
        self.lock = threading.RLock()
        self.registry = registry
        self.streams = registry.by_name
        self.by_id = registry.by_id
        self.store = store
        self.losses = store.losses
        self.account_settings = account_settings
        self.iterators = iterators
        self.tokens = tokens
        self.consumers = consumers
        self.subscriptions = subscriptions
        self.pushes = pushes
        self.reader = reader
        self.queues = queues
        self.channels = channels
        self.flusher = flusher
        self.throttle = throttle
        self.metrics = metrics
        self.faults = faults
        self.state_delay_ms = state_delay_ms
        self._supervisor = supervisor
        self._workers = workers
        self._running: list[WorkerHandle] = []
        self._deleting: set[str] = set()

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> None:
        """Open every stream's logs and start the workers."""
        keep_freed_memory()
        for stream in self.store.load():
            self.registry.add(stream)
            if stream.latest_status == "DELETING":
                self._deleting.add(stream.stream_id)
        self.queues.start(self._supervisor)
        self._running = [self._supervisor.start(worker) for worker in self._workers(self)]

    def stop(self) -> None:
        """Stop the workers, which could open another shard's log, and close the logs."""
        self._supervisor.stop_each(self._running)
        self.queues.stop()
        if self.flusher is not None:
            self.flusher.stop()
        try:
            self.mark()
        except OSError as error:
            log.warning("the end of each shard log could not be saved: %s", error)
        self.store.close(self.streams.values())

    def mark(self) -> None:
        """Save where every shard log ends; the next start and `headrace check` find missing records by it."""
        self.store.database.keep_room()
        with self.lock:
            self.store.mark(self.streams.values())

    # --- streams ------------------------------------------------------------------------------

    def find(self, account: str, region: str, request: Mapping[str, Any]) -> Stream:
        """Return the stream that a request names by StreamName, StreamARN or StreamId. Raises AwsError."""
        self.remove_deleted()
        name = request.get("StreamName")
        arn = request.get("StreamARN")
        stream_id = request.get("StreamId")
        if arn is not None:
            key = key_of_arn(arn)
            if key is None:
                raise invalid_argument(f"StreamARN {arn} is not a valid ARN.")
            if name is not None and key[2] != name:
                raise invalid_argument("StreamName and StreamARN do not name the same stream.")
        elif name is not None:
            key = (account, region, name)
        elif stream_id is not None:
            return self._of_public_id(account, region, stream_id)
        else:
            raise invalid_argument("Either StreamName or StreamARN should be specified.")
        stream = self.streams.get(key)
        if stream is None:
            raise stream_not_found(key[2], key[0])
        if stream_id is not None and stream.public_id != stream_id:
            raise invalid_argument("StreamId does not belong to the stream that is named.")
        return stream

    def _of_public_id(self, account: str, region: str, stream_id: str) -> Stream:
        for stream in list(self.by_id.values()):
            where = (stream.account, stream.region)
            if where == (account, region) and stream.public_id == stream_id:
                return stream
        raise stream_not_found(stream_id, account)

    def find_active(
        self, account: str, region: str, request: Mapping[str, Any], now_ms: int
    ) -> Stream:
        """Return the stream that a request names. Raises ResourceInUseException when it is not ACTIVE."""
        stream = self.find(account, region, request)
        status = stream.status(now_ms)
        if status != "ACTIVE":
            raise not_active(stream.name, stream.account, status)
        return stream

    def find_consumer(self, arn: str, now_ms: int) -> tuple[Stream, Consumer]:
        """Return a consumer and its stream. Raises ResourceNotFoundException."""
        consumer = self.consumers.by_arn(arn, now_ms)
        stream = None if consumer is None else self.by_id.get(consumer.stream_id)
        if consumer is None or stream is None:
            raise AwsError("ResourceNotFoundException", f"Consumer {arn} not found.")
        return stream, consumer

    def key_of(self, arn: str) -> str:
        """Return the ARN of the customer managed key of a stream, or of a queue's stream; "" when there is none."""
        opened = self.queues.by_arn(arn)
        stream = self.registry.find_arn(arn) if opened is None else opened.stream
        if stream is None or not stream.key_id:
            return ""
        return self.registry.keys.arn_of(stream.key_id, stream.account, stream.region)

    def add(self, stream: Stream) -> None:
        """Store a new stream (its logs, then its document), then let requests see it."""
        self.store.add(stream)
        self.registry.add(stream)

    def update(self, stream: Stream, now_ms: int) -> None:
        """Store a change of the control plane; the stream is UPDATING for `state_delay_ms`."""
        if self.state_delay_ms:
            stream.latest_status, stream.settles_ms = "UPDATING", now_ms + self.state_delay_ms
        self.save(stream)

    def delete(self, stream: Stream, now_ms: int) -> None:
        """Delete a stream; it stays DELETING for `state_delay_ms` first."""
        if not self.state_delay_ms:
            self.remove(stream)
            return
        stream.latest_status, stream.settles_ms = "DELETING", now_ms + self.state_delay_ms
        self.save(stream, frees=True)
        self._deleting.add(stream.stream_id)

    def remove_deleted(self) -> None:
        """Remove the streams whose time in DELETING is over."""
        if not self._deleting:
            return
        with self.lock:
            for stream_id in list(self._deleting):
                stream = self.by_id.get(stream_id)
                if stream is None:
                    self._deleting.discard(stream_id)
                elif self.clock.now_ms() >= stream.settles_ms:
                    self._deleting.discard(stream_id)
                    self.remove(stream)

    def save(self, stream: Stream, *, frees: bool = False) -> None:
        """See `StreamStore.save`."""
        self.store.save(stream, frees=frees)

    def remove(self, stream: Stream) -> None:
        """Delete a stream and its records."""
        with self.lock:
            with self.consumers.lock, self.store.database.transaction(frees=True):
                self.consumers.remove_of(stream)
                self.store.delete(stream)
            self.registry.remove(stream)
            for shard in stream.shards:
                if shard.log is not None:
                    with shard.log.lock:
                        shard.log.end()
        self.wake(stream)
        if self.throttle is not None:
            self.throttle.forget(stream)
        self.store.discard(stream)

    def wake(self, stream: Stream) -> None:
        """Tell the listeners of a stream that it has new records or has changed."""
        self.registry.wake(stream)
