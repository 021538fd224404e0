"""The examples of AWS's IAM documentation: each page's policy, and what it says that it allows and denies.

Pages are those of docs.aws.amazon.com/IAM/latest/UserGuide unless another is named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import Access, Context, NamedPolicy, Policies, Principal
from tests.unit.permissions.parties import (
    ACCOUNT,
    JOHN,
    MAPPER,
    OTHER,
    PUT,
    STREAM,
    allow,
    deny,
    policy,
)

BUCKET = "arn:aws:s3:::amzn-s3-demo-bucket"
TABLE = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/GameScores"
TAGGED_JOHN = replace(JOHN, tags={"access-project": "peg", "access-team": "eng"})
GUEST = Principal(
    "federated",
    f"arn:aws:sts::{ACCOUNT}:federated-user/guest",
    account=ACCOUNT,
    identity_arn=JOHN.arn,
    user_id=f"{ACCOUNT}:guest",
    name="John",
)


def condition(operator: str, key: str, *values: str) -> dict[str, Any]:
    return {operator: {key: list(values) if len(values) > 1 else values[0]}}


DATES = policy(
    allow("service-prefix:action-name", Condition={
        "DateGreaterThan": {"aws:CurrentTime": "2020-04-01T00:00:00Z"},
        "DateLessThan": {"aws:CurrentTime": "2020-06-30T23:59:59Z"},
    })
)  # fmt: skip
IPS = policy(
    allow(),
    deny(Condition={
        "NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "203.0.113.0/24"]},
        "Bool": {"aws:ViaAWSService": "false"},
    }),
)  # fmt: skip
OWNERS = policy(
    allow(["ec2:StartInstances", "ec2:StopInstances"], "arn:aws:ec2:*:*:instance/*",
          Condition=condition("StringEquals", "aws:ResourceTag/Owner", "${aws:username}")),
    allow("ec2:DescribeInstances"),
)  # fmt: skip
BUCKETS = policy(
    allow(["s3:ListBucket"], BUCKET),
    allow(["s3:PutObject", "s3:GetObject", "s3:DeleteObject"], f"{BUCKET}/*"),
)
FEDERATED_HOME = policy(
    allow("s3:ListBucket", BUCKET, Condition=condition("StringLike", "s3:prefix", "home/${aws:userid}/*")),
    allow("s3:*", [f"{BUCKET}/home/${{aws:userid}}", f"{BUCKET}/home/${{aws:userid}}/*"]),
)  # fmt: skip
ONE_BUCKET = policy(
    allow(["s3:ListBucket", "s3:GetObject"], [BUCKET, f"{BUCKET}/*"]),
    {"Effect": "Deny", "NotAction": "s3:*", "Resource": "*"},
    {"Effect": "Deny", "Action": "s3:*", "NotResource": [BUCKET, f"{BUCKET}/*"]},
)
ITEMS = policy(
    allow(["dynamodb:GetItem", "dynamodb:Query"], TABLE, Condition={
        "ForAllValues:StringEquals": {
            "dynamodb:LeadingKeys": ["${aws:userid}"],
            "dynamodb:Attributes": ["UserId", "GameTitle", "Wins"],
        },
        "StringEqualsIfExists": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
    })
)  # fmt: skip
PASSING = policy(
    allow("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/EC2-roles-for-XYZ-*",
          Condition=condition("StringEquals", "iam:PassedToService", "ec2.amazonaws.com"))
)  # fmt: skip
MFA = policy(
    allow(),
    {"Effect": "Deny", "NotAction": ["iam:ListUsers", "iam:EnableMFADevice"], "Resource": "*",
     "Condition": {"BoolIfExists": {"aws:MultiFactorAuthPresent": "false"}}},
)  # fmt: skip
MFA_STRICT = policy(allow(), deny(Condition={"Bool": {"aws:MultiFactorAuthPresent": "false"}}))
REVOKED = policy(
    allow(), deny(Condition=condition("DateLessThan", "aws:TokenIssueTime", "2026-11-22T12:00:00Z"))
)
TAG_KEYS = policy(
    allow("kinesis:AddTagsToStream", Condition={
        "ForAllValues:StringEquals": {"aws:TagKeys": ["environment", "cost-center"]},
        "StringEquals": {"aws:RequestTag/environment": ["preprod", "production"]},
    })
)  # fmt: skip
ANY_TAG_KEY = policy(
    allow("kinesis:*"),
    deny("kinesis:AddTagsToStream", Condition=condition("ForAnyValue:StringEquals", "aws:TagKeys", "locked")),
)  # fmt: skip
TAG_IS_THERE = policy(
    allow("kinesis:CreateStream", Condition=condition("Null", "aws:RequestTag/owner", "false"))
)
ABAC = policy(
    allow("secretsmanager:*", Condition={
        "StringEquals": {
            "aws:ResourceTag/access-project": "${aws:PrincipalTag/access-project}",
            "aws:ResourceTag/access-team": "${aws:PrincipalTag/access-team}",
        }
    })
)  # fmt: skip
DEFAULTED = policy(
    allow("s3:ListBucket", BUCKET, Condition={
        "StringLike": {"s3:prefix": "${aws:PrincipalTag/team, 'company-wide'}/*"}
    })
)  # fmt: skip
LITERAL = policy(allow("s3:GetObject", f"{BUCKET}/${{*}}/${{?}}/${{$}}"))
NOW = ("2020-05-01T12:00:00Z",)


@pytest.mark.parametrize(
    ("principal", "own", "action", "resource", "context", "allowed"),
    [
        # reference_policies_examples_aws-dates
        (JOHN, DATES, "service-prefix:action-name", "*", {"aws:currenttime": NOW}, True),
        (JOHN, DATES, "service-prefix:action-name", "*", {"aws:currenttime": ("2020-07-01T00:00:00Z",)}, False),
        (JOHN, DATES, "service-prefix:action-name", "*", {"aws:currenttime": ("1588334400",)}, True),
        (JOHN, DATES, "service-prefix:action-name", "*", {}, False),
        # reference_policies_examples_aws_deny-ip
        (JOHN, IPS, "s3:ListAllMyBuckets", "*", {"aws:sourceip": ("192.0.2.7",)}, True),
        (JOHN, IPS, "s3:ListAllMyBuckets", "*", {"aws:sourceip": ("198.51.100.1",)}, False),
        (JOHN, IPS, "s3:ListAllMyBuckets", "*",
         {"aws:sourceip": ("198.51.100.1",), "aws:viaawsservice": ("true",)}, True),
        # reference_policies_examples_ec2_tag-owner
        (JOHN, OWNERS, "ec2:StartInstances", f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1",
         {"aws:resourcetag/owner": ("John",)}, True),
        (JOHN, OWNERS, "ec2:StartInstances", f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1",
         {"aws:resourcetag/owner": ("john",)}, False),
        (MAPPER, OWNERS, "ec2:StartInstances", f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1",
         {"aws:resourcetag/owner": ("mapper",)}, False),
        # reference_policies_examples_s3_rw-bucket
        (JOHN, BUCKETS, "s3:PutObject", f"{BUCKET}/a/b", {}, True),
        (JOHN, BUCKETS, "s3:PutObject", BUCKET, {}, False),
        (JOHN, BUCKETS, "s3:ListBucket", f"{BUCKET}/a", {}, False),
        (JOHN, BUCKETS, "s3:GetObject", f"{BUCKET}-2/a", {}, False),
        # reference_policies_examples_s3_federated-home-directory
        (MAPPER, FEDERATED_HOME, "s3:GetObject", f"{BUCKET}/home/AROAMAPPER:session/a", {}, True),
        (MAPPER, FEDERATED_HOME, "s3:GetObject", f"{BUCKET}/home/AROAOTHER:session/a", {}, False),
        (MAPPER, FEDERATED_HOME, "s3:ListBucket", BUCKET, {"s3:prefix": ("home/AROAMAPPER:session/",)}, True),
        # reference_policies_examples_s3_deny-except-bucket
        (JOHN, ONE_BUCKET, "s3:GetObject", f"{BUCKET}/a", {}, True),
        (JOHN, ONE_BUCKET, "s3:GetObject", "arn:aws:s3:::other/a", {}, False),
        (JOHN, ONE_BUCKET, "kinesis:ListStreams", "*", {}, False),
        # reference_policies_examples_dynamodb_items
        (MAPPER, ITEMS, "dynamodb:GetItem", TABLE,
         {"dynamodb:leadingkeys": ("AROAMAPPER:session",), "dynamodb:attributes": ("Wins", "UserId")}, True),
        (MAPPER, ITEMS, "dynamodb:GetItem", TABLE,
         {"dynamodb:leadingkeys": ("AROAMAPPER:session", "other"), "dynamodb:attributes": ("Wins",)}, False),
        (MAPPER, ITEMS, "dynamodb:GetItem", TABLE,
         {"dynamodb:leadingkeys": ("AROAMAPPER:session",), "dynamodb:attributes": ("Losses",)}, False),
        (MAPPER, ITEMS, "dynamodb:Query", TABLE,
         {"dynamodb:leadingkeys": ("AROAMAPPER:session",), "dynamodb:select": ("ALL_ATTRIBUTES",)}, False),
        # ForAllValues holds of no values at all (reference_policies_condition-single-vs-multi-valued-context-keys).
        (MAPPER, ITEMS, "dynamodb:GetItem", TABLE, {}, True),
        # reference_policies_examples_iam-passrole-service
        (JOHN, PASSING, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/EC2-roles-for-XYZ-1",
         {"iam:passedtoservice": ("ec2.amazonaws.com",)}, True),
        (JOHN, PASSING, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/EC2-roles-for-XYZ-1",
         {"iam:passedtoservice": ("lambda.amazonaws.com",)}, False),
        (JOHN, PASSING, "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/other",
         {"iam:passedtoservice": ("ec2.amazonaws.com",)}, False),
        # reference_policies_elements_condition_operators, BoolIfExists: a key of one's own says nothing of MFA.
        (JOHN, MFA, "s3:ListAllMyBuckets", "*", {}, False),
        (JOHN, MFA, "iam:ListUsers", "*", {}, True),
        (JOHN, MFA, "s3:ListAllMyBuckets", "*", {"aws:multifactorauthpresent": ("true",)}, True),
        (JOHN, MFA_STRICT, "s3:ListAllMyBuckets", "*", {}, True),
        # id_roles_use_revoke-sessions
        (MAPPER, REVOKED, "s3:ListAllMyBuckets", "*", {"aws:tokenissuetime": ("2026-11-22T11:59:59Z",)}, False),
        (MAPPER, REVOKED, "s3:ListAllMyBuckets", "*", {"aws:tokenissuetime": ("2026-11-22T12:00:01Z",)}, True),
        # access_tags: tags on request, and their keys
        (JOHN, TAG_KEYS, "kinesis:AddTagsToStream", STREAM,
         {"aws:tagkeys": ("environment",), "aws:requesttag/environment": ("preprod",)}, True),
        (JOHN, TAG_KEYS, "kinesis:AddTagsToStream", STREAM,
         {"aws:tagkeys": ("environment", "owner"), "aws:requesttag/environment": ("preprod",)}, False),
        (JOHN, TAG_KEYS, "kinesis:AddTagsToStream", STREAM, {"aws:tagkeys": ("cost-center",)}, False),
        (JOHN, ANY_TAG_KEY, "kinesis:AddTagsToStream", STREAM, {"aws:tagkeys": ("a", "locked")}, False),
        (JOHN, ANY_TAG_KEY, "kinesis:AddTagsToStream", STREAM, {"aws:tagkeys": ("a",)}, True),
        (JOHN, ANY_TAG_KEY, "kinesis:AddTagsToStream", STREAM, {}, True),
        # reference_policies_elements_condition_operators, Null
        (JOHN, TAG_IS_THERE, "kinesis:CreateStream", STREAM, {}, False),
        (JOHN, TAG_IS_THERE, "kinesis:CreateStream", STREAM, {"aws:requesttag/owner": ("x",)}, True),
        # tutorial_attribute-based-access-control
        (TAGGED_JOHN, ABAC, "secretsmanager:GetSecretValue", "*",
         {"aws:resourcetag/access-project": ("peg",), "aws:resourcetag/access-team": ("eng",)}, True),
        (TAGGED_JOHN, ABAC, "secretsmanager:GetSecretValue", "*",
         {"aws:resourcetag/access-project": ("uni",), "aws:resourcetag/access-team": ("eng",)}, False),
        (JOHN, ABAC, "secretsmanager:GetSecretValue", "*",
         {"aws:resourcetag/access-project": ("peg",), "aws:resourcetag/access-team": ("eng",)}, False),
        # reference_policies_variables: defaults, and the signs themselves
        (JOHN, DEFAULTED, "s3:ListBucket", BUCKET, {"s3:prefix": ("company-wide/x",)}, True),
        (replace(JOHN, tags={"team": "blue"}), DEFAULTED, "s3:ListBucket", BUCKET, {"s3:prefix": ("blue/x",)}, True),
        (replace(JOHN, tags={"team": "blue"}), DEFAULTED, "s3:ListBucket", BUCKET,
         {"s3:prefix": ("company-wide/x",)}, False),
        (JOHN, LITERAL, "s3:GetObject", f"{BUCKET}/*/?/$", {}, True),
        (JOHN, LITERAL, "s3:GetObject", f"{BUCKET}/a/b/$", {}, False),
    ],
)  # fmt: skip
def test_an_example_of_the_documentation(
    principal: Principal,
    own: NamedPolicy,
    action: str,
    resource: str,
    context: Context,
    allowed: bool,
) -> None:
    access = Access(action, resource, ACCOUNT, context)
    assert evaluate(principal, access, Policies((own,))).allowed is allowed


NOT_PUT = policy(allow("kinesis:Get*"))
ALL = policy(allow())
FOREIGN = replace(PUT, resource=PUT.resource.replace(ACCOUNT, OTHER), account=OTHER)


def to(who: str) -> NamedPolicy:
    return policy(allow("kinesis:*", Principal={"AWS": who}))


def sparing(*who: str) -> NamedPolicy:
    return policy(
        allow(Principal="*"),
        {"Effect": "Deny", "Action": "*", "Resource": "*", "NotPrincipal": {"AWS": list(who)}},
    )


@pytest.mark.parametrize(
    ("principal", "access", "policies", "allowed"),
    [
        # reference_policies_evaluation-logic_policy-eval-basics: a session that is named outright is not limited by
        # its boundary or session policy, in its own account; a role that is named is.
        (MAPPER, PUT, Policies(boundary=NOT_PUT, session=(NOT_PUT,), resource=to(MAPPER.arn)), True),
        (MAPPER, PUT, Policies(boundary=NOT_PUT, resource=to(MAPPER.identity_arn)), False),
        (MAPPER, PUT, Policies(session=(NOT_PUT,), resource=to(MAPPER.identity_arn)), False),
        (MAPPER, PUT, Policies(resource=to(MAPPER.arn.replace("/session", "/other"))), False),
        (GUEST, PUT, Policies(session=(), resource=to(GUEST.arn)), True),
        (GUEST, PUT, Policies((ALL,), session=(), resource=None), False),
        (GUEST, PUT, Policies((ALL,), session=(ALL,)), True),
        (GUEST, PUT, Policies((ALL,), session=(NOT_PUT,)), False),
        (GUEST, PUT, Policies(session=(NOT_PUT,), resource=to(JOHN.arn)), False),
        # reference_policies_evaluation-logic-cross-account: a boundary limits the caller's side, however it is named.
        (MAPPER, FOREIGN, Policies((ALL,), resource=to(MAPPER.arn)), True),
        (MAPPER, FOREIGN, Policies((ALL,), boundary=NOT_PUT, resource=to(MAPPER.arn)), False),
        (MAPPER, FOREIGN, Policies((ALL,), session=(NOT_PUT,), resource=to(MAPPER.arn)), False),
        (MAPPER, FOREIGN, Policies((ALL,), boundary=ALL, resource=to(ACCOUNT)), True),
        (MAPPER, FOREIGN, Policies((NOT_PUT,), resource=to(MAPPER.identity_arn)), False),
        (MAPPER, FOREIGN, Policies((ALL,)), False),
        # reference_policies_elements_notprincipal: a Deny spares a session when it, its role and its account are named.
        (MAPPER, PUT, Policies((ALL,), resource=sparing(MAPPER.arn, MAPPER.identity_arn, ACCOUNT)), True),
        (MAPPER, PUT, Policies((ALL,), resource=sparing(MAPPER.arn, MAPPER.identity_arn)), False),
        (MAPPER, PUT, Policies((ALL,), resource=sparing(MAPPER.identity_arn, ACCOUNT)), False),
        (JOHN, PUT, Policies((ALL,), resource=sparing(JOHN.arn, f"arn:aws:iam::{ACCOUNT}:root")), True),
        (JOHN, PUT, Policies((ALL,), resource=sparing(JOHN.arn)), False),
        # reference_policies_elements_principal: an id names the very role, and not another of its name.
        (MAPPER, PUT, Policies(resource=to("AROAMAPPER")), True),
        (MAPPER, PUT, Policies(resource=to("AROANOTHER")), False),
    ],
)  # fmt: skip
def test_several_kinds_of_policies_at_once(
    principal: Principal, access: Access, policies: Policies, allowed: bool
) -> None:
    assert evaluate(principal, access, policies).allowed is allowed
