"""Policies that AWS refuses to store, in IAM's words: as users report them, and as moto's tests have them from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.permissions.policies.grammar import (
    PolicyError,
    PolicyKind,
    check_policy,
    check_size,
    size_of,
)

FINE = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::b"}
TRUST = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}  # fmt: skip


def document(statement: Any, **others: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statement, **others})


def refusal(text: str, kind: PolicyKind = "identity") -> str:
    with pytest.raises(PolicyError) as refused:
        check_policy(text, kind)
    assert refused.value.code == "MalformedPolicyDocument"
    return refused.value.message


SYNTAX = "Syntax errors in policy."
# terraform-aws-modules/terraform-aws-eks#2594
FEDERATED = "Federated principals must be valid domain names or SAML metadata ARNs"
LEGACY = "The policy failed legacy parsing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", SYNTAX),
        ("[]", SYNTAX),
        ("[" * 100_000, SYNTAX),
        (document([]), SYNTAX),
        (document(FINE, Extra=1), SYNTAX),
        (document(FINE, Version="2012"), SYNTAX),
        (document({**FINE, "action": "s3:*"}), SYNTAX),
        (document({**FINE, "Effect": "Maybe"}), SYNTAX),
        (document({**FINE, "NotAction": "s3:*"}), SYNTAX),
        (document({**FINE, "Action": 7}), SYNTAX),
        (document({**FINE, "Condition": {"StringEqual": {"a": "b"}}}), SYNTAX),
        (document({**FINE, "Condition": {"StringEquals": "b"}}), SYNTAX),
        (document({**FINE, "Condition": {"NullIfExists": {"a": "true"}}}), SYNTAX),
        (json.dumps({"Statement": FINE}), "Policy document must be version 2012-10-17 or greater."),
        (document(FINE, Version="2008-10-17"), "Policy document must be version 2012-10-17 or greater."),
        (document({**FINE, "Effect": "allow"}), LEGACY),
        (document({**FINE, "Resource": "arn:aws:s3::b"}), LEGACY),
        (document({**FINE, "Condition": {"DateLessThan": {"a": "tomorrow"}}}), LEGACY),
        (
            document([{**FINE, "Sid": "a"}, {**FINE, "Sid": "a"}]),
            "Statement IDs (SID) in a single policy must be unique.",
        ),
        (document({**FINE, "Action": []}), "Policy statement must contain actions."),
        (document({**FINE, "Resource": []}), "Policy statement must contain resources."),
        (document({**FINE, "Resource": "b"}), 'Resource b must be in ARN format or "*".'),
        (
            document({**FINE, "Resource": "arn:AWS:s3:::b"}),
            'Partition "AWS" is not valid for resource "arn:AWS:s3:::b".',
        ),
        (
            document({**FINE, "Resource": "arn:aws"}),
            "Resource vendor must be fully qualified and cannot contain regexes.",
        ),
        (
            document({**FINE, "Resource": "arn:aws:s3:eu-west-1::b"}),
            "Resource arn:aws:s3:eu-west-1::b can not contain region information.",
        ),
        (
            document({**FINE, "Action": "ListBucket"}),
            "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.",
        ),
        (document({**FINE, "Action": "s3:a:b"}), "Actions/Condition can contain only one colon."),
        (document({**FINE, "Action": "s 3:a"}), "Vendor s 3 is not valid"),
        (document({**FINE, "Principal": "*"}), "Policy document should not specify a principal."),
        # terraform-aws-modules/terraform-aws-eks#1084
        (
            document({**FINE, "Condition": {"StringEquals": {"https://oidc.example.com/id/A:sub": "x"}}}),
            "Condition can contain only one colon.",
        ),
    ],
)  # fmt: skip
def test_iam_refuses(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ({**TRUST, "Resource": "*"}, "Has prohibited field Resource"),
        ({"Effect": "Allow", "Action": "sts:AssumeRole"}, "Missing required field Principal"),
        ({**TRUST, "Principal": {}}, "Missing required field Principal"),
        ({**TRUST, "Principal": {"AWS": "me"}}, 'Invalid principal in policy: "AWS":"me"'),
        (
            {**TRUST, "Principal": {"AWS": "arn:aws:iam::111122223333:role/*"}},
            'Invalid principal in policy: "AWS":"arn:aws:iam::111122223333:role/*"',
        ),
        ({**TRUST, "Principal": {"Service": "lambda"}}, 'Invalid principal in policy: "SERVICE":"lambda"'),
        ({**TRUST, "Principal": {"Federated": ""}}, FEDERATED),
        ({**TRUST, "Principal": {"Federated": "arn:aws:iam::111122223333:oidc/x"}}, FEDERATED),
        ({**TRUST, "Action": "s3:GetObject"}, "AssumeRole policy may only specify STS AssumeRole actions."),
    ],
)  # fmt: skip
def test_a_trust_policy_is_refused(statement: dict[str, Any], message: str) -> None:
    assert refusal(document(statement), "trust") == message


def test_what_iam_takes() -> None:
    check_policy(document(TRUST, Version="2008-10-17"), "trust")
    check_policy(json.dumps({"Statement": FINE}), "identity", is_managed=False)
    check_policy(document({**FINE, "Resource": ["arn:aws:s3:::b", None]}), "identity")
    check_policy(
        document({**FINE, "Condition": {"DateLessThan": {"aws:CurrentTime": "2026-11-22"}}}),
        "session",
    )
    # Keys that nobody has, and values of another type than the key's: only the Access Analyzer complains of them.
    for key in (
        "aws:SourceArnn",
        "kms:EncryptionContext:aws:s3:arn",
        "kinesis:NoSuchKey",
        "nobody",
        "aws:RequestTag/a:b",
        "x.y/id/A:sub",
    ):
        check_policy(document({**FINE, "Condition": {"StringEquals": {key: ["x", 1]}}}), "identity")
    for provider in ("accounts.google.com", "arn:aws:iam::111122223333:saml-provider/corp"):
        check_policy(document({**TRUST, "Principal": {"Federated": provider}}), "trust")
    everyone = {
        **FINE,
        "Principal": "*",
        "Condition": {"ForAllValues:StringLikeIfExists": {"a": ["b"]}},
    }
    check_policy(document(everyone), "resource")


def test_a_policy_has_a_most_size_without_its_white_space() -> None:
    text = document({**FINE, "Sid": "a" * 6144})
    for holder, name, message in (
        ("policy", "", "Cannot exceed quota for PolicySize: 6144"),
        ("trust", "", "Cannot exceed quota for ACLSizePerRole: 2048"),
        ("user", "John", "Maximum policy size of 2048 bytes exceeded for user John"),
        ("group", "g", "Maximum policy size of 5120 bytes exceeded for group g"),
    ):
        with pytest.raises(PolicyError) as refused:
            check_size(text, holder, name)
        assert (refused.value.code, refused.value.message) == ("LimitExceeded", message)
    check_size(text, "role", "r")
    with pytest.raises(PolicyError, match="10240 bytes exceeded for role r"):
        check_size(text, "role", "r", others=5000)
    assert size_of('{ "a":\n\t"b" }\r\n') == 9
