"""AWS's actions, resource types, ARNs: from `authorization.json` (scripts/service_authorization.py names its source).

Finds the ARNs that a request's parameters name, by the ARN templates of the action's resource types.

The data classes of this package: a request, and a permission that it needs.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from headrace.core.arn import make_arn, partition_of, s3_path_of

# Finds the ARN of what a request names otherwise, by service, kind and name: ("kinesis", "iterator", ...) of a shard
# iterator the stream, ("kms", "alias", "alias/x") the key, ("secretsmanager", "secret", NAME), ("cloudformation",
# "stack", NAME), ("iam", "role", NAME), ("iam", "instance profile", NAME) the profile's role, ("lambda", "mapping",
# UUID) the mapping's function, ("kinesis", "consumer", STREAM_ARN/NAME), (SERVICE, "key", ARN) the customer's key that
# something is encrypted with; ("kinesis", "queue's stream", ARN of a queue) the stream; ("s3", "key scope", ARN of an
# object) the bucket, where one key of the bucket's serves for all its objects; ("s3", "upload key", "ARN UPLOAD") the
# key of an upload. ("apigateway", "definition", TEXT) is the definition of an API as JSON.
# Of ("s3", "owner", BUCKET) it finds the account. None where there is none.
Find = Callable[[str, str, str], str | None]


def find_nothing(service: str, kind: str, name: str) -> str | None:
    """Find nothing: the `Find` for requests without a cloud."""
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """An operation's request, its parameters named and typed as in botocore's model."""

    service: str
    operation: str
    parameters: Mapping[str, Any]
    account: str
    region: str
    find: Find = find_nothing

    def text(self, name: str) -> str:
        """Return a text parameter; empty when it is absent."""
        value = self.parameters.get(name)
        return value if isinstance(value, str) else ""

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN in the request's region and account."""
        return make_arn(service, self.region, self.account, resource)

    def owner_of(self, resource: str) -> str:
        """Return the account that owns a resource; S3's ARNs do not contain it."""
        parts = resource.split(":", 5)
        if len(parts) == 6 and parts[4].isdigit():
            return parts[4]
        bucket = s3_path_of(resource).partition("/")[0]
        return (bucket and self.find("s3", "owner", bucket)) or self.account


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """An action that a request needs. `resources` is None when the action's types and the parameters give them."""

    action: str
    resources: tuple[str, ...] | None = None
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


_TABLE = Path(__file__).parents[1] / "authorization.json"
VARIABLE = re.compile(r"\$\{(\w+)\}")
_OF_EVERY_ARN = ("Partition", "Region", "Account")


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A type of resource, and the template of its ARNs: `arn:${Partition}:sqs:${Region}:${Account}:${QueueName}`."""

    name: str
    form: str
    variables: tuple[str, ...]
    pattern: re.Pattern[str]
    literal_length: int

    def fill(self, values: Mapping[str, str], account: str, region: str) -> str:
        """Return the ARN with these values, and `*` for missing ones."""
        partition = partition_of(region)
        known = {"Partition": partition, "Region": region, "Account": account, **values}
        return VARIABLE.sub(lambda found: known.get(found[1]) or "*", self.form)

    def place(self, arn: str, account: str, region: str) -> str:
        """Return an ARN of this type in the partition and Region of a request, and in its account if it names none."""
        _, _, service, named_region, named_account, name = arn.split(":", 5)
        place = (
            region if "${Region}" in self.form else named_region,
            account if not named_account and "${Account}" in self.form else named_account,
        )
        return ":".join(("arn", partition_of(region), service, *place, name))


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its resource types; it needs a resource of one of `required`, if there are any."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A service prefix (before the colon of actions), with its actions, by name in lower case, and resource types."""

    name: str
    actions: Mapping[str, Action]
    resources: Mapping[str, ResourceType]

    def type_of(self, arn: str) -> str | None:
        """Return the resource type of an ARN: the one with the most specific matching template."""
        fitting = [kind for kind in self.resources.values() if kind.pattern.fullmatch(arn)]
        return max(fitting, key=lambda kind: kind.literal_length).name if fitting else None


@functools.cache
def prefix_of(service: str) -> Prefix | None:
    """Return the prefix of a service (by botocore's name); None when the table does not have the service."""
    name = _read().services.get(service)
    return None if name is None else prefix_named(name)


@functools.cache
def prefix_named(name: str) -> Prefix | None:
    """Return the prefix `name` of actions; None when the table does not have it."""
    text = _read().prefixes.get(name)
    if text is None:
        return None
    prefix: dict[str, Any] = msgspec.json.decode(text)
    actions = {
        action.lower(): Action(
            action,
            tuple(kind for kind in kinds if not kind.startswith("?")),
            tuple(kind[1:] for kind in kinds if kind.startswith("?")),
        )
        for action, kinds in prefix["actions"].items()
    }
    resources = {kind: _resource_type(kind, form) for kind, form in prefix["resources"].items()}
    return Prefix(name, actions, resources)


def services() -> tuple[str, ...]:
    """Return botocore's names of the services in the table."""
    return tuple(_read().services)


def names_no_resource(service: str, operation: str) -> bool:
    """Whether an operation's input does not say which resource its action is for."""
    return operation in _read().unnamed.get(service, ())


def only_by_name(service: str) -> bool:
    """Whether a service is asked only about the resources that its requests name."""
    return service in _read().unnamed


# AWS assigns these; policies have `*` for them.
ASSIGNED = frozenset({"Id", "Uuid", "UUID", "GroupId", "CreationTime"})


def is_made(operation: str, variable: str) -> bool:
    """Whether a variable of an ARN is the id of what the operation makes."""
    return operation.startswith(("Create", "Run")) and variable.endswith("Id")


def is_free(service: str, operation: str) -> bool:
    """Whether nobody signs an operation, by its model."""
    return operation in _read().free.get(service, ())


class _Table(msgspec.Struct):
    services: dict[str, str]
    # Of the prefixes, most stay unread.
    prefixes: dict[str, msgspec.Raw]
    # By the services of `only_by_name`.
    unnamed: dict[str, frozenset[str]]
    free: dict[str, frozenset[str]]


@functools.cache
def _read() -> _Table:
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Table)


def _resource_type(name: str, form: str) -> ResourceType:
    parts = VARIABLE.split(form)
    row: list[str] = []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            row.append(re.escape(part).replace(r"\*", ".+"))
        elif part in _OF_EVERY_ARN:
            row.append("[^:]*")
        else:
            row.append(f"(?P<{part}>{'.+' if index == len(parts) - 2 else '[^:/]+'})")
    variables = tuple(variable for variable in parts[1::2] if variable not in _OF_EVERY_ARN)
    length = sum(len(part) for part in parts[::2])
    return ResourceType(name, form, variables, re.compile("".join(row), re.DOTALL), length)


# The parameters for a variable of an ARN template, when their names differ; by service and resource type.
_NAMES: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("athena", "workgroup"): {"WorkGroupName": ("WorkGroup", "WorkGroupName")},
    ("autoscaling", "autoScalingGroup"): {
        "GroupFriendlyName": ("AutoScalingGroupName", "AutoScalingGroupNames")
    },
    ("batch", "compute-environment"): {"ComputeEnvironmentName": ("computeEnvironment", "computeEnvironmentName")},
    ("batch", "consumable-resource"): {"ConsumableResourceName": ("consumableResource", "consumableResourceName")},
    ("batch", "job-queue"): {"JobQueueName": ("jobQueue", "jobQueueName")},
    ("batch", "scheduling-policy"): {"SchedulingPolicyName": ("name",)},
    ("batch", "service-environment"): {"ServiceEnvironmentName": ("serviceEnvironment", "serviceEnvironmentName")},
    ("cloudwatch", "alarm"): {"AlarmName": ("AlarmName", "AlarmNames")},
    ("cloudwatch", "dashboard"): {"DashboardName": ("DashboardName", "DashboardNames")},
    ("cloudwatch", "metric-stream"): {"MetricStreamName": ("Name",)},
    ("dynamodb", "table"): {"TableName": ("TableName", "SourceTableName", "TargetTableName")},
    ("ecr", "repository"): {"RepositoryName": ("repositoryName", "repositoryNames")},
    ("ecs", "capacity-provider"): {
        "CapacityProviderName": ("capacityProvider", "capacityProviders", "name")
    },
    ("ecs", "cluster"): {"ClusterName": ("cluster", "clusters", "clusterName")},
    # An attribute names its instance inside of itself: the request is for any instance of the cluster.
    ("ecs", "container-instance"): {
        "ClusterName": ("cluster",),
        "ContainerInstanceId": ("containerInstance", "containerInstances", "attributes"),
    },
    ("ecs", "service"): {"ClusterName": ("cluster",), "ServiceName": ("service", "services", "serviceName")},
    ("ecs", "task"): {"ClusterName": ("cluster",), "TaskId": ("task", "tasks")},
    ("ecs", "task-definition"): {"TaskDefinition": ("taskDefinition", "taskDefinitions", "family")},
    ("ecs", "task-set"): {
        "ClusterName": ("cluster",), "ServiceName": ("service",), "TaskSetId": ("taskSet", "taskSets")
    },
    ("eks", "cluster"): {"ClusterName": ("name", "clusterName")},
    ("eks", "eks-anywhere-subscription"): {"UUID": ("id",)},
    ("eks", "podidentityassociation"): {"ClusterName": ("clusterName",), "UUID": ("associationId",)},
    ("elasticfilesystem", "file-system"): {"FileSystemId": ("FileSystemId", "SourceFileSystemId")},
    ("elasticloadbalancing", "targetgroup"): {"TargetGroupName": ("Name",)},
    ("elasticmapreduce", "cluster"): {"ClusterId": ("ClusterId", "JobFlowId", "JobFlowIds")},
    ("emr-serverless", "session"): {"SessionId": ("sessionId", "resourceId")},
    ("events", "api-destination"): {"ApiDestinationName": ("Name",)},
    ("events", "connection"): {"ConnectionName": ("Name",)},
    ("events", "endpoint"): {"EndpointName": ("Name",)},
    ("events", "event-bus"): {"EventBusName": ("EventBusName", "Name")},
    ("glue", "crawler"): {"CrawlerName": ("Name", "CrawlerName")},
    ("glue", "job"): {"JobName": ("JobName", "Name")},
    ("glue", "trigger"): {"TriggerName": ("Name",)},
    ("glue", "workflow"): {"WorkflowName": ("Name",)},
    ("iam", "group"): {"GroupNameWithPath": ("GroupName",)},
    ("iam", "instance-profile"): {"InstanceProfileNameWithPath": ("InstanceProfileName",)},
    ("iam", "policy"): {"PolicyNameWithPath": ("PolicyName",)},
    ("iam", "role"): {"RoleNameWithPath": ("RoleName",)},
    ("iam", "server-certificate"): {"CertificateNameWithPath": ("ServerCertificateName",)},
    ("iam", "user"): {"UserNameWithPath": ("UserName",)},
    ("iot", "cacert"): {"CACertificate": ("certificateId",)},
    ("iot", "cert"): {"Certificate": ("certificateId",)},
    ("iot", "dimension"): {"DimensionName": ("name",)},
    ("iot", "fleetmetric"): {"FleetMetricName": ("metricName",)},
    ("iot", "mitigationaction"): {"MitigationActionName": ("actionName",)},
    ("iot", "provisioningtemplate"): {"ProvisioningTemplate": ("templateName",)},
    ("iot", "scheduledaudit"): {"ScheduleName": ("scheduledAuditName",)},
    ("iot", "topic"): {"TopicName": ("topic",)},
    ("kafka", "configuration"): {"ConfigurationName": ("Name",)},
    ("lambda", "layerVersion"): {"LayerVersion": ("VersionNumber",)},
    ("logs", "log-group"): {
        "LogGroupName": ("logGroupName", "logGroupNames", "logGroupIdentifier", "logGroupIdentifiers")
    },
    ("pipes", "pipe"): {"Name": ("Name",)},
    ("rds", "cluster"): {"DbClusterInstanceName": ("DBClusterIdentifier",)},
    ("rds", "db"): {"DbInstanceName": ("DBInstanceIdentifier",)},
    ("redshift", "cluster"): {"ClusterName": ("ClusterIdentifier",)},
    ("redshift-data", "cluster"): {"ClusterName": ("ClusterIdentifier",)},
    # AWS's ARN has the workgroup's id there, which a request does not contain.
    ("redshift-data", "workgroup"): {"WorkgroupId": ("WorkgroupName",)},
    ("resource-groups", "group"): {"GroupName": ("GroupName", "Group")},
    ("scheduler", "schedule"): {"GroupName": ("GroupName",), "ScheduleName": ("Name",)},
    ("scheduler", "schedule-group"): {"GroupName": ("Name",)},
    ("servicediscovery", "namespace"): {"NamespaceId": ("Id", "NamespaceId")},
    ("servicediscovery", "service"): {"ServiceId": ("Id", "ServiceId")},
    ("ses", "identity"): {"IdentityName": ("EmailIdentity", "Identity")},
    ("sns", "topic"): {"TopicName": ("Name",)},
    ("ssm", "document"): {"DocumentName": ("Name", "DocumentName")},
    ("ssm", "parameter"): {"ParameterNameWithoutLeadingSlash": ("Name", "Names", "Path")},
    ("states", "activity"): {"ActivityName": ("name",)},
    ("states", "statemachine"): {"StateMachineName": ("name",)},
    ("timestream", "database"): {"DatabaseName": ("DatabaseName", "TargetDatabaseName")},
    ("timestream", "table"): {
        "DatabaseName": ("DatabaseName", "TargetDatabaseName"), "TableName": ("TableName", "TargetTableName")
    },
}  # fmt: skip
# Definitions have revisions: `family:1`. A family alone is for any revision (documented of RunTask: it takes the latest
# one then).
_REVISED = ("TaskDefinition", "DaemonTaskDefinition")
# Of WAF, as its ARNs have them.
_SCOPES = {"REGIONAL": "regional", "CLOUDFRONT": "global"}
_DEFAULTS = {
    ("athena", "WorkGroupName"): "primary",
    ("ecs", "ClusterName"): "default",
    ("events", "EventBusName"): "default",
    ("scheduler", "GroupName"): "default",
}


def permissions_by_table(request: Request) -> tuple[RequiredPermission, ...]:
    """Return the permission that the table has for a request; nothing for an operation that it does not have."""
    prefix = prefix_of(request.service)
    action = prefix.actions.get(request.operation.lower()) if prefix else None
    if prefix is None or action is None:
        return ()
    resources = _resources_of(prefix, action, request)
    return (RequiredPermission(f"{prefix.name}:{action.name}", resources),) if resources else ()


def as_named_and_read(action: str, named: str, request: Request) -> tuple[str, ...]:
    """Return a resource as a request names it and, if that is elsewhere, as a service of its Region may read it.

    Many services read of an ARN only the name, and so a Deny for their own resource counts too.
    """
    prefix = prefix_named(action.partition(":")[0])
    kind = prefix.type_of(named) if prefix is not None and named.startswith("arn:") else None
    if prefix is None or kind is None:
        return (named,)
    return tuple(
        dict.fromkeys((named, prefix.resources[kind].place(named, request.account, request.region)))
    )


def _resources_of(prefix: Prefix, action: Action, request: Request) -> tuple[str, ...]:
    """Return the ARNs that the request names: its ARNs of a matching type, else templates filled with its names.

    When the action requires a resource and the request names none, the template has `*` for missing values; for an
    action without resources the result is `*`. It is empty when nobody can say of which resource the request is: a
    policy that names that resource would not allow `*`.
    """
    required = [prefix.resources[name] for name in action.required]
    kinds = required + [prefix.resources[name] for name in action.optional]
    if required and only_by_name(request.service):
        # What has the same variables, such as Name and Id, has no name of its own in the request.
        own = {kind.variables for kind in required}
        kinds = required + [kind for kind in kinds[len(required) :] if kind.variables not in own]
    texts = _texts(request)
    named = tuple(
        dict.fromkeys(itertools.chain(*(_list_arns(prefix, k, texts, request) for k in kinds)))
    )
    if named:
        return named
    if not action.required:
        return ("*",)
    kind = required[0]
    known = {
        name: variables_values[0]
        for name, variables_values in _values(prefix, kind, texts).items()
        if variables_values
    }
    if only_by_name(request.service) and not _names_enough(kind, known, request.operation):
        return ()
    return (kind.fill(known, request.account, request.region),)


def _names_enough(kind: ResourceType, known: Mapping[str, str], operation: str) -> bool:
    missing = {name for name in kind.variables if name not in known}
    missing -= {name for name in missing if is_made(operation, name)}
    return not missing or (missing <= ASSIGNED and (bool(known) or operation.startswith("Create")))


def _list_arns(
    prefix: Prefix, kind: ResourceType, texts: dict[str, list[str]], request: Request
) -> Iterator[str]:
    """Yield the ARNs of a type, wherever they stand, and those of the resources that are named without.

    An ARN may stand in a text such as a description; it never takes the place of a name.
    """
    arns = [
        _complete(kind, value)
        for value in itertools.chain(*texts.values())
        if value.startswith("arn:") and prefix.type_of(value) == kind.name
    ]
    yield from arns
    by_variable = _values(prefix, kind, texts)
    is_named = not arns or any(
        values != [_DEFAULTS.get((prefix.name, variable))]
        for variable, values in by_variable.items()
    )
    if by_variable and all(by_variable.values()) and is_named:
        for row in itertools.product(*by_variable.values()):
            yield kind.fill(
                dict(zip(by_variable, row, strict=True)), request.account, request.region
            )


def _values(
    prefix: Prefix, kind: ResourceType, texts: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Return the request's value for each variable of the template; an ARN of another type gives those that it has."""
    by_variable: dict[str, list[str]] = {}
    for variable in kind.variables:
        values = [
            value
            for name in names_of(prefix.name, kind.name, variable)
            for text in texts.get(name.lower(), ())
            if (value := _value_in(prefix, kind, variable, text))
        ]
        default = _DEFAULTS.get((prefix.name, variable))
        if not values and default:
            values = [default]
        by_variable[variable] = [_bare(variable, value) for value in values]
    return by_variable


def _value_in(prefix: Prefix, kind: ResourceType, variable: str, text: str) -> str:
    if not text.startswith("arn:"):
        return text
    other = prefix.resources.get(prefix.type_of(text) or "")
    found = other.pattern.fullmatch(text) if other is not None and other is not kind else None
    return found[variable] if found and variable in found.groupdict() else ""


def names_of(prefix: str, kind: str, variable: str) -> tuple[str, ...]:
    """Return the names of the members that have a variable of a resource's ARN: usually its own, or its plural.

    An `Id` is also named with the resource's type: HostedZoneId.
    """
    usual = (variable, f"{variable}s") + ((f"{kind}Id",) if variable == "Id" else ())
    return _NAMES.get((prefix, kind), {}).get(variable, usual)


def _complete(kind: ResourceType, arn: str) -> str:
    """Return an ARN with any revision when it has none, although its type has revisions."""
    is_whole = kind.variables[-1:] not in [(name,) for name in _REVISED]
    return (
        arn
        if is_whole
        else arn[: arn.rindex("/") + 1] + _bare(kind.variables[-1], arn.rpartition("/")[2])
    )


def _bare(variable: str, value: str) -> str:
    """Return a name in the form that ARNs have."""
    if variable in _REVISED and ":" not in value:
        return f"{value}:*"
    if variable == "ParameterNameWithoutLeadingSlash":
        return value.lstrip("/")
    return _SCOPES.get(value, value) if variable == "Scope" else value


def _texts(request: Request) -> dict[str, list[str]]:
    """Return the request's parameters that are texts or lists of texts, by their names in lower case."""
    texts_by_name: dict[str, list[str]] = {}
    for name, value in request.parameters.items():
        listed = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [
            str(text) for text in listed if isinstance(text, str | int) and not isinstance(text, bool) and text != ""
        ]  # fmt: skip
        if texts:
            texts_by_name[name.lower()] = texts
    return texts_by_name
