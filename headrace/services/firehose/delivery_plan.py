"""Plans a delivery before it begins: which records it has, and the keys and kinds of its objects."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.services.firehose.buffers import BACKUP, Buffer
from headrace.services.firehose.destinations import DESTINATIONS
from headrace.services.firehose.destinations.base import ObjectNames
from headrace.services.firehose.failures import DELIVERED, PROCESSING_FAILED, SOURCE_BACKUP
from headrace.services.firehose.partitions import LIMIT_OUTPUT, list_values
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.prefix import name_objects
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
    """Return the kinds of objects that a delivery may write: see `failures`."""
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
