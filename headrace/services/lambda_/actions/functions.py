"""Functions: create, update, delete, get, list, tag; the account's settings, and two minor configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    CreateFunctionInput,
    DeleteFunctionInput,
    DeleteFunctionOutput,
    FunctionConfiguration,
    GetAccountSettingsInput,
    GetAccountSettingsOutput,
    GetFunctionConfigurationInput,
    GetFunctionInput,
    GetFunctionOutput,
    GetFunctionRecursionConfigInput,
    GetFunctionRecursionConfigOutput,
    GetRuntimeManagementConfigInput,
    GetRuntimeManagementConfigOutput,
    ListFunctionsInput,
    ListFunctionsOutput,
    ListTagsInput,
    ListTagsOutput,
    PutFunctionRecursionConfigInput,
    PutFunctionRecursionConfigOutput,
    PutRuntimeManagementConfigInput,
    PutRuntimeManagementConfigOutput,
    TagResourceInput,
    UntagResourceInput,
    UpdateFunctionCodeInput,
    UpdateFunctionConfigurationInput,
)
from headrace.core.arn import Arn, InvalidArn
from headrace.services.lambda_ import configuration
from headrace.services.lambda_.actions.common import (
    build_page,
    build_qualified_config,
    check_revision,
    check_settled,
    check_unqualified,
    configuration_of,
    parse_reference,
    publish,
    render_listed,
)
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.configuration import check_tag_keys, check_tags
from headrace.services.lambda_.errors import (
    ACCOUNT_CONCURRENCY,
    DIRECT_ZIP_BYTES,
    UNZIPPED_BYTES,
    conflict,
    invalid_parameter,
    not_found,
    other_account,
)
from headrace.services.lambda_.invocations.pools import count_unreserved
from headrace.services.lambda_.names import LATEST, check_reachable, parse_function
from headrace.services.lambda_.permits import CODE_SIGNING
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


@operation("GetFunction")
def get_function(lambda_: Lambda, call: Call, request: GetFunctionInput) -> GetFunctionOutput:
    """Return a version's configuration and the address of its package."""
    ref = parse_reference(call, request)
    function = lambda_.functions.get(ref)
    digest = function.resolve(ref.qualifier).digest
    answer: GetFunctionOutput = {
        "Configuration": build_qualified_config(function, ref, call.now_ms),
        "Code": {
            "RepositoryType": "S3",
            "Location": lambda_.code.location(digest, lambda_.endpoint_url()),
        },
    }
    # A version or an alias has no tags (recorded).
    if function.tags and ref.qualifier in (None, "", LATEST):
        answer["Tags"] = dict(function.tags)
    if function.reserved_concurrency is not None:
        answer["Concurrency"] = {"ReservedConcurrentExecutions": function.reserved_concurrency}
    return answer


@operation("GetFunctionConfiguration")
def get_function_configuration(
    lambda_: Lambda, call: Call, request: GetFunctionConfigurationInput
) -> FunctionConfiguration:
    """Return a version's configuration."""
    ref = parse_reference(call, request)
    return build_qualified_config(lambda_.functions.get(ref), ref, call.now_ms)


@operation("ListFunctions")
def list_functions(lambda_: Lambda, call: Call, request: ListFunctionsInput) -> ListFunctionsOutput:
    """Return the functions, sorted by name, or all their versions with FunctionVersion=ALL."""
    functions = lambda_.functions.all(call.account, call.region)
    if request.get("FunctionVersion") == "ALL":
        configs = [
            render_listed(version, f"{function.ref.arn}:{version.number}")
            for function in functions
            for version in (function.latest, *function.list_published())
        ]
    else:
        configs = [render_listed(function.latest, function.ref.arn) for function in functions]
    return build_page(configs, request, "Functions")


@operation("GetAccountSettings")
def get_account_settings(
    lambda_: Lambda, call: Call, request: GetAccountSettingsInput
) -> GetAccountSettingsOutput:
    """Return AWS's default limits and the account's usage."""
    functions = lambda_.functions.all(call.account, call.region)
    return {
        "AccountLimit": {
            "TotalCodeSize": 80_530_636_800,
            "CodeSizeUnzipped": UNZIPPED_BYTES,
            "CodeSizeZipped": DIRECT_ZIP_BYTES,
            "ConcurrentExecutions": ACCOUNT_CONCURRENCY,
            "UnreservedConcurrentExecutions": count_unreserved(functions),
        },
        "AccountUsage": {
            "TotalCodeSize": _count_code_bytes(lambda_, call, functions),
            "FunctionCount": len(functions),
        },
    }


def _count_code_bytes(lambda_: Lambda, call: Call, functions: list[Function]) -> int:
    """Return the total size of the packages of all versions and layers."""
    versions = [v for f in functions for v in f.versions.values()]
    return sum(version.config["CodeSize"] for version in versions) + lambda_.layers.size_bytes(
        call.account, call.region
    )


@operation("GetFunctionRecursionConfig")
def get_function_recursion_config(
    lambda_: Lambda, call: Call, request: GetFunctionRecursionConfigInput
) -> GetFunctionRecursionConfigOutput:
    """Return the setting for recursive loops, which has no effect: headrace does not detect loops."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    return {"RecursiveLoop": function.settings.get("RecursiveLoop", "Terminate")}


@operation("PutFunctionRecursionConfig")
def put_function_recursion_config(
    lambda_: Lambda, call: Call, request: PutFunctionRecursionConfigInput
) -> PutFunctionRecursionConfigOutput:
    """Store the setting for recursive loops, which has no effect: headrace does not detect loops."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings["RecursiveLoop"] = request["RecursiveLoop"]
    return {"RecursiveLoop": request["RecursiveLoop"]}


@operation("GetRuntimeManagementConfig")
def get_runtime_management_config(
    lambda_: Lambda, call: Call, request: GetRuntimeManagementConfigInput
) -> GetRuntimeManagementConfigOutput:
    """Return the setting for runtime updates, or AWS's default."""
    ref = parse_reference(call, request)
    function = lambda_.functions.get(ref)
    function.resolve(ref.qualifier)
    kept = function.settings.get("RuntimeManagement", {}).get(ref.qualifier or LATEST, {})
    answer = {"UpdateRuntimeOn": "Auto", "FunctionArn": ref.qualified_arn, **kept}
    return cast("GetRuntimeManagementConfigOutput", answer)


@operation("PutRuntimeManagementConfig")
def put_runtime_management_config(
    lambda_: Lambda, call: Call, request: PutRuntimeManagementConfigInput
) -> PutRuntimeManagementConfigOutput:
    """Store the setting for runtime updates, which has no effect: headrace has one version of each runtime."""
    ref = parse_reference(call, request)
    kept: dict[str, Any] = {"UpdateRuntimeOn": request["UpdateRuntimeOn"]}
    if "RuntimeVersionArn" in request:
        kept["RuntimeVersionArn"] = request["RuntimeVersionArn"]
    if (request["UpdateRuntimeOn"] == "Manual") != ("RuntimeVersionArn" in request):
        raise invalid_parameter(
            "RuntimeVersionArn is required for, and only for, the update mode Manual."
        )
    with lambda_.functions.changing(ref.bare) as function:
        function.resolve(ref.qualifier)
        by_qualifier: dict[str, Any] = function.settings.setdefault("RuntimeManagement", {})
        by_qualifier[ref.qualifier or LATEST] = kept
    return cast("PutRuntimeManagementConfigOutput", {"FunctionArn": ref.qualified_arn, **kept})


_MAPPING = "event-source-mapping:"
_SIGNING = "code-signing-config:"


def _change(
    lambda_: Lambda, call: Call, arn_text: str, change: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Apply `change` to the tags of a resource, store the result, and return it."""
    try:
        arn = Arn.parse(arn_text)
    except InvalidArn:
        raise invalid_parameter(f"Invalid resource ARN: {arn_text}") from None
    if arn.resource.startswith(_MAPPING):
        uuid = arn.resource.removeprefix(_MAPPING)
        mapping = lambda_.mappings.find(arn.account, arn.region, uuid)
        if mapping is None:
            raise not_found(f"Event source mapping not found: {arn_text}")
        return lambda_.mappings.change_tags(mapping, change)
    if arn.resource.startswith(_SIGNING):
        return _change_signing(lambda_, arn_text, change)
    ref = parse_function(arn_text, account=call.account, region=call.region)
    check_reachable(ref, call.region)
    if ref.qualifier is not None:
        raise invalid_parameter(
            "Tags on function aliases and versions are not supported. Please specify a function ARN."
        )
    with lambda_.functions.changing(ref) as function:
        tags = dict(function.tags)
        change(tags)
        function.tags = tags
        return dict(tags)


def _change_signing(
    lambda_: Lambda, arn: str, change: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    config = lambda_.signing.get(arn)
    tags = lambda_.signing.tags(arn)
    change(tags)
    lambda_.signing.put(config, tags)
    return tags


@operation("TagResource")
def tag_resource(lambda_: Lambda, call: Call, request: TagResourceInput) -> None:
    """Add tags. A tag replaces an earlier tag with the same key."""
    if not request["Tags"]:
        raise invalid_parameter("An error occurred and the request cannot be processed.")

    def add(tags: dict[str, str]) -> None:
        check_tags(request["Tags"], tags)
        tags.update(request["Tags"])

    _change(lambda_, call, request["Resource"], add)


@operation("UntagResource")
def untag_resource(lambda_: Lambda, call: Call, request: UntagResourceInput) -> None:
    """Remove tags by key. A missing tag is not an error."""

    def remove(tags: dict[str, str]) -> None:
        check_tag_keys(request["TagKeys"])
        for key in request["TagKeys"]:
            tags.pop(key, None)

    _change(lambda_, call, request["Resource"], remove)


@operation("ListTags")
def list_tags(lambda_: Lambda, call: Call, request: ListTagsInput) -> ListTagsOutput:
    """Return the tags."""
    return {"Tags": _change(lambda_, call, request["Resource"], lambda _: None)}
