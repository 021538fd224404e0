"""Lambda's calls with every member, and how each member is read back."""

from __future__ import annotations

import json
from typing import Any

from tests.support.lambda_lab import QUEUE, ROLE, zipped
from tests.support.read_back import Case, Read
from tests.support.streams import STREAM_ARN

ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"
CODE = zipped({"app.py": "def handler(event, context):\n    return event\n"})
OTHER_CODE = zipped({"app.py": "def handler(event, context):\n    return 1\n"})
FUNCTION: Read = (
    "CreateFunction",
    {
        "FunctionName": "f",
        "Role": ROLE,
        "Runtime": "python3.12",
        "Handler": "app.handler",
        "Code": {"ZipFile": CODE},
    },
)
VERSION: Read = ("PublishVersion", {"FunctionName": "f"})
ALIAS: Read = ("CreateAlias", {"FunctionName": "f", "Name": "live", "FunctionVersion": "1"})
LAYER: Read = ("PublishLayerVersion", {"LayerName": "l", "Content": {"ZipFile": CODE}})
LAYER_ARN = "arn:aws:lambda:us-east-1:000000000000:layer:l:1"
GET: Read = ("GetFunction", {"FunctionName": "f"})
FUNCTION_ARN = "arn:aws:lambda:us-east-1:000000000000:function:f"
STATEMENT = {
    "Effect": "Allow",
    "Principal": {"AWS": "000000000001"},
    "Action": "lambda:InvokeFunction",
    "Resource": FUNCTION_ARN,
}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT]}, separators=(",", ":"))
IMAGE = "container images are refused"
KEY = "arn:aws:kms:us-east-1:000000000000:key/1"
SIGNER = "arn:aws:signer:us-east-1:000000000000:/signing-profiles/test"
SIGNING: Read = (
    "CreateCodeSigningConfig",
    {"AllowedPublishers": {"SigningProfileVersionArns": [SIGNER]}},
)
CONFIGURATION: dict[str, Any] = {
    "FunctionName": "f",
    "Runtime": "python3.12",
    "Role": ROLE,
    "Timeout": 7,
    "MemorySize": 256,
    "VpcConfig.SubnetIds": ["subnet-1"],
    "VpcConfig.SecurityGroupIds": ["sg-1"],
    "DeadLetterConfig.TargetArn": QUEUE,
    "Environment.Variables": {"ABC": "x"},
    "KMSKeyArn": KEY,
    "Layers": [LAYER_ARN],
    "FileSystemConfigs": [
        {
            "Arn": "arn:aws:elasticfilesystem:us-east-1:000000000000:access-point/fsap-00000000000000000",
            "LocalMountPath": "/mnt/a",
            "S3FilesConfig": {"DirectS3Read": "ENABLED"},
        }
    ],
    "EphemeralStorage.Size": 600,
    "LoggingConfig.LogFormat": "JSON",
    "LoggingConfig.LogGroup": "/mine",
}
OF_BUCKETS = "ZipFile is given; code from a bucket: tests/api/lambda_/test_packages.py"
_OF_BUCKETS = ("S3Bucket", "S3Key", "S3ObjectVersion")
NOT_BUILT = "refused by name: tests/api/lambda_/test_functions.py"
LEFT_OUT = {
    "AcceleratorConfig": NOT_BUILT,
    "CapacityProviderConfig": NOT_BUILT,
    "DurableConfig": NOT_BUILT,
    "RuntimeConfig": NOT_BUILT,
    "ImageConfig.EntryPoint": IMAGE,
    "ImageConfig.Command": IMAGE,
    "ImageConfig.WorkingDirectory": IMAGE,
}


def revision(client: Any) -> str:
    return str(client.get_function_configuration(FunctionName="f")["RevisionId"])


def alias_revision(client: Any) -> str:
    return str(client.get_alias(FunctionName="f", Name="live")["RevisionId"])


def signing_arn(client: Any) -> str:
    (config,) = client.list_code_signing_configs()["CodeSigningConfigs"]
    return str(config["CodeSigningConfigArn"])


def layer_revision(client: Any) -> str:
    client.add_layer_version_permission(
        LayerName="l",
        VersionNumber=1,
        StatementId="before",
        Action="lambda:GetLayerVersion",
        Principal="*",
    )
    return str(client.get_layer_version_policy(LayerName="l", VersionNumber=1)["RevisionId"])


def code_sha(client: Any) -> str:
    return str(client.get_function_configuration(FunctionName="f")["CodeSha256"])


STALE = {"RevisionId": "it was the one before; another is refused"}
LAYERS_SHOWN = {"Layers": "shown with their sizes; tests/conformance/lambda reads them"}
SENT = "the package is read by its hash and its location"
OTHER_SOURCES = dict.fromkeys(
    (
        "Topics",
        "Queues",
        "SourceAccessConfigurations",
        "SelfManagedEventSource",
        "AmazonManagedKafkaEventSourceConfig",
        "SelfManagedKafkaEventSourceConfig",
        "DocumentDBEventSourceConfig",
    ),
    "of sources that headrace does not have",
)
MAPPING: dict[str, Any] = {
    "FunctionName": ARN,
    "BatchSize": 5,
    "MaximumBatchingWindowInSeconds": 3,
    "MaximumRecordAgeInSeconds": 70,
    "FilterCriteria.Filters": [{"Pattern": '{"data":{"a":[1]}}'}],
    "DestinationConfig.OnFailure.Destination": QUEUE,
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "MetricsConfig.Metrics": ["EventCount"],
    "ParallelizationFactor": 2,
    "KMSKeyArn": KEY,
}
WITHOUT = {
    **OTHER_SOURCES,
    "ScalingConfig": "of queues",
    "ProvisionedPollerConfig": "of queues",
    "DestinationConfig.OnSuccess": "refused",
}
LIST: Read = ("ListEventSourceMappings", {})

CASES = [
    Case(
        "CreateFunction",
        [GET, ("GetFunctionCodeSigningConfig", {"FunctionName": "f"})],
        before=[LAYER, SIGNING],
        given={
            **CONFIGURATION,
            "Code": {"ZipFile": CODE, "S3ObjectStorageMode": "COPY", "SourceKMSKeyArn": KEY},
            "PackageType": "Zip",
            "Architectures": ["x86_64"],
            "Tags": {"team": "ours"},
            "CodeSigningConfigArn": signing_arn,
            "SnapStart.ApplyOn": "PublishedVersions",
        },
        without={
            **LEFT_OUT,
            "PublishTo": NOT_BUILT,
            "Code.ImageUri": IMAGE,
            **{f"Code.{name}": OF_BUCKETS for name in _OF_BUCKETS},
        },
        unseen={
            **LAYERS_SHOWN,
            "Code.ZipFile": SENT,
            "Publish": "version 1 is there, as the answer's Version says",
        },
    ),
    Case(
        "UpdateFunctionConfiguration",
        [GET],
        before=[LAYER, FUNCTION],
        given={**CONFIGURATION, "RevisionId": revision},
        without=LEFT_OUT,
        unseen={**STALE, **LAYERS_SHOWN},
    ),
    Case(
        "UpdateFunctionCode",
        [GET],
        before=[FUNCTION],
        given={
            "FunctionName": "f",
            "ZipFile": OTHER_CODE,
            "SourceKMSKeyArn": KEY,
            "Architectures": ["arm64"],
            "RevisionId": revision,
            "DryRun": False,
        },
        without={
            "S3Bucket": "ZipFile is given",
            "S3Key": "ZipFile is given",
            "ImageUri": IMAGE,
            "PublishTo": NOT_BUILT,
        },
        unseen={
            **STALE,
            "ZipFile": SENT,
            "Publish": "the answer's Version is 1",
            "DryRun": "nothing is kept when it is true",
        },
    ),
    Case(
        "PublishVersion",
        [("GetFunction", {"FunctionName": "f", "Qualifier": "1"})],
        before=[FUNCTION],
        without={"PublishTo": NOT_BUILT},
        given={"FunctionName": "f", "CodeSha256": code_sha, "RevisionId": revision},
        unseen=STALE,
    ),
    Case(
        "CreateAlias",
        [("GetAlias", {"FunctionName": "f", "Name": "live"})],
        before=[
            FUNCTION,
            VERSION,
            ("UpdateFunctionConfiguration", {"FunctionName": "f", "Timeout": 9}),
            VERSION,
        ],
        given={
            "FunctionName": "f",
            "Name": "live",
            "FunctionVersion": "1",
            "RoutingConfig.AdditionalVersionWeights": {"2": 0.25},
        },
        unseen={"FunctionName": "part of the alias's ARN"},
    ),
    Case(
        "UpdateAlias",
        [("GetAlias", {"FunctionName": "f", "Name": "live"})],
        before=[
            FUNCTION,
            VERSION,
            ALIAS,
            ("UpdateFunctionConfiguration", {"FunctionName": "f", "Timeout": 9}),
            VERSION,
        ],
        given={
            "FunctionName": "f",
            "Name": "live",
            "FunctionVersion": "2",
            "RoutingConfig.AdditionalVersionWeights": {"1": 0.25},
            "RevisionId": alias_revision,
        },
        unseen={**STALE, "FunctionName": "part of the alias's ARN"},
    ),
    Case(
        "PutResourcePolicy",
        [("GetResourcePolicy", {"ResourceArn": FUNCTION_ARN})],
        before=[FUNCTION],
        given={"ResourceArn": FUNCTION_ARN, "Policy": POLICY, "RevisionId": revision},
        named={"ResourceArn": "Resource"},
        unseen={**STALE, "ResourceArn": "inside the policy"},
    ),
    Case(
        "AddPermission",
        [("GetPolicy", {"FunctionName": "f", "Qualifier": "live"})],
        before=[FUNCTION, VERSION, ALIAS],
        given={
            "FunctionName": "f",
            "Qualifier": "live",
            "Principal": "s3.amazonaws.com",
            "Action": "lambda:InvokeFunctionUrl",
            "SourceArn": "arn:aws:s3:::bucket",
            "SourceAccount": "000000000001",
            "PrincipalOrgID": "o-1234567890",
            "RevisionId": alias_revision,
        },
        unseen={
            **STALE,
            **dict.fromkeys(
                (
                    "FunctionName",
                    "Qualifier",
                    "StatementId",
                    "Action",
                    "Principal",
                    "SourceArn",
                    "SourceAccount",
                    "EventSourceToken",
                    "PrincipalOrgID",
                    "FunctionUrlAuthType",
                    "InvokedViaFunctionUrl",
                ),
                "part of the policy, a text; tests/api/lambda_/test_resource_policies.py reads it",
            ),
        },
    ),
    Case(
        "CreateFunctionUrlConfig",
        [("GetFunctionUrlConfig", {"FunctionName": "f", "Qualifier": "live"})],
        before=[FUNCTION, VERSION, ALIAS],
        given={
            "FunctionName": "f",
            "Qualifier": "live",
            "AuthType": "AWS_IAM",
            "Cors.AllowMethods": ["PUT"],
        },
        unseen={"FunctionName": "part of the ARN", "Qualifier": "part of the ARN"},
    ),
    Case(
        "UpdateFunctionUrlConfig",
        [("GetFunctionUrlConfig", {"FunctionName": "f", "Qualifier": "live"})],
        before=[
            FUNCTION,
            VERSION,
            ALIAS,
            (
                "CreateFunctionUrlConfig",
                {"FunctionName": "f", "Qualifier": "live", "AuthType": "AWS_IAM"},
            ),
        ],
        given={
            "FunctionName": "f",
            "Qualifier": "live",
            "AuthType": "NONE",
            "Cors.AllowMethods": ["PUT"],
        },
        unseen={"FunctionName": "part of the ARN", "Qualifier": "part of the ARN"},
    ),
    *(
        Case(
            operation,
            [("GetFunctionEventInvokeConfig", {"FunctionName": "f", "Qualifier": "live"})],
            before=[FUNCTION, VERSION, ALIAS, *before],
            given={
                "FunctionName": "f",
                "Qualifier": "live",
                "MaximumRetryAttempts": 1,
                "DestinationConfig.OnSuccess.Destination": QUEUE,
                "DestinationConfig.OnFailure.Destination": f"{QUEUE}-more",
            },
            unseen={"FunctionName": "part of the ARN", "Qualifier": "part of the ARN"},
        )
        for operation, before in (
            ("PutFunctionEventInvokeConfig", []),
            (
                "UpdateFunctionEventInvokeConfig",
                [
                    (
                        "PutFunctionEventInvokeConfig",
                        {"FunctionName": "f", "Qualifier": "live", "MaximumRetryAttempts": 2},
                    )
                ],
            ),
        )
    ),
    Case(
        "PutFunctionConcurrency",
        [GET],
        before=[FUNCTION],
        given={"FunctionName": "f"},
    ),
    Case(
        "PutProvisionedConcurrencyConfig",
        [("GetProvisionedConcurrencyConfig", {"FunctionName": "f", "Qualifier": "1"})],
        before=[FUNCTION, VERSION],
        given={"FunctionName": "f", "Qualifier": "1", "ProvisionedConcurrentExecutions": 1},
        named={"ProvisionedConcurrentExecutions": "RequestedProvisionedConcurrentExecutions"},
        unseen={"FunctionName": "no answer names it", "Qualifier": "no answer names it"},
    ),
    Case(
        "PutFunctionRecursionConfig",
        [("GetFunctionRecursionConfig", {"FunctionName": "f"})],
        before=[FUNCTION],
        given={"FunctionName": "f", "RecursiveLoop": "Allow"},
        unseen={"FunctionName": "no answer names it"},
    ),
    Case(
        "PutRuntimeManagementConfig",
        [("GetRuntimeManagementConfig", {"FunctionName": "f", "Qualifier": "1"})],
        before=[FUNCTION, VERSION],
        given={
            "FunctionName": "f",
            "Qualifier": "1",
            "UpdateRuntimeOn": "Manual",
            "RuntimeVersionArn": f"arn:aws:lambda:us-east-1::runtime:{'0' * 64}",
        },
        unseen={"FunctionName": "part of the ARN", "Qualifier": "part of the ARN"},
    ),
    Case(
        "PublishLayerVersion",
        [("GetLayerVersion", {"LayerName": "l", "VersionNumber": 1})],
        given={
            "LayerName": "l",
            "Content": {"ZipFile": CODE, "S3ObjectStorageMode": "COPY"},
            "CompatibleRuntimes": ["python3.12"],
            "CompatibleArchitectures": ["arm64"],
        },
        without={f"Content.{name}": OF_BUCKETS for name in _OF_BUCKETS},
        unseen={"LayerName": "part of the ARN", "Content.ZipFile": SENT},
    ),
    Case(
        "AddLayerVersionPermission",
        [("GetLayerVersionPolicy", {"LayerName": "l", "VersionNumber": 1})],
        before=[LAYER],
        given={
            "LayerName": "l",
            "VersionNumber": 1,
            "Action": "lambda:GetLayerVersion",
            "Principal": "*",
            "OrganizationId": "o-1234567890",
            "RevisionId": layer_revision,
        },
        unseen={
            **STALE,
            **dict.fromkeys(
                (
                    "LayerName",
                    "VersionNumber",
                    "StatementId",
                    "Action",
                    "Principal",
                    "OrganizationId",
                ),
                "part of the policy, a text; tests/api/lambda_/test_layer_policies.py reads it",
            ),
        },
    ),
    Case(
        "CreateCodeSigningConfig",
        [("ListCodeSigningConfigs", {})],
        given={
            "AllowedPublishers.SigningProfileVersionArns": [SIGNER],
            "Tags": {"team": "ours"},
        },
        unseen={"Tags": "ListTags shows them, by an ARN that no one knows before"},
    ),
    Case(
        "UpdateCodeSigningConfig",
        [("ListCodeSigningConfigs", {})],
        before=[SIGNING],
        given={
            "CodeSigningConfigArn": signing_arn,
            "AllowedPublishers.SigningProfileVersionArns": [f"{SIGNER}/2"],
        },
    ),
    Case(
        "PutFunctionCodeSigningConfig",
        [("GetFunctionCodeSigningConfig", {"FunctionName": "f"})],
        before=[FUNCTION, SIGNING],
        given={"FunctionName": "f", "CodeSigningConfigArn": signing_arn},
    ),
    Case(
        "TagResource",
        [("ListTags", {"Resource": ARN})],
        before=[FUNCTION],
        given={"Resource": ARN, "Tags": {"team": "ours"}},
        unseen={"Resource": "what is asked for"},
    ),
    Case(
        "CreateEventSourceMapping",
        [LIST],
        before=[FUNCTION],
        given={
            **MAPPING,
            "EventSourceArn": STREAM_ARN,
            "StartingPosition": "AT_TIMESTAMP",
            "Enabled": False,
            "Tags": {"team": "ours"},
        },
        without=WITHOUT,
        named={"FunctionName": "FunctionArn"},
        unseen={
            "Enabled": "the State says it",
            "Tags": "ListTags shows them; tests/api/lambda_/test_event_source_mappings.py reads them",
        },
    ),
]
NOT_KEPT = {
    "UpdateEventSourceMapping": "its UUID is known only after another call; the test below",
}
