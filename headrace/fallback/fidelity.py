"""What IAM and STS accept and do not act on, for `/_headrace/fidelity`; moto's other services have no such table."""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

_MFA: dict[str, FidelityLevel] = {"SerialNumber": "ignored", "TokenCode": "ignored"}
_SIZE: dict[str, FidelityLevel] = {"MinimumSessionTokenSize": "ignored"}
_IDENTITY_OF_OTHERS = (
    "Nobody's signature is verified: whoever sends a token of any text gets the role."
)

FIDELITY: dict[str, dict[str, dict[str, FidelityLevel]]] = {
    "sts": {
        "AssumeRole": {**_MFA, **_SIZE, "ProvidedContexts": "ignored"},
        "GetSessionToken": {**_MFA, **_SIZE},
        "GetFederationToken": _SIZE,
        "AssumeRoleWithWebIdentity": {
            **_SIZE,
            "WebIdentityToken": "ignored",
            "ProviderId": "ignored",
            "PolicyArns": "ignored",
        },
        "AssumeRoleWithSAML": {
            **_SIZE,
            "PrincipalArn": "ignored",
            "Policy": "ignored",
            "PolicyArns": "ignored",
            "DurationSeconds": "ignored",
        },
    },
    "iam": {
        "UpdateAccountPasswordPolicy": {"HardExpiry": "stored", "MaxPasswordAge": "stored"},
        "CreateLoginProfile": {"Password": "stored", "PasswordResetRequired": "stored"},
        "EnableMFADevice": {"AuthenticationCode1": "ignored", "AuthenticationCode2": "ignored"},
        "CreateSAMLProvider": {"SAMLMetadataDocument": "stored"},
        "CreateOpenIDConnectProvider": {"ThumbprintList": "stored", "ClientIDList": "stored"},
        "SimulatePrincipalPolicy": {"ResourceHandlingOption": "ignored"},
        "SimulateCustomPolicy": {"ResourceHandlingOption": "ignored"},
    },
}  # fmt: skip
NOTES: dict[str, str] = {
    "AssumeRole.SerialNumber": "Sessions have no MFA: aws:MultiFactorAuthPresent is never there.",
    "AssumeRoleWithWebIdentity.WebIdentityToken": _IDENTITY_OF_OTHERS,
    "AssumeRoleWithSAML.DurationSeconds": "The assertion's own SessionDuration counts, as moto reads it.",
}
