"""The app's roles are no wider than they must be: each action of each statement is taken away, and somebody lacks it.

The app is deployed and its stages run once, with a record that fails. Then each action of each statement is taken away
alone, and what the roles did is judged again: AWS must deny some of it, or the action is in `NOT_SEEN` with its reason.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.flights import iter_events
from headrace.core.ports import CallerIdentity
from headrace.permissions.decisions.identity import identity_of
from headrace.permissions.decisions.judge import Entry
from headrace.permissions.decisions.report import report_of
from headrace.permissions.policies.evaluate import evaluate
from headrace.permissions.policies.model import NamedPolicy, Policies
from headrace.testing.clouds import ServedCloud
from headrace.testing.stacks import DeployedStacks, deploy
from tests.support.server import wait_until

FLIGHTS = 20
_JOB = "no job runs in this test; in `test_mutations.py` one does"
# By role and action, why nobody lacks it here.
NOT_SEEN = {
    ("NodeRole", "s3:*"): _JOB,
    ("NodeRole", "kinesis:*"): _JOB,
    (
        "Enrich",
        "kinesis:SubscribeToShard",
    ): "the CDK grants it with the reads; no consumer is registered",
    ("FlightsRole", "kinesis:ListShards"): "AWS's page for Firehose's roles has it; no call asks",
    ("Enrich", "kinesis:DescribeStreamConsumer"): "the CDK grants it with the reads",
    ("Enrich", "kinesis:DescribeStreamSummary"): "the CDK grants it with the reads",
    ("Enrich", "kinesis:ListStreams"): "the CDK grants it with the reads",
    ("Enrich", "kinesis:ListShards"): "the CDK grants it with the reads",
    ("Enrich", "sqs:GetQueueAttributes"): "the CDK grants it with sending",
    ("Enrich", "sqs:GetQueueUrl"): "the CDK grants it with sending",
}


@dataclass(frozen=True)
class Ran:
    """The deployed app after its stages have run."""

    cloud: ServedCloud
    stacks: DeployedStacks
    entries: list[Entry]


@pytest.fixture(scope="module")
def ran(assembly: Path) -> Iterator[Ran]:
    with ServedCloud() as cloud:
        stacks = deploy(cloud, assembly)
        events = [event for _, event in zip(range(FLIGHTS), iter_events(1), strict=False)]
        records = [{"Data": json.dumps(e).encode(), "PartitionKey": e["carrier"]} for e in events]
        kinesis = cloud.client("kinesis")
        kinesis.put_records(
            StreamName=stacks.outputs["FlightsStreamName"],
            Records=[*records, {"Data": b"no flight", "PartitionKey": "x"}],
        )
        # What Firehose cannot convert it logs.
        kinesis.put_record(
            StreamName=stacks.outputs["EnrichedStreamName"], Data=b"no JSON", PartitionKey="x"
        )

        def delivered() -> bool:
            cloud.advance(seconds=30)
            status = cloud.cloud.firehose.statuses()[0]
            return status["delivered_records"] >= FLIGHTS and status["failed_records"] == 1

        wait_until(delivered, within_s=120)
        queue = stacks.outputs["FailureQueueUrl"]

        def failed() -> Any:
            cloud.advance(seconds=30)
            return cloud.client("sqs").receive_message(QueueUrl=queue).get("Messages")

        wait_until(failed, within_s=120)
        yield Ran(cloud, stacks, cloud.cloud.decisions.entries())


def test_aws_would_deny_nothing(ran: Ran) -> None:
    report = report_of(ran.cloud.cloud.decisions)
    assert report["denied"] == []
    assert report["unknown"] == []
    assert report["accesses"] > FLIGHTS


def short(role: str) -> str:
    """Return a role's name in the app, without the stack's and the letters that CloudFormation adds."""
    known = ("NodeRole", "ServiceRole", "Enrich", "FlightsRole", "AutoDelete")
    return next((name for name in known if name in role), role)


def own_policies(ran: Ran) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield role, policy's name and document of what the app's stacks give to roles."""
    iam = ran.cloud.client("iam")
    for role in iam.list_roles()["Roles"]:
        if role["RoleName"].startswith("headrace-"):
            for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
                found = iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)
                yield role["Arn"], name, found["PolicyDocument"]


def mutations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each action of each statement, and the document without it."""
    for place, statement in enumerate(document["Statement"]):
        given = statement["Action"]
        for action in given if isinstance(given, list) else [given]:
            changed = copy.deepcopy(document)
            left = [a for a in (given if isinstance(given, list) else [given]) if a != action]
            if left:
                changed["Statement"][place]["Action"] = left
            else:
                del changed["Statement"][place]
            yield action, changed


def lacks(ran: Ran, role_arn: str, policy: str, document: dict[str, Any]) -> bool:
    """Whether AWS would deny some of what a role did, had it this document for that policy."""
    people = ran.cloud.cloud.decisions.people
    identity = identity_of(CallerIdentity(role_arn, "s"))
    principal, own = people.principal(identity), people.policies(identity)
    assert principal is not None
    changed = NamedPolicy.of(policy, json.dumps(document))
    identity_policies = tuple(
        changed if p.name == policy and not p.arn else p for p in own.identity
    )
    mine = [entry.access for entry in ran.entries if entry.identity.arn == identity.arn]
    return any(
        not evaluate(principal, access, Policies(identity_policies, own.boundary)).allowed
        for access in mine
    )


def reason(role: str, action: str) -> str:
    whole = f"{action.partition(':')[0]}:*"
    return NOT_SEEN.get((short(role), action)) or NOT_SEEN.get((short(role), whole)) or ""


def test_each_action_is_needed_or_justified(ran: Ran) -> None:
    needed: set[tuple[str, str]] = set()
    idle: set[tuple[str, str]] = set()
    for role, policy, document in own_policies(ran):
        assert not lacks(ran, role, policy, document)
        for action, changed in mutations(document):
            found = needed if lacks(ran, role, policy, changed) else idle
            found.add((role, action))
    unexplained = {(short(role), action) for role, action in idle if not reason(role, action)}
    assert unexplained == set()
    # Those that are justified and needed after all are to be taken from the list.
    assert {(short(r), a) for r, a in needed if (short(r), a) in NOT_SEEN} == set()
    assert len(needed) >= 20


# Nine of them are taken away for real: the policy is put, the stage runs again, and the report names what lacks.
SAMPLE = [
    ("FlightsRole", "kinesis:GetRecords"),
    ("FlightsRole", "kinesis:GetShardIterator"),
    ("FlightsRole", "kinesis:DescribeStream"),
    ("FlightsRole", "s3:PutObject"),
    ("FlightsRole", "s3:ListBucket"),
    ("FlightsRole", "glue:GetTableVersions"),
    ("Enrich", "kinesis:GetRecords"),
    ("Enrich", "kinesis:PutRecords"),
    ("Enrich", "logs:PutLogEvents"),
]


def test_the_report_names_what_is_taken_away(ran: Ran) -> None:
    iam, kinesis = ran.cloud.client("iam"), ran.cloud.client("kinesis")
    before: dict[tuple[str, str], dict[str, Any]] = {}
    for role, policy, document in own_policies(ran):
        gone = {action for name, action in SAMPLE if name == short(role)}
        changed = copy.deepcopy(document)
        for statement in changed["Statement"]:
            given = statement["Action"]
            kept = [a for a in (given if isinstance(given, list) else [given]) if a not in gone]
            statement["Action"] = kept or ["sts:GetCallerIdentity"]
        if changed != document:
            before[role, policy] = document
            name = role.rpartition("/")[2]
            iam.put_role_policy(
                RoleName=name, PolicyName=policy, PolicyDocument=json.dumps(changed)
            )
    event = next(iter(iter_events(1)))
    data = json.dumps({**event, "event_id": "again"}).encode()
    kinesis.put_record(StreamName="flights", Data=data, PartitionKey="x")

    def named() -> bool:
        ran.cloud.advance(seconds=30)
        rows = report_of(ran.cloud.cloud.decisions)["denied"]
        found = {(short(row["principal"]), row["action"]) for row in rows}
        return set(SAMPLE) <= found

    try:
        wait_until(named, within_s=120)
    finally:
        for (role, policy), document in before.items():
            name, text = role.rpartition("/")[2], json.dumps(document)
            iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=text)
