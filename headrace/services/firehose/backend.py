"""Firehose's state and rules: starts, stops, finds and changes delivery streams, and accepts records."""

from __future__ import annotations

import base64
import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.ports import StreamReader
from headrace.core.ports.messages import SearchDomainNotFound
from headrace.core.ports.warehouses import WarehouseUnavailable
from headrace.core.workers import Supervisor, WorkerHandle
from headrace.services.firehose.delivery import Delivery, start_delivery
from headrace.services.firehose.destinations.iceberg_routing import check_tables
from headrace.services.firehose.destinations.redshift import KIND as REDSHIFT
from headrace.services.firehose.errors import Throttle, busy, invalid, not_found
from headrace.services.firehose.orders import Orders
from headrace.services.firehose.output import check_schema
from headrace.services.firehose.permits import check_domain, find_domain, no_domain
from headrace.services.firehose.records import Ports
from headrace.services.firehose.reports import Reports
from headrace.services.firehose.s3_settings import find_query
from headrace.services.firehose.sources import JournalSource, KinesisSource, Source
from headrace.services.firehose.state import DeliveryStream, DeliveryStreams, Progress
from headrace.store.check import Marks
from headrace.store.folders import clear
from headrace.store.losses import NOTHING_KNOWN, KnownLog

log = logging.getLogger(__name__)

Key = tuple[str, str, str]


class _Running:
    """A delivery stream with its source and its worker."""

    def __init__(self, stream: DeliveryStream, source: Source, delivery: Delivery) -> None:
        self.stream = stream
        self.source = source
        self.delivery = delivery
        self.handle: WorkerHandle | None = None
        self.unsubscribe = lambda: None
        self.current = True


class Firehose:
    """All delivery streams. Thread-safe; operations that change a stream hold `lock`."""

    def __init__(
        self,
        *,
        folder: Path,
        store: DeliveryStreams,
        marks: Marks,
        ports: Ports,
        streams: StreamReader,
        supervisor: Supervisor,
        fsync: bool,
        state_delay_ms: int = 0,
        throttle: Throttle | None = None,
    ) -> None:
        self.throttle = throttle
        self.ids = ports.ids
        # How long delivery streams stay CREATING and DELETING.
        self.state_delay_ms = state_delay_ms
        self.lock = threading.RLock()
        # The folder of the journals: one for each delivery stream with direct puts.
        self._folder = folder
        self._marks = marks
        self._known: dict[Path, KnownLog] = {}
        # One sentence for each loss of records that `start` found.
        self.losses: list[str] = []
        self._store = store
        self._supervisor = supervisor
        self.fsync = fsync
        self._reader = streams
        self._ports = ports
        self.guard = ports.guard
        self.keys = ports.keys
        self._running: dict[Key, _Running] = {}
        # The deliveries of other services.
        self.orders = Orders(store, ports, streams, supervisor)

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Continue every delivery stream from its stored progress; delete those in DELETING."""
        streams: list[DeliveryStream] = []
        for stream in self._store.load():
            if stream.is_deleting:
                self._store.delete(stream.stream_id)
            else:
                streams.append(stream)
        self._clear({stream.stream_id for stream in streams})
        self._known = self._marks.known()
        for stream in streams:
            self._run(stream)
        self._known = {}

    def _clear(self, present: set[str]) -> None:
        """Remove the journals of delivery streams whose deletion a kill interrupted."""
        clear(self._folder, present)

    def prepare_stop(self) -> None:
        """From now on, treat failures of functions as caused by the stop: their records are tried again."""
        self._ports.stopping.set()

    def stop(self) -> None:
        """Stop the workers and close the journals. The next start reads the buffers again."""
        self.prepare_stop()
        with self.lock:
            for running in self._running.values():
                self._halt(running)

    def _halt(self, running: _Running) -> None:
        running.unsubscribe()
        if running.handle is not None:
            running.handle.stop()
            running.handle.join(5)
        if isinstance(running.source, JournalSource):
            try:
                self._marks.note([running.source.log])
            except OSError as error:
                log.warning("how far the journal reaches is not noted: %s", error)
            running.source.close()

    def _open_source(self, stream: DeliveryStream) -> Source:
        if stream.source_arn:
            return KinesisSource(self._reader, stream.source_arn)
        folder = self._folder / stream.stream_id
        known = self._known.get(folder, NOTHING_KNOWN)
        source = JournalSource(folder, stream.stream_id, stream.created_ms, known=known)
        source.log.before_trim = lambda start: self._marks.note_start(source.log, start)
        for loss in source.log.losses:
            if not loss.accepted:
                sentence = f"delivery stream {stream.name}: {source.log.describe(loss)}"
                log.error("%s; see: headrace check --repair", sentence)
                self.losses.append(sentence)
        self._marks.note_losses(source.log)
        return source

    def _run(self, stream: DeliveryStream) -> None:
        source = self._open_source(stream)
        holder: list[_Running] = []
        delivery = Delivery(stream, source, self._store, self._ports, lambda: holder[0].current)
        running = _Running(stream, source, delivery)
        holder.append(running)
        running.handle, running.unsubscribe = start_delivery(self._supervisor, delivery, source)
        self._running[(stream.account, stream.region, stream.name)] = running

    def check_query(self, destination: Mapping[str, Any]) -> None:
        """Raise AwsError for a query that JQ does not compile."""
        query = find_query(destination)
        if query:
            self._ports.queries.check(query)

    def check_domain(self, stream: DeliveryStream) -> None:
        """Raise AwsError for an OpenSearch domain that does not exist or that the role may not describe."""
        arn = find_domain(stream)
        if not arn:
            return
        region, account, resource = arn.split(":", 5)[3:]
        try:
            self._ports.search.of_domain(
                resource.removeprefix("domain/"), account=account, region=region
            )
        except SearchDomainNotFound as error:
            raise no_domain(arn) from error
        check_domain(self.guard, stream)

    def find_vpc(self, stream: DeliveryStream) -> None:
        """Set the VpcId of a VpcConfiguration's subnets; leave it out for subnets that EC2 does not know."""
        configuration: dict[str, Any] | None = stream.destination.get("VpcConfiguration")
        control = self._ports.control
        if not configuration or control is None:
            return
        asked = {"SubnetIds": configuration["SubnetIds"]}
        with contextlib.suppress(AwsError):
            answer = control.call(
                "ec2", "DescribeSubnets", asked, account=stream.account, region=stream.region
            )
            stream.destination["VpcConfiguration"] = {
                **configuration,
                "VpcId": answer["Subnets"][0]["VpcId"],
            }

    def check_tables(self, stream: DeliveryStream) -> None:
        """Raise AwsError for Iceberg tables that the role cannot read, or a conversion's table that does not exist."""
        check_tables(self._ports.control, stream)
        if stream.conversion is not None:
            check_schema(stream, self._ports)

    def check_destination(self, kind: str, destination: Mapping[str, Any]) -> None:
        """Raise AwsError for a destination that this installation cannot deliver to, or an invalid query."""
        self.check_query(destination)
        if kind == REDSHIFT:
            try:
                self._ports.warehouses.check()
            except WarehouseUnavailable as error:
                raise invalid(str(error)) from error

    # --- delivery streams ---------------------------------------------------------------------

    def find(self, account: str, region: str, name: str) -> DeliveryStream:
        """Return a delivery stream. Raises AwsError."""
        self._remove_deleted()
        return self.present(account, region, name)

    def present(self, account: str, region: str, name: str) -> DeliveryStream:
        """Return a delivery stream without taking the lock: puts run on the event loop's thread. Raises AwsError.

        It may return a stream that has just been deleted, which is not ACTIVE.
        """
        running = self._running.get((account, region, name))
        if running is None:
            raise not_found(name, account)
        return running.stream

    def key_of(self, arn: str) -> str:
        """Return the ARN of a delivery stream's customer-managed key; empty for none. Raises AwsError."""
        region, account, resource = arn.split(":", 5)[3:]
        stream = self.find(account, region, resource.removeprefix("deliverystream/"))
        return str(stream.encryption.get("KeyARN") or "")

    def changeable(self, account: str, region: str, name: str) -> DeliveryStream:
        """Return a delivery stream. Raises AwsError unless it is ACTIVE."""
        stream = self.find(account, region, name)
        status = stream.status(self._ports.clock.now_ms())
        if status != "ACTIVE":
            raise busy(name, account, status)
        return stream

    def delete(self, stream: DeliveryStream) -> None:
        """Delete a delivery stream, after `state_delay_ms` in DELETING. Buffered records are lost, as on AWS."""
        if not self.state_delay_ms:
            self.remove(stream)
            return
        if stream.is_deleting:
            return
        stream.is_deleting = True
        stream.settles_ms = self._ports.clock.now_ms() + self.state_delay_ms
        running = self._running[(stream.account, stream.region, stream.name)]
        running.current = False
        self.save(stream)

    def _remove_deleted(self) -> None:
        now_ms = self._ports.clock.now_ms()
        # Creating or deleting a stream holds the lock for long, so wait for it only when necessary.
        if not any(running.stream.is_deleting for running in list(self._running.values())):
            return
        with self.lock:
            for running in list(self._running.values()):
                if running.stream.is_deleting and now_ms >= running.stream.settles_ms:
                    self.remove(running.stream)

    def exists(self, account: str, region: str, name: str) -> bool:
        """Return whether a delivery stream of that name exists."""
        self._remove_deleted()
        return (account, region, name) in self._running

    def all(self, account: str, region: str) -> list[DeliveryStream]:
        """Return an account's delivery streams, sorted by name."""
        self._remove_deleted()
        return [
            running.stream
            for key, running in sorted(self._running.items())
            if key[:2] == (account, region)
        ]

    def add(self, stream: DeliveryStream) -> None:
        """Create a delivery stream. Its first positions are stored before the stream."""
        source = self._open_source(stream)
        self._store.save_progress(stream.stream_id, Progress(source.first_positions()))
        if isinstance(source, JournalSource):
            source.close()
        self._store.save(stream)
        self._run(stream)

    def settles_ms(self) -> int:
        """Return when a transitional state that begins now ends."""
        return self._ports.clock.now_ms() + self.state_delay_ms if self.state_delay_ms else 0

    def save(self, stream: DeliveryStream) -> None:
        """Store a changed delivery stream, for the next delivery. If storing fails, undo the change."""
        try:
            self._store.save(stream)
        except BaseException:
            self._store.restore(stream)
            raise
        running = self._running[(stream.account, stream.region, stream.name)]
        if running.handle is not None:
            running.handle.wake()

    def remove(self, stream: DeliveryStream) -> None:
        """Delete a delivery stream and the records in its buffer, as AWS does."""
        with self.lock:
            running = self._running.pop((stream.account, stream.region, stream.name))
            running.current = False
            self._halt(running)
            self._store.delete(stream.stream_id)
            if self.throttle is not None:
                self.throttle.forget(stream)
            if isinstance(running.source, JournalSource):
                self._marks.forget(running.source.log.folder)
                running.source.remove()

    def put(
        self, stream: DeliveryStream, datas: Sequence[bytes], now_ms: int, operation: str
    ) -> list[str]:
        """Write records to the journal, durably, and return their ids. Raises LogFull, OSError."""
        texts = [base64.b64encode(data).decode() for data in datas]
        number = self.put_texts(stream, texts, sum(map(len, datas)), now_ms, operation)
        return [f"{number}{index:03}" for index in range(len(datas))]

    def admit(self, stream: DeliveryStream, datas: Sequence[bytes], now_ms: int) -> list[bool]:
        """Return for each record whether the quotas of `limits=aws` admit it; all, without these quotas."""
        if self.throttle is None:
            return [True] * len(datas)
        admitted = self.throttle.admit(stream, list(map(len, datas)), now_ms)
        refused = admitted.count(False)
        if refused:
            self.reports(stream).report_throttled(refused)
        return admitted

    def reports(self, stream: DeliveryStream) -> Reports:
        """Return the reports of a running delivery stream."""
        return self._running[(stream.account, stream.region, stream.name)].delivery.reports

    def put_texts(
        self,
        stream: DeliveryStream,
        texts: Sequence[str],
        size_bytes: int,
        now_ms: int,
        operation: str,
    ) -> str:
        """Write records that are already base64, of `size_bytes` when decoded; see `put`.

        Return the number that begins their ids; the record's place follows it, see `records.PLACES`.
        """
        running = self._running[(stream.account, stream.region, stream.name)]
        assert isinstance(running.source, JournalSource)
        number = running.source.put(texts, size_bytes, now_ms, sync=self.fsync)
        running.delivery.reports.incoming(operation, len(texts), size_bytes, now_ms)
        return number

    def usual(self, account: str, region: str, name: str, now_ms: int) -> DeliveryStream | None:
        """Return a delivery stream that accepts puts now; None if there is none or the action must check further."""
        running = self._running.get((account, region, name))
        if self.throttle is not None or running is None or running.stream.kind != "DirectPut":
            return None
        stream = running.stream
        if stream.status(now_ms) != "ACTIVE" or "Decompression" in stream.processors:
            return None
        if stream.encryption.get("KeyARN"):
            return None
        return stream

    def statuses(self) -> list[dict[str, Any]]:
        """Return the status of every delivery stream for `/_headrace/firehose`. See `Delivery.status`."""
        return [
            {"name": name, "account": account, "region": region, **delivery.status()}
            for (account, region, name), delivery in self.deliveries()
        ]

    def deliveries(self) -> list[tuple[tuple[str, str, str], Delivery]]:
        """Return the running deliveries with account, region and name."""
        with self.lock:
            running = sorted(self._running.items())
        return [(key, one.delivery) for key, one in running]
