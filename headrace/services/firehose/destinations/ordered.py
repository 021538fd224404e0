"""The destination of another service's orders: objects whose names, bytes and checks are the order's own.

Kinesis' channels are such orders; see `headrace.core.ports.data`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headrace.core.ports import ObjectOrder
from headrace.services.firehose import output
from headrace.services.firehose.destinations.common import Attempt, Outcome, compute_backoff_s
from headrace.services.firehose.errors import invalid
from headrace.services.firehose.ports import Ports
from headrace.services.firehose.records import DELIVERED, FailedRecord
from headrace.services.firehose.state import DeliveryStream


@dataclass(slots=True)
class OrderedStream(DeliveryStream):
    """A delivery stream that carries out an order. No request sees it."""

    order: ObjectOrder = field(default=cast("ObjectOrder", None))

    @property
    def has_aggregates(self) -> bool:
        """False: an order gets the stream's records as they are."""
        return False


def order_of(stream: DeliveryStream) -> ObjectOrder:
    """Return the order that a stream carries out."""
    assert isinstance(stream, OrderedStream)
    return stream.order


class OrderedDestination:
    """See `Destination`. A missing bucket, or one that refuses, is tried again without limit, as for S3."""

    kind = "Ordered"
    error_type = "validation-failed"
    metrics = "DeliveryToS3"

    def check(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: no request can create one."""
        raise invalid("The destination is not one of Firehose's.")

    def update(self, present: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse: no request can change one."""
        return self.check(update)

    def describe(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Return nothing: no request sees one."""
        return {}

    def retry_s(self, configuration: Mapping[str, Any]) -> float:
        """See `Destination.retry_s`. No record is in `Outcome.retry`."""
        return 0.0

    def wait_s(self, attempts: int, ids_random: float) -> float:
        """See `Destination.wait_s`."""
        return compute_backoff_s(attempts, ids_random)

    def name_objects(
        self, stream: DeliveryStream, kinds: Sequence[str], ports: Ports
    ) -> dict[str, str]:
        """See `ObjectNames.name_objects`."""
        order, now_ms = order_of(stream), ports.clock.now_ms()
        return {
            kind: (order.error_key if kind else order.object_key)(now_ms, ports.ids.uuid())
            for kind in kinds
        }

    def deliver(self, attempt: Attempt) -> Outcome:
        """See `Destination.deliver`. The object's bytes are the same at each try."""
        stream, key = attempt.stream, attempt.intent.keys[DELIVERED]
        order, outcome, datas = order_of(stream), Outcome(), list[bytes]()
        for record in attempt.records:
            fault = order.find_fault(record.data)
            if fault is None:
                datas.append(record.data)
            else:
                outcome.failed.append(FailedRecord(record, *fault, attempt.number))
        if not datas:
            return outcome
        body, encoding = output.compress_for(stream, order.join(datas), key)
        output.put(attempt.ports, stream.destination, key, body, encoding)
        outcome.objects, outcome.size_bytes = 1, len(body)
        return outcome

    def error_line(self, failure: FailedRecord, attempt: Attempt) -> dict[str, Any]:
        """See `Destination.error_line`."""
        record = failure.record
        return dict(
            order_of(attempt.stream).describe_fault(
                {
                    "shardId": record.shard_id,
                    "sequenceNumber": record.source.sequence_number,
                    "arrivalTimestamp": record.arrival_ms,
                    "errorCode": failure.code,
                    "errorMessage": failure.message,
                }
            )
        )
