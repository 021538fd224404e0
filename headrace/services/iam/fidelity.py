"""What moto's services accept without acting on it, for `/_headrace/fidelity` and `--strict`: IAM and STS by hand.

Of the others it is what moto certainly drops.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel
from headrace.moto.dropped_members import dropped_members

_SIZE: dict[str, FidelityLevel] = {"MinimumSessionTokenSize": "ignored"}
_IDENTITY_OF_OTHERS = (
    "The signature is not verified. The provider, the audience, the time and the trust policy are,"
    " with --iam enforce."
)
FIDELITY: dict[str, dict[str, dict[str, FidelityLevel]]] = {
    "sts": {
        "AssumeRole": {**_SIZE, "ProvidedContexts": "ignored"},
        "GetSessionToken": _SIZE,
        "GetFederationToken": _SIZE,
        "AssumeRoleWithWebIdentity": {**_SIZE, "WebIdentityToken": "stored", "ProviderId": "ignored"},
        "AssumeRoleWithSAML": {**_SIZE, "SAMLAssertion": "stored"},
    },
    "iam": {
        "UpdateAccountPasswordPolicy": {"HardExpiry": "stored", "MaxPasswordAge": "stored"},
        "CreateLoginProfile": {"Password": "stored", "PasswordResetRequired": "stored"},
        "EnableMFADevice": {"AuthenticationCode1": "ignored", "AuthenticationCode2": "ignored"},
        "CreateSAMLProvider": {"SAMLMetadataDocument": "stored"},
        "CreateOpenIDConnectProvider": {"ThumbprintList": "stored"},
        "SimulatePrincipalPolicy": {"ResourceHandlingOption": "ignored"},
        "SimulateCustomPolicy": {"ResourceHandlingOption": "ignored"},
    },
}  # fmt: skip
NOTES: dict[str, str] = {
    "AssumeRoleWithWebIdentity.WebIdentityToken": _IDENTITY_OF_OTHERS,
    "AssumeRoleWithSAML.SAMLAssertion": _IDENTITY_OF_OTHERS,
}


def moto_tables() -> dict[str, dict[str, dict[str, FidelityLevel]]]:
    """Return the fidelity tables of moto's services, by botocore's name of the service."""
    tables = {
        name: {call: dict(levels) for call, levels in table.items()}
        for name, table in FIDELITY.items()
    }
    for name, dropped in dropped_members().items():
        table = tables.setdefault(name, {})
        for call, levels in dropped.items():
            table[call] = {**levels, **table.get(call, {})}
    return tables
