"""Builds EMR Serverless from its parts, and describes it to the gateway, by the name in signatures alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    FidelityLevel,
    Guard,
    JobCredentials,
    NoGuard,
    ObjectStore,
    any_credentials,
)
from headrace.core.workers import Supervisor
from headrace.services.emr_serverless.actions import ACTIONS
from headrace.services.emr_serverless.backend import EmrServerless, IdleWatch
from headrace.services.emr_serverless.errors import translate
from headrace.services.emr_serverless.runner import Ports
from headrace.services.emr_serverless.state import Store
from headrace.spark_submit.job_context import AnyAccess, JobAccess, JobContext
from headrace.spark_submit.sparks import FIDELITY_NOTE, Sparks
from headrace.store.database import Database

# The parameters that are only stored, or ignored; all others are enforced. There are no workers, so capacity, networks,
# images and roles are stored and shown, and Spark properties for the number and size of executors have no effect in
# `local[*]`.
_APPLICATION: dict[str, FidelityLevel] = {
    "architecture": "stored",
    "diskEncryptionConfiguration": "stored",
    "identityCenterConfiguration": "stored",
    "imageConfiguration": "stored",
    "initialCapacity": "stored",
    "interactiveConfiguration": "stored",
    "jobLevelCostAllocationConfiguration": "stored",
    "maximumCapacity": "stored",
    # Only s3MonitoringConfiguration.logUri has an effect: logs go there.
    "monitoringConfiguration": "stored",
    "networkConfiguration": "stored",
    # An unknown release is refused; the release decides which Spark runs.
    "releaseLabel": "stored",
    # maxConcurrentRuns is enforced; queueTimeoutMinutes is not.
    "schedulerConfiguration": "stored",
    "workerTypeSpecifications": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateApplication": _APPLICATION,
    "UpdateApplication": _APPLICATION,
    "StartJobRun": {
        # The classifications spark-defaults and spark-driver-log4j2 reach the job, and logs go to the S3 logUri.
        "configurationOverrides": "stored",
        "flexExecution": "ignored",
    },
    "GetDashboardForJobRun": {"attempt": "ignored", "accessSystemProfileLogs": "ignored"},
}
FIDELITY_NOTES = {
    "CreateApplication.releaseLabel": FIDELITY_NOTE,
    "UpdateApplication.releaseLabel": FIDELITY_NOTE,
}


PROFILE = Profile()


# Below the data directory: a folder for each application, job run and attempt.
FOLDER = "emr-serverless"


def build_emr_serverless(
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
) -> EmrServerless:
    """Build EMR Serverless; nothing runs before `EmrServerless.start`."""
    store = Store(database)
    idle_watch = IdleWatch(clock, store)
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
        folder=(data_dir / FOLDER).absolute(),
        guard=guard or NoGuard(),
        ended=lambda: idle_watch.wake(),
    )
    return EmrServerless(
        ids=ids,
        ports=ports,
        idle_watch=idle_watch,
        supervisor=supervisor,
        endpoint_url=endpoint_url,
    )


def emr_serverless_api(emr_serverless: EmrServerless) -> ServiceApi:
    """Return the service for the gateway."""
    return ServiceApi(
        name="emr-serverless",
        backend=emr_serverless,
        actions=ACTIONS,
        translate=translate,
        profile=PROFILE,
        fidelity=FIDELITY,
        fidelity_notes=FIDELITY_NOTES,
    )
