"""All channels: creates, finds, changes and deletes them, and lets their records be delivered."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    CallerIdentity,
    Guard,
    Keys,
    LogSink,
    NoDeliveries,
    NoGuard,
    ObjectDeliveries,
)
from headrace.permissions.requests.keys import keys_of_service
from headrace.services.kinesis.channel_orders import SESSION, Channel, ChannelOrder
from headrace.services.kinesis.state import Stream
from headrace.services.kinesis.store import StreamRegistry
from headrace.store.database import Documents

log = logging.getLogger(__name__)

_SERVICE = "kinesis.amazonaws.com"


class Channels:
    """The channels of all accounts and regions. Thread-safe; callers make changes of channels under the service's lock.

    The cloud starts it after what delivers, and stops it before.

    Attributes:
        changing_ms: how long a channel stays CREATING, UPDATING or DELETING.
    """

    def __init__(
        self,
        documents: Documents,
        registry: StreamRegistry,
        clock: Clock,
        ids: Ids,
        *,
        logs: LogSink | None = None,
        guard: Guard | None = None,
        delay_ms: int = 0,
    ) -> None:
        """Take the table of the channels."""
        self.changing_ms = delay_ms
        self._guard = guard or NoGuard()
        self._documents = documents
        self._registry = registry
        self._clock = clock
        self._ids = ids
        self._logs = logs
        self._lock = threading.RLock()
        self._deliveries: ObjectDeliveries = NoDeliveries()
        # Replaced as a whole, so that requests may iterate over it.
        self._by_arn: Mapping[str, ChannelOrder] = {}

    def connect(self, deliveries: ObjectDeliveries) -> None:
        """Take what carries the deliveries out, which itself reads streams; called once, before `start`."""
        self._deliveries = deliveries

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> None:
        """Continue every channel, once the streams are open."""
        for _, document in self._documents.items():  # noqa: PERF102 - no dictionary
            channel = Channel(**document)
            stream = self._registry.by_id.get(channel.stream_id)
            if stream is None:
                log.error("channel %s is ignored: its stream does not exist", channel.arn)
                continue
            order = self._open(channel, stream)
            if not channel.reason and channel.latest_status != "DELETING":
                self._deliveries.run(order)

    def stop(self) -> None:
        """Deliver nothing more; the next start continues."""
        for order in self._by_arn.values():
            self._deliveries.halt(order.order_id)

    def _build_order(self, channel: Channel, stream: Stream) -> ChannelOrder:
        return ChannelOrder(
            channel,
            stream,
            clock=self._clock,
            guard=self._guard,
            logs=self._logs,
            fail=self._fail,
            note_table=self._note_table,
        )

    def _open(self, channel: Channel, stream: Stream) -> ChannelOrder:
        order = self._build_order(channel, stream)
        with self._lock:
            self._by_arn = {**self._by_arn, channel.arn: order}
        return order

    # --- channels -----------------------------------------------------------------------------

    def find(self, arn: str, now_ms: int) -> ChannelOrder:
        """Return a channel. Raises ResourceNotFoundException."""
        order = self._by_arn.get(arn)
        if order is None or _is_gone(order.channel, now_ms):
            raise AwsError("ResourceNotFoundException", f"Channel {arn} not found.")
        return order

    def by_arn(self, arn: str) -> ChannelOrder | None:
        """Return the channel with this ARN, in any state, or None."""
        return self._by_arn.get(arn)

    def listed(self, account: str, region: str, now_ms: int) -> list[ChannelOrder]:
        """Return the channels of an account in a region, by name."""
        return sorted(
            self._those(
                now_ms, lambda one: (one.channel.account, one.channel.region) == (account, region)
            ),
            key=lambda one: one.channel.name,
        )

    def of_stream(self, stream: Stream, now_ms: int) -> list[ChannelOrder]:
        """Return the channels on a stream."""
        return self._those(now_ms, lambda one: one.stream is stream)

    def _those(self, now_ms: int, matches: Callable[[ChannelOrder], bool]) -> list[ChannelOrder]:
        self._remove_deleted(now_ms)
        return [one for one in self._by_arn.values() if matches(one)]

    def all(self) -> Sequence[ChannelOrder]:
        """Return all channels."""
        return list(self._by_arn.values())

    def new_id(self) -> str:
        """Return an id for a new channel."""
        return self._ids.uuid()

    def find_obstacle(self, channel: Channel, stream: Stream) -> str:
        """Return why a new channel cannot deliver, which makes it FAILED (documented); "" if it can.

        It may first have to load IAM. The sentences are assumed.
        """
        order = self._build_order(channel, stream)
        obstacle = self._deliveries.find_obstacle(order)
        if obstacle:
            return obstacle
        service = CallerIdentity(_SERVICE, source_arn=channel.arn, source_account=channel.account)
        refusal = self._guard.denial(service, "sts:AssumeRole", channel.role_arn)
        if refusal:
            return f"The service execution role {channel.role_arn} cannot be assumed. {refusal}"
        asked: list[tuple[str, str, Keys]] = [(*one, {}) for one in order.list_permissions()]
        keys = self._registry.keys
        if stream.key_id:
            key_arn = keys.arn_of(stream.key_id, stream.account, stream.region)
            context = keys_of_service("kinesis", stream.account, stream.region, stream.arn)
            asked.append(("kms:Decrypt", key_arn, context))
        acting = CallerIdentity(channel.role_arn, SESSION)
        refusals = [self._guard.denial(acting, *one) for one in asked]
        sentence = next(filter(None, refusals), "")
        return f"The service execution role lacks a permission. {sentence}" if sentence else ""

    def add(self, channel: Channel, stream: Stream, obstacle: str) -> None:
        """Store a new channel, then let requests see it. With an obstacle it will be FAILED."""
        channel.settles_ms = channel.created_ms + self.changing_ms
        # Without a delay the positions say it all, whatever the clock does.
        channel.active_ms = channel.settles_ms if self.changing_ms else 0
        channel.reason = obstacle
        if not self.changing_ms:
            # Stored so: a clock that is set back must not make it CREATING again.
            channel.latest_status = "FAILED" if obstacle else "ACTIVE"
        order = self._build_order(channel, stream)
        if not channel.reason:
            # First the positions: a channel without them would begin with all records of the stream.
            self._deliveries.begin(order)
        self._documents.put(channel.arn, channel.document())
        order = self._open(channel, stream)
        if not channel.reason:
            self._deliveries.run(order)

    def make_table(self, order: ChannelOrder) -> None:
        """Make the table of a new channel, which is FAILED if that cannot be done. Callers hold no lock of the service.

        A kill before this is made good by the first delivery.
        """
        if order.channel.table and not order.channel.reason:
            self._deliveries.make_table(order)

    def update(self, order: ChannelOrder, now_ms: int) -> None:
        """Store changed settings; the channel is UPDATING for `changing_ms`, and delivers on."""
        channel = order.channel
        if self.changing_ms:
            channel.latest_status, channel.settles_ms = "UPDATING", now_ms + self.changing_ms
        self.save(channel)
        self._deliveries.wake(order.order_id)

    def save(self, channel: Channel) -> None:
        """Store a changed channel; if this fails, take the change back. Raises DiskFull, OSError."""
        try:
            self._documents.put(channel.arn, channel.document())
        except BaseException:
            stored: dict[str, Any] = self._documents.get(channel.arn) or {}
            for name, value in stored.items():
                setattr(channel, name, value)
            raise

    def delete(self, order: ChannelOrder, now_ms: int) -> None:
        """Delete a channel, which stays DELETING for `changing_ms` first. What was not delivered yet never is."""
        channel = order.channel
        if self.changing_ms:
            channel.latest_status, channel.settles_ms = "DELETING", now_ms + self.changing_ms
            self.save(channel)
            self._deliveries.halt(order.order_id)
        else:
            self._remove(order)

    def statuses(self) -> list[dict[str, Any]]:
        """Return the status of every channel for `/_headrace/kinesis/channels`; one that delivers has figures."""
        now_ms = self._clock.now_ms()
        return [
            {
                "name": order.name,
                "arn": order.channel.arn,
                "account": order.account,
                "region": order.region,
                "stream": order.stream.name,
                "status": order.channel.status(now_ms),
                "reason": order.channel.reason,
                **(self.status_of_delivery(order) or {}),
            }
            for order in self.all()
        ]

    def status_of_delivery(self, order: ChannelOrder) -> Mapping[str, object] | None:
        """Return a channel's figures, see `ObjectDeliveries.status`; None if nothing is delivered."""
        return self._deliveries.status(order.order_id)

    def _fail(self, channel: Channel, reason: str) -> None:
        with self._lock:
            channel.latest_status, channel.reason = "FAILED", reason
            self.save(channel)

    def _note_table(self, channel: Channel, definition: str, arn: str) -> None:
        with self._lock:
            channel.definition, channel.table_arn = definition, arn
            self.save(channel)

    def _remove_deleted(self, now_ms: int) -> None:
        for order in self.all():
            if _is_gone(order.channel, now_ms):
                self._remove(order)

    def _remove(self, order: ChannelOrder) -> None:
        with self._lock:
            if self._by_arn.get(order.channel.arn) is not order:
                return
            # First the channel: without its positions it would begin with all records of the stream.
            self._documents.delete(order.channel.arn)
            self._by_arn = {arn: one for arn, one in self._by_arn.items() if one is not order}
        self._deliveries.forget(order.order_id)


def _is_gone(channel: Channel, now_ms: int) -> bool:
    return channel.latest_status == "DELETING" and now_ms >= channel.settles_ms
