"""Builds EMR from its parts, describes it to the gateway, and says which parameters it only stores or ignores.

All others are enforced. There are no EC2 instances, so instances, networks and images are stored and shown.

In a step's `spark-submit` arguments, `--master` is replaced by `local[*]`, where the number and size of executors and
YARN's queues and memory have no effect. `--deploy-mode cluster` looks as on EMR: the driver's output is the log of a
container, the step's own log is the client's report, and the driver starts in a folder with its `--files` and
`--archives` and with `spark.yarn.appMasterEnv.*`. headrace does not simulate a second attempt
(`spark.yarn.maxAppAttempts`), executors' containers (their output is the driver's), `waitAppCompletion=false`, and an
application that survives the cancellation of its step. An application's id has the cluster's creation time in place of
YARN's start time, and the step's number in place of YARN's count. FailureDetails add the driver's cause to AWS's
sentence.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    EventBusSender,
    FidelityLevel,
    Guard,
    JobCredentials,
    MetricSink,
    NoGuard,
    ObjectStore,
    any_credentials,
)
from headrace.core.workers import Supervisor
from headrace.services.emr.actions import ACTIONS
from headrace.services.emr.backend import Announcer, AppUis, Emr
from headrace.services.emr.errors import translate
from headrace.services.emr.state import Store
from headrace.services.emr.step_runs import Ports
from headrace.spark_submit.job_context import AnyAccess, JobAccess, JobContext
from headrace.spark_submit.sparks import FIDELITY_NOTE, Sparks
from headrace.store.database import Database

PROFILE = Profile(signing_scopes=("elasticmapreduce",), target_prefix="ElasticMapReduce")


# Below the data directory: a folder for each cluster, with a folder for each step.
FOLDER = "emr"


def build_emr(
    *,
    data_dir: Path,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    objects: ObjectStore,
    endpoint_url: Callable[[], str],
    credentials: JobCredentials = any_credentials,
    sparks: Sparks | None = None,
    access: JobAccess | None = None,
    guard: Guard | None = None,
    metrics: MetricSink,
    buses: EventBusSender,
    run_bootstrap_actions: bool = False,
) -> Emr:
    """Build EMR; nothing runs before `Emr.start`."""
    folder, store = (data_dir / FOLDER).absolute(), Store(clock, database)
    ports = Ports(
        clock=clock,
        store=store,
        context=JobContext(
            objects,
            endpoint_url,
            os.cpu_count() or 1,
            credentials,
            sparks or Sparks(),
            access or AnyAccess(),
        ),
        metrics=metrics,
        folder=folder,
        guard=guard or NoGuard(),
        run_bootstrap_actions=run_bootstrap_actions,
    )
    app_uis = AppUis(database, store, folder, endpoint_url)
    announcer = Announcer(store, buses)
    return Emr(ids=ids, ports=ports, announcer=announcer, app_uis=app_uis, supervisor=supervisor)


def emr_api(emr: Emr) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="emr",
        backend=emr,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        fidelity_notes=FIDELITY_NOTES,
    )


FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "RunJobFlow": {
        "Instances": "stored",
        # Run if the cloud was started with --run-bootstrap-actions; processes that an action leaves behind end with it.
        "BootstrapActions": "stored",
        "Applications": "stored",
        # An unknown release is refused; the release decides which Spark runs.
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
        # The classifications spark-defaults, spark-env/export and spark-log4j2 reach the steps.
        "Configurations": "stored",
        "LogEncryptionKmsKeyId": "stored",
        # headrace sends no logs to CloudWatch and ignores S3 upload policies.
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
    # headrace has no sessions, so they have no resources.
    "AddTags": {"ClusterId": "ignored"},
    "RemoveTags": {"ClusterId": "ignored"},
    "AddInstanceFleet": {"InstanceFleet": "stored"},
    "AddInstanceGroups": {"InstanceGroups": "stored"},
    # There are no instances; only counts and capacities change.
    "ModifyInstanceFleet": {"InstanceFleet": "stored"},
    "ModifyInstanceGroups": {
        "InstanceGroups.EC2InstanceIdsToTerminate": "ignored",
        "InstanceGroups.ShrinkPolicy": "stored",
        "InstanceGroups.ReconfigurationType": "ignored",
    },
    "ModifyCluster": {"ExtendedSupport": "ignored"},
    "SetVisibleToAllUsers": {"VisibleToAllUsers": "stored"},
    "PutAutoScalingPolicy": {"AutoScalingPolicy": "stored"},
    # No cluster is publicly reachable, whatever its security groups allow.
    "PutBlockPublicAccessConfiguration": {"BlockPublicAccessConfiguration": "stored"},
    "PutManagedScalingPolicy": {"ManagedScalingPolicy": "stored"},
    "CreateSecurityConfiguration": {"SecurityConfiguration": "stored"},
    # The URLs are pages of this cloud: they need no sign-in and are the same for every role.
    "CreatePersistentAppUI": {"EMRContainersConfig": "ignored", "XReferer": "ignored"},
    "GetPersistentAppUIPresignedURL": {"AuthProxyCall": "ignored", "ExecutionRoleArn": "ignored"},
    "GetOnClusterAppUIPresignedURL": {"DryRun": "ignored", "ExecutionRoleArn": "ignored"},
}
FIDELITY_NOTES = {"RunJobFlow.ReleaseLabel": FIDELITY_NOTE}
