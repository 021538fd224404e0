"""A real cloud with `--auth`: how it is started, its commands, and that what runs in it can call it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config as BotocoreConfig
from botocore.exceptions import ClientError

from headrace.aws.signatures.access_keys import Secrets, read_secrets
from tests.security.browser import JS
from tests.support.forked_command import run_headrace
from tests.support.server import ServerProcess, wait_until

ROLE = "arn:aws:iam::000000000000:role/worker"
# What a function does as its role, and as somebody it is not.
CALLS = """
import boto3, json, os
from botocore.exceptions import ClientError
def refused(service, call, **keys):
    try:
        getattr(boto3.client(service, **keys), call)()
    except ClientError as error:
        return error.response["Error"]["Code"]
def handler(event, context):
    boto3.client("kinesis").put_record(StreamName="s", PartitionKey="k", Data=event["from"])
    s3 = boto3.client("s3")
    s3.put_object(Bucket="bucket", Key="made", Body=b"by a function")
    own = {"aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
           "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"]}
    other = {"aws_access_key_id": "999999999999", "aws_secret_access_key": "headrace"}
    return {"arn": boto3.client("sts").get_caller_identity()["Arn"],
            "read": s3.get_object(Bucket="bucket", Key="made")["Body"].read().decode(),
            "url": s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "made"}),
            "another account": refused("kinesis", "list_streams", **other),
            "without its token": refused("sts", "get_caller_identity", **own)}
"""
NODE = """
const { createHmac, createHash } = require("crypto");
const hash = (text) => createHash("sha256").update(text).digest("hex");
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
exports.handler = async () => {
  const env = process.env, url = new URL(env.AWS_ENDPOINT_URL);
  const time = new Date().toISOString().replace(/[-:]|\\.\\d+/g, ""), day = time.slice(0, 8);
  const headers = { host: url.host, "x-amz-date": time, "x-amz-security-token": env.AWS_SESSION_TOKEN,
                    "x-amz-target": "Kinesis_20131202.ListStreams" };
  const names = Object.keys(headers).sort(), signed = names.join(";");
  const lines = names.map((name) => name + ":" + headers[name] + "\\n").join("");
  const scope = [day, env.AWS_REGION, "kinesis", "aws4_request"].join("/");
  const canonical = ["POST", "/", "", lines, signed, hash("{}")].join("\\n");
  const text = ["AWS4-HMAC-SHA256", time, scope, hash(canonical)].join("\\n");
  let key = "AWS4" + env.AWS_SECRET_ACCESS_KEY;
  for (const part of scope.split("/")) key = hmac(key, part);
  headers.authorization = "AWS4-HMAC-SHA256 Credential=" + env.AWS_ACCESS_KEY_ID + "/" + scope +
    ", SignedHeaders=" + signed + ", Signature=" + hmac(key, text).toString("hex");
  const answer = await fetch(url, { method: "POST", headers, body: "{}" });
  return (await answer.json()).StreamNames;
};
"""


class Started:
    """A running cloud, and what belongs to its data directory."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        secrets = read_secrets(server.data_dir)
        assert secrets is not None
        self.secrets: Secrets = secrets

    def client(self, service: str, **keys: str) -> Any:
        given = {
            "aws_access_key_id": self.secrets.access_key_id,
            "aws_secret_access_key": self.secrets.secret_access_key,
            **keys,
        }
        config = BotocoreConfig(retries={"total_max_attempts": 1})
        return boto3.client(
            service,
            region_name="us-east-1",
            endpoint_url=self.server.endpoint_url,
            config=config,
            **given,
        )

    def records(self) -> set[bytes]:
        kinesis = self.client("kinesis")
        (shard,) = kinesis.list_shards(StreamName="s")["Shards"]
        iterator = kinesis.get_shard_iterator(
            StreamName="s", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        return {r["Data"] for r in kinesis.get_records(ShardIterator=iterator)["Records"]}

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `headrace` with no keys but those of the data directory, or of `environment`."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        variables = {
            **kept,
            "AWS_ENDPOINT_URL": self.server.endpoint_url,
            "HEADRACE_DATA_DIR": str(self.server.data_dir),
        }
        return run_headrace(*arguments, environment={**variables, **environment})


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("auth")
    with ServerProcess(folder / "data", "--auth", "--run-bootstrap-actions") as server:
        made = Started(server)
        made.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        made.client("s3").create_bucket(Bucket="bucket")
        yield made


def package(source: str, name: str = "index.py") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr(name, source)
    return file.getvalue()


def test_the_start_prints_the_key_and_the_address_of_the_pages(started: Started):
    printed = (started.server.data_dir / "headrace.log").read_text()
    secrets = started.secrets
    assert (
        f"export AWS_ACCESS_KEY_ID={secrets.access_key_id} AWS_SECRET_ACCESS_KEY={secrets.secret_access_key}\n"
        in printed
    )
    assert (
        f"its pages: {started.server.endpoint_url}/_headrace/?token={secrets.page_token}\n"
        in printed
    )


@pytest.fixture(scope="module")
def calls(started: Started) -> Any:
    """What a function has to say of its calls."""
    functions = started.client("lambda")
    functions.create_function(
        FunctionName="calls", Runtime="python3.12", Role=ROLE, Handler="index.handler", Timeout=30,
        Code={"ZipFile": package(CALLS)},
    )  # fmt: skip
    answer = functions.invoke(FunctionName="calls", Payload=json.dumps({"from": "a function"}))
    said = json.load(answer["Payload"])
    assert "FunctionError" not in answer, said
    return said


def test_functions_call_the_cloud_that_runs_them_as_their_role(started: Started, calls: Any):
    assert calls["arn"] == "arn:aws:sts::000000000000:assumed-role/worker/calls"
    assert calls["read"] == "by a function"
    assert b"a function" in started.records()
    with urllib.request.urlopen(calls["url"], timeout=10) as answer:
        assert answer.read() == b"by a function"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(calls["url"].replace("made?", "other?"), timeout=10)


def test_a_function_can_be_nobody_else(calls: Any):
    assert calls["another account"] == "InvalidSignatureException"
    assert calls["without its token"] == "InvalidClientTokenId"


def test_functions_of_node_sign_as_their_role_too(started: Started):
    functions = started.client("lambda")
    functions.create_function(
        FunctionName="node", Runtime="nodejs20.x", Role=ROLE, Handler="index.handler", Timeout=30,
        Code={"ZipFile": package(NODE, "index.js")},
    )  # fmt: skip
    assert json.load(functions.invoke(FunctionName="node")["Payload"]) == ["s"]


def test_a_delivery_with_a_transform_function_reaches_its_bucket(started: Started):
    source = (
        "import base64, boto3\n"
        "def handler(event, context):\n"
        "    arn = boto3.client('sts').get_caller_identity()['Arn']\n"
        "    made = {'result': 'Ok', 'data': base64.b64encode(arn.encode()).decode()}\n"
        "    return {'records': [{'recordId': r['recordId'], **made} for r in event['records']]}\n"
    )
    function = started.client("lambda").create_function(
        FunctionName="transform", Runtime="python3.12", Role=ROLE, Handler="index.handler", Timeout=30,
        Code={"ZipFile": package(source)},
    )["FunctionArn"]  # fmt: skip
    firehose = started.client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="d",
        ExtendedS3DestinationConfiguration={
            "RoleARN": ROLE, "BucketARN": "arn:aws:s3:::bucket", "Prefix": "delivered/",
            "BufferingHints": {"IntervalInSeconds": 0, "SizeInMBs": 1},
            "ProcessingConfiguration": {"Enabled": True, "Processors": [{
                "Type": "Lambda",
                "Parameters": [
                    {"ParameterName": "LambdaArn", "ParameterValue": function},
                    {"ParameterName": "BufferIntervalInSeconds", "ParameterValue": "0"},
                    {"ParameterName": "BufferSizeInMBs", "ParameterValue": "1"},
                ],
            }]},
        },
    )  # fmt: skip
    firehose.put_record(DeliveryStreamName="d", Record={"Data": b"x"})
    s3 = started.client("s3")

    def delivered() -> list[str]:
        found = s3.list_objects_v2(Bucket="bucket", Prefix="delivered/").get("Contents", [])
        return [str(entry["Key"]) for entry in found]

    (key,) = wait_until(delivered, within_s=30, what="the delivery")
    body = s3.get_object(Bucket="bucket", Key=key)["Body"].read()
    assert body == b"arn:aws:sts::000000000000:assumed-role/worker/transform"


def test_a_custom_resource_of_a_stack_answers(started: Started):
    source = (
        "import json, urllib.request\n"
        "def handler(event, context):\n"
        "    answer = {'Status': 'SUCCESS', 'PhysicalResourceId': 'made', 'StackId': event['StackId'],\n"
        "              'RequestId': event['RequestId'], 'LogicalResourceId': event['LogicalResourceId']}\n"
        "    request = urllib.request.Request(event['ResponseURL'], json.dumps(answer).encode(), method='PUT')\n"
        "    urllib.request.urlopen(request)\n"
    )
    function = {
        "Runtime": "python3.12", "Role": ROLE, "Handler": "index.handler", "Code": {"ZipFile": source},
    }  # fmt: skip
    template = {
        "Resources": {
            "F": {"Type": "AWS::Lambda::Function", "Properties": function},
            "C": {
                "Type": "Custom::It",
                "Properties": {"ServiceToken": {"Fn::GetAtt": ["F", "Arn"]}},
            },
        }
    }
    stacks = started.client("cloudformation")
    stacks.create_stack(StackName="s", TemplateBody=json.dumps(template))

    def status() -> str:
        return str(stacks.describe_stacks(StackName="s")["Stacks"][0]["StackStatus"])

    wait_until(lambda: not status().endswith("IN_PROGRESS"), what="the stack")
    assert status() == "CREATE_COMPLETE"


def test_steps_and_bootstrap_actions_of_emr_call_it(started: Started):
    code = "import boto3, sys; boto3.client('kinesis').put_record(StreamName='s', PartitionKey='k', Data=sys.argv[1])"
    script = f'#!/usr/bin/env bash\n{sys.executable} -c "{code}" "a bootstrap action"\n'
    started.client("s3").put_object(Bucket="bucket", Key="boot.sh", Body=script.encode())
    step = {"Jar": "command-runner.jar", "Args": [sys.executable, "-c", code, "a step"]}
    emr = started.client("emr")
    cluster = emr.run_job_flow(
        Name="c", ReleaseLabel="emr-7.0.0", ServiceRole="r", JobFlowRole="r",
        Instances={"MasterInstanceType": "m5.xlarge", "InstanceCount": 1, "KeepJobFlowAliveWhenNoSteps": False},
        BootstrapActions=[{"Name": "b", "ScriptBootstrapAction": {"Path": "s3://bucket/boot.sh"}}],
        Steps=[{"Name": "s", "HadoopJarStep": step}],
    )["JobFlowId"]  # fmt: skip

    def state() -> str:
        return str(emr.describe_cluster(ClusterId=cluster)["Cluster"]["Status"]["State"])

    wait_until(lambda: state().startswith("TERMINATED"), within_s=90, what="the cluster's end")
    assert {b"a step", b"a bootstrap action"} <= started.records()


@pytest.mark.parametrize("transport", ["default", "http1"])
def test_the_javascript_sdk_signs_what_it_sends_over_http2_and_http1(
    started: Started, transport: str
):
    keys = {
        "AWS_ACCESS_KEY_ID": started.secrets.access_key_id,
        "AWS_SECRET_ACCESS_KEY": started.secrets.secret_access_key,
    }
    script = ["node", "kinesis.mjs", started.server.endpoint_url, f"auth-{transport}", transport]
    done = subprocess.run(
        script, cwd=JS, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **keys},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["got"] == ["one ✓", "two", "three"]
    wrong = subprocess.run(
        script, cwd=JS, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **keys, "AWS_SECRET_ACCESS_KEY": "wrong"},
    )  # fmt: skip
    assert "InvalidSignatureException" in wrong.stderr


def test_headraces_own_commands_find_the_key_in_the_data_directory(started: Started):
    put = started.command("put", "s", "by the command")
    assert (put.returncode, put.stderr) == (0, "")
    tail = started.command("tail", "s", "--from", "TRIM_HORIZON", "--limit", "1")
    assert tail.returncode == 0
    added = started.command("faults", "add", "latency", "--latency-ms", "1", "--service", "glue")
    assert added.returncode == 0, added.stderr
    assert started.command("faults", "clear").stdout == "1 removed\n"
    trace = started.command("trace", "nothing")
    assert trace.stderr == (
        "Error: There is no mapping, mapped function, queue or channel nothing; no function is mapped to a stream"
        " or a queue\n"
    )
    status = started.command("status", "--json")
    assert json.loads(status.stdout)["data_dir"] == str(started.server.data_dir.absolute())


def test_and_in_the_environment_and_say_when_there_is_none(started: Started, tmp_path: Path):
    elsewhere = {"HEADRACE_DATA_DIR": str(tmp_path)}
    keys = {
        "AWS_ACCESS_KEY_ID": started.secrets.access_key_id,
        "AWS_SECRET_ACCESS_KEY": started.secrets.secret_access_key,
    }
    assert started.command("faults", "list", **elsewhere, **keys).stdout == "There are no faults.\n"
    refused = started.command("faults", "list", **elsewhere)
    assert refused.returncode == 1
    assert "started with --auth" in refused.stderr
    unknown = started.command("put", "s", "x", **elsewhere)
    assert "UnrecognizedClientException: The security token" in unknown.stderr


def test_keys_are_the_same_after_a_restart(started: Started):
    iam = started.client("iam")
    iam.create_user(UserName="ann")
    made = iam.create_access_key(UserName="ann")["AccessKey"]
    hers = {
        "aws_access_key_id": made["AccessKeyId"],
        "aws_secret_access_key": made["SecretAccessKey"],
    }
    started.server.kill9()
    started.server.start()
    # The first while moto is still loading: it is waited for, not said that there is no such key.
    assert started.client("kinesis", **hers).list_streams()["StreamNames"] == ["s"]
    assert started.client("kinesis").list_streams()["StreamNames"] == ["s"]


def test_a_cloud_in_the_background_says_its_key_and_keeps_it_out_of_the_log(tmp_path: Path):
    keys = tmp_path / "keys"
    keys.write_text(
        "[a]\naws_access_key_id=listed\naws_secret_access_key=s\naws_account_id=111111111111\n"
    )
    keys.chmod(0o644)
    data_dir = tmp_path / "data"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_headrace(*arguments, "--data-dir", str(data_dir))

    up = run("up", "--detach", "--port", "0", "--host", "0.0.0.0", "--auth-keys", str(keys))
    try:
        assert up.returncode == 0, up.stderr
        assert f"Warning: Others can read the keys in {keys}: chmod 600 {keys}" in up.stderr
        assert f"the keys are those of {keys}" in up.stdout
        assert "/_headrace/?token=" in up.stdout
        assert "token" not in (data_dir / "headrace.log").read_text()
        endpoint_url = json.loads((data_dir / "headrace.json").read_text())["endpoint_url"]
        iam = boto3.client(
            "iam", region_name="us-east-1", endpoint_url=endpoint_url, aws_access_key_id="listed",
            aws_secret_access_key="s",
        )  # fmt: skip
        assert ":111111111111:" in iam.create_user(UserName="u")["User"]["Arn"]
        secrets = read_secrets(data_dir)
        assert secrets is not None
        unlisted = boto3.client(
            "iam", region_name="us-east-1", endpoint_url=endpoint_url,
            aws_access_key_id=secrets.access_key_id, aws_secret_access_key=secrets.secret_access_key,
        )  # fmt: skip
        with pytest.raises(ClientError, match="InvalidClientTokenId"):
            unlisted.list_users()
    finally:
        run("down")


def test_insecure_is_said_to_be(tmp_path: Path):
    with ServerProcess(tmp_path / "data", "--host", "0.0.0.0", "--insecure") as server:
        printed = (server.data_dir / "headrace.log").read_text()
    assert (
        "Warning: Everybody who reaches 0.0.0.0 can use this cloud, and run code as you." in printed
    )
