"""Every member that a call takes is read back, or it is said why not. See `tests.support.read_back`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.services.cloudformation.actions import ACTIONS
from headrace.services.cloudformation.fidelity import FIDELITY
from headrace.services.cloudformation.stack_sets import ADMINISTRATION_ROLE, EXECUTION_ROLE
from tests.support.cloud import InProcessCloud
from tests.support.policies import TRUST, TRUST_TEXT
from tests.support.read_back import Case, Read, check, never_given, not_read_back, overlooked

STACK: Read = ("DescribeStacks", {"StackName": "s"})
EVENTS: Read = ("DescribeStackEvents", {"StackName": "s"})
TEMPLATE: Read = ("GetTemplate", {"StackName": "s"})
POLICY: Read = ("GetStackPolicy", {"StackName": "s"})
CHANGE_SET: Read = ("DescribeChangeSet", {"StackName": "s", "ChangeSetName": "cs"})
RULES = '{"Statement": []}'
ALLOW = json.dumps(
    {
        "Statement": [
            {"Effect": "Allow", "Action": "Update:*", "Principal": "*", "Resource": "*"},
        ]
    }
)


def body(value: str) -> str:
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": value}}
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": TRUST},
    }
    parameters = {"P": {"Type": "String", "Default": "d"}}
    # As YAML: botocore would show JSON as what it holds.
    return "# \n" + json.dumps({"Parameters": parameters, "Resources": {"T": topic, "R": role}})


COMMON = {
    "StackName": "s",
    "TemplateBody": body("one"),
    "Parameters": [{"ParameterKey": "P", "ParameterValue": "v"}],
    "Capabilities": ["CAPABILITY_IAM"],
    "ResourceTypes": ["AWS::SNS::*", "AWS::IAM::*"],
    "RoleARN": "arn:aws:iam::000000000000:role/cfn",
    "NotificationARNs": ["arn:aws:sns:us-east-1:000000000000:events"],
    "RollbackConfiguration": {
        "RollbackTriggers": [
            {
                "Arn": "arn:aws:cloudwatch:us-east-1:000000000000:alarm:a",
                "Type": "AWS::CloudWatch::Alarm",
            }
        ],
        "MonitoringTimeInMinutes": 3,
    },
}
BY_ADDRESS = {"TemplateURL": "the body is given; tests/api/cloudformation/test_stacks.py"}
TYPES = {"ResourceTypes": "what is not allowed is refused: the conformance scenarios"}
ROLLBACK = {
    "RetainExceptOnCreate": "a rollback shows it; test_lifecycle_settings.py",
    "DeploymentConfig.DisableRollback": "DisableRollback, which says the same, is given too",
}
FOR_NOW = {
    "StackPolicyDuringUpdateBody": "it stands while the update is under way; test_lifecycle_settings.py"
}
MADE: Read = (
    "CreateStack",
    {"StackName": "s", "TemplateBody": body("none"), "Capabilities": ["CAPABILITY_IAM"]},
)

SET: Read = ("DescribeStackSet", {"StackSetName": "sets"})
SET_OPERATION: Read = (
    "DescribeStackSetOperation",
    {"StackSetName": "sets", "OperationId": "op"},
)
INSTANCE = {
    "StackSetName": "sets",
    "StackInstanceAccount": "000000000000",
    "StackInstanceRegion": "us-east-1",
}
SET_SETTINGS = {
    "StackSetName": "sets",
    "TemplateBody": body("one"),
    "Parameters": COMMON["Parameters"],
    "Capabilities": ["CAPABILITY_IAM"],
    "PermissionModel": "SELF_MANAGED",
    "AdministrationRoleARN": "arn:aws:iam::000000000000:role/cfn",
}
OTHER_SETS = {
    **BY_ADDRESS,
    **dict.fromkeys(
        (
            "ExecutionRoleTemplateBody",
            "ExecutionRoleTemplateUrl",
            "StackSetOutputBucket",
        ),
        "refused by name",
    ),
    "AutoDeployment": "sets of an organization are refused by name",
    "CallAs": "sets of an organization are refused by name",
}

CASES = [
    Case(
        "CreateStack",
        [STACK, EVENTS, TEMPLATE, POLICY],
        given={
            **COMMON,
            "StackPolicyBody": RULES,
            "EnableTerminationProtection": True,
            "TimeoutInMinutes": 7,
            # Another than the stack's own, which the stack shows.
            "DeploymentConfig.DisableRollback": False,
        },
        without={
            **BY_ADDRESS,
            "StackPolicyURL": "the body is given; the conformance scenarios",
            "OnFailure": "cannot be told from DisableRollback in an answer; test_stacks.py",
        },
        unseen={**TYPES, **ROLLBACK},
    ),
    Case(
        "UpdateStack",
        [STACK, EVENTS, TEMPLATE, POLICY],
        before=[MADE],
        given={
            **COMMON,
            "StackPolicyBody": RULES,
            "StackPolicyDuringUpdateBody": ALLOW,
            "DeploymentConfig.DisableRollback": False,
        },
        without={
            **BY_ADDRESS,
            "UsePreviousTemplate": "a template is given",
            "StackPolicyURL": "the body is given; the conformance scenarios",
            "StackPolicyDuringUpdateURL": "the body is given",
        },
        unseen={**TYPES, **ROLLBACK, **FOR_NOW},
    ),
    Case(
        "CreateChangeSet",
        [CHANGE_SET, ("GetTemplate", {"StackName": "s", "ChangeSetName": "cs"})],
        before=[MADE],
        given={
            **COMMON,
            "ChangeSetName": "cs",
            "ChangeSetType": "UPDATE",
            "OnStackFailure": "ROLLBACK",
        },
        without={
            **BY_ADDRESS,
            "UsePreviousTemplate": "a template is given",
            "DeploymentMode": "it is about what has drifted; test_live_state.py",
            "ResourcesToImport": "another type of change set; test_imports.py",
        },
        unseen={
            **TYPES,
            "RoleARN": "the stack shows it once the change set is executed",
            "ClientToken": "the same request once more makes nothing; test_lifecycle_settings.py",
            "ChangeSetType": "CREATE makes a stack, UPDATE needs one",
        },
    ),
    Case(
        "SetStackPolicy",
        [POLICY],
        before=[MADE],
        given={"StackName": "s", "StackPolicyBody": RULES},
        without={"StackPolicyURL": "the body is given; the conformance scenarios"},
        unseen={"StackName": "the stack is asked for its policy"},
    ),
    Case(
        "UpdateTerminationProtection",
        [STACK],
        before=[MADE],
        given={"StackName": "s"},
    ),
    Case(
        "CreateStackSet",
        [SET],
        given=SET_SETTINGS,
        without={**OTHER_SETS, "StackId": "refused by name"},
        unseen={"ClientRequestToken": "the same request once more makes nothing"},
    ),
    Case(
        "UpdateStackSet",
        [SET, SET_OPERATION],
        before=[("CreateStackSet", {"StackSetName": "sets", "TemplateBody": body("none")})],
        given={**SET_SETTINGS, "OperationId": "op", "OperationPreferences.MaxConcurrentCount": 1},
        without={
            **OTHER_SETS,
            "UsePreviousTemplate": "a template is given",
            "UseAdminExecutionRole": "refused by name",
            "DeploymentTargets": "a set without instances; test_stack_sets.py",
            "Accounts": "a set without instances; test_stack_sets.py",
            "Regions": "a set without instances; test_stack_sets.py",
            "OperationPreferences.FailureTolerancePercentage": "the count is given",
            "OperationPreferences.MaxConcurrentPercentage": "the count is given",
        },
    ),
    Case(
        "CreateStackInstances",
        [("DescribeStackInstance", INSTANCE), SET_OPERATION],
        before=[("CreateStackSet", {"StackSetName": "sets", "TemplateBody": body("none")})],
        given={
            "StackSetName": "sets",
            "Accounts": ["000000000000"],
            "Regions": ["us-east-1"],
            "ParameterOverrides": [{"ParameterKey": "P", "ParameterValue": "v"}],
            "OperationId": "op",
            "OperationPreferences.MaxConcurrentCount": 1,
        },
        without={
            "CallAs": OTHER_SETS["CallAs"],
            "DeploymentTargets": "another way to name the accounts; test_stack_sets.py",
            "OperationPreferences.FailureTolerancePercentage": "the count is given",
            "OperationPreferences.MaxConcurrentPercentage": "the count is given",
        },
        unseen={
            "StackSetName": "the set's ID is shown",
            "Accounts": "shown as Account",
            "Regions": "shown as Region",
        },
    ),
]
# Given by no case: another member is given in its place.
INSTEAD = [
    "CreateChangeSet.DeploymentMode",
    "CreateChangeSet.ResourcesToImport",
    "CreateChangeSet.TemplateURL",
    "CreateChangeSet.UsePreviousTemplate",
    "CreateStack.OnFailure",
    "CreateStack.StackPolicyURL",
    "CreateStack.TemplateURL",
    "CreateStackInstances.CallAs",
    "CreateStackInstances.DeploymentTargets",
    "CreateStackSet.AutoDeployment",
    "CreateStackSet.CallAs",
    "CreateStackSet.ExecutionRoleTemplateBody",
    "CreateStackSet.ExecutionRoleTemplateUrl",
    "CreateStackSet.StackId",
    "CreateStackSet.StackSetOutputBucket",
    "CreateStackSet.TemplateURL",
    "SetStackPolicy.StackPolicyURL",
    "UpdateStack.StackPolicyDuringUpdateURL",
    "UpdateStack.StackPolicyURL",
    "UpdateStack.TemplateURL",
    "UpdateStack.UsePreviousTemplate",
    "UpdateStackSet.Accounts",
    "UpdateStackSet.AutoDeployment",
    "UpdateStackSet.CallAs",
    "UpdateStackSet.DeploymentTargets",
    "UpdateStackSet.ExecutionRoleTemplateBody",
    "UpdateStackSet.ExecutionRoleTemplateUrl",
    "UpdateStackSet.Regions",
    "UpdateStackSet.StackSetOutputBucket",
    "UpdateStackSet.TemplateURL",
    "UpdateStackSet.UseAdminExecutionRole",
    "UpdateStackSet.UsePreviousTemplate",
]


@pytest.fixture
def cfn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with InProcessCloud(tmp_path_factory.mktemp("cfn")) as cloud:
        cloud.client("sns").create_topic(Name="events")
        for role in ("cfn", ADMINISTRATION_ROLE, EXECUTION_ROLE):
            cloud.client("iam").create_role(
                RoleName=role,
                AssumeRolePolicyDocument=TRUST_TEXT.replace("lambda", "cloudformation"),
            )
        yield cloud.client("cloudformation")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.operation)
def test_what_a_call_takes_is_read_back(cfn: Any, case: Case):
    assert check("cloudformation", case, cfn, FIDELITY) == []


def test_a_previous_value_is_kept(cfn: Any):
    asked = {"StackName": "s", "Capabilities": ["CAPABILITY_IAM"]}
    cfn.create_stack(**asked, TemplateBody=body("one"), Parameters=COMMON["Parameters"])
    cfn.get_waiter("stack_create_complete").wait(StackName="s", WaiterConfig={"Delay": 0})
    previous = [{"ParameterKey": "P", "UsePreviousValue": True}]
    cfn.update_stack(**asked, TemplateBody=body("two"), Parameters=previous)
    cfn.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig={"Delay": 0})
    (parameter,) = cfn.describe_stacks(StackName="s")["Stacks"][0]["Parameters"]
    assert parameter["ParameterValue"] == "v"


def test_every_call_that_keeps_something_is_read_back():
    # Only of instances whose creation has ended: test_stack_sets.py.
    # The test above gives the one, and the other is the answer's own.
    of_parameters = {line.rpartition(".")[2] for line in overlooked("cloudformation", CASES)}
    assert of_parameters == {"UsePreviousValue", "ResolvedValue"}
    assert not_read_back("cloudformation", ACTIONS, CASES) == ["UpdateStackInstances"]
    assert sorted(never_given("cloudformation", CASES)) == INSTEAD
