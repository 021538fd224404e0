"""Cloud Control: single resources made, read, patched, listed and deleted; requests that last; refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from headrace.services.cloudformation.single_resources import without_write_only
from tests.api.cloudformation.test_stacks import create, physical, template
from tests.support.cloud import ACCOUNT, REGION, InProcessCloud
from tests.support.server import wait_until

QUEUE, STREAM = "AWS::SQS::Queue", "AWS::Kinesis::Stream"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("control") / "data") as cloud:
        yield cloud


@pytest.fixture
def control(cloud: InProcessCloud) -> Any:
    return cloud.client("cloudcontrol")


def done(control: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a request that has ended."""
    token = answer["ProgressEvent"]["RequestToken"]

    def event() -> dict[str, Any]:
        return control.get_resource_request_status(RequestToken=token)["ProgressEvent"]

    wait_until(lambda: "IN_PROGRESS" not in event()["OperationStatus"], what=f"{token} ended")
    return event()


def make(control: Any, kind: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    state = json.dumps(properties)
    return done(control, control.create_resource(TypeName=kind, DesiredState=state, **more))


def patch(control: Any, kind: str, identifier: str, *steps: dict[str, Any]) -> dict[str, Any]:
    document = json.dumps(steps)
    return done(
        control,
        control.update_resource(TypeName=kind, Identifier=identifier, PatchDocument=document),
    )


def read(control: Any, kind: str, identifier: str) -> dict[str, Any]:
    found = control.get_resource(TypeName=kind, Identifier=identifier)["ResourceDescription"]
    assert found["Identifier"] == identifier
    return json.loads(found["Properties"])


def refusal(call: Any, **params: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    error: Any = cast("Any", caught.value).response["Error"]
    return error["Code"], error["Message"]


def test_a_resource_is_made_read_patched_listed_and_deleted(
    cloud: InProcessCloud, control: Any
) -> None:
    kinesis = cloud.client("kinesis")
    properties = {"Name": "live", "ShardCount": 1, "RetentionPeriodHours": 24}
    event = make(control, STREAM, properties)
    assert (event["OperationStatus"], event["Operation"]) == ("SUCCESS", "CREATE")
    assert event["Identifier"] == "live"
    assert json.loads(event["ResourceModel"])["ShardCount"] == 1
    assert read(control, STREAM, "live")["Arn"].endswith(":stream/live")

    step = {"op": "replace", "path": "/RetentionPeriodHours", "value": 48}
    assert patch(control, STREAM, "live", step)["OperationStatus"] == "SUCCESS"
    shown = kinesis.describe_stream_summary(StreamName="live")["StreamDescriptionSummary"]
    assert shown["RetentionPeriodHours"] == 48
    assert read(control, STREAM, "live")["RetentionPeriodHours"] == 48

    listed = control.list_resources(TypeName=STREAM)["ResourceDescriptions"]
    assert [one["Identifier"] for one in listed] == ["live"]
    gone = done(control, control.delete_resource(TypeName=STREAM, Identifier="live"))
    assert gone["OperationStatus"] == "SUCCESS"
    assert refusal(control.get_resource, TypeName=STREAM, Identifier="live")[0] == (
        "ResourceNotFoundException"
    )
    assert kinesis.list_streams()["StreamNames"] == []


def test_a_stacks_resource_is_read_and_patched(cloud: InProcessCloud, control: Any) -> None:
    cfn, sqs = cloud.client("cloudformation"), cloud.client("sqs")
    queue = {"Type": QUEUE, "Properties": {"QueueName": "hot", "VisibilityTimeout": 30}}
    assert create(cfn, template(Queue=queue), name="hot") == "CREATE_COMPLETE"
    url = physical(cfn, "Queue", name="hot")
    assert read(control, QUEUE, url)["VisibilityTimeout"] == 30
    step = {"op": "replace", "path": "/VisibilityTimeout", "value": 7}
    assert patch(control, QUEUE, url, step)["OperationStatus"] == "SUCCESS"
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert found["Attributes"]["VisibilityTimeout"] == "7"
    assert read(control, QUEUE, url)["VisibilityTimeout"] == 7


def test_a_model_is_the_live_resource_with_its_defaults(
    cloud: InProcessCloud, control: Any
) -> None:
    kinesis = cloud.client("kinesis")
    make(control, STREAM, {"Name": "drifts", "ShardCount": 1})
    defaults = read(control, STREAM, "drifts")
    assert defaults["RetentionPeriodHours"] == 24
    assert defaults["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}
    assert "StreamEncryption" not in defaults
    kinesis.increase_stream_retention_period(StreamName="drifts", RetentionPeriodHours=72)
    kinesis.add_tags_to_stream(StreamName="drifts", Tags={"team": "a"})
    live = read(control, STREAM, "drifts")
    assert (live["RetentionPeriodHours"], live["Tags"]) == (72, [{"Key": "team", "Value": "a"}])
    # A patch starts from the live model: a default can be replaced, and a change from outside stays.
    step = {"op": "replace", "path": "/StreamModeDetails/StreamMode", "value": "ON_DEMAND"}
    assert patch(control, STREAM, "drifts", step)["OperationStatus"] == "SUCCESS"
    assert read(control, STREAM, "drifts")["RetentionPeriodHours"] == 72
    kinesis.delete_stream(StreamName="drifts")
    assert refusal(control.get_resource, TypeName=STREAM, Identifier="drifts")[0] == (
        "ResourceNotFoundException"
    )
    listed = control.list_resources(TypeName=STREAM)["ResourceDescriptions"]
    assert "drifts" not in [one["Identifier"] for one in listed]


def test_a_resource_that_another_api_made_is_read(cloud: InProcessCloud, control: Any) -> None:
    cloud.client("kinesis").create_stream(StreamName="stranger", ShardCount=2)
    assert read(control, STREAM, "stranger")["ShardCount"] == 2
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="stranger")
    s3.put_bucket_versioning(Bucket="stranger", VersioningConfiguration={"Status": "Enabled"})
    bucket = read(control, "AWS::S3::Bucket", "stranger")
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}


def test_a_settings_own_form_and_the_services_defaults_are_in_one_model(
    cloud: InProcessCloud, control: Any
) -> None:
    rule = {"Status": "Enabled", "ExpirationInDays": 3}
    lifecycle = {"LifecycleConfiguration": {"Rules": [rule]}, "BucketName": "ages"}
    make(control, "AWS::S3::Bucket", lifecycle)
    assert read(control, "AWS::S3::Bucket", "ages").items() >= lifecycle.items()
    destination = {"BucketARN": "arn:aws:s3:::ages", "RoleARN": "arn:aws:iam::000000000000:role/r"}
    kind = "AWS::KinesisFirehose::DeliveryStream"
    properties = {
        "DeliveryStreamName": "fills",
        "ExtendedS3DestinationConfiguration": destination,
    }
    make(control, kind, properties)
    shown = read(control, kind, "fills")
    assert "S3DestinationConfiguration" not in shown
    filled = shown["ExtendedS3DestinationConfiguration"]
    assert filled.items() > destination.items()
    assert filled["BufferingHints"] == {"IntervalInSeconds": 300, "SizeInMBs": 5}


def test_what_fails_says_why_with_aws_s_code(control: Any) -> None:
    assert make(control, QUEUE, {"QueueName": "twice"})["OperationStatus"] == "SUCCESS"
    second = make(control, QUEUE, {"QueueName": "twice"})
    assert (second["OperationStatus"], second["ErrorCode"]) == ("FAILED", "AlreadyExists")
    wrong = make(control, QUEUE, {"QueueColour": "red"})
    assert wrong["ErrorCode"] == "InvalidRequest"
    assert "QueueColour" in wrong["StatusMessage"]
    listed = control.list_resources(TypeName=QUEUE)["ResourceDescriptions"]
    url = next(one["Identifier"] for one in listed if one["Identifier"].endswith("/twice"))
    renamed = patch(control, QUEUE, url, {"op": "replace", "path": "/QueueName", "value": "other"})
    assert renamed["ErrorCode"] == "NotUpdatable"
    failed = control.list_resource_requests(
        ResourceRequestStatusFilter={"OperationStatuses": ["FAILED"], "Operations": ["CREATE"]}
    )["ResourceRequestStatusSummaries"]
    assert {one["ErrorCode"] for one in failed} == {"AlreadyExists", "InvalidRequest"}


def test_a_client_token_makes_one_request_of_two(control: Any) -> None:
    asked: dict[str, Any] = {"TypeName": QUEUE, "ClientToken": "once"}
    first = control.create_resource(**asked, DesiredState='{"QueueName": "once"}')
    again = control.create_resource(**asked, DesiredState='{"QueueName": "once"}')
    tokens = {answer["ProgressEvent"]["RequestToken"] for answer in (first, again)}
    assert len(tokens) == 1
    other = refusal(control.create_resource, **asked, DesiredState='{"QueueName": "other"}')
    assert other[0] == "ClientTokenConflictException"
    assert done(control, first)["OperationStatus"] == "SUCCESS"


def test_types_and_requests_that_are_not_there_are_refused(control: Any) -> None:
    unknown = refusal(control.get_resource, TypeName="AWS::No::Thing", Identifier="x")
    assert unknown == ("TypeNotFoundException", "The type 'AWS::No::Thing' cannot be found.")
    code, _ = refusal(control.list_resources, TypeName="AWS::CloudFormation::Stack")
    assert code == "UnsupportedActionException"
    code, message = refusal(control.delete_resource, TypeName=QUEUE, Identifier="none")
    assert code == "ResourceNotFoundException"
    assert "with identifier 'none' was not found" in message
    code, _ = refusal(control.get_resource_request_status, RequestToken="none")
    assert code == "RequestTokenNotFoundException"


@pytest.mark.parametrize("document", ["no JSON", "{}", '[{"op": "replace", "path": "/No/where"}]'])
def test_a_patch_that_cannot_be_applied_is_refused(control: Any, document: str) -> None:
    listed = control.list_resources(TypeName=QUEUE)["ResourceDescriptions"]
    if not listed:
        make(control, QUEUE, {"QueueName": "patched"})
        listed = control.list_resources(TypeName=QUEUE)["ResourceDescriptions"]
    asked = {"TypeName": QUEUE, "Identifier": listed[0]["Identifier"], "PatchDocument": document}
    assert refusal(control.update_resource, **asked)[0] == "InvalidRequestException"


def test_a_state_that_is_no_object_is_refused(control: Any) -> None:
    asked = {"TypeName": QUEUE, "DesiredState": "[]"}
    assert refusal(control.create_resource, **asked)[0] == "InvalidRequestException"


def test_a_request_that_has_ended_cannot_be_cancelled(control: Any) -> None:
    event = make(control, QUEUE, {"QueueName": "ended"})
    token = event["RequestToken"]
    assert refusal(control.cancel_resource_request, RequestToken=token)[0] == (
        "ConcurrentModificationException"
    )


def test_requests_and_resources_outlast_a_restart(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        token = make(cloud.client("cloudcontrol"), STREAM, {"Name": "kept"})["RequestToken"]
    with InProcessCloud(tmp_path / "data") as cloud:
        control = cloud.client("cloudcontrol")
        event = control.get_resource_request_status(RequestToken=token)["ProgressEvent"]
        assert event["OperationStatus"] == "SUCCESS"
        assert read(control, STREAM, "kept")["Name"] == "kept"


def test_a_request_that_a_kill_cut_short_has_failed(tmp_path: Path) -> None:
    with InProcessCloud(tmp_path / "data") as cloud:
        token = make(cloud.client("cloudcontrol"), STREAM, {"Name": "cut"})["RequestToken"]
        requests = cloud.cloud.database.documents("cloudcontrol_requests")
        requests.put(token, {**(requests.get(token) or {}), "status": "IN_PROGRESS"})
    with InProcessCloud(tmp_path / "data") as cloud:
        control = cloud.client("cloudcontrol")
        event = control.get_resource_request_status(RequestToken=token)["ProgressEvent"]
        assert (event["OperationStatus"], event["ErrorCode"]) == ("FAILED", "InternalFailure")
        # Nothing holds the resource any more.
        assert done(control, control.delete_resource(TypeName=STREAM, Identifier="cut"))


def test_a_write_only_property_is_never_shown(cloud: InProcessCloud, control: Any) -> None:
    secret = "AWS::SecretsManager::Secret"
    event = make(control, secret, {"Name": "hidden", "SecretString": "s3cret"})
    assert event["OperationStatus"] == "SUCCESS", event
    assert "s3cret" not in event["ResourceModel"]
    identifier = event["Identifier"]
    assert read(control, secret, identifier)["Name"] == "hidden"
    assert "SecretString" not in read(control, secret, identifier)
    patched = patch(
        control, secret, identifier, {"op": "add", "path": "/Description", "value": "d"}
    )
    assert patched["OperationStatus"] == "SUCCESS", patched
    value = cloud.client("secretsmanager").get_secret_value(SecretId=identifier)
    assert value["SecretString"] == "s3cret"


def test_a_write_only_member_of_a_list_or_an_object_is_never_shown() -> None:
    user = {"UserName": "u", "LoginProfile": {"Password": "p", "PasswordResetRequired": True}}
    assert without_write_only("AWS::IAM::User", user) == {
        "UserName": "u",
        "LoginProfile": {"PasswordResetRequired": True},
    }
    rule = {
        "DefaultActions": [{"AuthenticateOidcConfig": {"ClientSecret": "s", "Issuer": "i"}}, {}]
    }
    assert without_write_only("AWS::ElasticLoadBalancingV2::Listener", rule) == {
        "DefaultActions": [{"AuthenticateOidcConfig": {"Issuer": "i"}}, {}]
    }


@pytest.mark.parametrize(
    ("kind", "service", "call", "params", "identifier"),
    [
        ("AWS::DynamoDB::Table", "dynamodb", "create_table",
         {"TableName": "of-others", "BillingMode": "PAY_PER_REQUEST",
          "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
          "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}]}, "of-others"),
        ("AWS::Events::EventBus", "events", "create_event_bus", {"Name": "of-others"}, "of-others"),
        ("AWS::IAM::User", "iam", "create_user", {"UserName": "of-others"}, "of-others"),
        ("AWS::Kinesis::Stream", "kinesis", "create_stream",
         {"StreamName": "of-others", "ShardCount": 1}, "of-others"),
        ("AWS::Logs::LogGroup", "logs", "create_log_group", {"logGroupName": "of-others"}, "of-others"),
        ("AWS::S3::Bucket", "s3", "create_bucket", {"Bucket": "of-others"}, "of-others"),
        ("AWS::SNS::Topic", "sns", "create_topic", {"Name": "of-others"},
         f"arn:aws:sns:{REGION}:{ACCOUNT}:of-others"),
        ("AWS::SQS::Queue", "sqs", "create_queue", {"QueueName": "of-others"}, "/of-others"),
        ("AWS::SSM::Parameter", "ssm", "put_parameter",
         {"Name": "of-others", "Value": "v", "Type": "String"}, "of-others"),
    ],
)  # fmt: skip
def test_resources_that_another_api_made_are_listed(
    cloud: InProcessCloud, control: Any, kind: str, service: str, call: str, params: Any, identifier: str
) -> None:  # fmt: skip
    getattr(cloud.client(service), call)(**params)
    listed: list[str] = []
    more: dict[str, str] = {}
    while True:
        answer = control.list_resources(TypeName=kind, MaxResults=1, **more)
        listed += [one["Identifier"] for one in answer["ResourceDescriptions"]]
        if "NextToken" not in answer:
            break
        more = {"NextToken": answer["NextToken"]}
    assert len(set(listed)) == len(listed)
    assert [one for one in listed if one.endswith(identifier)]


FILTER = "AWS::Logs::MetricFilter"


def test_a_compound_identifier_names_a_resource(cloud: InProcessCloud, control: Any):
    """Two filters of one name in two groups differ by it alone."""
    change = {"MetricName": "m", "MetricNamespace": "n", "MetricValue": "1"}
    for group, pattern in (("one", "a"), ("two", "b")):
        cloud.client("logs").create_log_group(logGroupName=group)
        given = {"LogGroupName": group, "FilterName": "f", "FilterPattern": pattern}
        event = make(control, FILTER, {**given, "MetricTransformations": [change]})
        assert (event["OperationStatus"], event["Identifier"]) == ("SUCCESS", f"{group}|f")
    listed = control.list_resources(TypeName=FILTER)["ResourceDescriptions"]
    assert {one["Identifier"] for one in listed} == {"one|f", "two|f"}
    assert read(control, FILTER, "one|f")["FilterPattern"] == "a"
    step = {"op": "replace", "path": "/FilterPattern", "value": "c"}
    assert patch(control, FILTER, "two|f", step)["Identifier"] == "two|f"
    assert read(control, FILTER, "two|f")["FilterPattern"] == "c"
    assert read(control, FILTER, "one|f")["FilterPattern"] == "a"
    gone = done(control, control.delete_resource(TypeName=FILTER, Identifier="one|f"))
    assert (gone["OperationStatus"], gone["Identifier"]) == ("SUCCESS", "one|f")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        control.get_resource(TypeName=FILTER, Identifier="one|f")
    assert read(control, FILTER, "two|f")["FilterPattern"] == "c"


def test_a_row_of_an_older_version_ends_with_its_resource(tmp_path: Path):
    """It was stored by the physical id, which is the second part of the identifier."""
    kind = "AWS::Logs::LogStream"
    with InProcessCloud(tmp_path / "data") as cloud:
        cloud.client("logs").create_log_group(logGroupName="one")
        given = {"LogGroupName": "one", "LogStreamName": "s"}
        made = make(cloud.client("cloudcontrol"), kind, given)
        assert made["Identifier"] == "one|s"
        rows = cloud.cloud.database.documents("cloudcontrol_resources")
        ((key, row),) = rows.items()
        rows.delete(key)
        del row["physical_id"]
        rows.put(key.replace("one|s", "s"), {**row, "identifier": "s"})
    with InProcessCloud(tmp_path / "data") as cloud:
        control = cloud.client("cloudcontrol")
        listed = control.list_resources(TypeName=kind)["ResourceDescriptions"]
        assert [one["Identifier"] for one in listed] == ["one|s"]
        gone = done(control, control.delete_resource(TypeName=kind, Identifier="one|s"))
        assert gone["OperationStatus"] == "SUCCESS"
        assert control.list_resources(TypeName=kind)["ResourceDescriptions"] == []
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            control.get_resource(TypeName=kind, Identifier="one|s")


def test_the_id_that_a_service_gives_is_a_part_of_the_identifier(control: Any):
    pool = make(control, "AWS::Cognito::UserPool", {"UserPoolName": "p"})["Identifier"]
    given = {"UserPoolId": pool, "ClientName": "c"}
    client = make(control, "AWS::Cognito::UserPoolClient", given)["Identifier"]
    assert client.partition("|")[0] == pool
    shown = read(control, "AWS::Cognito::UserPoolClient", client)
    assert shown["ClientName"] == "c"
    # As a template's Ref has it, too.
    physical_id = client.partition("|")[2]
    found = control.get_resource(TypeName="AWS::Cognito::UserPoolClient", Identifier=physical_id)
    assert found["ResourceDescription"]["Identifier"] == client
