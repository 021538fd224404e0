"""Builds Redshift Serverless from its parts, and describes it to the gateway."""

from __future__ import annotations

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.ids import Ids
from headrace.core.ports.warehouses import Warehouses
from headrace.services.redshift_serverless.actions import ACTIONS
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.redshift_serverless.errors import translate
from headrace.services.redshift_serverless.fidelity import FIDELITY
from headrace.services.redshift_serverless.state import Store
from headrace.store.database import Database

PROFILE = Profile(target_prefix="RedshiftServerless")


def build_redshift_serverless(
    *, ids: Ids, database: Database, warehouses: Warehouses
) -> RedshiftServerless:
    """Build Redshift Serverless."""
    return RedshiftServerless(ids=ids, store=Store(database), warehouses=warehouses)


def redshift_serverless_api(serverless: RedshiftServerless) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="redshift-serverless",
        backend=serverless,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
    )
