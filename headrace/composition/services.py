"""Builds the services that headrace owns, and passes each the ports of other services that it needs."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from headrace.adapters.job_credentials import RoleAccess, RoleCredentials, any_secret
from headrace.adapters.lookups import Schemas, Secrets
from headrace.adapters.messages import EventBuses, Queues, Topics
from headrace.aws.protocols.service import ServiceApi
from headrace.composition.foundation import Foundation
from headrace.core.stream_router import StreamRouter
from headrace.permissions.decisions.decisions import Judge
from headrace.services.cloudcontrol.api import build_cloudcontrol, cloudcontrol_api
from headrace.services.cloudformation.api import build_cloudformation, cloudformation_api
from headrace.services.emr.api import build_emr, emr_api
from headrace.services.emr_serverless.api import build_emr_serverless, emr_serverless_api
from headrace.services.firehose.api import build_firehose, firehose_api
from headrace.services.kinesis.api import build_kinesis, kinesis_api
from headrace.services.kinesis.fault_targets import shards_by_stream
from headrace.services.lambda_.api import build_lambda, lambda_api
from headrace.services.opensearch.indexes.home import SearchHome
from headrace.services.pipes.pipes import Pipes, PipeServices, Positions
from headrace.services.redshift.clusters.home import WarehouseHome
from headrace.services.redshift_data.api import build_redshift_data, redshift_data_api
from headrace.services.redshift_serverless.api import (
    build_redshift_serverless,
    redshift_serverless_api,
)
from headrace.services.s3.api import build_s3, s3_api
from headrace.services.s3.encryption import KmsKeys
from headrace.services.s3.object_store import S3Objects
from headrace.services.s3.targets import ServiceTargets
from headrace.services.tagging.api import build_tagging, tagging_api
from headrace.spark_submit.sparks import Sparks


class Lifecycle(Protocol):
    """A service that the cloud starts and stops."""

    def start(self) -> None:
        """Recover the service's state and start its workers."""
        ...

    def stop(self) -> None:
        """Stop the service's workers; acknowledged data stays."""
        ...


class Services:
    """The services of one cloud, connected to each other. No worker runs before `start`."""

    def __init__(self, base: Foundation, judge: Judge) -> None:
        secret_of = any_secret if base.keys is None else base.keys.secret_for
        credentials = RoleCredentials(base.sessions, base.gateway, base.clock, secret_of)
        access = RoleAccess(base.gateway, judge, base.config.iam)
        shared: dict[str, Any] = {
            "clock": base.clock,
            "ids": base.ids,
            "database": base.database,
        }
        self.s3 = build_s3(
            data_dir=base.config.data_dir, durability=base.config.durability, **shared
        )
        self.objects = S3Objects(self.s3)
        self.kinesis = build_kinesis(
            data_dir=base.config.data_dir,
            supervisor=base.supervisor,
            durability=base.config.durability,
            metrics=base.metrics,
            state_delay_ms=base.config.state_delay_ms,
            limits=base.config.limits,
            faults=base.gateway.faults,
            **shared,
        )
        base.gateway.faults.shards_by_stream = partial(shards_by_stream, self.kinesis)
        streams = StreamRouter(
            {"kinesis": self.kinesis.reader, "dynamodb": base.moto.table_streams}
        )
        queues = Queues(base.gateway, base.moto.held.queue_is_empty)
        self.lambda_ = build_lambda(
            data_dir=base.config.data_dir,
            supervisor=base.supervisor,
            config=base.config,
            objects=self.objects,
            streams=streams,
            queues=queues,
            topics=Topics(base.gateway),
            buses=EventBuses(base.gateway),
            logs=base.logs,
            metrics=base.metrics,
            endpoint_url=base.endpoint_url,
            sessions=base.sessions,
            environments=base.environments,
            guard=judge,
            **shared,
        )
        self.pipes = Pipes(
            PipeServices(
                state=base.moto,
                supervisor=base.supervisor,
                clock=base.clock,
                control=base.gateway,
                streams=streams,
                queues=queues,
                positions=Positions(base.database),
            )
        )
        base.moto.guard = judge
        base.moto.function_target = self.lambda_.invoke_for_service
        base.moto.control = base.gateway
        self.s3.keys = KmsKeys(base.gateway)
        self.kinesis.registry.keys.state_of = base.moto.held.state_of_key
        self.kinesis.registry.keys.version = lambda: base.moto.keys_version
        for service in (self.s3, self.lambda_, self.kinesis):
            service.has_principal = base.moto.held.has_principal
        self.s3.notifications.guard = judge
        self.s3.notifications.targets = ServiceTargets(base.gateway, self.lambda_.invoke_later)
        self.search = base.moto.search = SearchHome(
            base.config.data_dir,
            clock=base.clock,
            ids=base.ids,
            control=base.gateway,
            endpoint_url=base.endpoint_url,
            real_url=base.config.opensearch_url,
            fsync=base.config.durability == "fsync",
        )
        self.warehouses = base.moto.warehouses = WarehouseHome(
            base.config.data_dir,
            control=base.gateway,
            objects=self.objects,
            supervisor=base.supervisor,
            real_url=base.config.redshift_url,
        )
        self.redshift_serverless = build_redshift_serverless(
            ids=base.ids, database=shared["database"], warehouses=self.warehouses
        )
        self.firehose = build_firehose(
            data_dir=base.config.data_dir,
            supervisor=base.supervisor,
            durability=base.config.durability,
            objects=self.objects,
            streams=self.kinesis.reader,
            schemas=Schemas(base.gateway),
            functions=self.lambda_.invoker,
            logs=base.logs,
            metrics=base.metrics,
            guard=judge,
            search=self.search,
            secrets=Secrets(base.gateway).text_of,
            control=base.gateway,
            warehouses=self.warehouses,
            state_delay_ms=base.config.state_delay_ms,
            limits=base.config.limits,
            **shared,
        )
        self.firehose.keys.state_of = base.moto.held.state_of_key
        self.redshift_data = build_redshift_data(
            supervisor=base.supervisor,
            warehouses=self.warehouses,
            secrets=Secrets(base.gateway).text_of,
            guard=judge,
            buses=EventBuses(base.gateway),
            **shared,
        )
        self.sparks = Sparks(installed=base.config.spark == "installed", strict=base.config.strict)
        self.emr = build_emr(
            data_dir=base.config.data_dir,
            supervisor=base.supervisor,
            objects=self.objects,
            endpoint_url=base.endpoint_url,
            credentials=credentials,
            access=access,
            guard=judge,
            sparks=self.sparks,
            metrics=base.metrics,
            buses=EventBuses(base.gateway),
            run_bootstrap_actions=base.config.run_bootstrap_actions,
            **shared,
        )
        self.emr_serverless = build_emr_serverless(
            data_dir=base.config.data_dir,
            supervisor=base.supervisor,
            objects=self.objects,
            endpoint_url=base.endpoint_url,
            credentials=credentials,
            access=access,
            guard=judge,
            sparks=self.sparks,
            **shared,
        )
        self.cloudformation = build_cloudformation(
            supervisor=base.supervisor,
            control=base.gateway,
            objects=self.objects,
            functions=self.lambda_.invoker,
            endpoint_url=base.endpoint_url,
            strict=base.config.strict,
            **shared,
        )
        self.cloudcontrol = build_cloudcontrol(
            supervisor=base.supervisor, types=self.cloudformation.single_resources, **shared
        )
        self.tagging = build_tagging(base.gateway)

    def apis(self, *, strict: bool) -> list[ServiceApi]:
        """Return the `ServiceApi` of each service, for the gateway."""
        return [
            s3_api(self.s3, strict=strict),
            kinesis_api(self.kinesis),
            lambda_api(self.lambda_, strict=strict),
            firehose_api(self.firehose),
            redshift_data_api(self.redshift_data),
            redshift_serverless_api(self.redshift_serverless),
            emr_api(self.emr),
            emr_serverless_api(self.emr_serverless),
            cloudformation_api(self.cloudformation),
            cloudcontrol_api(self.cloudcontrol),
            tagging_api(self.tagging),
        ]

    def in_order(self) -> list[Lifecycle]:
        """Return the services in the order of their start: a service that reads others starts after them."""
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
