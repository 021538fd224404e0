"""Types of streaming beside Kinesis and Firehose: Managed Flink, Kinesis Video, MSK, IoT.

Managed Flink's applications.

Kinesis Video's streams.

MSK's clusters, serverless ones too, and their policies, as stored settings.

IoT: things, policies, certificates, rules.
"""

from __future__ import annotations

from typing import Any, cast

from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import Properties, value_at
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.declared_calls import input_of

# iot-core limits: "Maximum number of named policy versions".
_MOST_VERSIONS = 5


def _versions(values: Values) -> list[dict[str, Any]]:
    answer = values.context.call("iot", "ListPolicyVersions", {"policyName": values.id})
    return cast("list[dict[str, Any]]", answer["policyVersions"])


def _has_all_versions(values: Values) -> bool:
    return len(_versions(values)) >= _MOST_VERSIONS


@declare_sources("PolicyDocument")
def _oldest_version(values: Values) -> str:
    others = (version for version in _versions(values) if not version["isDefaultVersion"])
    return str(min((version["versionId"] for version in others), key=int))


@declare_sources("CredentialDurationSeconds")
def _read_duration_s(values: Values) -> int:
    """Return how long a role alias' credentials last: without the property, AWS's hour."""
    return int(values.get("CredentialDurationSeconds") or 3600)


_OF_CLUSTER: dict[str, Source] = {"ClusterArn": "@id"}


@declare_sources("VpcConfigs", "ClientAuthentication")
def _serverless(values: Values) -> dict[str, Any]:
    return {name: values.get(name) for name in ("VpcConfigs", "ClientAuthentication")}


_SERVICE = "kinesisanalyticsv2"


_NETWORKS = "VpcConfigurations"


_FLINK = ("CheckpointConfiguration", "MonitoringConfiguration", "ParallelismConfiguration")


def _logging_option(values: Values) -> str:
    """Return the id of the log stream that was added last."""
    return str(
        values.list_answered("CloudWatchLoggingOptionDescriptions")[-1]["CloudWatchLoggingOptionId"]
    )


def _describe_application(values: Values) -> dict[str, Any]:
    """Return the application's current description."""
    answer = values.context.call(_SERVICE, "DescribeApplication", {"ApplicationName": values.id})
    return cast("dict[str, Any]", answer["ApplicationDetail"])


@declare_sources()
def _version(values: Values) -> int:
    return int(_describe_application(values)["ApplicationVersionId"])


def _as_update(properties: Properties, shape: Any, path: str) -> dict[str, Any]:
    """Return a configuration with UpdateApplication's names for its members."""
    members: dict[str, Any] = {}
    for name, value in properties.items():
        singular = name.replace("Properties", "Property")
        names = (name, f"{name}Update", f"{singular}Updates")
        member = next(
            (name_of_property for name_of_property in names if name_of_property in shape.members),
            None,
        )
        if member is None:
            raise ResourceFailed(f"UpdateApplication cannot change {path}.{name}")
        inner = shape.members[member]
        changed = isinstance(value, dict) and inner.type_name == "structure"
        members[member] = (
            _as_update(cast("Properties", value), inner, f"{path}.{name}") if changed else value
        )
    return members


def _check_description(values: Values) -> None:
    """Refuse a changed description: the service has no call for it. A rollback finds the old one unchanged."""
    before, descriptions = _describe_application(values), values.get("ApplicationDescription") or ""
    if (before.get("ApplicationDescription") or "") != descriptions:
        raise ResourceFailed(
            "Managed Service for Apache Flink has no call that changes the ApplicationDescription"
            " of an application: take the change back, or make another application"
        )


def _flink(configuration: Properties) -> Properties:
    return cast("Properties", configuration.get("FlinkApplicationConfiguration") or {})


@declare_sources("ApplicationConfiguration", "ApplicationDescription")
def _configuration(values: Values) -> dict[str, Any] | None:
    """Return the changed parts of the configuration. A removed part gets its default, if it has one."""
    _check_description(values)
    new = dict(values.get("ApplicationConfiguration") or {})
    old = dict(values.old.get("ApplicationConfiguration") or {})
    changed = {n: v for n, v in new.items() if v != old.get(n) and n != _NETWORKS}
    if "EnvironmentProperties" in old.keys() - new.keys():
        changed["EnvironmentProperties"] = {"PropertyGroups": []}
    flink, before = _flink(new), _flink(old)
    gone = [name for name in _FLINK if name in before and name not in flink]
    if gone:
        defaults = {name: {"ConfigurationType": "DEFAULT"} for name in gone}
        changed["FlinkApplicationConfiguration"] = {**flink, **defaults}
    shape = input_of(_SERVICE, "UpdateApplication").members["ApplicationConfigurationUpdate"]
    update = _as_update(changed, shape, "ApplicationConfiguration")
    network_ids, held = _networks(values), _network_ids(values)
    if network_ids and held:
        update["VpcConfigurationUpdates"] = [
            {
                "VpcConfigurationId": held[0],
                "SubnetIdUpdates": network_ids[0]["SubnetIds"],
                "SecurityGroupIdUpdates": network_ids[0]["SecurityGroupIds"],
            }
        ]
    return update or None


def _networks(values: Values) -> list[Properties]:
    """Return the template's VPC configurations: one at most."""
    return values.items(f"ApplicationConfiguration.{_NETWORKS}")


def _network_ids(values: Values) -> list[str]:
    """Return the ids of the application's current VPC configurations."""
    path = "ApplicationConfigurationDescription.VpcConfigurationDescriptions"
    listed = cast("list[Properties]", value_at(_describe_application(values), path) or [])
    return [str(network["VpcConfigurationId"]) for network in listed]


DECLARED = [
    DeclaredType(
        "AWS::KinesisAnalyticsV2::Application",
        _SERVICE,
        create=[Call("CreateApplication")],
        id="ApplicationName",
        read=Call("DescribeApplication", {"ApplicationName": "@id"}),
        update=[
            Call(
                "UpdateApplication",
                {
                    "ApplicationName": "@id",
                    "ServiceExecutionRoleUpdate": "ServiceExecutionRole",
                    "RuntimeEnvironmentUpdate": "RuntimeEnvironment",
                    "ApplicationConfigurationUpdate": _configuration,
                    "CurrentApplicationVersionId": _version,
                },
                only=(),
            ),
            Call(
                "DeleteApplicationVpcConfiguration",
                {
                    "ApplicationName": "@id",
                    "CurrentApplicationVersionId": _version,
                    "VpcConfigurationId": declare_sources("ApplicationConfiguration")(
                        lambda v: _network_ids(v)[0]
                    ),
                },
                only=(),
                only_if=lambda v: not _networks(v) and bool(_network_ids(v)),
            ),
            Call(
                "AddApplicationVpcConfiguration",
                {
                    "ApplicationName": "@id",
                    "CurrentApplicationVersionId": _version,
                    "VpcConfiguration": declare_sources("ApplicationConfiguration")(
                        lambda v: _networks(v)[0]
                    ),
                },
                only=(),
                only_if=lambda v: bool(_networks(v)) and not _network_ids(v),
            ),
        ],
        tag=(
            "TagResource",
            "UntagResource",
            "ResourceARN",
            "@answer.ApplicationDetail.ApplicationARN",
        ),
        # Deleting it would remove its log streams.
        deletes_others=True,
        delete=[
            Call(
                "DeleteApplication",
                {
                    "ApplicationName": "@id",
                    "CreateTimestamp": "@answer.ApplicationDetail.CreateTimestamp",
                },
            )
        ],
        name="ApplicationName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::KinesisAnalyticsV2::ApplicationCloudWatchLoggingOption",
        _SERVICE,
        create=[
            Call(
                "AddApplicationCloudWatchLoggingOption",
                {"CloudWatchLoggingOption": "CloudWatchLoggingOption"},
            )
        ],
        id=lambda v: f"{v.get('ApplicationName')}|{_logging_option(v)}",
        read=Call("DescribeApplication", {"ApplicationName": lambda v: v.id.partition("|")[0]}),
        delete=[
            Call(
                "DeleteApplicationCloudWatchLoggingOption",
                {
                    "ApplicationName": lambda v: v.id.partition("|")[0],
                    "CloudWatchLoggingOptionId": lambda v: v.id.partition("|")[2],
                },
                only=(),
            )
        ],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::KinesisVideo::Stream",
        "kinesisvideo",
        create=[Call("CreateStream", {"StreamName": "Name"})],
        id="Name",
        read=Call("DescribeStream", {"StreamName": "@id"}),
        delete=[Call("DeleteStream", {"StreamARN": "@answer.StreamInfo.StreamARN"})],
        name="Name",
        name_length=256,
        attributes={"Arn": "@answer.StreamInfo.StreamARN"},
    ),
    DeclaredType(
        "AWS::MSK::Cluster",
        "kafka",
        create=[Call("CreateCluster")],
        id="@answer.ClusterArn",
        read=Call("DescribeCluster", {"ClusterArn": "@id"}),
        read_as={"KafkaVersion": "@answer.ClusterInfo.CurrentBrokerSoftwareInfo.KafkaVersion"},
        delete=[Call("DeleteCluster", {"ClusterArn": "@id"})],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::MSK::ServerlessCluster",
        "kafka",
        create=[
            Call(
                "CreateClusterV2",
                {"Serverless": _serverless},
                only=("ClusterName",),
            )
        ],
        id="@answer.ClusterArn",
        read=Call("DescribeClusterV2", {"ClusterArn": "@id"}),
        delete=[Call("DeleteCluster", {"ClusterArn": "@id"})],
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::MSK::ClusterPolicy",
        "kafka",
        create=[Call("PutClusterPolicy")],
        id="ClusterArn",
        read=Call("GetClusterPolicy", _OF_CLUSTER),
        update=[
            # The version is the read one: an update must name it.
            Call("GetClusterPolicy", _OF_CLUSTER, only=(), always=True),
            Call("PutClusterPolicy", {**_OF_CLUSTER, "CurrentVersion": "@answer.CurrentVersion"}),
        ],
        delete=[Call("DeleteClusterPolicy", _OF_CLUSTER)],
    ),
    DeclaredType(
        "AWS::IoT::TopicRule",
        "iot",
        create=[Call("CreateTopicRule")],
        id="RuleName",
        read=Call("GetTopicRule", {"ruleName": "@id"}),
        read_as={"TopicRulePayload": "@answer.rule"},
        update=[Call("ReplaceTopicRule", {"ruleName": "@id"})],
        delete=[Call("DeleteTopicRule", {"ruleName": "@id"})],
        name="RuleName",
        name_length=128,
        name_underscores=True,
        attributes={"Arn": "@answer.ruleArn"},
    ),
    DeclaredType(
        "AWS::IoT::Thing",
        "iot",
        create=[Call("CreateThing")],
        id="ThingName",
        read=Call("DescribeThing", {"thingName": "@id"}),
        read_as={"AttributePayload": lambda v: {"Attributes": v.answer.get("attributes") or {}}},
        update=[Call("UpdateThing", {"thingName": "@id"})],
        delete=[Call("DeleteThing", {"thingName": "@id"})],
        name="ThingName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::IoT::ThingType",
        "iot",
        create=[Call("CreateThingType")],
        id="ThingTypeName",
        read=Call("DescribeThingType", {"thingTypeName": "@id"}),
        delete=[Call("DeleteThingType", {"thingTypeName": "@id"})],
        name="ThingTypeName",
        name_length=128,
    ),
    DeclaredType(
        "AWS::IoT::Policy",
        "iot",
        create=[Call("CreatePolicy")],
        id="PolicyName",
        read=Call("GetPolicy", {"policyName": "@id"}),
        update=[
            Call(
                "DeletePolicyVersion",
                {"policyName": "@id", "policyVersionId": _oldest_version},
                only=("PolicyDocument",),
                only_if=_has_all_versions,
            ),
            Call(
                "CreatePolicyVersion",
                {"policyName": "@id", "setAsDefault": lambda _: True},
                only=("PolicyDocument",),
            ),
        ],
        delete=[Call("DeletePolicy", {"policyName": "@id"})],
        name="PolicyName",
        name_length=128,
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::IoT::PolicyPrincipalAttachment",
        "iot",
        create=[Call("AttachPrincipalPolicy")],
        id=lambda v: f"{v.get('PolicyName')}|{v.get('Principal')}",
        delete=[
            Call("DetachPrincipalPolicy", {"policyName": "PolicyName", "principal": "Principal"})
        ],
    ),
    DeclaredType(
        "AWS::IoT::ThingPrincipalAttachment",
        "iot",
        create=[Call("AttachThingPrincipal", only=("ThingName", "Principal"))],
        id=lambda v: f"{v.get('ThingName')}|{v.get('Principal')}",
        delete=[Call("DetachThingPrincipal", {"thingName": "ThingName", "principal": "Principal"})],
    ),
    DeclaredType(
        "AWS::IoT::RoleAlias",
        "iot",
        create=[Call("CreateRoleAlias")],
        id="RoleAlias",
        name="RoleAlias",
        read=Call("DescribeRoleAlias", {"roleAlias": "@id"}),
        update=[
            Call(
                "UpdateRoleAlias",
                {"roleAlias": "@id", "credentialDurationSeconds": _read_duration_s},
            )
        ],
        delete=[Call("DeleteRoleAlias", {"roleAlias": "@id"})],
        attributes={"RoleAliasArn": "@answer.roleAliasDescription.roleAliasArn"},
    ),
    DeclaredType(
        "AWS::IoT::ThingGroup",
        "iot",
        create=[Call("CreateThingGroup")],
        id="ThingGroupName",
        name="ThingGroupName",
        read=Call("DescribeThingGroup", {"thingGroupName": "@id"}),
        update=[Call("UpdateThingGroup", {"thingGroupName": "@id"})],
        delete=[Call("DeleteThingGroup", {"thingGroupName": "@id"})],
        attributes={"Arn": "@answer.thingGroupArn", "Id": "@answer.thingGroupId"},
    ),
]
