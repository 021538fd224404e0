"""Builds Redshift Serverless from its parts, and describes it to the gateway."""

from __future__ import annotations

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.ids import Ids
from headrace.core.ports import FidelityLevel
from headrace.core.ports.warehouses import Warehouses
from headrace.services.redshift_serverless.actions import ACTIONS
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.redshift_serverless.errors import translate
from headrace.services.redshift_serverless.state import Store
from headrace.store.database import Database

# The parameters that it accepts without acting on them; all others are enforced or refused.
_NAMESPACE: dict[str, FidelityLevel] = {
    "kmsKeyId": "stored",
    "logExports": "stored",
    "adminPasswordSecretKmsKeyId": "ignored",
}
# PostgreSQL uses the machine's memory and processors; it has no RPUs.
_WORKGROUP: dict[str, FidelityLevel] = {
    "baseCapacity": "stored",
    "configParameters": "stored",
    "enhancedVpcRouting": "stored",
    "extraComputeForAutomaticOptimization": "stored",
    "ipAddressType": "stored",
    "maxCapacity": "stored",
    "pricePerformanceTarget": "stored",
    "publiclyAccessible": "stored",
    "securityGroupIds": "stored",
    "subnetIds": "stored",
    "trackName": "stored",
}
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateNamespace": {**_NAMESPACE, "redshiftIdcApplicationArn": "ignored"},
    "UpdateNamespace": {**_NAMESPACE, "logDestinationType": "ignored"},
    "CreateWorkgroup": _WORKGROUP,
    "UpdateWorkgroup": _WORKGROUP,
    # A login is valid for every database, as on AWS when dbName is not given.
    "GetCredentials": {"dbName": "ignored"},
    "ListWorkgroups": {"ownerAccount": "ignored"},
}


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
