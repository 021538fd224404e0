"""Change sets, as the CDK CLI uses them."""

from __future__ import annotations

import json
from typing import Any

from tests.api.cloudformation.test_stacks import (
    create,
    queue,
    refused,
    settled,
    status,
    stream,
    template,
)
from tests.api.cloudformation.test_transforms import INNER, outer, put_object
from tests.support.cloud import InProcessCloud


def change_set(cfn: Any, body: Any, kind: str = "UPDATE", **more: Any) -> dict[str, Any]:
    cfn.create_change_set(
        StackName="s",
        ChangeSetName="c",
        ChangeSetType=kind,
        TemplateBody=json.dumps(body),
        **more,
    )
    return dict(
        cfn.describe_change_set(StackName="s", ChangeSetName="c", IncludePropertyValues=True)
    )


# --- validation -------------------------------------------------------------------------------


def test_a_missing_change_set_has_the_code_that_the_cdk_cli_tests_for(cfn: Any):
    create(cfn, template(Q=queue()))
    assert refused(cfn.describe_change_set, StackName="s", ChangeSetName="no") == (
        "ChangeSetNotFound",
        "ChangeSet [no] does not exist",
    )
    cfn.delete_change_set(StackName="s", ChangeSetName="no")


def test_a_change_set_for_a_stack_that_is_not_there_is_refused(cfn: Any):
    assert refused(
        cfn.create_change_set,
        StackName="s",
        ChangeSetName="c",
        TemplateBody=json.dumps(template(Q=queue())),
    ) == ("ValidationError", "Stack [s] does not exist")


# --- behaviour --------------------------------------------------------------------------------


def test_a_stack_is_made_by_executing_its_first_change_set(cloud: InProcessCloud, cfn: Any):
    described = change_set(cfn, template(Q=queue("q")), "CREATE")
    assert described["Status"] == "CREATE_COMPLETE"
    assert status(cfn, "s") == "REVIEW_IN_PROGRESS"
    change = described["Changes"][0]["ResourceChange"]
    assert (change["Action"], change["LogicalResourceId"]) == ("Add", "Q")
    assert "QueueUrls" not in cloud.client("sqs").list_queues()
    cfn.execute_change_set(StackName="s", ChangeSetName="c")
    assert settled(cfn, "s") == "CREATE_COMPLETE"
    assert len(cloud.client("sqs").list_queues()["QueueUrls"]) == 1


def test_changes_say_what_is_replaced_and_what_follows_from_it(cfn: Any):
    user = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["S", "Arn"]}},
    }
    create(cfn, template(S=stream("one"), P=user, Gone=queue()))
    described = change_set(cfn, template(S=stream("two"), P=user))
    changes = {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"]
        for change in described["Changes"]
    }
    assert changes["S"]["Replacement"] == "True"
    target = changes["S"]["Details"][0]["Target"]
    assert (target["Name"], target["BeforeValue"], target["AfterValue"]) == ("Name", "one", "two")
    assert target["RequiresRecreation"] == "Always"
    assert changes["P"]["Action"] == "Modify"
    assert changes["P"]["Details"][0]["Evaluation"] == "Dynamic"
    assert changes["Gone"]["Action"] == "Remove"


def test_an_empty_change_set_fails_in_the_words_that_the_cdk_cli_tests_for(cfn: Any):
    create(cfn, template(Q=queue()))
    described = change_set(cfn, template(Q=queue()))
    assert described["Status"] == "FAILED"
    assert described["StatusReason"].startswith("The submitted information didn't contain changes.")
    assert refused(cfn.execute_change_set, StackName="s", ChangeSetName="c")[0] == (
        "InvalidChangeSetStatus"
    )


def test_an_executed_change_set_is_gone(cfn: Any):
    create(cfn, template(Q=queue()))
    change_set(cfn, template(Q=queue(VisibilityTimeout=9)))
    cfn.execute_change_set(StackName="s", ChangeSetName="c")
    assert settled(cfn, "s") == "UPDATE_COMPLETE"
    assert cfn.list_change_sets(StackName="s")["Summaries"] == []


def test_a_nested_stack_may_get_an_output_that_another_resource_reads(
    cloud: InProcessCloud, cfn: Any
):
    put_object(cloud, "inner.json", json.dumps(INNER).encode())
    more = {"Outputs": {**INNER["Outputs"], "Url": {"Value": {"Ref": "Q"}}}}
    put_object(cloud, "more.json", json.dumps({**INNER, **more}).encode())
    cloud.client("sns").create_topic(Name="told")
    assert create(cfn, outer(1)) == "CREATE_COMPLETE"
    value = {"Fn::GetAtt": ["Inner", "Outputs.Url"]}
    reader = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": "url", "Type": "String", "Value": value},
    }
    body = json.loads(json.dumps(outer(1, Reader=reader)).replace("inner.json", "more.json"))
    changes = change_set(cfn, body)
    assert (changes["Status"], len(changes["Changes"])) == ("CREATE_COMPLETE", 2)
    cfn.execute_change_set(StackName="s", ChangeSetName="c")
    assert settled(cfn, "s") == "UPDATE_COMPLETE"
    assert (
        cloud.client("ssm").get_parameter(Name="url")["Parameter"]["Value"].endswith("/inner-queue")
    )
