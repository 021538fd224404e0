"""The pytest plug-in, in runs of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import pytest

from headrace.testing.access import CloudUnusable, RemoteCloud
from headrace.testing.clouds import ServedCloud, cloud

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "headrace.testing.plugin", "-p", "no:cacheprovider", "-p", "no:kinesis")


@pytest.fixture(scope="module", autouse=True)
def _moto() -> None:
    """Load moto: a run in this process takes back what it adds to `sys.meta_path`, and so the finder of its patches."""
    with cloud() as here:
        here.client("sts").get_caller_identity()


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a function in it."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    folder = pytester.mkdir("upper")
    (folder / "handler.py").write_text(
        """
import base64, boto3, os
kinesis = boto3.client("kinesis")
def handler(event, context):
    for record in event["Records"]:
        data = base64.b64decode(record["kinesis"]["data"]).upper()
        kinesis.put_record(StreamName=os.environ["OUT"], Data=data, PartitionKey="k")
"""
    )
    return pytester


PIPELINE = """
import boto3, os

def test_pipeline(headrace_session, headrace_aws, headrace_function):
    kinesis = headrace_session.client("kinesis")
    for name in ("in", "out"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
    headrace_function("upper", source="in", environment={"OUT": "out"})
    kinesis.put_record(StreamName="in", Data=b"one", PartitionKey="k")
    headrace_aws.until_drained()
    assert [record.data for record in headrace_aws.records_of("out")] == [b"ONE"]

def test_an_account_of_its_own(headrace_aws):
    # The first test's streams are another account's, and the environment leads here.
    assert boto3.client("kinesis").list_streams()["StreamNames"] == []
    assert os.environ["AWS_ACCESS_KEY_ID"] == headrace_aws.account
    assert boto3.client("sts").get_caller_identity()["Account"] == headrace_aws.account
"""


TEMPLATE = """
AWSTemplateFormatVersion: 2010-09-09
Transform: AWS::Serverless-2016-10-31
Resources:
  In: {Type: AWS::Kinesis::Stream, Properties: {ShardCount: 1}}
  Out: {Type: AWS::Kinesis::Stream, Properties: {ShardCount: 1}}
  Upper:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: python3.13
      Handler: handler.handler
      CodeUri: upper/
      Environment: {Variables: {OUT: !Ref Out}}
      Events:
        Stream:
          Type: Kinesis
          Properties: {Stream: !GetAtt In.Arn, StartingPosition: TRIM_HORIZON}
Outputs:
  In: {Value: !Ref In}
  Out: {Value: !Ref Out}
"""

STACKS = """
def test_a_stack(headrace_stack):
    stack = headrace_stack("template.yaml")
    kinesis = stack.cloud.client("kinesis")
    kinesis.put_record(StreamName=stack.outputs["In"], Data=b"one", PartitionKey="k")
    stack.cloud.until_drained()
    assert [r.data for r in stack.cloud.records_of(stack.outputs["Out"])] == [b"ONE"]

def test_the_same_stack(headrace_stack):
    stack = headrace_stack("template.yaml")
    assert len(stack.cloud.records_of(stack.outputs["Out"])) == 1

def test_a_stack_that_fails(headrace_stack):
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 1, "Name": "s"}}
    headrace_stack({"Resources": {"S": stream, "T": {**stream, "DependsOn": "S"}}})

def test_a_handler_that_is_not_there(headrace_function):
    headrace_function('nowhere')

def test_an_import_of_what_is_not_there(headrace_function):
    headrace_function('broken')

def test_a_stream_that_is_not_there(headrace_function):
    headrace_function('upper', source='nothing')
"""

DENIED = """
import json

def test_a_role_that_may_not(headrace_aws):
    iam, sts = headrace_aws.client("iam"), headrace_aws.client("sts")
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="narrow", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    keys = sts.assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    headrace_aws.session().client(
        "kinesis",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    ).list_streams()
"""


def test_pipelines_and_stacks_on_a_cloud_of_the_runs_own(project: pytest.Pytester) -> None:
    """In a process of its own, as all that start a cloud: moto is one to a process."""
    (project.path / "template.yaml").write_text(TEMPLATE)
    (project.mkdir("broken") / "handler.py").write_text("import no_such\ndef handler(e, c): pass")
    project.makepyfile(PIPELINE + STACKS + DENIED)
    result = project.runpytest_subprocess(*PLUGIN, "-q")
    result.assert_outcomes(passed=5, failed=4)
    result.stdout.fnmatch_lines(
        [
            "Stack stack ended as ROLLBACK_COMPLETE; its events:",
            "  CREATE_FAILED*T: *",
            "There is no folder */nowhere with the code of handler.handler*",
            "handler.handler of */broken cannot be imported: ModuleNotFoundError: No module named 'no_such'",
            "There is no stream nothing in account * to trigger a function: create it first.",
            "*headrace: permissions*",
            "AWS would deny 2 things that were done here:",
            "  role/narrow: kinesis:ListStreams on [*]",
            "  role/template-UpperRole-*: kinesis:PutRecord on arn:aws:kinesis:*",
        ]
    )


@pytest.fixture
def kept_modules() -> Iterator[dict[str, ModuleType]]:
    """Modules that stay loaded: pytester forgets those that came while it was used, and moto cannot be loaded twice."""
    kept: dict[str, ModuleType] = {}
    yield kept
    for name, module in kept.items():
        sys.modules.setdefault(name, module)


@pytest.fixture
def elsewhere(
    kept_modules: dict[str, ModuleType], pytester: pytest.Pytester
) -> Iterator[ServedCloud]:
    """A cloud in this process. Takes `pytester`, to be done before it: then the modules are still there."""
    with ServedCloud() as cloud:
        yield cloud
    kept_modules.update(sys.modules)


def test_the_same_tests_on_a_cloud_that_is_up(
    elsewhere: ServedCloud, project: pytest.Pytester
) -> None:
    project.makepyfile(PIPELINE)
    result = project.runpytest_subprocess(
        *PLUGIN, "-q", "--headrace-cloud", str(elsewhere.endpoint_url)
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("http://127.0.0.1:1", "ERROR: No cloud answers at http://127.0.0.1:1: *; start it*"),
        ("somewhere", "ERROR: A cloud is http://host:port, or aws, not 'somewhere'."),
    ],
)
def test_a_target_that_is_none_ends_the_run_before_any_test(
    pytester: pytest.Pytester, target: str, sentence: str
) -> None:
    pytester.makepyfile("def test_it(headrace_cloud): pass")
    result = pytester.runpytest_inprocess(*PLUGIN, "--headrace-cloud", target)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len([line for line in result.errlines if line]) == 1
    result.stderr.fnmatch_lines([sentence])


class _WebPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html></html>")

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web_page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _WebPage)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_what_listens_and_is_no_cloud_is_refused(web_page: str) -> None:
    with pytest.raises(CloudUnusable, match=f"^What listens at {web_page} is not a cloud: "):
        RemoteCloud(web_page)


def test_options_that_do_not_agree_are_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef headrace_options(): return {'limits': 'aws'}"
    )
    pytester.makepyfile(test_a="def test_a(headrace_session): pass")
    inner = pytester.mkpydir("inner")
    (inner / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(scope='session')\ndef headrace_options(): return {'limits': 'off'}"
    )
    (inner / "test_b.py").write_text("def test_b(headrace_session): pass")
    result = pytester.runpytest_subprocess(*PLUGIN, "test_a.py", "inner/test_b.py")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["There is one headrace_cloud a session*'aws'*test_b*'off'*"])
    result.stdout.no_fnmatch_line("*plugin.py*")


def test_an_unknown_option_is_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(scope='session')\ndef headrace_options(): return {'shards': 2}"
    )
    pytester.makepyfile("def test_it(headrace_cloud): pass")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.stdout.fnmatch_lines(["headrace_options: A cloud has no option 'shards'*"])


GUARDED = """
import os, pytest

def test_aws_is_out_of_reach():
    import boto3
    with pytest.raises(Exception, match="headrace lets no test reach AWS"):
        boto3.client("sts", region_name="us-east-1").get_caller_identity()

def test_credentials_are_not_the_users():
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "test"
    assert "AWS_PROFILE" not in os.environ
"""


@pytest.mark.parametrize("runner", ["runpytest_inprocess", "runpytest_subprocess"])
def test_no_test_reaches_aws(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    """In a process of its own botocore is imported by the test itself."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-user")
    monkeypatch.setenv("AWS_PROFILE", "production")
    pytester.makepyfile(GUARDED)
    getattr(pytester, runner)(*PLUGIN).assert_outcomes(passed=2)
    assert os.environ["AWS_PROFILE"] == "production"


def test_aws_may_be_allowed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    pytester.makeini("[pytest]\nheadrace_allow_aws = true")
    pytester.makepyfile(
        "import os\ndef test_it(): assert os.environ['AWS_PROFILE'] == 'production'"
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=1)


def test_workers_have_clouds_and_accounts_of_their_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import os, pytest
@pytest.mark.parametrize("n", range(4))
def test_it(n, headrace_aws):
    headrace_aws.client("kinesis").create_stream(StreamName="same", ShardCount=1)
    worker = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    assert headrace_aws.account.startswith(f"{1 + worker:03d}")
"""
    )
    project.runpytest_subprocess(*PLUGIN, "-n", "2").assert_outcomes(passed=4)


def test_it_is_light() -> None:
    """pytest loads it in every run."""
    seen = "import sys, headrace.testing.plugin; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    for heavy in ("botocore", "boto3", "moto", "hypothesis", "yaml"):
        assert f"'{heavy}'" not in run.stdout
