"""The document that a discarded batch leaves at its failure destination.

Format: https://docs.aws.amazon.com/lambda/latest/dg/kinesis-on-failure-destination.html (documented).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from headrace.core.ports import InvokeResult
from headrace.services.lambda_.event_source.batch import Batch


def failure_document(
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
    """Return the document; `result` is that of the last invocation, None when there was none."""
    first, last = batch.records[0], batch.records[-1]
    document: dict[str, Any] = {
        "requestContext": {
            "requestId": request_id,
            "functionArn": function_arn,
            "condition": condition,
            "approximateInvokeCount": batch.attempts,
        }
    }
    if result is not None:
        response: dict[str, Any] = {
            "statusCode": 200,
            "executedVersion": result.executed_version,
            "functionError": result.function_error,
        }
        document["responseContext"] = {k: v for k, v in response.items() if v is not None}
    document["version"] = "1.0"
    document["timestamp"] = _iso(now_ms)
    document["KinesisBatchInfo"] = {
        "shardId": shard_id,
        "startSequenceNumber": first.sequence_number,
        "endSequenceNumber": last.sequence_number,
        "approximateArrivalOfFirstRecord": _iso(first.approximate_arrival_ms),
        "approximateArrivalOfLastRecord": _iso(last.approximate_arrival_ms),
        "batchSize": len(batch.records),
        "streamArn": stream_arn,
    }
    return document


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
