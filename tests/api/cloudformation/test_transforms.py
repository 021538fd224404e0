"""Transforms: SAM, language extensions, includes and macros; and stacks in stacks."""

from __future__ import annotations

import io
import json
import re
import threading
import zipfile
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.api.cloudformation.test_stacks import create, settled, update
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import wait_until

SAM = "AWS::Serverless-2016-10-31"
LANGUAGE = "AWS::LanguageExtensions"
EXPAND = {"Capabilities": ["CAPABILITY_AUTO_EXPAND", "CAPABILITY_IAM"]}


def outputs(cfn: Any, name: str = "s") -> dict[str, str]:
    (stack,) = cfn.describe_stacks(StackName=name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}


def reasons(cfn: Any, name: str = "s") -> list[str]:
    events = cfn.describe_stack_events(StackName=name)["StackEvents"]
    told = [e for e in events if re.search("FAILED|ROLLBACK_IN_PROGRESS", e["ResourceStatus"])]
    return [e.get("ResourceStatusReason", "") for e in told]


def refused(cfn: Any, body: Any, **more: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        cfn.create_stack(StackName="s", TemplateBody=json.dumps(body), **more)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def put_object(cloud: InProcessCloud, key: str, body: bytes) -> None:
    s3 = cloud.client("s3")
    if not s3.list_buckets()["Buckets"]:
        s3.create_bucket(Bucket="things")
    s3.put_object(Bucket="things", Key=key, Body=body)


def zipped(code: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("app.py"), code)
    return packed.getvalue()


# --- SAM --------------------------------------------------------------------------------------------

SAM_TEMPLATE = {
    "Transform": SAM,
    "Globals": {"Function": {"Runtime": "python3.12", "Timeout": 10}},
    "Parameters": {"Shards": {"Type": "Number", "Default": 1}},
    "Resources": {
        "Stream": {"Type": "AWS::Kinesis::Stream", "Properties": {"ShardCount": {"Ref": "Shards"}}},
        "Table": {"Type": "AWS::Serverless::SimpleTable"},
        "Function": {
            "Type": "AWS::Serverless::Function",
            "Properties": {
                "Handler": "app.handler",
                "CodeUri": "s3://things/code.zip",
                "Policies": ["AmazonS3ReadOnlyAccess", {"DynamoDBCrudPolicy": {"TableName": {"Ref": "Table"}}}],
                "Environment": {"Variables": {"TABLE": {"Ref": "Table"}}},
                "Events": {
                    "Records": {
                        "Type": "Kinesis",
                        "Properties": {
                            "Stream": {"Fn::GetAtt": ["Stream", "Arn"]},
                            "StartingPosition": "TRIM_HORIZON",
                            "BatchSize": 10,
                        },
                    },
                    "Api": {"Type": "Api", "Properties": {"Path": "/hello", "Method": "get"}},
                },
            },
        },
    },
    "Outputs": {
        "Function": {"Value": {"Fn::GetAtt": ["Function", "Arn"]}},
        "Role": {"Value": {"Ref": "FunctionRole"}},
        "Url": {"Value": {"Fn::Sub": "https://${ServerlessRestApi}.execute-api.${AWS::Region}.amazonaws.com/Prod/hello/"}},
    },
}  # fmt: skip


def test_a_sam_application_is_deployed_and_works(cloud: InProcessCloud, cfn: Any) -> None:
    put_object(cloud, "code.zip", zipped("def handler(event, context):\n    return {'ok': True}\n"))

    assert create(cfn, SAM_TEMPLATE, **EXPAND) == "CREATE_COMPLETE", reasons(cfn)

    made = outputs(cfn)
    answer = cloud.client("lambda").invoke(FunctionName=made["Function"])
    assert json.loads(answer["Payload"].read()) == {"ok": True}
    (mapping,) = cloud.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    assert mapping["FunctionArn"] == made["Function"]
    attached = cloud.client("iam").list_attached_role_policies(RoleName=made["Role"])
    names = {policy["PolicyName"] for policy in attached["AttachedPolicies"]}
    assert "AmazonS3ReadOnlyAccess" in names
    kinds = {
        r["ResourceType"] for r in cfn.describe_stack_resources(StackName="s")["StackResources"]
    }
    assert {"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::DynamoDB::Table"} <= kinds
    with pytest.raises(ClientError, match="No updates are to be performed"):
        cfn.update_stack(StackName="s", UsePreviousTemplate=True, **EXPAND)
    more = {"ParameterKey": "Shards", "ParameterValue": "2"}
    cfn.update_stack(StackName="s", UsePreviousTemplate=True, Parameters=[more], **EXPAND)
    assert settled(cfn, "s") == "UPDATE_COMPLETE", reasons(cfn)


def test_a_template_is_shown_as_given_and_as_transformed(cfn: Any) -> None:
    body = {"Transform": SAM, "Resources": {"T": {"Type": "AWS::Serverless::SimpleTable"}}}
    assert create(cfn, body, **EXPAND) == "CREATE_COMPLETE", reasons(cfn)
    original = cfn.get_template(StackName="s", TemplateStage="Original")["TemplateBody"]
    assert original == body
    processed = cfn.get_template(StackName="s", TemplateStage="Processed")["TemplateBody"]
    assert processed["Resources"]["T"]["Type"] == "AWS::DynamoDB::Table"
    assert "Transform" not in processed
    assert cfn.get_template(StackName="s")["TemplateBody"] == processed
    summary = cfn.get_template_summary(StackName="s")
    assert summary["DeclaredTransforms"] == [SAM]
    assert summary["ResourceTypes"] == ["AWS::Serverless::SimpleTable"]
    checked = cfn.validate_template(TemplateBody=json.dumps(body))
    assert checked["DeclaredTransforms"] == [SAM]
    assert checked["Capabilities"] == ["CAPABILITY_AUTO_EXPAND"]


def test_transforms_are_to_be_acknowledged_but_for_a_change_set(cfn: Any) -> None:
    body = {"Transform": SAM, "Resources": {"T": {"Type": "AWS::Serverless::SimpleTable"}}}
    assert refused(cfn, body) == (
        "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_AUTO_EXPAND]",
    )  # fmt: skip
    cfn.create_change_set(
        StackName="c", ChangeSetName="n", ChangeSetType="CREATE", TemplateBody=json.dumps(body)
    )
    shown = cfn.describe_change_set(StackName="c", ChangeSetName="n")
    assert [c["ResourceChange"]["ResourceType"] for c in shown["Changes"]] == [
        "AWS::DynamoDB::Table"
    ]
    cfn.execute_change_set(StackName="c", ChangeSetName="n")
    assert settled(cfn, "c") == "CREATE_COMPLETE"
    assert cfn.get_template(StackName="c", TemplateStage="Original")["TemplateBody"] == body


def test_a_wrong_sam_template_is_refused_with_the_translators_sentence(cfn: Any) -> None:
    body = {
        "Transform": SAM,
        "Resources": {"F": {"Type": "AWS::Serverless::Function", "Properties": {"Handler": "a.b"}}},
    }
    assert create(cfn, body, **EXPAND) == "ROLLBACK_COMPLETE"
    assert reasons(cfn)[-1].startswith(
        f"Transform {SAM} failed with: Invalid Serverless Application Specification document."
        " Number of errors found: 1. Resource with id [F] is invalid."
    )


def test_a_failed_update_brings_the_given_template_back(cfn: Any) -> None:
    body: dict[str, Any] = {
        "Transform": SAM,
        "Resources": {"T": {"Type": "AWS::Serverless::SimpleTable"}},
    }
    assert create(cfn, body, **EXPAND) == "CREATE_COMPLETE"
    wrong = {**body, "Resources": {**body["Resources"], "Q": {
        "Type": "AWS::SQS::Queue", "Properties": {"QueueName": "not a name!"},
    }}}  # fmt: skip
    assert update(cfn, wrong, **EXPAND) == "UPDATE_ROLLBACK_COMPLETE"
    assert cfn.get_template(StackName="s", TemplateStage="Original")["TemplateBody"] == body


# --- language extensions ----------------------------------------------------------------------------


def test_loops_are_unrolled_wherever_they_stand(cfn: Any) -> None:
    body = {
        "Transform": LANGUAGE,
        "Parameters": {
            "Names": {"Type": "CommaDelimitedList", "Default": "a,b"},
            "Keep": {"Type": "String", "Default": "Retain"},
        },
        "Mappings": {"Of": {"a": {"Seconds": 10}}},
        "Resources": {
            "Fn::ForEach::Queues": ["Name", {"Ref": "Names"}, {
                "Queue${Name}": {
                    "Type": "AWS::SQS::Queue",
                    "DeletionPolicy": {"Ref": "Keep"},
                    "Properties": {
                        "QueueName": {"Fn::Sub": "queue-${Name}"},
                        "VisibilityTimeout": {
                            "Fn::FindInMap": ["Of", {"Ref": "Name"}, "Seconds", {"DefaultValue": 20}]
                        },
                    },
                }
            }],
            "Fn::ForEach::Topics": ["Kind", ["x.1"], {"Topic&{Kind}": {"Type": "AWS::SNS::Topic"}}],
        },
        "Outputs": {
            "Fn::ForEach::Arns": ["Name", {"Ref": "Names"}, {
                "Arn${Name}": {"Value": {"Fn::GetAtt": ["Queue${Name}", "Arn"]}},
            }],
            "Count": {"Value": {"Fn::Length": {"Ref": "Names"}}},
            "Text": {"Value": {"Fn::ToJsonString": {"names": {"Ref": "Names"}}}},
        },
    }  # fmt: skip
    assert create(cfn, body, **EXPAND) == "CREATE_COMPLETE", reasons(cfn)
    found = outputs(cfn)
    assert found["Arna"].endswith(":queue-a")
    assert (found["Count"], json.loads(found["Text"])) == ("2", {"names": ["a", "b"]})
    resources = cfn.describe_stack_resources(StackName="s")["StackResources"]
    assert {r["LogicalResourceId"] for r in resources} == {"Queuea", "Queueb", "Topicx1"}
    processed = cfn.get_template(StackName="s", TemplateStage="Processed")["TemplateBody"]
    assert processed["Resources"]["Queueb"]["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize(
    ("loop", "sentence"),
    [
        (["A", ["x"]], "Fn::ForEach::L layout is incorrect"),
        (["A", {"Fn::GetAtt": ["Q", "Arn"]}, {}], "Fn::ForEach::L could not be resolved"),
        (["A", ["x"], {"Q": {"Type": "AWS::SNS::Topic"}}], "Fn::ForEach makes the key Q twice"),
    ],
)
def test_a_wrong_loop_is_refused(cfn: Any, loop: Any, sentence: str) -> None:
    body = {
        "Transform": LANGUAGE,
        "Resources": {"Q": {"Type": "AWS::SQS::Queue"}, "Fn::ForEach::L": loop},
    }
    assert create(cfn, body, **EXPAND) == "ROLLBACK_COMPLETE"
    assert reasons(cfn)[-1] == (
        f"Transform {LANGUAGE} failed with: {sentence}. Rollback requested by user."
    )


@pytest.mark.parametrize("function", ["Fn::Length", "Fn::ToJsonString"])
@pytest.mark.parametrize("transform", [{}, {"Transform": SAM}])
def test_functions_of_the_extensions_need_their_transform(
    cfn: Any, function: str, transform: dict[str, Any]
) -> None:
    value = {"Fn::Join": ["", [{function: ["a"]}]]}
    body = {
        **transform,
        "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": value}}},
    }
    code, message = refused(cfn, body, **EXPAND)
    assert code == "ValidationError"
    assert message.startswith(f"Template error: Encountered unsupported function: {function} ")


# --- includes and macros ----------------------------------------------------------------------------


def test_an_include_is_put_in_its_place(cloud: InProcessCloud, cfn: Any) -> None:
    put_object(cloud, "part.yaml", b"VisibilityTimeout: 77\n")
    put_object(
        cloud, "top.json", json.dumps({"Outputs": {"O": {"Value": "from the include"}}}).encode()
    )
    body = {
        "Transform": {"Name": "AWS::Include", "Parameters": {"Location": "s3://things/top.json"}},
        "Parameters": {"Where": {"Type": "String", "Default": "s3://things/part.yaml"}},
        "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {
            "QueueName": "q",
            "Fn::Transform": {"Name": "AWS::Include", "Parameters": {"Location": {"Ref": "Where"}}},
        }}},
    }  # fmt: skip
    assert create(cfn, body, **EXPAND) == "CREATE_COMPLETE", reasons(cfn)
    assert outputs(cfn) == {"O": "from the include"}
    sqs = cloud.client("sqs")
    url = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert answer["Attributes"]["VisibilityTimeout"] == "77"


MACRO = """
def handler(event, context):
    if event["params"].get("Fail"):
        return {"requestId": event["requestId"], "status": "failure", "errorMessage": "no luck"}
    fragment = event["fragment"]
    fragment["DelaySeconds"] = int(event["params"]["Delay"])
    fragment["QueueName"] = event["templateParameterValues"]["Name"]
    return {"requestId": event["requestId"], "status": "success", "fragment": fragment}
"""


def test_a_macro_rewrites_what_it_stands_in(cloud: InProcessCloud, cfn: Any) -> None:
    cloud.client("lambda").create_function(
        FunctionName="rewrite", Runtime="python3.12", Handler="app.handler",
        Role=f"arn:aws:iam::{ACCOUNT}:role/r", Code={"ZipFile": zipped(MACRO)},
    )  # fmt: skip
    macro = {
        "Type": "AWS::CloudFormation::Macro",
        "Properties": {"Name": "Delay", "FunctionName": "rewrite"},
    }
    assert create(cfn, {"Resources": {"M": macro}}, name="macros") == "CREATE_COMPLETE"
    assert create(cfn, {"Resources": {"M": macro}}, name="again") == "ROLLBACK_COMPLETE"
    assert reasons(cfn, "again")[-1].startswith(
        "Delay already exists in stack arn:aws:cloudformation:"
    )

    def body(**params: Any) -> dict[str, Any]:
        transform = {"Fn::Transform": {"Name": "Delay", "Parameters": params}}
        return {
            "Parameters": {"Name": {"Type": "String", "Default": "named-by-macro"}},
            "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": transform}},
        }

    assert create(cfn, body(Fail="yes"), name="failing", **EXPAND) == "ROLLBACK_COMPLETE"
    assert reasons(cfn, "failing")[-1] == (
        f"Transform {ACCOUNT}::Delay failed with: no luck. Rollback requested by user."
    )
    cfn.create_change_set(
        StackName="unlucky", ChangeSetName="c", ChangeSetType="CREATE",
        TemplateBody=json.dumps(body(Fail="yes")), **EXPAND,
    )  # fmt: skip
    failed = cfn.describe_change_set(StackName="unlucky", ChangeSetName="c")
    assert (failed["Status"], failed["StatusReason"]) == (
        "FAILED", f"Transform {ACCOUNT}::Delay failed with: no luck",
    )  # fmt: skip
    assert create(cfn, body(Delay="5"), **EXPAND) == "CREATE_COMPLETE", reasons(cfn)
    url = cloud.client("sqs").get_queue_url(QueueName="named-by-macro")["QueueUrl"]
    answer = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])
    assert answer["Attributes"]["DelaySeconds"] == "5"


LISTS = """
def handler(event, context):
    values = event["templateParameterValues"]
    one = event["params"].get("Tags")
    assert values["Number"] == "3", values
    return {
        "requestId": event["requestId"],
        "status": "success",
        "fragment": {**event["fragment"], "Outputs": {
            "Lists": {"Value": "|".join([*values["Texts"], *values["Numbers"], *one])},
        }},
    }
"""


def test_a_macro_gets_list_parameters_as_lists(cloud: InProcessCloud, cfn: Any) -> None:
    cloud.client("lambda").create_function(
        FunctionName="lists", Runtime="python3.12", Handler="app.handler",
        Role=f"arn:aws:iam::{ACCOUNT}:role/r", Code={"ZipFile": zipped(LISTS)},
    )  # fmt: skip
    macro = {
        "Type": "AWS::CloudFormation::Macro",
        "Properties": {"Name": "Lists", "FunctionName": "lists"},
    }
    assert create(cfn, {"Resources": {"M": macro}}, name="list-macros") == "CREATE_COMPLETE"
    body = {
        "Transform": [{"Name": "Lists", "Parameters": {"Tags": {"Ref": "Texts"}}}],
        "Parameters": {
            "Texts": {"Type": "CommaDelimitedList", "Default": "foo, bar"},
            "Numbers": {"Type": "List<Number>", "Default": "1,2"},
            "Number": {"Type": "Number", "Default": 3},
        },
        "Resources": {"Q": {"Type": "AWS::SQS::Queue"}},
    }
    assert create(cfn, body, name="listed", **EXPAND) == "CREATE_COMPLETE", reasons(cfn, "listed")
    (output,) = cfn.describe_stacks(StackName="listed")["Stacks"][0]["Outputs"]
    assert output["OutputValue"] == "foo|bar|1|2|foo|bar"


def test_other_stacks_go_on_while_a_macro_runs(
    cloud: InProcessCloud, cfn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def macro(stack: Any, name: str, event: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(60)
        return {"status": "success", "fragment": event["fragment"]}

    monkeypatch.setattr(cloud.cloud.cloudformation.transforms, "_run_macro", macro)
    queue = {"Type": "AWS::SQS::Queue"}
    body = {"Transform": "Slow", "Resources": {"Q": queue}}
    caller = threading.Thread(target=create, args=(cfn, body, "slow"), kwargs=EXPAND)
    caller.start()
    try:
        assert begun.wait(60)
        other = cloud.client("cloudformation")
        assert create(other, {"Resources": {"Q": queue}}, name="other") == "CREATE_COMPLETE"
    finally:
        go_on.set()
        caller.join(60)
    assert settled(cfn, "slow") == "CREATE_COMPLETE"


def test_an_unknown_transform_is_named(cfn: Any) -> None:
    body = {"Transform": "Nobodys", "Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}
    assert refused(cfn, body, **EXPAND) == (
        "ValidationError", f"No transform named {ACCOUNT}::Nobodys found.",
    )  # fmt: skip


# --- stacks in stacks -------------------------------------------------------------------------------

INNER = {
    "Parameters": {"Name": {"Type": "String"}, "Delay": {"Type": "Number", "Default": 0}},
    "Resources": {
        "Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "Name"}, "DelaySeconds": {"Ref": "Delay"}}}
    },
    "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["Q", "Arn"]}}},
}  # fmt: skip


TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:told"


def outer(delay: int, name: str = "inner-queue", **more: Any) -> dict[str, Any]:
    return {
        "Resources": {
            "Inner": {
                "Type": "AWS::CloudFormation::Stack",
                "Properties": {
                    "TemplateURL": "https://s3.amazonaws.com/things/inner.json",
                    "Parameters": {"Name": name, "Delay": delay},
                    "NotificationARNs": [TOPIC],
                    "TimeoutInMinutes": 7,
                },
            },
            **more,
        },
        "Outputs": {
            "Arn": {"Value": {"Fn::GetAtt": ["Inner", "Outputs.Arn"]}},
            "Inner": {"Value": {"Ref": "Inner"}},
        },
    }


def test_a_stack_in_a_stack_is_made_changed_rolled_back_and_deleted(
    cloud: InProcessCloud, cfn: Any
) -> None:
    put_object(cloud, "inner.json", json.dumps(INNER).encode())
    cloud.client("sns").create_topic(Name="told")
    assert create(cfn, outer(1)) == "CREATE_COMPLETE", reasons(cfn)
    found = outputs(cfn)
    assert found["Arn"].endswith(":inner-queue")
    (inner,) = cfn.describe_stacks(StackName=found["Inner"])["Stacks"]
    assert inner["StackStatus"] == "CREATE_COMPLETE"
    assert (inner["NotificationARNs"], inner["TimeoutInMinutes"]) == ([TOPIC], 7)
    assert (
        inner["ParentId"]
        == inner["RootId"]
        == cfn.describe_stacks(StackName="s")["Stacks"][0]["StackId"]
    )

    def delay() -> str:
        sqs = cloud.client("sqs")
        url = sqs.get_queue_url(QueueName="inner-queue")["QueueUrl"]
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["DelaySeconds"])
        return answer["Attributes"]["DelaySeconds"]

    assert update(cfn, outer(2)) == "UPDATE_COMPLETE", reasons(cfn)
    assert delay() == "2"
    wrong = {
        "Type": "AWS::SQS::Queue",
        "DependsOn": "Inner",
        "Properties": {"QueueName": "not a name!"},
    }
    assert update(cfn, outer(3, Wrong=wrong)) == "UPDATE_ROLLBACK_COMPLETE"
    assert delay() == "2"
    cfn.delete_stack(StackName="s")
    wait_until(
        lambda: cfn.describe_stacks(StackName=found["Inner"])["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE",
        what="the deletion",
    )  # fmt: skip


def test_an_inner_stack_that_fails_is_told_by_the_outer_one_and_leaves_nothing(
    cloud: InProcessCloud, cfn: Any
) -> None:
    put_object(cloud, "inner.json", json.dumps(INNER).encode())
    cloud.client("sns").create_topic(Name="told")
    assert create(cfn, outer(1, "not a name!")) == "ROLLBACK_COMPLETE"
    assert any("Embedded stack arn:aws:cloudformation:" in reason for reason in reasons(cfn))
    living = cfn.list_stacks(
        StackStatusFilter=["CREATE_FAILED", "CREATE_COMPLETE", "DELETE_FAILED"]
    )
    assert living["StackSummaries"] == []


def test_the_summary_of_a_template_with_sections_of_its_transform(cfn: Any):
    """`sam deploy` asks for it before every deployment."""
    body = {
        "Transform": "AWS::Serverless-2016-10-31",
        "Globals": {"Function": {"Timeout": 3}},
        "Parameters": {"Shards": {"Type": "Number"}},
        "Resources": {"Table": {"Type": "AWS::Serverless::SimpleTable"}},
    }
    summary = cfn.get_template_summary(TemplateBody=json.dumps(body))
    assert summary["ResourceTypes"] == ["AWS::Serverless::SimpleTable"]
    assert [row["ParameterKey"] for row in summary["Parameters"]] == ["Shards"]
