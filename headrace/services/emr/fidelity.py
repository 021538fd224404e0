"""What headrace does with each parameter of EMR's operations.

Only parameters that are not enforced are listed. There are no machines: instances, networks, images and roles are
kept and shown. Of a step's `spark-submit` arguments, `--master` and `--deploy-mode` are replaced by `local[*]` in
client mode, and the counts and sizes of executors mean nothing there.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "RunJobFlow": {
        "Instances": "stored",
        # Run when the cloud was started with --run-bootstrap-actions.
        "BootstrapActions": "stored",
        "Applications": "stored",
        "ReleaseLabel": "stored",
        "AmiVersion": "stored",
        "CustomAmiId": "stored",
        "OSReleaseLabel": "stored",
        "RepoUpgradeOnBoot": "stored",
        "EbsRootVolumeSize": "stored",
        "EbsRootVolumeIops": "stored",
        "EbsRootVolumeThroughput": "stored",
        "JobFlowRole": "stored",
        "ServiceRole": "stored",
        "AutoScalingRole": "stored",
        "ScaleDownBehavior": "stored",
        "SecurityConfiguration": "stored",
        "KerberosAttributes": "stored",
        "VisibleToAllUsers": "stored",
        "ManagedScalingPolicy": "stored",
        "PlacementGroupConfigs": "stored",
        # Of the classifications, spark-defaults, spark-env/export and spark-log4j2 reach the steps.
        "Configurations": "stored",
        "LogEncryptionKmsKeyId": "ignored",
        "AdditionalInfo": "ignored",
        "SupportedProducts": "ignored",
        "NewSupportedProducts": "ignored",
    },
    "AddJobFlowSteps": {"ExecutionRoleArn": "stored"},
    "SetVisibleToAllUsers": {"VisibleToAllUsers": "stored"},
    "PutManagedScalingPolicy": {"ManagedScalingPolicy": "stored"},
    "CreateSecurityConfiguration": {"SecurityConfiguration": "stored"},
}
