"""Counts the capacity that DynamoDB's reads consume, and its refusals, for CloudWatch.

Documented: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html. A read's
capacity is that of its answer's JSON (AWS counts the items' own bytes), a written item's is one unit
(`ServiceMetrics`); latencies, and the capacity of statements and of single indexes, are not measured.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from typing import Any

from headrace.core.arn import make_arn
from headrace.moto.current_cloud import CURRENT

_UNIT_BYTES = 4096
_CONDITION_FAILED = "ConditionalCheckFailedException"


def note_read(table: Any, size: int, *, is_consistent: bool) -> None:
    """Count a read of a table whose answer has so many bytes. The caller holds `MOTO_LOCK`."""
    units = -(-size // _UNIT_BYTES) * (1.0 if is_consistent else 0.5)
    CURRENT.handled.note(table.table_arn, "ConsumedReadCapacityUnits", units)


def measured(call_action: Any) -> Any:
    """Return the method by which moto's handler answers, which counts reads and refusals too."""

    @functools.wraps(call_action)
    def act(self: Any) -> Any:
        answer = call_action(self)
        status, body = answer[0], answer[2]
        if status == 400:
            _note_refusal(self, body)
        elif status == 200:
            reads = _reads_of(self)
            for name, is_consistent in reads.items():
                table = self.dynamodb_backend.tables.get(name.rpartition("/")[2])
                if table is not None:
                    note_read(table, len(body) // len(reads), is_consistent=is_consistent)
        return answer

    return act


def _reads_of(handler: Any) -> dict[str, bool]:
    """Return the tables that a request reads, and whether it reads them consistently."""
    body, operation = handler.body, handler._get_action()
    if operation in ("GetItem", "Query", "Scan"):
        return {str(body["TableName"]): bool(body.get("ConsistentRead"))}
    if operation == "BatchGetItem":
        asked: dict[str, Any] = body["RequestItems"]
        return {name: bool(keys.get("ConsistentRead")) for name, keys in asked.items()}
    if operation == "TransactGetItems":
        return {str(one["Get"]["TableName"]): True for one in body["TransactItems"]}
    return {}


def _note_refusal(handler: Any, body: Any) -> None:
    text = body.decode() if isinstance(body, bytes) else str(body)
    backend = handler.dynamodb_backend
    if _CONDITION_FAILED in text:
        table = backend.tables.get(str(handler.body.get("TableName")).rpartition("/")[2])
        if table is not None:
            CURRENT.handled.note(table.table_arn, "ConditionalCheckFailedRequests")
        return
    account = make_arn("dynamodb", backend.region_name, backend.account_id, "")
    CURRENT.handled.note(account, "UserErrors")
