"""Lambda's constraints in the wording of AWS's recorded answers, where botocore's model differs.

The recordings are from 2024 and 2025 (LocalStack's tests/aws/services/lambda_, tag v4.9.2). botocore's model is newer,
has regions of another partition, and lists enums in another order. A request that violates the recorded constraint gets
the recorded message.
"""

from __future__ import annotations

from typing import Any

from headrace.aws.protocols.validate import Wording

_REGION = r"[a-z]{2}((-gov)|(-iso([a-z]?)))?-[a-z]+-\d{1}"
_OLD_REGION = r"[a-z]{2}((-gov)|(-iso(b?)))?-[a-z]+-\d{1}"
_PREFIX = rf"(arn:(aws[a-zA-Z-]*)?:lambda:)?({_REGION}:)?(\d{{12}}:)?(function:)?"
_QUALIFIER = r"(:(\$LATEST|[a-zA-Z0-9-_]+))?"
_UUID = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

FUNCTION_NAME: dict[str, Any] = {
    "max": 140,
    "pattern": rf"{_PREFIX}([a-zA-Z0-9-_]+){_QUALIFIER}",
}
NAMESPACED_NAME: dict[str, Any] = {
    "max": 170,
    "pattern": rf"{_PREFIX}([a-zA-Z0-9-_\.]+){_QUALIFIER}",
}
QUALIFIER: dict[str, Any] = {"pattern": "(|[a-zA-Z0-9$_-]+)"}

# The runtimes that AWS listed, in this order, when it refused another one. headrace accepts newer ones, too.
RUNTIMES = (
    *(
        "nodejs20.x",
        "provided.al2023",
        "python3.12",
        "python3.13",
        "nodejs22.x",
        "java17",
        "nodejs16.x",
    ),
    *(
        "dotnet8",
        "python3.10",
        "java11",
        "python3.11",
        "dotnet6",
        "java21",
        "nodejs18.x",
        "provided.al2",
    ),
    *("ruby3.3", "ruby3.4", "java8.al2", "ruby3.2", "python3.8", "python3.9"),
)
_NEWER_RUNTIMES = (
    *("nodejs24.x", "nodejs26.x", "java25", "python3.14", "python3.15", "dotnet10", "ruby4.0"),
    *("java8.al2023", "java11.al2023", "java17.al2023"),
)
KNOWN_RUNTIMES = frozenset((*RUNTIMES, *_NEWER_RUNTIMES))
# The values by which lists of layers can be filtered, in AWS's order.
LAYER_RUNTIMES = (
    *(
        "ruby2.6",
        "dotnetcore1.0",
        "python3.7",
        "nodejs8.10",
        "nasa",
        "ruby2.7",
        "python2.7-greengrass",
    ),
    *(
        "dotnetcore2.0",
        "python3.8",
        "java21",
        "dotnet6",
        "dotnetcore2.1",
        "python3.9",
        "java11",
        "nodejs6.10",
    ),
    *(
        "provided",
        "dotnetcore3.1",
        "dotnet8",
        "java25",
        "java17",
        "nodejs",
        "nodejs4.3",
        "java8.al2",
        "go1.x",
    ),
    *(
        "dotnet10",
        "nodejs20.x",
        "go1.9",
        "byol",
        "nodejs10.x",
        "provided.al2023",
        "nodejs22.x",
        "python3.10",
    ),
    *(
        "java8",
        "nodejs12.x",
        "python3.11",
        "nodejs24.x",
        "nodejs8.x",
        "python3.12",
        "nodejs14.x",
        "nodejs8.9",
    ),
    *(
        "python3.13",
        "python3.14",
        "nodejs16.x",
        "provided.al2",
        "nodejs4.3-edge",
        "nodejs18.x",
        "ruby3.2",
    ),
    *("python3.4", "ruby3.3", "ruby3.4", "ruby2.5", "python3.6", "python2.7"),
)

WORDING = Wording(
    shapes={
        "FunctionName": FUNCTION_NAME,
        "NamespacedFunctionName": NAMESPACED_NAME,
        "DeleteFunction.NamespacedFunctionName": FUNCTION_NAME,
        "NumericLatestPublishedOrAliasQualifier": QUALIFIER,
        # The service itself checks the runtime; see `headrace.services.lambda_.runtime`.
        "Runtime": {"enum": None},
        "ListLayers.Runtime": {"enum": LAYER_RUNTIMES},
        "ListLayerVersions.Runtime": {"enum": LAYER_RUNTIMES},
        "PublishLayerVersion.Runtime": {
            "enum": (*KNOWN_RUNTIMES, *LAYER_RUNTIMES),
            "shown": RUNTIMES,
        },
        "RecursiveLoop": {"enum": ("Terminate", "Allow")},
        "InvokeMode": {"enum": ("RESPONSE_STREAM", "BUFFERED")},
        "EventSourcePosition": {"enum": ("LATEST", "AT_TIMESTAMP", "TRIM_HORIZON")},
        "SubnetId": {"pattern": "^subnet-[0-9a-z]*$"},
        "SecurityGroupId": {"pattern": "^sg-[0-9a-zA-Z]*$"},
        "LayerVersionArn": {
            "max": 140,
            "pattern": rf"(arn:[a-zA-Z0-9-]+:lambda:{_OLD_REGION}:\d{{12}}:layer:[a-zA-Z0-9-_]+:[0-9]+)"
            r"|(arn:[a-zA-Z0-9-]+:lambda:::awslayer:[a-zA-Z0-9-_]+)",
        },
        "GetLayerVersionByArn.LayerVersionArn": {
            "pattern": rf"(arn:(aws[a-zA-Z-]*)?:lambda:{_REGION}:\d{{12}}:layer:[a-zA-Z0-9-_]+:[0-9]+)"
            r"|(arn:[a-zA-Z0-9-]+:lambda:::awslayer:[a-zA-Z0-9-_]+)",
        },
        "DestinationArn": {
            "pattern": rf"^$|arn:(aws[a-zA-Z0-9-]*):([a-zA-Z0-9\-])+:({_OLD_REGION})?:(\d{{12}})?:(.*)",
        },
        "TaggableResource": {
            "pattern": rf"arn:(aws[a-zA-Z-]*):lambda:{_REGION}:\d{{12}}:(function:[a-zA-Z0-9-_]+{_QUALIFIER}"
            rf"|layer:([a-zA-Z0-9-_]+)|code-signing-config:csc-[a-z0-9]{{17}}|event-source-mapping:{_UUID})",
        },
    },
    never_null=frozenset({"ArchitecturesList", "LayerList", "AdditionalVersionWeights"}),
    first={"PublishLayerVersionRequest": ("CompatibleRuntimes",)},
    bare=frozenset({"CompatibleRuntimes"}),
)
