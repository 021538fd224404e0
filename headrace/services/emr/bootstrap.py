"""Bootstrap actions of one cluster, run one after the other on this machine when the cloud was told to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headrace.core.values import listed, mapped
from headrace.services.emr.commands import script_command
from headrace.services.emr.machines import master_instance_id
from headrace.services.emr.ports import Ports
from headrace.services.emr.state import Cluster
from headrace.services.emr.step_logs import note
from headrace.spark_submit.commands import Command, fetch, job_environment, make_folders
from headrace.spark_submit.errors import JobRefused
from headrace.spark_submit.logs import archive, log_location, remove_scratch
from headrace.spark_submit.process import JobProcess

_LOGS = ("controller", "stdout", "stderr")


class BootstrapFailed(Exception):
    """A bootstrap action failed; the message is EMR's reason for the end of the cluster."""


class Bootstrap:
    """The bootstrap actions of one cluster. Used by one thread at a time.

    After a kill of the cloud, actions that have succeeded are not run again, one that still runs is waited for, and
    one that was cut off starts anew.
    """

    def __init__(self, ports: Ports, cluster: Cluster) -> None:
        self._ports = ports
        self._cluster = cluster
        self._process: JobProcess | None = None
        self._number = 1

    def done(self) -> bool:
        """Go on with the actions; return whether all have succeeded. Raises BootstrapFailed."""
        actions = listed(self._cluster.request, "BootstrapActions")
        while self._number <= len(actions):
            if self._process is None:
                self._process = JobProcess.find(self._folder()) or self._start(
                    actions[self._number - 1]
                )
            if self._process.exit_code is None and self._process.alive:
                return False
            code = self._process.exit_code
            lost = code is None and self._process.adopted
            self.kill()
            if lost:
                shutil.rmtree(self._folder(), ignore_errors=True)
                continue
            self._note(f"the bootstrap action ended with exit code {code}")
            self._store_logs()
            if code != 0:
                raise BootstrapFailed(
                    f"On the master instance ({master_instance_id(self._cluster)}), bootstrap action {self._number} "
                    "returned a non-zero return code"
                )
            self._number += 1
        return True

    def kill(self) -> None:
        """End the action that runs, if one does."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _folder(self) -> Path:
        return self._ports.folder / self._cluster.id / "bootstrap-actions" / str(self._number)

    def _start(self, action: dict[str, Any]) -> JobProcess:
        folder = self._folder()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            command = self._command(action, folder)
            self._note(f"the command is: {' '.join(command.arguments)}")
            return JobProcess.start(
                folder, command.arguments, environment=command.environment, cwd=command.cwd
            )
        except (JobRefused, OSError) as error:
            self._note(f"the bootstrap action could not be started: {error}")
            (folder / "stderr").write_text(f"{error}\n")
            self._store_logs()
            raise BootstrapFailed(
                f"Master instance ({master_instance_id(self._cluster)}) failed attempting to download bootstrap action "
                f"{self._number} file from S3"
            ) from None

    def _command(self, action: dict[str, Any], folder: Path) -> Command:
        work, context, cluster = make_folders(folder), self._ports.context, self._cluster
        script = mapped(action, "ScriptBootstrapAction")
        environment = job_environment(
            context, folder, account=cluster.account, region=cluster.region
        )
        local = fetch(context.objects, script["Path"], work)
        return Command(script_command(str(local), listed(script, "Args")), environment, work)

    def _note(self, text: str) -> None:
        note(self._folder(), self._ports.clock, text)

    def _store_logs(self) -> None:
        cluster, folder = self._cluster, self._folder()
        below = f"{cluster.id}/node/{master_instance_id(cluster)}/bootstrap-actions/{self._number}"
        location = None if cluster.log_uri is None else log_location(cluster.log_uri, below)
        if location is not None:
            archive(self._ports.context.objects, folder, location, _LOGS)
        remove_scratch(folder)
