"""Which parameters of EMR Serverless' operations headrace only stores or ignores.

All others are enforced. There are no workers, so capacity, networks, images and roles are stored and shown, and Spark
properties for the number and size of executors have no effect in `local[*]`.
"""

from __future__ import annotations

from headrace.core.ports import FidelityLevel
from headrace.spark_submit.sparks import FIDELITY_NOTE

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
