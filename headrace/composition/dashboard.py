"""Builds the dashboard of this cloud, and gives it what only this cloud knows."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.composition.foundation import Foundation
from headrace.composition.services import Services
from headrace.dashboard.api import Dashboard
from headrace.dashboard.cloud_account import (
    CloudAccount,
    CloudMeter,
    streaming_queries,
)
from headrace.dashboard.sampler import Rings, Sampler
from headrace.moto.current_cloud import Handled
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.report import report_of
from headrace.services.emr.api import FOLDER as EMR_FOLDER
from headrace.services.emr_serverless.api import FOLDER as EMR_SERVERLESS_FOLDER


class CloudFacts:
    """What only this cloud knows of a pipeline; see `headrace.dashboard.details.Local`."""

    def __init__(
        self,
        meter: CloudMeter,
        services: Services,
        decisions: Decisions,
        fidelity: Callable[[str], Sequence[Mapping[str, str]]],
        data_dir: Path,
    ) -> None:
        self._data_dir = data_dir
        self._services, self._decisions, self._fidelity = services, decisions, fidelity
        self.positions, self.behind = meter.positions, meter.behind
        self.counts_over_time = meter.counts_over_time
        self.counts_by_shard = meter.counts_by_shard
        self._functions = meter.functions

    def traces(self, function: str, sequence: str | None) -> list[dict[str, Any]]:
        """See `Local.traces`."""
        return self._services.lambda_.mappings.traces(function, sequence)

    def durations(self, function: str) -> list[dict[str, int]]:
        """See `Local.durations`."""
        _, durations = self._functions.of(function)
        return [{"upToMs": bound, "count": durations[bound]} for bound in sorted(durations)]

    def queries(self, holder: str, job: str) -> list[dict[str, Any]]:
        """See `Local.queries`."""
        return _read_queries(self._data_dir, holder, job)

    def fidelity(self, stack: str) -> list[Mapping[str, str]]:
        """See `Local.fidelity`."""
        return list(self._fidelity(stack))

    def permissions(self) -> dict[str, Any]:
        """See `Local.permissions`."""
        return report_of(self._decisions)


def _read_queries(data_dir: Path, holder: str, job: str) -> list[dict[str, Any]]:
    if holder.startswith("j-"):
        return streaming_queries(data_dir / EMR_FOLDER / holder / job)
    attempts = data_dir / EMR_SERVERLESS_FOLDER / holder / job
    numbers = [int(one.name) for one in attempts.glob("*") if one.name.isdecimal()]
    return streaming_queries(attempts / str(max(numbers))) if numbers else []


def build_dashboard(
    base: Foundation,
    services: Services,
    decisions: Decisions,
    handled: Handled,
) -> Dashboard:
    """Return the dashboard; its sampler runs once the cloud is served."""
    config = base.config
    account = CloudAccount(
        base.gateway, config.account_id, config.region, lambda: base.moto.engine.ready
    )
    meter = CloudMeter(
        account,
        base.clock,
        kinesis=services.kinesis,
        lambda_=services.lambda_,
        firehose=services.firehose,
        pipes=services.pipes,
        functions=base.functions,
        handled=handled.totals,
        queries=partial(_read_queries, config.data_dir),
    )
    apis = base.gateway.owned

    def fidelity(stack: str) -> list[Mapping[str, str]]:
        return [
            row for api in apis.values() if api.fidelity_rows for row in api.fidelity_rows(stack)
        ]

    sampler = Sampler(account, meter, base.clock, Rings(base.database))
    return Dashboard(
        sampler,
        base.clock,
        token=secrets.token_hex(24),
        local=CloudFacts(meter, services, decisions, fidelity, config.data_dir),
    )
