"""The parameters that Kinesis accepts without acting on them: operation -> parameter -> level; others are enforced."""

from headrace.core.ports import FidelityLevel

_ENCRYPTION: dict[str, FidelityLevel] = {
    # Shown, and echoed with every record; records are on the disk as they came.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
}
