"""What headrace does with each parameter of EMR's operations.

Only parameters that are not enforced are listed. There are no machines: instances, networks and images are
kept and shown.

Of a step's `spark-submit` arguments, `--master` is replaced by `local[*]`; the counts and sizes of executors mean
nothing there, and neither do queues and memory of YARN. `--deploy-mode cluster` is kept to in what a user sees of it:
the driver's output is the log of a container, the step's own log is the client's report, and the driver starts in a
folder with its `--files` and `--archives` and with `spark.yarn.appMasterEnv.*`. Not simulated of it: a second attempt
(`spark.yarn.maxAppAttempts`), containers of executors (their output is the driver's), `waitAppCompletion=false`, and
that cancelling the step may leave the application running. An application's id has the cluster's creation for YARN's
start and the step's number for YARN's count. FailureDetails carry the driver's cause behind AWS's sentence.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel
from headrace.spark_submit.sparks import FIDELITY_NOTE

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "RunJobFlow": {
        "Instances": "stored",
        # Run when the cloud was started with --run-bootstrap-actions; what one leaves running ends with it.
        "BootstrapActions": "stored",
        "Applications": "stored",
        # Refused when there is no such release; it decides which Spark runs.
        "ReleaseLabel": "stored",
        "AmiVersion": "stored",
        "CustomAmiId": "stored",
        "OSReleaseLabel": "stored",
        "RepoUpgradeOnBoot": "stored",
        "EbsRootVolumeSize": "stored",
        "EbsRootVolumeIops": "stored",
        "EbsRootVolumeThroughput": "stored",
        "AutoScalingRole": "stored",
        "ScaleDownBehavior": "stored",
        "SecurityConfiguration": "stored",
        "KerberosAttributes": "stored",
        "VisibleToAllUsers": "stored",
        "ManagedScalingPolicy": "stored",
        "PlacementGroupConfigs": "stored",
        # Of the classifications, spark-defaults, spark-env/export and spark-log4j2 reach the steps.
        "Configurations": "stored",
        "LogEncryptionKmsKeyId": "stored",
        # No logs to CloudWatch, and S3's upload policies are not followed.
        "MonitoringConfiguration": "stored",
        "ExtendedSupport": "stored",
        "SessionEnabled": "stored",
        "Steps.StepMonitoringConfiguration.S3MonitoringConfiguration.EncryptionKeyArn": "stored",
        "AdditionalInfo": "ignored",
        "SupportedProducts": "stored",
        "NewSupportedProducts": "ignored",
    },
    "AddJobFlowSteps": {
        "Steps.StepMonitoringConfiguration.S3MonitoringConfiguration.EncryptionKeyArn": "stored"
    },
    # Of a session's resources, which there are none of.
    "AddTags": {"ClusterId": "ignored"},
    "RemoveTags": {"ClusterId": "ignored"},
    "AddInstanceFleet": {"InstanceFleet": "stored"},
    "AddInstanceGroups": {"InstanceGroups": "stored"},
    # Of machines that are not there, only the counts and capacities change.
    "ModifyInstanceFleet": {"InstanceFleet": "stored"},
    "ModifyInstanceGroups": {
        "InstanceGroups.EC2InstanceIdsToTerminate": "ignored",
        "InstanceGroups.ShrinkPolicy": "stored",
        "InstanceGroups.ReconfigurationType": "ignored",
    },
    "ModifyCluster": {"ExtendedSupport": "ignored"},
    "SetVisibleToAllUsers": {"VisibleToAllUsers": "stored"},
    "PutAutoScalingPolicy": {"AutoScalingPolicy": "stored"},
    # Nothing is open to the public, whatever a security group says.
    "PutBlockPublicAccessConfiguration": {"BlockPublicAccessConfiguration": "stored"},
    "PutManagedScalingPolicy": {"ManagedScalingPolicy": "stored"},
    "CreateSecurityConfiguration": {"SecurityConfiguration": "stored"},
    # The URLs are this cloud's pages: nobody signs in, and a page is as true for one role as for another.
    "CreatePersistentAppUI": {"EMRContainersConfig": "ignored", "XReferer": "ignored"},
    "GetPersistentAppUIPresignedURL": {"AuthProxyCall": "ignored", "ExecutionRoleArn": "ignored"},
    "GetOnClusterAppUIPresignedURL": {"DryRun": "ignored", "ExecutionRoleArn": "ignored"},
}
FIDELITY_NOTES = {"RunJobFlow.ReleaseLabel": FIDELITY_NOTE}
