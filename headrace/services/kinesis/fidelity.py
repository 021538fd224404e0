"""What Kinesis accepts without acting on it. Operation -> parameter -> level; the rest is enforced."""

from headrace.core.ports import FidelityLevel

_ENCRYPTION: dict[str, FidelityLevel] = {
    # Shown, and echoed with every record; records lie on the disk as they came.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
    # Checked, kept and shown; every account may do everything.
    "PutResourcePolicy": {"Policy": "stored"},
}
