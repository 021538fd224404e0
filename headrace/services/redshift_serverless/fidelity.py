"""The parameters that Redshift Serverless accepts without acting on them; all others are enforced or refused."""

from headrace.core.ports import FidelityLevel

_NAMESPACE: dict[str, FidelityLevel] = {
    "kmsKeyId": "stored",
    "logExports": "stored",
    "adminPasswordSecretKmsKeyId": "ignored",
}
# PostgreSQL uses the machine's memory and processors; it has no RPUs.
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
    # A login is valid for every database, as on AWS when dbName is not given.
    "GetCredentials": {"dbName": "ignored"},
    "ListWorkgroups": {"ownerAccount": "ignored"},
}
