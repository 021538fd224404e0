"""Builds EMR from its parts, and describes it to the gateway."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.aws.protocols.service import Profile, ServiceApi
from headrace.core.clock import Clock
from headrace.core.ids import Ids
from headrace.core.ports import (
    EventBusSender,
    Guard,
    JobCredentials,
    MetricSink,
    NoGuard,
    ObjectStore,
    any_credentials,
)
from headrace.core.workers import Supervisor
from headrace.services.emr.actions import ACTIONS
from headrace.services.emr.app_uis import AppUis
from headrace.services.emr.backend import Announcer, Emr
from headrace.services.emr.errors import translate
from headrace.services.emr.fidelity import FIDELITY, FIDELITY_NOTES
from headrace.services.emr.state import Store
from headrace.services.emr.step_runs import Ports
from headrace.spark_submit.access import AnyAccess, JobAccess, JobContext
from headrace.spark_submit.sparks import Sparks
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
