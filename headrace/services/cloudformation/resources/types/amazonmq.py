"""Amazon MQ: brokers and configurations, as stored settings: no broker runs."""

from __future__ import annotations

from typing import cast

from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
)


def _of_instances(member: str) -> Source:
    """Return the source of what each of a broker's instances has, such as its address."""
    return lambda values: [
        instance[member]
        for instance in values.list_answered("BrokerInstances")
        if instance.get(member)
    ]


def _endpoints(scheme: str) -> Source:
    """Return the source of a broker's addresses of one protocol."""
    return lambda values: [
        address
        for instance in values.list_answered("BrokerInstances")
        for address in cast("list[str]", instance.get("Endpoints") or [])
        if address.startswith(scheme)
    ]


DECLARED = [
    DeclaredType(
        "AWS::AmazonMQ::Broker",
        "mq",
        create=[Call("CreateBroker")],
        id="@answer.BrokerId",
        read=Call("DescribeBroker", {"BrokerId": "@id"}),
        update=[Call("UpdateBroker", {"BrokerId": "@id"})],
        tag=("CreateTags", "DeleteTags", "ResourceArn", "@answer.BrokerArn"),
        delete=[Call("DeleteBroker", {"BrokerId": "@id"})],
        attributes={
            "Id": "@id",
            "Arn": "@answer.BrokerArn",
            "EngineVersionCurrent": "@answer.EngineVersion",
            "IpAddresses": _of_instances("IpAddress"),
            "ConsoleURLs": _of_instances("ConsoleURL"),
            "AmqpEndpoints": _endpoints("amqp"),
            "MqttEndpoints": _endpoints("mqtt"),
            "OpenWireEndpoints": _endpoints("ssl"),
            "StompEndpoints": _endpoints("stomp"),
            "WssEndpoints": _endpoints("wss"),
        },
    ),
    DeclaredType(
        "AWS::AmazonMQ::Configuration",
        "mq",
        create=[Call("CreateConfiguration")],
        id="@answer.Id",
        read=Call("DescribeConfiguration", {"ConfigurationId": "@id"}),
        update=[Call("UpdateConfiguration", {"ConfigurationId": "@id"})],
        tag=("CreateTags", "DeleteTags", "ResourceArn", "@answer.Arn"),
        delete=[],
        attributes={
            "Id": "@id",
            "Arn": "@answer.Arn",
            "Revision": lambda v: str(v.answer["LatestRevision"]["Revision"]),
        },
    ),
]
