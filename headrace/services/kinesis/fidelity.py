"""What Kinesis accepts without acting on it. Operation -> parameter -> level; the rest is enforced."""

from headrace.core.ports import FidelityLevel

_ENCRYPTION: dict[str, FidelityLevel] = {
    # Shown, and echoed with every record; records lie on the disk as they came.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # ON_DEMAND starts with four shards and never scales by itself.
    "CreateStream": {"StreamModeDetails": "stored"},
    "UpdateStreamMode": {"StreamModeDetails": "stored"},
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
    # Kept and shown; no shard-level metric is published.
    "EnableEnhancedMonitoring": {"ShardLevelMetrics": "stored"},
    "DisableEnhancedMonitoring": {"ShardLevelMetrics": "stored"},
    # Checked, kept and shown; every account may do everything.
    "PutResourcePolicy": {"Policy": "stored"},
}
