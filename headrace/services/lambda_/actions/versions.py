"""PublishVersion and ListVersionsByFunction: the numbered versions of a function, which never change."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    FunctionConfiguration,
    ListVersionsByFunctionInput,
    ListVersionsByFunctionOutput,
    PublishVersionInput,
)
from headrace.services.lambda_.actions.common import (
    build_page,
    check_revision,
    check_settled,
    check_unqualified,
    configuration_of,
    parse_reference,
    publish,
    render_listed,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.configuration import check_built
from headrace.services.lambda_.errors import invalid_parameter


@operation("PublishVersion")
def publish_version(
    lambda_: Lambda, call: Call, request: PublishVersionInput
) -> FunctionConfiguration:
    """Publish `$LATEST` as a numbered version, unless nothing has changed since the last version."""
    check_built(request)
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        check_revision(function.latest, request.get("RevisionId"))
        check_settled(function, call)
        expected = request.get("CodeSha256")
        actual = function.latest.config["CodeSha256"]
        if expected and expected != actual:
            raise invalid_parameter(
                f"CodeSHA256 ({expected}) is different from current CodeSHA256 in $LATEST ({actual}). "
                "Please try again with the CodeSHA256 in $LATEST."
            )
        version, _ = publish(
            function, ids=lambda_.ids, description=request.get("Description") or None
        )
        return configuration_of(version, call.now_ms)


@operation("ListVersionsByFunction")
def list_versions_by_function(
    lambda_: Lambda, call: Call, request: ListVersionsByFunctionInput
) -> ListVersionsByFunctionOutput:
    """Return `$LATEST` and the published versions, oldest first."""
    function = lambda_.functions.get(parse_reference(call, request))
    versions = (function.latest, *function.list_published())
    shown = [render_listed(version, f"{function.ref.arn}:{version.number}") for version in versions]
    return build_page(shown, request, "Versions")
