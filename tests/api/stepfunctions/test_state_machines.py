"""State machines on a whole cloud: what a Map reads from S3 and writes there, and what services answer to tasks.

Documented: https://docs.aws.amazon.com/step-functions/latest/dg/input-output-itemreader.html and
input-output-resultwriter.html.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.services.s3 import errors
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

ROLE = f"arn:aws:iam::{ACCOUNT}:role/r"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCloud]:
    with InProcessCloud(tmp_path_factory.mktemp("machines") / "data") as cloud:
        cloud.client("s3").create_bucket(Bucket="lake")
        yield cloud


def ended(
    cloud: InProcessCloud, name: str, state: dict[str, Any], given: Any = None
) -> dict[str, Any]:
    states = cloud.client("stepfunctions")
    language = state.get("QueryLanguage", "JSONata")
    definition = {"QueryLanguage": language, "StartAt": "A", "States": {"A": state}}
    machine = states.create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]
    run = states.start_execution(stateMachineArn=machine, input=json.dumps(given or {}))[
        "executionArn"
    ]

    def described() -> dict[str, Any]:
        return states.describe_execution(executionArn=run)

    wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")
    return described()


def mapping(**fields: Any) -> dict[str, Any]:
    processor = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "EXPRESS"},
        "StartAt": "P",
        "States": {"P": {"Type": "Pass", "Output": "{% $states.input.n * 2 %}", "End": True}},
    }
    return {"Type": "Map", "ItemProcessor": processor, "End": True, **fields}


def test_a_map_reads_json_lines_and_writes_what_became_of_them(cloud: InProcessCloud):
    s3 = cloud.client("s3")
    s3.put_object(Bucket="lake", Key="in/lines", Body=b'{"n": 1}\n{"n": "x"}\n\n{"n": 3}\n{"n": 4}')
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": {"InputType": "JSONL", "MaxItems": "{% 3 %}"},
        "Arguments": {"Bucket": "lake", "Key": "{% 'in/' & 'lines' %}"},
    }
    writer = {
        "Resource": "arn:aws:states:::s3:putObject",
        "Arguments": {"Bucket": "lake", "Prefix": "{% 'out' %}"},
    }
    state = mapping(ItemReader=reader, ResultWriter=writer, ToleratedFailureCount=1)
    done = ended(cloud, "lines", state)
    assert done["status"] == "SUCCEEDED", done.get("cause")
    where = json.loads(done["output"])["ResultWriterDetails"]
    manifest = json.loads(s3.get_object(**where)["Body"].read())
    files = manifest["ResultFiles"]
    found = {
        status: json.loads(s3.get_object(Bucket="lake", Key=files[status][0]["Key"])["Body"].read())
        for status in ("SUCCEEDED", "FAILED")
    }
    assert [each["Output"] for each in found["SUCCEEDED"]] == ["2", "6"]
    (failed,) = found["FAILED"]
    assert (json.loads(failed["Input"]), failed["Error"]) == (
        {"n": "x"},
        "States.QueryEvaluationError",
    )


def test_a_map_goes_over_all_objects_of_a_listing_in_batches(cloud: InProcessCloud):
    s3 = cloud.client("s3")
    for number in range(5):
        s3.put_object(Bucket="lake", Key=f"many/{number}", Body=b"x" * number)
    reader = {
        "Resource": "arn:aws:states:::s3:listObjectsV2",
        "Arguments": {"Bucket": "lake", "Prefix": "many/", "MaxKeys": 2},
    }
    state = mapping(
        ItemReader=reader,
        ItemSelector={"n": "{% $states.context.Map.Item.Value.Size %}"},
        ItemBatcher={"MaxItemsPerBatch": 4, "BatchInput": {"to": "t"}},
    )
    state["ItemProcessor"]["States"]["P"] = {"Type": "Pass", "End": True}
    sizes = [{"n": number} for number in range(5)]
    done = ended(cloud, "listing", state)
    assert json.loads(done["output"]) == [
        {"BatchInput": {"to": "t"}, "Items": batch} for batch in (sizes[:4], sizes[4:])
    ]
    limited = {**reader, "ReaderConfig": {"MaxItems": 3, "InputType": "JSON"}}
    done = ended(cloud, "limited", {**state, "ItemReader": limited})
    assert len(json.loads(done["output"])[0]["Items"]) == 3
    none = {**reader, "Arguments": {"Bucket": "lake", "Prefix": "none/"}}
    done = ended(cloud, "empty", {**state, "ItemReader": none})
    assert (done["status"], done["output"]) == ("SUCCEEDED", "[]")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {
                "ItemReader": {
                    "Resource": "arn:aws:states:::s3:getObject",
                    "ReaderConfig": {"InputType": "JSON"},
                    "Arguments": {"Bucket": "lake", "Key": "none"},
                }
            },
            "States.ItemReaderFailed",
        ),
        (
            {
                "Items": [{"n": 1}],
                "ResultWriter": {
                    "Resource": "arn:aws:states:::s3:putObject",
                    "Arguments": {"Bucket": "no-lake", "Prefix": "p"},
                },
            },
            "States.ResultWriterFailed",
        ),
    ],
)
def test_what_s3_refuses_has_the_maps_error(
    cloud: InProcessCloud, fields: dict[str, Any], error: str
):
    done = ended(cloud, error.replace(".", "-"), mapping(**fields))
    assert (done["status"], done["error"]) == ("FAILED", error)


def test_times_that_a_service_answers_are_text(cloud: InProcessCloud):
    cloud.client("s3").put_object(Bucket="lake", Key="k", Body=b'{"n": 5}')
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
        "Arguments": {"Bucket": "lake", "Key": "k"},
        "Output": "{% [$parse($states.result.Body).n, $substring($states.result.LastModified, 19)] %}",
        "End": True,
    }
    done = ended(cloud, "times", task)
    assert json.loads(done["output"]) == [5, ".000Z"]


def task(resource: str, arguments: dict[str, Any]) -> dict[str, Any]:
    arn = f"arn:aws:states:::{resource}"
    return {"Type": "Task", "Resource": arn, "Arguments": arguments, "End": True}


ACTIVITY = f"arn:aws:states:us-east-1:{ACCOUNT}:activity:no"
STEP = {"Jar": "command-runner.jar", "Args": ["bash", "-c", "exit 3"]}


@pytest.mark.parametrize(
    ("resource", "arguments", "error"),
    [
        # Not that its ClientToken is missing, which SDKs make.
        (
            "emr-serverless:startJobRun",
            {
                "ApplicationId": "00nosuchapplica1",
                "ExecutionRoleArn": ROLE,
                "JobDriver": {"SparkSubmit": {"EntryPoint": "s3://lake/s.py"}},
            },
            "EMRServerless.ResourceNotFoundException",
        ),
        (
            "aws-sdk:kinesis:putRecord",
            {"StreamName": "no", "PartitionKey": "p", "Data": "d"},
            "Kinesis.ResourceNotFoundException",
        ),
        ("aws-sdk:sqs:deleteQueue", {"QueueUrl": "no"}, "Sqs.QueueDoesNotExistException"),
        # Services by their names in AWS's SDK for Java.
        (
            "aws-sdk:sfn:describeActivity",
            {"ActivityArn": ACTIVITY},
            "Sfn.ActivityDoesNotExistException",
        ),
        (
            "aws-sdk:eventbridge:describeRule",
            {"Name": "no"},
            "EventBridge.ResourceNotFoundException",
        ),
        (
            "aws-sdk:cloudwatchlogs:deleteLogGroup",
            {"LogGroupName": "no"},
            "CloudWatchLogs.ResourceNotFoundException",
        ),
        (
            "aws-sdk:emrserverless:getApplication",
            {"ApplicationId": "00nosuchapplica1"},
            "EmrServerless.ResourceNotFoundException",
        ),
    ],
)
def test_what_a_service_refuses_has_its_name(
    cloud: InProcessCloud, resource: str, arguments: dict[str, Any], error: str
):
    done = ended(cloud, resource.replace(":", "-"), task(resource, arguments))
    assert (done["status"], done["error"]) == ("FAILED", error)


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["events:putEvents", "aws-sdk:eventbridge:putEvents"])
@pytest.mark.parametrize("source", ["aws.mine", "mine"])
def test_an_event_from_a_state_must_not_come_from_aws(
    cloud: InProcessCloud, resource: str, source: str
):
    entries = [{"Source": source, "DetailType": "t", "Detail": "{}"}]
    name = f"{resource}-{source}".replace(":", "-").replace(".", "-")
    done = ended(cloud, name, task(resource, {"Entries": entries}))
    if source == "mine":
        assert json.loads(done["output"])["FailedEntryCount"] == 0
    elif resource == "events:putEvents":
        assert (done["status"], done["error"]) == ("FAILED", "EventBridge.FailedEntry")
        assert "NotAuthorizedForSourceException" in done["cause"]
    else:
        (entry,) = json.loads(done["output"])["Entries"]
        assert entry["ErrorCode"] == "NotAuthorizedForSourceException"


@pytest.mark.parametrize(
    ("resource", "given", "error"),
    [
        ("dynamodb:putItem", {"TableName": "no", "Item": 1}, "DynamoDB.AmazonDynamoDBException"),
        ("dynamodb:putItem", {"TableName": "no", "Item": {}}, "DynamoDB.ResourceNotFoundException"),
        ("aws-sdk:dynamodb:putItem", {"TableName": "no", "Item": 1}, "DynamoDb.DynamoDbException"),
        (
            "aws-sdk:secretsmanager:createSecret",
            {"Name": "Invalid Name", "SecretString": "x"},
            "SecretsManager.SecretsManagerException",
        ),
        ("aws-sdk:s3:listObjects", {"Bucket": "no-such-bucket"}, "S3.NoSuchBucketException"),
        (
            "sqs:sendMessage",
            {"QueueUrl": f"http://localhost/{ACCOUNT}/named"},
            "SQS.AmazonSQSException",
        ),
    ],
)
def test_an_error_is_named_as_the_sdk_knows_it(
    cloud: InProcessCloud, resource: str, given: dict[str, Any], error: str
):
    """Recorded: LocalStack's snapshots of stepfunctions/v2/error_handling."""
    cloud.client("sqs").create_queue(QueueName="named")
    done = ended(cloud, f"{error}-{resource}".replace(":", "-"), task(resource, given))
    assert (done["status"], done["error"]) == ("FAILED", error)


def test_a_step_that_fails_is_a_task_that_fails(cloud: InProcessCloud):
    cluster = cloud.client("emr").run_job_flow(
        Name="c",
        ReleaseLabel="emr-7.5.0",
        Instances={
            "InstanceCount": 1,
            "MasterInstanceType": "m5.xlarge",
            "KeepJobFlowAliveWhenNoSteps": True,
        },
        JobFlowRole="r",
        ServiceRole="r",
    )["JobFlowId"]
    step = {"Name": "s", "ActionOnFailure": "CONTINUE", "HadoopJarStep": STEP}
    done = ended(
        cloud, "step", task("elasticmapreduce:addStep.sync", {"ClusterId": cluster, "Step": step})
    )
    assert (done["status"], done["error"]) == ("FAILED", "States.TaskFailed")
    assert json.loads(done["cause"])["Step"]["Status"]["State"] == "FAILED"


@pytest.mark.slow
def test_a_glue_job_that_nobody_runs_does_not_succeed(cloud: InProcessCloud):
    command = {"Name": "glueetl", "ScriptLocation": "s3://lake/s.py"}
    cloud.client("glue").create_job(Name="j", Role=ROLE, Command=command)
    done = ended(cloud, "glue", task("glue:startJobRun.sync", {"JobName": "j"}))
    assert (done["status"], done["error"]) == ("FAILED", "States.Runtime")
    assert "does not run Glue jobs" in done["cause"]


@pytest.mark.parametrize(
    ("level", "has_data", "kinds"),
    [
        ("ALL", True, ["ExecutionStarted", "PassStateEntered", "FailStateEntered"]),
        ("FATAL", False, ["ExecutionFailed"]),
    ],
)
def test_an_execution_is_logged_as_its_machine_says(
    cloud: InProcessCloud, level: str, has_data: bool, kinds: list[str]
):
    logs, states = cloud.client("logs"), cloud.client("stepfunctions")
    group = f"/states/{level}"
    logs.create_log_group(logGroupName=group)
    definition = {
        "StartAt": "A",
        "States": {
            "A": {"Type": "Pass", "Next": "B"},
            "B": {"Type": "Fail", "Error": "E", "Cause": "C"},
        },
    }
    arn = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{group}:*"
    machine = states.create_state_machine(
        name=f"logged-{level}",
        definition=json.dumps(definition),
        roleArn=ROLE,
        loggingConfiguration={
            "level": level,
            "includeExecutionData": has_data,
            "destinations": [{"cloudWatchLogsLogGroup": {"logGroupArn": arn}}],
        },
    )["stateMachineArn"]
    run = states.start_execution(stateMachineArn=machine, input='{"n": 1}')["executionArn"]
    found: list[dict[str, Any]] = []

    def is_logged() -> bool:
        events = logs.filter_log_events(logGroupName=group)["events"]
        found[:] = [json.loads(each["message"]) for each in events]
        return any(each["type"] == "ExecutionFailed" for each in found)

    wait_until(is_logged, within_s=30, what="the last event")
    assert set(kinds) <= {each["type"] for each in found}
    assert {each["execution_arn"] for each in found} == {run}
    (stream,) = logs.describe_log_streams(logGroupName=group)["logStreams"]
    assert stream["logStreamName"].startswith(f"states/logged-{level}/")
    details = found[0]["details"]
    assert (details.get("input") == '{"n": 1}') is has_data


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([{"Item.$": "$.a"}, "b"], [{"Item": 1}, "b"]),
        ([], []),
        (5, 5),
        ("text", "text"),
        (True, True),
        (None, None),
        ({"A.$": "$.a"}, {"A": 1}),
    ],
)
def test_parameters_of_every_type_that_is_valid_run(
    cloud: InProcessCloud, parameters: Any, expected: Any
):
    states = cloud.client("stepfunctions")
    inner = {"StartAt": "I", "States": {"I": {"Type": "Pass", "End": True}}}
    for number, state in enumerate(
        (
            {"Type": "Pass", "Parameters": parameters},
            {"Type": "Parallel", "Branches": [inner], "Parameters": parameters},
        )
    ):
        definition = json.dumps({"StartAt": "S", "States": {"S": {**state, "End": True}}})
        assert states.validate_state_machine_definition(definition=definition)["result"] == "OK"
        arn = states.create_state_machine(
            name=f"any-{number}", definition=definition, roleArn=ROLE
        )["stateMachineArn"]
        run = states.start_execution(stateMachineArn=arn, input='{"a": 1}')["executionArn"]
        described = partial(states.describe_execution, executionArn=run)
        wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")  # noqa: B023
        done = described()
        states.delete_state_machine(stateMachineArn=arn)
        assert done["status"] == "SUCCEEDED", done
        assert json.loads(done["output"]) == (expected if number == 0 else [expected])


def reading(cloud: InProcessCloud, name: str, body: bytes, config: dict[str, Any]) -> Any:
    """Run a Map over an object; return its description."""
    cloud.client("s3").put_object(Bucket="lake", Key=name, Body=body)
    reader = {
        "Resource": "arn:aws:states:::s3:getObject",
        "ReaderConfig": config,
        "Arguments": {"Bucket": "lake", "Key": name},
    }
    state = mapping(ItemReader=reader)
    state["ItemProcessor"]["States"]["P"]["Output"] = "{% 1 %}"
    return ended(cloud, name, state)


@pytest.mark.parametrize("asks", ["a map", "a task"])
def test_an_object_that_a_state_must_not_hold_is_not_read(
    cloud: InProcessCloud, monkeypatch: pytest.MonkeyPatch, asks: str
):
    monkeypatch.setattr(errors, "HELD_BYTES", 10)
    if asks == "a map":
        done = reading(cloud, "large", b"[1,2,3,4,5,6]", {"InputType": "JSON"})
        assert done["error"] == "States.ItemReaderFailed"
    else:
        cloud.client("s3").put_object(Bucket="lake", Key="large", Body=b"x" * 11)
        task = {
            "Type": "Task",
            "Resource": "arn:aws:states:::aws-sdk:s3:getObject",
            "Arguments": {"Bucket": "lake", "Key": "large"},
            "End": True,
        }
        done = ended(cloud, "large-task", task)
        assert done["error"] == "S3.S3Exception"
    assert "headrace's services read at most 10 bytes of an object" in done["cause"]


@pytest.mark.parametrize(
    ("path", "given", "step"),
    [
        ("$.err", [1], "err"),
        ("$.err", "text", "err"),
        ("$.a.b", {"a": 5}, "b"),
        ("$.a.b", {"a": None}, "b"),
        ("$['a'][0]", {"a": {}}, "0"),
        # Lists of hundreds of millions would be made.
        ("$.a[900000000]", {"a": [1]}, "900000000"),
        ("$['a'][ 900000000]['b']", {}, "900000000"),
        ("$.a[1]", {"a": [1]}, None),
        ("$.a.b", {"a": {"c": 1}}, None),
        ("$['a b'].c", {}, None),
    ],
)
def test_a_result_path_that_does_not_fit_fails_the_state_by_awss_name(
    cloud: InProcessCloud, path: str, given: Any, step: str | None
) -> None:
    states = cloud.client("stepfunctions")
    definition = {
        "StartAt": "A",
        "States": {"A": {"Type": "Pass", "Result": 7, "ResultPath": path, "End": True}},
    }
    machine = states.create_state_machine(
        name=f"path-{step}-{len(path)}-{len(str(given))}",
        definition=json.dumps(definition),
        roleArn=ROLE,
    )["stateMachineArn"]
    run = states.start_execution(stateMachineArn=machine, input=json.dumps(given))["executionArn"]

    def described() -> dict[str, Any]:
        return states.describe_execution(executionArn=run)

    wait_until(lambda: described()["status"] != "RUNNING", within_s=30, what="its end")
    if step is None:
        assert described()["status"] == "SUCCEEDED"
        assert "7" in described()["output"]
        return
    assert described()["error"] == "States.ResultPathMatchFailure"
    text = json.dumps(given, separators=(",", ":"))
    assert described()["cause"].endswith(f'Unable to apply step "{step}" to input {text}')


def test_an_express_execution_is_told_by_its_log_alone(cloud: InProcessCloud):
    states = cloud.client("stepfunctions")
    definition = json.dumps({"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}})
    role = "arn:aws:iam::000000000000:role/r"
    made = states.create_state_machine(
        name="quick", type="EXPRESS", definition=definition, roleArn=role
    )
    machine = {"stateMachineArn": made["stateMachineArn"]}
    # A name may come again, with another input too.
    runs = [
        states.start_execution(**machine, name="n", input=given)["executionArn"]
        for given in ("{}", "{}", '{"a": 1}')
    ]
    start = "arn:aws:states:us-east-1:000000000000:express:quick:n:"
    assert len(set(runs)) == 3
    assert all(run.startswith(start) for run in runs)
    for call in (states.describe_execution, states.get_execution_history):
        with pytest.raises(ClientError, match="Resource type not valid in this context: express"):
            call(executionArn=runs[0])
    with pytest.raises(ClientError, match="not supported by this type of state machine"):
        states.list_executions(**machine)
    # A standard machine may have that name.
    named = states.create_state_machine(name="express", definition=definition, roleArn=role)
    run = states.start_execution(stateMachineArn=named["stateMachineArn"])["executionArn"]
    assert states.describe_execution(executionArn=run)["name"] in run
