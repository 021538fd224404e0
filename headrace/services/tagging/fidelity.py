"""The parameters of the tagging API that headrace accepts without acting on them; it enforces all others."""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

# headrace has no tag policies, so every resource complies.
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "GetResources": {
        "IncludeComplianceDetails": "ignored",
        "ExcludeCompliantResources": "ignored",
    },
}
