"""Builds the Redshift Data API from its parts, and describes it to the gateway."""

from __future__ import annotations

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import EventBusSender, FidelityLevel, Guard
from headrace.core.ports.warehouses import Warehouses
from headrace.core.workers import Supervisor
from headrace.services.redshift_data.actions import ACTIONS
from headrace.services.redshift_data.backend import RedshiftData, SecretReader
from headrace.services.redshift_data.errors import translate
from headrace.services.redshift_data.state import Statements
from headrace.store.database import Database

# The parameters that the Data API accepts without acting on them; all others are enforced or refused.
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # headrace always lists the statements and sessions of the whole account.
    "ListStatements": {"RoleLevel": "ignored"},
    "ListSessions": {"RoleLevel": "ignored"},
}


PROFILE = Profile(target_prefix="RedshiftData")


def build_redshift_data(
    *,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    warehouses: Warehouses,
    secrets: SecretReader,
    guard: Guard,
    buses: EventBusSender,
) -> RedshiftData:
    """Build the Data API; nothing runs before `start`."""
    return RedshiftData(
        clock=clock,
        ids=ids,
        store=Statements(database),
        supervisor=supervisor,
        warehouses=warehouses,
        secrets=secrets,
        guard=guard,
        buses=buses,
    )


def redshift_data_api(data: RedshiftData) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="redshift-data",
        backend=data,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
    )
