"""CodeDeploy: applications and deployment groups."""

from __future__ import annotations

from headrace.core.arn import make_arn, partition_of
from headrace.services.cloudformation.resources.declaration import Call, DeclaredType, Values


def _deployment_group(values: Values) -> str:
    scope = values.context.region, values.context.account
    name = f"deploymentgroup:{values.get('ApplicationName')}/{values.id}"
    return make_arn("codedeploy", *scope, name)


DECLARED = [
    DeclaredType(
        "AWS::CodeDeploy::Application",
        "codedeploy",
        create=[Call("CreateApplication")],
        id="ApplicationName",
        # Deleting it would delete its deployment groups.
        deletes_others=True,
        tag=(
            "TagResource",
            "UntagResource",
            "ResourceArn",
            lambda v: (
                f"arn:{partition_of(v.context.region)}:codedeploy:{v.context.region}:{v.context.account}:application:{v.id}"
            ),
        ),
        delete=[Call("DeleteApplication", {"applicationName": "@id"})],
        name="ApplicationName",
        name_length=100,
    ),
    DeclaredType(
        "AWS::CodeDeploy::DeploymentGroup",
        "codedeploy",
        create=[Call("CreateDeploymentGroup")],
        id="DeploymentGroupName",
        update=[Call("UpdateDeploymentGroup", {"currentDeploymentGroupName": "@id"}, empties=True)],
        tag=("TagResource", "UntagResource", "ResourceArn", _deployment_group),
        delete=[
            Call(
                "DeleteDeploymentGroup",
                {"applicationName": "ApplicationName", "deploymentGroupName": "@id"},
            )
        ],
        name="DeploymentGroupName",
        name_length=100,
    ),
]
