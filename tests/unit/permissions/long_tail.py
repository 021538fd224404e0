"""Requests of API Gateway's management and of services that moto answers; see `requests`."""

from __future__ import annotations

from tests.unit.permissions.requests import REGION, ROLE, arn, of

API = f"arn:aws:apigateway:{REGION}::"

LONG_TAIL = [
    of(
        "apigateway:PutIntegration",
        {"restApiId": "a", "resourceId": "r", "httpMethod": "GET", "credentials": ROLE},
        ("apigateway:PUT", f"{API}/restapis/a/resources/r/methods/GET/integration"),
        ("iam:PassRole", ROLE),
    ),
    of(
        "apigateway:CreateRestApi",
        {"name": "a", "policy": "{}", "tags": {"Team": "x"}},
        ("apigateway:POST", f"{API}/restapis"),
        ("apigateway:UpdateRestApiPolicy", f"{API}/restapis"),
        ("apigateway:PUT", f"{API}/tags/arn%3Aaws%3Aapigateway%3A{REGION}%3A%3A%2Frestapis%2F*"),
    ),
    of(
        "apigateway:CreateRestApi",
        {"name": "a", "tags": {"aws:cloudformation:stack-name": "x"}},
        ("apigateway:POST", f"{API}/restapis"),
    ),
    of(
        "apigateway:UpdateRestApi",
        {"restApiId": "a", "patchOperations": [{"op": "replace", "path": "/policy", "value": ""}]},
        ("apigateway:PATCH", f"{API}/restapis/a"),
        ("apigateway:UpdateRestApiPolicy", f"{API}/restapis/a"),
    ),
    of(
        "apigateway:TagResource",
        {"resourceArn": f"{API}/restapis/a", "tags": {"Team": "x"}},
        ("apigateway:PUT", f"{API}/tags/arn%3Aaws%3Aapigateway%3A{REGION}%3A%3A%2Frestapis%2Fa"),
    ),
    of("apigatewayv2:GetRoutes", {"ApiId": "a"}, ("apigateway:GET", f"{API}/apis/a/routes")),
    of(
        "cognito-idp:AdminCreateUser",
        {"UserPoolId": "p"},
        ("cognito-idp:AdminCreateUser", arn("cognito-idp", "userpool/p")),
    ),
    of("cognito-idp:SignUp", {"ClientId": "c"}),
    of("ecs:DescribeTasks", {"tasks": ["t"]}, ("ecs:DescribeTasks", arn("ecs", "task/default/t"))),
    of(
        "ecs:DescribeTasks",
        {"tasks": ["t"], "cluster": arn("ecs", "cluster/c")},
        ("ecs:DescribeTasks", arn("ecs", "task/c/t")),
    ),
    of(
        "ecs:RunTask",
        {"taskDefinition": "family"},
        ("ecs:RunTask", arn("ecs", "task-definition/family:*")),
    ),
    of(
        "ecs:RunTask",
        {"taskDefinition": "family:3"},
        ("ecs:RunTask", arn("ecs", "task-definition/family:3")),
    ),
    of(
        "ecs:StartTask",
        {"taskDefinition": arn("ecs", "task-definition/family"), "containerInstances": ["i"]},
        ("ecs:StartTask", arn("ecs", "task-definition/family:*")),
    ),
    of(
        "ecs:RunTask",
        {"taskDefinition": arn("ecs", "task-definition/family:3")},
        ("ecs:RunTask", arn("ecs", "task-definition/family:3")),
    ),
    of(
        "ecs:DeleteTaskDefinitions",
        {"taskDefinitions": ["a:1", "b:2"]},
        ("ecs:DeleteTaskDefinitions", arn("ecs", "task-definition/a:1")),
        ("ecs:DeleteTaskDefinitions", arn("ecs", "task-definition/b:2")),
    ),
    # No instance is named, and a policy may be for one.
    of("ecs:ListTasks", {"cluster": "c"}),
    of(
        "ecs:UpdateTaskSet",
        {"cluster": "c", "service": "s", "taskSet": "t"},
        ("ecs:UpdateTaskSet", arn("ecs", "task-set/c/s/t")),
    ),
    of("eks:DescribeCluster", {"name": "c"}, ("eks:DescribeCluster", arn("eks", "cluster/c"))),
    of(
        "servicediscovery:GetService",
        {"Id": "srv-1"},
        ("servicediscovery:GetService", arn("servicediscovery", "service/srv-1")),
    ),
    of(
        "glue:GetUnfilteredTableMetadata",
        {"DatabaseName": "d", "Name": "t"},
        *(("glue:GetTable", arn("glue", name)) for name in ("catalog", "database/d", "table/d/t")),
    ),
    of(
        "ecs:StopTask",
        {"cluster": arn("ecs", "cluster/prod"), "task": "t"},
        ("ecs:StopTask", arn("ecs", "task/prod/t")),
    ),
    of(
        "ecs:RegisterTaskDefinition",
        {"family": "f", "executionRoleArn": ROLE},
        ("ecs:RegisterTaskDefinition", arn("ecs", "task-definition/f:*")),
        ("iam:PassRole", ROLE),
    ),
    of(
        "route53:ChangeResourceRecordSets",
        {"HostedZoneId": "Z1"},
        ("route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z1"),
    ),
    of(
        "wafv2:UpdateWebACL",
        {"Name": "n", "Scope": "REGIONAL", "Id": "i"},
        ("wafv2:UpdateWebACL", arn("wafv2", "regional/webacl/n/i")),
    ),
    of(
        "dms:DeleteReplicationInstance",
        {"ReplicationInstanceArn": arn("dms", "rep:R")},
        ("dms:DeleteReplicationInstance", arn("dms", "rep:R")),
    ),
    # Nobody can say which identity, or which table, this is: a policy that names it would not allow `*`.
    of("ses:SendEmail", {"Source": "a@example.com"}),
    of(
        "s3tables:GetTable",
        {"tableBucketARN": arn("s3tables", "bucket/b"), "namespace": "n", "name": "t"},
    ),
    of(
        "ec2:StartInstances",
        {"InstanceIds": ["i-1", "i-2"]},
        ("ec2:StartInstances", arn("ec2", "instance/i-1")),
        ("ec2:StartInstances", arn("ec2", "instance/i-2")),
    ),
    of("iot-data:Publish", {"topic": "a/b"}, ("iot:Publish", arn("iot", "topic/a/b"))),
]
