"""Lambda's errors in AWS's words; `translate` turns the errors of headrace's own parts into them."""

from __future__ import annotations

from headrace.aws.errors import AwsError
from headrace.core.ports import FunctionNotFound, FunctionThrottled, StreamNotFound


class Throttled(FunctionThrottled):
    """A concurrency limit is reached. `reason` is AWS's ThrottleReason."""

    def __init__(self, arn: str, reason: str) -> None:
        super().__init__(arn)
        self.reason = reason


class UnsafeArchive(ValueError):
    """Not a zip archive, or one that reaches outside its directory."""


class UnzippedTooLarge(ValueError):
    """The contents are larger than Lambda takes."""

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
    """A function, version, alias, layer, mapping or policy that is not there."""
    return _user_error("ResourceNotFoundException", message, 404)


def invalid_parameter(message: str, *, typed: bool = True) -> AwsError:
    """A parameter that the model allows and the service does not; a few of AWS's come without their Type."""
    members = {"Type": "User"} if typed else {}
    return AwsError("InvalidParameterValueException", message, 400, members)


def validation(message: str) -> AwsError:
    """A constraint that the service checks beyond its model, in the validator's form."""
    return AwsError("ValidationException", f"1 validation error detected: {message}", 400)


def conflict(message: str) -> AwsError:
    """The resource exists already, or is used."""
    return _user_error("ResourceConflictException", message, 409)


def precondition_failed(call: str = "GetFunction/GetAlias") -> AwsError:
    """The caller's RevisionId is not the latest; `call` would say it."""
    return _user_error(
        "PreconditionFailedException",
        "The Revision Id provided does not match the latest Revision Id. "
        f"Call the {call} API to retrieve the latest Revision Id",
        412,
    )


def function_not_found(arn: str) -> AwsError:
    """There is no such function, version or alias, in the words of most operations."""
    return not_found(f"Function not found: {arn}")


def update_in_progress(arn: str) -> AwsError:
    """The function is still being updated."""
    return conflict(
        "The operation cannot be performed at this time. "
        f"An update is in progress for resource: {arn}"
    )


def access_denied(account: str, action: str, arn: str) -> AwsError:
    """A caller of another account, whom no resource policy allows the action."""
    return _user_error(
        "AccessDeniedException",
        f"User: arn:aws:iam::{account}:root is not authorized to perform: {action} on resource: {arn} "
        f"because no resource-based policy allows the {action} action",
        403,
    )


def other_account() -> AwsError:
    """A caller that would create something in another account; AWS says no more than that."""
    return AwsError("AccessDeniedException", "", 403)


def too_large(sent_bytes: int, most_bytes: int, operation: str) -> AwsError:
    """An invocation's payload over its limit."""
    message = (
        f"Request must be smaller than {most_bytes} bytes for the {operation} operation"
        if sent_bytes < 0
        else f"{sent_bytes} byte payload is too large for the {operation} invocation type "
        f"(limit {most_bytes} bytes)"
    )
    return _user_error("RequestTooLargeException", message, 413)


def throttled(reason: str = "ConcurrentInvocationLimitExceeded") -> AwsError:
    """The function's, or the account's, concurrency is used up."""
    return AwsError(
        "TooManyRequestsException", "Rate Exceeded.", 429, {"Type": "User", "Reason": reason}
    )


def invalid_request_content(message: str) -> AwsError:
    """An invocation's payload is not JSON."""
    return _user_error("InvalidRequestContentException", message, 400)


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's."""
    if isinstance(error, FunctionNotFound):
        return not_found(f"Function not found: {error}")
    if isinstance(error, Throttled):
        return throttled(error.reason)
    if isinstance(error, FunctionThrottled):
        return throttled()
    if isinstance(error, StreamNotFound):
        return invalid_parameter(f"Stream not found: {error}")
    if isinstance(error, UnzippedTooLarge):
        return invalid_parameter(str(error))
    if isinstance(error, UnsafeArchive):
        return invalid_parameter(UNZIP_FAILED)
    return None
