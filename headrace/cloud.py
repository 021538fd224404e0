"""`Cloud`: one local cloud on a data directory. It builds and connects all parts, and starts and stops them.

The services are built in `headrace/composition/`. The CLI serves it on a socket, tests use it in process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.adapters.telemetry import LogQueue, MetricQueue
from headrace.aws.gateway.browser_rules import FrontDoor
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.gateway.entrance import Entrance
from headrace.aws.gateway.hosts import Hosts
from headrace.aws.gateway.origins import AllowedOrigins
from headrace.aws.gateway.own_addresses import OwnAddresses
from headrace.aws.server.server import Server
from headrace.aws.signatures.authentication import Authentication
from headrace.aws.signatures.sessions import RoleSessions, session_secret
from headrace.composition.foundation import Foundation
from headrace.composition.moto import MotoServices
from headrace.composition.pages import build_pages
from headrace.composition.permissions import build_judge, build_key_ring
from headrace.composition.services import Services
from headrace.core.clock import Clock, SystemClock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.deliveries.schedule_worker import ScheduleWorker
from headrace.pages.access import PageAccess
from headrace.permissions.decisions.report_file import ReportKeeper
from headrace.services.apigateway.invocation.front import ExecuteApi
from headrace.services.events.schedules import scheduled_rules
from headrace.services.iam.strictness import FallbackStrictness
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.services.logs.bounds import keep_log_groups_within
from headrace.services.s3.cors import BucketRules
from headrace.services.s3.sweeper import Sweeper
from headrace.services.scheduler.schedules import schedules
from headrace.spark_submit.event_bounds import EventLogBounds
from headrace.spark_submit.history import HistoryOnDemand
from headrace.store.check import STATE_FILE
from headrace.store.data_dir import DataDirInUse, check_no_repair_is_half_done, lock
from headrace.store.database import Database

__all__ = ["Cloud", "DataDirInUse", "server_for"]

TEMP_FOLDER = "tmp"


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
    ) -> None:
        """Build every part; no worker runs before `start`.

        Args:
            config: its settings.
            clock: default: the machine's clock.
            ids: default: unpredictable ids.
            supervisor: runs the workers; default: on threads.
            environments: runs functions in this process; default: each function runs in processes of its own.
            warms_up: whether moto is loaded at the start. Otherwise the first request that needs moto waits for it, and
                metrics and log lines are queued until then.
        """
        self.config = config
        self._warms_up = warms_up
        self.clock = clock or SystemClock()
        self.ids = ids or Ids()
        config.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock(config.data_dir)
        check_no_repair_is_half_done(config.data_dir)
        self.database = Database(config.data_dir / STATE_FILE, fsync=config.durability == "fsync")
        self.supervisor = supervisor or Supervisor(self.clock)
        self.moto = MotoServices(database=self.database, clock=self.clock, ids=self.ids)
        self.moto.strictness = FallbackStrictness() if config.strict else None
        secret = session_secret(config.data_dir, self.ids.bytes(32))
        self.sessions = self.moto.sessions = RoleSessions(secret)
        self.keys = (
            build_key_ring(config, ids=self.ids, moto=self.moto, sessions=self.sessions)
            if config.auth
            else None
        )
        authentication = None if self.keys is None else Authentication(self.keys)
        self.gateway = Gateway(
            clock=self.clock,
            ids=self.ids,
            account=config.account_id,
            region=config.region,
            fallback=self.moto,
            sessions=self.sessions,
            authentication=authentication,
            strict=config.strict,
        )
        self._metrics = MetricQueue(self.gateway, self._may_send)
        self._logs = LogQueue(self.gateway, self._may_send)
        base = Foundation(
            config=config,
            clock=self.clock,
            ids=self.ids,
            database=self.database,
            supervisor=self.supervisor,
            moto=self.moto,
            gateway=self.gateway,
            sessions=self.sessions,
            keys=self.keys,
            metrics=self._metrics,
            logs=self._logs,
            environments=environments,
            endpoint_url=self.endpoint_url,
        )
        self.judge = build_judge(base, lambda: services)
        self.report = ReportKeeper(self.judge, config.data_dir)
        self.gateway.ask_first(None if config.iam == "off" else self.judge)
        keep_log_groups_within(events=config.log_group_events, mib=config.log_group_mib)
        services = self._services = Services(base, self.judge)
        for api in services.apis(strict=config.strict):
            self.gateway.register(api)
        self.s3, self.kinesis, self.lambda_ = services.s3, services.kinesis, services.lambda_
        self.objects, self.firehose, self.emr = services.objects, services.firehose, services.emr
        self.emr_serverless, self.cloudformation = services.emr_serverless, services.cloudformation
        self.search, self.warehouses = services.search, services.warehouses
        self._hosts = Hosts(config.allow_hosts, bound=config.host)
        apis = ExecuteApi(
            self.moto.warm_up,
            functions=self.lambda_,
            control=self.gateway,
            clock=self.clock,
            ids=self.ids,
        )
        self.moto.apis = apis.answer_call
        addresses = OwnAddresses(self.lambda_.url_endpoints(), apis.endpoints())
        door = FrontDoor(
            hosts=self._hosts,
            origins=AllowedOrigins(config.allow_origins),
            own_addresses=addresses,
            buckets=BucketRules(self.s3, self.gateway.service_of_head),
            exposed_headers=self.gateway.exposed_headers,
        )
        guard = None if authentication is None else PageAccess(authentication)
        self._spark_history = HistoryOnDemand(self.clock, config.data_dir)
        pages = build_pages(
            base,
            services,
            judge=self.judge,
            guard=guard,
            history=self._spark_history,
            is_started=lambda: self._started,
        )
        self.entrance = Entrance(
            door,
            gateway=self.gateway,
            own_addresses=addresses,
            pages=pages.answer,
            authentication=authentication,
            page_guard=guard,
            clock=self.clock,
        )
        # Answers a request, from a socket or in process.
        self.handle = self.entrance.handle
        self._started = False
        self._is_stopping = False

    def endpoint_url(self) -> str:
        """The URL of this cloud; correct once the port is known."""
        return self.config.endpoint_url

    def _may_send(self) -> bool:
        """Whether metrics and log lines may be sent to moto: not when sending them would load moto."""
        return self._warms_up or self.moto.ready

    # --- start and stop -----------------------------------------------------------------------

    def start(self, port: int | None = None, *, on_warm: Callable[[], None] | None = None) -> None:
        """Recover state from the data directory and start the workers.

        `on_warm` is called on another thread once moto is loaded too.
        """
        if port is not None:
            self.config = replace(self.config, port=port)
        self.moto.endpoint_host = self.config.endpoint_url.removeprefix("http://")
        for service in self._services.in_order():
            service.start()
        self.warehouses.start()
        self.s3.notifications.wake = self.supervisor.start(self.s3.notifications).wake
        self.supervisor.start(Sweeper(self.s3, self.clock))
        self.supervisor.start(self._metrics)
        self.supervisor.start(self._logs)
        if self.config.iam != "off":
            self.report.load()
            self.supervisor.start(self.judge)
            self.supervisor.start(self.report)
        self.supervisor.start(EventLogBounds(self.config.data_dir))
        self.moto.wake_outbox = self.supervisor.start(self.moto.outbox).wake
        self.supervisor.start(self.moto.retention)
        for worker in (
            ScheduleWorker(self.moto, self.clock, [schedules, scheduled_rules]),
            self._services.pipes,
        ):
            wake = self.supervisor.start(worker).wake
            self.moto.wakes |= dict.fromkeys(worker.PACKAGES, wake)
        if self._warms_up:
            # Runs in the background: a request that needs moto waits until it is loaded.
            self.moto.warm_up_in_background(on_warm, is_stopping=lambda: self._is_stopping)
        self._started = True

    def prepare_stop(self) -> None:
        """Start no new work; called while the socket is still open."""
        self.firehose.prepare_stop()
        self.lambda_.prepare_stop()

    def stop(self) -> None:
        """Stop the workers and close the files. Acknowledged data stays."""
        self._is_stopping = True
        self.moto.executions.stop()
        self._spark_history.stop()
        for service in reversed(self._services.in_order()):
            service.stop()
        self.supervisor.stop_all()
        self.moto.executions.join()
        if self.config.iam != "off":
            self.report.close()
        self.search.close()
        self.warehouses.stop()
        self.database.close()
        self._lock_file.close()
        self._started = False


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
    )
