"""What services do in the name of their roles is denied as AWS denies it: mappings, deliveries, stacks, Spark jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from urllib3.filepost import encode_multipart_formdata

from headrace.adapters.job_credentials import RoleCredentials
from headrace.aws.calls.http import HttpRequest
from headrace.pages.access import S3_PATH
from tests.support.cloud import InProcessCloud
from tests.support.emr import cluster_request
from tests.support.iam import ACCOUNT, REGION, allow, as_role, make_role, refusal, statements, trust
from tests.support.lambda_lab import zipped
from tests.support.server import wait_until

STREAM = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/flights"
READS = ["kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:DescribeStream", "kinesis:ListShards"]  # fmt: skip
BUCKET = "arn:aws:s3:::lake"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("services"), iam="enforce") as cloud:
        cloud.client("kinesis").create_stream(StreamName="flights", ShardCount=1)
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


def put_policy(cloud: InProcessCloud, role: str, *given: dict[str, Any]) -> None:
    document = json.dumps(statements(*given))
    cloud.client("iam").put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=document)


def make_function(cloud: InProcessCloud, name: str, role: str) -> None:
    code = zipped({"app.py": "def handler(event, context): return 1"})
    cloud.client("lambda").create_function(
        FunctionName=name, Runtime="python3.11", Handler="app.handler", Role=role, Code={"ZipFile": code},
    )  # fmt: skip


def test_a_function_needs_a_role_that_lambda_may_assume(cloud: InProcessCloud):
    role = make_role(cloud, "for-ec2", trusts="ec2.amazonaws.com")
    create = cloud.client("lambda").create_function
    settings = {
        "Runtime": "python3.11",
        "Handler": "a.b",
        "Code": {"ZipFile": zipped({"a.py": ""})},
    }
    # Observed by many users, also of a role that is not there.
    sentence = "The role defined for the function cannot be assumed by Lambda."
    found = refusal(create, FunctionName="no", Role=role, **settings)
    assert found == ("InvalidParameterValueException", 400, sentence)
    gone = f"arn:aws:iam::{ACCOUNT}:role/gone"
    assert refusal(create, FunctionName="no", Role=gone, **settings)[2] == sentence


def test_passing_a_role_is_asked_for(cloud: InProcessCloud):
    role = make_role(cloud, "passed")
    make_role(cloud, "deployer", allow("lambda:CreateFunction", "*"))
    create = as_role(cloud, "deployer", "lambda").create_function
    settings = {
        "Runtime": "python3.11",
        "Handler": "a.b",
        "Code": {"ZipFile": zipped({"a.py": ""})},
    }
    code, status, sentence = refusal(create, FunctionName="no", Role=role, **settings)
    assert (code, status) == ("AccessDeniedException", 403)
    assert f"iam:PassRole on resource: {role} because no identity-based policy" in sentence


def test_a_mapping_reads_with_the_functions_role(cloud: InProcessCloud):
    role = make_role(cloud, "blind", allow("kinesis:GetRecords", STREAM))
    make_function(cloud, "reads", role)
    lambda_ = cloud.client("lambda")
    settings = {
        "FunctionName": "reads",
        "EventSourceArn": STREAM,
        "StartingPosition": "TRIM_HORIZON",
    }
    code, _, sentence = refusal(lambda_.create_event_source_mapping, **settings)
    assert code == "InvalidParameterValueException"
    # Observed by many users.
    assert sentence == (
        f"Cannot access stream {STREAM}. Please ensure the role can perform the GetRecords, GetShardIterator,"
        " DescribeStream, and ListStreams Actions on your stream in IAM."
    )
    put_policy(cloud, "blind", allow(READS, STREAM))
    uuid = lambda_.create_event_source_mapping(**settings)["UUID"]
    put_policy(cloud, "blind", allow(READS[1:], STREAM))
    cloud.client("kinesis").put_record(StreamName="flights", Data=b"{}", PartitionKey="a")

    def problem() -> str:
        result = lambda_.get_event_source_mapping(UUID=uuid)["LastProcessingResult"]
        return result if "GetRecords" in result else ""

    assert wait_until(problem).startswith(
        f"PROBLEM: User: arn:aws:sts::{ACCOUNT}:assumed-role/blind/awslambda is not authorized"
        f" to perform: kinesis:GetRecords on resource: {STREAM}"
    )
    lambda_.delete_event_source_mapping(UUID=uuid)


def test_a_queue_is_read_with_the_functions_role(cloud: InProcessCloud):
    make_function(cloud, "takes", make_role(cloud, "taker"))
    cloud.client("sqs").create_queue(QueueName="jobs")
    found = refusal(
        cloud.client("lambda").create_event_source_mapping,
        FunctionName="takes",
        EventSourceArn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:jobs",
    )
    # Observed by many users.
    assert found[2] == (
        "The provided execution role does not have permissions to call ReceiveMessage on SQS"
    )


def delivery(cloud: InProcessCloud, name: str, role: str) -> Any:
    return cloud.client("firehose").create_delivery_stream, {
        "DeliveryStreamName": name,
        "DeliveryStreamType": "KinesisStreamAsSource",
        "KinesisStreamSourceConfiguration": {"KinesisStreamARN": STREAM, "RoleARN": role},
        "ExtendedS3DestinationConfiguration": {
            "RoleARN": role,
            "BucketARN": BUCKET,
            "BufferingHints": {"SizeInMBs": 1, "IntervalInSeconds": 0},
        },
    }


def test_a_delivery_stream_needs_roles_that_firehose_may_assume_and_that_may_read(
    cloud: InProcessCloud,
):
    role = make_role(cloud, "not-firehose")
    create, settings = delivery(cloud, "no", role)
    # Observed by many users.
    sentence = f"Firehose is unable to assume role {role}. Please check the role provided."
    assert refusal(create, **settings) == ("InvalidArgumentException", 400, sentence)
    role = make_role(cloud, "unreading", trusts="firehose.amazonaws.com")
    create, settings = delivery(cloud, "no", role)
    assert refusal(create, **settings)[2] == (
        f"Role {role} is not authorized to perform: kinesis:DescribeStream on resource {STREAM}."
    )


def test_a_trust_policy_may_ask_for_the_account_of_the_delivery_stream(cloud: InProcessCloud):
    role = make_role(cloud, "bounded", allow(READS, STREAM), trusts="firehose.amazonaws.com")
    asked = trust("firehose.amazonaws.com")
    condition = {"StringEquals": {"aws:SourceAccount": "111111111111"}}
    asked["Statement"][0]["Condition"] = condition
    iam = cloud.client("iam")
    iam.update_assume_role_policy(RoleName="bounded", PolicyDocument=json.dumps(asked))
    create, settings = delivery(cloud, "bounded", role)
    assert "unable to assume" in refusal(create, **settings)[2]
    condition["StringEquals"]["aws:SourceAccount"] = ACCOUNT
    iam.update_assume_role_policy(RoleName="bounded", PolicyDocument=json.dumps(asked))
    create(**settings)
    firehose = cloud.client("firehose")
    update: dict[str, Any] = {
        "DeliveryStreamName": "bounded",
        "CurrentDeliveryStreamVersionId": "1",
        "DestinationId": "destinationId-000000000001",
    }
    # That a change is judged as a creation is, for what it changes, is assumed.
    other = make_role(cloud, "bounded-not", trusts="lambda.amazonaws.com")
    change = {"ExtendedS3DestinationUpdate": {"RoleARN": other}}
    assert (
        f"unable to assume role {other}"
        in refusal(firehose.update_destination, **update, **change)[2]
    )
    # Its own role has changed since: what is not changed is not judged.
    iam.update_assume_role_policy(
        RoleName="bounded", PolicyDocument=json.dumps(trust("lambda.amazonaws.com"))
    )
    firehose.update_destination(**update, ExtendedS3DestinationUpdate={"Prefix": "p/"})
    firehose.delete_delivery_stream(DeliveryStreamName="bounded")


def test_a_delivery_writes_with_its_role(cloud: InProcessCloud):
    role = make_role(cloud, "unwriting", allow(READS, STREAM), trusts="firehose.amazonaws.com")
    create, settings = delivery(cloud, "lake", role)
    create(**settings)
    cloud.client("kinesis").put_record(StreamName="flights", Data=b"{}", PartitionKey="a")
    firehose = cloud.cloud.firehose

    def error() -> str:
        return next((s["last_error"] for s in firehose.statuses()), "")

    assert wait_until(error).startswith("S3.AccessDenied: Access was denied. User: arn:aws:sts::")
    s3 = cloud.client("s3")
    assert "Contents" not in s3.list_objects_v2(Bucket="lake")
    put_policy(cloud, "unwriting", allow(READS, STREAM), allow("s3:PutObject", f"{BUCKET}/*"))
    wait_until(lambda: s3.list_objects_v2(Bucket="lake").get("Contents"))
    cloud.client("firehose").delete_delivery_stream(DeliveryStreamName="lake")


TEMPLATE = json.dumps(
    {"Resources": {"Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1}}}}
)


def stack_of(cloud: InProcessCloud, name: str) -> dict[str, Any]:
    def ended() -> Any:
        stack = cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
        return None if stack["StackStatus"].endswith("_IN_PROGRESS") else stack

    return wait_until(ended)


def test_resources_are_made_by_calls_of_the_stacks_role(cloud: InProcessCloud):
    role = make_role(cloud, "executes", trusts="cloudformation.amazonaws.com")
    cfn = cloud.client("cloudformation")
    cfn.create_stack(StackName="denied", TemplateBody=TEMPLATE, RoleARN=role)
    assert stack_of(cloud, "denied")["StackStatus"] == "ROLLBACK_COMPLETE"
    events = cfn.describe_stack_events(StackName="denied")["StackEvents"]
    (reason,) = [
        e["ResourceStatusReason"] for e in events if e["ResourceStatus"] == "CREATE_FAILED"
    ]
    assert reason.startswith(
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/executes/AWSCloudFormation is not authorized to perform:"
        " kinesis:CreateStream"
    )
    put_policy(cloud, "executes", allow("kinesis:*", "*"))
    cfn.create_stack(StackName="allowed", TemplateBody=TEMPLATE, RoleARN=role)
    assert stack_of(cloud, "allowed")["StackStatus"] == "CREATE_COMPLETE"


def test_without_a_role_a_stack_is_made_by_whoever_asks(cloud: InProcessCloud):
    make_role(cloud, "stacker", allow("cloudformation:*", "*"))
    cfn = as_role(cloud, "stacker", "cloudformation")
    cfn.create_stack(StackName="asked", TemplateBody=TEMPLATE)
    assert stack_of(cloud, "asked")["StackStatus"] == "ROLLBACK_COMPLETE"


def test_a_spark_job_acts_as_the_role_of_its_instance_profile(cloud: InProcessCloud):
    make_role(cloud, "nodes", allow("kinesis:ListShards", "*"), trusts="ec2.amazonaws.com")
    iam = cloud.client("iam")
    iam.create_instance_profile(InstanceProfileName="profile")
    iam.add_role_to_instance_profile(InstanceProfileName="profile", RoleName="nodes")
    inner = cloud.cloud
    give = RoleCredentials(inner.sessions, inner.moto.warm_up, inner.clock, lambda _: "secret")
    from tests.support.clients import client_of

    given = give(ACCOUNT, "profile", "i-1")
    sts = client_of(
        "sts",
        cloud.handle,
        account=given["AWS_ACCESS_KEY_ID"],
        region=REGION,
        token=given["AWS_SESSION_TOKEN"],
    )
    assert sts.get_caller_identity()["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/nodes/i-1"
    assert give(ACCOUNT, "", "i-1")["AWS_ACCESS_KEY_ID"] == ACCOUNT


def cluster_of(cloud: InProcessCloud, name: str, **more: Any) -> Any:
    emr = cloud.client("emr")
    return emr.run_job_flow, cluster_request(Name=name, **more)


def test_a_cluster_needs_a_service_role_that_emr_may_assume(cloud: InProcessCloud):
    make_role(cloud, "not-emr")
    create, settings = cluster_of(cloud, "no", ServiceRole="not-emr")
    # Reported by users, also of a role that is not there.
    assert refusal(create, **settings) == ("ValidationException", 400, "not-emr is invalid")
    create, settings = cluster_of(cloud, "no", ServiceRole="EMR_DefaultRole")
    assert refusal(create, **settings)[2] == "EMR_DefaultRole is invalid"


def test_a_cluster_ends_whose_service_role_may_not_have_its_nodes(cloud: InProcessCloud):
    nodes = make_role(cloud, "some-nodes", trusts="ec2.amazonaws.com")
    role = make_role(cloud, "starts", trusts="elasticmapreduce.amazonaws.com")
    iam, emr = cloud.client("iam"), cloud.client("emr")
    iam.create_instance_profile(InstanceProfileName="some-profile")
    iam.add_role_to_instance_profile(InstanceProfileName="some-profile", RoleName="some-nodes")

    def outcome(tags: list[dict[str, str]]) -> Any:
        more = {"ServiceRole": role, "JobFlowRole": "some-profile", "Tags": tags}
        create, settings = cluster_of(cloud, "c", **more)
        cluster_id = create(**settings)["JobFlowId"]

        def settled() -> Any:
            status = emr.describe_cluster(ClusterId=cluster_id)["Cluster"]["Status"]
            return status if status["State"] in ("WAITING", "TERMINATED_WITH_ERRORS") else None

        found = wait_until(settled)
        emr.terminate_job_flows(JobFlowIds=[cluster_id])
        return found

    # As AmazonEMRServicePolicy_v2 has it: only what carries the tag.
    tag = "for-use-with-amazon-emr-managed-policies"
    runs = allow("ec2:RunInstances", "arn:aws:ec2:*:*:instance/*")
    runs["Condition"] = {"StringEquals": {f"aws:RequestTag/{tag}": "true"}}
    put_policy(cloud, "starts", runs)
    tags = [{"Key": tag, "Value": "true"}]
    reason = outcome(tags)["StateChangeReason"]
    assert reason["Code"] == "VALIDATION_ERROR"
    assert reason["Message"].startswith(f"Service role {role} has insufficient EC2 permissions. ")
    assert f"iam:PassRole on resource: {nodes}" in reason["Message"]
    passes = allow("iam:PassRole", nodes)
    passes["Condition"] = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    put_policy(cloud, "starts", runs, passes)
    assert outcome(tags)["State"] == "WAITING"
    assert "ec2:RunInstances" in outcome([])["StateChangeReason"]["Message"]


def test_a_job_run_fails_whose_role_emr_serverless_may_not_assume(cloud: InProcessCloud):
    role = make_role(cloud, "not-serverless")
    serverless = cloud.client("emr-serverless")
    made = serverless.create_application(name="a", releaseLabel="emr-7.1.0", type="SPARK")
    ids = {"applicationId": made["applicationId"]}
    ids["jobRunId"] = serverless.start_job_run(
        **ids, executionRoleArn=role, clientToken="t", jobDriver={"sparkSubmit": {"entryPoint": "s3://lake/a.py"}},
    )["jobRunId"]  # fmt: skip

    def ended() -> Any:
        run = serverless.get_job_run(**ids)["jobRun"]
        return run if run["state"] == "FAILED" else None

    # Reported by users.
    assert wait_until(ended)["stateDetails"] == (
        f"Could not assume runtime role {role} because it does not exist or isn't setup with the required trust"
        " relationship."
    )


def test_a_job_runs_own_policy_limits_what_it_does_in_s3(cloud: InProcessCloud):
    """StartJobRun's executionIamPolicy: what the job's FileSystem asks with the credentials that it is given."""
    make_role(cloud, "jobs", allow("s3:*", "*"), trusts="emr-serverless.amazonaws.com")
    inner = cloud.cloud
    give = RoleCredentials(inner.sessions, inner.moto.warm_up, inner.clock, lambda _: "secret")

    def answer(line: str, policy: str) -> int:
        given = give(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:role/jobs", "run", policy)
        headers = {
            "x-headrace-key": given["AWS_ACCESS_KEY_ID"],
            "x-headrace-token": given["AWS_SESSION_TOKEN"],
        }
        return cloud.handle(HttpRequest("POST", S3_PATH, "", headers, line.encode())).status

    limit = json.dumps(statements(allow("s3:GetObject", f"{BUCKET}/in/*")))
    assert answer("GetObject lake in/a", limit) == 204
    for line in ("GetObject lake out/a", "PutObject lake in/a", "ListObjectsV2 lake in"):
        assert (answer(line, limit), answer(line, "")) == (403, 204)


def test_a_call_in_cbor_needs_the_permission_too(cloud: InProcessCloud):
    """What reads a call's parameters reads JSON: `headrace/aws/protocols/encodings.py` gives it that."""
    make_role(cloud, "of-metrics", allow("cloudwatch:ListMetrics", "*"))
    role = f"arn:aws:iam::{ACCOUNT}:role/of-metrics"
    made = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="s1")["Credentials"]
    scope = f"{made['AccessKeyId']}/20260101/{REGION}/monitoring/aws4_request"
    headers = {
        "smithy-protocol": "rpc-v2-cbor",
        "content-type": "application/cbor",
        "x-amz-security-token": made["SessionToken"],
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }
    bodies = [
        cloud.handle(
            HttpRequest(
                "POST",
                f"/service/GraniteServiceVersion20100801/operation/{operation}",
                "",
                headers,
                b"\xa0",
            )
        ).body
        for operation in ("ListMetrics", "DescribeAlarms")
    ]
    denied = [b"AccessDenied" in body for body in bodies if isinstance(body, bytes)]
    assert denied == [False, True]


def test_a_browsers_form_is_of_whom_its_fields_name(cloud: InProcessCloud):
    cloud.client("s3").create_bucket(Bucket="forms")
    make_role(cloud, "putter", allow("s3:PutObject", "arn:aws:s3:::forms/in/*"))
    presigned = as_role(cloud, "putter", "s3").generate_presigned_post

    def post(key: str, **changed: str) -> tuple[int, bytes]:
        conditions = [["starts-with", "$tagging", ""]]
        tagging = {"tagging": changed.pop("tagging")} if "tagging" in changed else {}
        made = presigned("forms", key, Fields=tagging, Conditions=conditions)
        fields = {**made["fields"], **changed, "file": ("f", b"x")}
        body, kind = encode_multipart_formdata(fields)
        headers = {"content-type": kind, "host": "localhost:4566"}
        answer = cloud.handle(HttpRequest("POST", "/forms", "", headers, body))
        return answer.status, bytes(answer.body)  # type: ignore[arg-type]

    assert post("in/a")[0] == 204
    assert post("out/a")[0] == 403
    tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
    status, body = post("in/b", tagging=tags)
    assert (status, b"s3:PutObjectTagging" in body) == (403, True)
