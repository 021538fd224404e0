"""Global tables: none can be made here, of either version, and the answers say so.

The older version (2017.11.29) has calls of its own; the newer one is UpdateTable's ReplicaUpdates.
"""

from __future__ import annotations

from typing import Any, NoReturn

from headrace.aws.calls.errors import AwsError

_NO_REPLICAS = "headrace replicates no tables to other regions: send the table's stream there by a function or a pipe."


def patch(handler: Any) -> None:
    """Add the calls that moto does not have."""
    handler.create_global_table = handler.update_table_replica_auto_scaling = refuse_replicas
    for verb in ("describe", "update"):
        setattr(handler, f"{verb}_global_table", _miss_global_table)
        setattr(handler, f"{verb}_global_table_settings", _miss_global_table)
    handler.list_global_tables = _list_global_tables


def refuse_replicas(_: Any) -> NoReturn:
    """Refuse a request for a replica in another region."""
    raise AwsError("NotImplemented", _NO_REPLICAS, 501)


def _miss_global_table(self: Any) -> NoReturn:
    """Say that there is no such global table; the sentence is assumed."""
    raise AwsError(
        "GlobalTableNotFoundException",
        f"Global table not found: Global table with name: '{self.body.get('GlobalTableName')}' does not exist.",
    )


def _list_global_tables(_: Any) -> Any:
    from moto.core.responses import ActionResult

    return ActionResult({"GlobalTables": []})
