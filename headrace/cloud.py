"""The composition root: builds every service, wires the ports, starts and stops the workers.

Nothing below this file knows which services there are. Used by the CLI (with a socket), and by tests and the
pytest plug-in (in process).
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from headrace import __version__
from headrace.adapters import EventBuses, LogQueue, MetricQueue, Queues, Schemas, Topics
from headrace.aws import fault_pages
from headrace.aws.access_keys import KeyRing, read_keys, secrets_of
from headrace.aws.authentication import Authentication
from headrace.aws.entrance import Entrance
from headrace.aws.front_door import FrontDoor
from headrace.aws.gateway import Gateway, scope_of
from headrace.aws.hosts import Hosts
from headrace.aws.http import HttpRequest, HttpResponse
from headrace.aws.origins import AllowedOrigins
from headrace.aws.pages import is_admin, restrained
from headrace.aws.server import Server
from headrace.aws.service import ServiceApi
from headrace.aws.sessions import RoleSessions, session_secret
from headrace.core.clock import Clock, SystemClock
from headrace.core.config import Config
from headrace.core.ids import Ids
from headrace.core.ports import any_secret
from headrace.core.workers import Supervisor
from headrace.fallback import MotoServices, keep_log_groups_within
from headrace.services.cloudformation.service import CloudFormation, cloudformation_api
from headrace.services.emr.pages import EmrPages
from headrace.services.emr.service import EMR_FOLDER, Emr, emr_api
from headrace.services.emr_serverless.pages import ServerlessPages
from headrace.services.emr_serverless.service import FOLDER as EMR_SERVERLESS_FOLDER
from headrace.services.emr_serverless.service import EmrServerless, emr_serverless_api
from headrace.services.firehose.service import Firehose, firehose_api
from headrace.services.kinesis.service import Kinesis, kinesis_api
from headrace.services.kinesis.subjects import shards_by_stream
from headrace.services.lambda_.api import build_lambda, lambda_api
from headrace.services.s3.service import S3, s3_api
from headrace.spark_submit.event_bounds import EventLogBounds
from headrace.spark_submit.history import HistoryOnDemand
from headrace.status_pages import StatusPages
from headrace.store.check import STATE_FILE
from headrace.store.data_dir import DataDirInUse, check_no_repair_is_half_done, lock
from headrace.store.database import Database

__all__ = ["Cloud", "DataDirInUse", "bind", "server_for"]

log = logging.getLogger(__name__)

TEMP_FOLDER = "tmp"


class _Lifecycle(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Cloud:
    """One local cloud on one data directory.

    Thread-safe once started. `handle` serves sockets and tests; `gateway.call` is the control plane.
    """

    def __init__(
        self, config: Config, *, clock: Clock | None = None, ids: Ids | None = None
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.ids = ids or Ids()
        config.data_dir.mkdir(parents=True, exist_ok=True)
        self._lock_file = lock(config.data_dir)
        check_no_repair_is_half_done(config.data_dir)
        self.database = Database(config.data_dir / STATE_FILE, fsync=config.durability == "fsync")
        self.supervisor = Supervisor(self.clock)
        self.moto = MotoServices(database=self.database, clock=self.clock, ids=self.ids)
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
        )
        keep_log_groups_within(events=config.log_group_events, mib=config.log_group_mib)
        self._metrics = MetricQueue(self.gateway)
        self._logs = LogQueue(self.gateway)
        self._build_services()
        self._hosts = Hosts(config.allow_hosts, bound=config.host)
        door = FrontDoor(
            hosts=self._hosts,
            origins=AllowedOrigins(config.allow_origins),
            function_urls=self.lambda_.url_rules(),
            buckets=self.s3.cors_rules,
        )
        self.entrance = Entrance(
            door,
            gateway=self.gateway,
            is_function_url=self.lambda_.is_function_url,
            authentication=authentication,
            clock=self.clock,
        )
        self._spark_history = HistoryOnDemand(self.clock, config.data_dir)
        self._status_pages = StatusPages(
            emr=EmrPages(self.clock, self.emr.store, config.data_dir / EMR_FOLDER),
            serverless=ServerlessPages(
                self.clock, self.emr_serverless.store, config.data_dir / EMR_SERVERLESS_FOLDER
            ),
            history=self._spark_history,
            data_dir=config.data_dir,
            endpoint_url=self.endpoint_url,
        )
        self._admin: dict[tuple[str, str], Callable[[HttpRequest], HttpResponse]] = {
            ("GET", "/_headrace/health"): self._health,
            ("GET", "/_localstack/health"): self._localstack_health,
            ("GET", "/_headrace/firehose"): self._firehose_status,
            ("GET", "/_headrace/fidelity"): self._fidelity,
            ("GET", "/_headrace/lambda/trace"): self._lambda_trace,
        }
        self._started = False
        self._is_stopping = False

    def endpoint_url(self) -> str:
        """The URL of this cloud; right once the port is known."""
        return self.config.endpoint_url

    def _key_ring(self) -> KeyRing:
        config = self.config
        return KeyRing(
            secrets_of(config.data_dir, self.ids),
            listed=None if config.auth_keys is None else read_keys(config.auth_keys),
            others=self.moto.access_key,
            has_others=lambda: self.moto.ready,
            sessions=self.sessions,
        )

    def _build_services(self) -> None:
        config = self.config
        secret_of = any_secret if self.keys is None else self.keys.secret_for
        shared: dict[str, Any] = {
            "clock": self.clock,
            "ids": self.ids,
            "database": self.database,
        }
        self.s3 = S3(data_dir=config.data_dir, durability=config.durability, **shared)
        self.kinesis = Kinesis(
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
        self.lambda_ = build_lambda(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            config=config,
            objects=self.s3.objects,
            streams=self.kinesis.reader,
            queues=Queues(self.gateway, self.moto.queue_is_empty),
            topics=Topics(self.gateway),
            buses=EventBuses(self.gateway),
            logs=self._logs,
            metrics=self._metrics,
            endpoint_url=self.endpoint_url,
            sessions=self.sessions,
            **shared,
        )
        self.moto.function_target = self.lambda_.invoke_for_service
        self.moto.control = self.gateway
        self.s3.notifications.deliver = self.lambda_.destinations.send
        self.firehose = Firehose(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            durability=config.durability,
            objects=self.s3.objects,
            streams=self.kinesis.reader,
            schemas=Schemas(self.gateway),
            functions=self.lambda_.invoker,
            logs=self._logs,
            metrics=self._metrics,
            **shared,
        )
        self.emr = Emr(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            objects=self.s3.objects,
            endpoint_url=self.endpoint_url,
            secret_of=secret_of,
            logs=self._logs,
            metrics=self._metrics,
            buses=EventBuses(self.gateway),
            run_bootstrap_actions=config.run_bootstrap_actions,
            **shared,
        )
        self.emr_serverless = EmrServerless(
            data_dir=config.data_dir,
            supervisor=self.supervisor,
            objects=self.s3.objects,
            endpoint_url=self.endpoint_url,
            secret_of=secret_of,
            **shared,
        )
        self.cloudformation = CloudFormation(
            supervisor=self.supervisor,
            control=self.gateway,
            objects=self.s3.objects,
            functions=self.lambda_.invoker,
            endpoint_url=self.endpoint_url,
            strict=config.strict,
            **shared,
        )
        for api in self._apis():
            self.gateway.register(api)

    def _apis(self) -> list[ServiceApi]:
        return [
            s3_api(self.s3),
            kinesis_api(self.kinesis),
            lambda_api(self.lambda_),
            firehose_api(self.firehose),
            emr_api(self.emr),
            emr_serverless_api(self.emr_serverless),
            cloudformation_api(self.cloudformation),
        ]

    @property
    def _services(self) -> list[_Lifecycle]:
        """In the order of starting: what reads others comes after them."""
        return [
            self.s3,
            self.kinesis,
            self.lambda_,
            self.firehose,
            self.emr,
            self.emr_serverless,
            self.cloudformation,
        ]

    # --- life ---------------------------------------------------------------------------------

    def start(self, port: int | None = None, *, on_warm: Callable[[], None] | None = None) -> None:
        """Recover state from the data directory and start the workers.

        `on_warm` is called, on another thread, once moto is loaded too.
        """
        if port is not None:
            self.config = replace(self.config, port=port)
        self.moto.endpoint_host = self.config.endpoint_url.removeprefix("http://")
        # Bodies that were on their way when an earlier cloud was killed.
        shutil.rmtree(self.config.data_dir / TEMP_FOLDER, ignore_errors=True)
        for service in self._services:
            service.start()
        self.s3.notifications.wake = self.supervisor.start(self.s3.notifications).wake
        self.supervisor.start(self._metrics)
        self.supervisor.start(self._logs)
        self.supervisor.start(EventLogBounds(self.config.data_dir))
        self.moto.wake_outbox = self.supervisor.start(self.moto.outbox).wake
        self.supervisor.start(self.moto.retention)
        # Not waited for: a request that needs moto before it is ready waits by itself.
        threading.Thread(target=self._warm_up, args=(on_warm,), name="moto", daemon=True).start()
        self._started = True

    def _warm_up(self, on_warm: Callable[[], None] | None) -> None:
        try:
            self.moto.warm_up()
            if on_warm is not None:
                on_warm()
        except Exception:
            # Of a cloud that is stopped meanwhile, the files are closed.
            if not self._is_stopping:
                log.exception("moto did not start")

    def prepare_stop(self) -> None:
        """Start nothing new; called while the socket is still open."""
        self.firehose.prepare_stop()
        self.lambda_.prepare_stop()

    def stop(self) -> None:
        """Stop the workers and close the files. What was acknowledged stays."""
        self._is_stopping = True
        self._spark_history.stop()
        for service in reversed(self._services):
            service.stop()
        self.supervisor.stop_all()
        self.database.close()
        self._lock_file.close()
        self._started = False

    # --- requests -----------------------------------------------------------------------------

    def handle(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        """Answer a request: the cloud's own pages under `/_headrace/`, AWS's operations elsewhere."""
        headers = request.headers
        # As SDKs send it, a request is none of the front door's business; what it looks at is looked up here.
        if (
            "origin" in headers
            or "sec-fetch-site" in headers
            or headers.get("host") not in self._hosts.known
            or headers.get("user-agent", "").startswith("Mozilla/")
        ):
            return self.entrance.visit(request, self._answer)
        # Neither the host nor the path is the cloud's own or a function's.
        if not request.path.startswith("/_"):
            return self.gateway.handle(request)
        return self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponse | Future[HttpResponse]:
        if self.lambda_.is_function_url(request):
            return self.entrance.caller_refusal(request) or self.lambda_.answer_url(request)
        if is_admin(request.path):
            return self.entrance.page_answer(request) or restrained(self._handle_admin(request))
        return self.gateway.handle(request)

    def _handle_admin(self, request: HttpRequest) -> HttpResponse:
        prefix = "/_headrace/cfn-response/"
        if request.method == "PUT" and request.path.startswith(prefix):
            token = request.path.removeprefix(prefix)
            known = self.cloudformation.receive_response(token, request.body)
            return HttpResponse(200 if known else 404)
        if request.path == fault_pages.PATH or request.path.startswith(f"{fault_pages.PATH}/"):
            return fault_pages.answer(self.gateway.faults, request)
        status = self._status_pages.answer(request)
        if status is not None:
            return status
        page = self._admin.get((request.method, request.path))
        if page is None:
            return _json({"message": f"no page {request.path}"}, 404)
        return page(request)

    def _health(self, request: HttpRequest) -> HttpResponse:
        known = self.entrance.knows(request)
        status, moto = "ok" if self._started else "starting", self.moto.status()
        if status == "ok" and moto["moto"] != "ready":
            # What headrace owns is served; calls of moto's services wait.
            status = str(moto["moto"])
        return _json(
            {
                "status": status,
                "version": __version__,
                "pid": os.getpid(),
                **({"data_dir": str(self.config.data_dir)} if known else {}),
                "endpoint_url": self.endpoint_url(),
                "services": sorted(self.gateway.owned),
                **moto,
                "losses": [*self.kinesis.losses, *self.firehose.losses],
            }
        )

    def _localstack_health(self, _: HttpRequest) -> HttpResponse:
        services = dict.fromkeys(sorted(self.gateway.owned), "running")
        return _json({"services": services, "edition": "headrace", "version": __version__})

    def _firehose_status(self, _: HttpRequest) -> HttpResponse:
        return _json(self.firehose.statuses())

    def _lambda_trace(self, request: HttpRequest) -> HttpResponse:
        params = request.query_params()
        name = params.get("mapping", "")
        reports = self.lambda_.mappings.traces(name, params.get("sequence"))
        if not reports:
            return _json({"message": f"No mapping or mapped function {name}."}, 404)
        return _json({"mappings": reports})

    def _fidelity(self, request: HttpRequest) -> HttpResponse:
        stack = request.query_params().get("stack", "")
        return _json(self.cloudformation.fidelity(stack) + self.lambda_.fidelity_remarks())


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket that nobody accepts from yet; port 0 takes a free one. Raises OSError.

    It listens already, so that what a restarted mapping's function asks of the cloud waits and is not refused.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(1024)
    except OSError:
        bound.close()
        raise
    return bound


def server_for(cloud: Cloud) -> Server:
    """Return the server that puts `cloud` on a socket."""
    return Server(
        cloud.handle,
        is_inline=cloud.gateway.is_inline,
        refuse=cloud.entrance.refuse,
        temp_dir=cloud.config.data_dir / TEMP_FOLDER,
        service_of=lambda request: cloud.gateway.service_of(request, scope_of(request)),
    )


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse(status, [("Content-Type", "application/json")], msgspec.json.encode(value))
