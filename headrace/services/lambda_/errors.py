"""Lambda's errors with AWS's messages, its quotas, and its constraints in the wording of AWS's recorded answers.

`translate` turns errors of headrace's own parts into AWS's. Limits marked "local" are headrace's own.

The recordings are from 2024 and 2025 (LocalStack's tests/aws/services/lambda_, tag v4.9.2). botocore's model is newer,
has regions of another partition, and lists enums in another order. A request that violates the recorded constraint gets
the recorded message.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html (documented) and the API
reference's parameter ranges.
"""

from __future__ import annotations

from typing import Any

from headrace.aws.calls.errors import AwsError
from headrace.aws.protocols.validate import Wording
from headrace.core.ports import FunctionNotFound, FunctionThrottled, StreamNotFound

SYNC_PAYLOAD_BYTES = 6 * 1024 * 1024
ASYNC_PAYLOAD_BYTES = 1024 * 1024
# Six megabytes and the hundred bytes that AWS's own error message counts.
RESPONSE_PAYLOAD_BYTES = 6_291_556
# A streamed response. Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html
STREAM_BYTES = 200 * 1024 * 1024
DIRECT_ZIP_BYTES = 50 * 1024 * 1024
UNZIPPED_BYTES = 262_144_000
# Local: an archive with more entries than this is refused as a zip bomb.
ZIP_ENTRIES = 100_000
ENVIRONMENT_BYTES = 4096
LAYERS_PER_FUNCTION = 5
MOST_TAGS = 50
# Local: how long an update is in progress; other updates are refused meanwhile. On AWS it takes a second or more.
UPDATE_LASTS_MS = 200
POLICY_BYTES = 20 * 1024
TIMEOUT_SECONDS = 900
LOG_TAIL_BYTES = 4096
# The largest event of CloudWatch Logs, minus its overhead of 26 bytes.
LOG_EVENT_BYTES = 262_118
# Local: how much of an invocation's output is kept, so that a function that writes for ever does not fill the memory.
LOG_INVOCATION_BYTES = 32 * 1024 * 1024
INIT_SECONDS = 10
ACCOUNT_CONCURRENCY = 1000
UNRESERVED_CONCURRENCY_LEFT = 100
ASYNC_MAXIMUM_AGE_SECONDS = 21_600
ASYNC_RETRIES = 2
ASYNC_RETRY_DELAYS_SECONDS = (60, 120)

# Local: how many processes a version has at a time; more synchronous calls wait for one of them. A function with more
# reserved or provisioned concurrency gets more processes, up to the second number.
SANDBOXES_PER_FUNCTION = 10
SANDBOXES_AT_MOST = 64
SANDBOX_WAIT_SECONDS = 60
SANDBOX_IDLE_SECONDS = 300
# Local: how long a process's credentials are valid, and how long they must still be valid when an invocation starts,
# which may last a quarter of an hour. AWS, too, ends an execution environment every few hours.
CREDENTIALS_SECONDS = 12 * 3600
CREDENTIALS_LEFT_SECONDS = 3600

STREAM_BATCH_SIZE = 100


class Throttled(FunctionThrottled):
    """A concurrency limit is reached. `reason` is AWS's ThrottleReason."""

    def __init__(self, arn: str, reason: str) -> None:
        super().__init__(arn)
        self.reason = reason


class UnsafeArchive(ValueError):
    """The file is not a zip archive, or the archive reaches outside its directory."""


class UnzippedTooLarge(ValueError):
    """The unpacked contents exceed Lambda's size limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"Unzipped size must be smaller than {most_bytes} bytes")


NO_IMAGES = (
    "headrace does not run container images. Deploy this function as a zip with its runtime and handler"
    " (CDK: Function with Code.fromAsset instead of DockerImageFunction; SAM: PackageType: Zip)."
)
UNZIP_FAILED = "Could not unzip uploaded file. Please check your file, then try to upload again."


def _user_error(code: str, message: str, status: int) -> AwsError:
    return AwsError(code, message, status, {"Type": "User"})


def not_found(message: str) -> AwsError:
    """A function, version, alias, layer, mapping or policy does not exist."""
    return _user_error("ResourceNotFoundException", message, 404)


def invalid_parameter(message: str, *, typed: bool = True) -> AwsError:
    """The API model allows the parameter, but the service does not. A few of AWS's errors have no Type."""
    members = {"Type": "User"} if typed else {}
    return AwsError("InvalidParameterValueException", message, 400, members)


def validation(message: str) -> AwsError:
    """A constraint that is not in the API model does not hold; the message has the form of the validator's."""
    return AwsError("ValidationException", f"1 validation error detected: {message}", 400)


def conflict(message: str) -> AwsError:
    """The resource exists already or is in use."""
    return _user_error("ResourceConflictException", message, 409)


def mapping_in_use(verb: str) -> AwsError:
    """An event source mapping is being changed; `verb` is update or delete (sentence observed by others: Terraform)."""
    return _user_error(
        "ResourceInUseException",
        f"Cannot {verb} the event source mapping because it is in use.",
        400,
    )


def precondition_failed(call: str = "GetFunction/GetAlias") -> AwsError:
    """The caller's RevisionId is not the latest; the operation `call` returns the latest one."""
    return _user_error(
        "PreconditionFailedException",
        "The Revision Id provided does not match the latest Revision Id. "
        f"Call the {call} API to retrieve the latest Revision Id",
        412,
    )


def function_not_found(arn: str) -> AwsError:
    """The function, version or alias does not exist; most operations have this message."""
    return not_found(f"Function not found: {arn}")


def update_in_progress(arn: str) -> AwsError:
    """The function is still being updated."""
    return conflict(
        "The operation cannot be performed at this time. "
        f"An update is in progress for resource: {arn}"
    )


def access_denied(account: str, action: str, arn: str) -> AwsError:
    """The caller is from another account, and no resource policy allows the action."""
    return _user_error(
        "AccessDeniedException",
        f"User: arn:{arn.split(':')[1]}:iam::{account}:root is not authorized to perform: {action} on resource: {arn} "
        f"because no resource-based policy allows the {action} action",
        403,
    )


def other_account() -> AwsError:
    """The caller tries to create a resource in another account; AWS's message is this short."""
    return AwsError("AccessDeniedException", "", 403)


def too_large(sent_bytes: int, most_bytes: int, operation: str) -> AwsError:
    """The payload of an invocation exceeds its size limit."""
    message = (
        f"Request must be smaller than {most_bytes} bytes for the {operation} operation"
        if sent_bytes < 0
        else f"{sent_bytes} byte payload is too large for the {operation} invocation type "
        f"(limit {most_bytes} bytes)"
    )
    return _user_error("RequestTooLargeException", message, 413)


def too_many_requests(reason: str = "ConcurrentInvocationLimitExceeded") -> AwsError:
    """The concurrency of the function or of the account is used up."""
    return AwsError(
        "TooManyRequestsException", "Rate Exceeded.", 429, {"Type": "User", "Reason": reason}
    )


def invalid_request_content(message: str) -> AwsError:
    """The payload of an invocation is not JSON."""
    return _user_error("InvalidRequestContentException", message, 400)


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for an error of headrace's own parts, or None for any other error."""
    if isinstance(error, FunctionNotFound):
        return not_found(f"Function not found: {error}")
    if isinstance(error, Throttled):
        return too_many_requests(error.reason)
    if isinstance(error, FunctionThrottled):
        return too_many_requests()
    if isinstance(error, StreamNotFound):
        return invalid_parameter(f"Stream not found: {error}")
    if isinstance(error, UnzippedTooLarge):
        return invalid_parameter(str(error))
    if isinstance(error, UnsafeArchive):
        return invalid_parameter(UNZIP_FAILED)
    return None


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
