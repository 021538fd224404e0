"""Who may call a function from outside: its resource policy, statement by statement, and its URLs."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.operation import Call, operation
from headrace.aws.shapes.lambda_ import (
    AddPermissionInput,
    AddPermissionOutput,
    CreateFunctionUrlConfigInput,
    CreateFunctionUrlConfigOutput,
    DeleteFunctionUrlConfigInput,
    DeleteResourcePolicyInput,
    FunctionUrlConfig,
    GetFunctionUrlConfigInput,
    GetFunctionUrlConfigOutput,
    GetPolicyInput,
    GetPolicyOutput,
    GetResourcePolicyInput,
    GetResourcePolicyOutput,
    ListFunctionUrlConfigsInput,
    ListFunctionUrlConfigsOutput,
    PutResourcePolicyInput,
    PutResourcePolicyOutput,
    RemovePermissionInput,
    UpdateFunctionUrlConfigInput,
    UpdateFunctionUrlConfigOutput,
)
from headrace.core.arn import is_account_id, partition_of
from headrace.permissions.policies.document import as_list, check_resource_policy
from headrace.permissions.policies.grammar import PolicyError
from headrace.services.lambda_.actions.common import build_page, check_unqualified, parse_reference
from headrace.services.lambda_.backend import Lambda
from headrace.services.lambda_.errors import (
    POLICY_BYTES,
    conflict,
    function_not_found,
    invalid_parameter,
    not_found,
    precondition_failed,
)
from headrace.services.lambda_.names import LATEST, FunctionRef, format_lambda_time, parse_function
from headrace.services.lambda_.permits import policy_text
from headrace.services.lambda_.state import Function, PolicyStatement, UrlConfig
from headrace.services.lambda_.url_calls import URL_PATH

NO_POLICY = "The resource you requested does not exist."


_SERVICES = (".amazonaws.com", ".amazonaws.com.cn", ".amazon.com")
_ALIAS = re.compile(r"(?!\d+$)[a-zA-Z0-9-_]+")


def _convert_principal(principal: str, region: str) -> str | dict[str, str]:
    if principal == "*":
        return "*"
    if is_account_id(principal):
        return {"AWS": f"arn:{partition_of(region)}:iam::{principal}:root"}
    if principal.startswith("arn:"):
        return {"AWS": principal}
    if not principal.endswith(_SERVICES):
        raise _invalid_principal()
    return {"Service": principal}


def _invalid_principal() -> AwsError:
    return invalid_parameter(
        "The provided principal was invalid. Please check the principal and try again."
    )


def _check_target(function: Function, ref: FunctionRef) -> None:
    """Refuse a version or alias that does not exist. Raises AwsError."""
    qualifier = ref.qualifier
    if qualifier is None or qualifier in function.versions or qualifier in function.aliases:
        return
    if _ALIAS.fullmatch(qualifier):
        raise not_found(f"Cannot find alias arn: {ref.qualified_arn}")
    raise function_not_found(ref.qualified_arn)


def _build_condition(request: AddPermissionInput) -> dict[str, dict[str, str]]:
    condition: dict[str, dict[str, str]] = {}
    members = cast("Mapping[str, object]", request)
    for member, operator, key in (
        ("SourceArn", "ArnLike", "AWS:SourceArn"),
        ("SourceAccount", "StringEquals", "AWS:SourceAccount"),
        ("PrincipalOrgID", "StringEquals", "aws:PrincipalOrgID"),
        ("EventSourceToken", "StringEquals", "lambda:EventSourceToken"),
        ("FunctionUrlAuthType", "StringEquals", "lambda:FunctionUrlAuthType"),
        ("InvokedViaFunctionUrl", "Bool", "lambda:InvokedViaFunctionUrl"),
    ):
        if member in members:
            value = members[member]
            text = str(value).lower() if isinstance(value, bool) else str(value)
            condition.setdefault(operator, {})[key] = text
    return condition


@operation("AddPermission")
def add_permission(lambda_: Lambda, call: Call, request: AddPermissionInput) -> AddPermissionOutput:
    """Add a statement to the policy of a function, version or alias."""
    ref = parse_reference(call, request)
    if ref.qualifier == LATEST:
        raise invalid_parameter("We currently do not support adding policies for $LATEST.")
    principal = _convert_principal(request["Principal"], call.region)
    if not lambda_.has_principal(call.account, request["Principal"]):
        raise _invalid_principal()
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        sid = request["StatementId"]
        if sid in statements:
            raise conflict(
                f"The statement id ({sid}) provided already exists. Please provide a new statement id, "
                "or remove the existing statement."
            )
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        statement: PolicyStatement = {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": principal,
            "Action": request["Action"],
            "Resource": ref.qualified_arn,
        }
        condition = _build_condition(request)
        if condition:
            statement["Condition"] = condition
        size_bytes = len(json.dumps([*statements.values(), statement], separators=(",", ":")))
        if size_bytes > POLICY_BYTES:
            raise AwsError(
                "PolicyLengthExceededException",
                f"The final policy size ({size_bytes}) is bigger than the limit ({POLICY_BYTES}).",
                400,
                {"Type": "User"},
            )
        function.policies.setdefault(qualifier, {})[sid] = statement
        function.revise(ref.qualifier, lambda_.ids.uuid())
        return {"Statement": json.dumps(statement, separators=(",", ":"))}


@operation("RemovePermission")
def remove_permission(lambda_: Lambda, call: Call, request: RemovePermissionInput) -> None:
    """Remove a statement."""
    ref = parse_reference(call, request)
    if lambda_.functions.find(ref) is None:
        raise not_found(f"No policy found for: {ref.qualified_arn}")
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        qualifier = ref.qualifier or ""
        statements = function.policies.get(qualifier, {})
        if request["StatementId"] not in statements:
            raise not_found(
                "No policy is associated with the given resource."
                if not statements
                else f"Statement {request['StatementId']} is not found in resource policy."
            )
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        del statements[request["StatementId"]]
        function.revise(ref.qualifier, lambda_.ids.uuid())


@operation("GetPolicy")
def get_policy(lambda_: Lambda, call: Call, request: GetPolicyInput) -> GetPolicyOutput:
    """Return the policy as JSON text."""
    ref = parse_reference(call, request)
    return _read_policy(lambda_, ref)


def _read_policy(lambda_: Lambda, ref: FunctionRef) -> GetPolicyOutput:
    function = lambda_.functions.get(ref)
    text = policy_text(function, ref.qualifier)
    if not text:
        raise not_found(NO_POLICY)
    return {"Policy": text, "RevisionId": function.revision_of(ref.qualifier)}


def policy_of(lambda_: Lambda, arn: str) -> str | None:
    """Return the JSON policy of a function, version or alias, or None when it has none."""
    if ":function:" not in arn:
        return None
    try:
        ref = parse_function(arn, account="", region="")
    except AwsError:
        return None  # no such function, which the service itself reports
    function = lambda_.functions.find(ref)
    return None if function is None else policy_text(function, ref.qualifier)


@operation("GetResourcePolicy")
def get_resource_policy(
    lambda_: Lambda, call: Call, request: GetResourcePolicyInput
) -> GetResourcePolicyOutput:
    """Return the same policy as GetPolicy."""
    return {**_read_policy(lambda_, _reference_of(call, request["ResourceArn"]))}


@operation("PutResourcePolicy")
def put_resource_policy(
    lambda_: Lambda, call: Call, request: PutResourcePolicyInput
) -> PutResourcePolicyOutput:
    """Replace the policy, what AddPermission added too, by a document. Source: API_PutResourcePolicy.

    Assumed: the sentences, and that only a statement for everybody without a condition is public.
    """
    ref = _reference_of(call, request["ResourceArn"])
    if ref.qualifier == LATEST:
        raise invalid_parameter("We currently do not support adding policies for $LATEST.")
    text = request["Policy"]
    try:
        check_resource_policy(
            "lambda", text, functools.partial(lambda_.has_principal, call.account)
        )
    except PolicyError as error:
        raise AwsError(error.code, error.message, 400, {"Type": "User"}) from error
    document: dict[str, Any] = json.loads(text)
    statements: list[PolicyStatement] = as_list(document.pop("Statement"))
    for statement in statements:
        if as_list(statement.get("Resource")) != [ref.qualified_arn]:
            raise invalid_parameter(f"The Resource of each statement must be {ref.qualified_arn}.")
        if _is_public(statement):
            raise AwsError(
                "PublicPolicyException",
                "The resource-based policy would grant public access to the function.",
                400,
                {"Type": "User"},
            )
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        qualifier = ref.qualifier or ""
        function.policies[qualifier] = {
            statement.get("Sid") or f"#{number}": statement
            for number, statement in enumerate(statements)
        }
        function.policy_heads[qualifier] = {name: str(value) for name, value in document.items()}
        function.revise(ref.qualifier, lambda_.ids.uuid())
        return {
            "Policy": policy_text(function, ref.qualifier),
            "RevisionId": function.revision_of(ref.qualifier),
        }


@operation("DeleteResourcePolicy")
def delete_resource_policy(lambda_: Lambda, call: Call, request: DeleteResourcePolicyInput) -> None:
    """Remove the whole policy. Source: API_DeleteResourcePolicy."""
    ref = _reference_of(call, request["ResourceArn"])
    with lambda_.functions.changing(ref) as function:
        _check_target(function, ref)
        qualifier = ref.qualifier or ""
        if not function.policies.get(qualifier):
            raise not_found(NO_POLICY)
        if request.get("RevisionId") not in (None, function.revision_of(ref.qualifier)):
            raise precondition_failed()
        del function.policies[qualifier]
        function.policy_heads.pop(qualifier, None)
        function.revise(ref.qualifier, lambda_.ids.uuid())


def _reference_of(call: Call, arn: str) -> FunctionRef:
    """Return the function, version or alias with an ARN. Raises AwsError: custom runtimes have none here."""
    if ":runtime/" in arn:
        raise not_found(f"headrace has no custom runtimes: {arn} does not exist.")
    return parse_reference(call, {"FunctionName": arn})


def _is_public(statement: PolicyStatement) -> bool:
    principal: Any = statement.get("Principal")
    if isinstance(principal, dict):
        principal = cast("dict[str, Any]", principal).get("AWS")
    is_everyone = "*" in as_list(principal) or "NotPrincipal" in statement
    return statement.get("Effect") == "Allow" and is_everyone and not statement.get("Condition")


_MISSING = "The resource you requested does not exist."
NO_FUNCTION = "Function does not exist"


def _find_qualified(lambda_: Lambda, ref: FunctionRef) -> tuple[Function, str] | None:
    """Return the function and the named alias ("" for the function itself), or None when one is missing."""
    function = lambda_.functions.find(ref)
    alias = ref.qualifier or ""
    if function is None or (alias and alias not in function.aliases):
        return None
    return function, alias


def _find(lambda_: Lambda, ref: FunctionRef) -> tuple[Function, str]:
    """Return the function and the alias that must have a URL. Raises AwsError."""
    target = lambda_.functions.find(ref), ref.qualifier or ""
    function, alias = target
    if function is None or alias not in function.urls:
        raise not_found(_MISSING)
    return function, alias


def _render_url(lambda_: Lambda, function: Function, alias: str) -> FunctionUrlConfig:
    config = function.urls[alias]
    output: FunctionUrlConfig = {
        "FunctionUrl": f"{lambda_.endpoint_url()}{URL_PATH}{config['id']}/",
        "FunctionArn": f"{function.ref.arn}:{alias}" if alias else function.ref.arn,
        "AuthType": config["AuthType"],
        "InvokeMode": config.get("InvokeMode", "BUFFERED"),
        "CreationTime": config["CreationTime"],
        "LastModifiedTime": config["LastModifiedTime"],
    }
    if config.get("Cors"):
        output["Cors"] = config["Cors"]
    return output


@operation("CreateFunctionUrlConfig")
def create_function_url_config(
    lambda_: Lambda, call: Call, request: CreateFunctionUrlConfigInput
) -> CreateFunctionUrlConfigOutput:
    """Create the URL of a function or an alias."""
    ref = parse_reference(call, request)
    target = _find_qualified(lambda_, ref)
    if target is None:
        raise not_found(NO_FUNCTION)
    alias = target[1]
    with lambda_.functions.changing(ref.bare) as function:
        if alias in function.urls:
            raise conflict(
                f"Failed to create function url config for [functionArn = {ref.qualified_arn}]. "
                "Error message:  FunctionUrlConfig exists for this Lambda function"
            )
        now = format_lambda_time(call.now_ms)
        config: UrlConfig = {
            "id": lambda_.ids.hex(32),
            "AuthType": request["AuthType"],
            "Cors": request.get("Cors", {}),
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        if "InvokeMode" in request:
            config["InvokeMode"] = request["InvokeMode"]
        function.urls[alias] = config
        output = _render_set_url(_render_url(lambda_, function, alias), config)
    shown = {name: value for name, value in output.items() if name != "LastModifiedTime"}
    return cast("CreateFunctionUrlConfigOutput", shown)


def _render_set_url(output: FunctionUrlConfig, config: UrlConfig) -> FunctionUrlConfig:
    """Return the response of Create and Update, which has InvokeMode only if a request has set it."""
    if "InvokeMode" not in config:
        output.pop("InvokeMode", None)
    return output


@operation("UpdateFunctionUrlConfig")
def update_function_url_config(
    lambda_: Lambda, call: Call, request: UpdateFunctionUrlConfigInput
) -> UpdateFunctionUrlConfigOutput:
    """Change the configuration of a function URL."""
    ref = parse_reference(call, request)
    if _find_qualified(lambda_, ref) is None:
        raise not_found(NO_FUNCTION)
    with lambda_.functions.changing(ref.bare) as function:
        _, alias = _find(lambda_, ref)
        config = function.urls[alias]
        if "AuthType" in request:
            config["AuthType"] = request["AuthType"]
        if "Cors" in request:
            config["Cors"] = request["Cors"]
        if "InvokeMode" in request:
            config["InvokeMode"] = request["InvokeMode"]
        config["LastModifiedTime"] = format_lambda_time(call.now_ms)
        answer = _render_set_url(_render_url(lambda_, function, alias), config)
        return cast("UpdateFunctionUrlConfigOutput", answer)


@operation("GetFunctionUrlConfig")
def get_function_url_config(
    lambda_: Lambda, call: Call, request: GetFunctionUrlConfigInput
) -> GetFunctionUrlConfigOutput:
    """Return the function URL and its configuration."""
    ref = parse_reference(call, request)
    function, alias = _find(lambda_, ref)
    return _render_url(lambda_, function, alias)


@operation("DeleteFunctionUrlConfig")
def delete_function_url_config(
    lambda_: Lambda, call: Call, request: DeleteFunctionUrlConfigInput
) -> None:
    """Remove the function URL. No function gets the same address again."""
    ref = parse_reference(call, request)
    _find(lambda_, ref)
    with lambda_.functions.changing(ref.bare) as function:
        _, alias = _find(lambda_, ref)
        del function.urls[alias]


@operation("ListFunctionUrlConfigs")
def list_function_url_configs(
    lambda_: Lambda, call: Call, request: ListFunctionUrlConfigsInput
) -> ListFunctionUrlConfigsOutput:
    """Return the URLs of a function and its aliases."""
    function = lambda_.functions.find(check_unqualified(parse_reference(call, request)))
    if function is None:
        raise not_found(NO_FUNCTION)
    configs = [_render_url(lambda_, function, alias) for alias in sorted(function.urls)]
    return build_page(configs, request, "FunctionUrlConfigs")
