"""Policies of resources at their Put: what each service refuses, in its words; and principals that are deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud import InProcessCloud
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements, trust
from tests.support.server import wait_until

ROOT = f"arn:aws:iam::{ACCOUNT}:root"
GONE = f"arn:aws:iam::{ACCOUNT}:role/never-made"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:q"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:t"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("resources"), iam="enforce") as cloud:
        cloud.client("sqs").create_queue(QueueName="q")
        cloud.client("sns").create_topic(Name="t")
        cloud.client("secretsmanager").create_secret(Name="s", SecretString="x")
        cloud.client("ecr").create_repository(repositoryName="r")
        cloud.client("s3").create_bucket(Bucket="box")
        cloud.client("dynamodb").create_table(
            TableName="t",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield cloud


def lets(who: Any, action: str | list[str], resource: str | list[str]) -> dict[str, Any]:
    return {**allow(action, resource), "Principal": who}


def put(cloud: InProcessCloud, service: str, policy: str) -> tuple[Any, dict[str, Any]]:
    """Return the call that stores a policy with the service's resource, and its parameters."""
    client = cloud.client(service)
    if service == "sqs":
        url = client.get_queue_url(QueueName="q")["QueueUrl"]
        return client.set_queue_attributes, {"QueueUrl": url, "Attributes": {"Policy": policy}}
    if service == "sns":
        named = {"TopicArn": TOPIC, "AttributeName": "Policy", "AttributeValue": policy}
        return client.set_topic_attributes, named
    if service == "kms":
        return client.create_key, {"Policy": policy}
    if service == "secretsmanager":
        return client.put_resource_policy, {"SecretId": "s", "ResourcePolicy": policy}
    if service == "ecr":
        return client.set_repository_policy, {"repositoryName": "r", "policyText": policy}
    if service == "dynamodb":
        arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/t"
        return client.put_resource_policy, {"ResourceArn": arn, "Policy": policy}
    return client.put_bucket_policy, {"Bucket": "box", "Policy": policy}


SQS = "Invalid value for the parameter Policy."
ECR = (
    "Invalid parameter at 'PolicyText' failed to satisfy constraint: 'Invalid repository policy"
    " provided'"
)
KMS = "Policy contains a statement with one or more invalid principals."
DYNAMODB = "One or more parameter values were invalid: Invalid policy document: "
MISSPELT = {"Effect": "Allow", "Principle": "*", "Action": "sns:Publish", "Resource": TOPIC}


@pytest.mark.parametrize(
    ("service", "statement", "code", "sentence"),
    [
        ("sqs", MISSPELT, "InvalidAttributeValue", SQS),
        ("sqs", lets({"AWS": GONE}, "sqs:SendMessage", QUEUE), "InvalidAttributeValue", SQS),
        ("sqs", lets("*", "sns:Publish", QUEUE), "InvalidAttributeValue", SQS),
        ("sqs", {**lets("*", "sqs:*", QUEUE), "Sid": "x" * 8192}, "InvalidAttributeValue", SQS),
        ("sns", MISSPELT, "InvalidParameter", "Invalid parameter: Policy Error: null"),
        ("sns", lets({"AWS": GONE}, "sns:Publish", TOPIC), "InvalidParameter",
         "Invalid parameter: Policy Error: PrincipalNotFound"),
        ("sns", lets("*", "sqs:SendMessage", TOPIC), "InvalidParameter",
         "Invalid parameter: Policy statement action out of service scope!"),
        ("kms", lets({"AWS": GONE}, "kms:*", "*"), "MalformedPolicyDocumentException", KMS),
        ("kms", {**lets({"AWS": ROOT}, "kms:*", "*"), "Sid": "x" * 32768}, "LimitExceededException",
         "The key policy exceeds the limit of 32768 bytes."),
        ("kms", lets({"AWS": ROOT}, "kms:Decrypt", "*"), "MalformedPolicyDocumentException",
         "The new key policy will not allow you to update the key policy in the future."),
        ("secretsmanager", lets({"AWS": GONE}, "secretsmanager:*", "*"),
         "MalformedPolicyDocumentException", "This resource policy contains an unsupported principal."),
        ("secretsmanager", MISSPELT, "MalformedPolicyDocumentException", "This policy has invalid syntax."),
        ("ecr", {"Effect": "Allow", "Principal": {"AWS": GONE}, "Action": "ecr:BatchGetImage"},
         "InvalidParameterException", ECR),
        ("dynamodb", lets({"AWS": GONE}, "dynamodb:GetItem", "*"), "ValidationException",
         DYNAMODB + "Invalid principal in policy"),
    ],
)  # fmt: skip
def test_a_service_refuses_a_policy_in_its_words(
    cloud: InProcessCloud, service: str, statement: dict[str, Any], code: str, sentence: str
):
    """Sources: see `headrace.permissions.policies.document`."""
    call, params = put(cloud, service, json.dumps(statements(statement)))
    found = refusal(call, **params)
    assert (found[0], found[2]) == (code, sentence)


@pytest.mark.parametrize(
    ("service", "statement"),
    [
        ("sqs", lets({"Service": "sns.amazonaws.com"}, "SQS:SendMessage", QUEUE)),
        ("sqs", lets({"AWS": ["111122223333", ROOT]}, "sqs:*", QUEUE)),
        ("sns", lets({"AWS": "arn:aws:iam::111122223333:role/of-others"}, "SNS:Publish", TOPIC)),
        ("kms", lets({"AWS": ROOT}, "kms:*", "*")),
        ("secretsmanager", lets("*", "secretsmanager:GetSecretValue", "*")),
        ("dynamodb", lets({"AWS": ROOT}, "dynamodb:GetItem", "*")),
    ],
)
def test_a_good_policy_is_stored(cloud: InProcessCloud, service: str, statement: dict[str, Any]):
    call, params = put(cloud, service, json.dumps(statements(statement)))
    call(**params)


def test_a_key_keeps_statements_without_effect_and_a_lock_out_that_is_wanted(cloud: InProcessCloud):
    """API_PutKeyPolicy.html: a statement without Action is stored; the safety check may be left out."""
    kms = cloud.client("kms")
    no_action = {"Effect": "Allow", "Principal": {"AWS": ROOT}, "Resource": "*"}
    policy = json.dumps(statements(lets({"AWS": ROOT}, "kms:*", "*"), no_action))
    key = kms.create_key(Policy=policy)["KeyMetadata"]["KeyId"]
    locked = json.dumps(statements(lets({"AWS": ROOT}, "kms:Decrypt", "*")))
    params = {"KeyId": key, "PolicyName": "default", "Policy": locked}
    assert refusal(kms.put_key_policy, **params)[2].startswith("The new key policy will not allow")
    kms.put_key_policy(**params, BypassPolicyLockoutSafetyCheck=True)


MISFIT = "Action does not apply to any resource(s) in statement"
OBJECTS = "arn:aws:s3:::box/*"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (lets("*", "s3:GetObject", "*"), "Policy has invalid resource"),
        (lets("*", "s3:GetObject", "arn:aws:s3:::other/*"), "Policy has invalid resource"),
        (lets("*", "s3:GetObject", "arn:aws:s3:::box"), MISFIT),
        (lets("*", ["s3:GetObject", "s3:ListBucket"], OBJECTS), MISFIT),
        (lets("*", "s3:NoSuchAction", OBJECTS), "Policy has invalid action"),
        (lets("*", "sqs:SendMessage", OBJECTS), "Policy has invalid action"),
        (lets("*", "GetObject", OBJECTS), "Policy has invalid action"),
        (lets({"AWS": GONE}, "s3:GetObject", OBJECTS), "Invalid principal in policy"),
        (lets({"AWS": "arn:aws:iam::*:role/x"}, "s3:GetObject", OBJECTS), "Invalid principal in policy"),
        (allow("s3:GetObject", OBJECTS), "Missing required field Principal"),
        ({"Effect": "Allow", "Principal": "*", "Resource": OBJECTS}, "Missing required field Action"),
        ({"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}, "Missing required field Resource"),
        ({**lets("*", "s3:GetObject", OBJECTS), "Condition": {"StringEquals": {"sqs:x": "y"}}},
         "Policy has an invalid condition key"),
        ({**lets("*", "s3:GetObject", OBJECTS), "Effect": "Perhaps"}, "Invalid effect: Perhaps"),
        ({**lets("*", "s3:GetObject", OBJECTS), "Sid": "x" * 20480},
         "Policy exceeds the maximum allowed document size."),
    ],
)  # fmt: skip
def test_s3_refuses_a_bucket_policy(
    cloud: InProcessCloud, statement: dict[str, Any], sentence: str
):
    """Sources: see `headrace.services.s3.acls`."""
    call, params = put(cloud, "s3", json.dumps(statements(statement)))
    assert refusal(call, **params) == ("MalformedPolicy", 400, sentence)


@pytest.mark.parametrize(
    "statement",
    [
        lets("*", "s3:*", ["arn:aws:s3:::box", OBJECTS]),
        lets("*", "s3:*", OBJECTS),
        lets("*", "s3:Get*", "arn:aws:s3:::box/${aws:username}/*"),
        lets("*", "s3:ListBucket", "arn:aws:s3:::box"),
        {**lets("*", "s3:*", ["arn:aws:s3:::box", OBJECTS]), "Effect": "Deny",
         "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
    ],
)  # fmt: skip
def test_s3_stores_a_bucket_policy(cloud: InProcessCloud, statement: dict[str, Any]):
    s3 = cloud.client("s3")
    s3.put_bucket_policy(Bucket="box", Policy=json.dumps(statements(statement)))
    assert json.loads(s3.get_bucket_policy(Bucket="box")["Policy"])["Statement"] == [statement]
    s3.delete_bucket_policy(Bucket="box")


def test_no_statement_at_all_is_no_bucket_policy(cloud: InProcessCloud):
    found = refusal(cloud.client("s3").put_bucket_policy, Bucket="box", Policy='{"Statement":[]}')
    assert found[2] == "Could not parse the policy: Statement is empty!"


# --- principals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [GONE, "AROAIIIIIIIIIIIIIIIII"])
def test_a_role_trusts_nobody_who_is_not_there(cloud: InProcessCloud, who: str):
    iam = cloud.client("iam")
    statement = {"Effect": "Allow", "Principal": {"AWS": who}, "Action": "sts:AssumeRole"}
    text = json.dumps(statements(statement))
    sentence = f'Invalid principal in policy: "AWS":"{who}"'
    found = refusal(iam.create_role, RoleName="trusting", AssumeRolePolicyDocument=text)
    assert found == ("MalformedPolicyDocument", 400, sentence)
    make_role(cloud, f"of-{who[-4:]}")
    found = refusal(iam.update_assume_role_policy, RoleName=f"of-{who[-4:]}", PolicyDocument=text)
    assert found[2] == sentence


def test_a_role_made_anew_is_not_the_one_that_was_trusted(cloud: InProcessCloud):
    """reference_policies_elements_principal.html: the id of who is deleted stays in the policy."""
    iam, s3 = cloud.client("iam"), cloud.client("s3")
    caller = make_role(cloud, "caller", allow("sts:AssumeRole", "*"))
    old_id = iam.get_role(RoleName="caller")["Role"]["RoleId"]
    make_role(cloud, "callee", trusts=caller)
    s3.put_bucket_policy(
        Bucket="box",
        Policy=json.dumps(statements(lets({"AWS": [caller, ROOT]}, "s3:GetObject", OBJECTS))),
    )
    call, params = put(
        cloud, "sqs", json.dumps(statements(lets({"AWS": caller}, "sqs:SendMessage", QUEUE)))
    )
    call(**params)
    arn = f"arn:aws:iam::{ACCOUNT}:role/callee"
    become = {"RoleArn": arn, "RoleSessionName": "ses"}
    assert as_role(cloud, "caller", "sts").assume_role(**become)["Credentials"]
    iam.delete_role_policy(RoleName="caller", PolicyName="own")
    iam.delete_role(RoleName="caller")
    make_role(cloud, "caller", allow("sts:AssumeRole", "*"))
    trusted = iam.get_role(RoleName="callee")["Role"]["AssumeRolePolicyDocument"]
    assert trusted["Statement"][0]["Principal"] == {"AWS": old_id}
    bucket = json.loads(s3.get_bucket_policy(Bucket="box")["Policy"])
    assert bucket["Statement"][0]["Principal"] == {"AWS": [old_id, ROOT]}
    url = cloud.client("sqs").get_queue_url(QueueName="q")["QueueUrl"]
    attributes = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])
    assert json.loads(attributes["Attributes"]["Policy"])["Statement"][0]["Principal"] == {
        "AWS": old_id
    }
    assert refusal(as_role(cloud, "caller", "sts").assume_role, **become)[0] == "AccessDenied"
    iam.update_assume_role_policy(
        RoleName="callee", PolicyDocument=json.dumps(trust(iam.get_role(RoleName="caller")["Role"]["Arn"]))
    )  # fmt: skip
    assert as_role(cloud, "caller", "sts").assume_role(**become)["Credentials"]


def test_functions_and_streams_are_not_opened_to_who_is_not_there(cloud: InProcessCloud):
    role = make_role(cloud, "opened")
    kinesis, lambda_ = cloud.client("kinesis"), cloud.client("lambda")
    kinesis.create_stream(StreamName="opened", ShardCount=1)
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/opened"
    for who, is_there in ((GONE, False), (role, True)):
        policy = json.dumps(statements(lets({"AWS": who}, "kinesis:GetRecords", arn)))
        put = {"ResourceARN": arn, "Policy": policy}
        add = {"StatementId": "s", "Action": "lambda:InvokeFunction", "Principal": who}
        if is_there:
            kinesis.put_resource_policy(**put)
            code = refusal(lambda_.add_permission, FunctionName="no-such", **add)[0]
            assert code == "ResourceNotFoundException"
        else:
            assert refusal(kinesis.put_resource_policy, **put)[0] == "InvalidArgumentException"
            found = refusal(lambda_.add_permission, FunctionName="no-such", **add)
            assert found[0] == "InvalidParameterValueException"
            assert found[2].startswith("The provided principal was invalid.")


@pytest.mark.parametrize("iam", ["report", "enforce"])
def test_another_account_sends_logs_only_where_a_destination_lets_it(tmp_path: Path, iam: str):
    other, stream = "111122223333", f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/lines"
    with InProcessCloud(tmp_path / "data", iam=iam) as cloud:
        cloud.client("kinesis").create_stream(StreamName="lines", ShardCount=1)
        wait_until(lambda: is_active(cloud, "lines"), within_s=20, what="the stream")
        logs, theirs, strangers = (
            cloud.client("logs", account=account) for account in (ACCOUNT, other, "222233334444")
        )
        for client in (theirs, strangers):
            client.create_log_group(logGroupName="g")
        where = {"targetArn": stream, "roleArn": GONE}
        arn = logs.put_destination(destinationName="d", **where)["destination"]["arn"]
        to = {"logGroupName": "g", "filterName": "f", "filterPattern": "", "destinationArn": arn}
        code, _, sentence = refusal(theirs.put_subscription_filter, **to)
        assert code == "AccessDeniedException"
        assert f"authorized to perform: logs:PutSubscriptionFilter on resource: {arn}" in sentence
        let_in = lets({"AWS": other}, "logs:PutSubscriptionFilter", arn)
        policy = json.dumps(statements(let_in))
        bad = refusal(logs.put_destination_policy, destinationName="d", accessPolicy=policy[:-1])
        assert bad[0] == "InvalidParameterException"
        logs.put_destination_policy(destinationName="d", accessPolicy=policy)
        theirs.put_subscription_filter(**to)
        code = refusal(strangers.put_subscription_filter, **to)[0]
        assert code == "AccessDeniedException"
        own_role = GONE.replace(ACCOUNT, other)
        straight = {**to, "destinationArn": stream, "roleArn": own_role}
        code = refusal(theirs.put_subscription_filter, **straight)[0]
        assert code == "InvalidParameterException"
        code = refusal(
            theirs.put_destination, destinationName="mine", targetArn=stream, roleArn=own_role
        )[0]
        assert code == "InvalidParameterException"


def test_a_role_needs_leave_for_the_destination_it_sends_logs_to(cloud: InProcessCloud):
    group = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:g:*"
    make_role(cloud, "sends", allow("logs:PutSubscriptionFilter", group))
    arn = f"arn:aws:logs:{REGION}:111122223333:destination:d"
    to = {"logGroupName": "g", "filterName": "f", "filterPattern": "", "destinationArn": arn}
    code, _, sentence = refusal(as_role(cloud, "sends", "logs").put_subscription_filter, **to)
    assert code == "AccessDeniedException"
    assert arn in sentence


@pytest.mark.parametrize("arn", ["garbage", QUEUE, "arn:aws:{}:us-east-1:000000000000:{}none"])
def test_nothing_is_tagged_that_is_not_there(cloud: InProcessCloud, arn: str):
    logs, dynamodb = cloud.client("logs"), cloud.client("dynamodb")
    group, table = arn.format("logs", "log-group:"), arn.format("dynamodb", "table/")
    tags = [{"Key": "a", "Value": "b"}]
    for call, params in (
        (dynamodb.tag_resource, {"ResourceArn": table, "Tags": tags}),
        (dynamodb.untag_resource, {"ResourceArn": table, "TagKeys": ["a"]}),
        (logs.tag_resource, {"resourceArn": group, "tags": {"a": "b"}}),
        (logs.untag_resource, {"resourceArn": group, "tagKeys": ["a"]}),
        (logs.list_tags_for_resource, {"resourceArn": group}),
    ):
        assert refusal(call, **params)[0] == "ResourceNotFoundException"


def is_active(cloud: InProcessCloud, stream: str) -> bool:
    summary = cloud.client("kinesis").describe_stream_summary(StreamName=stream)
    return summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"


# --- quotas ---------------------------------------------------------------------------------------


FIVE_VERSIONS = (
    "A managed policy can have up to 5 versions. Before you create a new version, you must delete an"
    " existing version."
)


@pytest.mark.parametrize("kind", ["Role", "User", "Group"])
def test_ten_policies_are_attached_and_no_more(cloud: InProcessCloud, kind: str):
    iam = cloud.client("iam")
    if kind == "Role":
        make_role(cloud, "full")
    else:
        getattr(iam, f"create_{kind.lower()}")(**{f"{kind}Name": "full"})
    attach = getattr(iam, f"attach_{kind.lower()}_policy")
    document = json.dumps(statements(allow("s3:*", "*")))
    named = {f"{kind}Name": "full"}
    for number in range(11):
        name = f"{kind}-{number}"
        arn = iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
        if number < 10:
            attach(**named, PolicyArn=arn)
        else:
            sentence = f"Cannot exceed quota for PoliciesPer{kind}: 10"
            assert refusal(attach, **named, PolicyArn=arn) == ("LimitExceeded", 409, sentence)


def test_a_policy_has_five_versions(cloud: InProcessCloud):
    iam = cloud.client("iam")
    document = json.dumps(statements(allow("s3:*", "*")))
    arn = iam.create_policy(PolicyName="versions", PolicyDocument=document)["Policy"]["Arn"]
    for _ in range(4):
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=document)
    assert refusal(iam.create_policy_version, PolicyArn=arn, PolicyDocument=document) == (
        "LimitExceeded",
        409,
        FIVE_VERSIONS,
    )
