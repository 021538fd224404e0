"""Who may do what: the logic of AWS's pages "Policy evaluation logic" (one account, and across accounts)."""

from __future__ import annotations

import time

import pytest

from headrace.permissions.policies.evaluate import denial, evaluate, keys_asked
from headrace.permissions.policies.model import Access, Policies, Principal
from tests.unit.permissions.parties import (
    ACCOUNT,
    JOHN,
    LAMBDA,
    MAPPER,
    NOBODY,
    OTHER,
    PUT,
    ROOT,
    allow,
    deny,
    policy,
)

ALL = policy(allow())
TO_JOHN = allow(Principal={"AWS": JOHN.arn})
TO_ROLE = allow(Principal={"AWS": MAPPER.identity_arn})
TO_SESSION = allow(Principal={"AWS": MAPPER.arn})
TO_ACCOUNT = allow(Principal={"AWS": ACCOUNT})
TO_ROOT = allow(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
TO_ALL = allow(Principal="*")
NOT_PUT = policy(allow("kinesis:Get*"))
ELSEWHERE = Access(PUT.action, PUT.resource.replace(ACCOUNT, OTHER), OTHER)


@pytest.mark.parametrize(
    ("principal", "policies", "effect", "layer"),
    [
        (JOHN, Policies(), "implicit deny", "identity-based policy"),
        (JOHN, Policies((ALL,)), "allow", "identity-based policy"),
        (JOHN, Policies((ALL, policy(deny()))), "explicit deny", "identity-based policy"),
        (ROOT, Policies(), "allow", "identity-based policy"),
        (ROOT, Policies(resource=policy(deny(Principal="*"))), "explicit deny", "resource-based policy"),
        # A boundary limits what the user's own policies give, and gives nothing.
        (JOHN, Policies((ALL,), boundary=NOT_PUT), "implicit deny", "permissions boundary"),
        (JOHN, Policies((), boundary=ALL), "implicit deny", "identity-based policy"),
        (JOHN, Policies((ALL,), boundary=policy(deny())), "explicit deny", "permissions boundary"),
        (MAPPER, Policies((ALL,), session=(NOT_PUT,)), "implicit deny", "session policy"),
        (MAPPER, Policies((ALL,), session=()), "implicit deny", "session policy"),
        (MAPPER, Policies((ALL,), session=(NOT_PUT, ALL)), "allow", "identity-based policy"),
        (MAPPER, Policies((ALL,), session=(policy(deny()),)), "explicit deny", "session policy"),
        # A resource's policy suffices in its own account, for whom it names outright.
        (JOHN, Policies(boundary=NOT_PUT, resource=policy(TO_JOHN)), "allow", "resource-based policy"),
        (JOHN, Policies(resource=policy(TO_ALL)), "allow", "resource-based policy"),
        (JOHN, Policies(resource=policy(TO_ACCOUNT)), "implicit deny", "identity-based policy"),
        (JOHN, Policies(resource=policy(TO_ROOT)), "implicit deny", "identity-based policy"),
        (JOHN, Policies(resource=policy(TO_ROLE)), "implicit deny", "identity-based policy"),
        (MAPPER, Policies(resource=policy(TO_ROLE)), "allow", "resource-based policy"),
        (MAPPER, Policies(boundary=NOT_PUT, resource=policy(TO_ROLE)), "implicit deny", "permissions boundary"),
        (MAPPER, Policies(session=(NOT_PUT,), resource=policy(TO_ROLE)), "implicit deny", "session policy"),
        (
            MAPPER,
            Policies(boundary=NOT_PUT, session=(NOT_PUT,), resource=policy(TO_SESSION)),
            "allow",
            "resource-based policy",
        ),
        (LAMBDA, Policies(), "implicit deny", "resource-based policy"),
        (LAMBDA, Policies(resource=policy(TO_ROOT)), "implicit deny", "resource-based policy"),
        (
            LAMBDA,
            Policies(resource=policy(allow(Principal={"Service": "lambda.amazonaws.com"}))),
            "allow",
            "resource-based policy",
        ),
        (NOBODY, Policies(resource=policy(TO_ALL)), "allow", "resource-based policy"),
        (NOBODY, Policies(resource=policy(TO_ROOT)), "implicit deny", "resource-based policy"),
    ],
)  # fmt: skip
def test_within_one_account(
    principal: Principal, policies: Policies, effect: str, layer: str
) -> None:
    decision = evaluate(principal, PUT, policies)
    assert (decision.effect, decision.layer) == (effect, layer)
    assert decision.allowed == (effect == "allow")


@pytest.mark.parametrize(
    ("policies", "effect", "layer"),
    [
        (Policies((ALL,)), "implicit deny", "resource-based policy"),
        (Policies(resource=policy(TO_JOHN)), "implicit deny", "identity-based policy"),
        (Policies((ALL,), resource=policy(TO_JOHN)), "allow", "identity-based policy"),
        (Policies((ALL,), resource=policy(TO_ACCOUNT)), "allow", "identity-based policy"),
        (Policies((ALL,), resource=policy(TO_ALL)), "allow", "identity-based policy"),
        (Policies((ALL,), NOT_PUT, resource=policy(TO_JOHN)), "implicit deny", "permissions boundary"),
        (
            Policies((ALL,), resource=policy(TO_JOHN, deny(Principal="*"))),
            "explicit deny",
            "resource-based policy",
        ),
    ],
)  # fmt: skip
def test_across_accounts_both_must_allow(policies: Policies, effect: str, layer: str) -> None:
    decision = evaluate(JOHN, ELSEWHERE, policies)
    assert (decision.effect, decision.layer) == (effect, layer)


@pytest.mark.parametrize(
    ("named", "is_denied"),
    [
        # Who is spared must be named by session, role and account: the page of NotPrincipal.
        ([MAPPER.arn, MAPPER.identity_arn, f"arn:aws:iam::{ACCOUNT}:root"], False),
        ([MAPPER.arn, MAPPER.identity_arn], True),
        ([MAPPER.identity_arn, ACCOUNT], True),
    ],
)
def test_a_deny_with_not_principal_spares_whom_it_names_whole(
    named: list[str], is_denied: bool
) -> None:
    statement = {k: v for k, v in deny().items() if k != "Principal"}
    bucket = policy({**statement, "NotPrincipal": {"AWS": named}})
    decision = evaluate(MAPPER, PUT, Policies((ALL,), resource=bucket))
    assert decision.allowed != is_denied


def test_a_role_is_assumed_only_by_leave_of_its_trust_policy() -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/HR"
    assume = Access("sts:AssumeRole", role, ACCOUNT)
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole"}
    to_account = policy({**trust, "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}})
    to_john = policy({**trust, "Principal": {"AWS": JOHN.arn}})
    refused = evaluate(JOHN, assume, Policies((ALL,)))
    assert denial(JOHN, assume, refused) == (
        f"User: {JOHN.arn} is not authorized to perform: sts:AssumeRole "
        "because no role trust policy allows the sts:AssumeRole action"
    )
    assert not evaluate(JOHN, assume, Policies(resource=to_account)).allowed
    assert evaluate(JOHN, assume, Policies((ALL,), resource=to_account)).allowed
    assert evaluate(JOHN, assume, Policies(resource=to_john)).allowed


def test_a_key_is_used_only_by_leave_of_its_policy() -> None:
    use = Access("kms:Decrypt", f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1", ACCOUNT)
    silent = policy(allow(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/other"}))
    refused = evaluate(JOHN, use, Policies((ALL,), resource=silent))
    assert refused.layer == "resource-based policy"
    assert evaluate(JOHN, use, Policies((ALL,), resource=policy(TO_ROOT))).allowed
    assert evaluate(JOHN, use, Policies(resource=policy(TO_JOHN))).allowed


# The sentences of AWS's page "Troubleshoot access denied error messages".
@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        (Policies(), "because no identity-based policy allows the kinesis:PutRecord action"),
        (Policies((ALL,), NOT_PUT), "because no permissions boundary allows the kinesis:PutRecord action"),
        (Policies((ALL,), session=()), "because no session policy allows the kinesis:PutRecord action"),
        (Policies((policy(deny()),)), "with an explicit deny in an identity-based policy"),
        (Policies(boundary=policy(deny())), "with an explicit deny in a permissions boundary"),
        (Policies(session=(policy(deny()),)), "with an explicit deny in a session policy"),
        (
            Policies(resource=policy(deny(Principal="*"))),
            "with an explicit deny in a resource-based policy",
        ),
    ],
)  # fmt: skip
def test_a_refusal_has_awss_sentence(policies: Policies, reason: str) -> None:
    decision = evaluate(JOHN, PUT, policies)
    assert denial(JOHN, PUT, decision) == (
        f"User: {JOHN.arn} is not authorized to perform: kinesis:PutRecord "
        f"on resource: {PUT.resource} {reason}"
    )


def test_a_decision_names_the_statements_that_made_it() -> None:
    both = policy(
        allow("kinesis:Get*", Sid="Reads"), allow("kinesis:Put*", Sid="Writes"), name="app"
    )
    decision = evaluate(JOHN, PUT, Policies((both,)))
    assert [(m.policy.name, m.index, m.sid) for m in decision.matched] == [("app", 1, "Writes")]


def test_thousands_of_statements_with_exploding_wildcards_take_linear_time() -> None:
    resource = "arn:aws:s3:::" + "a" * 2000
    many = [
        allow(f"kinesis:{'*a' * 30}{n}", f"arn:aws:s3:::{'*?a' * 100}{n}") for n in range(500)
    ] + [allow("kinesis:*", f"arn:aws:s3:::{'*a?' * 50}b{n}") for n in range(500)]
    large = policy(*many)
    started = time.process_time()
    decision = evaluate(JOHN, Access("kinesis:" + "a" * 500, resource), Policies((large,)))
    assert decision.effect == "implicit deny"
    # A tenth of this on a free machine; a backtracking matcher would not end.
    assert time.process_time() - started < 10


def test_the_keys_that_a_decision_depends_on() -> None:
    own = policy(
        allow("kinesis:*", "arn:aws:kinesis:*:*:stream/${aws:username}"),
        deny(
            "kinesis:Put*",
            Condition={"DateGreaterThan": {"aws:CurrentTime": "${aws:TokenIssueTime}"}},
        ),
        allow("s3:*", Condition={"Bool": {"aws:SecureTransport": "true"}}),
    )
    assert keys_asked(PUT, Policies((own,))) == {
        "aws:username", "aws:currenttime", "aws:tokenissuetime",
    }  # fmt: skip
    assert keys_asked(PUT, Policies((ALL,))) == frozenset()
