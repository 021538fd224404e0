"""Plans and executes a delivery: its records and keys, the destination, retries, error output, backup, result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.ports import BucketNotFound
from headrace.services.firehose import output
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.destinations.common import (
    Attempt,
    Destination,
    ErrorFile,
    ObjectNames,
    Outcome,
)
from headrace.services.firehose.prefix import LIMIT_OUTPUT, list_values, name_objects
from headrace.services.firehose.records import (
    DELIVERED,
    PROCESSING_FAILED,
    SOURCE_BACKUP,
    FailedRecord,
    Ports,
    Record,
    build_processing_line,
    render_lines,
)
from headrace.services.firehose.reports import DeliveryFigures, Reports
from headrace.services.firehose.sorting import BACKUP, Buffer
from headrace.services.firehose.state import DeliveryStream, Intent, is_partitioned


def intend(
    stream: DeliveryStream,
    partition: str,
    buffer: Buffer,
    starts: Mapping[str, str],
    after: Mapping[str, str],
    ports: Ports,
) -> Intent:
    """Return the intent to deliver a buffer; sort the buffer's records by shard.

    Args:
        stream: the delivery stream, with the destination for which the buffer's records were sorted.
        partition: the buffer's partition.
        buffer: the records to deliver.
        starts: by shard, the position from which the records can be read again.
        after: by shard, the position where reading continues after the delivery.
        ports: the rest of the cloud.
    """
    if len(buffer.first) > 1:
        buffer.records.sort(key=lambda record: record.shard_id)
    kinds = _list_kinds(stream, partition, buffer)
    now_ms = ports.clock.now_ms()
    destination = DESTINATIONS[stream.destination_kind]
    if isinstance(destination, ObjectNames):
        keys = destination.name_objects(stream, kinds, ports)
    else:
        naming, values = stream.naming, list_values(partition)
        keys = name_objects(naming, kinds, buffer.oldest_ms, ports.ids, now_ms, values)
    return Intent(
        version=stream.version,
        destination=stream.destination,
        keys=keys,
        oldest_ms=buffer.oldest_ms,
        newest_ms=buffer.newest_ms,
        decided_ms=now_ms,
        counts=dict(buffer.counts),
        start={shard_id: starts[shard_id] for shard_id in buffer.last},
        last=dict(buffer.last),
        after=dict(after),
        kind=stream.destination_kind,
        partition=partition,
    )


def _list_kinds(stream: DeliveryStream, partition: str, buffer: Buffer) -> list[str]:
    """Return the kinds of objects that a delivery may write: see `records.py`."""
    if partition == BACKUP:
        return [SOURCE_BACKUP]
    destination = DESTINATIONS[stream.destination_kind]
    kinds = [destination.error_type, *stream.own_errors]
    if buffer.records or not is_partitioned(stream.destination):
        kinds.append(DELIVERED)
    kinds += sorted({failure.error_type or PROCESSING_FAILED for failure in buffer.failed})
    if stream.processors and PROCESSING_FAILED not in kinds:
        kinds.append(PROCESSING_FAILED)
    if is_partitioned(stream.destination) and LIMIT_OUTPUT not in kinds:
        # After a kill, other records than before may be over the limit.
        kinds.append(LIMIT_OUTPUT)
    if stream.backup is not None and not stream.has_own_backup:
        kinds.append(SOURCE_BACKUP)
    return kinds


def rename_keys(stream: DeliveryStream, intent: Intent, ports: Ports) -> dict[str, str]:
    """Return the object keys under another destination; unchanged if its prefix has other partition keys."""
    naming, values = stream.naming, list_values(intent.partition)
    now_ms = ports.clock.now_ms()
    try:
        return name_objects(naming, list(intent.keys), intent.oldest_ms, ports.ids, now_ms, values)
    except StopIteration:
        return intent.keys


@dataclass(frozen=True, slots=True)
class SideOutputs:
    """The number of error objects that were put, and the records and bytes of the backup."""

    outputs: int
    backup_records: int = 0
    backup_bytes: int = 0


def put_side_outputs(
    attempt: Attempt, destination: Destination, buffer: Buffer, refused: Sequence[FailedRecord]
) -> SideOutputs:
    """Put the error output and the backup; delete objects of an earlier try that this one does not put.

    Args:
        attempt: the current try.
        destination: the destination of `attempt`.
        buffer: the delivered records, and those whose processing failed.
        refused: the records that the destination refused for good.
    """
    intent, stream, ports = attempt.intent, attempt.stream, attempt.ports
    bodies: dict[str, bytes] = {}
    by_kind: dict[str, list[FailedRecord]] = {}
    for failure in buffer.failed:
        kind = failure.error_type or PROCESSING_FAILED
        # An intent stored by an earlier version of headrace may lack a key for some kind of object.
        by_kind.setdefault(kind if kind in intent.keys else PROCESSING_FAILED, []).append(failure)
    for kind, failed in by_kind.items():
        bodies[kind] = render_lines(
            build_processing_line(failure, intent.decided_ms) for failure in failed
        )
    if refused:
        for kind in {failure.error_type or destination.error_type for failure in refused}:
            of_kind = [
                failure
                for failure in refused
                if (failure.error_type or destination.error_type) == kind
            ]
            # SideOutputs records that were not processed, there may be those that no object could take.
            bodies[kind] = bodies.get(kind, b"") + (
                destination.error_body(of_kind, attempt)
                if isinstance(destination, ErrorFile)
                else render_lines(destination.error_line(failure, attempt) for failure in of_kind)
            )
    backup, datas = stream.backup, list[bytes]()
    if backup is not None:
        if stream.destination["S3BackupMode"] == "Enabled":
            datas = [record.source.data for record in buffer.sources]
        else:
            kept = buffer.sources if intent.partition == BACKUP else buffer.records
            datas = [record.data for record in kept]
        if datas:
            delimiter = output.find_delimiter(stream.destination)
            bodies[SOURCE_BACKUP] = delimiter.join(datas)
    for name, key in intent.keys.items():
        if name == DELIVERED:
            continue
        s3 = backup if name == SOURCE_BACKUP and backup is not None else stream.s3
        _put(ports, s3, key, bodies.get(name), again=attempt.again, plain=name != SOURCE_BACKUP)
    return SideOutputs(len(bodies.keys() - {SOURCE_BACKUP}), len(datas), sum(map(len, datas)))


def _put(
    ports: Ports,
    s3: Mapping[str, object],
    key: str,
    body: bytes | None,
    *,
    again: bool,
    plain: bool,
) -> None:
    bucket = str(s3["BucketARN"]).rpartition(":")[2]
    if body is None:
        # A bucket that is gone has no object of an earlier try.
        with contextlib.suppress(BucketNotFound):
            if again and any(item.key == key for item in ports.objects.list(bucket, key)):
                ports.objects.delete(bucket, key)
        return
    encoding = None
    kind = str(s3.get("CompressionFormat") or "UNCOMPRESSED")
    if not plain and kind != "UNCOMPRESSED":
        body, encoding = output.compress_body(body, kind, key)
    output.put_beside(ports, s3, key, body, encoding, is_backup=not plain)


@dataclass(slots=True)
class PendingDelivery:
    """A delivery under way: its buffer, the records left to deliver, and those that cannot be delivered.

    Attributes:
        again: whether an earlier try may have put some of its objects.
        outcome: the last try's outcome, with the destination's version, when only the error output or the backup is
            left. The records are then not sent again: not every destination recognizes repeated ones.
        retry_at_s: the monotonic time of the next try.
    """

    buffer: Buffer
    left: list[Record]
    again: bool
    refused: list[FailedRecord] = field(default_factory=list[FailedRecord])
    retry_at_s: float = 0.0
    size_bytes: int = 0
    objects: int = 0
    outcome: tuple[int, Outcome] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write: no record, no failure, no backup."""
        return not (self.buffer.records or self.buffer.failed or self.buffer.sources)

    def take_back(self, before: tuple[int, int, int]) -> None:
        """Restore the counts of refused records, bytes and objects: the next try refuses and reports them again."""
        del self.refused[before[0] :]
        self.size_bytes, self.objects = before[1:]


def execute(
    stream: DeliveryStream,
    intent: Intent,
    pending: PendingDelivery,
    ports: Ports,
    reports: Reports,
    *,
    partitions: int,
    exceeded: bool,
) -> Intent | None:
    """Try to deliver. Return None when done, else the intent to store; the next try is at `retry_at_s`.

    Args:
        stream: the delivery stream; the intent's destination is used, even if the stream's has changed.
        intent: the intent that was stored before the first try.
        pending: the records left to deliver; this function updates it.
        ports: the rest of the cloud.
        reports: receives the failures and the deliveries.
        partitions: the number of active partitions.
        exceeded: whether records needed more partitions than the limit allows.
    """
    stream = replace(
        stream,
        destination=intent.destination,
        destination_kind=intent.kind,
        version=intent.version,
    )
    destination = DESTINATIONS[intent.kind]
    is_empty, number = pending.is_empty, intent.attempts + 1
    attempt = Attempt(stream, intent, pending.left, ports, number, pending.again or number > 1)
    outcome = _deliver_remaining(destination, attempt, pending)
    before = len(pending.refused), pending.size_bytes, pending.objects
    pending.size_bytes += outcome.size_bytes
    pending.objects += outcome.objects
    pending.refused += outcome.failed
    reports.measure(*outcome.measured)
    if outcome.dropped:
        reports.report_dropped(outcome.dropped)
    if outcome.retry:
        again = _plan_retry(destination, intent, outcome, pending, ports)
        if again is not None:
            reports.will_retry(outcome.retry)
            return again
        for failure in outcome.retry:
            failure.attempts = number
        pending.refused += outcome.retry
    try:
        side = put_side_outputs(attempt, destination, pending.buffer, pending.refused)
    except Exception:
        pending.take_back(before)
        pending.outcome = stream.version, replace(outcome, measured=[], dropped=[])
        raise
    _delete_renamed(intent, ports)
    if failed := [*pending.buffer.failed, *pending.refused]:
        reports.report_refused(failed)
    if not is_empty:
        figures = _figures_of(intent, pending, side)
        counted = partitions if is_partitioned(intent.destination) else None
        reports.report_delivered(replace(figures, partitions=counted, exceeded=exceeded))
    return None


def _delete_renamed(intent: Intent, ports: Ports) -> None:
    for bucket, key in intent.renamed:
        with contextlib.suppress(BucketNotFound):
            ports.objects.delete(bucket, key)


def _figures_of(intent: Intent, pending: PendingDelivery, side: SideOutputs) -> DeliveryFigures:
    return DeliveryFigures(
        records=len(pending.buffer.records) - len(pending.refused),
        size_bytes=pending.size_bytes,
        objects=pending.objects,
        oldest_ms=intent.oldest_ms,
        backup_records=side.backup_records,
        backup_bytes=side.backup_bytes,
        outputs=side.outputs,
        is_backup=intent.partition == BACKUP,
        refused=len(pending.refused),
    )


def _deliver_remaining(
    destination: Destination, attempt: Attempt, pending: PendingDelivery
) -> Outcome:
    """Deliver the remaining records, unless an earlier try did and only the error output is left."""
    if pending.outcome is not None and pending.outcome[0] == attempt.stream.version:
        return pending.outcome[1]
    pending.outcome = None
    has_work = pending.left or (pending.again and DELIVERED in attempt.intent.keys)
    return destination.deliver(attempt) if has_work else Outcome()


def _plan_retry(
    destination: Destination,
    intent: Intent,
    outcome: Outcome,
    pending: PendingDelivery,
    ports: Ports,
) -> Intent | None:
    """Return the intent for the next try; None when the retry duration is over."""
    now_ms = outcome.end_ms or ports.clock.now_ms()
    since_ms = intent.failing_since_ms or now_ms
    if (now_ms - since_ms) / 1000 >= destination.retry_s(intent.destination):
        return None
    wait_s = destination.wait_s(intent.attempts + 1, int(ports.ids.hex(8), 16) / 2**32)
    pending.left = [failure.record for failure in outcome.retry]
    pending.retry_at_s = ports.clock.monotonic_s() + wait_s
    return replace(intent, attempts=intent.attempts + 1, failing_since_ms=since_ms)


def list_objects(stream: DeliveryStream, intent: Intent) -> list[list[str]]:
    """Return the bucket and key of every object of an intent."""
    stream = replace(stream, destination=intent.destination, destination_kind=intent.kind)
    backup = str((stream.backup or stream.s3)["BucketARN"]).rpartition(":")[2]
    return [
        [backup if name == SOURCE_BACKUP else stream.bucket, key]
        for name, key in intent.keys.items()
    ]
