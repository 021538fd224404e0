"""The parameters of Lambda's operations that headrace does not enforce.

A "stored" parameter is stored and returned, but has no effect. An "ignored" parameter is accepted and dropped.

More differences from AWS: a version has at most 64 warm processes, however many are provisioned; concurrency is limited
as on AWS. Signatures are verified only with `--auth`: without it, a function URL with the auth type AWS_IAM requires a
signature but does not verify it.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

_FUNCTION: dict[str, FidelityLevel] = {
    # Every python3.* runtime is the interpreter that runs headrace, with its packages (the fidelity report names
    # functions that declare another version); every nodejs* runtime is the node on PATH. Where Linux permits walls
    # (runtime/namespaces.py), code is /var/task and layers are /opt, both read-only; each function has its own /tmp of
    # the size in EphemeralStorage; and, as on AWS, there is no /dev/shm. Elsewhere functions have the rights of
    # headrace's user (headrace logs this at its start, and the fidelity report says it), layers are on PYTHONPATH,
    # NODE_PATH, PATH and LD_LIBRARY_PATH, and LAMBDA_TASK_ROOT is the real folder. Programs under
    # /opt/extensions are not started.
    "Runtime": "stored",
    "KMSKeyArn": "stored",
    # Whether the subnets and security groups exist is not checked.
    "VpcConfig": "stored",
    "FileSystemConfigs": "stored",
    "SnapStart": "stored",
    # Functions get Sampled=1 in the trace header, but no trace is stored.
    "TracingConfig.Mode": "stored",
}
# The package is always a copy of the object's current version.
_CODE: dict[str, FidelityLevel] = {
    "S3ObjectVersion": "ignored",
    "S3ObjectStorageMode": "ignored",
    "SourceKMSKeyArn": "ignored",
}
_MAPPING: dict[str, FidelityLevel] = {
    "KMSKeyArn": "stored",
    "LoggingConfig": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateFunction": {
        **_FUNCTION,
        **{f"Code.{name}": level for name, level in _CODE.items()},
        "Architectures": "stored",
        "TenancyConfig": "ignored",
    },
    "UpdateFunctionConfiguration": _FUNCTION,
    "UpdateFunctionCode": {**_CODE, "Architectures": "stored"},
    # MasterRegion belongs to Lambda@Edge.
    "ListFunctions": {"MasterRegion": "ignored"},
    "CreateEventSourceMapping": _MAPPING,
    "UpdateEventSourceMapping": _MAPPING,
    # headrace evaluates a resource policy for callers of a function URL, and for services that act for a resource.
    # For callers of Lambda's API from the function's own account the policy does not matter.
    "AddPermission": {"PrincipalOrgID": "stored", "EventSourceToken": "stored"},
    "AddLayerVersionPermission": {"OrganizationId": "stored"},
    # No code is signed: a configuration that enforces signatures refuses all code, whatever its publishers are.
    "CreateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "UpdateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "PutFunctionRecursionConfig": {"RecursiveLoop": "stored"},
    "PutRuntimeManagementConfig": {"UpdateRuntimeOn": "stored", "RuntimeVersionArn": "stored"},
    # Unlike AWS, headrace does not slow a response stream down after its first 6 MB.
    "Invoke": {"TenantId": "ignored", "DurableExecutionName": "ignored"},
    "PublishLayerVersion": {
        "CompatibleRuntimes": "stored",
        "CompatibleArchitectures": "stored",
        "LicenseInfo": "stored",
        "Content.S3ObjectVersion": "ignored",
        "Content.S3ObjectStorageMode": "ignored",
    },
}
