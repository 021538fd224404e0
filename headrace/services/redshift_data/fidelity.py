"""The parameters that the Redshift Data API accepts without acting on them; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # Statements and sessions are listed for the whole account.
    "ListStatements": {"RoleLevel": "ignored"},
    "ListSessions": {"RoleLevel": "ignored"},
}
