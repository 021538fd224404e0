"""What is accepted and nothing here does is said: in the answer, the log, the fidelity report and a stack's report."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session
from click.testing import CliRunner

from headrace.aws.calls.http import WITHOUT_EFFECT, HttpRequest
from headrace.cli.commands import headrace
from headrace.moto import without_effect
from headrace.services.cloudformation.fidelity import fidelity_of
from headrace.services.cloudformation.template.template import Template, template_of
from headrace.services.iam.answers import NOTES, StrictChecks, moto_tables
from tests.support.cloud import InProcessCloud
from tests.support.moto_lab import MotoLab

_TRIGGER: dict[str, Any] = {
    "Name": "t",
    "Type": "SCHEDULED",
    "Schedule": "cron(0 * * * ? *)",
    "Actions": [{"JobName": "j"}],
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[MotoLab]:
    with MotoLab(tmp_path / "moto") as lab:
        yield lab


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("data")) as cloud:
        yield cloud


def _said(answer: Any) -> str:
    return answer["ResponseMetadata"]["HTTPHeaders"].get(WITHOUT_EFFECT, "")


@pytest.fixture(autouse=True)
def _nothing_is_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence is logged once a process, and other tests of this process may have caused it."""
    monkeypatch.setattr(without_effect, "_said", set())


@pytest.mark.parametrize(
    ("service", "call", "params", "sentence"),
    [
        ("glue", "create_trigger", {**_TRIGGER, "StartOnCreation": True}, "no job is started"),
        ("glue", "create_trigger", _TRIGGER, ""),
        ("sns", "publish", {"PhoneNumber": "+41791234567", "Message": "m"}, "no text messages"),
        ("cloudwatch", "put_insight_rule", {"RuleName": "r", "RuleDefinition": "{}"}, "evaluates none"),
        ("ec2", "run_instances", {"ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1}, "no machines"),
        ("efs", "create_file_system", {"CreationToken": "t"}, "nothing answers"),
        ("transfer", "create_server", {}, "nothing answers"),
        ("guardduty", "create_detector", {"Enable": True}, "nothing is scanned"),
        ("route53", "create_health_check", {"CallerReference": "c", "HealthCheckConfig": {
            "Type": "TCP", "IPAddress": "192.0.2.1", "Port": 443}}, "checks nothing"),
    ],
)  # fmt: skip
def test_an_answer_says_what_does_not_happen(
    lab: MotoLab, service: str, call: str, params: dict[str, Any], sentence: str
) -> None:
    said = _said(getattr(lab.client(service), call)(**params))
    assert sentence in said
    assert bool(said) == bool(sentence)


def test_a_state_is_shown_as_it_was_set_with_what_does_not_happen(lab: MotoLab) -> None:
    trail, glue = lab.client("cloudtrail"), lab.client("glue")
    lab.client("s3").create_bucket(Bucket="trails")
    trail.create_trail(Name="t-1", S3BucketName="trails")
    assert not trail.get_trail_status(Name="t-1")["IsLogging"]
    assert "nothing is written" in _said(trail.start_logging(Name="t-1"))
    status = trail.get_trail_status(Name="t-1")
    assert status["IsLogging"]
    assert "nothing is written" in _said(status)
    # As on AWS before the first delivery: nothing is claimed that did not happen.
    assert "LatestDeliveryTime" not in status
    assert not status["LatestDeliveryAttemptTime"]
    glue.create_trigger(**_TRIGGER, StartOnCreation=True)
    trigger = glue.get_trigger(Name="t")
    assert trigger["Trigger"]["State"] == "ACTIVATED"
    assert "no job is started" in _said(trigger)


def test_s3_control_answers_beside_s3(cloud: InProcessCloud) -> None:
    control, own = cloud.client("s3control"), {"AccountId": "000000000000"}
    lens = {"Id": "c", "AccountLevel": {"BucketLevel": {}}, "IsEnabled": True}
    put = control.put_storage_lens_configuration(ConfigId="c", StorageLensConfiguration=lens, **own)
    assert "exports no metrics" in _said(put)
    kept = control.get_storage_lens_configuration(ConfigId="c", **own)
    assert kept["StorageLensConfiguration"] == lens
    with pytest.raises(ClientError, match="NoSuchPublicAccessBlockConfiguration"):
        control.get_public_access_block(**own)
    with pytest.raises(ClientError, match="does not implement s3control:ListJobs"):
        control.list_jobs(**own)
    cloud.client("s3").create_bucket(Bucket="v20180820")
    cloud.client("s3").put_object(Bucket="v20180820", Key="accesspoint", Body=b"b")
    found = cloud.client("s3").get_object(Bucket="v20180820", Key="accesspoint")
    assert found["Body"].read() == b"b"


def test_a_bucket_that_moto_asks_for_is_looked_up_once(lab: MotoLab) -> None:
    with pytest.raises(ClientError):
        lab.client("s3").get_object(Bucket="b", Key="k")


def test_a_push_and_a_subscription_say_so_by_their_value(lab: MotoLab) -> None:
    sns = lab.client("sns")
    topic = sns.create_topic(Name="t")["TopicArn"]
    queue = "arn:aws:sqs:us-east-1:000000000000:q"
    lab.client("sqs").create_queue(QueueName="q")
    assert not _said(sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue))
    assert "no mail" in _said(sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="a@b.ch"))
    application = sns.create_platform_application(
        Name="p", Platform="GCM", Attributes={"PlatformCredential": "x"}
    )
    arn = application["PlatformApplicationArn"]
    device = sns.create_platform_endpoint(PlatformApplicationArn=arn, Token="x")["EndpointArn"]
    assert "no push notifications" in _said(sns.publish(TargetArn=device, Message="m"))
    assert not _said(sns.publish(TargetArn=topic, Message="m"))


def test_an_api_s_access_log_says_that_nothing_is_written(lab: MotoLab) -> None:
    written = {"DestinationArn": "arn:aws:logs:us-east-1:000000000000:log-group:g", "Format": "f"}
    http = lab.client("apigatewayv2")
    named = {"ApiId": http.create_api(Name="a", ProtocolType="HTTP")["ApiId"], "StageName": "s"}
    assert "to no access log" in _said(http.create_stage(**named, AccessLogSettings=written))
    assert not _said(http.update_stage(**named, Description="d"))
    rest = lab.client("apigateway")
    api = {"restApiId": rest.create_rest_api(name="a")["id"]}
    root = {**api, "resourceId": rest.get_resources(**api)["items"][0]["id"], "httpMethod": "GET"}
    rest.put_method(**root, authorizationType="NONE")
    rest.put_integration(**root, type="MOCK")
    rest.create_deployment(**api, stageName="s")
    for path, is_log in (("/description", False), ("/accessLogSettings/format", True)):
        operation = {"op": "replace", "path": path, "value": "v"}
        answer = rest.update_stage(**api, stageName="s", patchOperations=[operation])
        assert bool(_said(answer)) == is_log


def test_the_log_says_it_once(
    lab: MotoLab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(without_effect, "_said", set())
    for name in ("one", "two"):
        lab.client("elb").create_load_balancer(
            LoadBalancerName=name,
            Listeners=[{"Protocol": "TCP", "LoadBalancerPort": 80, "InstancePort": 80}],
            AvailabilityZones=["us-east-1a"],
        )
    lines = [line for line in caplog.messages if "nothing answers at the endpoint" in line]
    assert lines == [
        "elb:CreateLoadBalancer: headrace stores the definition: nothing answers at the endpoint."
    ]


def test_each_row_names_an_operation_a_member_and_motos_method() -> None:
    for name in without_effect.MODULES:
        without_effect.say_so(importlib.import_module(name))
    session = get_session()
    for row in without_effect.ROWS:
        shape = session.get_service_model(row.service).operation_model(row.operation).input_shape
        assert not row.member or row.member in shape.members, row
        assert row.sentence.isascii(), row


def test_strict_refuses_a_member_that_starts_nothing(strict_lab: Callable[[], MotoLab]) -> None:
    glue = strict_lab().client("glue")
    glue.create_trigger(**_TRIGGER)
    with pytest.raises(ClientError, match="would ignore: StartOnCreation"):
        glue.create_trigger(**_TRIGGER, StartOnCreation=True)


@pytest.fixture
def strict_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], MotoLab]]:
    labs: list[MotoLab] = []

    def start() -> MotoLab:
        lab = MotoLab(tmp_path / "moto")
        lab.moto._preparation._check_strictly = StrictChecks().check
        labs.append(lab)
        return lab

    yield start
    for lab in labs:
        lab.kill()


def test_the_fidelity_report_has_each_row(cloud: InProcessCloud) -> None:
    assert moto_tables()["glue"]["CreateTrigger"]["StartOnCreation"] == "ignored"
    assert "no job is started" in NOTES["CreateTrigger.StartOnCreation"]
    rows = json.loads(cloud.handle(HttpRequest("GET", "/_headrace/fidelity", "")).body)
    noted = {(one["service"], one["operation"], one["property"]): one.get("note") for one in rows}
    for row in (*without_effect.ROWS, *without_effect.S3_ROWS):
        assert noted[row.service, row.operation, row.member], row
    assert (
        "replicates no objects" in noted["s3", "PutBucketReplication", "ReplicationConfiguration"]
    )


def _template(kind: str, **properties: Any) -> Template:
    return template_of("s", {"Resources": {"R": {"Type": kind, "Properties": properties}}})


def test_a_stack_says_what_its_resources_do_not_do() -> None:
    [row] = [
        one
        for one in fidelity_of(_template("AWS::EC2::Instance", ImageId="ami"))
        if not one["property"]
    ]
    assert "no machines" in row["remark"]
    rows = fidelity_of(
        _template("AWS::Glue::Trigger", Type="ON_DEMAND", Actions=[], StartOnCreation=True)
    )
    assert any(
        one["property"] == "StartOnCreation" and "no job is started" in one.get("remark", "")
        for one in rows
    )


def test_a_stack_says_it_of_buckets_and_subscriptions() -> None:
    replicated, tiers = {"Role": "r", "Rules": []}, [{"Id": "t"}]
    rows = fidelity_of(
        _template(
            "AWS::S3::Bucket",
            ReplicationConfiguration=replicated,
            IntelligentTieringConfigurations=tiers,
            LoggingConfiguration={"DestinationBucketName": "logs"},
        )
    )
    said = {one["property"]: (one["level"], one["remark"]) for one in rows}
    assert len(said) == len(rows) == 3
    assert said["ReplicationConfiguration"][0] == "ignored"
    assert "replicates no objects" in said["ReplicationConfiguration"][1]
    assert "moves no objects" in said["IntelligentTieringConfigurations"][1]
    assert "writes no access logs" in said["LoggingConfiguration"][1]
    for protocol, sentences in (("email", ["no mail"]), ("sqs", []), ("sms", ["no text messages"])):
        [*rows] = fidelity_of(_template("AWS::SNS::Subscription", Protocol=protocol, TopicArn="t"))
        assert len(rows) == len(sentences)
        assert all(text in one["remark"] for text, one in zip(sentences, rows, strict=True))


def test_lint_says_it_of_a_whole_resource(tmp_path: Path) -> None:
    path = tmp_path / "template.json"
    path.write_text(
        json.dumps({"Resources": {"R": {"Type": "AWS::EC2::Instance", "Properties": {}}}})
    )
    result = CliRunner().invoke(headrace, ["lint", "--local", str(path)])
    assert "AWS::EC2::Instance: headrace has no machines" in result.output


def test_s3_says_what_its_settings_do_not_do(
    cloud: InProcessCloud, caplog: pytest.LogCaptureFixture
) -> None:
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="bare")
    for _ in range(2):
        said = _said(
            s3.put_bucket_inventory_configuration(
                Bucket="bare",
                Id="i",
                InventoryConfiguration={
                    "Destination": {"S3BucketDestination": {"Bucket": "arn:aws:s3:::bare", "Format": "CSV"}},
                    "IsEnabled": True, "Id": "i", "IncludedObjectVersions": "All",
                    "Schedule": {"Frequency": "Daily"},
                },
            )
        )  # fmt: skip
        assert said == "headrace stores this and writes no inventory."
    assert len([line for line in caplog.messages if "writes no inventory" in line]) == 1
    logging = {"LoggingEnabled": {"TargetBucket": "bare", "TargetPrefix": "l/"}}
    put = s3.put_bucket_logging(Bucket="bare", BucketLoggingStatus=logging)
    assert "writes no access logs" in _said(put)
    assert not _said(s3.put_bucket_logging(Bucket="bare", BucketLoggingStatus={}))
    assert not _said(s3.put_object(Bucket="bare", Key="k", Body=b""))


def test_an_answer_that_says_that_it_failed_says_nothing_else(cloud: InProcessCloud) -> None:
    ec2 = cloud.client("ec2")
    flow: dict[str, Any] = {
        "ResourceIds": [ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]],
        "ResourceType": "VPC",
        "TrafficType": "ALL",
        "LogDestinationType": "s3",
    }
    failed = ec2.create_flow_logs(**flow, LogDestination="arn:aws:s3:::no-such-bucket")
    assert failed["Unsuccessful"]
    assert not _said(failed)
    cloud.client("s3").create_bucket(Bucket="flows")
    made = ec2.create_flow_logs(**flow, LogDestination="arn:aws:s3:::flows")
    assert "no logs are delivered" in _said(made)


def test_a_table_is_not_said_to_have_replicas(lab: MotoLab) -> None:
    tables = lab.client("dynamodb")
    tables.create_table(
        TableName="tab",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(ClientError, match="replicates no tables") as refusal:
        tables.update_table(
            TableName="tab", ReplicaUpdates=[{"Create": {"RegionName": "eu-west-1"}}]
        )
    assert refusal.value.response["Error"]["Code"] == "NotImplemented"
    # The older version of global tables, and the scaling of replicas.
    with pytest.raises(ClientError, match="replicates no tables"):
        tables.create_global_table(
            GlobalTableName="tab", ReplicationGroup=[{"RegionName": "us-east-1"}]
        )
    with pytest.raises(ClientError, match="replicates no tables"):
        tables.update_table_replica_auto_scaling(TableName="tab")
    assert tables.list_global_tables()["GlobalTables"] == []
    for call in (tables.describe_global_table, tables.describe_global_table_settings):
        with pytest.raises(tables.exceptions.GlobalTableNotFoundException, match="'tab'"):
            call(GlobalTableName="tab")


def test_a_job_of_batch_may_have_a_name_of_one_letter(lab: MotoLab) -> None:
    with pytest.raises(ClientError, match="Job definition d does not exist"):
        lab.client("batch").submit_job(jobName="j", jobQueue="q", jobDefinition="d")
