"""Runs a cluster's bootstrap actions on this machine, one by one, if the cloud has --run-bootstrap-actions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from headrace.aws.shapes.emr import BootstrapActionConfig
from headrace.core.values import get_list
from headrace.services.emr.clusters.actor import actor_of
from headrace.services.emr.clusters.instance_ids import master_instance_id
from headrace.services.emr.ports import Ports
from headrace.services.emr.state import Cluster
from headrace.services.emr.steps.commands import script_command
from headrace.spark_submit.cluster_pythons import make_cluster_pythons
from headrace.spark_submit.context import Command, JobContext
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.job import SupervisedJob
from headrace.spark_submit.job_environment import job_environment, make_folders
from headrace.spark_submit.local_files import fetch
from headrace.spark_submit.logs import JobLogs, LogPlace, log_location

_LOGS = ("controller", "stdout", "stderr")


class BootstrapFailed(Exception):
    """A bootstrap action failed; the message is EMR's reason for terminating the cluster."""


class Bootstrap:
    """The bootstrap actions of one cluster. Used by one thread at a time.

    After a kill of the cloud, an action that succeeded is not run again, one that still runs is watched, and one that
    was interrupted starts again.
    """

    def __init__(self, ports: Ports, cluster: Cluster) -> None:
        self._ports = ports
        self._cluster = cluster
        self._job: SupervisedJob | None = None
        # The number of the running or next action, from 1.
        self._number = 1

    def done(self) -> bool:
        """Start or watch the next action; return whether all have succeeded. Raises BootstrapFailed."""
        actions: list[BootstrapActionConfig] = get_list(self._cluster.request, "BootstrapActions")
        while self._number <= len(actions):
            if self._job is None:
                action = actions[self._number - 1]
                running = SupervisedJob.find(self._ports.clock, self._folder)
                self._job = running or self._start(action)
            end = self._job.watch(None)
            if end is None:
                return False
            self._job = None
            if end.lost:
                shutil.rmtree(self._folder, ignore_errors=True)
                continue
            self._store_logs()
            if end.exit_code != 0:
                raise BootstrapFailed(
                    f"On the master instance ({master_instance_id(self._cluster)}), bootstrap action {self._number} "
                    "returned a non-zero return code"
                )
            self._number += 1
        return True

    def kill(self) -> None:
        """End the running action, if any."""
        if self._job is not None:
            self._job.abandon()
            self._job = None

    @property
    def _folder(self) -> Path:
        return self._ports.folder / self._cluster.id / "bootstrap-actions" / str(self._number)

    @property
    def _context(self) -> JobContext:
        cluster = self._cluster
        return self._ports.context.as_role(cluster.account, *actor_of(cluster))

    def _start(self, action: BootstrapActionConfig) -> SupervisedJob:
        try:
            return SupervisedJob.start(
                self._ports.clock,
                self._folder,
                lambda: self._command(action),
                kind="bootstrap action",
                logs=_LOGS,
            )
        except JobRefused as error:
            (self._folder / "stderr").write_text(f"{error}\n")
            self._store_logs()
            raise BootstrapFailed(
                f"Master instance ({master_instance_id(self._cluster)}) failed attempting to download bootstrap action "
                f"{self._number} file from S3"
            ) from None

    def _command(self, action: BootstrapActionConfig) -> Command:
        folder, context, cluster = self._folder, self._context, self._cluster
        work, script = make_folders(folder), action["ScriptBootstrapAction"]
        role, session = actor_of(cluster)
        environment = job_environment(
            context,
            folder,
            account=cluster.account,
            region=cluster.region,
            role=role,
            session=session,
        )
        release = context.sparks.release_of(cluster.release_label)
        if release is not None:
            pythons = make_cluster_pythons(release, folder.parents[1])
            environment["PATH"] = f"{pythons}{os.pathsep}{environment['PATH']}"
        local = fetch(context.objects, script["Path"], work)
        arguments = script_command(str(local), script.get("Args") or [])
        return Command(arguments, environment, work)

    def _store_logs(self) -> None:
        cluster, folder = self._cluster, self._folder
        below = f"{cluster.id}/node/{master_instance_id(cluster)}/bootstrap-actions/{self._number}"
        location = None if cluster.log_uri is None else log_location(cluster.log_uri, below)
        places = [] if location is None else [LogPlace(folder, _LOGS, *location)]
        JobLogs(self._ports.clock, self._context.objects, folder, places).store()
