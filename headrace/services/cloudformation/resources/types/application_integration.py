"""Types of Step Functions (state machines, versions, aliases, activities) and SQS (queues and their policies)."""

from __future__ import annotations

import json
import re
from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.core.arn import make_arn, partition_of
from headrace.services.cloudformation.errors import ResourceFailed
from headrace.services.cloudformation.resources.base import (
    Context,
    Properties,
    ResourceResult,
    ResourceType,
    attribute_text,
    boolean,
    enforced,
    stored,
    tag_map,
)
from headrace.services.cloudformation.resources.declaration import (
    Call,
    DeclaredType,
    Source,
    Values,
    declare_sources,
)
from headrace.services.cloudformation.resources.reading import (
    ReadCall,
    ReadingRules,
    as_wanted,
    last_of,
    same,
)

GONE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
_ATTRIBUTES = (
    "ContentBasedDeduplication",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoQueue",
    "FifoThroughputLimit",
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
)

# Defaults of a queue's attributes (documented: API_CreateQueue).
_DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "RedriveAllowPolicy": "",
    "RedrivePolicy": "",
    "VisibilityTimeout": "30",
}


def _attributes(properties: Properties) -> dict[str, str]:
    return {name: attribute_text(properties[name]) for name in _ATTRIBUTES if name in properties}


def _find(context: Context, properties: Properties) -> str | None:
    """Return an existing queue with this name: "creating" a queue again with the same attributes succeeds."""
    name = properties.get("QueueName")
    if not name:
        return None
    try:
        return str(context.call("sqs", "GetQueueUrl", {"QueueName": name})["QueueUrl"])
    except AwsError as error:
        if error.status < 500:
            return None
        raise


def _create(context: Context, properties: Properties) -> ResourceResult:
    attributes = _attributes(properties)
    name = properties.get("QueueName")
    if not name:
        fifo = boolean(properties.get("FifoQueue"))
        name = context.generate_name(75) + (".fifo" if fifo else "")
    params = {"QueueName": name, "Attributes": attributes, "tags": tag_map(properties, context)}
    url = context.call("sqs", "CreateQueue", params)["QueueUrl"]
    context.note_made(url)
    return _build_result(context, url)


def _build_result(context: Context, url: str) -> ResourceResult:
    answer = context.call(
        "sqs", "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
    )
    attributes = {
        "Arn": answer["Attributes"]["QueueArn"],
        "QueueName": url.rsplit("/", 1)[-1],
        "QueueUrl": url,
    }
    return ResourceResult(url, attributes)


def _update(context: Context, physical_id: str, old: Properties, new: Properties) -> ResourceResult:
    # An attribute that the template no longer has gets its default.
    gone = {name: default for name, default in _DEFAULTS.items() if name in old and name not in new}
    if attributes := {**gone, **_attributes(new)}:
        params = {"QueueUrl": physical_id, "Attributes": attributes}
        context.call("sqs", "SetQueueAttributes", params)
    return _build_result(context, physical_id)


def _delete(context: Context, physical_id: str, properties: Properties) -> None:
    context.delete_if_exists("sqs", "DeleteQueue", {"QueueUrl": physical_id}, *GONE)


TYPES = [
    ResourceType(
        "AWS::SQS::Queue",
        {
            **enforced("QueueName", "Tags", *_ATTRIBUTES),
            **stored("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"),
        },
        _create,
        _delete,
        update=_update,
        replace_on=frozenset({"QueueName", "FifoQueue"}),
        named_by=("QueueName",),
        find=_find,
    ),
]


# How they are read back; see `reading.py`.
READINGS = (
    ReadingRules(
        "AWS::SQS::Queue",
        "sqs",
        (
            ReadCall(
                "GetQueueAttributes",
                {"QueueUrl": "@id", "AttributeNames": ["All"]},
                "Attributes",
                same(
                    "ContentBasedDeduplication DeduplicationScope DelaySeconds "
                    "FifoQueue FifoThroughputLimit KmsDataKeyReusePeriodSeconds "
                    "KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod "
                    "ReceiveMessageWaitTimeSeconds RedriveAllowPolicy "
                    "RedrivePolicy SqsManagedSseEnabled VisibilityTimeout",
                    QueueName=last_of("QueueArn"),
                ),
            ),
        ),
        {"Arn": "QueueArn", "QueueName": last_of("QueueArn")},
    ),
    ReadingRules(
        "AWS::SQS::QueueInlinePolicy",
        "sqs",
        (
            ReadCall(
                "GetQueueAttributes",
                {"QueueUrl": "@id", "AttributeNames": ["Policy"]},
                "Attributes",
                {"PolicyDocument": "Policy"},
            ),
        ),
    ),
)


def _is_activity(values: Values) -> bool:
    """Whether an activity with this name exists: CreateActivity succeeds for an existing one."""
    name = values.get("Name")
    scope = values.context.region, values.context.account
    arn = make_arn("states", *scope, f"activity:{name}")
    try:
        values.context.call("stepfunctions", "DescribeActivity", {"activityArn": arn})
    except AwsError as error:
        if error.status >= 500:
            raise
        return False
    return True


@declare_sources(
    "Definition", "DefinitionString", "DefinitionS3Location", "DefinitionSubstitutions"
)
def _definition(values: Values) -> str | None:
    """Return the definition from any of its properties, with its substitutions."""
    text = values.get("DefinitionString")
    if values.get("Definition") is not None:
        text = json.dumps(values.get("Definition"))
    location = values.get("DefinitionS3Location")
    if location is not None:
        params = {"Bucket": location["Bucket"], "Key": location["Key"]}
        body: Any = values.context.call("s3", "GetObject", params)["Body"]
        text = (body if isinstance(body, bytes) else body.read()).decode()
    if text is None:
        raise ResourceFailed(
            "One of Definition, DefinitionString and DefinitionS3Location must be given"
        )
    return _substitute(values, str(text))


def _substitute(values: Values, text: str) -> str:
    substitutions: dict[str, Any] = values.get("DefinitionSubstitutions") or {}
    return re.sub(r"\$\{([^}]+)\}", lambda m: attribute_text(substitutions.get(m[1], m[0])), text)


def _live_definition(values: Values) -> Any:
    """Return the definition as the template has it, where only its substitutions and its layout differ."""
    text, live = str(values.get("DefinitionString")), values.answer.get("definition")
    deployed = _substitute(values, text)
    return text if as_wanted(deployed, live) == deployed else live


def _has_machine(values: Values) -> bool:
    """Whether a state machine with this name exists: an identical CreateStateMachine succeeds again."""
    name = values.get("StateMachineName")
    where = f"{values.context.region}:{values.context.account}"
    arn = f"arn:{partition_of(where)}:states:{where}:stateMachine:{name}"
    context = values.context
    return bool(
        name
        and context.find_identifier(
            "stepfunctions", "DescribeStateMachine", {"stateMachineArn": arn}, arn
        )
    )


def _has_alias(values: Values) -> bool:
    """Whether the state machine has an alias with this name: an identical CreateStateMachineAlias succeeds again."""
    routes = _routes(values)
    name = values.get("Name")
    if not (routes and name):
        return False
    machine_arn = str(routes[0]["stateMachineVersionArn"]).rpartition(":")[0]
    params = {"stateMachineAliasArn": f"{machine_arn}:{name}"}
    alias = values.context.find_identifier(
        "stepfunctions", "DescribeStateMachineAlias", params, params["stateMachineAliasArn"]
    )
    return bool(alias)


@declare_sources("RoutingConfiguration", "DeploymentPreference")
def _routes(values: Values) -> list[dict[str, Any]] | None:
    """Return an alias's routes; a deployment preference routes all to its version at once.

    AWS moves traffic there step by step, and back on alarms.
    """
    preference = values.get("DeploymentPreference")
    if preference:
        return [{"stateMachineVersionArn": preference["StateMachineVersionArn"], "weight": 100}]
    routes: list[dict[str, Any]] | None = values.get("RoutingConfiguration")
    return routes and [
        {
            "stateMachineVersionArn": route["StateMachineVersionArn"],
            "weight": int(route.get("Weight", 100)),
        }
        for route in routes
    ]


@declare_sources("StateMachineRevisionId")
def _revision(values: Values) -> str | None:
    """Return the revision to publish; the first has no id that PublishStateMachineVersion takes."""
    revision = values.get("StateMachineRevisionId")
    return None if revision == "INITIAL" else revision


_ARN = {"stateMachineArn": "@id"}


def _has_policy(values: Values) -> bool:
    """Whether a queue has a policy already: the creation would replace it, and AWS refuses that (documented).

    Source: the create handler of AWS's own resource provider for topics; that queues are alike is assumed.
    """
    params = {"QueueUrl": values.get("Queue"), "AttributeNames": ["Policy"]}
    named = values.context.find_identifier("sqs", "GetQueueAttributes", params, "any", "Attributes")
    return named is not None


@declare_sources("PolicyDocument")
def _policy(values: Values) -> dict[str, str]:
    return {"Policy": json.dumps(values.get("PolicyDocument"))}


def _is_ours(values: Values) -> bool:
    """Whether the queue still has this resource's policy: one that another resource has set meanwhile is kept."""
    params = {"QueueUrl": values.item, "AttributeNames": ["Policy"]}
    try:
        answer = values.context.call("sqs", "GetQueueAttributes", params)
    except AwsError as error:
        if error.code in GONE:
            return False
        raise
    text = answer.get("Attributes", {}).get("Policy")
    return bool(text) and json.loads(text) == (values.old or values.properties)["PolicyDocument"]


_PUT_POLICY = Call("SetQueueAttributes", {"QueueUrl": "Queue", "Attributes": _policy})
_PUT_POLICIES = Call(
    "SetQueueAttributes", {"QueueUrl": "@item", "Attributes": _policy}, each="Queues", always=True
)
_NO_POLICY: dict[str, Source] = {"Attributes": lambda _: {"Policy": ""}}

DECLARED = [
    DeclaredType(
        "AWS::SQS::QueueInlinePolicy",
        "sqs",
        create=[_PUT_POLICY],
        id="Queue",
        exists=_has_policy,
        update=[_PUT_POLICY],
        delete=[
            Call("SetQueueAttributes", {**_NO_POLICY, "QueueUrl": "@id"}),
        ],
        name="Queue",
        enforced=frozenset({"Queue"}),
    ),
    DeclaredType(
        "AWS::SQS::QueuePolicy",
        "sqs",
        create=[_PUT_POLICIES],
        id=lambda v: v.context.generate_name(100),
        update=[_PUT_POLICIES],
        delete=[
            Call(
                "SetQueueAttributes",
                {**_NO_POLICY, "QueueUrl": "@item"},
                each="Queues",
                only_if=_is_ours,
            )
        ],
        enforced=frozenset({"Queues"}),
        shared=("Queues",),
    ),
    DeclaredType(
        "AWS::StepFunctions::StateMachine",
        "stepfunctions",
        create=[Call("CreateStateMachine", {"definition": _definition})],
        id="@answer.stateMachineArn",
        read=Call("DescribeStateMachine", _ARN),
        read_as={"DefinitionString": _live_definition},
        update=[Call("UpdateStateMachine", {**_ARN, "definition": _definition})],
        delete=[Call("DeleteStateMachine", _ARN)],
        name="StateMachineName",
        name_length=80,
        names={"StateMachineName": "name", "StateMachineType": "type"},
        exists=_has_machine,
        tag=("TagResource", "UntagResource", "resourceArn", "@id"),
    ),
    DeclaredType(
        "AWS::StepFunctions::StateMachineVersion",
        "stepfunctions",
        create=[
            Call(
                "PublishStateMachineVersion",
                {"stateMachineArn": "StateMachineArn", "revisionId": _revision},
            )
        ],
        id="@answer.stateMachineVersionArn",
        read=Call("DescribeStateMachine", _ARN),
        delete=[Call("DeleteStateMachineVersion", {"stateMachineVersionArn": "@id"})],
        attributes={"Arn": "@id"},
        # For a version, the answer has the version's own ARN.
        unread=frozenset({"StateMachineArn"}),
    ),
    DeclaredType(
        "AWS::StepFunctions::StateMachineAlias",
        "stepfunctions",
        create=[Call("CreateStateMachineAlias", {"routingConfiguration": _routes})],
        id="@answer.stateMachineAliasArn",
        read=Call("DescribeStateMachineAlias", {"stateMachineAliasArn": "@id"}),
        update=[
            Call(
                "UpdateStateMachineAlias",
                {"stateMachineAliasArn": "@id", "routingConfiguration": _routes},
                only=("Description",),
            )
        ],
        delete=[Call("DeleteStateMachineAlias", {"stateMachineAliasArn": "@id"})],
        name="Name",
        name_length=80,
        unique=False,
        exists=_has_alias,
        attributes={"Arn": "@id"},
    ),
    DeclaredType(
        "AWS::StepFunctions::Activity",
        "stepfunctions",
        create=[Call("CreateActivity")],
        id="@answer.activityArn",
        read=Call("DescribeActivity", {"activityArn": "@id"}),
        delete=[Call("DeleteActivity", {"activityArn": "@id"})],
        name="Name",
        name_length=80,
        exists=_is_activity,
        tag=("TagResource", "UntagResource", "resourceArn", "@id"),
    ),
]
