"""Types of notifications: SNS topics, subscriptions and policies; SES' settings (no mail leaves the machine)."""

from __future__ import annotations

import json
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn
from headrace.core.values import get_list
from headrace.moto.without_effect import rows_of
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    boolean,
    enforced,
    stored,
    tag_list,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import ReadCall, ReadingRules, last_of, same


@declare_sources("Template")
def _template(values: Values) -> dict[str, Any]:
    """Return the template with its name; a generated one, which the physical id needs again, when it has none."""
    template: dict[str, Any] = dict(values.get("Template") or {})
    name = template.get("TemplateName") or values.id or values.context.generate_name(64)
    values.properties["Template"] = {**template, "TemplateName": name}
    return values.properties["Template"]


@declare_sources("Name")
def _set(values: Values) -> dict[str, Any]:
    return {"Name": values.get("Name")}


def _is_address(values: Values) -> bool:
    return "@" in str(values.get("EmailIdentity"))


def _is_domain(values: Values) -> bool:
    return not _is_address(values)


def _is_known(values: Values) -> bool:
    identities = values.context.call("ses", "ListIdentities", {})["Identities"]
    return values.get("EmailIdentity") in identities


def _dkim(number: int, form: str) -> Source:
    """Return the source of a part of a domain's DKIM record; an address has none."""

    def find(values: Values) -> str | None:
        if "@" in values.id:
            return None
        answer = values.context.call("ses", "VerifyDomainDkim", {"Domain": values.id})
        return form.format(token=answer["DkimTokens"][number], identity=values.id)

    return find


GONE = ("NotFound", "NotFoundException")

# Attributes of a topic, with their defaults.
_OF_TOPICS = {
    "DisplayName": "",
    "KmsMasterKeyId": "",
    "ContentBasedDeduplication": "false",
    "SignatureVersion": "1",
    "TracingConfig": "PassThrough",
    "FifoThroughputScope": "Topic",
    "ArchivePolicy": "{}",  # SNS refuses it, by a sentence of its own
}
# Attributes of a subscription, with their defaults.
_OF_SUBSCRIPTIONS = {
    "FilterPolicyScope": "MessageAttributes",
    "FilterPolicy": "{}",
    "RawMessageDelivery": "false",
    "RedrivePolicy": "{}",
    "DeliveryPolicy": "{}",
    "SubscriptionRoleArn": "",
}


def _find_topic(context: Context, properties: Properties) -> str | None:
    name = properties.get("TopicName")
    arn = make_arn("sns", context.region, context.account, str(name))
    return context.find_identifier("sns", "GetTopicAttributes", {"TopicArn": arn}, name and arn)


_LOGGED_AS = {
    "http/s": "HTTP",
    "sqs": "SQS",
    "lambda": "Lambda",
    "firehose": "Firehose",
    "application": "Application",
}


def _feedback(properties: Properties) -> dict[str, str]:
    """Return the attributes of a topic's DeliveryStatusLogging."""
    logging: list[dict[str, Any]] = properties.get("DeliveryStatusLogging") or []
    return {
        f"{_LOGGED_AS.get(str(one['Protocol']), '')}{name}": str(value)
        for one in logging
        for name, value in one.items()
        if name != "Protocol"
    }


def _create_topic(context: Context, properties: Properties) -> ResourceResult:
    fifo = boolean(properties.get("FifoTopic"))
    name = properties.get("TopicName") or context.generate_name(250) + (".fifo" if fifo else "")
    attributes = {key: attribute_text(properties[key]) for key in _OF_TOPICS if key in properties}
    attributes |= _feedback(properties)
    if fifo:
        attributes["FifoTopic"] = "true"
    params = {"Name": name, "Attributes": attributes, "Tags": tag_list(properties, context)}
    arn = context.call("sns", "CreateTopic", params)["TopicArn"]
    _subscribe_all(context, arn, {}, properties)
    return ResourceResult(arn, {"TopicArn": arn, "TopicName": name})


def _update_topic(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    changed = {
        key: attribute_text(new.get(key, absent))
        for key, absent in _OF_TOPICS.items()
        if new.get(key) != old.get(key)
    }
    before, after = _feedback(old), _feedback(new)
    changed |= {
        key: after.get(key, "") for key in {*before, *after} if before.get(key) != after.get(key)
    }
    for key, value in changed.items():
        params = {"TopicArn": physical_id, "AttributeName": key, "AttributeValue": value}
        context.call("sns", "SetTopicAttributes", params)
    _subscribe_all(context, physical_id, old, new)
    name = physical_id.rsplit(":", 1)[-1]
    return ResourceResult(physical_id, {"TopicArn": physical_id, "TopicName": name})


def _subscribe_all(context: Context, arn: str, old: Properties, new: Properties) -> None:
    """Create a topic's own subscriptions; those that an update removes stay, as AWS documents."""
    before = [(one["Protocol"], one["Endpoint"]) for one in get_list(old, "Subscription")]
    for one in get_list(new, "Subscription"):
        if (one["Protocol"], one["Endpoint"]) not in before:
            params = {"Protocol": one["Protocol"], "Endpoint": one["Endpoint"]}
            context.call("sns", "Subscribe", {"TopicArn": arn, **params})


def _delete_topic(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("sns", "DeleteTopic", {"TopicArn": physical_id}, *GONE)


def _find_subscription(context: Context, properties: Properties) -> str | None:
    """Return an existing subscription with the same endpoint, which a second Subscribe would return."""
    params = {"TopicArn": properties["TopicArn"]}
    while True:
        page = context.call("sns", "ListSubscriptionsByTopic", params)
        for subscription in page["Subscriptions"]:
            if (subscription["Protocol"], subscription["Endpoint"]) == (
                properties["Protocol"],
                properties.get("Endpoint", ""),
            ):
                if subscription["SubscriptionArn"] == "PendingConfirmation":
                    # To subscribe again tells its ARN, and sends the confirmation again.
                    return _subscribe(context, properties).physical_id
                return str(subscription["SubscriptionArn"])
        if not page.get("NextToken"):
            return None
        params = {"TopicArn": properties["TopicArn"], "NextToken": page["NextToken"]}


def _subscribe(context: Context, properties: Properties) -> ResourceResult:
    arn = context.call(
        "sns",
        "Subscribe",
        {
            "TopicArn": properties["TopicArn"],
            "Protocol": properties["Protocol"],
            "Endpoint": properties.get("Endpoint", ""),
            "Attributes": {
                name: attribute_text(properties[name])
                for name in _OF_SUBSCRIPTIONS
                if name in properties
            },
            "ReturnSubscriptionArn": True,
        },
    )["SubscriptionArn"]
    return ResourceResult(arn, {"Arn": arn})


def _update_subscription(
    context: Context, physical_id: str, old: Properties, new: Properties
) -> ResourceResult:
    # FilterPolicyScope first: it decides how FilterPolicy is read.
    for name, without in _OF_SUBSCRIPTIONS.items():
        if new.get(name) != old.get(name):
            value = attribute_text(new[name]) if name in new else without
            params = {"SubscriptionArn": physical_id, "AttributeName": name}
            context.call("sns", "SetSubscriptionAttributes", {**params, "AttributeValue": value})
    return ResourceResult(physical_id, {"Arn": physical_id})


def _unsubscribe(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("sns", "Unsubscribe", {"SubscriptionArn": physical_id}, *GONE)


def _default_policy(context: Context, arn: str) -> Properties:
    """Return the default policy of a topic (recorded)."""
    names = (
        "GetTopicAttributes SetTopicAttributes AddPermission RemovePermission DeleteTopic Subscribe"
    )
    return {
        "Version": "2008-10-17",
        "Id": "__default_policy_ID",
        "Statement": [
            {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": [
                    f"SNS:{name}"
                    for name in (*names.split(), "ListSubscriptionsByTopic", "Publish")
                ],
                "Resource": arn,
                "Condition": {"StringEquals": {"AWS:SourceOwner": context.account}},
            }
        ],
    }


def _is_ours(values: Values) -> bool:
    """Whether a topic still has this resource's policy."""
    params = {"TopicArn": values.item}
    try:
        attributes = values.context.call("sns", "GetTopicAttributes", params)["Attributes"]
    except AwsError as error:
        if error.code in GONE:
            return False
        raise
    return json.loads(attributes.get("Policy") or "{}") == values.get("PolicyDocument")


def _has_policy(values: Values) -> bool:
    """Whether a topic has a policy of its own already: AWS refuses to replace it (documented).

    Source: the create handler of AWS's own resource provider.
    """
    context, arn = values.context, str(values.get("TopicArn"))
    try:
        attributes = context.call("sns", "GetTopicAttributes", {"TopicArn": arn})["Attributes"]
    except AwsError as error:
        if error.status >= 500:
            raise
        return False
    policy = json.loads(attributes.get("Policy") or "{}")
    return bool(policy) and policy.get("Id") != _default_policy(context, arn)["Id"]


TYPES = [
    ResourceType(
        "AWS::SNS::Topic",
        {
            **enforced(
                "TopicName",
                "DisplayName",
                "FifoTopic",
                "ContentBasedDeduplication",
                "SignatureVersion",
                "Subscription",
                "DeliveryStatusLogging",
                "ArchivePolicy",
                "Tags",
            ),
            **stored("KmsMasterKeyId", "TracingConfig", "FifoThroughputScope"),
        },
        _create_topic,
        _delete_topic,
        update=_update_topic,
        replace_on=frozenset({"TopicName", "FifoTopic"}),
        named_by=("TopicName",),
        find=_find_topic,
    ),
    ResourceType(
        "AWS::SNS::Subscription",
        {
            **enforced("TopicArn", "Protocol", "Endpoint", *_OF_SUBSCRIPTIONS),
            **stored("DeliveryPolicy", "SubscriptionRoleArn"),
        },
        _subscribe,
        _unsubscribe,
        update=_update_subscription,
        replace_on=frozenset({"TopicArn", "Protocol", "Endpoint"}),
        find=_find_subscription,
        remark=lambda properties: {
            row.member: row.sentence
            for row in rows_of("sns", "Subscribe")
            if row.concerns(properties.get(row.member))
        },
    ),
]


_POLICY: dict[str, Source] = {
    "AttributeName": lambda _: "Policy",
    "AttributeValue": "PolicyDocument",
}
_PUT_POLICY = Call("SetTopicAttributes", _POLICY)
_PUT_POLICIES = Call(
    "SetTopicAttributes", {**_POLICY, "TopicArn": "@item"}, each="Topics", always=True
)

DECLARED = [
    DeclaredType(
        "AWS::SES::EmailIdentity",
        "ses",
        create=[
            Call("VerifyEmailIdentity", {"EmailAddress": "EmailIdentity"}, only_if=_is_address),
            Call("VerifyDomainIdentity", {"Domain": "EmailIdentity"}, only_if=_is_domain),
        ],
        id="EmailIdentity",
        name="EmailIdentity",
        exists=_is_known,
        delete=[Call("DeleteIdentity", {"Identity": "@id"})],
        attributes={
            f"DkimDNSToken{part}{number}": _dkim(number - 1, form)
            for part, form in (
                ("Name", "{token}._domainkey.{identity}"),
                ("Value", "{token}.dkim.amazonses.com"),
            )
            for number in (1, 2, 3)
        },
    ),
    DeclaredType(
        "AWS::SES::Template",
        "ses",
        create=[Call("CreateTemplate", {"Template": _template}, only=())],
        id="Template.TemplateName",
        read=Call("GetTemplate", {"TemplateName": "@id"}),
        update=[Call("UpdateTemplate", {"Template": _template}, only=())],
        delete=[Call("DeleteTemplate", {"TemplateName": "@id"})],
        attributes={"Id": "@id"},
    ),
    DeclaredType(
        "AWS::SES::ConfigurationSet",
        "ses",
        create=[Call("CreateConfigurationSet", {"ConfigurationSet": _set}, only=())],
        id="Name",
        name="Name",
        read=Call("DescribeConfigurationSet", {"ConfigurationSetName": "@id"}),
        delete=[Call("DeleteConfigurationSet", {"ConfigurationSetName": "@id"})],
    ),
    DeclaredType(
        "AWS::SES::ReceiptRuleSet",
        "ses",
        create=[Call("CreateReceiptRuleSet")],
        id="RuleSetName",
        delete=[Call("DeleteReceiptRuleSet", {"RuleSetName": "@id"})],
        name="RuleSetName",
    ),
    DeclaredType(
        "AWS::SES::ContactList",
        "sesv2",
        create=[Call("CreateContactList")],
        id="ContactListName",
        read=Call("GetContactList", {"ContactListName": "@id"}),
        delete=[Call("DeleteContactList", {"ContactListName": "@id"})],
        name="ContactListName",
    ),
    DeclaredType(
        "AWS::SNS::TopicInlinePolicy",
        "sns",
        create=[_PUT_POLICY],
        id="TopicArn",
        exists=_has_policy,
        update=[_PUT_POLICY],
        delete=[
            Call(
                "SetTopicAttributes",
                {
                    "TopicArn": "@id",
                    "AttributeName": lambda _: "Policy",
                    "AttributeValue": lambda v: _default_policy(v.context, v.id),
                },
            )
        ],
        name="TopicArn",
        enforced=frozenset({"TopicArn"}),
    ),
    DeclaredType(
        "AWS::SNS::TopicPolicy",
        "sns",
        create=[_PUT_POLICIES],
        id=lambda v: v.context.generate_name(100),
        update=[_PUT_POLICIES],
        # A topic that an update leaves out keeps the policy.
        delete=[
            Call(
                "SetTopicAttributes",
                {
                    **_POLICY,
                    "TopicArn": "@item",
                    "AttributeValue": lambda v: _default_policy(v.context, v.item),
                },
                each=lambda v: v.get("Topics"),
                only_if=_is_ours,
            )
        ],
        enforced=frozenset({"Topics"}),
        shared=("Topics",),
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::SNS::Topic",
        "sns",
        (
            ReadCall(
                "GetTopicAttributes",
                {"TopicArn": "@id"},
                "Attributes",
                same(
                    "ContentBasedDeduplication DisplayName KmsMasterKeyId SignatureVersion TracingConfig",
                    FifoTopic=lambda topic: topic.get("FifoTopic", "false"),
                    TopicName=last_of("TopicArn"),
                ),
            ),
        ),
        {"TopicArn": "TopicArn", "TopicName": last_of("TopicArn")},
    ),
    ReadingRules(
        "AWS::SNS::Subscription",
        "sns",
        (
            ReadCall(
                "GetSubscriptionAttributes",
                {"SubscriptionArn": "@id"},
                "Attributes",
                same("Endpoint FilterPolicy Protocol RawMessageDelivery TopicArn"),
            ),
        ),
        {"Arn": "SubscriptionArn"},
    ),
    ReadingRules(
        "AWS::SNS::TopicInlinePolicy",
        "sns",
        (
            ReadCall(
                "GetTopicAttributes",
                {"TopicArn": "@id"},
                "Attributes",
                same("TopicArn", PolicyDocument="Policy"),
            ),
        ),
    ),
)
