"""Builds Cloud Control from its parts, and describes it to the gateway."""

from __future__ import annotations

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import FidelityLevel
from headrace.core.ports.control import ResourceTypes
from headrace.core.workers import Supervisor
from headrace.services.cloudcontrol.actions import ACTIONS
from headrace.services.cloudcontrol.backend import CloudControl, ControlStore
from headrace.services.cloudcontrol.errors import translate
from headrace.store.database import Database

# The parameters that Cloud Control accepts without acting on them; it enforces all others. It finds the resources that
# a stack or Cloud Control created, and of many types those of other APIs.
# Each type has one version, and RoleArn's policies are not evaluated.
_COMMON: dict[str, FidelityLevel] = {"TypeVersionId": "ignored", "RoleArn": "ignored"}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateResource": _COMMON,
    "GetResource": _COMMON,
    "UpdateResource": _COMMON,
    "DeleteResource": _COMMON,
    # On AWS, only the types that need it in order to be listed use it.
    "ListResources": {**_COMMON, "ResourceModel": "ignored"},
}


PROFILE = Profile(signing_scopes=("cloudcontrolapi",), target_prefix="CloudApiService")


def build_cloudcontrol(
    *, clock: Clock, ids: Ids, database: Database, supervisor: Supervisor, types: ResourceTypes
) -> CloudControl:
    """Build Cloud Control with the resource types of `types`; nothing runs before `start`."""
    store = ControlStore(database)
    return CloudControl(clock=clock, ids=ids, store=store, types=types, supervisor=supervisor)


def cloudcontrol_api(control: CloudControl) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="cloudcontrol",
        backend=control,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
    )
