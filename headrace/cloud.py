"""`Cloud`: one local cloud on a data directory: starts and stops it.

`headrace/composition/` builds and connects its parts. The CLI serves it on a socket, tests use it in process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from headrace.aws.server.server import Server
from headrace.aws.server.tls import Tls
from headrace.composition.parts import build_foundation, build_parts
from headrace.core.clock import Clock, SystemClock
from headrace.core.config import Config
from headrace.core.evaluation import stop_evaluations
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.deliveries.schedule_worker import ScheduleWorker
from headrace.moto.storage.changes import MOTO_LOCK
from headrace.services.cloudwatch.alarms import AlarmEvaluation
from headrace.services.cloudwatch.metric_streams import MetricStreams
from headrace.services.events.patches import scheduled_rules
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.services.logs.patches import keep_log_groups_within
from headrace.services.s3.lifecycle import Sweeper
from headrace.services.scheduler import schedules
from headrace.spark_submit.history import EventLogBounds
from headrace.store.data_dir import (
    DataDirInUse,
    check_database,
    check_no_repair_is_half_done,
    lock,
)
from headrace.store.database import STATE_FILE, Database

log = logging.getLogger(__name__)

__all__ = ["Cloud", "DataDirInUse", "server_for"]

TEMP_FOLDER, TLS_FOLDER = "tmp", "tls"


class Cloud:
    """One local cloud on one data directory.

    Thread-safe once started. `handle` serves sockets and tests; `gateway.call` is the control plane.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        supervisor: Supervisor | None = None,
        environments: MakeEnvironment | None = None,
        warms_up: bool = True,
        is_temporary: bool = False,
    ) -> None:
        """Build every part; no worker runs before `start`.

        Args:
            config: its settings.
            clock: default: the machine's clock.
            ids: default: unpredictable ids.
            supervisor: runs the workers; default: on threads.
            environments: runs functions in this process; default: each function runs in processes of its own.
            warms_up: whether `warm_up` follows the start. Otherwise the first request that needs moto loads it, and
                metrics and log lines are queued until then.
            is_temporary: whether the data directory is removed at the end: no disk space is reserved in it.
        """
        self.config = config
        self._started = False
        self._is_stopping = False
        self.clock = clock or SystemClock()
        self.ids = ids or Ids()
        config.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock(config.data_dir)
        self.database = _open_database(config, reserves=not is_temporary)
        self.supervisor = supervisor or Supervisor(self.clock)
        keep_log_groups_within(events=config.log_group_events, mib=config.log_group_mib)
        self.tls = Tls(config.data_dir / TLS_FOLDER, lambda: self.config.endpoint_host)
        base = build_foundation(
            config,
            clock=self.clock,
            ids=self.ids,
            database=self.database,
            supervisor=self.supervisor,
            environments=environments,
            warms_up=warms_up,
            endpoint_url=self.endpoint_url,
            tls=self.tls,
        )
        parts = self._parts = build_parts(base, is_started=lambda: self._started)
        self.moto, self.gateway, self.decisions = parts.moto.engine, parts.gateway, parts.decisions
        self.sessions, self.keys, self.report = parts.sessions, parts.keys, parts.report
        services = parts.services
        self.s3, self.kinesis, self.lambda_ = services.s3, services.kinesis, services.lambda_
        self.objects, self.firehose, self.emr = services.objects, services.firehose, services.emr
        self.emr_serverless, self.cloudformation = services.emr_serverless, services.cloudformation
        self.search, self.warehouses = services.search, services.warehouses
        self.mqtt = parts.mqtt
        self.entrance = parts.entrance
        # Answers a request, from a socket or in process.
        self.handle = parts.entrance.handle

    def endpoint_url(self) -> str:
        """The URL of this cloud; correct once the port is known."""
        return self.config.endpoint_url

    # --- start and stop -----------------------------------------------------------------------

    def start(self, port: int | None = None) -> None:
        """Recover state from the data directory and start the workers."""
        if port is not None:
            self.config = replace(self.config, port=port)
        for service in self._parts.services.in_order():
            service.start()
        self.warehouses.start()
        self.mqtt.broker.load()
        self.s3.notifications.listen(self.supervisor.start(self.s3.notifications).wake)
        self.supervisor.start(Sweeper(self.s3, self.clock))
        self.supervisor.start(self._parts.metrics)
        self.supervisor.start(self._parts.service_metrics)
        self.supervisor.start(self._parts.logs)
        if self.config.iam != "off":
            self.report.load()
            self.supervisor.start(self.decisions.judge)
            self.supervisor.start(self.report)
        self.supervisor.start(EventLogBounds(self.config.data_dir))
        if self.tls.is_served:
            # Without a socket nobody looks.
            self._parts.dashboard.sampler.start(self.supervisor)
            # Nothing else has an event loop, which must not wait for the disk.
            self.database.move_log_elsewhere(
                lambda checkpoints: self.supervisor.start(checkpoints).wake, MOTO_LOCK
            )
        moto = self._parts.moto
        self.moto.listen("outbox", self.supervisor.start(moto.outbox).wake)
        self.supervisor.start(moto.retention)
        self.supervisor.start(moto.item_expiry)
        for worker in (
            ScheduleWorker(self.moto, self.clock, [schedules, scheduled_rules]),
            self._parts.services.pipes,
            MetricStreams(self.moto, self.clock),
            AlarmEvaluation(self.moto, self.clock),
        ):
            wake = self.supervisor.start(worker).wake
            for package in worker.PACKAGES:
                self.moto.listen(package, wake)
        self._started = True

    def warm_up(self, then: Callable[[], None] | None = None) -> None:
        """Load moto on another thread, and call `then` there; a request that needs moto waits until it is loaded."""

        def run() -> None:
            try:
                self.moto.warm_up()
                if then is not None:
                    then()
            except Exception:
                # A stopping cloud's files are closed.
                if not self._is_stopping:
                    log.exception("moto did not start")

        threading.Thread(target=run, name="moto", daemon=True).start()

    def start_devices(self) -> None:
        """Let devices connect by MQTT, if the configuration says so; waits until moto is loaded. Raises OSError."""
        if self.config.mqtt:
            self.mqtt.start(self.supervisor)

    def prepare_stop(self) -> None:
        """Start no new work; called while the socket is still open."""
        self.firehose.prepare_stop()
        self.lambda_.prepare_stop()

    def stop(self) -> None:
        """Stop the workers and close the files. Acknowledged data stays."""
        self._is_stopping = True
        self.mqtt.stop()
        self._parts.moto.executions.stop()
        self._parts.history.stop()
        for service in reversed(self._parts.services.in_order()):
            service.stop()
        self.supervisor.stop_all()
        stop_evaluations()
        self._parts.moto.executions.join()
        if self.config.iam != "off":
            self.report.close()
        self.search.close()
        self.warehouses.stop()
        self.database.close()
        self._lock_file.close()
        self._started = False


def _open_database(config: Config, *, reserves: bool) -> Database:
    """Return the database of a locked data directory, checked. Raises DataDirUnusable."""
    check_no_repair_is_half_done(config.data_dir)
    database = Database(
        config.data_dir / STATE_FILE, fsync=config.durability == "fsync", reserves=reserves
    )
    check_database(config.data_dir, database)
    return database


def server_for(cloud: Cloud) -> Server:
    """Return the server that serves `cloud` on a socket."""
    return Server(
        cloud.handle,
        is_inline=cloud.gateway.inline.has,
        refuse=cloud.entrance.refuse,
        at_once=cloud.entrance.answer_at_once,
        answer_or_handler=cloud.entrance.answer_or_handler,
        temp_dir=cloud.config.data_dir / TEMP_FOLDER,
        service_of=cloud.gateway.names.service_of,
        tls=cloud.tls.for_socket(),
    )
