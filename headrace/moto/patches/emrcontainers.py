"""EMR on EKS: virtual clusters are stored; a job run is refused, because there is no Kubernetes to run it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

_NO_KUBERNETES = (
    "headrace does not run job runs of EMR on EKS: run the same sparkSubmit driver as a step of EMR or as a job run of "
    "EMR Serverless."
)


def refuse_job_runs(module: Any) -> None:
    """Refuse StartJobRun, whose runs moto would leave RUNNING for ever."""
    from moto.core.exceptions import JsonRESTError

    def start_job_run(*_: object, **_named: object) -> None:
        error = JsonRESTError("NotImplemented", _NO_KUBERNETES)
        error.code = 501
        raise error

    module.EMRContainersBackend.start_job_run = start_job_run
