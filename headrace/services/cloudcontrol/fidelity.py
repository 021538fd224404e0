"""The parameters of Cloud Control that headrace accepts without acting on them; it enforces all others.

Cloud Control finds the resources that a stack or Cloud Control created, and of many types those of other APIs.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

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
