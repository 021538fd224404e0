"""What headrace does with each parameter of the tagging API's operations: it acts on all but these."""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

# There are no tag policies: every resource complies.
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "GetResources": {
        "IncludeComplianceDetails": "ignored",
        "ExcludeCompliantResources": "ignored",
    },
}
