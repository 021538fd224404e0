"""What headrace does with each parameter of EMR Serverless' operations.

Only parameters that are not enforced are listed. There are no workers: capacity, networks, images and roles are kept
and shown, and of the Spark properties the counts and sizes of executors mean nothing in `local[*]`.
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
    # Of its parts, s3MonitoringConfiguration.logUri is where logs go.
    "monitoringConfiguration": "stored",
    "networkConfiguration": "stored",
    # Refused when there is no such release; it decides which Spark runs.
    "releaseLabel": "stored",
    # Of its parts, maxConcurrentRuns is enforced; queueTimeoutMinutes is not.
    "schedulerConfiguration": "stored",
    "workerTypeSpecifications": "stored",
}

FIDELITY: dict[str, dict[str, FidelityLevel]] = {
    "CreateApplication": _APPLICATION,
    "UpdateApplication": _APPLICATION,
    "StartJobRun": {
        # Of the classifications, spark-defaults and spark-driver-log4j2 reach the job; of the monitoring, the
        # S3 logUri is used.
        "configurationOverrides": "stored",
    },
    "GetDashboardForJobRun": {"attempt": "ignored", "accessSystemProfileLogs": "ignored"},
}
FIDELITY_NOTES = {
    "CreateApplication.releaseLabel": FIDELITY_NOTE,
    "UpdateApplication.releaseLabel": FIDELITY_NOTE,
}
