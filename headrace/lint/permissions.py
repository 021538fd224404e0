"""Works out what a template's role allows: by its own policies, policies that name it, and AWS's managed policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from headrace.core.patterns import glob_matches
from headrace.core.values import as_mapping
from headrace.lint.template import NOT_SET, UNKNOWN, Resource, Template, as_list

_LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
# The streaming part of AWS's managed policies (documented: docs.aws.amazon.com/aws-managed-policy/latest/reference).
_MANAGED: dict[str, tuple[str, ...]] = {
    "AWSLambdaBasicExecutionRole": _LOGS,
    "AWSLambdaVPCAccessExecutionRole": _LOGS,
    "AWSXRayDaemonWriteAccess": (),
    "AWSXrayWriteOnlyAccess": (),
    "AWSLambdaKinesisExecutionRole": (
        "kinesis:DescribeStream",
        "kinesis:DescribeStreamSummary",
        "kinesis:GetRecords",
        "kinesis:GetShardIterator",
        "kinesis:ListShards",
        "kinesis:ListStreams",
        "kinesis:SubscribeToShard",
        *_LOGS,
    ),
    "AWSLambdaDynamoDBExecutionRole": (
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
        *_LOGS,
    ),
    "AWSLambdaSQSQueueExecutionRole": (
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        *_LOGS,
    ),
    "AmazonKinesisFullAccess": ("kinesis:*",),
    "AmazonKinesisReadOnlyAccess": ("kinesis:Get*", "kinesis:List*", "kinesis:Describe*"),
    "AmazonKinesisFirehoseFullAccess": ("firehose:*",),
    "AmazonSQSFullAccess": ("sqs:*",),
    "AmazonS3FullAccess": ("s3:*",),
    "AmazonDynamoDBFullAccess": ("dynamodb:*",),
    "AdministratorAccess": ("*",),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """An Allow statement of a policy.

    Attributes:
        owner: the resource that contains it.
        members: its path in that resource.
        actions: the actions as written, with wildcards.
        resources: the resources as written, each a string or an intrinsic function.
    """

    owner: Resource
    members: tuple[str | int, ...]
    actions: tuple[str, ...]
    resources: tuple[Any, ...]

    def allows(self, action: str) -> bool:
        """Return whether one of the actions matches; case does not matter, as in IAM."""
        return any(_matches(pattern, action) for pattern in self.actions)

    def covers(self, resource: Resource) -> bool:
        """Return whether it may cover `resource`; a value known only at deployment may."""
        for one in self.resources:
            named = self.owner.template.list_named_in(one)
            if any(statement_role.key == resource.key for statement_role in named):
                return True
            if not named and _may_name(one, resource):
                return True
        return False


@dataclass(slots=True)
class Permissions:
    """A role's permissions; `is_whole` is false when the templates do not show all of them."""

    statements: list[Statement]
    is_whole: bool = True

    def lacks(self, actions: tuple[str, ...], resource: Resource) -> list[str]:
        """Return the actions on `resource` that nothing allows; none when the templates do not show the whole role."""
        if not self.is_whole:
            return []
        return [
            action
            for action in actions
            if not any(one.allows(action) and one.covers(resource) for one in self.statements)
        ]


def permissions_of(role: Resource) -> Permissions:
    """Return the permissions of a role of these templates."""
    permissions = Permissions([])
    for number, policy in enumerate(as_list(role.get("Policies"))):
        document: Any = as_mapping(policy).get("PolicyDocument", UNKNOWN)
        _add(permissions, role, ("Policies", number, "PolicyDocument"), document)
    for template in role.template.around():
        for policy in template.of_type(
            "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"
        ):
            member = "RoleName" if policy.type == "AWS::IAM::RolePolicy" else "Roles"
            if any(one.key == role.key for one in policy.targets(member)):
                _add(permissions, policy, ("PolicyDocument",), policy.get("PolicyDocument"))
    for arn in as_list(role.get("ManagedPolicyArns")):
        _add_managed(permissions, role, arn)
    if UNKNOWN in (role.get("Policies"), role.get("ManagedPolicyArns")):
        permissions.is_whole = False
    return permissions


def role_of(resource: Resource, *members: str) -> Resource | None:
    """Return the role that a property names, if these templates contain it."""
    roles = [one for one in resource.targets(*members) if one.type == "AWS::IAM::Role"]
    return roles[0] if len(roles) == 1 else None


def _add(
    permissions: Permissions, owner: Resource, members: tuple[str | int, ...], document: Any
) -> None:
    if not _is_map(document) or "Statement" not in document:
        permissions.is_whole = False
        return
    for number, statement in enumerate(as_list(document["Statement"])):
        one = as_mapping(statement)
        if one.get("Effect") == "Deny":
            continue
        actions, resources = one.get("Action", NOT_SET), one.get("Resource", NOT_SET)
        texts = [str(text) for text in as_list(actions) if isinstance(text, str)]
        if not texts or len(texts) != len(as_list(actions)) or resources is NOT_SET:
            # NotAction, NotResource, or a function in place of an action.
            permissions.is_whole = False
            continue
        path = (*members, "Statement", number)
        permissions.statements.append(
            Statement(owner, path, tuple(texts), tuple(as_list(resources)))
        )


def _add_managed(permissions: Permissions, role: Resource, arn: Any) -> None:
    policies = [
        one for one in role.template.list_named_in(arn) if one.type == "AWS::IAM::ManagedPolicy"
    ]
    if policies:
        for policy in policies:
            _add(permissions, policy, ("PolicyDocument",), policy.get("PolicyDocument"))
        return
    names = [text.rsplit("/", 1)[-1] for text in _texts(arn)]
    known = [name for name in names if name in _MANAGED]
    if not known:
        permissions.is_whole = False
        return
    if _MANAGED[known[-1]]:
        path = ("ManagedPolicyArns",)
        permissions.statements.append(Statement(role, path, _MANAGED[known[-1]], ("*",)))


def _matches(pattern: str, action: str) -> bool:
    return glob_matches(pattern.lower(), action.lower())


def _may_name(value: Any, resource: Resource) -> bool:
    """Return whether a value that names nothing in these templates may still mean `resource`."""
    if not isinstance(value, str) or "*" in value:
        return True
    # A literal may equal a name that a parameter or a function gives the resource.
    own_name = resource.own_name()
    return own_name is not NOT_SET and not isinstance(own_name, str)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _texts(one)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def functions_of(role: Resource, template: Template) -> list[Resource]:
    """Return the functions that run with `role`."""
    return [
        one
        for other in template.around()
        for one in other.of_type("AWS::Lambda::Function")
        if (permission_role := role_of(one, "Role")) is not None and permission_role.key == role.key
    ]
