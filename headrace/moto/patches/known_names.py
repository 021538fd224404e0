"""Refuses to create what has the name of something that is there; moto puts the new one in its place, in silence.

Codes are those of AWS's API references (documented). Sentences are as clients report them, or assumed.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Named:
    """What has unique names: moto's backend and method, the method's parameter with the name, AWS's error.

    Attributes:
        kept: the backend's attribute: a dictionary by name, or, with `member`, of objects that have the name there.
        sentence: `{}` stands for the name.
        within: the parameter, and the member of those objects, within whose value a name is unique; empty: anywhere.
    """

    backend: str
    method: str
    parameter: str
    kept: str
    code: str
    sentence: str
    member: str = ""
    within: str = ""


_GROUP = "{} by this name already exists - A {} already exists with the name {{}}"
_SAGEMAKER = 'Cannot create already existing {} "{{}}".'
_NAMES: dict[str, tuple[_Named, ...]] = {
    "apigateway": (
        _Named("APIGatewayBackend", "create_domain_name", "domain_name", "domain_names",
            "BadRequestException", "The domain name you provided already exists."),
    ),
    "autoscaling": (
        _Named("AutoScalingBackend", "create_launch_configuration", "name", "launch_configurations",
            "AlreadyExists", _GROUP.format("Launch Configuration", "launch configuration")),
        _Named("AutoScalingBackend", "create_auto_scaling_group", "name", "autoscaling_groups",
            "AlreadyExists", _GROUP.format("AutoScalingGroup", "group")),
    ),
    "backup": (
        _Named("BackupBackend", "create_report_plan", "report_plan_name", "report_plans",
            "AlreadyExistsException", "Report plan with the same name already exists"),
    ),
    "dms": (
        _Named("DatabaseMigrationServiceBackend", "create_endpoint", "endpoint_identifier", "endpoints",
            "ResourceAlreadyExistsFault", "The resource you are attempting to create already exists."),
    ),
    "ecs": (
        _Named("EC2ContainerServiceBackend", "create_capacity_provider", "name", "capacity_providers",
            "ClientException", "The specified capacity provider already exists. To change the configuration of an"
            " existing capacity provider, update the capacity provider."),
    ),
    "events": (
        _Named("EventsBackend", "create_connection", "name", "connections",
            "ResourceAlreadyExistsException", "Connection {} already exists."),
        _Named("EventsBackend", "create_api_destination", "name", "destinations",
            "ResourceAlreadyExistsException", "An api-destination '{}' already exists."),
    ),
    "glue": (
        _Named("GlueBackend", "create_job", "name", "jobs",
            "IdempotentParameterMismatchException", "Job with name already submitted with different configuration"),
        _Named("GlueBackend", "create_trigger", "name", "triggers",
            "IdempotentParameterMismatchException", "Trigger with name already submitted with different configuration"),
        _Named("GlueBackend", "create_workflow", "name", "workflows",
            "AlreadyExistsException", "Workflow with name {} already exists."),
    ),
    "iam": (
        _Named("IAMBackend", "create_saml_provider", "name", "saml_providers",
            "EntityAlreadyExists", "SAMLProvider with name {} already exists.", "name"),
    ),
    "iot": (
        _Named("IoTBackend", "create_job", "job_id", "jobs",
            "ResourceAlreadyExistsException", "Job {} already exists"),
    ),
    "kafka": (
        _Named("KafkaBackend", "create_cluster", "cluster_name", "clusters",
            "ConflictException", "There's already a cluster with this name. Choose a different name.", "cluster_name"),
        _Named("KafkaBackend", "create_cluster_v2", "cluster_name", "clusters",
            "ConflictException", "There's already a cluster with this name. Choose a different name.", "cluster_name"),
    ),
    "opensearch": (
        _Named("OpenSearchServiceBackend", "create_domain", "domain_name", "domains",
            "ResourceAlreadyExistsException", "Domain {} already exists"),
    ),
    "rds": (
        _Named("RDSBackend", "create_subnet_group", "subnet_name", "subnet_groups",
            "DBSubnetGroupAlreadyExists", "The DB subnet group '{}' already exists."),
        _Named("RDSBackend", "create_db_security_group", "group_name", "security_groups",
            "DBSecurityGroupAlreadyExists", "DB security group {} already exists."),
        _Named("RDSBackend", "create_global_cluster", "global_cluster_identifier", "global_clusters",
            "GlobalClusterAlreadyExistsFault", "Global cluster {} already exists."),
    ),
    "redshift": (
        _Named("RedshiftBackend", "create_cluster_subnet_group", "cluster_subnet_group_name", "subnet_groups",
            "ClusterSubnetGroupAlreadyExists", "Cluster subnet group {} already exists."),
        _Named("RedshiftBackend", "create_cluster_security_group", "cluster_security_group_name", "security_groups",
            "ClusterSecurityGroupAlreadyExists", "Cluster security group {} already exists."),
        _Named("RedshiftBackend", "create_cluster_parameter_group", "cluster_parameter_group_name",
            "parameter_groups", "ClusterParameterGroupAlreadyExists", "Cluster parameter group {} already exists."),
    ),
    "sagemaker": (
        _Named("SageMakerModelBackend", "create_model", "model_name", "_models",
            "ValidationException", _SAGEMAKER.format("model")),
        _Named("SageMakerModelBackend", "create_endpoint_config", "endpoint_config_name", "endpoint_configs",
            "ValidationException", _SAGEMAKER.format("endpoint configuration")),
        _Named("SageMakerModelBackend", "create_endpoint", "endpoint_name", "endpoints",
            "ValidationException", _SAGEMAKER.format("endpoint")),
        _Named("SageMakerModelBackend", "create_experiment", "experiment_name", "experiments",
            "ValidationException", _SAGEMAKER.format("experiment")),
    ),
    "scheduler": (
        _Named("EventBridgeSchedulerBackend", "create_schedule_group", "name", "schedule_groups",
            "ConflictException", "Schedule group {} already exists."),
    ),
    "servicediscovery": (
        _Named("ServiceDiscoveryBackend", "create_http_namespace", "name", "namespaces",
            "NamespaceAlreadyExists", "A namespace with the name {} already exists.", "name"),
        _Named("ServiceDiscoveryBackend", "create_service", "name", "services",
            "ServiceAlreadyExists", "Service already exists.", "name", "namespace_id"),
    ),
    "timestreamwrite": (
        _Named("TimestreamWriteBackend", "create_database", "database_name", "databases",
            "ConflictException", "The database with the name {} already exists."),
    ),
}  # fmt: skip
MODULES = tuple(f"moto.{service}.models" for service in _NAMES)


def refuse_known_names(module: Any) -> None:
    """Check the names that a module of moto's models is given."""
    from moto.core.exceptions import ServiceException

    # moto finds an exception's service by its module.
    taken: Any = type("NameTaken", (ServiceException,), {"__module__": module.__name__})
    _, service, _ = module.__name__.split(".")
    for named in _NAMES[service]:
        backend = getattr(module, named.backend)
        create = _with_check(getattr(backend, named.method), named, taken)
        setattr(backend, named.method, create)


def _with_check(create: Any, named: _Named, taken: Any) -> Any:
    signature = inspect.signature(create)

    @functools.wraps(create)
    def create_new(self: Any, *args: Any, **named_args: Any) -> Any:
        arguments = signature.bind(self, *args, **named_args).arguments
        name, kept = arguments.get(named.parameter), getattr(self, named.kept)
        names = (
            kept
            if not named.member
            else {
                getattr(one, named.member)
                for one in kept.values()
                if not named.within or getattr(one, named.within) == arguments.get(named.within)
            }
        )
        if name is not None and name in names:
            raise taken(named.code, named.sentence.format(name))
        return create(self, *args, **named_args)

    return create_new
