"""Statements that let other accounts in, added one by one: SQS's AddPermission and EventBridge's PutPermission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import client_of
from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, refusal, statements, trust

OTHER = "111111111111"
BUS = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/default"
ENTRY = {"Source": "me", "DetailType": "d", "Detail": "{}", "EventBusName": BUS}
THEIR_ROOT = f"arn:aws:iam::{OTHER}:root"
OWNER_ONLY = "Only the queue owner is allowed to invoke this action."
CHARACTERS = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
BROKEN = (
    "1 validation error detected: Value '{}' at '{}' failed to satisfy constraint: Member must "
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("others"), iam="enforce") as cloud:
        yield cloud


def theirs(cloud: InProcessCloud, service: str, role: str) -> Any:
    """Return a client of a role in another account, whose own policy lets it do all of a service's."""
    iam = cloud.client("iam", account=OTHER)
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(trust(THEIR_ROOT)))
    policy = json.dumps(statements(allow(f"{service}:*", "*")))
    iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=policy)
    sts = cloud.client("sts", account=OTHER)
    keys = sts.assume_role(RoleArn=f"arn:aws:iam::{OTHER}:role/{role}", RoleSessionName="s1")
    found = keys["Credentials"]
    key, token = found["AccessKeyId"], found["SessionToken"]
    return client_of(service, cloud.handle, account=key, region=REGION, token=token)


def policy_of_queue(cloud: InProcessCloud, url: str) -> Any:
    found = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
    return json.loads(found["Attributes"]["Policy"]) if "Attributes" in found else None


def test_a_queue_takes_messages_of_accounts_that_it_permits(cloud: InProcessCloud):
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="open")["QueueUrl"]
    role = theirs(cloud, "sqs", "sender")
    root = cloud.client("sqs", account=OTHER)
    for caller in (role, root):
        code, _, sentence = refusal(caller.send_message, QueueUrl=url, MessageBody="1")
        assert (code, "no resource-based policy" in sentence) == ("AccessDenied", True)
    add = {"QueueUrl": url, "Label": "l", "AWSAccountIds": [OTHER], "Actions": ["SendMessage"]}
    sqs.add_permission(**add)
    role.send_message(QueueUrl=url, MessageBody="1")
    root.send_message(QueueUrl=url, MessageBody="2")
    for caller in (role, root):
        assert refusal(caller.receive_message, QueueUrl=url)[0]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert {message["Body"] for message in found} == {"1", "2"}
    sqs.remove_permission(QueueUrl=url, Label="l")
    assert refusal(role.send_message, QueueUrl=url, MessageBody="3")[0] == "AccessDenied"


def test_labels_are_statements_of_a_queues_policy(cloud: InProcessCloud):
    """As recorded: LocalStack's test_sqs_permission_lifecycle."""
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="labelled")["QueueUrl"]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:labelled"
    add = {"QueueUrl": url, "Label": "one", "Actions": ["ReceiveMessage"]}
    sqs.add_permission(**add, AWSAccountIds=[OTHER, ACCOUNT])
    roots = [f"arn:aws:iam::{account}:root" for account in (OTHER, ACCOUNT)]
    assert policy_of_queue(cloud, url) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": roots},
                "Action": "SQS:ReceiveMessage",
                "Resource": arn,
            }
        ],
    }
    taken = "Value one for parameter Label is invalid. Reason: Already exists."
    assert refusal(sqs.add_permission, **add, AWSAccountIds=[OTHER])[2] == taken
    sqs.remove_permission(QueueUrl=url, Label="one")
    assert policy_of_queue(cloud, url) is None
    gone = "Value one for parameter Label is invalid. Reason: can't find label."
    assert refusal(sqs.remove_permission, QueueUrl=url, Label="one")[2] == gone
    # Statements without a Sid are nobody's label.
    bare = {**allow("sqs:SendMessage", arn), "Principal": "*"}
    text = json.dumps(statements(bare))
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": text})
    sqs.add_permission(**add, AWSAccountIds=[OTHER])
    assert [one.get("Sid") for one in policy_of_queue(cloud, url)["Statement"]] == [None, "one"]


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        ({"AWSAccountIds": ["12"]}, "InvalidParameterValue",
         "Value [12] for parameter PrincipalId is invalid. Reason: Unable to verify."),
        ({"Actions": ["CreateQueue"]}, "InvalidParameterValue",
         "Value SQS:CreateQueue for parameter ActionName is invalid. Reason: " + OWNER_ONLY),
        ({"Actions": ["*"] * 8}, "OverLimit", "8 Actions were found, maximum allowed is 7."),
        ({"Label": "a b"}, "InvalidParameterValue",
         "Value a b for parameter Label is invalid. Reason: " + CHARACTERS),
    ],
)  # fmt: skip
def test_a_permission_of_a_queue_that_is_none(
    cloud: InProcessCloud, change: dict[str, Any], code: str, sentence: str
):
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="refusing")["QueueUrl"]
    add = {"QueueUrl": url, "Label": "l", "AWSAccountIds": [OTHER], "Actions": ["*"], **change}
    found = refusal(sqs.add_permission, **add)
    assert (found[0].removesuffix("Exception"), found[2]) == (code, sentence)


# --- buses ----------------------------------------------------------------------------------------


def policy_of_bus(cloud: InProcessCloud, name: str = "default") -> Any:
    found = cloud.client("events").describe_event_bus(Name=name)
    return json.loads(found["Policy"]) if "Policy" in found else None


def events_seen(cloud: InProcessCloud, queue: str) -> list[Any]:
    sqs = cloud.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return [json.loads(message["Body"]) for message in found]


def test_a_bus_takes_events_of_accounts_that_it_permits(cloud: InProcessCloud):
    events, sqs = cloud.client("events"), cloud.client("sqs")
    url = sqs.create_queue(QueueName="seen")["QueueUrl"]
    queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:seen"
    let = {**allow("sqs:SendMessage", queue), "Principal": {"Service": "events.amazonaws.com"}}
    text = json.dumps(statements(let))
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": text})
    events.put_rule(Name="all", EventPattern=json.dumps({"source": ["me"]}))
    events.put_targets(Rule="all", Targets=[{"Id": "q", "Arn": queue}])
    role, root = theirs(cloud, "events", "putter"), cloud.client("events", account=OTHER)
    for caller in (role, root):
        code, _, sentence = refusal(caller.put_events, Entries=[ENTRY])
        assert code == "AccessDeniedException"
        assert f"events:PutEvents on resource: {BUS} because no resource-based policy" in sentence
    put = {"Action": "events:PutEvents", "Principal": OTHER, "StatementId": "their-account"}
    events.put_permission(**put)
    for caller in (role, root):
        assert caller.put_events(Entries=[ENTRY])["FailedEntryCount"] == 0
    assert [event["account"] for event in events_seen(cloud, "seen")] == [OTHER, OTHER]
    events.remove_permission(StatementId="their-account")
    assert refusal(role.put_events, Entries=[ENTRY])[0] == "AccessDeniedException"


def test_statements_of_a_bus_are_put_and_removed_by_their_ids(cloud: InProcessCloud):
    """As recorded: LocalStack's test_put_permission and test_remove_permission."""
    events = cloud.client("events")
    bus = events.create_event_bus(Name="own")["EventBusArn"]

    def put(statement_id: str, principal: str, **more: Any) -> None:
        events.put_permission(
            EventBusName="own",
            Action="events:PutEvents",
            Principal=principal,
            StatementId=statement_id,
            **more,
        )

    def made(statement_id: str, principal: Any, **more: Any) -> dict[str, Any]:
        who = principal if principal == "*" else {"AWS": f"arn:aws:iam::{principal}:root"}
        what = {"Action": "events:PutEvents", "Resource": bus}
        return {"Sid": statement_id, "Effect": "Allow", "Principal": who, **what, **more}

    def shown() -> Any:
        return policy_of_bus(cloud, "own")["Statement"]

    put("1", ACCOUNT)
    put("2", ACCOUNT)
    put("3", OTHER)
    condition = {"Type": "StringEquals", "Key": "aws:PrincipalOrgID", "Value": "o-1"}
    put("4", "*", Condition=condition)
    block = {"Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}
    expected = [made("1", ACCOUNT), made("2", ACCOUNT), made("3", OTHER), made("4", "*", **block)]
    assert shown() == expected
    put("2", OTHER)  # as Terraform changes one
    assert shown() == [expected[0], made("2", OTHER), *expected[2:]]
    events.remove_permission(EventBusName="own", StatementId="2")
    assert shown() == [expected[0], *expected[2:]]
    # A whole policy takes the place of all.
    whole = {
        "Sid": "5",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "events:ListRules",
        "Resource": "*",
    }
    events.put_permission(EventBusName="own", Policy=json.dumps(statements(whole)))
    assert policy_of_bus(cloud, "own") == statements(whole)
    missing = ("ResourceNotFoundException", 400, "Statement with the provided id does not exist.")
    assert refusal(events.remove_permission, EventBusName="own", StatementId="9") == missing
    events.remove_permission(EventBusName="own", RemoveAllPermissions=True)
    assert policy_of_bus(cloud, "own") is None
    assert refusal(events.remove_permission, EventBusName="own", StatementId="5") == missing
    absent = refusal(events.remove_permission, EventBusName="none", StatementId="5")
    assert absent == ("ResourceNotFoundException", 400, "Event bus none does not exist.")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"Action": "events:PutRule"}, "Provided value in parameter 'action' is not supported."),
        ({"Principal": None}, "Parameter Principal must be specified."),
        # aws/aws-cdk#19941
        ({"StatementId": "a" * 65}, BROKEN.format("a" * 65, "statementId") + "have length less than or equal to 64"),
        ({"Principal": "me"}, BROKEN.format("me", "principal") + r"satisfy regular expression pattern: (\d{12}|\*)"),
        ({"Condition": {"Type": "StringEquals", "Key": "aws:PrincipalOrgID", "Value": "o-1"}},
         "Value of the parameter 'principal' must be '*' when the parameter 'condition' is set."),
        ({"Policy": "{}"}, "This policy contains invalid Json"),
    ],
)  # fmt: skip
def test_a_statement_of_a_bus_that_is_none(
    cloud: InProcessCloud, change: dict[str, Any], sentence: str
):
    given = {"Action": "events:PutEvents", "Principal": OTHER, "StatementId": "s", **change}
    params = {name: value for name, value in given.items() if value is not None}
    found = refusal(cloud.client("events").put_permission, **params)
    assert found == ("ValidationException", 400, sentence)


def test_a_policy_of_a_bus_is_checked_like_others(cloud: InProcessCloud):
    put = cloud.client("events").put_permission
    bad = {**allow("events:PutEvents", BUS), "Effect": "Maybe", "Principal": "*"}
    assert refusal(put, Policy=json.dumps(statements(bad)))[0] == "ValidationException"
    gone = f"arn:aws:iam::{ACCOUNT}:role/gone"
    nobody = {**allow("events:PutEvents", BUS), "Principal": {"AWS": gone}}
    assert refusal(put, Policy=json.dumps(statements(nobody)))[0] == "ValidationException"
    rows = [
        {**allow("events:PutEvents", BUS), "Principal": {"AWS": THEIR_ROOT}, "Sid": f"s{n}"}
        for n in range(100)
    ]
    found = refusal(put, Policy=json.dumps(statements(*rows)))
    assert found[0] == "PolicyLengthExceededException"


def test_a_topic_takes_messages_of_accounts_that_it_permits(cloud: InProcessCloud):
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="open")["TopicArn"]
    role, root = theirs(cloud, "sns", "publisher"), cloud.client("sns", account=OTHER)
    for caller in (role, root):
        found = refusal(caller.publish, TopicArn=topic, Message="1")
        assert (found[0], "no resource-based policy" in found[2]) == ("AuthorizationError", True)
    sns.add_permission(TopicArn=topic, Label="l", AWSAccountId=[OTHER], ActionName=["Publish"])
    for caller in (role, root):
        assert caller.publish(TopicArn=topic, Message="1")["MessageId"]
    sns.remove_permission(TopicArn=topic, Label="l")
    assert refusal(role.publish, TopicArn=topic, Message="1")[0] == "AuthorizationError"
