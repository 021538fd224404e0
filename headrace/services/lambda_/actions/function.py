"""CreateFunction, UpdateFunctionCode, UpdateFunctionConfiguration, DeleteFunction."""

from __future__ import annotations

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    CreateFunctionInput,
    DeleteFunctionInput,
    DeleteFunctionOutput,
    FunctionConfiguration,
    UpdateFunctionCodeInput,
    UpdateFunctionConfigurationInput,
)
from headrace.services.lambda_ import configuration
from headrace.services.lambda_.actions.common import (
    check_revision,
    check_settled,
    check_unqualified,
    configuration_of,
    parse_reference,
    publish,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.code_signing import CODE_SIGNING
from headrace.services.lambda_.errors import conflict, invalid_parameter, other_account
from headrace.services.lambda_.limits import UNZIPPED_BYTES
from headrace.services.lambda_.names import LATEST
from headrace.services.lambda_.state import Function


def _check_size(lambda_: Lambda, digest: str, layers: list[str]) -> None:
    """Refuse code that exceeds the size limit together with its layers. Raises AwsError."""
    if not layers:
        return  # the size of the package alone was checked during unpacking
    total_bytes = sum(
        lambda_.code.count_unzipped_bytes(one_digest) for one_digest in (digest, *layers)
    )
    if total_bytes >= UNZIPPED_BYTES:
        raise invalid_parameter(
            "Function code combined with layers exceeds the maximum allowed size of "
            f"{UNZIPPED_BYTES} bytes. The actual size is {total_bytes} bytes."
        )


@operation("CreateFunction")
def create_function(
    lambda_: Lambda, call: Call, request: CreateFunctionInput
) -> FunctionConfiguration:
    """Create a function. It can be invoked when this returns."""
    ref = check_unqualified(parse_reference(call, request))
    if ref.account != call.account:
        raise other_account()
    configuration.check_new(ref, request)
    if lambda_.functions.find(ref) is not None:
        raise conflict(f"Function already exist: {ref.name}")
    signing_arn = request.get("CodeSigningConfigArn")
    lambda_.signing.check_code(signing_arn)
    lambda_.permits.check_role(request["Role"])
    package = lambda_.code.add(request["Code"])
    version = configuration.build_version(ref, request, package=package, layers=lambda_.layers)
    _check_size(lambda_, package.digest, version.layers)
    configuration.touch(version, now_ms=call.now_ms, ids=lambda_.ids, creates=True)
    function = Function(
        account=ref.account,
        region=ref.region,
        name=ref.name,
        versions={LATEST: version},
        tags=dict(request.get("Tags") or {}),
        settings={CODE_SIGNING: signing_arn} if signing_arn else {},
    )
    if not lambda_.functions.add(function):
        raise conflict(f"Function already exist: {ref.name}")
    lambda_.wake_pools()
    answer = configuration_of(version)
    if request.get("Publish"):
        with lambda_.functions.changing(ref) as created:
            published, _ = publish(created, ids=lambda_.ids)
            answer["Version"] = published.number
    return answer


@operation("UpdateFunctionCode")
def update_function_code(
    lambda_: Lambda, call: Call, request: UpdateFunctionCodeInput
) -> FunctionConfiguration:
    """Replace the code of `$LATEST`. Processes with the old code end after their current invocation."""
    configuration.check_built(request)
    ref = check_unqualified(parse_reference(call, request))
    if request.get("ImageUri"):
        raise invalid_parameter(
            "Please don't provide ImageUri when updating a function with packageType Zip."
        )
    present = lambda_.functions.get(ref)
    check_revision(present.latest, request.get("RevisionId"))
    check_settled(present, call)
    lambda_.signing.check_code(present.settings.get(CODE_SIGNING))
    package = lambda_.code.add(request)
    _check_size(lambda_, package.digest, lambda_.functions.get(ref).latest.layers)
    if request.get("DryRun"):
        return configuration_of(lambda_.functions.get(ref).latest)
    with lambda_.functions.changing(ref) as function:
        check_settled(function, call)
        configuration.set_code(function.latest, package)
        architectures = request.get("Architectures")
        if architectures:
            function.latest.config["Architectures"] = architectures
        configuration.touch(function.latest, now_ms=call.now_ms, ids=lambda_.ids)
        answer = configuration_of(function.latest)
        if request.get("Publish"):
            version, is_new = publish(function, ids=lambda_.ids)
            if is_new:
                configuration.make_pending(version, function.latest)
            answer = configuration_of(version, call.now_ms)
    lambda_.pools.drain(ref, LATEST)
    return answer


@operation("UpdateFunctionConfiguration")
def update_function_configuration(
    lambda_: Lambda, call: Call, request: UpdateFunctionConfigurationInput
) -> FunctionConfiguration:
    """Change the configuration of `$LATEST`. Processes with the old one end after their current invocation."""
    ref = check_unqualified(parse_reference(call, request))
    lambda_.permits.check_role(request.get("Role") or "")
    with lambda_.functions.changing(ref) as function:
        check_revision(function.latest, request.get("RevisionId"))
        check_settled(function, call)
        layers = configuration.find_layers(
            request.get("Layers"), lambda_.layers, ref.account, ref.region
        )
        if layers:
            _check_size(lambda_, function.latest.digest, [layer["digest"] for layer in layers])
        configuration.apply(function.latest, request, layers=lambda_.layers)
        configuration.touch(function.latest, now_ms=call.now_ms, ids=lambda_.ids)
        answer = configuration_of(function.latest)
    lambda_.pools.drain(ref, LATEST)
    return answer


@operation("DeleteFunction")
def delete_function(
    lambda_: Lambda, call: Call, request: DeleteFunctionInput
) -> DeleteFunctionOutput:
    """Remove a function, or one of its published versions."""
    ref = parse_reference(call, request)
    if ref.qualifier is None:
        lambda_.functions.remove(ref)
        lambda_.pools.drain(ref)
        return {"StatusCode": 204}
    if ref.qualifier == LATEST:
        raise invalid_parameter("$LATEST version cannot be deleted without deleting the function.")
    if not ref.qualifier.isdigit() and "$" not in ref.qualifier:
        raise invalid_parameter("Deletion of aliases is not currently supported.")
    with lambda_.functions.changing(ref) as function:
        used = [
            a.name for a in function.aliases.values() if ref.qualifier in (a.version, *a.weights)
        ]
        if used:
            raise conflict(
                f"Version {ref.qualifier} is used by alias {used[0]}; delete the alias first."
            )
        function.versions.pop(ref.qualifier, None)
        function.forget(ref.qualifier)
    lambda_.pools.drain(ref, ref.qualifier)
    return {"StatusCode": 204}
