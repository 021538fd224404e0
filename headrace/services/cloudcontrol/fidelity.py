"""What headrace does with each parameter of Cloud Control's operations: it acts on all but these.

A resource is known that a stack or Cloud Control has made; one that another API made is not found.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

# There is one version of each type, and no identity policy is evaluated.
_COMMON: dict[str, FidelityLevel] = {"TypeVersionId": "ignored", "RoleArn": "ignored"}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateResource": _COMMON,
    "GetResource": _COMMON,
    "UpdateResource": _COMMON,
    "DeleteResource": _COMMON,
    # Only types that need it to be listed use it.
    "ListResources": {**_COMMON, "ResourceModel": "ignored"},
}
