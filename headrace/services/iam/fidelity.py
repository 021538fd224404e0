"""What IAM and STS accept without acting on it, for `/_headrace/fidelity`; moto's other services have no such table."""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

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
