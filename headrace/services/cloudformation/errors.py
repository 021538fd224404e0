"""CloudFormation's errors in AWS's words."""

from __future__ import annotations

from headrace.aws.errors import AwsError


class TemplateError(Exception):
    """The template, or what it is given, is wrong; the message is AWS's sentence."""


class ResourceFailed(Exception):
    """A resource could not be created, changed or deleted; the message becomes its status reason."""


def validation_error(message: str) -> AwsError:
    """The request is wrong."""
    return AwsError("ValidationError", message)


def stack_not_found(name: str) -> AwsError:
    """No such stack. The CDK CLI tests for this very sentence."""
    return validation_error(f"Stack with id {name} does not exist")


def stack_missing(name: str) -> AwsError:
    """No such stack, as the operations on a stack's parts say it."""
    return validation_error(f"Stack [{name}] does not exist")


def change_set_not_found(name: str) -> AwsError:
    """No such change set."""
    return AwsError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist", 404)


def translate(error: Exception) -> AwsError | None:
    """Turn a domain error into AWS's."""
    if isinstance(error, TemplateError):
        return validation_error(str(error))
    return None
