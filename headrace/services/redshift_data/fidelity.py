"""The parameters that the Redshift Data API accepts without acting on them; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # headrace always lists the statements and sessions of the whole account.
    "ListStatements": {"RoleLevel": "ignored"},
    "ListSessions": {"RoleLevel": "ignored"},
}
