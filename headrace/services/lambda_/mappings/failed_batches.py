"""Gives up batches: sends a document about the batch to the failure destination, and records its end in the batch tree.

Source: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html, and
services-dynamodb-errors.html beside it (documented).

A mapping's CloudWatch metrics: the function's IteratorAge, and the mapping's event counts if they are enabled.

Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html#event-source-mapping-metrics
(documented). The counts are of events, not batches, and are sent only if MetricsConfig has EventCount.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.clock import Clock
from headrace.core.ports import InvokeResult, Metric, MetricSink
from headrace.core.values import iso_of
from headrace.services.lambda_.mappings import store
from headrace.services.lambda_.mappings.batch import Batch
from headrace.services.lambda_.mappings.checks import EventWriter
from headrace.services.lambda_.mappings.mapping import Mapping
from headrace.services.lambda_.mappings.store import BatchSource, Ports

log = logging.getLogger(__name__)


class FailedBatches:
    """Gives up batches of one lane. Not thread-safe."""

    def __init__(
        self, mapping: Mapping, source: BatchSource, ports: Ports, counts_: Counts
    ) -> None:
        self._mapping = mapping
        self._place = source
        self._ports = ports
        self._counts = counts_

    def give_up(
        self,
        batch: Batch,
        condition: str,
        events: EventWriter,
        *,
        result: InvokeResult | None = None,
    ) -> None:
        """Send a batch's document to the failure destination, if there is one, and record its end."""
        mapping, ports = self._mapping, self._ports
        log.warning(
            "mapping %s gives up %d records of %s: %s",
            mapping.uuid,
            len(batch.records),
            self._place.shard_id,
            condition,
        )
        destination = mapping.failure_destination
        sent = self._send(destination, batch, condition, events, result) if destination else None
        if sent is None:
            mapping.dropped += len(batch.records)
            if mapping.settings.counts_events:
                self._counts.count(DROPPED, len(batch.records))
            ports.trace.write(self._place, batch.history, batch, store.DROPPED, condition)
            return
        if mapping.settings.counts_events:
            self._counts.count(DELIVERED, len(batch.records))
        ports.trace.write(
            self._place, batch.history, batch, store.SENT, f"{condition}; {destination}; {sent}"
        )

    def note_expired(self, batch: Batch) -> None:
        """Record that the stream lost a batch's records before the function was done with them."""
        mapping, ports, count = self._mapping, self._ports, len(batch.records)
        log.warning(
            "mapping %s: %d records of %s expired before %s was done with them",
            mapping.uuid,
            count,
            self._place.shard_id,
            mapping.function_arn,
        )
        mapping.note_expired(self._place.shard_id, count, int(batch.records[-1].sequence_number))
        if mapping.settings.counts_events:
            self._counts.count(DROPPED, count)
        ports.trace.write(
            self._place, batch.history, batch, store.DROPPED, "expired from the stream"
        )

    def _send(
        self,
        destination: str,
        batch: Batch,
        condition: str,
        events: EventWriter,
        result: InvokeResult | None,
    ) -> str | None:
        """Send a batch's document. Return the message id, or None when the destination refuses it for good.

        Documented (monitoring-metrics-types.html, DestinationDeliveryFailures): permissions, wrong resources and size
        limits. As on AWS, the document is lost then, and the mapping goes on. Raises AwsError when a retry may help.
        """
        mapping, ports = self._mapping, self._ports
        now_ms = ports.clock.now_ms()
        document = build_failure_document(
            batch,
            condition=condition,
            stream_arn=mapping.stream_arn,
            shard_id=self._place.shard_id,
            function_arn=mapping.function_arn,
            request_id=result.request_id if result else ports.ids.uuid(),
            result=result,
            now_ms=now_ms,
        )
        key = self._build_key(now_ms)
        problem = ports.permits.problem_with_sending(
            ports.role_of(mapping.function_arn), destination, key
        )
        if problem:
            return self._note_refusal(destination, problem)
        if destination.split(":")[2] == "s3":
            # Only in a bucket does the document contain the records.
            document["payload"] = events.event(batch.records).decode()
        try:
            return ports.destinations.send(destination, json.dumps(document), object_key=key)
        except LookupError:
            return self._note_refusal(destination, "Failure destination not found")
        except AwsError as error:
            if error.may_pass:
                raise
            return self._note_refusal(destination, f"{error}")

    def _note_refusal(self, destination: str, why: str) -> None:
        mapping = self._mapping
        log.warning("mapping %s: the failure destination %s: %s", mapping.uuid, destination, why)
        mapping.last_result = f"PROBLEM: {why}"
        self._counts.destination_failure()

    def _build_key(self, now_ms: int) -> str:
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        name = f"{moment:%Y-%m-%dT%H.%M.%S}-{self._ports.ids.uuid()}"
        return f"aws/lambda/{self._mapping.uuid}/{self._place.shard_id}/{moment:%Y/%m/%d}/{name}"


def build_failure_document(
    batch: Batch,
    *,
    condition: str,
    stream_arn: str,
    shard_id: str,
    function_arn: str,
    request_id: str,
    result: InvokeResult | None,
    now_ms: int,
) -> dict[str, Any]:
    """Return the document. `result` is the result of the last invocation, or None when there was none."""
    first, last = batch.records[0], batch.records[-1]
    document: dict[str, Any] = {
        "requestContext": {
            "requestId": request_id,
            "functionArn": function_arn,
            "condition": condition,
            # The count is at least 1, even for a batch that was never tried.
            "approximateInvokeCount": max(1, batch.attempts),
        }
    }
    if result is not None:
        document["responseContext"] = {
            "statusCode": 200,
            "executedVersion": result.executed_version,
            "functionError": result.function_error,
        }
    document["version"] = "1.0"
    document["timestamp"] = iso_of(now_ms)
    of_table = stream_arn.split(":")[2] == "dynamodb"
    document["DDBStreamBatchInfo" if of_table else "KinesisBatchInfo"] = {
        "shardId": shard_id,
        "startSequenceNumber": first.sequence_number,
        "endSequenceNumber": last.sequence_number,
        "approximateArrivalOfFirstRecord": iso_of(first.approximate_arrival_ms),
        "approximateArrivalOfLastRecord": iso_of(last.approximate_arrival_ms),
        "batchSize": len(batch.records),
        "streamArn": stream_arn,
    }
    return document


NAMESPACE = "AWS/Lambda"

POLLED = "PolledEventCount"
FILTERED_OUT = "FilteredOutEventCount"
INVOKED = "InvokedEventCount"
FAILED_INVOKE = "FailedInvokeEventCount"
DELETED = "DeletedEventCount"
DROPPED = "DroppedEventCount"
DESTINATION_FAILURE = "DestinationDeliveryFailures"
DELIVERED = "OnFailureDestinationDeliveredEventCount"


class Counts:
    """The metrics of one mapping. Thread-safe."""

    def __init__(self, mapping: Mapping, metrics: MetricSink, clock: Clock) -> None:
        self._mapping = mapping
        self._metrics = metrics
        self._clock = clock

    def count(self, name: str, events: int) -> None:
        """Count events, if the mapping's event counts are enabled."""
        if events:
            dimension = ("EventSourceMappingUUID", self._mapping.uuid)
            self._put(
                Metric(NAMESPACE, name, float(events), "Count", (dimension,), self._read_now())
            )

    def iterator_age(self, arrival_ms: int) -> None:
        """Send the age that the newest record of a batch has when the function receives it."""
        age_ms = float(max(0, self._read_now() - arrival_ms))
        dimension = ("FunctionName", self._mapping.function_arn.split(":")[6])
        self._put(
            Metric(NAMESPACE, "IteratorAge", age_ms, "Milliseconds", (dimension,), self._read_now())
        )

    def destination_failure(self) -> None:
        """Count a document that the failure destination refused."""
        dimension = ("FunctionName", self._mapping.function_arn.split(":")[6])
        self._put(
            Metric(NAMESPACE, DESTINATION_FAILURE, 1.0, "Count", (dimension,), self._read_now())
        )

    def _put(self, metric: Metric) -> None:
        mapping = self._mapping
        self._metrics.put([metric], account=mapping.account, region=mapping.region)

    def _read_now(self) -> int:
        return self._clock.now_ms()
