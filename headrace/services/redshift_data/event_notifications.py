"""Sends an EventBridge event when a statement ends, if the request set `WithEvent`.

Source of the event's form: docs.aws.amazon.com/redshift/latest/mgmt/data-api-monitoring-events.html (documented).
Delivery is at least once: an event that a kill prevented is sent at the next start.
"""

from __future__ import annotations

import json
import logging

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.ports import BusEvent, EventBusSender
from headrace.core.workers import WorkerDone
from headrace.services.redshift_data.limits import KEPT_MS
from headrace.services.redshift_data.state import Statement
from headrace.services.redshift_data.store import Statements

log = logging.getLogger(__name__)

SOURCE = "aws.redshift-data"
_KIND = "Redshift Data Statement Status Change"


def event_of(statement: Statement) -> BusEvent:
    """Return the event of a statement that has ended."""
    account, region, name = statement.account, statement.region, statement.target_name
    of = (
        make_arn("redshift", region, account, f"cluster:{name}")
        if statement.target == "cluster"
        else make_arn("redshift-serverless", region, account, f"workgroup/{name}")  # assumed
    )
    detail = {
        "principal": statement.principal,
        "statementName": statement.name,
        "statementId": statement.id,
        "redshiftQueryId": statement.parts[-1].query_id or -1,
        "state": statement.status,
        "rows": sum(max(0, part.rows) for part in statement.parts),
        "expireAt": (statement.updated_ms + KEPT_MS) // 1000,
    }
    return BusEvent(SOURCE, _KIND, json.dumps(detail), (of,))


def announce(statement: Statement, buses: EventBusSender, store: Statements) -> None:
    """Send an ended statement's event and store that it was sent. A refused event is logged and dropped."""
    bus = make_arn("events", statement.region, statement.account, "event-bus/default")
    try:
        buses.put(bus, event_of(statement))
    except (AwsError, LookupError) as error:
        log.warning("redshift-data %s: its event is lost: %s", statement.id, error)
    statement.is_announced = True
    store.put(statement)


class LateAnnouncer:
    """A `Worker` that sends the events that a kill prevented."""

    def __init__(
        self, statements: list[Statement], buses: EventBusSender, store: Statements
    ) -> None:
        self.name = "redshift-data events"
        self._statements, self._buses, self._store = statements, buses, store

    def step(self) -> float:
        """Send the events; see `Worker.step`."""
        for statement in self._statements:
            announce(statement, self._buses, self._store)
        raise WorkerDone
