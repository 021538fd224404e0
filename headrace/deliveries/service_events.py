"""The events that services send to the default event bus: each waits in the outbox if a rule takes it."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace.core.values import iso_of
from headrace.deliveries.outbox import queue_call
from headrace.moto.current_cloud import CURRENT
from headrace.moto.storage.changes import CHANGES


def queue_service_event(
    what: str,
    source: str,
    detail_type: str,
    detail: Mapping[str, Any],
    *,
    resources: Sequence[str] = (),
    account: str,
    region: str,
) -> None:
    """Queue a service's event for the default event bus, if a rule takes it; `what` names its subject in the log."""
    rules = _find_rules(account, region)
    if rules is not None and not rules:
        return
    event = {
        "version": "0",
        "id": str(uuid.UUID(int=0)),
        "source": source,
        "detail-type": detail_type,
        "detail": detail,
        "resources": list(resources),
        "time": iso_of(CURRENT.clock.now_ms()),
        "account": account,
        "region": region,
    }
    if rules is not None and not _is_taken(event, rules):
        return
    entry = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": event["resources"],
        "Time": event["time"],
    }
    queue_call(
        f"{what} for the default event bus",
        "events",
        "PutEvents",
        {"Entries": [entry]},
        account=account,
        region=region,
    )


def _find_rules(account: str, region: str) -> Collection[Any] | None:
    """Return the rules of the default event bus; None while moto has not loaded them."""
    if "events" in CHANGES.deferred:
        return None
    models: Any = sys.modules.get("moto.events.models")
    # Not moto's own lookup, which creates a backend and notes its service as changed.
    regions = dict.get(models.events_backends, account) if models else None
    backend = dict.get(regions, region) if regions else None
    bus = backend.event_buses.get("default") if backend is not None else None
    return () if bus is None else bus.rules.values()


def _is_taken(event: Mapping[str, Any], rules: Collection[Any]) -> bool:
    try:
        return any(takes_event(rule, event) for rule in rules)
    except Exception:  # noqa: BLE001 - an invalid pattern: PutEvents says which, and goes on to the other rules
        return True


def takes_event(rule: Any, event: Mapping[str, Any]) -> bool:
    """Whether moto's rule takes an event in EventBridge's form. Raises what an invalid pattern raises."""
    # A rule with only a schedule has no pattern, and matches no event.
    is_schedule = rule.scheduled_expression and not rule.event_pattern.get_pattern()
    return not (rule.state == "DISABLED" or is_schedule) and bool(
        rule.event_pattern.matches_event(event)
    )
