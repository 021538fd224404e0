"""What requests say of an operation: stack policies, notifications, time limits, deletion by force, retained resources.

Sources: the user guide (protect-stack-resources.html, stack-failure-options.html), API_CreateStack, API_DeleteStack;
the form of a notification and the sentences of denials were observed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.cloudformation.deployment.stack_operation import Deployment
from headrace.services.cloudformation.deployment.stack_resources import denial
from tests.api.cloudformation.helpers import Lab, thing
from tests.api.cloudformation.test_stacks import create, physical, queue, refused, settled, update
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("settings")) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def cfn(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudformation")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab()
    lab.install(monkeypatch)
    return lab


def body(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def failures(cfn: Any, name: str) -> dict[str, str]:
    return {
        event["LogicalResourceId"]: event.get("ResourceStatusReason", "")
        for event in reversed(cfn.describe_stack_events(StackName=name)["StackEvents"])
        if event["ResourceStatus"].endswith("FAILED")
    }


def reasons(cfn: Any, name: str) -> list[str]:
    """Return the reasons of the stack's own states."""
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    return [e.get("ResourceStatusReason", "") for e in events if e["LogicalResourceId"] == name]


def test_a_failure_says_what_was_to_be_made_and_what_to_be_changed(cfn: Any, lab: Lab):
    create(cfn, body(Old=thing()), "both")
    meeting, left = threading.Barrier(2, timeout=10), {"Old", "New"}

    def meet(name: str) -> None:
        if name in left:  # the way back works on them once more
            left.discard(name)
            meeting.wait()

    lab.does = {"Old": lambda: meet("Old"), "New": lambda: meet("New")}
    changed = body(Old=thing({"update": "told"}), New=thing({"create": "told"}))
    assert update(cfn, changed, "both") == "UPDATE_ROLLBACK_COMPLETE"
    assert (
        "The following resource(s) failed to create: [New]."
        " The following resource(s) failed to update: [Old]."
    ) in reasons(cfn, "both")


# --- stack policies ---------------------------------------------------------------------------

ALLOW = {"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Statement": list(statements)})


def deny(action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Deny", "Action": action, "Principal": "*", "Resource": resource, **more}


ONLY_QUEUES = {"Condition": {"StringEquals": {"ResourceType": ["AWS::SQS::Queue"]}}}
ONLY_SQS = {"Condition": {"StringLike": {"ResourceType": "AWS::SQS::*"}}}
NOT_MODIFY = {"Effect": "Deny", "NotAction": "Update:Modify", "Principal": "*", "Resource": "*"}
NOT_Q = {"Effect": "Allow", "Action": "Update:*", "Principal": "*"} | {
    "NotResource": "LogicalResourceId/Q"
}


@pytest.mark.parametrize(
    ("statements", "action", "name", "kind", "allowed"),
    [
        ([ALLOW], "Update:Delete", "Q", "AWS::SQS::Queue", True),
        ([], "Update:Modify", "Q", "AWS::SQS::Queue", False),
        ([ALLOW, deny("Update:Replace")], "Update:Replace", "Q", "AWS::SQS::Queue", False),
        ([ALLOW, deny("Update:Replace")], "Update:Modify", "Q", "AWS::SQS::Queue", True),
        ([deny("Update:*", "LogicalResourceId/Q*"), ALLOW], "Update:Modify", "Queue", "T", False),
        ([deny("Update:*", ["LogicalResourceId/A"]), ALLOW], "Update:Modify", "Q", "T", True),
        ([ALLOW, deny("Update:*", **ONLY_QUEUES)], "Update:Modify", "Q", "AWS::SQS::Queue", False),
        ([ALLOW, deny("Update:*", **ONLY_QUEUES)], "Update:Modify", "Q", "AWS::S3::Bucket", True),
        ([ALLOW, deny("Update:*", **ONLY_SQS)], "Update:Modify", "Q", "AWS::SQS::Queue", False),
        ([ALLOW, NOT_MODIFY], "Update:Modify", "Q", "T", True),
        ([ALLOW, NOT_MODIFY], "Update:Delete", "Q", "T", False),
        ([NOT_Q], "Update:Modify", "Q", "T", False),
        ([NOT_Q], "Update:Modify", "R", "T", True),
    ],
)
def test_a_policy_decides(
    statements: list[dict[str, Any]], action: str, name: str, kind: str, allowed: bool
):
    assert (denial(policy(*statements), action, name, kind) == "") == allowed


def test_an_update_is_held_against_the_stack_s_policy(cfn: Any):
    before = body(Q=queue(DelaySeconds=1), Other=queue())
    kept = policy(ALLOW, deny(["Update:Modify", "Update:Delete"], "LogicalResourceId/Q"))
    create(cfn, before, "kept", StackPolicyBody=kept)
    assert update(cfn, body(Q=queue(DelaySeconds=2), Other=queue()), "kept") == (
        "UPDATE_ROLLBACK_COMPLETE"
    )
    assert failures(cfn, "kept")["Q"] == (
        "Action denied by stack policy: Statement [#2] does not allow [Update:Modify] for resource"
        " [LogicalResourceId/Q];"
    )
    assert update(cfn, body(Other=queue()), "kept") == "UPDATE_ROLLBACK_COMPLETE"
    assert "The following resource(s) failed to update: [Q]." in reasons(cfn, "kept")
    assert "[Update:Delete]" in failures(cfn, "kept")["Q"]
    assert physical(cfn, "Q", "kept")
    # What the policy does not protect is updated; so is all, for one update.
    assert update(cfn, body(Q=queue(DelaySeconds=1), Other=queue(DelaySeconds=9)), "kept") == (
        "UPDATE_COMPLETE"
    )
    changed = body(Q=queue(DelaySeconds=2), Other=queue(DelaySeconds=9))
    for_now = {"StackPolicyDuringUpdateBody": policy(ALLOW)}
    assert update(cfn, changed, "kept", **for_now) == "UPDATE_COMPLETE"
    assert cfn.get_stack_policy(StackName="kept")["StackPolicyBody"] == kept
    assert update(cfn, before, "kept") == "UPDATE_ROLLBACK_COMPLETE"


def test_without_a_statement_that_allows_it_nothing_is_updated(cfn: Any):
    create(cfn, body(Q=queue()), "shut", StackPolicyBody=policy())
    assert update(cfn, body(Q=queue(DelaySeconds=1)), "shut") == "UPDATE_ROLLBACK_COMPLETE"
    assert failures(cfn, "shut")["Q"] == "Action not allowed by stack policy"


# --- notifications ----------------------------------------------------------------------------


def test_each_event_goes_to_the_stack_s_topics(cloud: InProcessCloud, cfn: Any):
    sqs, sns = cloud.client("sqs"), cloud.client("sns")
    url = sqs.create_queue(QueueName="events")["QueueUrl"]
    topic = sns.create_topic(Name="events")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:{ACCOUNT}:events")
    create(cfn, body(Q=queue(DelaySeconds=3)), "told", NotificationARNs=[topic])
    stack = cfn.describe_stacks(StackName="told")["Stacks"][0]["StackId"]
    messages: list[dict[str, Any]] = []

    def all_came() -> bool:
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        messages.extend(json.loads(each["Body"]) for each in got)
        return len(messages) >= 5

    wait_until(all_came, what="the notifications")
    assert {each["Subject"] for each in messages} == {"AWS CloudFormation Notification"}
    texts = [each["Message"] for each in messages]
    lines = next(t for t in texts if "ResourceType='AWS::SQS::Queue'" in t).splitlines()
    assert lines[0] == f"StackId='{stack}'"
    assert [line.partition("=")[0] for line in lines] == [
        "StackId", "Timestamp", "EventId", "LogicalResourceId", "Namespace", "PhysicalResourceId",
        "ResourceProperties", "ResourceStatus", "ResourceStatusReason", "ResourceType", "StackName",
        "ClientRequestToken",
    ]  # fmt: skip
    assert "ResourceProperties='{\"DelaySeconds\": 3}'" in lines
    assert any(
        "ResourceStatus='CREATE_COMPLETE'\n" in t and "CloudFormation::Stack" in t for t in texts
    )


@pytest.mark.parametrize(
    ("topic", "sentence", "status"),
    [
        (
            f"arn:aws:sns:{REGION}:{ACCOUNT}:nobody",
            "Topic does not exist",
            "Status Code: 404; Error Code: NotFound;",
        ),
        (
            "nonsense",
            "Invalid parameter: TopicArn",
            "Status Code: 400; Error Code: InvalidParameter;",
        ),
    ],
)
def test_a_topic_that_sns_refuses_is_refused(cfn: Any, topic: str, sentence: str, status: str):
    named = {"TemplateBody": json.dumps(body(Q=queue())), "NotificationARNs": [topic]}
    code, said = refused(cfn.create_stack, StackName="untold", **named)
    assert code == "ValidationError"
    assert said.startswith(sentence)
    assert f" (Service: AmazonSNS; {status} Request ID: " in said
    assert "does not exist" in refused(cfn.describe_stacks, StackName="untold")[1]
    name = f"silent-{len(topic)}"
    create(cfn, body(Q=queue(DelaySeconds=1)), name)
    assert refused(cfn.update_stack, StackName=name, **named)[1].startswith(sentence)
    change = cfn.create_change_set(StackName=name, ChangeSetName="c", **named)["Id"]
    assert refused(cfn.execute_change_set, ChangeSetName=change)[1].startswith(sentence)
    assert settled(cfn, name) == "CREATE_COMPLETE"


def test_the_topics_of_other_accounts_are_taken_as_they_are(cfn: Any):
    theirs = [f"arn:aws:sns:{REGION}:111111111111:theirs"]
    assert create(cfn, body(Q=queue()), "theirs", NotificationARNs=theirs) == "CREATE_COMPLETE"


# --- the end of an operation ------------------------------------------------------------------


def test_a_creation_that_takes_too_long_is_rolled_back(
    cloud: InProcessCloud, cfn: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    deployments: list[Deployment] = []
    begin = Deployment.create
    monkeypatch.setattr(
        Deployment, "create", lambda self: (deployments.append(self), begin(self))[1]
    )
    cfn.create_stack(
        StackName="late",
        TemplateBody=json.dumps(body(A=thing(), B=thing({"create": "wait"}, depends_on="A"))),
        TimeoutInMinutes=1,
    )
    assert lab.waiting.wait(10)
    deployments[0].time_out()
    assert settled(cfn, "late") == "ROLLBACK_COMPLETE"
    reasons = [
        event.get("ResourceStatusReason")
        for event in cfn.describe_stack_events(StackName="late")["StackEvents"]
    ]
    assert (
        "Stack creation time exceeded the specified timeout. Rollback requested by user." in reasons
    )
    assert lab.made == set()


def test_a_stack_is_deleted_by_force_when_it_could_not_be(cfn: Any, lab: Lab):
    create(cfn, body(A=thing({"delete": "x"}), B=thing()), "stuck")
    stack = cfn.describe_stacks(StackName="stuck")["Stacks"][0]["StackId"]
    for given in ({"DeletionMode": "FORCE_DELETE_STACK"}, {"RetainResources": ["A"]}):
        code, message = refused(cfn.delete_stack, StackName="stuck", **given)
        assert (code, message.startswith(f"Invalid operation on stack [{stack}].")) == (
            "ValidationError",
            True,
        )
    cfn.delete_stack(StackName="stuck")
    assert settled(cfn, stack) == "DELETE_FAILED"
    cfn.delete_stack(StackName="stuck", DeletionMode="FORCE_DELETE_STACK")
    assert settled(cfn, stack) == "DELETE_COMPLETE"
    found = {
        event["LogicalResourceId"]: event["ResourceStatus"]
        for event in reversed(cfn.describe_stack_events(StackName=stack)["StackEvents"])
    }
    assert (found["A"], found["B"]) == ("DELETE_SKIPPED", "DELETE_COMPLETE")


@pytest.mark.parametrize(
    ("kept_by", "given", "left"),
    [
        ("Retain", {}, 1),
        ("RetainExceptOnCreate", {}, 0),
        ("Retain", {"RetainExceptOnCreate": True}, 0),
    ],
)
def test_a_rollback_deletes_what_is_retained_except_on_creation(
    cfn: Any, lab: Lab, kept_by: str, given: dict[str, Any], left: int
):
    name = f"except-{kept_by}-{len(given)}"
    kept = {**thing(), "DeletionPolicy": kept_by}
    bad = thing({"create": "x"}, depends_on="Kept")
    assert create(cfn, body(Kept=kept, Bad=bad), name, **given) == "ROLLBACK_COMPLETE"
    assert len(lab.made) == left

    create(cfn, body(First=thing()), f"{name}-2")
    lab.made.clear()
    resources = body(First=thing(), Kept=kept, Bad=bad)
    assert update(cfn, resources, f"{name}-2", **given) == "UPDATE_ROLLBACK_COMPLETE"
    assert len(lab.made) == left


def test_a_change_set_s_token_makes_it_once(cfn: Any):
    given = {
        "StackName": "token",
        "ChangeSetName": "cs",
        "ChangeSetType": "CREATE",
        "TemplateBody": json.dumps(body(Q=queue())),
    }
    first = cfn.create_change_set(**given, ClientToken="t")
    assert cfn.create_change_set(**given, ClientToken="t")["Id"] == first["Id"]
    assert refused(cfn.create_change_set, **given, ClientToken="u")[0] == "AlreadyExistsException"
