"""What Kinesis accepts without acting on it. Operation -> parameter -> level; the rest is enforced."""

from headrace.core.ports import FidelityLevel

_ENCRYPTION: dict[str, FidelityLevel] = {
    # Shown, and echoed with every record; records lie on the disk as they came.
    "EncryptionType": "stored",
    "KeyId": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    # ON_DEMAND starts with four shards and never scales by itself.
    "CreateStream": {"StreamModeDetails": "stored", "WarmThroughputMiBps": "ignored"},
    "UpdateStreamMode": {"StreamModeDetails": "stored", "WarmThroughputMiBps": "ignored"},
    "StartStreamEncryption": _ENCRYPTION,
    "StopStreamEncryption": _ENCRYPTION,
    # Kept and shown; no shard-level metric is published.
    "EnableEnhancedMonitoring": {"ShardLevelMetrics": "stored"},
    "DisableEnhancedMonitoring": {"ShardLevelMetrics": "stored"},
    # Numbers increase within a shard whatever the order of requests.
    "PutRecord": {"SequenceNumberForOrdering": "ignored"},
}
