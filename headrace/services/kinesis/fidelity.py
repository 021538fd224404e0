"""The parameters that Kinesis accepts without acting on them: operation -> parameter -> level; others are enforced."""

from headrace.core.ports import FidelityLevel

_ENCRYPTION: dict[str, FidelityLevel] = {
    # Responses show the encryption, also for each record; records on disk are not encrypted.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
}
