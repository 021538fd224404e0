"""Builds every part of a cloud, once, in the order in which they need each other.

The access keys, the decisions on callers' permissions, the cloud's own pages and its dashboard are built here too.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.adapters.resources import ResourceKeys, ResourceNames, ResourcePolicies, ResourceTags
from headrace.adapters.telemetry import LogQueue, MetricQueue, ServiceMetrics
from headrace.aws.gateway.browser_rules import BrowserRules, OwnAddresses
from headrace.aws.gateway.dispatch import Gateway
from headrace.aws.gateway.entrance import Entrance
from headrace.aws.gateway.hosts import AllowedOrigins, Hosts
from headrace.aws.server.tls import Tls
from headrace.aws.signatures.access_keys import (
    KeyRing,
    RoleSessions,
    read_keys,
    secrets_of,
    session_secret,
)
from headrace.aws.signatures.authentication import Authentication
from headrace.composition.foundation import Foundation, Moto, build_moto
from headrace.composition.services import Services, build_services
from headrace.core.clock import Clock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.workers import Supervisor
from headrace.dashboard.api import Dashboard, page_file
from headrace.dashboard.cloud_account import (
    CloudAccount,
    CloudMeter,
    FunctionTotals,
    streaming_queries,
)
from headrace.dashboard.sampler import Rings, Sampler
from headrace.moto.current_cloud import Connections, Handled
from headrace.moto.engine import MotoEngine
from headrace.moto.principals import MotoUsersAndRoles, trust_policy_of
from headrace.pages import sqs_messages
from headrace.pages.access import PageAccess
from headrace.pages.emr import EmrPages
from headrace.pages.health import Health
from headrace.pages.routes import Routes
from headrace.pages.site import build_site
from headrace.pages.spark import ServerlessPages, SparkPages
from headrace.permissions.decisions.decisions import Decisions
from headrace.permissions.decisions.judge import Judge
from headrace.permissions.decisions.report import ReportKeeper, report_of
from headrace.services.apigateway.invocation.front import ExecuteApi
from headrace.services.emr.api import FOLDER as EMR_FOLDER
from headrace.services.emr_serverless.api import FOLDER as EMR_SERVERLESS_FOLDER
from headrace.services.iot.mqtt.mqtt import Mqtt
from headrace.services.lambda_.invocations.pools import MakeEnvironment
from headrace.services.s3.backend import TableStorage
from headrace.services.s3.website import BucketRules
from headrace.spark_submit.history import HistoryOnDemand
from headrace.store.database import Database


class CloudFacts:
    """What only this cloud knows of a pipeline; see `headrace.dashboard.details.Local`."""

    def __init__(
        self,
        meter: CloudMeter,
        services: Services,
        decisions: Decisions,
        fidelity: Callable[[str], Sequence[Mapping[str, str]]],
        data_dir: Path,
    ) -> None:
        self._data_dir = data_dir
        self._services, self._decisions, self._fidelity = services, decisions, fidelity
        self.positions, self.behind = meter.positions, meter.behind
        self.counts_over_time = meter.counts_over_time
        self.counts_by_shard = meter.counts_by_shard
        self._functions = meter.functions

    def traces(self, function: str, sequence: str | None) -> list[dict[str, Any]]:
        """See `Local.traces`."""
        return self._services.lambda_.mappings.traces(function, sequence)

    def durations(self, function: str) -> list[dict[str, int]]:
        """See `Local.durations`."""
        _, durations = self._functions.of(function)
        return [{"upToMs": bound, "count": durations[bound]} for bound in sorted(durations)]

    def queries(self, holder: str, job: str) -> list[dict[str, Any]]:
        """See `Local.queries`."""
        return _read_queries(self._data_dir, holder, job)

    def fidelity(self, stack: str) -> list[Mapping[str, str]]:
        """See `Local.fidelity`."""
        return list(self._fidelity(stack))

    def permissions(self) -> dict[str, Any]:
        """See `Local.permissions`."""
        return report_of(self._decisions)


def _read_queries(data_dir: Path, holder: str, job: str) -> list[dict[str, Any]]:
    if holder.startswith("j-"):
        return streaming_queries(data_dir / EMR_FOLDER / holder / job)
    attempts = data_dir / EMR_SERVERLESS_FOLDER / holder / job
    numbers = [int(one.name) for one in attempts.glob("*") if one.name.isdecimal()]
    return streaming_queries(attempts / str(max(numbers))) if numbers else []


def build_dashboard(
    base: Foundation,
    services: Services,
    decisions: Decisions,
    handled: Handled,
) -> Dashboard:
    """Return the dashboard; its sampler runs once the cloud is served."""
    config = base.config
    account = CloudAccount(
        base.gateway, config.account_id, config.region, lambda: base.moto.engine.ready
    )
    meter = CloudMeter(
        account,
        base.clock,
        kinesis=services.kinesis,
        lambda_=services.lambda_,
        firehose=services.firehose,
        pipes=services.pipes,
        functions=base.functions,
        handled=handled.totals,
        queries=partial(_read_queries, config.data_dir),
    )
    apis = base.gateway.owned

    def fidelity(stack: str) -> list[Mapping[str, str]]:
        return [
            row for api in apis.values() if api.fidelity_rows for row in api.fidelity_rows(stack)
        ]

    sampler = Sampler(account, meter, base.clock, Rings(base.database))
    return Dashboard(
        sampler,
        base.clock,
        token=secrets.token_hex(24),
        local=CloudFacts(meter, services, decisions, fidelity, config.data_dir),
    )


def build_pages(
    base: Foundation,
    services: Services,
    *,
    decisions: Decisions,
    guard: PageAccess | None,
    history: HistoryOnDemand,
    is_started: Callable[[], bool],
    mqtt: Callable[[], dict[str, int] | None],
    dashboard: Dashboard,
) -> Routes:
    """Return the pages of a cloud; with `--auth`, `guard` decides who may see them."""
    config, clock = base.config, base.clock
    spark = SparkPages(
        emr=EmrPages(clock, services.emr.store, config.data_dir / EMR_FOLDER),
        serverless=ServerlessPages(
            clock, services.emr_serverless.store, config.data_dir / EMR_SERVERLESS_FOLDER
        ),
        history=history,
        sparks=services.sparks,
        data_dir=config.data_dir,
        endpoint_url=base.endpoint_url,
    )
    state = Health(
        is_started=is_started,
        moto=base.moto.engine.status,
        services=lambda: base.gateway.owned,
        losses=lambda: [*services.kinesis.losses, *services.firehose.losses],
        mqtt=mqtt,
        endpoint_url=base.endpoint_url,
        data_dir=config.data_dir,
        knows=lambda request: guard is None or guard.knows(request, clock.now_ms()),
    )
    engine = base.moto.engine

    def list_loaded(
        account: str, region: str, name: str, show_invisible: bool, show_delayed: bool, now_ms: int
    ) -> list[dict[str, Any]] | None:
        from headrace.services.sqs.patches import list_messages

        engine.warm_up()
        return list_messages(account, region, name, show_invisible, show_delayed, now_ms)

    return build_site(
        apis=base.gateway.owned.values(),
        spark=spark,
        state=state,
        rules=base.gateway.faults,
        decisions=decisions,
        receive_response=services.cloudformation.receive_response,
        search=services.search.answer,
        endpoint_url=base.endpoint_url,
        page=page_file,
        dashboard=dashboard.routes(),
        messages=sqs_messages.routes(list_loaded, region=config.region, clock=clock, ids=base.ids),
    )


def build_key_ring(
    config: Config, *, ids: Ids, moto: MotoEngine, sessions: RoleSessions
) -> KeyRing:
    """Return the keys that `--auth` accepts."""
    return KeyRing(
        secrets_of(config.data_dir, ids),
        listed=None if config.auth_keys is None else read_keys(config.auth_keys),
        others=moto.memory.access_key,
        has_others=lambda: moto.ready,
        sessions=sessions,
    )


def build_decisions(base: Foundation) -> Decisions:
    """Return the decisions on permissions. The gateway finds policies and keys of owned services' resources."""
    engine, gateway = base.moto.engine, base.gateway
    memory = engine.memory
    people = MotoUsersAndRoles(
        base.sessions,
        is_ready=memory.is_ready,
        load=engine.warm_up,
        version=lambda: memory.policies_version,
    )
    policies = ResourcePolicies(
        gateway,
        trust_policy=trust_policy_of,
        owned=gateway.owned,
        # Read from moto's state directly: moto's services need them too, in the middle of their requests.
        held=dict.fromkeys(
            ("sqs", "sns", "events", "logs", "kms", "execute-api"), memory.policy_of
        ),
        version=lambda: memory.policies_version,
    )
    keys = ResourceKeys(owned=gateway.owned, in_moto=memory.key_of, key_named=memory.key_named)
    judge = Judge(
        clock=base.clock,
        people=people,
        resource_policy=policies.of,
        grants=memory.grants_on,
        tags=ResourceTags(gateway, held=memory.tags_of).of,
    )
    return Decisions(
        base.config.iam,
        judge=judge,
        sessions=base.sessions,
        find=ResourceNames(gateway, keys.of).find,
        account=base.config.account_id,
        region=base.config.region,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a cloud that it starts and stops, and that answer requests.

    Attributes:
        keys: the access keys that are accepted with `--auth`; None without `--auth`.
        report: stores what callers were denied.
        history: shows finished Spark jobs.
        mqtt: IoT's devices.
        dashboard: the live page and its API.
    """

    moto: Moto
    gateway: Gateway
    sessions: RoleSessions
    keys: KeyRing | None
    metrics: MetricQueue
    service_metrics: ServiceMetrics
    logs: LogQueue
    decisions: Decisions
    report: ReportKeeper
    services: Services
    history: HistoryOnDemand
    mqtt: Mqtt
    dashboard: Dashboard
    entrance: Entrance


def build_parts(base: Foundation, *, is_started: Callable[[], bool]) -> Parts:
    """Return a cloud's parts on their foundation. Nothing runs yet."""
    config, clock, ids = base.config, base.clock, base.ids
    gateway, engine = base.gateway, base.moto.engine
    decisions = build_decisions(base)
    gateway.ask_first(None if config.iam == "off" else decisions, decisions)
    services = build_services(base, decisions)
    for api in services.apis(
        strict=config.strict,
        admit=base.gateway.admit,
        before_policies_change=decisions.before_policies_change,
    ):
        gateway.register(api)
    apis = ExecuteApi(
        engine.warm_up, functions=services.lambda_, control=gateway, guard=decisions, clock=clock,
        ids=ids, metrics=base.metrics, host=lambda: urlsplit(base.endpoint_url()).hostname or "",
    )  # fmt: skip
    mqtt = Mqtt(
        config, database=base.database, clock=clock, ids=ids, engine=engine, tls=base.tls,
        note=decisions.note_decided,
    )  # fmt: skip
    handled = Handled()
    engine.connect(_build_connections(base, services, decisions, apis, mqtt, handled))
    history = HistoryOnDemand(clock, config.data_dir)
    dashboard = build_dashboard(base, services, decisions, handled)
    entrance = _build_entrance(
        base,
        services,
        apis,
        decisions=decisions,
        history=history,
        is_started=is_started,
        mqtt=mqtt.ports,
        dashboard=dashboard,
    )
    mqtt.admit_by(entrance.admit)
    return Parts(
        moto=base.moto,
        gateway=gateway,
        sessions=base.sessions,
        keys=base.keys,
        metrics=base.metrics,
        service_metrics=ServiceMetrics(engine.is_loaded, clock, handled, base.metrics),
        logs=base.logs,
        decisions=decisions,
        report=ReportKeeper(decisions, config.data_dir),
        services=services,
        history=history,
        mqtt=mqtt,
        dashboard=dashboard,
        entrance=entrance,
    )


def _build_connections(
    base: Foundation,
    services: Services,
    decisions: Decisions,
    apis: ExecuteApi,
    mqtt: Mqtt,
    handled: Handled,
) -> Connections:
    """Return what moto's services use of the others."""
    return Connections(
        functions=services.lambda_.invoke_for_service,
        function_calls=services.lambda_,
        control=base.gateway,
        guard=decisions,
        search=services.search,
        storage=TableStorage(services.s3, base.clock),
        warehouses=services.warehouses,
        executions=base.moto.executions,
        queries=services.athena,
        apis=apis.answer_call,
        test_method=apis.test_method,
        devices=mqtt.broker,
        metrics=base.metrics,
        logs=base.logs,
        handled=handled,
        stream_changed=base.moto.table_streams.changed,
        before_policies_change=decisions.before_policies_change,
        endpoint_url=base.endpoint_url,
    )


def build_foundation(
    config: Config,
    *,
    clock: Clock,
    ids: Ids,
    database: Database,
    supervisor: Supervisor,
    environments: MakeEnvironment | None,
    warms_up: bool,
    endpoint_url: Callable[[], str],
    tls: Tls,
) -> Foundation:
    """Return what the parts stand on; see `Cloud` for the arguments."""
    sessions = RoleSessions(session_secret(config.data_dir, ids.bytes(32)))
    moto = build_moto(
        database=database,
        clock=clock,
        ids=ids,
        endpoint_host=lambda: endpoint_url().removeprefix("http://"),
        sessions=sessions,
        strict=config.strict,
    )
    keys = None
    if config.auth:
        keys = build_key_ring(config, ids=ids, moto=moto.engine, sessions=sessions)
    authentication = None if keys is None else Authentication(keys)
    gateway = Gateway(
        clock=clock,
        ids=ids,
        account=config.account_id,
        region=config.region,
        moto=moto.engine,
        sessions=sessions,
        authentication=authentication,
        strict=config.strict,
    )

    # Metrics and log lines are not sent to moto when sending them would load it.
    may_send = (lambda: True) if warms_up else moto.engine.memory.is_ready
    functions = FunctionTotals(config.account_id, config.region)
    return Foundation(
        config=config,
        clock=clock,
        ids=ids,
        database=database,
        supervisor=supervisor,
        moto=moto,
        gateway=gateway,
        sessions=sessions,
        keys=keys,
        authentication=authentication,
        metrics=MetricQueue(gateway, may_send, watch=functions.note),
        functions=functions,
        logs=LogQueue(gateway, may_send),
        environments=environments,
        endpoint_url=endpoint_url,
        tls=tls,
    )


def _build_entrance(
    base: Foundation,
    services: Services,
    apis: ExecuteApi,
    *,
    decisions: Decisions,
    history: HistoryOnDemand,
    is_started: Callable[[], bool],
    mqtt: Callable[[], dict[str, int] | None],
    dashboard: Dashboard,
) -> Entrance:
    config, gateway, authentication = base.config, base.gateway, base.authentication
    addresses = OwnAddresses(services.lambda_.url_endpoints(), apis.endpoints())
    door = BrowserRules(
        hosts=Hosts(config.allow_hosts, bound=config.host),
        origins=AllowedOrigins(config.allow_origins),
        own_addresses=addresses,
        buckets=BucketRules(services.s3, gateway.service_of_head),
        exposed_headers=gateway.exposed_headers,
    )
    guard = (
        None
        if authentication is None
        else PageAccess(authentication, for_operators=config.iam == "enforce")
    )
    pages = build_pages(
        base,
        services,
        decisions=decisions,
        guard=guard,
        history=history,
        is_started=is_started,
        mqtt=mqtt,
        dashboard=dashboard,
    )
    return Entrance(
        door,
        gateway=gateway,
        own_addresses=addresses,
        pages=pages.answer,
        page_guard=guard,
        clock=base.clock,
    )
