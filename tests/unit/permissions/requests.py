"""Requests of each service, and the actions and resources that AWS asks leave for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.permissions.parties import ACCOUNT, STREAM

REGION = "eu-west-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/app"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/k-1"


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


KNOWN = {
    ("kinesis", "iterator", "opaque"): STREAM,
    ("kms", "alias", "alias/app"): KEY,
    ("kinesis", "key", f"{STREAM}-secret"): KEY,
    ("s3", "key", "arn:aws:s3:::secret/k"): KEY,
    ("s3", "object key", "arn:aws:s3:::secret/k"): KEY,
    ("s3", "owner", "elsewhere"): "444455556666",
    ("iam", "role", "EMR_DefaultRole"): f"arn:aws:iam::{ACCOUNT}:role/service/EMR_DefaultRole",
    ("lambda", "mapping", "u-1"): arn("lambda", "function:f"),
}


def of(operation: str, parameters: dict[str, Any], *expected: tuple[str, str]) -> Any:
    service, name = operation.split(":")
    return pytest.param(
        service, name, parameters, list(expected), id=f"{operation} {sorted(parameters)}"
    )


OBJECT = "arn:aws:s3:::b/flights/1.json"
BUCKET = "arn:aws:s3:::b"
ON_KEY = {"Bucket": "b", "Key": "flights/1.json"}
STACK = arn("cloudformation", "stack/app/*")
TABLE = arn("dynamodb", "table/t")
GROUP = arn("logs", "log-group:/aws/lambda/f:log-stream:")


API = f"arn:aws:apigateway:{REGION}::"


CASES = [
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
    of("kinesis:PutRecords", {"StreamName": "flights"}, ("kinesis:PutRecords", STREAM)),
    of(
        "kinesis:PutRecords",
        {"StreamARN": STREAM, "StreamName": "flights"},
        ("kinesis:PutRecords", STREAM),
    ),
    of("kinesis:GetRecords", {"ShardIterator": "opaque"}, ("kinesis:GetRecords", STREAM)),
    of(
        "kinesis:GetRecords",
        {"ShardIterator": "?"},
        ("kinesis:GetRecords", arn("kinesis", "stream/*")),
    ),
    of("kinesis:ListStreams", {}, ("kinesis:ListStreams", "*")),
    of(
        "redshift:CreateCluster",
        {"ClusterIdentifier": "c"},
        ("redshift:CreateCluster", arn("redshift", "cluster:c")),
    ),
    of("redshift:DescribeClusters", {}, ("redshift:DescribeClusters", "*")),
    of(
        "redshift-data:ExecuteStatement",
        {"ClusterIdentifier": "c", "Sql": "SELECT 1"},
        ("redshift-data:ExecuteStatement", arn("redshift", "cluster:c")),
    ),
    of(
        "redshift-data:GetStatementResultV2", {"Id": "i"}, ("redshift-data:GetStatementResult", "*")
    ),
    of(
        "opensearch:CreateDomain",
        {"DomainName": "d"},
        ("es:CreateDomain", arn("es", "domain/d")),
    ),
    of(
        "athena:StartQueryExecution",
        {"QueryString": "SELECT 1"},
        ("athena:StartQueryExecution", arn("athena", "workgroup/primary")),
    ),
    of("kinesis:UpdateShardCount", {"StreamName": "flights"}, ("kinesis:UpdateShardCount", STREAM)),
    of(
        "kinesis:SubscribeToShard",
        {"ConsumerARN": f"{STREAM}/consumer/app:1", "ShardId": "s"},
        ("kinesis:SubscribeToShard", f"{STREAM}/consumer/app:1"),
    ),
    of(
        "kinesis:DescribeStreamConsumer",
        {"StreamARN": STREAM, "ConsumerName": "app"},
        ("kinesis:DescribeStreamConsumer", f"{STREAM}/consumer/app:*"),
    ),
    of(
        "kinesis:TagResource",
        {"ResourceARN": f"{STREAM}/consumer/app:1", "Tags": {"a": "b"}},
        ("kinesis:TagResource", f"{STREAM}/consumer/app:1"),
    ),
    of(
        "kinesis:CreateStream",
        {"StreamName": "flights", "Tags": {"team": "x"}},
        ("kinesis:CreateStream", STREAM),
        ("kinesis:AddTagsToStream", STREAM),
    ),
    of(
        "kinesis:StartStreamEncryption",
        {"StreamName": "flights", "KeyId": "alias/app"},
        ("kinesis:StartStreamEncryption", STREAM),
        ("kinesis:StartStreamEncryption", KEY),
    ),
    of(
        "lambda:Invoke",
        {"FunctionName": "f"},
        ("lambda:InvokeFunction", arn("lambda", "function:f")),
    ),
    of(
        "lambda:Invoke",
        {"FunctionName": "f:live"},
        ("lambda:InvokeFunction", arn("lambda", "function:f:live")),
    ),
    of(
        "lambda:Invoke",
        {"FunctionName": f"{ACCOUNT}:function:f", "Qualifier": "7"},
        ("lambda:InvokeFunction", arn("lambda", "function:f:7")),
    ),
    of(
        "lambda:CreateFunction",
        {
            "FunctionName": "f",
            "Role": ROLE,
            "Tags": {"a": "b"},
            "Code": {"S3Bucket": "b", "S3Key": "flights/1.json"},
            "Layers": [arn("lambda", "layer:l:1")],
        },
        ("lambda:CreateFunction", arn("lambda", "function:f")),
        ("lambda:GetLayerVersion", arn("lambda", "layer:l:1")),
        ("s3:GetObject", OBJECT),
        ("lambda:TagResource", arn("lambda", "function:f")),
        ("iam:PassRole", ROLE),
    ),
    of(
        "lambda:CreateEventSourceMapping",
        {"FunctionName": "f", "EventSourceArn": STREAM},
        ("lambda:CreateEventSourceMapping", "*"),
    ),
    of(
        "lambda:DeleteEventSourceMapping",
        {"UUID": "u-1"},
        ("lambda:DeleteEventSourceMapping", arn("lambda", "event-source-mapping:u-1")),
    ),
    of(
        "lambda:ListTags",
        {"Resource": arn("lambda", "function:f")},
        ("lambda:ListTags", arn("lambda", "function:f")),
    ),
    of(
        "lambda:PublishLayerVersion",
        {"LayerName": "l"},
        ("lambda:PublishLayerVersion", arn("lambda", "layer:l")),
    ),
    of(
        "firehose:CreateDeliveryStream",
        {
            "DeliveryStreamName": "d",
            "ExtendedS3DestinationConfiguration": {
                "RoleARN": ROLE,
                "S3BackupConfiguration": {"RoleARN": ROLE},
            },
        },
        ("firehose:CreateDeliveryStream", arn("firehose", "deliverystream/d")),
        ("iam:PassRole", ROLE),
    ),
    of(
        "kinesis:PutRecords",
        {"StreamName": "flights-secret"},
        ("kinesis:PutRecords", f"{STREAM}-secret"),
        ("kms:GenerateDataKey", KEY),
    ),
    of(
        "s3:GetObject",
        {"Bucket": "secret", "Key": "k"},
        ("s3:GetObject", "arn:aws:s3:::secret/k"),
        ("kms:Decrypt", KEY),
    ),
    of(
        "s3:UploadPart",
        {"Bucket": "secret", "Key": "k"},
        ("s3:PutObject", "arn:aws:s3:::secret/k"),
        ("kms:GenerateDataKey", KEY),
        ("kms:Decrypt", KEY),
    ),
    of(
        "s3:PutObject",
        {"Bucket": "b", "Key": "k", "SSEKMSKeyId": "alias/app"},
        ("s3:PutObject", f"{BUCKET}/k"),
        ("kms:GenerateDataKey", KEY),
    ),
    of("s3:ListBuckets", {}, ("s3:ListAllMyBuckets", "*")),
    of("s3:HeadBucket", {"Bucket": "b"}, ("s3:ListBucket", BUCKET)),
    of("s3:ListObjectsV2", {"Bucket": "b", "Prefix": "flights/"}, ("s3:ListBucket", BUCKET)),
    of("s3:CreateBucket", {"Bucket": "b"}, ("s3:CreateBucket", BUCKET)),
    of(
        "s3:GetBucketLifecycleConfiguration",
        {"Bucket": "b"},
        ("s3:GetLifecycleConfiguration", BUCKET),
    ),
    of("s3:GetBucketCors", {"Bucket": "b"}, ("s3:GetBucketCORS", BUCKET)),
    of("s3:HeadObject", ON_KEY, ("s3:GetObject", OBJECT)),
    of("s3:GetObject", {**ON_KEY, "VersionId": "v"}, ("s3:GetObjectVersion", OBJECT)),
    of("s3:DeleteObject", {**ON_KEY, "VersionId": "v"}, ("s3:DeleteObjectVersion", OBJECT)),
    of("s3:UploadPart", ON_KEY, ("s3:PutObject", OBJECT)),
    of("s3:AbortMultipartUpload", ON_KEY, ("s3:AbortMultipartUpload", OBJECT)),
    of("s3:ListParts", ON_KEY, ("s3:ListMultipartUploadParts", OBJECT)),
    of(
        "s3:PutObject",
        {**ON_KEY, "Tagging": "a=b", "ACL": "private"},
        ("s3:PutObject", OBJECT),
        ("s3:PutObjectTagging", OBJECT),
        ("s3:PutObjectAcl", OBJECT),
    ),
    of(
        "s3:CopyObject",
        {**ON_KEY, "CopySource": "from/a%20b?versionId=7"},
        ("s3:PutObject", OBJECT),
        ("s3:GetObjectVersion", "arn:aws:s3:::from/a b"),
        ("s3:GetObjectVersionTagging", "arn:aws:s3:::from/a b"),
    ),
    of(
        "s3:DeleteObjects",
        {"Bucket": "b", "Delete": {"Objects": [{"Key": "1"}, {"Key": "2", "VersionId": "v"}]}},
        ("s3:DeleteObject", f"{BUCKET}/1"),
        ("s3:DeleteObjectVersion", f"{BUCKET}/2"),
    ),
    of(
        "s3:PutBucketReplication",
        {"Bucket": "b", "ReplicationConfiguration": {"Role": ROLE}},
        ("s3:PutReplicationConfiguration", BUCKET),
        ("iam:PassRole", ROLE),
    ),
    of(
        "cloudformation:CreateStack",
        {"StackName": "app", "RoleARN": ROLE},
        ("cloudformation:CreateStack", STACK),
        ("iam:PassRole", ROLE),
    ),
    of(
        "cloudformation:DescribeStacks",
        {"StackName": "app"},
        ("cloudformation:DescribeStacks", STACK),
    ),
    of("cloudformation:DescribeStacks", {}, ("cloudformation:DescribeStacks", "*")),
    of("cloudformation:ValidateTemplate", {}, ("cloudformation:ValidateTemplate", "*")),
    of(
        "emr:AddJobFlowSteps",
        {"JobFlowId": "j-1", "ExecutionRoleArn": ROLE},
        ("elasticmapreduce:AddJobFlowSteps", arn("elasticmapreduce", "cluster/j-1")),
    ),
    of(
        "emr:TerminateJobFlows",
        {"JobFlowIds": ["j-1", "j-2"]},
        ("elasticmapreduce:TerminateJobFlows", arn("elasticmapreduce", "cluster/j-1")),
        ("elasticmapreduce:TerminateJobFlows", arn("elasticmapreduce", "cluster/j-2")),
    ),
    of(
        "emr:RunJobFlow",
        {
            "Name": "n",
            "ServiceRole": "EMR_DefaultRole",
            "JobFlowRole": "nodes",
            "Tags": [{"Key": "a"}],
        },
        ("elasticmapreduce:RunJobFlow", "*"),
        ("elasticmapreduce:AddTags", arn("elasticmapreduce", "cluster/*")),
        ("iam:PassRole", KNOWN["iam", "role", "EMR_DefaultRole"]),
        ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/nodes"),
    ),
    of(
        "emr-serverless:StartJobRun",
        {"applicationId": "a-1", "executionRoleArn": ROLE},
        ("emr-serverless:StartJobRun", arn("emr-serverless", "/applications/a-1")),
        ("iam:PassRole", ROLE),
    ),
    of(
        "emr-serverless:GetJobRun",
        {"applicationId": "a-1", "jobRunId": "r-1"},
        ("emr-serverless:GetJobRun", arn("emr-serverless", "/applications/a-1/jobruns/r-1")),
    ),
    of("resourcegroupstaggingapi:GetResources", {}, ("tag:GetResources", "*")),
    of(
        "sqs:SendMessageBatch",
        {"QueueUrl": f"http://localhost:4566/{ACCOUNT}/q"},
        ("sqs:SendMessage", arn("sqs", "q")),
    ),
    of("sqs:CreateQueue", {"QueueName": "q"}, ("sqs:CreateQueue", arn("sqs", "q"))),
    of("sns:PublishBatch", {"TopicArn": arn("sns", "t")}, ("sns:Publish", arn("sns", "t"))),
    of(
        "sns:Unsubscribe",
        {"SubscriptionArn": arn("sns", "t:1-2")},
        ("sns:Unsubscribe", arn("sns", "t")),
    ),
    of("sns:CreateTopic", {"Name": "t"}, ("sns:CreateTopic", arn("sns", "t"))),
    of("dynamodb:PutItem", {"TableName": "t"}, ("dynamodb:PutItem", TABLE)),
    of(
        "dynamodb:Query",
        {"TableName": "t", "IndexName": "i"},
        ("dynamodb:Query", f"{TABLE}/index/i"),
    ),
    of(
        "dynamodb:TransactWriteItems",
        {"TransactItems": [{"Put": {"TableName": "t"}}, {"ConditionCheck": {"TableName": "t"}}]},
        ("dynamodb:PutItem", TABLE),
        ("dynamodb:ConditionCheckItem", TABLE),
    ),
    of("dynamodb:BatchGetItem", {"RequestItems": {"t": {}}}, ("dynamodb:BatchGetItem", TABLE)),
    of(
        "dynamodb:ExecuteStatement",
        {"Statement": 'SELECT * FROM "t"."i" WHERE a = 1'},
        ("dynamodb:PartiQLSelect", f"{TABLE}/index/i"),
    ),
    of(
        "dynamodbstreams:GetRecords",
        {"ShardIterator": f"{TABLE}/stream/2026|1|x"},
        ("dynamodb:GetRecords", f"{TABLE}/stream/2026"),
    ),
    of(
        "glue:GetTable",
        {"DatabaseName": "d", "Name": "t"},
        ("glue:GetTable", arn("glue", "catalog")),
        ("glue:GetTable", arn("glue", "database/d")),
        ("glue:GetTable", arn("glue", "table/d/t")),
    ),
    of(
        "glue:GetDatabase",
        {"Name": "d"},
        ("glue:GetDatabase", arn("glue", "catalog")),
        ("glue:GetDatabase", arn("glue", "database/d")),
    ),
    of(
        "logs:PutLogEvents",
        {"logGroupName": "/aws/lambda/f", "logStreamName": "s"},
        ("logs:PutLogEvents", f"{GROUP}s"),
    ),
    of("logs:CreateLogGroup", {"logGroupName": "/aws/lambda/f"}, ("logs:CreateLogGroup", GROUP)),
    of(
        "events:PutRule",
        {"Name": "r", "EventBusName": "b"},
        ("events:PutRule", arn("events", "rule/b/r")),
    ),
    of(
        "events:PutTargets",
        {"Rule": "r", "Targets": [{"RoleArn": ROLE}]},
        ("events:PutTargets", arn("events", "rule/r")),
        ("iam:PassRole", ROLE),
    ),
    of(
        "events:PutEvents",
        {"Entries": [{"Source": "s", "DetailType": "d"}]},
        ("events:PutEvents", arn("events", "event-bus/default")),
    ),
    of("kms:Decrypt", {"KeyId": "alias/app"}, ("kms:Decrypt", KEY)),
    of("kms:Encrypt", {"KeyId": "k-1"}, ("kms:Encrypt", KEY)),
    of(
        "ssm:GetParameters",
        {"Names": ["/a/b", "c"]},
        ("ssm:GetParameters", arn("ssm", "parameter/a/b")),
        ("ssm:GetParameters", arn("ssm", "parameter/c")),
    ),
    of(
        "secretsmanager:GetSecretValue",
        {"SecretId": "db"},
        ("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:db-??????")),
    ),
    of("ecr:GetAuthorizationToken", {}, ("ecr:GetAuthorizationToken", "*")),
    of("ecr:PutImage", {"repositoryName": "r"}, ("ecr:PutImage", arn("ecr", "repository/r"))),
    of(
        "stepfunctions:StartExecution",
        {"stateMachineArn": arn("states", "stateMachine:m")},
        ("states:StartExecution", arn("states", "stateMachine:m")),
    ),
    of(
        "cloudwatch:PutMetricAlarm",
        {"AlarmName": "a"},
        ("cloudwatch:PutMetricAlarm", arn("cloudwatch", "alarm:a")),
    ),
    of("iam:PutRolePolicy", {"RoleName": "app"}, ("iam:PutRolePolicy", ROLE)),
    of(
        "iam:CreateRole",
        {"RoleName": "app", "Path": "/x/"},
        ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/x/app"),
    ),
    of("sts:GetCallerIdentity", {}),
    of(
        "sts:AssumeRole",
        {"RoleArn": ROLE, "Tags": [{"Key": "a", "Value": "b"}]},
        ("sts:AssumeRole", ROLE),
        ("sts:TagSession", ROLE),
    ),
    of("guardduty:ListDetectors", {}),
]
