"""`headrace lint`: what it takes, what it says, and with which code it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli.commands import headrace
from headrace.core.extras import install_command
from headrace.lint.inputs import (
    NothingToLint,
    find_construct,
    keep_templates,
    template_of_stack,
    templates_of,
)

BLOCKING = {
    "Resources": {
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": "arn:aws:kinesis:us-east-1:123456789012:stream/clicks",
                "FunctionName": "count",
                "StartingPosition": "LATEST",
                "BisectBatchOnFunctionError": True,
                "DestinationConfig": {
                    "OnFailure": {"Destination": "arn:aws:sqs:us-east-1:123456789012:failed"}
                },
            },
        }
    }
}
REFUSED = {
    "Resources": {
        "Lake": {
            "Type": "AWS::KinesisFirehose::DeliveryStream",
            "Properties": {
                "DeliveryStreamEncryptionConfigurationInput": {"KeyType": "AWS_OWNED_CMK"},
                "ExtendedS3DestinationConfiguration": {
                    "BucketARN": "arn:aws:s3:::lake",
                    "RoleARN": "arn:aws:iam::123456789012:role/firehose",
                    "Prefix": "!{timestamp:yyyy}/",
                },
            },
        }
    }
}
SOUND: dict[str, Any] = {"Resources": {"Failed": {"Type": "AWS::SQS::Queue"}}}


def lint(*arguments: str | Path) -> Result:
    return CliRunner().invoke(headrace, ["lint", *map(str, arguments)])


def written(path: Path, body: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1))
    return path


@pytest.mark.parametrize(
    ("bodies", "code", "ids"),
    [
        ([SOUND], 0, []),
        ([REFUSED], 2, ["E9023"]),
        ([BLOCKING], 4, ["W9001"]),
        ([BLOCKING, REFUSED], 6, ["W9001", "E9023"]),
    ],
)
def test_it_ends_with_the_code_that_cfn_lint_ends_with(
    bodies: list[dict[str, Any]], code: int, ids: list[str], tmp_path: Path
) -> None:
    files = [written(tmp_path / f"{n}.json", body) for n, body in enumerate(bodies)]

    result = lint(*files, "--only-streaming", "--format", "json")

    assert result.exit_code == code
    found = json.loads(result.stdout) if result.stdout.strip() else []
    assert [one["Rule"]["Id"] for one in found] == ids


def test_a_rule_can_be_left_out(tmp_path: Path) -> None:
    result = lint(written(tmp_path / "t.json", BLOCKING), "--only-streaming", "-i", "W9001")

    assert (result.exit_code, result.stdout) == (0, "")


def test_cfn_lints_own_rules_hold_too(tmp_path: Path) -> None:
    body = {"Resources": {"Failed": {"Type": "AWS::SQS::Queue", "Properties": {"Nme": "x"}}}}

    result = lint(written(tmp_path / "t.json", body), "--format", "parseable")

    assert result.exit_code == 2
    assert ":E3002:" in result.stdout


def test_a_quota_can_be_set(tmp_path: Path) -> None:
    stream = {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": 100}}
    path = written(tmp_path / "t.json", {"Resources": {"Clicks": stream}})

    assert "W9070" not in lint(path, "--only-streaming").stdout
    assert "W9070" in lint(path, "--only-streaming", "-x", "W9070:shards=99").stdout


def test_metadata_of_a_resource_leaves_a_rule_out(tmp_path: Path) -> None:
    body = json.loads(json.dumps(BLOCKING))
    body["Resources"]["Mapping"]["Metadata"] = {
        "cfn-lint": {"config": {"ignore_checks": ["W9001"]}}
    }

    assert lint(written(tmp_path / "t.json", body), "--only-streaming").exit_code == 0


def test_a_name_with_brackets_is_a_name_and_no_pattern(tmp_path: Path) -> None:
    assert lint(written(tmp_path / "t[1].json", REFUSED), "--only-streaming").exit_code == 2


def test_a_cdk_out_is_linted_with_its_stages_and_nested_stacks(tmp_path: Path) -> None:
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "a.template.json"}}
    stage = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-prod"}}
    written(tmp_path / "manifest.json", {"artifacts": {"A": stack, "Prod": stage}})
    written(tmp_path / "assembly-prod" / "manifest.json", {"artifacts": {"A": stack}})
    for name in ("a.template.json", "b.nested.template.json", "assembly-prod/a.template.json"):
        written(tmp_path / name, SOUND)

    found = templates_of(tmp_path, tmp_path, region="us-east-1")

    assert [one.relative_to(tmp_path).as_posix() for one in found] == [
        "a.template.json",
        "assembly-prod/a.template.json",
        "b.nested.template.json",
    ]


APP = """
import json, os, pathlib
out = pathlib.Path(os.environ["CDK_OUTDIR"]); out.mkdir()
stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "a.template.json"}}
(out / "manifest.json").write_text(json.dumps({"artifacts": {"A": stack}}))
name = json.loads(os.environ["CDK_CONTEXT_JSON"])["name"] + os.environ["CDK_DEFAULT_REGION"]
body = {"Resources": {"Clicks": {"Type": "AWS::Kinesis::Stream", "Properties": {"Name": name}}}}
(out / "a.template.json").write_text(json.dumps(body))
"""


def test_an_app_is_synthesised_with_its_context(tmp_path: Path) -> None:
    app, scratch = tmp_path / "app", tmp_path / "scratch"
    scratch.mkdir()
    settings = {"app": f"{sys.executable} app.py", "context": {"name": "old"}}
    written(app / "cdk.json", settings)
    (app / "app.py").write_text(APP)

    said: list[str] = []
    (found,) = templates_of(
        app, scratch, region="eu-west-1", context={"name": "new-"}, say=said.append
    )
    assert said == [f"Synthesizing the CDK app in {app} ..."]

    stream = json.loads(found.read_text())["Resources"]["Clicks"]
    assert stream["Properties"] == {"Name": "new-eu-west-1"}
    assert not (app / "cdk.out").exists()


@pytest.mark.parametrize("is_writable", [True, False])
def test_the_template_of_an_app_stays_where_findings_say(
    is_writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_writable:
        (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    body = json.dumps(BLOCKING)
    app = APP.replace("json.dumps(body)", repr(body))
    written(tmp_path / "cdk.json", {"app": f"{sys.executable} app.py", "context": {"name": ""}})
    (tmp_path / "app.py").write_text(app)

    for _ in range(2):
        found = json.loads(lint(tmp_path, "--only-streaming", "--format", "json").stdout)
        (path,) = {Path(one["Filename"]) for one in found}
        assert path.is_relative_to(tmp_path / "cache") == is_writable
        assert not is_writable or path.read_text() == body


@pytest.mark.parametrize("is_apart", [False, True])
def test_findings_in_a_cdk_out_name_the_construct_without_the_cdk_cli(
    is_apart: bool, tmp_path: Path
) -> None:
    logical_id = [{"type": "aws:cdk:logicalId", "data": "Mapping"}]
    nested = [{"type": "aws:cdk:templateFile", "data": "b.nested.template.json"}]
    noted = {"/A/Mapping/Resource": logical_id, "/A/N": nested, "/A/N/Inner/Resource": logical_id}
    stack = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "a.template.json"},
        **({"additionalMetadataFile": "a.json"} if is_apart else {"metadata": noted}),
    }
    written(tmp_path / "a.json", noted)
    written(tmp_path / "manifest.json", {"artifacts": {"A": stack}})
    for name in ("a.template.json", "b.nested.template.json"):
        written(tmp_path / name, BLOCKING)

    found = json.loads(lint(tmp_path, "--only-streaming", "--format", "json").stdout)

    told = {Path(one["Filename"]).name: one["Message"] for one in found}
    assert "(A/Mapping)" in told["a.template.json"]
    assert "(A/N/Inner)" in told["b.nested.template.json"]


def test_cfn_lints_findings_name_constructs_and_leave_out_what_the_cdk_writes(
    tmp_path: Path,
) -> None:
    queue: dict[str, Any] = {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": "many"}}
    stated: dict[str, Any] = {
        "Type": "AWS::SQS::QueuePolicy",
        "DependsOn": ["Queue"],
        "Properties": {"Queues": [{"Ref": "Queue"}], "PolicyDocument": {"Statement": []}},
    }
    body = {"Resources": {"Queue": queue, "Policy": stated}}
    found = json.loads(lint(written(tmp_path / "t.json", body), "--format", "json").stdout)
    assert "W3005" in {one["Rule"]["Id"] for one in found}
    for name, resource in body["Resources"].items():
        resource["Metadata"] = {"aws:cdk:path": f"Shop/{name}/Resource"}
    found = json.loads(lint(written(tmp_path / "t.json", body), "--format", "json").stdout)
    assert found
    assert "W3005" not in {one["Rule"]["Id"] for one in found}
    assert all("(Shop/" in one["Message"] for one in found)
    assert found[0]["Location"]["Path"][0] == "Resources"


def test_a_kept_template_has_its_constructs(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    noted = {"/A/Mapping/Resource": [{"type": "aws:cdk:logicalId", "data": "Mapping"}]}
    properties = {"templateFile": "a.template.json"}
    stack = {"type": "aws:cloudformation:stack", "properties": properties, "metadata": noted}
    written(scratch / "manifest.json", {"artifacts": {"A": stack}})
    written(scratch / "a.template.json", BLOCKING)
    files = templates_of(scratch, tmp_path, region="us-east-1")
    (kept,) = keep_templates(files, scratch, tmp_path / "kept")
    assert kept.is_relative_to(tmp_path / "kept")
    assert find_construct(str(kept), "Mapping", {}) == "A/Mapping"


def test_a_sam_project_is_its_template(tmp_path: Path) -> None:
    written(tmp_path / "template.yaml", SOUND)

    assert templates_of(tmp_path, tmp_path, region="us-east-1") == [tmp_path / "template.yaml"]


def test_an_app_that_fails_says_its_last_line(tmp_path: Path) -> None:
    written(
        tmp_path / "cdk.json", {"app": f"{sys.executable} -c 'raise SystemExit(\"no such stack\")'"}
    )

    result = lint(tmp_path)

    assert result.exit_code == 1
    assert "failed with exit code 1: no such stack." in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("nothing", None, "There is no"),
        ("folder/notes.txt", "", "has nothing to lint"),
        ("folder/cdk.json", "{", "cannot be read"),
        ("folder/cdk.json", "[]", "is not a JSON object"),
        ("folder/cdk.json", "{}", "names no app"),
        ("folder/cdk.json", '{"app": "no-such-program"}', "does not run"),
        ("folder/cdk.json", '{"app": "true"}', "left no manifest.json"),
        ("folder/manifest.json", "{}", "is not a manifest of the CDK"),
        ("folder/manifest.json", '{"artifacts": []}', "is not a manifest of the CDK"),
        ("folder/manifest.json", '{"artifacts": {}}', "has no stack to lint"),
    ],
)
def test_what_is_no_template_is_named_in_one_sentence(
    name: str, content: str | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path = path.parent

    result = lint(path)

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["", "[]", "3", "{", "a: b: c", "Resources: 3", "\x00"])
def test_a_broken_template_is_an_error_and_no_traceback(content: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(content)

    result = lint(path, "--only-streaming")

    assert result.exit_code in (1, 2, 6)
    assert "Traceback" not in result.output


def test_without_cfn_lint_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cfnlint", None)

    result = lint(written(tmp_path / "t.json", SOUND))

    assert result.exit_code == 1
    assert result.stderr == f"Error: headrace lint needs cfn-lint: {install_command('lint')}\n"


class Stacks:
    """A client of CloudFormation that has one stack."""

    def __init__(self, body: Any, parameters: dict[str, str]) -> None:
        self.body, self.parameters = body, parameters

    def get_template(self, *, StackName: str, TemplateStage: str) -> dict[str, Any]:
        assert TemplateStage == "Processed", "as SAM's transform has left it"
        return {"TemplateBody": self.body}

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        given = [{"ParameterKey": k, "ParameterValue": v} for k, v in self.parameters.items()]
        return {"Stacks": [{"StackName": "clicks", "Parameters": given}]}


YAML = """
Parameters: {Shards: {Type: Number, Default: 1}, Key: {Type: String, NoEcho: true}}
Resources: {Clicks: {Type: 'AWS::Kinesis::Stream', Properties: {ShardCount: !Ref Shards}}}
"""


@pytest.mark.parametrize("is_text", [True, False])
def test_a_deployed_stack_is_linted_with_the_parameters_that_it_has(
    is_text: bool, tmp_path: Path
) -> None:
    body: Any = YAML
    if not is_text:
        body = {
            "Parameters": {
                "Shards": {"Type": "Number", "Default": 1},
                "Key": {"Type": "String", "NoEcho": True},
            },
            "Resources": {
                "Clicks": {
                    "Type": "AWS::Kinesis::Stream",
                    "Properties": {"ShardCount": {"Ref": "Shards"}},
                }
            },
        }

    path = template_of_stack(Stacks(body, {"Shards": "501", "Key": "****"}), "clicks", tmp_path)

    assert path == tmp_path / "clicks.template.json"
    assert "Default" not in json.loads(path.read_text())["Parameters"]["Key"]
    assert "501 shards" in lint(path, "--only-streaming").stdout


def test_a_deployed_template_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingToLint, match="The template of stack clicks cannot be read"):
        template_of_stack(Stacks("a: b: c", {}), "clicks", tmp_path)


def test_a_stack_where_no_cloud_answers_is_one_sentence() -> None:
    result = lint("--stack", "clicks", "--endpoint-url", "http://127.0.0.1:1")

    assert result.exit_code == 1
    assert (
        result.stderr == "Error: No cloud answers at http://127.0.0.1:1/; start one: headrace up\n"
    )


def test_it_says_what_headrace_itself_refuses_and_does_not_act_on(tmp_path: Path) -> None:
    body = {
        "Resources": {
            "Unknown": {"Type": "AWS::RoboMaker::Fleet"},
            "Sam": {"Type": "AWS::Serverless::Function", "Properties": {}},
            "Machine": {
                "Type": "AWS::Kinesis::Stream",
                "Properties": {
                    "StreamEncryption": {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"},
                    "DesiredShardLevelMetrics": ["ALL"],
                },
            },
        },
        "Outputs": {"Name": {"Value": {"Ref": "Machine"}}},
    }
    path = written(tmp_path / "t.json", body)

    without = lint(path, "--only-streaming", "--format", "parseable")
    local = lint(path, "--only-streaming", "--local", "--format", "parseable")

    assert (without.exit_code, without.stdout) == (0, "")
    assert local.stdout.count(":E9080:") == 1
    assert "headrace does not know AWS::RoboMaker::Fleet" in local.stdout
    stored = "AWS::Kinesis::Stream.StreamEncryption: headrace stores it and does not act on it"
    assert stored in local.stdout
    assert local.exit_code == 6


@pytest.mark.parametrize("content", ['{"Resources": {"A": 3}}', '{"Resources": {"A": {}}}'])
def test_what_is_no_template_breaks_no_rule_of_headraces_own(content: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)

    result = lint(path, "--only-streaming", "--local")

    assert (result.exit_code, result.stdout) == (0, "")
