"""The library of example policies of the IAM guide (access_policies_examples.html), page by page.

Those whose services headrace judges, and those of EC2 and of the account, which the evaluator judges like all others;
left out are CodeCommit's, Data Pipeline's and RDS', and those of consoles, which say the same once more. The rest is in
`test_documented.py` (dates, deny-ip, tag-owner, rw-bucket, federated home, deny-except-bucket, items, passrole-service)
and `tests/api/iam/test_session_keys.py` (cognito-bucket). Names are those of the pages, without
`reference_policies_examples_`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import Access, Context, NamedPolicy, Policies, Principal
from tests.unit.permissions.parties import ACCOUNT, JOHN, MAPPER, allow, deny, policy

ALL = allow()
JOHNS = f"arn:aws:iam::{ACCOUNT}:user/John"
JANES = f"arn:aws:iam::{ACCOUNT}:user/Jane"
OWN = "arn:aws:iam::*:user/${aws:username}"
OWN_MFA = "arn:aws:iam::*:mfa/${aws:username}"
JOHNS_MFA = f"arn:aws:iam::{ACCOUNT}:mfa/John"
ANY_MFA = f"arn:aws:iam::{ACCOUNT}:mfa/phone"
TABLE = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/MyTable"
INSTANCE = f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/i-1"
BUCKET = "arn:aws:s3:::bucket-name"
PRODUCTION = "arn:aws:s3:::Production"
MFA: Context = {"aws:multifactorauthpresent": ("true",)}
NO_MFA: Context = {"aws:multifactorauthpresent": ("false",)}
NONE: Context = {}


def when(**operators: Any) -> dict[str, Any]:
    """Return a Condition; of operators with a colon, `ForAllValues_StringEquals`."""
    return {name.replace("_", ":"): keys for name, keys in operators.items()}


def tagged(**tags: str) -> Principal:
    return replace(JOHN, tags=tags)


# --- AWS ------------------------------------------------------------------------------------------

WITHOUT_MFA = when(BoolIfExists={"aws:MultiFactorAuthPresent": "false"})
MFA_DATES = policy(
    allow(
        ["service-prefix-1:*", "service-prefix-2:action-name-a", "service-prefix-2:action-name-b"],
        Condition=when(
            Bool={"aws:MultiFactorAuthPresent": True},
            DateGreaterThan={"aws:CurrentTime": "2017-07-01T00:00:00Z"},
            DateLessThan={"aws:CurrentTime": "2017-12-31T23:59:59Z"},
        ),
    )
)
AUGUST: Context = {"aws:currenttime": ("2017-08-01T00:00:00Z",)}
REGIONS = policy(
    ALL,
    {
        "Effect": "Deny",
        "NotAction": ["cloudfront:*", "iam:*", "route53:*", "support:*"],
        "Resource": "*",
        "Condition": when(StringNotEquals={"aws:RequestedRegion": ["eu-central-1", "eu-west-1"]}),
    },
)
ENABLE_REGIONS = policy(
    allow(
        ["account:EnableRegion", "account:DisableRegion"],
        Condition=when(StringEquals={"account:TargetRegion": "ap-east-1"}),
    ),
    allow(["aws-portal:ViewAccount", "account:ListRegions"]),
)
OWN_CREDENTIALS = (
    allow(["iam:GetAccountPasswordPolicy", "iam:GetAccountSummary", "iam:ListVirtualMFADevices"]),
    allow(["iam:ChangePassword", "iam:GetUser"], OWN),
    allow(["iam:CreateAccessKey", "iam:DeleteAccessKey", "iam:ListAccessKeys", "iam:UpdateAccessKey"], OWN),
    allow(["iam:CreateVirtualMFADevice", "iam:DeleteVirtualMFADevice"], OWN_MFA),
    allow(["iam:DeactivateMFADevice", "iam:EnableMFADevice", "iam:ListMFADevices", "iam:ResyncMFADevice"], OWN),
)  # fmt: skip
SELF_MANAGE = policy(
    *OWN_CREDENTIALS,
    {
        "Effect": "Deny",
        "NotAction": [
            "iam:CreateVirtualMFADevice", "iam:EnableMFADevice", "iam:GetUser", "iam:ListMFADevices",
            "iam:ListVirtualMFADevices", "iam:ResyncMFADevice", "sts:GetSessionToken",
        ],
        "Resource": "*",
        "Condition": WITHOUT_MFA,
    },
)  # fmt: skip
NO_MFA_NEEDED = policy(*OWN_CREDENTIALS)
PASSWORD_ONLY = policy(
    allow("iam:GetAccountPasswordPolicy"), allow(["iam:GetUser", "iam:ChangePassword"], OWN)
)

# --- DynamoDB, Lambda -----------------------------------------------------------------------------

SPECIFIC_TABLE = policy(
    allow(["dynamodb:List*", "dynamodb:DescribeReservedCapacity*", "dynamodb:DescribeLimits"]),
    allow(["dynamodb:BatchGet*", "dynamodb:DescribeTable", "dynamodb:Get*", "dynamodb:Query", "dynamodb:Delete*"],
          "arn:aws:dynamodb:*:*:table/MyTable"),
)  # fmt: skip
ATTRIBUTES = policy(
    allow(
        ["dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem"],
        ["arn:aws:dynamodb:*:*:table/MyTable"],
        Condition=when(
            ForAllValues_StringEquals={"dynamodb:Attributes": ["column-name-1", "column-name-2"]},
            StringEqualsIfExists={"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
        ),
    )
)
LAMBDA_TABLE = policy(
    allow(["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"], "arn:aws:dynamodb:*:*:table/MyTable"),
    allow("dynamodb:GetRecords", "arn:aws:dynamodb:*:*:table/MyTable/stream/* "),
    allow(["logs:CreateLogStream", "logs:PutLogEvents"]),
    allow("logs:CreateLogGroup"),
)  # fmt: skip

# --- EC2 ------------------------------------------------------------------------------------------

VOLUMES = policy(
    allow(
        ["ec2:AttachVolume", "ec2:DetachVolume"],
        ["arn:aws:ec2:*:*:volume/*", "arn:aws:ec2:*:*:instance/*"],
        Condition=when(ArnEquals={"ec2:SourceInstanceARN": "arn:aws:ec2:*:*:instance/i-1"}),
    )
)
START_TAGGED = policy(
    allow(
        ["ec2:StartInstances", "ec2:StopInstances"],
        f"arn:aws:ec2:eu-west-1:{ACCOUNT}:instance/*",
        Condition=when(
            StringEquals={
                "aws:ResourceTag/Project": "DataAnalytics",
                "aws:PrincipalTag/Department": "Data",
            }
        ),
    )
)
MATCHING = policy(
    allow(
        ["ec2:startInstances", "ec2:stopInstances"],
        Condition=when(
            StringEquals={"aws:ResourceTag/CostCenter": "${aws:PrincipalTag/CostCenter}"}
        ),
    )
)
IN_REGION = policy(allow("ec2:*", Condition=when(StringEquals={"ec2:Region": "eu-west-1"})))
TERMINATE_IP = policy(
    allow(["ec2:TerminateInstances"], ["*"]),
    deny(
        ["ec2:TerminateInstances"],
        ["*"],
        Condition=when(NotIpAddress={"aws:SourceIp": ["192.0.2.0/24", "203.0.113.0/24"]}),
    ),
)
ANALYTICS: Context = {"aws:resourcetag/project": ("DataAnalytics",)}

# --- IAM ------------------------------------------------------------------------------------------

SIMULATOR = policy(
    allow(["iam:GetContextKeysForCustomPolicy", "iam:GetContextKeysForPrincipalPolicy",
           "iam:SimulateCustomPolicy", "iam:SimulatePrincipalPolicy"])
)  # fmt: skip
SIMULATOR_PATH = policy(
    allow(
        ["iam:GetContextKeysForPrincipalPolicy", "iam:SimulatePrincipalPolicy"],
        "arn:aws:iam::*:user/Department/Development/*",
    )
)
ADD_TAG = policy(
    allow(["iam:ListUserTags", "iam:ListUsers"]),
    allow(
        "iam:TagUser",
        Condition=when(
            StringEquals={
                "iam:ResourceTag/JobFunction": "Manager",
                "aws:RequestTag/Department": ["Marketing", "Development", "QualityAssurance"],
            },
            ForAllValues_StringEquals={"aws:TagKeys": "Department"},
        ),
    ),
)
COST_CENTER = policy(
    allow(
        ["iam:TagUser", "iam:TagRole"],
        Condition=when(
            StringEquals={"aws:RequestTag/CostCenter": ["A-123", "B-456"]},
            ForAllValues_StringEquals={"aws:TagKeys": "CostCenter"},
        ),
    )
)
NEW_USERS = policy(
    allow(
        ["iam:CreateUser", "iam:TagUser"],
        Condition=when(
            StringEqualsIfExists={
                "aws:RequestTag/Department": ["Development", "QualityAssurance"],
                "aws:RequestTag/JobFunction": "Employee",
            },
            ForAllValues_StringEquals={"aws:TagKeys": ["Department", "JobFunction"]},
        ),
    )
)
MANAGE_TAGS = policy(
    allow(
        ["iam:TagUser", "iam:TagRole", "iam:UntagUser", "iam:UntagRole"],
        Condition=when(ForAllValues_StringEquals={"aws:TagKeys": "Department"}),
    )
)
ROTATE = policy(
    allow(["iam:ListUsers", "iam:GetAccountPasswordPolicy"]),
    allow(["iam:*AccessKey*", "iam:ChangePassword", "iam:GetUser", "iam:*SigningCertificate*"], [OWN]),
)  # fmt: skip
LIMITED = policy(
    allow(["iam:CreateUser", "iam:ListPolicies"]),
    allow(
        ["iam:AttachUserPolicy", "iam:DetachUserPolicy"],
        Condition=when(
            ArnEquals={
                "iam:PolicyArn": [
                    f"arn:aws:iam::{ACCOUNT}:policy/mine",
                    "arn:aws:iam::aws:policy/ReadOnlyAccess",
                ]
            }
        ),
    ),
)
OWN_MFA_DEVICE = policy(
    allow(["iam:ListUsers", "iam:ListVirtualMFADevices"]),
    allow(["iam:ListMFADevices"], ["arn:aws:iam::*:mfa/*", OWN]),
    allow(["iam:CreateVirtualMFADevice", "iam:EnableMFADevice", "iam:ResyncMFADevice"], [OWN_MFA, OWN]),
    allow(["iam:DeactivateMFADevice"], [OWN_MFA, OWN], Condition=when(Bool={"aws:MultiFactorAuthPresent": "true"})),
    {
        "Effect": "Deny",
        "NotAction": [
            "iam:CreateVirtualMFADevice", "iam:EnableMFADevice", "iam:ListMFADevices", "iam:ListUsers",
            "iam:ListVirtualMFADevices", "iam:ResyncMFADevice",
        ],
        "Resource": "*",
        "Condition": WITHOUT_MFA,
    },
)  # fmt: skip

# --- S3 -------------------------------------------------------------------------------------------

HOME = policy(
    allow(["s3:ListAllMyBuckets", "s3:GetBucketLocation"]),
    allow("s3:ListBucket", BUCKET,
          Condition=when(StringLike={"s3:prefix": ["", "home/", "home/${aws:username}/*"]})),
    allow("s3:*", [f"{BUCKET}/home/${{aws:username}}", f"{BUCKET}/home/${{aws:username}}/*"]),
)  # fmt: skip
NOT_PRODUCTION = policy(
    allow(["s3:ListAllMyBuckets"], "arn:aws:s3:::*"),
    allow(["s3:ListBucket", "s3:GetBucketLocation"], "arn:aws:s3:::*"),
    allow(["s3:PutObject", "s3:GetObject", "s3:DeleteObject"], "arn:aws:s3:::*/*"),
    deny("s3:*", [f"{PRODUCTION}/*", PRODUCTION],
         Condition=when(NumericGreaterThanIfExists={"aws:MultiFactorAuthAge": "1800"})),
)  # fmt: skip
RW_CONSOLE = policy(
    allow(["s3:GetBucketLocation", "s3:ListAllMyBuckets"]),
    allow(["s3:ListBucket"], [BUCKET]),
    allow(["s3:PutObject", "s3:GetObject"], [f"{BUCKET}/*"]),
)


def tags(**given: str) -> Context:
    """Return the keys of a request with tags."""
    keys = {f"aws:requesttag/{name.lower()}": (value,) for name, value in given.items()}
    return {**keys, "aws:tagkeys": tuple(given)}


@pytest.mark.parametrize(
    ("who", "own", "action", "resource", "context", "allowed"),
    [
        # aws_mfa-dates
        (JOHN, MFA_DATES, "service-prefix-1:any", "*", {**MFA, **AUGUST}, True),
        (JOHN, MFA_DATES, "service-prefix-1:any", "*", {**NO_MFA, **AUGUST}, False),
        (JOHN, MFA_DATES, "service-prefix-1:any", "*", AUGUST, False),
        (JOHN, MFA_DATES, "service-prefix-1:any", "*", {**MFA, "aws:currenttime": ("2018-01-01T00:00:00Z",)}, False),
        (JOHN, MFA_DATES, "service-prefix-2:action-name-c", "*", {**MFA, **AUGUST}, False),
        # aws_deny-requested-region
        (JOHN, REGIONS, "s3:ListAllMyBuckets", "*", {"aws:requestedregion": ("eu-west-1",)}, True),
        (JOHN, REGIONS, "s3:ListAllMyBuckets", "*", {"aws:requestedregion": ("us-east-1",)}, False),
        (JOHN, REGIONS, "iam:ListUsers", "*", {"aws:requestedregion": ("us-east-1",)}, True),
        # aws-enable-disable-regions
        (JOHN, ENABLE_REGIONS, "account:EnableRegion", "*", {"account:targetregion": ("ap-east-1",)}, True),
        (JOHN, ENABLE_REGIONS, "account:EnableRegion", "*", {"account:targetregion": ("me-south-1",)}, False),
        (JOHN, ENABLE_REGIONS, "account:ListRegions", "*", NONE, True),
        # aws_my-sec-creds-self-manage: a key of one's own has no MFA, a session may have it.
        (JOHN, SELF_MANAGE, "iam:CreateAccessKey", JOHNS, MFA, True),
        (JOHN, SELF_MANAGE, "iam:CreateAccessKey", JOHNS, NO_MFA, False),
        (JOHN, SELF_MANAGE, "iam:CreateAccessKey", JOHNS, NONE, False),
        (JOHN, SELF_MANAGE, "iam:CreateAccessKey", JANES, MFA, False),
        (JOHN, SELF_MANAGE, "iam:EnableMFADevice", JOHNS, NONE, True),
        (JOHN, SELF_MANAGE, "iam:CreateVirtualMFADevice", JOHNS_MFA, NONE, True),
        (JOHN, SELF_MANAGE, "iam:CreateVirtualMFADevice", ANY_MFA, MFA, False),
        (JOHN, SELF_MANAGE, "iam:ChangePassword", JOHNS, NONE, False),
        # aws_my-sec-creds-self-manage-no-mfa, -password-only
        (JOHN, NO_MFA_NEEDED, "iam:CreateAccessKey", JOHNS, NONE, True),
        (JOHN, NO_MFA_NEEDED, "iam:CreateAccessKey", JANES, NONE, False),
        (JOHN, PASSWORD_ONLY, "iam:ChangePassword", JOHNS, NONE, True),
        (JOHN, PASSWORD_ONLY, "iam:CreateAccessKey", JOHNS, NONE, False),
        # dynamodb_specific-table
        (JOHN, SPECIFIC_TABLE, "dynamodb:GetItem", TABLE, NONE, True),
        (JOHN, SPECIFIC_TABLE, "dynamodb:DeleteTable", TABLE, NONE, True),
        (JOHN, SPECIFIC_TABLE, "dynamodb:GetItem", f"{TABLE}2", NONE, False),
        (JOHN, SPECIFIC_TABLE, "dynamodb:ListTables", "*", NONE, True),
        # dynamodb_attributes
        (JOHN, ATTRIBUTES, "dynamodb:GetItem", TABLE, {"dynamodb:attributes": ("column-name-1",)}, True),
        (JOHN, ATTRIBUTES, "dynamodb:GetItem", TABLE, {"dynamodb:attributes": ("column-name-1", "other")}, False),
        (JOHN, ATTRIBUTES, "dynamodb:Query", TABLE,
         {"dynamodb:attributes": ("column-name-1",), "dynamodb:select": ("ALL_ATTRIBUTES",)}, False),
        # lambda-access-dynamodb; its page has a blank at the end of the stream's ARN, which no stream has.
        (MAPPER, LAMBDA_TABLE, "dynamodb:PutItem", TABLE, NONE, True),
        (MAPPER, LAMBDA_TABLE, "dynamodb:DeleteItem", TABLE, NONE, False),
        (MAPPER, LAMBDA_TABLE, "dynamodb:GetRecords", f"{TABLE}/stream/2026-11-22T00:00:00.000", NONE, False),
        (MAPPER, LAMBDA_TABLE, "logs:PutLogEvents", f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:g:log-stream:s",
         NONE, True),
        # ec2_volumes-instance
        (MAPPER, VOLUMES, "ec2:AttachVolume", INSTANCE, {"ec2:sourceinstancearn": (INSTANCE,)}, True),
        (MAPPER, VOLUMES, "ec2:AttachVolume", INSTANCE, {"ec2:sourceinstancearn": (f"{INSTANCE}2",)}, False),
        (MAPPER, VOLUMES, "ec2:AttachVolume", INSTANCE, NONE, False),
        # ec2-start-stop-tags, ec2-start-stop-match-tags
        (tagged(Department="Data"), START_TAGGED, "ec2:StartInstances", INSTANCE, ANALYTICS, True),
        (tagged(Department="Sales"), START_TAGGED, "ec2:StartInstances", INSTANCE, ANALYTICS, False),
        (tagged(Department="Data"), START_TAGGED, "ec2:StartInstances", INSTANCE, NONE, False),
        (tagged(CostCenter="7"), MATCHING, "ec2:StartInstances", INSTANCE,
         {"aws:resourcetag/costcenter": ("7",)}, True),
        (tagged(CostCenter="8"), MATCHING, "ec2:StartInstances", INSTANCE,
         {"aws:resourcetag/costcenter": ("7",)}, False),
        (JOHN, MATCHING, "ec2:StartInstances", INSTANCE, {"aws:resourcetag/costcenter": ("7",)}, False),
        # ec2_region, ec2_terminate-ip
        (JOHN, IN_REGION, "ec2:RunInstances", INSTANCE, {"ec2:region": ("eu-west-1",)}, True),
        (JOHN, IN_REGION, "ec2:RunInstances", INSTANCE, {"ec2:region": ("us-east-1",)}, False),
        (JOHN, TERMINATE_IP, "ec2:TerminateInstances", INSTANCE, {"aws:sourceip": ("203.0.113.9",)}, True),
        (JOHN, TERMINATE_IP, "ec2:TerminateInstances", INSTANCE, {"aws:sourceip": ("203.0.114.9",)}, False),
        (JOHN, TERMINATE_IP, "ec2:TerminateInstances", INSTANCE, NONE, False),
        # iam_policy-sim, iam_policy-sim-path
        (JOHN, SIMULATOR, "iam:SimulatePrincipalPolicy", JANES, NONE, True),
        (JOHN, SIMULATOR, "iam:GetUser", JANES, NONE, False),
        (JOHN, SIMULATOR_PATH, "iam:SimulatePrincipalPolicy",
         f"arn:aws:iam::{ACCOUNT}:user/Department/Development/Jane", NONE, True),
        (JOHN, SIMULATOR_PATH, "iam:SimulatePrincipalPolicy", JANES, NONE, False),
        # iam-add-tag
        (JOHN, ADD_TAG, "iam:TagUser", JANES, {**tags(Department="Marketing"),
         "iam:resourcetag/jobfunction": ("Manager",)},
         True),
        (JOHN, ADD_TAG, "iam:TagUser", JANES, {**tags(Department="Sales"), "iam:resourcetag/jobfunction": ("Manager",)},
         False),
        (JOHN, ADD_TAG, "iam:TagUser", JANES, tags(Department="Marketing"), False),
        (JOHN, ADD_TAG, "iam:TagUser", JANES,
         {**tags(Department="Marketing", Other="x"), "iam:resourcetag/jobfunction": ("Manager",)}, False),
        # iam-add-tag-user-role
        (JOHN, COST_CENTER, "iam:TagRole", MAPPER.identity_arn, tags(CostCenter="A-123"), True),
        (JOHN, COST_CENTER, "iam:TagRole", MAPPER.identity_arn, tags(CostCenter="C-789"), False),
        (JOHN, COST_CENTER, "iam:TagRole", MAPPER.identity_arn, tags(CostCenter="A-123", Other="x"), False),
        # iam-new-user-tag, with the cases that its text tells
        (JOHN, NEW_USERS, "iam:CreateUser", JANES, tags(Department="QualityAssurance"), True),
        (JOHN, NEW_USERS, "iam:CreateUser", JANES, tags(JobFunction="Employee", Department="Development"), True),
        (JOHN, NEW_USERS, "iam:CreateUser", JANES, tags(JobFunction="Employee", Project="core"), False),
        (JOHN, NEW_USERS, "iam:CreateUser", JANES, tags(Department="Sales"), False),
        (JOHN, NEW_USERS, "iam:CreateUser", JANES, NONE, True),
        # iam-manage-tags
        (JOHN, MANAGE_TAGS, "iam:UntagUser", JANES, {"aws:tagkeys": ("Department",)}, True),
        (JOHN, MANAGE_TAGS, "iam:UntagUser", JANES, {"aws:tagkeys": ("Department", "Other")}, False),
        # iam_credentials_console
        (JOHN, ROTATE, "iam:UpdateAccessKey", JOHNS, NONE, True),
        (JOHN, ROTATE, "iam:UpdateAccessKey", JANES, NONE, False),
        (MAPPER, ROTATE, "iam:UpdateAccessKey", f"arn:aws:iam::{ACCOUNT}:user/", NONE, False),
        # iam_limit-managed
        (JOHN, LIMITED, "iam:AttachUserPolicy", JANES, {"iam:policyarn": (f"arn:aws:iam::{ACCOUNT}:policy/mine",)},
         True),
        (JOHN, LIMITED, "iam:AttachUserPolicy", JANES,
         {"iam:policyarn": ("arn:aws:iam::aws:policy/AdministratorAccess",)},
         False),
        (JOHN, LIMITED, "iam:AttachUserPolicy", JANES, NONE, False),
        # iam_mfa-selfmanage
        (JOHN, OWN_MFA_DEVICE, "iam:EnableMFADevice", JOHNS, NONE, True),
        (JOHN, OWN_MFA_DEVICE, "iam:DeactivateMFADevice", JOHNS, NONE, False),
        (JOHN, OWN_MFA_DEVICE, "iam:DeactivateMFADevice", JOHNS, MFA, True),
        (JOHN, OWN_MFA_DEVICE, "iam:ListMFADevices", ANY_MFA, NONE, True),
        (JOHN, OWN_MFA_DEVICE, "iam:EnableMFADevice", JANES, MFA, False),
        # s3_home-directory-console
        (JOHN, HOME, "s3:ListBucket", BUCKET, {"s3:prefix": ("home/John/2026",)}, True),
        (JOHN, HOME, "s3:ListBucket", BUCKET, {"s3:prefix": ("home/",)}, True),
        (JOHN, HOME, "s3:ListBucket", BUCKET, {"s3:prefix": ("",)}, True),
        (JOHN, HOME, "s3:ListBucket", BUCKET, {"s3:prefix": ("home/Jane/",)}, False),
        (JOHN, HOME, "s3:ListBucket", BUCKET, NONE, False),
        (JOHN, HOME, "s3:PutObject", f"{BUCKET}/home/John/a", NONE, True),
        (JOHN, HOME, "s3:PutObject", f"{BUCKET}/home/Jane/a", NONE, False),
        (MAPPER, HOME, "s3:PutObject", f"{BUCKET}/home/mapper/a", NONE, False),
        # s3_full-access-except-production: never with a key of one's own, nor with an old MFA.
        (JOHN, NOT_PRODUCTION, "s3:PutObject", f"{BUCKET}/a", NONE, True),
        (JOHN, NOT_PRODUCTION, "s3:PutObject", f"{PRODUCTION}/a", NONE, False),
        (JOHN, NOT_PRODUCTION, "s3:PutObject", f"{PRODUCTION}/a", {"aws:multifactorauthage": ("60",)}, True),
        (JOHN, NOT_PRODUCTION, "s3:PutObject", f"{PRODUCTION}/a", {"aws:multifactorauthage": ("1801",)}, False),
        # s3_rw-bucket-console
        (JOHN, RW_CONSOLE, "s3:ListAllMyBuckets", "*", NONE, True),
        (JOHN, RW_CONSOLE, "s3:GetObject", f"{BUCKET}/a", NONE, True),
        (JOHN, RW_CONSOLE, "s3:DeleteObject", f"{BUCKET}/a", NONE, False),
    ],
)  # fmt: skip
def test_an_example_of_the_library(
    who: Principal, own: NamedPolicy, action: str, resource: str, context: Context, allowed: bool
) -> None:
    access = Access(action, resource, ACCOUNT, context)
    assert evaluate(who, access, Policies((own,))).allowed is allowed
