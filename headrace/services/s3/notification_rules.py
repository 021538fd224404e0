"""A bucket's notification configuration: checks it as AWS does, and finds the targets of an event. Pure functions.

Sources (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html and
notification-how-to-event-types-and-destinations.html. The members of errors are observed in AWS's recorded answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.aws.calls.errors import AwsError, malformed_xml
from headrace.services.s3.errors import invalid_argument

NAME = "BucketNotificationConfiguration"
EVENT_BRIDGE = "EventBridgeConfiguration"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of target: the member with its ARN, its service, and its name in error messages."""

    arn_member: str
    service: str
    argument: str


KINDS = {
    "TopicConfigurations": Kind("TopicArn", "sns", "Topic"),
    "QueueConfigurations": Kind("QueueArn", "sqs", "Queue"),
    "LambdaFunctionConfigurations": Kind("LambdaFunctionArn", "lambda", "CloudFunction"),
}
_FAMILIES = {
    "ObjectCreated": ("Put", "Post", "Copy", "CompleteMultipartUpload"),
    "ObjectRemoved": ("Delete", "DeleteMarkerCreated"),
    "ObjectRestore": ("Post", "Completed", "Delete"),
    "Replication": (
        "OperationFailedReplication",
        "OperationMissedThreshold",
        "OperationNotTracked",
        "OperationReplicatedAfterThreshold",
    ),
    "LifecycleExpiration": ("Delete", "DeleteMarkerCreated"),
    "ObjectTagging": ("Put", "Delete"),
}
EVENTS = frozenset(
    {
        "s3:ReducedRedundancyLostObject",
        "s3:IntelligentTiering",
        "s3:LifecycleTransition",
        "s3:ObjectAcl:Put",
        *(f"s3:{family}:*" for family in _FAMILIES),
        *(f"s3:{family}:{name}" for family, names in _FAMILIES.items() for name in names),
    }
)


def check(configuration: Mapping[str, Any]) -> None:
    """Check a notification configuration as AWS does, except for its targets. Raises AwsError."""
    for member, kind in KINDS.items():
        for one in configuration.get(member) or ():
            arn = str(one.get(kind.arn_member, ""))
            if arn.split(":")[:1] + arn.split(":")[2:3] != ["arn", kind.service]:
                raise invalid_argument("The ARN could not be parsed", kind.argument, arn)
            for event in one.get("Events") or ():
                if event not in EVENTS:
                    # Assumed: users of Terraform and the CDK report this message.
                    sentence = "A specified event is not supported for notifications."
                    raise invalid_argument(sentence, "Event", event)
            _check_filter(one)
    _check_overlaps(configuration)


def _check_filter(one: Mapping[str, Any]) -> None:
    rules = _list_rules(one)
    if any(rule.get("Name") is None or rule.get("Value") is None for rule in rules):
        raise malformed_xml()
    for rule in rules:
        if rule["Name"].lower() not in ("prefix", "suffix"):
            raise invalid_argument(
                "filter rule name must be either prefix or suffix", "FilterRule.Name", rule["Name"]
            )
        rule["Name"] = rule["Name"].capitalize()
    names = [rule["Name"] for rule in rules]
    for name in ("Prefix", "Suffix"):
        if names.count(name) > 1:
            raise invalid_argument(
                f"Cannot specify more than one {name.lower()} rule in a filter.", "FilterRule", name
            )


def _check_overlaps(configuration: Mapping[str, Any]) -> None:
    """Refuse two rules that one event could match. The error messages are assumed from users' reports."""
    every = [one for member in KINDS for one in configuration.get(member) or ()]
    for one, other in itertools.combinations(every, 2):
        if not any(
            _events_meet(mine, theirs) for mine in one["Events"] for theirs in other["Events"]
        ):
            continue
        mine, theirs = _filter(one), _filter(other)
        prefixes_meet = mine[0].startswith(theirs[0]) or theirs[0].startswith(mine[0])
        suffixes_meet = mine[1].endswith(theirs[1]) or theirs[1].endswith(mine[1])
        if prefixes_meet and suffixes_meet:
            if mine == theirs == ("", ""):
                raise _invalid(
                    "Configurations overlap. Configurations on the same bucket cannot share a common event type."
                )
            raise _invalid(
                "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the prefixes"
                " are overlapping for the same event type."
            )


def _invalid(sentence: str) -> AwsError:
    return AwsError("InvalidArgument", sentence)


def _events_meet(one: str, other: str) -> bool:
    if one == other:
        return True
    return any(
        wild.endswith("*") and exact.startswith(wild[:-1])
        for wild, exact in ((one, other), (other, one))
    )


def list_targets(
    configuration: Mapping[str, Any], name: str, key: str
) -> Iterator[tuple[str, str]]:
    """Yield the ARN and the configuration id of every target of an event, such as `ObjectCreated:Put`."""
    for member, kind in KINDS.items():
        for one in configuration.get(member) or ():
            is_asked = any(_events_meet(asked, f"s3:{name}") for asked in one.get("Events") or ())
            prefix, suffix = _filter(one)
            if is_asked and key.startswith(prefix) and key.endswith(suffix):
                yield str(one[kind.arn_member]), str(one["Id"])


def _filter(one: Mapping[str, Any]) -> tuple[str, str]:
    """Return the (prefix, suffix) of a rule's filter."""
    values = {rule.get("Name", "").lower(): rule.get("Value", "") for rule in _list_rules(one)}
    return values.get("prefix", ""), values.get("suffix", "")


def _list_rules(one: Mapping[str, Any]) -> list[dict[str, str]]:
    outer: dict[str, Any] = one.get("Filter") or {}
    key_filter: dict[str, Any] = outer.get("Key") or {}
    return key_filter.get("FilterRules") or []
