"""AWS Config: rules, recorders and delivery channels, as stored settings: nothing here is recorded or evaluated."""

from __future__ import annotations

from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, own_name

_RECORDER = {"ConfigurationRecorderName": "@id"}

DECLARED = [
    DeclaredType(
        "AWS::Config::ConfigRule",
        "config",
        create=[
            Call(
                "PutConfigRule",
                {"ConfigRuleName": own_name("ConfigRuleName", 128)},
                into="ConfigRule",
            )
        ],
        id="ConfigRuleName",
        name="ConfigRuleName",
        name_length=128,
        read=Call("DescribeConfigRules", {"ConfigRuleNames": lambda v: [v.id]}),
        # The call replaces the tags, too.
        update=[
            Call(
                "PutConfigRule",
                {
                    "ConfigRuleName": "@id",
                    "Tags": lambda v: [{"Key": key, "Value": v.tags[key]} for key in v.tags],
                },
                into="ConfigRule",
            )
        ],
        delete=[Call("DeleteConfigRule", {"ConfigRuleName": "@id"})],
        attributes={
            "Arn": "@answer.ConfigRules.0.ConfigRuleArn",
            "ConfigRuleId": "@answer.ConfigRules.0.ConfigRuleId",
        },
    ),
    DeclaredType(
        "AWS::Config::ConfigurationRecorder",
        "config",
        create=[Call("PutConfigurationRecorder", into="ConfigurationRecorder")],
        id="Name",
        name="Name",
        names={"RoleARN": "roleARN"},
        read=Call(
            "DescribeConfigurationRecorders", {"ConfigurationRecorderNames": lambda v: [v.id]}
        ),
        update=[Call("PutConfigurationRecorder", {"name": "@id"}, into="ConfigurationRecorder")],
        delete=[Call("DeleteConfigurationRecorder", _RECORDER)],
    ),
    DeclaredType(
        "AWS::Config::DeliveryChannel",
        "config",
        create=[Call("PutDeliveryChannel", into="DeliveryChannel")],
        id="Name",
        name="Name",
        read=Call("DescribeDeliveryChannels", {"DeliveryChannelNames": lambda v: [v.id]}),
        update=[Call("PutDeliveryChannel", {"name": "@id"}, into="DeliveryChannel")],
        delete=[Call("DeleteDeliveryChannel", {"DeliveryChannelName": "@id"})],
    ),
]
