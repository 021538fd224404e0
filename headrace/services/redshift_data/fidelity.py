"""The parameters that the Redshift Data API accepts without acting on them; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # No event is put on the bus.
    "ExecuteStatement": {"WithEvent": "stored"},
    "BatchExecuteStatement": {"WithEvent": "stored"},
    # Statements are listed for the whole account.
    "ListStatements": {"RoleLevel": "ignored"},
}
