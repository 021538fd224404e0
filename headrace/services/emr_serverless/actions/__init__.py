"""EMR Serverless' operations."""

from __future__ import annotations

from headrace.aws.calls.operation import Action
from headrace.services.emr_serverless.actions.applications import (
    create_application,
    delete_application,
    get_application,
    list_applications,
    list_tags_for_resource,
    start_application,
    stop_application,
    tag_resource,
    untag_resource,
    update_application,
)
from headrace.services.emr_serverless.actions.job_runs import (
    cancel_job_run,
    get_dashboard_for_job_run,
    get_job_run,
    list_job_run_attempts,
    list_job_runs,
    start_job_run,
)

ACTIONS: list[Action] = [
    cancel_job_run,
    create_application,
    delete_application,
    get_application,
    get_dashboard_for_job_run,
    get_job_run,
    list_applications,
    list_job_run_attempts,
    list_job_runs,
    list_tags_for_resource,
    start_application,
    start_job_run,
    stop_application,
    tag_resource,
    untag_resource,
    update_application,
]
