"""CloudWatch Logs: groups, streams, filters, destinations, deliveries."""

from typing import Any

from headrace.services.cloudformation.resources.declaration import (
    ALL,
    Call,
    DeclaredType,
    Source,
    Values,
    build_arn,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, same


def _has_policy(values: Values) -> bool:
    policies = values.context.call("logs", "DescribeResourcePolicies", {}).get(
        "resourcePolicies", []
    )
    return any(policy["policyName"] == values.get("PolicyName") for policy in policies)


_FILTER = {"logGroupName": "LogGroupName", "filterName": "@last"}


@declare_sources("DestinationResourceArn")
def _delivery_resource(values: Values) -> dict[str, Any]:
    return {"destinationResourceArn": values.get("DestinationResourceArn")}


_GROUP: dict[str, Source] = {"logGroupName": "@id"}
_GROUP_ARN = build_arn("logs", "log-group:")
_RETAIN = Call("PutRetentionPolicy", _GROUP, when="RetentionInDays")

DECLARED = [
    DeclaredType(
        "AWS::Logs::LogGroup",
        "logs",
        create=[Call("CreateLogGroup"), _RETAIN],
        id="LogGroupName",
        update=[
            _RETAIN,
            Call("DeleteRetentionPolicy", _GROUP, without="RetentionInDays"),
            Call("AssociateKmsKey", _GROUP, when="KmsKeyId"),
            Call("DisassociateKmsKey", _GROUP, without="KmsKeyId"),
        ],
        delete=[Call("DeleteLogGroup", _GROUP)],
        name="LogGroupName",
        name_length=512,
        tag=("TagResource", "UntagResource", "resourceArn", _GROUP_ARN),
        attributes={"Arn": lambda v: f"{_GROUP_ARN(v)}:*"},
        enforced=frozenset({"LogGroupName", "Tags"}),
        refused=frozenset({"ResourcePolicyDocument"}),
    ),
    DeclaredType(
        "AWS::Logs::LogStream",
        "logs",
        create=[Call("CreateLogStream")],
        id="LogStreamName",
        delete=[Call("DeleteLogStream", {"logGroupName": "LogGroupName", "logStreamName": "@id"})],
        name="LogStreamName",
        name_length=512,
        enforced=ALL,
    ),
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
        read_as={"DestinationPolicy": "@answer.destinations.0.accessPolicy"},
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
                    LogGroupClass=lambda group: group.get("logGroupClass", "STANDARD"),
                ),
            ),
        ),
        {"Arn": _log_group_arn},
    ),
)
