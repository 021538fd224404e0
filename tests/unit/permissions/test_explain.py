"""Why a decision is as it is, statement by statement."""

from __future__ import annotations

from headrace.permissions.decisions.explanations import explain
from headrace.permissions.policies.model import Policies
from tests.unit.permissions.parties import JOHN, PUT, STREAM, allow, deny, policy


def test_each_statement_says_what_did_not_fit() -> None:
    own = policy(
        allow("kinesis:Get*", Sid="Reads"),
        allow("kinesis:Put*", f"{STREAM}-2", Sid="Other"),
        allow("kinesis:Put*", STREAM, Condition={"StringEquals": {"aws:PrincipalTag/team": "x"}}),
        {"Effect": "Deny", "NotAction": "kinesis:*", "Resource": "*"},
        name="app",
    )
    bucket = policy(allow(Principal={"AWS": "444455556666"}), name="of the stream")
    told = explain(JOHN, PUT, Policies((own,), resource=bucket))
    assert not told.decision.allowed
    assert told.lines() == (
        (
            f"User: {JOHN.arn} is not authorized to perform: kinesis:PutRecord on resource: {STREAM} "
            "because no identity-based policy allows the kinesis:PutRecord action"
        ),
        "  identity-based policy app, Reads, statement 1: does not apply (Action does not list kinesis:PutRecord)",
        f"  identity-based policy app, Other, statement 2: does not apply (Resource does not match {STREAM})",
        (
            "  identity-based policy app, statement 3: does not apply "
            "(StringEquals on aws:principaltag/team wants x, which is not in the request)"
        ),
        "  identity-based policy app, statement 4: does not apply (NotAction lists kinesis:PutRecord)",
        f"  resource-based policy of the stream, statement 1: does not apply (Principal does not name {JOHN.arn})",
    )


def test_what_applied_comes_first() -> None:
    both = policy(
        allow("s3:*"), allow("kinesis:*"), deny("kinesis:Put*", Sid="NoWrites"), name="app"
    )
    told = explain(JOHN, PUT, Policies((both,)))
    assert [line.split(": ")[1].partition(" (")[0] for line in told.lines()[1:]] == [
        "allows", "denies", "does not apply",
    ]  # fmt: skip
    assert told.sentence.endswith("with an explicit deny in an identity-based policy")
    assert explain(JOHN, PUT, Policies((policy(allow()),))).lines()[0] == (
        "Allowed by the identity-based policy."
    )
