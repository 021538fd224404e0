"""What headrace does with each parameter of Lambda's operations.

Only parameters that are not enforced are listed. "stored" is kept and shown, and changes nothing; "ignored" is
accepted and dropped.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

_FUNCTION: dict[str, FidelityLevel] = {
    # No permission is evaluated: the function acts as its account.
    "Role": "stored",
    # The interpreter that runs headrace, with its packages, serves every python3.* runtime; the node on PATH
    # every nodejs*. Layers are on PYTHONPATH, NODE_PATH and PATH: there is no /opt, and no /var/task.
    "Runtime": "stored",
    "Architectures": "stored",
    "KMSKeyArn": "stored",
    "VpcConfig": "stored",
    "FileSystemConfigs": "stored",
    "TracingConfig": "stored",
    "EphemeralStorage": "stored",
    "SnapStart": "stored",
    "ImageConfig": "stored",
    "CodeSigningConfigArn": "ignored",
    "DurableConfig": "ignored",
    "CapacityProviderConfig": "ignored",
    "TenancyConfig": "ignored",
}
_MAPPING: dict[str, FidelityLevel] = {
    # One batch at a time for each shard, whatever the factor.
    "ParallelizationFactor": "stored",
    "MetricsConfig": "stored",
    "KMSKeyArn": "stored",
    "LoggingConfig": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateFunction": {**_FUNCTION, "Code.S3ObjectVersion": "ignored"},
    "UpdateFunctionConfiguration": _FUNCTION,
    "UpdateFunctionCode": {
        "Architectures": "stored",
        "S3ObjectVersion": "ignored",
        "SourceKMSKeyArn": "ignored",
    },
    "CreateEventSourceMapping": _MAPPING,
    "UpdateEventSourceMapping": _MAPPING,
    # Policies are kept and shown; callers are never refused.
    "AddPermission": dict.fromkeys(
        ("Action", "Principal", "SourceArn", "SourceAccount", "PrincipalOrgID", "EventSourceToken"),
        "stored",
    ),
    "PublishLayerVersion": {
        "CompatibleRuntimes": "stored",
        "CompatibleArchitectures": "stored",
        "LicenseInfo": "stored",
    },
}
