"""CloudWatch Logs: subscription and metric filters, destinations, resource policies."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _has_policy(values: Values) -> bool:
    found = values.context.call("logs", "DescribeResourcePolicies", {}).get("resourcePolicies", [])
    return any(each["policyName"] == values.get("PolicyName") for each in found)


_FILTER = {"logGroupName": "LogGroupName", "filterName": "@last"}
TYPES = [
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
]
