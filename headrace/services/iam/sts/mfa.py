"""Verifies the codes of users' MFA devices in GetSessionToken and AssumeRole.

A virtual device's code follows from its seed (RFC 6238, 30 seconds, six digits), which CreateVirtualMFADevice returns.
The seed of a device that was not created in this cloud is unknown, and any six digits are accepted.
Sentences: as users report them of STS (github.com/aws/aws-cli/issues/2951 and /3875).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.moto.memory import iam

STEP_S = 30
# A device's clock may be off: the codes of the previous and next step count too (assumed, RFC 6238 recommends one).
STEPS_OFF = 1
_FAILED = "MultiFactorAuthentication failed"
_WRONG_CODE = f"{_FAILED} with invalid MFA one time pass code. "
_WRONG_DEVICE = (
    f"{_FAILED}, unable to validate MFA code.  Please verify your MFA serial number is valid and associated with this"
    " user."
)


def check_code(account: str, user: str, serial_number: str, code: str, now_ms: int) -> None:
    """Refuse a wrong code, or a device of another user. Raises AwsError."""
    holder = iam.holder_of(account, "user", user) if user else None
    if holder is None or serial_number not in holder.mfa_devices:
        raise AwsError("AccessDenied", _WRONG_DEVICE, 403)
    seed = _seed_of(account, serial_number)
    if seed is None:
        return
    step = now_ms // 1000 // STEP_S
    near = range(step - STEPS_OFF, step + STEPS_OFF + 1)
    if not any(hmac.compare_digest(code_of(seed, counter), code) for counter in near):
        raise AwsError("AccessDenied", _WRONG_CODE, 403)


def code_of(seed: bytes, step: int) -> str:
    """Return the code of a 30-second step since 1970. Source: RFC 6238 and RFC 4226."""
    digest = hmac.digest(seed, step.to_bytes(8, "big"), "sha1")
    start = digest[-1] & 15
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFF_FFFF
    return f"{number % 1_000_000:06d}"


def _seed_of(account: str, serial_number: str) -> bytes | None:
    """Return the seed of a virtual device; None for another device."""
    backend = iam.backend_of(account)
    device: Any = None if backend is None else backend.virtual_mfa_devices.get(serial_number)
    if device is None:
        return None
    try:
        return base64.b32decode(str(device.base32_string_seed))
    except binascii.Error:
        return None
