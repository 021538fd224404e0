"""CloudWatch Logs groups and streams."""

from typing import Any

from headrace.core.arn import partition_of
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    enforced,
    ignored,
    stored,
    tag_map,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same

GONE = "ResourceNotFoundException"


def _create_group(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("LogGroupName") or context.generate_name(512)
    params = {"logGroupName": name}
    tags = tag_map(properties, context)
    if tags:
        params["tags"] = tags
    if properties.get("KmsKeyId"):
        params["kmsKeyId"] = properties["KmsKeyId"]
    context.call("logs", "CreateLogGroup", params)
    context.note_made(name)
    _retain(context, name, properties)
    return _build_result(context, name)


def _build_result(context: Context, name: str) -> ResourceResult:
    arn = f"arn:{partition_of(context.region)}:logs:{context.region}:{context.account}:log-group:{name}:*"
    return ResourceResult(name, {"Arn": arn})


def _retain(context: Context, name: str, properties: Properties) -> None:
    if "RetentionInDays" in properties:
        days = int(properties["RetentionInDays"])
        context.call("logs", "PutRetentionPolicy", {"logGroupName": name, "retentionInDays": days})


def _update_group(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    if "RetentionInDays" in old and "RetentionInDays" not in new:
        context.call("logs", "DeleteRetentionPolicy", {"logGroupName": physical_id})
    _retain(context, physical_id, new)
    if old.get("KmsKeyId") != new.get("KmsKeyId"):
        group = {"logGroupName": physical_id}
        if new.get("KmsKeyId"):
            context.call("logs", "AssociateKmsKey", {**group, "kmsKeyId": new["KmsKeyId"]})
        else:
            context.call("logs", "DisassociateKmsKey", group)
    return _build_result(context, physical_id)


def _delete_group(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("logs", "DeleteLogGroup", {"logGroupName": physical_id}, GONE)


def _create_stream(context: Context, properties: Properties) -> ResourceResult:
    name = properties.get("LogStreamName") or context.generate_name(512)
    params = {"logGroupName": properties["LogGroupName"], "logStreamName": name}
    context.call("logs", "CreateLogStream", params)
    return ResourceResult(name)


def _delete_stream(context: Context, physical_id: str, properties: Properties) -> None:
    params = {"logGroupName": properties["LogGroupName"], "logStreamName": physical_id}
    context.delete_if_exists("logs", "DeleteLogStream", params, GONE)


TYPES = [
    ResourceType(
        "AWS::Logs::LogGroup",
        {
            **enforced("LogGroupName", "Tags"),
            **stored("RetentionInDays", "KmsKeyId"),
            **ignored(
                "LogGroupClass",
                "DataProtectionPolicy",
                "DeletionProtectionEnabled",
                "FieldIndexPolicies",
                "BearerTokenAuthenticationEnabled",
            ),
        },
        _create_group,
        _delete_group,
        update=_update_group,
        replace_on=frozenset({"LogGroupName"}),
        named_by=("LogGroupName",),
    ),
    ResourceType(
        "AWS::Logs::LogStream",
        enforced("LogGroupName", "LogStreamName"),
        _create_stream,
        _delete_stream,
        named_by=("LogStreamName",),
    ),
]


def _has_policy(values: Values) -> bool:
    policies = values.context.call("logs", "DescribeResourcePolicies", {}).get(
        "resourcePolicies", []
    )
    return any(policy["policyName"] == values.get("PolicyName") for policy in policies)


_FILTER = {"logGroupName": "LogGroupName", "filterName": "@last"}


@declare_sources("DestinationResourceArn")
def _delivery_resource(values: Values) -> dict[str, Any]:
    return {"destinationResourceArn": values.get("DestinationResourceArn")}


DECLARED = [
    DeclaredType(
        "AWS::Logs::SubscriptionFilter",
        "logs",
        create=[Call("PutSubscriptionFilter")],
        id="FilterName",
        read=Call(
            "DescribeSubscriptionFilters",
            {"logGroupName": "LogGroupName", "filterNamePrefix": "@last"},
        ),
        update=[Call("PutSubscriptionFilter", _FILTER)],
        delete=[Call("DeleteSubscriptionFilter", _FILTER)],
        name="FilterName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::MetricFilter",
        "logs",
        create=[Call("PutMetricFilter")],
        id="FilterName",
        read=Call(
            "DescribeMetricFilters", {"logGroupName": "LogGroupName", "filterNamePrefix": "@last"}
        ),
        update=[Call("PutMetricFilter", _FILTER)],
        delete=[Call("DeleteMetricFilter", _FILTER)],
        name="FilterName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::ResourcePolicy",
        "logs",
        create=[Call("PutResourcePolicy")],
        id="PolicyName",
        update=[Call("PutResourcePolicy")],
        delete=[Call("DeleteResourcePolicy", {"policyName": "@id"})],
        name="PolicyName",
        exists=_has_policy,
    ),
    DeclaredType(
        "AWS::Logs::Destination",
        "logs",
        create=[
            Call("PutDestination"),
            Call(
                "PutDestinationPolicy",
                {"destinationName": "@id", "accessPolicy": "DestinationPolicy"},
                only=(),
                when="DestinationPolicy",
            ),
        ],
        id="DestinationName",
        read=Call("DescribeDestinations", {"DestinationNamePrefix": "@last"}),
        update=[
            Call(
                "PutDestination", only=("RoleArn", "TargetArn"), members={"destinationName": "@id"}
            ),
            Call(
                "PutDestinationPolicy",
                {"destinationName": "@id", "accessPolicy": "DestinationPolicy"},
                only=(),
                when="DestinationPolicy",
            ),
        ],
        delete=[Call("DeleteDestination", {"destinationName": "@id"})],
        name="DestinationName",
        name_length=512,
    ),
    DeclaredType(
        "AWS::Logs::QueryDefinition",
        "logs",
        create=[Call("PutQueryDefinition")],
        id="@answer.queryDefinitionId",
        read=Call("DescribeQueryDefinitions", {"queryDefinitionNamePrefix": "Name"}),
        update=[Call("PutQueryDefinition", {"queryDefinitionId": "@id"})],
        delete=[Call("DeleteQueryDefinition", {"queryDefinitionId": "@id"})],
        unique=False,
    ),
    DeclaredType(
        "AWS::Logs::DeliverySource",
        "logs",
        create=[Call("PutDeliverySource")],
        id="Name",
        read=Call("GetDeliverySource", {"name": "@id"}),
        delete=[Call("DeleteDeliverySource", {"name": "@id"})],
        name="Name",
        name_length=60,
        attributes={
            "Arn": "@answer.deliverySource.arn",
            "Service": "@answer.deliverySource.service",
            "ResourceArns": "@answer.deliverySource.resourceArns",
        },
    ),
    DeclaredType(
        "AWS::Logs::DeliveryDestination",
        "logs",
        create=[
            Call(
                "PutDeliveryDestination",
                {"deliveryDestinationConfiguration": _delivery_resource},
            )
        ],
        id="Name",
        read=Call("GetDeliveryDestination", {"name": "@id"}),
        delete=[Call("DeleteDeliveryDestination", {"name": "@id"})],
        name="Name",
        name_length=60,
        attributes={"Arn": "@answer.deliveryDestination.arn"},
    ),
    DeclaredType(
        "AWS::Logs::Delivery",
        "logs",
        create=[Call("CreateDelivery")],
        id="@answer.delivery.id",
        read=Call("GetDelivery", {"id": "@id"}),
        delete=[Call("DeleteDelivery", {"id": "@id"})],
        attributes={
            "DeliveryId": "@id",
            "Arn": "@answer.delivery.arn",
            "DeliveryDestinationType": "@answer.delivery.deliveryDestinationType",
        },
    ),
]


def _log_group_arn(group: dict[str, Any]) -> str:
    return str(group["arn"]).removesuffix(":*") + ":*"


READINGS = (
    ReadingRules(
        "AWS::Logs::LogGroup",
        "logs",
        (
            ReadCall(
                "DescribeLogGroups",
                {"logGroupNamePrefix": "@id", "limit": 1},
                "logGroups.0",
                same(
                    "",
                    LogGroupName="logGroupName",
                    RetentionInDays="retentionInDays",
                    KmsKeyId="kmsKeyId",
                    LogGroupClass="logGroupClass",
                ),
            ),
        ),
        {"Arn": _log_group_arn},
    ),
)
