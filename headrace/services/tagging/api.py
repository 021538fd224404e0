"""Builds the tagging API from its parts, and describes it to the gateway."""

from __future__ import annotations

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.ports import ControlPlane, FidelityLevel
from headrace.services.tagging.actions import ACTIONS
from headrace.services.tagging.backend import Tagging
from headrace.services.tagging.errors import translate

# The parameters that the tagging API accepts without acting on them; it enforces all others.
# headrace has no tag policies, so every resource complies.
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "GetResources": {
        "IncludeComplianceDetails": "ignored",
        "ExcludeCompliantResources": "ignored",
    },
}


PROFILE = Profile(signing_scopes=("tagging",), target_prefix="ResourceGroupsTaggingAPI_20170126")


def build_tagging(control: ControlPlane) -> Tagging:
    """Build the tagging API, which calls all services through `control`."""
    return Tagging(control)


def build_tagging_api(tagging: Tagging) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="resourcegroupstaggingapi",
        backend=tagging,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
    )
