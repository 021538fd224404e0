"""Aliases and versions of a function; code signing configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AliasConfiguration,
    CreateAliasInput,
    CreateCodeSigningConfigInput,
    CreateCodeSigningConfigOutput,
    DeleteAliasInput,
    DeleteCodeSigningConfigInput,
    DeleteFunctionCodeSigningConfigInput,
    FunctionConfiguration,
    GetAliasInput,
    GetCodeSigningConfigInput,
    GetCodeSigningConfigOutput,
    GetFunctionCodeSigningConfigInput,
    GetFunctionCodeSigningConfigOutput,
    ListAliasesInput,
    ListAliasesOutput,
    ListCodeSigningConfigsInput,
    ListCodeSigningConfigsOutput,
    ListFunctionsByCodeSigningConfigInput,
    ListFunctionsByCodeSigningConfigOutput,
    ListVersionsByFunctionInput,
    ListVersionsByFunctionOutput,
    PublishVersionInput,
    PutFunctionCodeSigningConfigInput,
    PutFunctionCodeSigningConfigOutput,
    UpdateAliasInput,
    UpdateCodeSigningConfigInput,
    UpdateCodeSigningConfigOutput,
)
from headrace.core.values import section
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
from headrace.services.lambda_.errors import (
    conflict,
    function_not_found,
    invalid_parameter,
    not_found,
    precondition_failed,
)
from headrace.services.lambda_.names import LATEST, format_lambda_time
from headrace.services.lambda_.permits import CODE_SIGNING
from headrace.services.lambda_.state import Alias, Function


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


def _render_alias(function: Function, alias: Alias) -> AliasConfiguration:
    output: AliasConfiguration = {
        "AliasArn": f"{function.ref.arn}:{alias.name}",
        "Name": alias.name,
        "FunctionVersion": alias.version,
        "Description": alias.description,
        "RevisionId": alias.revision_id,
    }
    if alias.weights:
        output["RoutingConfig"] = {"AdditionalVersionWeights": dict(alias.weights)}
    return output


def _find(function: Function, name: str, missing: str = "Cannot find alias arn") -> Alias:
    alias = function.aliases.get(name)
    if alias is None:
        raise not_found(f"{missing}: {function.ref.arn}:{name}")
    return alias


def _read_weights(request: CreateAliasInput | UpdateAliasInput) -> dict[str, float]:
    return section(request, "RoutingConfig", "AdditionalVersionWeights")


def _check_weights(
    function: Function, version: str, asked: Mapping[str, float]
) -> dict[str, float]:
    """Return the weights of the additional versions of an alias. Raises AwsError for weights that AWS refuses."""
    weights = dict(asked)
    if len(weights) > 1:
        raise invalid_parameter(
            "Number of items in AdditionalVersionWeights cannot be greater than 1"
        )
    if weights and (version == LATEST or LATEST in weights):
        raise invalid_parameter(
            "$LATEST is not supported for an alias pointing to more than 1 version", typed=False
        )
    for other in (version, *weights):
        if other not in function.versions:
            raise not_found(f"Function not found: {function.ref.arn}:{other}")
    if version in weights:
        raise invalid_parameter(
            f"Invalid function version {version}. Function version {version} is already included "
            "in routing configuration."
        )
    return weights


@operation("CreateAlias")
def create_alias(lambda_: Lambda, call: Call, request: CreateAliasInput) -> AliasConfiguration:
    """Create an alias of a version."""
    name, version = request["Name"], request["FunctionVersion"]
    ref = check_unqualified(parse_reference(call, request))
    if lambda_.functions.find(ref) is None:
        raise function_not_found(f"{ref.arn}:{version}")
    with lambda_.functions.changing(ref) as function:
        if name in function.aliases:
            raise conflict(f"Alias already exists: {function.ref.arn}:{name}")
        alias = Alias(
            name=name,
            version=version,
            description=request.get("Description", ""),
            revision_id=lambda_.ids.uuid(),
            weights=_check_weights(function, version, _read_weights(request)),
        )
        function.aliases[name] = alias
        return _render_alias(function, alias)


@operation("UpdateAlias")
def update_alias(lambda_: Lambda, call: Call, request: UpdateAliasInput) -> AliasConfiguration:
    """Change an alias. Its provisioned concurrency moves to the new version."""
    ref = check_unqualified(parse_reference(call, request))
    with lambda_.functions.changing(ref) as function:
        alias = _find(function, request["Name"], "Alias not found")
        if request.get("RevisionId") not in (None, alias.revision_id):
            raise precondition_failed()
        version = request.get("FunctionVersion", alias.version)
        if "RoutingConfig" in request or "FunctionVersion" in request:
            asked = _read_weights(request) if "RoutingConfig" in request else alias.weights
            alias.weights = _check_weights(function, version, asked)
        alias.version = version
        alias.description = request.get("Description", alias.description)
        alias.revision_id = lambda_.ids.uuid()
        lambda_.pools.forget_provisioned(ref, alias.name)
        output = _render_alias(function, alias)
    lambda_.wake_pools()
    return output


@operation("GetAlias")
def get_alias(lambda_: Lambda, call: Call, request: GetAliasInput) -> AliasConfiguration:
    """Return one alias."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    return _render_alias(function, _find(function, request["Name"]))


@operation("DeleteAlias")
def delete_alias(lambda_: Lambda, call: Call, request: DeleteAliasInput) -> None:
    """Remove an alias. As on AWS, a missing alias is not an error."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.aliases.pop(request["Name"], None)
        function.forget_alias(request["Name"])


@operation("ListAliases")
def list_aliases(lambda_: Lambda, call: Call, request: ListAliasesInput) -> ListAliasesOutput:
    """Return the aliases of a function or of one version, sorted by name."""
    function = lambda_.functions.get(check_unqualified(parse_reference(call, request)))
    version = request.get("FunctionVersion")
    aliases = [
        _render_alias(function, function.aliases[name])
        for name in sorted(function.aliases)
        if version in (None, function.aliases[name].version)
    ]
    return build_page(aliases, request, "Aliases")


_SETTABLE = ("Description", "AllowedPublishers", "CodeSigningPolicies")


@operation("CreateCodeSigningConfig")
def create_code_signing_config(
    lambda_: Lambda, call: Call, request: CreateCodeSigningConfigInput
) -> CreateCodeSigningConfigOutput:
    """Store a configuration."""
    config = lambda_.signing.create(
        call.account, call.region, request, ids=lambda_.ids, now_ms=call.now_ms
    )
    return {"CodeSigningConfig": cast("Any", config)}


@operation("UpdateCodeSigningConfig")
def update_code_signing_config(
    lambda_: Lambda, call: Call, request: UpdateCodeSigningConfigInput
) -> UpdateCodeSigningConfigOutput:
    """Change a configuration."""
    config = lambda_.signing.get(request["CodeSigningConfigArn"])
    members = cast("Mapping[str, Any]", request)
    changes = {name: members[name] for name in _SETTABLE if name in members}
    if changes:
        config = {**config, **changes, "LastModified": format_lambda_time(call.now_ms)}
        lambda_.signing.put(config)
    return {"CodeSigningConfig": cast("Any", config)}


@operation("GetCodeSigningConfig")
def get_code_signing_config(
    lambda_: Lambda, call: Call, request: GetCodeSigningConfigInput
) -> GetCodeSigningConfigOutput:
    """Return a configuration."""
    return {"CodeSigningConfig": cast("Any", lambda_.signing.get(request["CodeSigningConfigArn"]))}


@operation("DeleteCodeSigningConfig")
def delete_code_signing_config(
    lambda_: Lambda, call: Call, request: DeleteCodeSigningConfigInput
) -> None:
    """Remove a configuration that no function uses."""
    arn = str(lambda_.signing.get(request["CodeSigningConfigArn"])["CodeSigningConfigArn"])
    if _list_functions(lambda_, call, arn):
        raise conflict(f"The code signing configuration {arn} is used by functions.")
    lambda_.signing.delete(arn)


@operation("ListCodeSigningConfigs")
def list_code_signing_configs(
    lambda_: Lambda, call: Call, request: ListCodeSigningConfigsInput
) -> ListCodeSigningConfigsOutput:
    """Return all configurations."""
    return build_page(lambda_.signing.all(call.account, call.region), request, "CodeSigningConfigs")


def _list_functions(lambda_: Lambda, call: Call, arn: str) -> list[str]:
    functions = lambda_.functions.all(call.account, call.region)
    return [f.ref.arn for f in functions if f.settings.get(CODE_SIGNING) == arn]


@operation("ListFunctionsByCodeSigningConfig")
def list_functions_by_code_signing_config(
    lambda_: Lambda, call: Call, request: ListFunctionsByCodeSigningConfigInput
) -> ListFunctionsByCodeSigningConfigOutput:
    """Return the ARNs of the functions that use a configuration."""
    arn = str(lambda_.signing.get(request["CodeSigningConfigArn"])["CodeSigningConfigArn"])
    return build_page(_list_functions(lambda_, call, arn), request, "FunctionArns")


@operation("PutFunctionCodeSigningConfig")
def put_function_code_signing_config(
    lambda_: Lambda, call: Call, request: PutFunctionCodeSigningConfigInput
) -> PutFunctionCodeSigningConfigOutput:
    """Set the configuration of a function. It applies to code that is deployed from now on."""
    arn = str(
        lambda_.signing.find_attached(request["CodeSigningConfigArn"])["CodeSigningConfigArn"]
    )
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings[CODE_SIGNING] = arn
        return {"CodeSigningConfigArn": arn, "FunctionName": function.name}


@operation("GetFunctionCodeSigningConfig")
def get_function_code_signing_config(
    lambda_: Lambda, call: Call, request: GetFunctionCodeSigningConfigInput
) -> GetFunctionCodeSigningConfigOutput:
    """Return the configuration of a function, or no ARN when it has none."""
    function = lambda_.functions.get(parse_reference(call, request))
    arn = function.settings.get(CODE_SIGNING)
    answer = {} if arn is None else {"CodeSigningConfigArn": arn, "FunctionName": function.name}
    return cast("GetFunctionCodeSigningConfigOutput", answer)


@operation("DeleteFunctionCodeSigningConfig")
def delete_function_code_signing_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionCodeSigningConfigInput
) -> None:
    """Remove a function's configuration. A missing configuration is not an error."""
    with lambda_.functions.changing(check_unqualified(parse_reference(call, request))) as function:
        function.settings.pop(CODE_SIGNING, None)
