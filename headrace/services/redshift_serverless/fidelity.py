"""The parameters that Redshift Serverless accepts without acting on them; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

_NAMESPACE: dict[str, FidelityLevel] = {
    "kmsKeyId": "stored",
    "logExports": "stored",
    "adminPasswordSecretKmsKeyId": "ignored",
}
# The PostgreSQL behind a workgroup takes what the machine has.
_WORKGROUP: dict[str, FidelityLevel] = {
    "baseCapacity": "stored",
    "configParameters": "stored",
    "enhancedVpcRouting": "stored",
    "extraComputeForAutomaticOptimization": "stored",
    "ipAddressType": "stored",
    "maxCapacity": "stored",
    "pricePerformanceTarget": "stored",
    "publiclyAccessible": "stored",
    "securityGroupIds": "stored",
    "subnetIds": "stored",
    "trackName": "stored",
}
FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateNamespace": {**_NAMESPACE, "redshiftIdcApplicationArn": "ignored"},
    "UpdateNamespace": {**_NAMESPACE, "logDestinationType": "ignored"},
    "CreateWorkgroup": _WORKGROUP,
    "UpdateWorkgroup": _WORKGROUP,
    # A login is for every database, as it is on AWS without a name.
    "GetCredentials": {"dbName": "ignored"},
    "ListWorkgroups": {"ownerAccount": "ignored"},
}
