"""A bucket's notification configuration: checks it as AWS does, and finds the targets of an event. Pure functions.

Sources (documented): docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html and
notification-how-to-event-types-and-destinations.html. The members of errors are observed in AWS's recorded answers.

Sends a bucket's events to their targets: queues, topics, functions and event buses.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.aws.calls.errors import AwsError, build_malformed_xml
from headrace.core.arn import Arn, InvalidArn
from headrace.core.ports import BusEvent, ControlPlane
from headrace.services.s3.errors import invalid_argument

# Observed in AWS's recorded answers.
SUBJECT = "Amazon S3 Notification"

_LOOK_UP: dict[str, tuple[str, Callable[[Arn], dict[str, str]]]] = {
    "sqs": ("GetQueueUrl", lambda arn: {"QueueName": arn.name}),
    "sns": ("GetTopicAttributes", lambda arn: {"TopicArn": str(arn)}),
    "lambda": ("GetFunctionConfiguration", lambda arn: {"FunctionName": str(arn)}),
}


class Targets(Protocol):
    """Sends events to targets. Thread-safe."""

    def exists(self, arn: str) -> bool:
        """Whether the queue, topic or function exists."""
        ...

    def send(self, arn: str, document: str) -> None:
        """Send a document to a queue, a topic or a function. Raises LookupError when the target does not exist."""
        ...

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """Put an event on the account's default bus."""
        ...


class NoTargets:
    """Implements `Targets` without other services: it accepts all events and drops them."""

    def exists(self, arn: str) -> bool:
        """See `Targets.exists`."""
        return True

    def send(self, arn: str, document: str) -> None:
        """See `Targets.send`."""

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """See `Targets.put_event`."""


class ServiceTargets:
    """Implements `Targets` with the other services.

    Args:
        control: calls SQS, SNS, Lambda and EventBridge.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control

    def exists(self, arn: str) -> bool:
        """See `Targets.exists`."""
        try:
            parsed = Arn.parse(arn)
            operation, params = _LOOK_UP[parsed.service]
            where: dict[str, Any] = {"account": parsed.account, "region": parsed.region}
            self._control.call(parsed.service, operation, params(parsed), **where)
        except (AwsError, InvalidArn, KeyError):
            return False
        return True

    def send(self, arn: str, document: str) -> None:
        """See `Targets.send`."""
        parsed = Arn.parse(arn)
        where: dict[str, Any] = {"account": parsed.account, "region": parsed.region}
        try:
            if parsed.service == "lambda":
                event = {"FunctionName": arn, "InvocationType": "Event"}
                payload = document.encode()
                self._control.call("lambda", "Invoke", {**event, "Payload": payload}, **where)
                return
            if parsed.service == "sns":
                message = {"TopicArn": arn, "Message": document, "Subject": SUBJECT}
                self._control.call("sns", "Publish", message, **where)
                return
            url = self._control.call("sqs", "GetQueueUrl", {"QueueName": parsed.name}, **where)
            sent = {"QueueUrl": url["QueueUrl"], "MessageBody": document}
            self._control.call("sqs", "SendMessage", sent, **where)
        except AwsError as error:
            if "NotFound" in error.code or "NonExistentQueue" in error.code:
                raise LookupError(arn) from error
            if "QueueDoesNotExist" in error.code:
                raise LookupError(arn) from error
            raise

    def put_event(self, account: str, region: str, event: BusEvent) -> None:
        """See `Targets.put_event`."""
        entry = {
            "Source": event.source,
            "DetailType": event.detail_type,
            "Detail": event.detail,
            "Resources": list(event.resources),
        }
        self._control.call(
            "events", "PutEvents", {"Entries": [entry]}, account=account, region=region
        )


def build_bus_event(bucket_arn: str, detail_type: str, detail: dict[str, Any]) -> BusEvent:
    """Return an event of a bucket in EventBridge's form."""
    return BusEvent("aws.s3", detail_type, json.dumps(detail), (bucket_arn,))


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
        raise build_malformed_xml()
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
