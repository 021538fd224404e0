"""The composition root: builds every service, wires the ports, starts and stops the workers.

No module below this one knows which services there are. The CLI uses it with a socket, tests use it in process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from headrace.adapters import EventBuses, LogQueue, MetricQueue, Queues, Schemas, Secrets, Topics
from headrace.aws.access_keys import KeyRing, read_keys, secrets_of
from headrace.aws.authentication import Authentication
from headrace.aws.entrance import Entrance
from headrace.aws.front_door import FrontDoor
from headrace.aws.gateway import Gateway
from headrace.aws.hosts import Hosts
from headrace.aws.origins import AllowedOrigins
from headrace.aws.own_addresses import OwnAddresses
from headrace.aws.server import Server
from headrace.aws.service import ServiceApi
from headrace.aws.sessions import RoleSessions, session_secret
from headrace.core.clock import Clock, SystemClock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.stream_router import StreamRouter
from headrace.core.workers import Supervisor
from headrace.fallback import MotoServices, keep_log_groups_within
from headrace.fallback.execute_api.front import ExecuteApi
from headrace.fallback.iam_people import MotoPeople
from headrace.fallback.iam_records import trust_policy_of
from headrace.fallback.pipes import Parts as PipeParts
from headrace.fallback.pipes import Pipes, Positions
from headrace.fallback.schedules import Schedules
from headrace.fallback.strictness import FallbackStrictness
from headrace.iam.judge import Judge
from headrace.iam.keeping import ReportKeeper
from headrace.job_credentials import RoleAccess, RoleCredentials, any_secret
from headrace.pages.access import PageAccess
from headrace.pages.emr import EmrPages
from headrace.pages.emr_serverless import ServerlessPages
from headrace.pages.health import Health
from headrace.pages.routes import Routes
from headrace.pages.site import build_site
from headrace.pages.spark import SparkPages
from headrace.resource_keys import ResourceKeys
from headrace.resource_names import ResourceNames
from headrace.resource_policies import ResourcePolicies
from headrace.resource_tags import ResourceTags
from headrace.search.home import SearchHome
from headrace.services.cloudcontrol.api import build_cloudcontrol, cloudcontrol_api
from headrace.services.cloudformation.api import build_cloudformation, cloudformation_api
from headrace.services.emr.api import FOLDER as EMR_FOLDER
from headrace.services.emr.api import build_emr, emr_api
from headrace.services.emr_serverless.api import FOLDER as EMR_SERVERLESS_FOLDER
from headrace.services.emr_serverless.api import build_emr_serverless, emr_serverless_api
from headrace.services.firehose.api import build_firehose, firehose_api
from headrace.services.kinesis.api import build_kinesis, kinesis_api
from headrace.services.kinesis.fault_targets import shards_by_stream
from headrace.services.lambda_.api import build_lambda, lambda_api
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.services.redshift_data.api import build_redshift_data, redshift_data_api
from headrace.services.redshift_serverless.api import (
    build_redshift_serverless,
    redshift_serverless_api,
)
from headrace.services.s3.api import build_s3, s3_api
from headrace.services.s3.cors import BucketRules
from headrace.services.s3.encryption import KmsKeys
from headrace.services.s3.sweeper import Sweeper
from headrace.services.s3.targets import ServiceTargets
from headrace.services.tagging.api import build_tagging, tagging_api
from headrace.spark_submit.event_bounds import EventLogBounds
from headrace.spark_submit.history import HistoryOnDemand
from headrace.spark_submit.sparks import Sparks
from headrace.store.check import STATE_FILE
from headrace.store.data_dir import DataDirInUse, check_no_repair_is_half_done, lock
from headrace.store.database import Database
from headrace.warehouse.home import WarehouseHome

__all__ = ["Cloud", "DataDirInUse", "server_for"]

TEMP_FOLDER = "tmp"


class _Lifecycle(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


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
        """Build every part; nothing runs before `start`.

        Args:
            config: its settings.
            clock: the machine's without one.
            ids: unforeseeable ones without.
            supervisor: runs the workers; on threads without one.
            environments: runs functions in this process; without it each runs in processes of its own.
            warms_up: whether moto is loaded at the start. Otherwise the first request that needs it waits for it, and
                metrics and log lines are kept until then.
        """
        self.config = config
        self._environments = environments
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
        self.keys = self._key_ring() if config.auth else None
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
        self.judge = self._judge()
        self.report = ReportKeeper(self.judge, config.data_dir)
        self.gateway.ask_first(None if config.iam == "off" else self.judge)
        keep_log_groups_within(events=config.log_group_events, mib=config.log_group_mib)
        self._metrics = MetricQueue(self.gateway, self._may_send)
        self._logs = LogQueue(self.gateway, self._may_send)
        self._build_services()
        self._hosts = Hosts(config.allow_hosts, bound=config.host)
        apis = ExecuteApi(
            self.moto.warm_up,
            functions=self.lambda_,
            control=self.gateway,
            clock=self.clock,
            ids=self.ids,
        )
        self.moto.apis = apis.answer_call
        addresses = OwnAddresses((self.lambda_, self.lambda_.url_rules()), (apis, apis))
        door = FrontDoor(
            hosts=self._hosts,
            origins=AllowedOrigins(config.allow_origins),
            function_urls=addresses,
            buckets=BucketRules(self.s3, self.gateway.service_of_head),
            exposed_headers=self.gateway.exposed_headers,
        )
        guard = None if authentication is None else PageAccess(authentication)
        self._spark_history = HistoryOnDemand(self.clock, config.data_dir)
        self.entrance = Entrance(
            door,
            gateway=self.gateway,
            function_urls=addresses,
            pages=self._build_pages(guard).answer,
            authentication=authentication,
            page_guard=guard,
            clock=self.clock,
        )
        # Answers a request, from a socket or in process.
        self.handle = self.entrance.handle
        self._started = False
        self._is_stopping = False

    def endpoint_url(self) -> str:
        """The URL of this cloud; right once the port is known."""
        return self.config.endpoint_url

    def _may_send(self) -> bool:
        """Whether metrics and log lines may go to moto: not when they would be what loads it."""
        return self._warms_up or self.moto.ready

    def _judge(self) -> Judge:
        """Return who says what callers may do."""
        moto = self.moto
        people = MotoPeople(
            self.sessions,
            is_ready=lambda: moto.ready,
            load=moto.warm_up,
            version=lambda: moto.policies_version,
        )
        policies = ResourcePolicies(
            self.gateway,
            trust_policy=trust_policy_of,
            held={
                "kinesis": lambda arn: self.kinesis.policy_of(arn),
                "s3": lambda arn: self.s3.policy_of(arn),
                # Read where moto holds them: its own services ask for them too, amid their requests.
                **dict.fromkeys(("sqs", "sns", "events", "logs", "kms"), moto.held.policy_of),
            },
            version=lambda: moto.policies_version,
        )
        judge = Judge(
            self.config.iam,
            clock=self.clock,
            sessions=self.sessions,
            people=people,
            resource_policy=policies.of,
            find=ResourceNames(self.gateway, self._resource_keys().of).find,
            grants=moto.held.grants_on,
            tags=ResourceTags(self.gateway, held=moto.held.tags_of).of,
            account=self.config.account_id,
            region=self.config.region,
        )
        moto.before_policies_change = judge.settle
        return judge

    def _resource_keys(self) -> ResourceKeys:
        """Return who says which keys encrypt what; the services are asked when they are built."""

        def bucket(name: str) -> tuple[Mapping[str, Any], str, str]:
            found = self.s3.bucket(name)
            return found.configurations, found.account, found.region

        return ResourceKeys(
            stream_key=lambda arn: self.kinesis.key_of(arn),
            bucket=bucket,
            object_encryption=lambda name, key: self.s3.object(name, key).encryption,
            upload_encryption=lambda name, key, upload: (
                self.s3.uploads.find(name, key, upload).encryption
            ),
            delivery_stream_key=lambda arn: self.firehose.key_of(arn),
            held=self.moto.held.key_of,
            resolved=self.moto.held.key_named,
        )

    def _key_ring(self) -> KeyRing:
        config = self.config
        return KeyRing(
            secrets_of(config.data_dir, self.ids),
            listed=None if config.auth_keys is None else read_keys(config.auth_keys),
            others=self.moto.held.access_key,
            has_others=lambda: self.moto.ready,
            sessions=self.sessions,
        )

    def _build_services(self) -> None:
        config = self.config
        secret_of = any_secret if self.keys is None else self.keys.secret_for
        credentials = RoleCredentials(self.sessions, self.gateway, self.clock, secret_of)
        access = RoleAccess(self.gateway, self.judge, config.iam)
        shared: dict[str, Any] = {
            "clock": self.clock,
            "ids": self.ids,
            "database": self.database,
        }
        self.s3 = build_s3(data_dir=config.data_dir, durability=config.durability, **shared)
        self.kinesis = build_kinesis(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            durability=config.durability,
            metrics=self._metrics,
            state_delay_ms=config.state_delay_ms,
            limits=config.limits,
            faults=self.gateway.faults,
            **shared,
        )
        self.gateway.faults.shards_by_stream = partial(shards_by_stream, self.kinesis)
        streams = StreamRouter(
            {"kinesis": self.kinesis.reader, "dynamodb": self.moto.table_streams}
        )
        queues = Queues(self.gateway, self.moto.held.queue_is_empty)
        self.lambda_ = build_lambda(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            config=config,
            objects=self.s3.objects,
            streams=streams,
            queues=queues,
            topics=Topics(self.gateway),
            buses=EventBuses(self.gateway),
            logs=self._logs,
            metrics=self._metrics,
            endpoint_url=self.endpoint_url,
            sessions=self.sessions,
            environments=self._environments,
            guard=self.judge,
            **shared,
        )
        self._pipes = Pipes(
            PipeParts(
                state=self.moto,
                supervisor=self.supervisor,
                clock=self.clock,
                control=self.gateway,
                streams=streams,
                queues=queues,
                positions=Positions(self.database),
            )
        )
        self.moto.guard = self.judge
        self.moto.function_target = self.lambda_.invoke_for_service
        self.moto.control = self.gateway
        self.s3.keys = KmsKeys(self.gateway)
        self.kinesis.registry.keys.state_of = self.moto.held.state_of_key
        self.kinesis.registry.keys.version = lambda: self.moto.keys_version
        for service in (self.s3, self.lambda_, self.kinesis):
            service.has_principal = self.moto.held.has_principal
        self.s3.notifications.guard = self.judge
        self.s3.notifications.targets = ServiceTargets(self.gateway, self.lambda_.invoke_later)
        self.search = self.moto.search = SearchHome(
            config.data_dir,
            clock=self.clock,
            ids=self.ids,
            control=self.gateway,
            endpoint_url=self.endpoint_url,
            real_url=config.opensearch_url,
            fsync=config.durability == "fsync",
        )
        self.warehouses = self.moto.warehouses = WarehouseHome(
            config.data_dir,
            control=self.gateway,
            objects=self.s3.objects,
            supervisor=self.supervisor,
            real_url=config.redshift_url,
        )
        self.redshift_serverless = build_redshift_serverless(
            ids=self.ids, database=shared["database"], warehouses=self.warehouses
        )
        self.firehose = build_firehose(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            durability=config.durability,
            objects=self.s3.objects,
            streams=self.kinesis.reader,
            schemas=Schemas(self.gateway),
            functions=self.lambda_.invoker,
            logs=self._logs,
            metrics=self._metrics,
            guard=self.judge,
            search=self.search,
            secrets=Secrets(self.gateway).text_of,
            control=self.gateway,
            warehouses=self.warehouses,
            state_delay_ms=config.state_delay_ms,
            limits=config.limits,
            **shared,
        )
        self.firehose.keys.state_of = self.moto.held.state_of_key
        self.redshift_data = build_redshift_data(
            supervisor=self.supervisor,
            warehouses=self.warehouses,
            secrets=Secrets(self.gateway).text_of,
            guard=self.judge,
            buses=EventBuses(self.gateway),
            **shared,
        )
        self._sparks = Sparks(installed=config.spark == "installed", strict=config.strict)
        self.emr = build_emr(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            objects=self.s3.objects,
            endpoint_url=self.endpoint_url,
            credentials=credentials,
            access=access,
            guard=self.judge,
            sparks=self._sparks,
            metrics=self._metrics,
            buses=EventBuses(self.gateway),
            run_bootstrap_actions=config.run_bootstrap_actions,
            **shared,
        )
        self.emr_serverless = build_emr_serverless(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            objects=self.s3.objects,
            endpoint_url=self.endpoint_url,
            credentials=credentials,
            access=access,
            guard=self.judge,
            sparks=self._sparks,
            **shared,
        )
        self.cloudformation = build_cloudformation(
            supervisor=self.supervisor,
            control=self.gateway,
            objects=self.s3.objects,
            functions=self.lambda_.invoker,
            endpoint_url=self.endpoint_url,
            strict=config.strict,
            **shared,
        )
        self.cloudcontrol = build_cloudcontrol(
            supervisor=self.supervisor, types=self.cloudformation.door, **shared
        )
        self.tagging = build_tagging(self.gateway)
        for api in self._apis():
            self.gateway.register(api)

    def _apis(self) -> list[ServiceApi]:
        return [
            s3_api(self.s3, strict=self.config.strict),
            kinesis_api(self.kinesis),
            lambda_api(self.lambda_, strict=self.config.strict),
            firehose_api(self.firehose),
            redshift_data_api(self.redshift_data),
            redshift_serverless_api(self.redshift_serverless),
            emr_api(self.emr),
            emr_serverless_api(self.emr_serverless),
            cloudformation_api(self.cloudformation),
            cloudcontrol_api(self.cloudcontrol),
            tagging_api(self.tagging),
        ]

    @property
    def _services(self) -> list[_Lifecycle]:
        """In the order of starting: what reads others comes after them."""
        return [
            self.s3,
            self.kinesis,
            self.lambda_,
            self.redshift_serverless,
            self.firehose,
            self.redshift_data,
            self.emr,
            self.emr_serverless,
            self.cloudformation,
            self.cloudcontrol,
        ]

    def _build_pages(self, guard: PageAccess | None) -> Routes:
        config, clock = self.config, self.clock
        spark = SparkPages(
            emr=EmrPages(clock, self.emr.store, config.data_dir / EMR_FOLDER),
            serverless=ServerlessPages(
                clock, self.emr_serverless.store, config.data_dir / EMR_SERVERLESS_FOLDER
            ),
            history=self._spark_history,
            sparks=self._sparks,
            data_dir=config.data_dir,
            endpoint_url=self.endpoint_url,
        )
        state = Health(
            is_started=lambda: self._started,
            moto=self.moto.status,
            services=lambda: self.gateway.owned,
            losses=lambda: [*self.kinesis.losses, *self.firehose.losses],
            endpoint_url=self.endpoint_url,
            data_dir=config.data_dir,
            knows=lambda request: guard is None or guard.knows(request, clock.now_ms()),
        )
        return build_site(
            apis=self.gateway.owned.values(),
            spark=spark,
            state=state,
            rules=self.gateway.faults,
            judge=self.judge,
            receive_response=self.cloudformation.receive_response,
            search=self.search.answer,
            endpoint_url=self.endpoint_url,
        )

    # --- life ---------------------------------------------------------------------------------

    def start(self, port: int | None = None, *, on_warm: Callable[[], None] | None = None) -> None:
        """Recover state from the data directory and start the workers.

        `on_warm` is called, on another thread, once moto is loaded too.
        """
        if port is not None:
            self.config = replace(self.config, port=port)
        self.moto.endpoint_host = self.config.endpoint_url.removeprefix("http://")
        for service in self._services:
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
        for worker in (Schedules(self.moto, self.clock), self._pipes):
            wake = self.supervisor.start(worker).wake
            self.moto.wakes |= dict.fromkeys(worker.PACKAGES, wake)
        if self._warms_up:
            # Not waited for: a request that needs moto before it is ready waits by itself.
            self.moto.warm_up_in_background(on_warm, is_stopping=lambda: self._is_stopping)
        self._started = True

    def prepare_stop(self) -> None:
        """Start nothing new; called while the socket is still open."""
        self.firehose.prepare_stop()
        self.lambda_.prepare_stop()

    def stop(self) -> None:
        """Stop the workers and close the files. What was acknowledged stays."""
        self._is_stopping = True
        self.moto.executions.stop()
        self._spark_history.stop()
        for service in reversed(self._services):
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
    """Return the server that puts `cloud` on a socket."""
    return Server(
        cloud.handle,
        is_inline=cloud.gateway.inline.has,
        refuse=cloud.entrance.refuse,
        at_once=cloud.entrance.answer_at_once,
        answer_or_handler=cloud.entrance.answer_or_handler,
        temp_dir=cloud.config.data_dir / TEMP_FOLDER,
        service_of=cloud.gateway.names.service_of,
    )
