"""What headrace does with each parameter of Lambda's operations.

Only parameters that are not enforced are listed. "stored" is kept and shown, and changes nothing; "ignored" is
accepted and dropped.

Besides: at most 64 processes of a version are kept warm, however many are provisioned, while concurrency is limited as
on AWS. Signatures are verified with `--auth` only: without it a function URL of AWS_IAM asks for one, and believes it.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

_FUNCTION: dict[str, FidelityLevel] = {
    # The interpreter that runs headrace, with its packages, serves every python3.* runtime (the fidelity report says
    # when another is declared); the node on PATH every nodejs*. Where Linux permits walls (runtime/walls.py), code is
    # /var/task and layers are /opt, both read-only, /tmp is the function's own and as large as EphemeralStorage says,
    # and there is no /dev/shm, as on AWS. Elsewhere functions have the rights of headrace's user (headrace says so at
    # its start, and so does the fidelity report), layers are on PYTHONPATH, NODE_PATH, PATH and LD_LIBRARY_PATH, and
    # LAMBDA_TASK_ROOT is the real folder. Programs under /opt/extensions are not started.
    "Runtime": "stored",
    "KMSKeyArn": "stored",
    # EC2 is not asked for the subnets and security groups.
    "VpcConfig": "stored",
    "FileSystemConfigs": "stored",
    "SnapStart": "stored",
    "ImageConfig": "stored",
    # Sampled=1 reaches the function; no trace is kept.
    "TracingConfig.Mode": "stored",
    "DurableConfig": "ignored",
    "CapacityProviderConfig": "ignored",
}
# Which package it is, is not asked for again: the object's current version is taken, and copied.
_CODE: dict[str, FidelityLevel] = {
    "S3ObjectVersion": "ignored",
    "S3ObjectStorageMode": "ignored",
    "SourceKMSKeyArn": "ignored",
}
# No function runs on instances of a capacity provider.
_PUBLISH: dict[str, FidelityLevel] = {"PublishTo": "ignored"}
_MAPPING: dict[str, FidelityLevel] = {
    "KMSKeyArn": "stored",
    "LoggingConfig": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateFunction": {
        **_FUNCTION,
        **_PUBLISH,
        **{f"Code.{name}": level for name, level in _CODE.items()},
        "Architectures": "stored",
        "TenancyConfig": "ignored",
    },
    "UpdateFunctionConfiguration": _FUNCTION,
    "UpdateFunctionCode": {**_CODE, **_PUBLISH, "Architectures": "stored"},
    "PublishVersion": _PUBLISH,
    # Of Lambda@Edge.
    "ListFunctions": {"MasterRegion": "ignored"},
    "CreateEventSourceMapping": _MAPPING,
    "UpdateEventSourceMapping": _MAPPING,
    # headrace evaluates a policy for callers of a function's URL, and for services that act for a resource. Callers of
    # Lambda's API with the function's own account are never refused.
    "AddPermission": {"PrincipalOrgID": "stored", "EventSourceToken": "stored"},
    "AddLayerVersionPermission": {"OrganizationId": "stored"},
    # Nothing is signed: a configuration that enforces signatures refuses all code, whoever may publish.
    "CreateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "UpdateCodeSigningConfig": {"AllowedPublishers": "stored"},
    "PutFunctionRecursionConfig": {"RecursiveLoop": "stored"},
    "PutRuntimeManagementConfig": {"UpdateRuntimeOn": "stored", "RuntimeVersionArn": "stored"},
    # Streams are not slowed down after their first 6 MB, as AWS's are.
    "Invoke": {"TenantId": "ignored", "DurableExecutionName": "ignored"},
    "PublishLayerVersion": {
        "CompatibleRuntimes": "stored",
        "CompatibleArchitectures": "stored",
        "LicenseInfo": "stored",
        "Content.S3ObjectVersion": "ignored",
        "Content.S3ObjectStorageMode": "ignored",
    },
}
