"""PublishVersion, ListVersionsByFunction: numbered copies of a function that never change."""

from __future__ import annotations

from headrace.aws.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    FunctionConfiguration,
    ListVersionsByFunctionInput,
    ListVersionsByFunctionOutput,
    PublishVersionInput,
)
from headrace.services.lambda_.actions.common import (
    check_revision,
    configuration_of,
    page,
    publish,
    reference,
    unqualified,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import invalid_parameter


@operation("PublishVersion")
def publish_version(
    lambda_: Lambda, call: Call, request: PublishVersionInput
) -> FunctionConfiguration:
    """Freeze `$LATEST` as a numbered version; nothing new when nothing changed since the last."""
    with lambda_.functions.changing(unqualified(reference(call, request))) as function:
        check_revision(function.latest, request)
        expected = request.get("CodeSha256")
        actual = function.latest.config["CodeSha256"]
        if expected and expected != actual:
            raise invalid_parameter(
                f"CodeSHA256 ({expected}) is different from current CodeSHA256 in $LATEST ({actual}). "
                "Please try again with the CodeSHA256 in $LATEST."
            )
        return configuration_of(
            publish(
                function, revision_id=lambda_.ids.uuid(), description=request.get("Description")
            )
        )


@operation("ListVersionsByFunction")
def list_versions_by_function(
    lambda_: Lambda, call: Call, request: ListVersionsByFunctionInput
) -> ListVersionsByFunctionOutput:
    """Return `$LATEST` and the published versions, oldest first."""
    function = lambda_.functions.get(reference(call, request))
    latest = {**function.latest.config, "FunctionArn": f"{function.ref.arn}:$LATEST"}
    return page([latest, *(v.config for v in function.published())], request, "Versions")
