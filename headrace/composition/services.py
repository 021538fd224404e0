"""Builds the services that headrace owns, and passes each the ports of others; one reader reads all their streams.

Streams of several services are read through one `StreamReader`: the ARN names the service. Thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.adapters.calls import EventBuses, Queues, Schemas, Secrets, Topics
from headrace.adapters.job_credentials import RoleAccess, RoleCredentials, any_secret
from headrace.aws.protocols.service import ServiceApi
from headrace.composition.foundation import Foundation
from headrace.core.ports import (
    AfterSequence,
    AtSequence,
    FunctionInvoker,
    Position,
    ReadResult,
    ShardInfo,
    StreamNotFound,
    StreamReader,
    TrimHorizon,
)
from headrace.permissions.decisions.decisions import Decisions
from headrace.services.athena.queries import Queries
from headrace.services.athena.query_calls import begin, finish
from headrace.services.cloudcontrol.api import build_cloudcontrol, cloudcontrol_api
from headrace.services.cloudcontrol.backend import CloudControl
from headrace.services.cloudformation.api import build_cloudformation, cloudformation_api
from headrace.services.cloudformation.backend import CloudFormation
from headrace.services.emr.api import build_emr, emr_api
from headrace.services.emr.backend import Emr
from headrace.services.emr_serverless.api import build_emr_serverless, emr_serverless_api
from headrace.services.emr_serverless.backend import EmrServerless
from headrace.services.firehose.api import build_firehose, firehose_api
from headrace.services.firehose.backend import Firehose
from headrace.services.kinesis.api import build_kinesis, kinesis_api
from headrace.services.kinesis.backend import Kinesis
from headrace.services.lambda_.api import LambdaPorts, build_lambda, lambda_api
from headrace.services.lambda_.backend import Lambda
from headrace.services.opensearch.home import SearchHome
from headrace.services.pipes.pipes import Pipes, PipeServices, Positions
from headrace.services.redshift.home import WarehouseHome
from headrace.services.redshift_data.api import build_redshift_data, redshift_data_api
from headrace.services.redshift_data.backend import RedshiftData
from headrace.services.redshift_serverless.api import (
    build_redshift_serverless,
    redshift_serverless_api,
)
from headrace.services.redshift_serverless.backend import RedshiftServerless
from headrace.services.s3.api import build_s3, s3_api
from headrace.services.s3.backend import S3, S3Objects
from headrace.services.s3.encryption import KmsKeys
from headrace.services.s3.fast_path import Admit
from headrace.services.s3.notification_rules import ServiceTargets
from headrace.services.tagging.api import build_tagging, build_tagging_api
from headrace.services.tagging.backend import Tagging
from headrace.spark_submit.sparks import Sparks


class StreamRouter:
    """Implements `headrace.core.ports.StreamReader` with one reader for each service, by the service's name in ARNs."""

    def __init__(self, readers: Mapping[str, StreamReader]) -> None:
        self._readers = dict(readers)

    def _of(self, arn: str) -> StreamReader:
        """Return the reader of a stream's service. Raises StreamNotFound when the service has no streams."""
        service = (arn.split(":", 3) + [""] * 3)[2]
        reader = self._readers.get(service)
        if reader is None:
            raise StreamNotFound(arn)
        return reader

    def shards(self, stream_arn: str) -> list[ShardInfo]:
        """See `StreamReader.shards`."""
        return self._of(stream_arn).shards(stream_arn)

    def pin(
        self, stream_arn: str, shard_id: str, position: Position
    ) -> AtSequence | AfterSequence | TrimHorizon:
        """See `StreamReader.pin`."""
        return self._of(stream_arn).pin(stream_arn, shard_id, position)

    def read(
        self,
        stream_arn: str,
        shard_id: str,
        position: Position,
        *,
        max_records: int,
        max_bytes: int,
    ) -> ReadResult:
        """See `StreamReader.read`."""
        reader = self._of(stream_arn)
        return reader.read(
            stream_arn, shard_id, position, max_records=max_records, max_bytes=max_bytes
        )

    def consumer_status(self, consumer_arn: str) -> str | None:
        """See `StreamReader.consumer_status`."""
        return self._of(consumer_arn).consumer_status(consumer_arn)

    def subscribe(self, stream_arn: str, wake: Callable[[], None]) -> Callable[[], None]:
        """See `StreamReader.subscribe`."""
        return self._of(stream_arn).subscribe(stream_arn, wake)


class Lifecycle(Protocol):
    """A service that the cloud starts and stops."""

    def start(self) -> None:
        """Recover the service's state and start its workers."""
        ...

    def stop(self) -> None:
        """Stop the service's workers; acknowledged data stays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of one cloud, connected to each other. No worker runs before `start`."""

    s3: S3
    objects: S3Objects
    kinesis: Kinesis
    lambda_: Lambda
    pipes: Pipes
    search: SearchHome
    warehouses: WarehouseHome
    redshift_serverless: RedshiftServerless
    firehose: Firehose
    redshift_data: RedshiftData
    sparks: Sparks
    emr: Emr
    emr_serverless: EmrServerless
    cloudformation: CloudFormation
    cloudcontrol: CloudControl
    tagging: Tagging
    athena: Queries

    def apis(
        self, *, strict: bool, admit: Admit, before_policies_change: Callable[[], None]
    ) -> list[ServiceApi]:
        """Return the `ServiceApi` of each service, for the gateway; see `s3_api`."""
        return [
            s3_api(
                self.s3,
                strict=strict,
                admit=admit,
                before_policies_change=before_policies_change,
            ),
            kinesis_api(self.kinesis),
            lambda_api(self.lambda_, strict=strict),
            firehose_api(self.firehose),
            redshift_data_api(self.redshift_data),
            redshift_serverless_api(self.redshift_serverless),
            emr_api(self.emr),
            emr_serverless_api(self.emr_serverless),
            cloudformation_api(self.cloudformation),
            cloudcontrol_api(self.cloudcontrol),
            build_tagging_api(self.tagging),
        ]

    def in_order(self) -> list[Lifecycle]:
        """Return the services in the order of their start: a service that reads others starts after them."""
        return [
            self.s3,
            self.kinesis,
            self.lambda_,
            self.redshift_serverless,
            self.firehose,
            # Firehose's engine carries their deliveries out.
            self.kinesis.channels,
            self.redshift_data,
            self.emr,
            self.emr_serverless,
            self.cloudformation,
            self.cloudcontrol,
            self.athena,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roles:
    """How jobs get credentials, and what their roles may read and write."""

    credentials: RoleCredentials
    access: RoleAccess


def build_services(base: Foundation, decisions: Decisions) -> Services:
    """Return the services, each built once, after those whose ports it takes."""
    s3 = _build_s3(base, decisions)
    objects = S3Objects(s3)
    kinesis = _build_kinesis(base, decisions)
    streams = StreamRouter({"kinesis": kinesis.reader, "dynamodb": base.moto.table_streams})
    queues = Queues(base.gateway, base.moto.engine.memory.queue_is_empty)
    lambda_ = _build_lambda(base, decisions, objects=objects, streams=streams, queues=queues)
    search = _build_search(base)
    warehouses = _build_warehouses(base, objects)
    firehose = _build_firehose(
        base,
        decisions,
        objects=objects,
        streams=kinesis.reader,
        functions=lambda_.invoker,
        search=search,
        warehouses=warehouses,
    )
    kinesis.channels.connect(firehose.orders)
    load_iam = base.moto.engine.warm_up
    secret_of = any_secret if base.keys is None else base.keys.secret_for
    roles = _Roles(
        credentials=RoleCredentials(base.sessions, load_iam, base.clock, secret_of),
        access=RoleAccess(load_iam, decisions, base.config.iam),
    )
    sparks = Sparks(installed=base.config.spark == "installed", strict=base.config.strict)
    cloudformation = _build_cloudformation(base, objects=objects, functions=lambda_.invoker)
    return Services(
        s3=s3,
        objects=objects,
        kinesis=kinesis,
        lambda_=lambda_,
        pipes=_build_pipes(base, streams=streams, queues=queues),
        search=search,
        warehouses=warehouses,
        redshift_serverless=build_redshift_serverless(
            ids=base.ids, database=base.database, warehouses=warehouses
        ),
        firehose=firehose,
        redshift_data=_build_redshift_data(base, decisions, warehouses),
        sparks=sparks,
        emr=_build_emr(base, decisions, objects=objects, roles=roles, sparks=sparks),
        emr_serverless=_build_emr_serverless(
            base, decisions, objects=objects, roles=roles, sparks=sparks
        ),
        cloudformation=cloudformation,
        cloudcontrol=build_cloudcontrol(
            clock=base.clock,
            ids=base.ids,
            database=base.database,
            supervisor=base.supervisor,
            types=cloudformation.single_resources,
        ),
        tagging=build_tagging(base.gateway),
        athena=_build_athena(base, decisions, objects),
    )


def _build_s3(base: Foundation, decisions: Decisions) -> S3:
    return build_s3(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        durability=base.config.durability,
        keys=KmsKeys(base.gateway),
        targets=ServiceTargets(base.gateway),
        guard=decisions,
        has_principal=base.moto.engine.memory.has_principal,
    )


def _build_kinesis(base: Foundation, decisions: Decisions) -> Kinesis:
    memory = base.moto.engine.memory
    return build_kinesis(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        durability=base.config.durability,
        metrics=base.metrics,
        state_delay_ms=base.config.state_delay_ms,
        limits=base.config.limits,
        faults=base.gateway.faults,
        keys=memory,
        has_principal=memory.has_principal,
        logs=base.logs,
        guard=decisions,
    )


def _build_pipes(base: Foundation, *, streams: StreamRouter, queues: Queues) -> Pipes:
    return Pipes(
        PipeServices(
            state=base.moto.engine,
            supervisor=base.supervisor,
            clock=base.clock,
            control=base.gateway,
            streams=streams,
            queues=queues,
            positions=Positions(base.database),
        )
    )


def _build_cloudformation(
    base: Foundation, *, objects: S3Objects, functions: FunctionInvoker
) -> CloudFormation:
    return build_cloudformation(
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        control=base.gateway,
        objects=objects,
        functions=functions,
        endpoint_url=base.endpoint_url,
        answers_url=lambda: _answers_url(base),
        strict=base.config.strict,
    )


def _build_athena(base: Foundation, decisions: Decisions, objects: S3Objects) -> Queries:
    return Queries(
        control=base.gateway,
        objects=objects,
        guard=decisions,
        clock=base.clock,
        store=lambda change: base.moto.engine.change_unwatched(change, "athena"),
        begin=begin,
        finish=finish,
        temp_dir=base.config.data_dir / "tmp",
    )


def _build_lambda(
    base: Foundation,
    decisions: Decisions,
    *,
    objects: S3Objects,
    streams: StreamRouter,
    queues: Queues,
) -> Lambda:
    ports = LambdaPorts(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        config=base.config,
        objects=objects,
        streams=streams,
        queues=queues,
        topics=Topics(base.gateway),
        buses=EventBuses(base.gateway),
        logs=base.logs,
        metrics=base.metrics,
        endpoint_url=base.endpoint_url,
        trust_file=lambda: _trust_file(base),
        sessions=base.sessions,
        environments=base.environments,
        guard=decisions,
        has_principal=base.moto.engine.memory.has_principal,
    )
    return build_lambda(ports)


def _trust_file(base: Foundation) -> Path | None:
    """Return the authorities that functions trust; None for a cloud of a test's process that has no socket."""
    return base.tls.trust_file() if base.environments is None or base.tls.is_served else None


def _answers_url(base: Foundation) -> str:
    """Return the URL to which custom resources answer: https, as on AWS, where a socket is and functions trust it.

    A function that runs in a test's process trusts only what that process trusts.
    """
    url = base.endpoint_url()
    has_trust = base.tls.is_served and base.environments is None
    return url.replace("http://", "https://", 1) if has_trust else url


def _build_search(base: Foundation) -> SearchHome:
    return SearchHome(
        base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        control=base.gateway,
        endpoint_url=base.endpoint_url,
        real_url=base.config.opensearch_url,
        fsync=base.config.durability == "fsync",
    )


def _build_warehouses(base: Foundation, objects: S3Objects) -> WarehouseHome:
    return WarehouseHome(
        base.config.data_dir,
        control=base.gateway,
        objects=objects,
        supervisor=base.supervisor,
        tls=base.tls.context,
        real_url=base.config.redshift_url,
    )


def _build_firehose(
    base: Foundation,
    decisions: Decisions,
    *,
    objects: S3Objects,
    streams: StreamReader,
    functions: FunctionInvoker,
    search: SearchHome,
    warehouses: WarehouseHome,
) -> Firehose:
    return build_firehose(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        durability=base.config.durability,
        objects=objects,
        streams=streams,
        schemas=Schemas(base.gateway),
        functions=functions,
        logs=base.logs,
        metrics=base.metrics,
        guard=decisions,
        keys=base.moto.engine.memory,
        search=search,
        secrets=Secrets(base.gateway).text_of,
        control=base.gateway,
        warehouses=warehouses,
        state_delay_ms=base.config.state_delay_ms,
        limits=base.config.limits,
    )


def _build_redshift_data(
    base: Foundation, decisions: Decisions, warehouses: WarehouseHome
) -> RedshiftData:
    return build_redshift_data(
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        warehouses=warehouses,
        secrets=Secrets(base.gateway).text_of,
        guard=decisions,
        buses=EventBuses(base.gateway),
    )


def _build_emr(
    base: Foundation, decisions: Decisions, *, objects: S3Objects, roles: _Roles, sparks: Sparks
) -> Emr:
    return build_emr(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        objects=objects,
        endpoint_url=base.endpoint_url,
        credentials=roles.credentials,
        access=roles.access,
        guard=decisions,
        sparks=sparks,
        metrics=base.metrics,
        buses=EventBuses(base.gateway),
        run_bootstrap_actions=base.config.run_bootstrap_actions,
    )


def _build_emr_serverless(
    base: Foundation, decisions: Decisions, *, objects: S3Objects, roles: _Roles, sparks: Sparks
) -> EmrServerless:
    return build_emr_serverless(
        data_dir=base.config.data_dir,
        clock=base.clock,
        ids=base.ids,
        database=base.database,
        supervisor=base.supervisor,
        objects=objects,
        endpoint_url=base.endpoint_url,
        credentials=roles.credentials,
        access=roles.access,
        guard=decisions,
        sparks=sparks,
    )
