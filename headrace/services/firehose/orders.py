"""Carries out the orders of other services with Firehose's worker: `headrace.core.ports.ObjectDeliveries`.

An order is a delivery stream that no request sees: its records wait, are planned, put and noted as any delivery's, so
that each is in the bucket once, over kills too (see `delivery`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import (
    BucketNotFound,
    BucketTarget,
    DeliveredObjects,
    ObjectOrder,
    ReadResult,
    StreamReader,
    TableTarget,
)
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.firehose.delivery import Delivery, start_delivery
from headrace.services.firehose.destinations import ordered_tables
from headrace.services.firehose.destinations.ordered_tables import OrderedTableDestination
from headrace.services.firehose.destinations.s3 import OrderedDestination, OrderedStream
from headrace.services.firehose.errors import MAX_BUFFER_MIB
from headrace.services.firehose.output import Suspended
from headrace.services.firehose.records import Ports
from headrace.services.firehose.reports import DeliveryFigures, Reports
from headrace.services.firehose.sources import KinesisSource, position_text
from headrace.services.firehose.state import DeliveryStreams, Progress


class Orders:
    """All orders that are carried out. Thread-safe."""

    def __init__(
        self, store: DeliveryStreams, ports: Ports, streams: StreamReader, supervisor: Supervisor
    ) -> None:
        self._store = store
        self._ports = ports
        self._reader = streams
        self._supervisor = supervisor
        self._lock = threading.RLock()
        self._running: dict[str, _RunningOrder] = {}

    def find_obstacle(self, order: ObjectOrder) -> str:
        """See `ObjectDeliveries.find_obstacle`. The sentences are assumed."""
        for target in (order.target, order.error_target):
            if isinstance(target, TableTarget):
                obstacle = ordered_tables.find_obstacle(order, self._ports.control)
                if obstacle:
                    return obstacle
                continue
            bucket = target.arn.rpartition(":")[2]
            try:
                owner, region = self._ports.objects.home(bucket)
            except BucketNotFound:
                return f"The bucket {bucket} does not exist."
            if owner != target.owner:
                return f"The bucket {bucket} is not owned by account {target.owner}."
            if region != order.region:
                # Documented: data-delivery-quotas.md.
                return f"The bucket {bucket} is in {region}, not in {order.region}."
        return ""

    def begin(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.begin`."""
        positions = KinesisSource(self._reader, order.stream_arn).first_positions()
        self._store.save_progress(order.order_id, Progress(positions))

    def run(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.run`."""
        with self._lock:
            if order.order_id not in self._running:
                self._running[order.order_id] = self._start(order)

    def _start(self, order: ObjectOrder) -> _RunningOrder:
        stream = _stream_for(order)
        source = _SourceFrom(self._reader, order)
        running = _RunningOrder(order, stream)
        reports = OrderReports(stream, self._ports, running.end)
        delivery = Delivery(
            stream, source, self._store, self._ports, lambda: running.current, reports
        )
        running.delivery = delivery
        running.handle, running.unsubscribe = start_delivery(self._supervisor, delivery, source)
        return running

    def make_table(self, order: ObjectOrder) -> None:
        """See `ObjectDeliveries.make_table`."""
        assert self._ports.control is not None
        try:
            ordered_tables.make_table(order, self._ports.control)
        except (ordered_tables.TableRefused, AwsError) as error:
            self.halt(order.order_id)
            words = error.message if isinstance(error, AwsError) else str(error)
            order.note_suspended(words)

    def wake(self, order_id: str) -> None:
        """See `ObjectDeliveries.wake`."""
        with self._lock:
            running = self._running.get(order_id)
            if running is not None and running.handle is not None:
                running.stream.destination = _destination_of(running.order)
                running.handle.wake()

    def halt(self, order_id: str) -> None:
        """See `ObjectDeliveries.halt`."""
        with self._lock:
            running = self._running.pop(order_id, None)
        if running is not None:
            running.end()
            if running.handle is not None:
                running.handle.stop()
                running.handle.join(5)

    def forget(self, order_id: str) -> None:
        """See `ObjectDeliveries.forget`."""
        self.halt(order_id)
        self._store.delete(order_id)

    def status(self, order_id: str) -> Mapping[str, Any] | None:
        """See `ObjectDeliveries.status`; `Delivery.status` has the figures, `Progress.positions` the positions."""
        running = self._running.get(order_id)
        if running is None or running.delivery is None or not running.current:
            return None
        return {**running.delivery.status(), "positions": running.delivery.positions()}


class _RunningOrder:
    """An order with its worker."""

    def __init__(self, order: ObjectOrder, stream: OrderedStream) -> None:
        self.order = order
        self.stream = stream
        self.delivery: Delivery | None = None
        self.handle: WorkerHandle | None = None
        self.unsubscribe = lambda: None
        self.current = True

    def end(self) -> None:
        """Deliver nothing more; the worker ends with its next step."""
        self.current = False
        self.unsubscribe()


class _SourceFrom(KinesisSource):
    """A stream's records that arrived at an order's `from_ms` or later."""

    def __init__(self, reader: StreamReader, order: ObjectOrder) -> None:
        super().__init__(reader, order.stream_arn)
        self._order = order

    def read(self, shard_id: str, position: str, max_records: int, max_bytes: int) -> ReadResult:
        """See `Source.read`."""
        while True:
            result = super().read(shard_id, position, max_records, max_bytes)
            kept = [
                record
                for record in result.records
                if record.approximate_arrival_ms >= self._order.from_ms
            ]
            if kept or not result.records or result.next_position is None:
                return replace(result, records=kept)
            position = position_text(result.next_position)


class OrderReports(Reports):
    """Tells the order what its deliveries do, instead of Firehose's logs and metrics."""

    def __init__(self, stream: OrderedStream, ports: Ports, suspend: Any) -> None:
        super().__init__(stream, ports.clock, ports.logs, ports.metrics, ports.guard)
        self._order = stream.order
        self._suspend = suspend
        self._ports = ports

    def failure(self, error: Exception) -> None:
        """See `Reports.failure`. A bucket of another account, or a table that is gone, ends the deliveries.

        Both are documented causes of a suspension. A bucket that is gone is none (assumed): deliveries wait for it.
        """
        if isinstance(error, Suspended):
            self._suspend()
            self._order.note_suspended(str(error))
        super().failure(error)

    def read(self, records: int, size_bytes: int, behind_ms: int) -> None:
        """See `Reports.read`."""
        self._order.note_read(records, size_bytes)

    def report_delivered(self, delivered: DeliveryFigures) -> None:
        """See `Reports.report_delivered`."""
        self.last_error = ""
        self._order.note_delivered(
            DeliveredObjects(
                records=delivered.records,
                refused=delivered.refused,
                stored_bytes=delivered.size_bytes,
                age_ms=max(0, self._ports.clock.now_ms() - delivered.oldest_ms),
            )
        )

    def _put_log(self, code: str, message: str, s3: Mapping[str, Any] | None = None) -> None:
        self._order.note_error(code, message)

    def measure(self, *measures: Any) -> None:
        """Send nothing: the order has metrics of its own."""


def _stream_for(order: ObjectOrder) -> OrderedStream:
    return OrderedStream(
        name=order.name,
        account=order.account,
        region=order.region,
        stream_id=order.order_id,
        kind="KinesisStreamAsSource",
        created_ms=order.from_ms,
        destination=_destination_of(order),
        destination_kind=(
            OrderedTableDestination.kind
            if isinstance(order.target, TableTarget)
            else OrderedDestination.kind
        ),
        source_arn=order.stream_arn,
        order=order,
    )


def _destination_of(order: ObjectOrder) -> dict[str, Any]:
    hints = {"SizeInMBs": MAX_BUFFER_MIB, "IntervalInSeconds": order.interval_s}
    return {
        **({} if isinstance(order.target, TableTarget) else _s3_of(order, order.target)),
        "BufferingHints": hints,
        "S3Configuration": _s3_of(order, order.error_target),
    }


def _s3_of(order: ObjectOrder, target: BucketTarget) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "RoleARN": order.role_arn,
        "BucketARN": target.arn,
        "ExpectedBucketOwner": target.owner,
        "CompressionFormat": target.compression,
        "StorageClass": target.storage_class,
    }
    if target.key_arn:
        encryption = {"KMSEncryptionConfig": {"AWSKMSKeyARN": target.key_arn}}
        settings["EncryptionConfiguration"] = encryption
    return settings
