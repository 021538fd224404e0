"""Each condition operator, and the rules of IAM's guide for absent keys, several values, IfExists and variables.

Cases marked with a page's name are its examples (docs.aws.amazon.com/IAM/latest/UserGuide/...).
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import Access, Policies, Principal
from tests.unit.permissions.parties import ACCOUNT, JOHN, MAPPER, STREAM, allow, deny, policy


def holds(operator: str, wanted: Any, *found: str, key: str = "aws:k") -> bool:
    own = policy(allow("s3:Get", Condition={operator: {key: wanted}}))
    context = {key.lower(): found} if found else {}
    return evaluate(JOHN, Access("s3:Get", "x", ACCOUNT, context), Policies((own,))).allowed


@pytest.mark.parametrize(
    ("operator", "wanted", "matching", "other"),
    [
        ("StringEquals", ["a", "b"], "b", "B"),
        ("stringequals", "a", "a", "A"),
        ("StringEquals", "a*", "a*", "ab"),
        ("StringEqualsIgnoreCase", "aB", "Ab", "c"),
        ("StringLike", "a*c?", "abbcd", "abc"),
        ("StringLike", "a${*}", "a*", "ab"),
        ("NumericEquals", "10", "10.0", "11"),
        ("NumericLessThan", "10", "9", "10"),
        ("NumericLessThanEquals", 10, "10", "10.1"),
        ("NumericGreaterThan", "-1", "0", "-1"),
        ("NumericGreaterThanEquals", "1e3", "1000", "999"),
        ("DateEquals", "2026-11-22T12:00:00Z", "1795348800", "2026-11-22"),
        (
            "DateLessThan",
            "2026-11-22T12:00:00Z",
            "2026-11-22T12:59:59+01:00",
            "2026-11-22T12:00:00Z",
        ),
        ("DateGreaterThan", "2026-11-22", "2026-11-22T00:00:01Z", "2026-11-21T23:59:59Z"),
        ("DateGreaterThanEquals", "1795305600", "2026-11-22T00:00:00Z", "nonsense"),
        ("Bool", "true", "TRUE", "false"),
        ("Bool", True, "true", "yes"),
        ("BinaryEquals", "QmluYXJ5", "QmluYXJ5", "QQ=="),
        ("IpAddress", "203.0.113.0/24", "203.0.113.7", "203.0.114.7"),
        ("IpAddress", "203.0.113.7", "203.0.113.7", "203.0.113.8"),
        ("IpAddress", "2001:DB8:1234:5678::/64", "2001:db8:1234:5678::1", "2001:db8::1"),
        ("ArnEquals", "arn:aws:sns:*:123456789012:t", "arn:aws:sns:eu-west-1:123456789012:t", "t"),
        ("ArnLike", "arn:aws:s3:::b*", "arn:aws:s3:::b/a:b", "arn:aws:s3:eu:1:b"),
        ("ForAnyValue:StringLike", ["a*"], "ab", "b"),
    ],
)
def test_an_operator(operator: str, wanted: Any, matching: str, other: str) -> None:
    assert holds(operator, wanted, matching)
    assert not holds(operator, wanted, other)
    # The opposite, where there is one.
    for kind in ("String", "Numeric", "Date", "Arn"):
        for name in ("Equals", "Like"):
            if operator == f"{kind}{name}":
                assert not holds(f"{kind}Not{name}", wanted, matching)
                assert holds(f"{kind}Not{name}", wanted, other)
    if operator == "IpAddress":
        assert not holds("NotIpAddress", wanted, matching)
        assert holds("NotIpAddress", wanted, other)


def test_a_wildcard_in_one_field_of_an_arn_does_not_reach_into_the_next() -> None:
    assert not holds("ArnLike", "arn:aws:sns:*:t", "arn:aws:sns:eu-west-1:1:t")
    assert not holds("ArnLike", "arn:aws:sns:*:1:t", "arn:aws:sns:eu:west:1:t")


@pytest.mark.parametrize(
    ("operator", "without_key"),
    [
        ("StringEquals", False),
        ("StringNotEquals", True),
        ("StringNotLike", True),
        ("ArnNotLike", True),
        ("NotIpAddress", True),
        ("StringEqualsIfExists", True),
        ("ForAllValues:StringEquals", True),
        ("ForAllValues:StringNotEquals", True),
        ("ForAnyValue:StringEquals", False),
        ("ForAnyValue:StringNotEquals", False),
        ("ForAnyValue:StringEqualsIfExists", True),
        ("NumericLessThan", False),
        ("Bool", False),
    ],
)
def test_a_key_that_is_not_there(operator: str, without_key: bool) -> None:
    assert holds(operator, "1") == without_key


@pytest.mark.parametrize(
    ("operator", "wanted", "found", "expected"),
    [
        # reference_policies_condition-single-vs-multi-valued-context-keys: each value must be listed; one must.
        ("ForAllValues:StringEquals", ["a", "b"], ("a", "b"), True),
        ("ForAllValues:StringEquals", ["a", "b"], ("a", "c"), False),
        ("ForAnyValue:StringEquals", ["a", "b"], ("c", "b"), True),
        ("ForAnyValue:StringEquals", ["a", "b"], ("c", "d"), False),
        ("ForAllValues:StringNotEquals", ["a"], ("b", "c"), True),
        ("ForAllValues:StringNotEquals", ["a"], ("a", "c"), False),
        ("ForAnyValue:StringNotEquals", ["a"], ("a", "c"), True),
        ("Null", "true", (), True),
        ("Null", "false", (), False),
        ("Null", "true", ("a",), False),
        ("Null", "false", ("a",), True),
    ],
)
def test_several_values(operator: str, wanted: Any, found: tuple[str, ...], expected: bool) -> None:
    assert holds(operator, wanted, *found) == expected


def tagged(team: str | None) -> Principal:
    tags = {} if team is None else {"team": team}
    return Principal("user", JOHN.arn, ACCOUNT, JOHN.arn, "AIDA", "John", tags)


@pytest.mark.parametrize(
    ("team", "resource", "expected"),
    [
        ("yellow", "arn:aws:s3:::b/yellow/k", True),
        ("yellow", "arn:aws:s3:::b/company-wide/k", False),
        (None, "arn:aws:s3:::b/company-wide/k", True),
        ("a*", "arn:aws:s3:::b/ab/k", False),
    ],
)
def test_a_variable_has_a_default(team: str | None, resource: str, expected: bool) -> None:
    """reference_policies_variables: ${aws:PrincipalTag/team, 'company-wide'}."""
    own = policy(allow("s3:*", "arn:aws:s3:::b/${aws:PrincipalTag/team, 'company-wide'}/*"))
    access = Access("s3:GetObject", resource, ACCOUNT)
    assert evaluate(tagged(team), access, Policies((own,))).allowed == expected


def test_variables_are_text_in_the_old_version() -> None:
    """reference_policies_elements_version: without 2012-10-17 ${aws:username} is no variable."""
    own = policy(allow("s3:*", "arn:aws:s3:::b/${aws:username}"), version="2008-10-17")
    for name, expected in (("John", False), ("${aws:username}", True)):
        access = Access("s3:GetObject", f"arn:aws:s3:::b/{name}", ACCOUNT)
        assert evaluate(JOHN, access, Policies((own,))).allowed == expected


def test_a_home_folder() -> None:
    """reference_policies_examples_s3_home-directory-console: prefixes and objects by the user's name."""
    own = policy(
        allow(
            "s3:ListBucket",
            "arn:aws:s3:::b",
            Condition={"StringLike": {"s3:prefix": ["", "home/", "home/${aws:username}/*"]}},
        ),
        allow(
            "s3:*", ["arn:aws:s3:::b/home/${aws:username}", "arn:aws:s3:::b/home/${aws:username}/*"]
        ),
    )
    for prefix, expected in (("home/", True), ("home/John/x", True), ("home/Ann/", False)):
        listing = Access("s3:ListBucket", "arn:aws:s3:::b", ACCOUNT, {"s3:prefix": (prefix,)})
        assert evaluate(JOHN, listing, Policies((own,))).allowed == expected
    for key, expected in (("home/John/k", True), ("home/Ann/k", False)):
        access = Access("s3:PutObject", f"arn:aws:s3:::b/{key}", ACCOUNT)
        assert evaluate(JOHN, access, Policies((own,))).allowed == expected


def test_a_regions_denial_spares_global_services() -> None:
    """reference_policies_examples_aws_deny-requested-region: Deny with NotAction and aws:RequestedRegion."""
    own = policy(
        allow(),
        {
            "Effect": "Deny",
            "NotAction": ["iam:*", "sts:*"],
            "Resource": "*",
            "Condition": {"StringNotEquals": {"aws:RequestedRegion": ["eu-west-1"]}},
        },
    )
    for action, region, expected in (
        ("kinesis:PutRecord", "eu-west-1", True),
        ("kinesis:PutRecord", "us-east-1", False),
        ("iam:GetRole", "us-east-1", True),
    ):
        access = Access(action, STREAM, ACCOUNT, {"aws:requestedregion": (region,)})
        assert evaluate(JOHN, access, Policies((own,))).allowed == expected


def test_a_service_may_act_for_one_source_only() -> None:
    """confused-deputy: a queue's policy with aws:SourceArn and aws:SourceAccount."""
    topic = f"arn:aws:sns:eu-west-1:{ACCOUNT}:t"
    queue = policy(
        allow(
            "sqs:SendMessage",
            Principal={"Service": "sns.amazonaws.com"},
            Condition={
                "ArnEquals": {"aws:SourceArn": topic},
                "StringEquals": {"aws:SourceAccount": ACCOUNT},
            },
        )
    )
    sns = Principal("service", "sns.amazonaws.com")
    for source, expected in ((topic, True), (f"{topic}2", False)):
        context = {"aws:sourcearn": (source,), "aws:sourceaccount": (ACCOUNT,)}
        access = Access("sqs:SendMessage", "q", ACCOUNT, context)
        assert evaluate(sns, access, Policies(resource=queue)).allowed == expected


@pytest.mark.parametrize(
    ("principal", "key", "value"),
    [
        (JOHN, "aws:PrincipalArn", JOHN.arn),
        (JOHN, "aws:PrincipalType", "User"),
        (JOHN, "aws:userid", "AIDAJOHN"),
        (MAPPER, "aws:PrincipalArn", MAPPER.identity_arn),
        (MAPPER, "aws:PrincipalType", "AssumedRole"),
        (MAPPER, "aws:userid", "AROAMAPPER:session"),
        (MAPPER, "aws:PrincipalAccount", ACCOUNT),
        (MAPPER, "aws:ResourceAccount", ACCOUNT),
        (MAPPER, "aws:SecureTransport", "true"),
        (MAPPER, "aws:ViaAWSService", "false"),
    ],
)
def test_keys_that_follow_from_the_caller(principal: Principal, key: str, value: str) -> None:
    own = policy(allow(Condition={"StringEquals": {key: value}}))
    access = Access("s3:Get", "x", ACCOUNT)
    assert evaluate(principal, access, Policies((own,))).allowed
    assert not evaluate(
        principal, access, Policies((own, policy(deny(Condition={"Null": {key: "false"}}))))
    ).allowed


def test_a_sessions_tags_win() -> None:
    caller = Principal(
        "role",
        MAPPER.arn,
        ACCOUNT,
        MAPPER.identity_arn,
        tags={"team": "a", "x": "y"},
        session_tags={"team": "b"},
    )
    for key, value, expected in (
        ("team", "b", True),
        ("Team", "b", True),
        ("team", "a", False),
        ("x", "y", True),
    ):
        own = policy(allow(Condition={"StringEquals": {f"aws:PrincipalTag/{key}": value}}))
        assert evaluate(caller, Access("s3:Get", "x"), Policies((own,))).allowed == expected
