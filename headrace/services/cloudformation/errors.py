"""CloudFormation's errors, with AWS's codes and sentences.

CloudFormation's quotas, and headrace's own limits on templates and their values.

AWS's quotas: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html (documented).
"""

from __future__ import annotations

import logging

from headrace.aws.calls.errors import AwsError

# --- AWS's ------------------------------------------------------------------------------------

BODY_BYTES = 51_200
# "1 MB" is a million bytes: AWS's error names the number (observed).
URL_BODY_BYTES = 1_000_000
RESOURCES = 500
PARAMETERS = 200
PARAMETER_VALUE_BYTES = 4_096
MAPPINGS = 200
MAPPING_ATTRIBUTES = 200
OUTPUTS = 200
NAME_CHARACTERS = 255
STACK_NAME_CHARACTERS = 128
DESCRIPTION_BYTES = 1_024
DYNAMIC_REFERENCES = 60
# Fn::Cidr's count: .../intrinsic-function-reference-cidr.html (documented).
CIDRS = 256
# Size of a custom resource's answer, and how long to wait for it: .../aws-resource-cloudformation-customresource.html.
CUSTOM_RESPONSE_BYTES = 4_096
CUSTOM_TIMEOUT_SECONDS = 3_600
# A wait condition's timeout: .../aws-resource-cloudformation-waitcondition.html; a creation policy's is the same.
WAIT_SECONDS = 43_200

# --- headrace's own, where AWS names none -----------------------------------------------------

# Page sizes: events in DescribeStackEvents, changes in DescribeChangeSet.
PAGE_ITEMS = 100
# The most signals that a resource waits for.
SIGNALS = 10_000
# Levels of lists and maps in a template. The deepest that CDK generates has about thirty.
NESTED = 100
# Bytes that the functions in one resource's properties, in all outputs or in all conditions may produce. A template has
# a megabyte at most; a larger result is a mistake or an attack.
PRODUCED_BYTES = 4_000_000
# Bytes of the properties of all resources of one operation: every event stores them.
OPERATION_BYTES = 8_000_000
# Digits of a number in a template; a longer one is text.
NUMBER_CHARACTERS = 40


log = logging.getLogger(__name__)


TOO_DEEP = f"Template format error: the template is nested more than {NESTED} levels deep"


class TemplateError(Exception):
    """The template, or a value given to it, is wrong; the message is AWS's sentence."""


class TransformFailed(TemplateError):
    """A transform failed; the change set is created with status FAILED (recorded)."""


class ResourceFailed(Exception):
    """A resource could not be created, changed or deleted; the message becomes its status reason."""


class NoSuchAttribute(ResourceFailed):
    """A resource has no attribute of that name."""

    def __init__(self, kind: str, logical_id: str, name: str) -> None:
        super().__init__(f"Requested attribute {name} does not exist in schema for {kind}")
        self.kind = kind
        self.logical_id = logical_id
        self.name = name


class Cancelled(ResourceFailed):
    """A resource was given up because the operation was cancelled or another resource failed."""


# The longest reason of an event; it may contain a client's text.
_REASON_CHARACTERS = 4096


def reason_of(error: BaseException) -> str:
    """Return an error as the status reason of an event, in one sentence."""
    if isinstance(error, AwsError):
        reason = f"{error.message} (Service: {error.code}, Status Code: {error.status})"
    elif isinstance(error, ResourceFailed | TemplateError):
        reason = str(error)
    elif isinstance(error, MemoryError):
        reason = "Internal failure of headrace: there was not enough memory"
    elif isinstance(error, RecursionError):
        reason = "Internal failure of headrace: values are nested too deeply"
    else:
        reason = f"Internal failure of headrace: {type(error).__name__}: {error}"
    return reason[:_REASON_CHARACTERS]


def log_defect(what: str, error: BaseException) -> None:
    """Log an error that is not a service's or a template's refusal; without the traceback when it says nothing more."""
    if isinstance(error, AwsError | ResourceFailed | TemplateError):
        return
    trace = None if isinstance(error, RecursionError | MemoryError) else error
    log.error("%s: %s", what, reason_of(error), exc_info=trace)


def too_long(value: str, member: str, most_bytes: int) -> TemplateError | None:
    """Return AWS's refusal of a text that is too long (the sentence is recorded), or None."""
    if len(value) * 4 <= most_bytes or len(value.encode("utf-8", "surrogatepass")) <= most_bytes:
        return None
    return TemplateError(
        f"1 validation error detected: Value '{value[:most_bytes]}' at '{member}' failed to satisfy constraint: Member"
        f" must have length less than or equal to {most_bytes}"
    )


def validation_error(message: str) -> AwsError:
    """Return the error of a wrong request."""
    return AwsError("ValidationError", message)


def stack_not_found(name: str) -> AwsError:
    """Return the error for a stack that does not exist. The CDK CLI looks for this sentence."""
    return validation_error(f"Stack with id {name} does not exist")


def stack_missing(name: str) -> AwsError:
    """Return the same error with the sentence of the operations on a stack's parts."""
    return validation_error(f"Stack [{name}] does not exist")


def change_set_not_found(name: str) -> AwsError:
    """Return the error of a change set that does not exist."""
    return AwsError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)


def translate(error: Exception) -> AwsError | None:
    """Return AWS's error for a wrong template; None for any other error.

    A ResourceFailed also counts as the template's error here: while a request is checked, nothing has been created yet.
    """
    if isinstance(error, TemplateError | ResourceFailed):
        return validation_error(str(error))
    return None
