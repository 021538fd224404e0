"""Checks a request before moto gets it: its members by the model, and the policy that it stores.

moto takes members of any type, and nearly any text as a policy.

The sentences about types are those of AWS's older JSON framework: recorded of API Gateway (LocalStack, 2024 and 2025: a
boolean and a number as texts), and of the other types by dynalite, whose author compared them with AWS.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec
from botocore.model import Shape

from headrace.aws.calls.errors import AwsError, serialization_error
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import Call, operation_model, protocol_of
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.codec_json import (
    LIST_NOT_EXPECTED,
    MAP_NOT_EXPECTED,
    Convert,
    ShapeCompiler,
)
from headrace.aws.protocols.validate import Wording, find_missing_member, validate
from headrace.aws.protocols.validate import sentence as sentence_of
from headrace.aws.signatures.access_keys import RoleSessions
from headrace.aws.signatures.credential_scopes import token_of
from headrace.core.arn import partition_of
from headrace.moto import principals
from headrace.moto.requests.kinds import changes_rows_only
from headrace.permissions.policies.document import (
    UnreadableDocument,
    check_resource_policy,
    parse_document,
)
from headrace.permissions.policies.evaluate import Grant, grant_of
from headrace.permissions.policies.grammar import PolicyError
from headrace.permissions.policies.model import Principal

log = logging.getLogger(__name__)


# Validates policies of queues, topics, keys, secrets, repositories, tables, logs and buses before moto stores them.
#
# moto stores nearly any text. `headrace.permissions.policies.document` has each service's errors.

Params = Mapping[str, Any]
_PUT_KEY_POLICY = "kms:PutKeyPolicy"
_LOCKED_OUT = "The new key policy will not allow you to update the key policy in the future."


def _attribute(params: Params) -> Any:
    return cast("Params", params.get("Attributes") or params.get("attributes") or {}).get("Policy")


def _topic_attribute(params: Params) -> Any:
    return params.get("AttributeValue") if params.get("AttributeName") == "Policy" else None


def _read_member(name: str) -> Callable[[Params], Any]:
    return lambda params: params.get(name)


# moto's package -> the operations that store a policy, and the parameter that holds it.
_POLICY_OF: dict[str, dict[str, Callable[[Params], Any]]] = {
    "sqs": {"CreateQueue": _attribute, "SetQueueAttributes": _attribute},
    "sns": {"CreateTopic": _attribute, "SetTopicAttributes": _topic_attribute},
    "kms": dict.fromkeys(("CreateKey", "PutKeyPolicy", "ReplicateKey"), _read_member("Policy")),
    "secretsmanager": {"PutResourcePolicy": _read_member("ResourcePolicy")},
    "ecr": {"SetRepositoryPolicy": _read_member("policyText")},
    "dynamodb": {
        "PutResourcePolicy": _read_member("Policy"),
        "CreateTable": _read_member("ResourcePolicy"),
    },
    "logs": {
        "PutResourcePolicy": _read_member("policyDocument"),
        "PutDestinationPolicy": _read_member("accessPolicy"),
    },
    "events": {"PutPermission": _read_member("Policy")},
}


def check_request(
    service: str,
    package: str,
    operation: str,
    request: HttpRequest,
    sessions: RoleSessions | None,
    *,
    checks_members: bool,
) -> None:
    """Refuse a request that AWS refuses by its operation's model, or for the policy that it stores.

    Raises AwsError. moto must be loaded.
    """
    if checks_members:
        _check_members(service, operation, request)
    find_policy = _POLICY_OF.get(package, {}).get(operation)
    if find_policy is not None:
        _check_policy(service, package, request, find_policy, sessions)


def _check_policy(
    service: str,
    package: str,
    request: HttpRequest,
    find_policy: Callable[[Params], Any],
    sessions: RoleSessions | None,
) -> None:
    try:
        params = codec_moto.operation_of(service, request)[1]
    except codec_moto.Unreadable:
        return  # the service itself reports the error
    text = find_policy(params)
    call = request.call
    if not text or call is None:
        return
    try:
        check_resource_policy(package, str(text), principals.exists_for(call.account))
    except PolicyError as error:
        raise AwsError(error.code, error.message) from None
    if package != "kms" or params.get("BypassPolicyLockoutSafetyCheck"):
        return
    if not _may_put_again(str(text), _principal(call, request, sessions)):
        raise AwsError("MalformedPolicyDocumentException", _LOCKED_OUT)


def _may_put_again(text: str, principal: Principal) -> bool:
    """Whether a key's policy allows its caller to change it again (API_PutKeyPolicy.html, lock-out safety check)."""
    try:
        about = list(parse_document(text).about(_PUT_KEY_POLICY))
    except UnreadableDocument:
        return False
    named = [one for one in about if grant_of(one, principal) is not Grant.NONE]
    effects = {one.effect for one in named if one.resources is not None and not one.conditions}
    with_conditions = {one.effect for one in named if one.conditions}
    return "Deny" not in effects and "Allow" in effects | with_conditions


def _principal(call: Call, request: HttpRequest, sessions: RoleSessions | None) -> Principal:
    """Return the caller as a policy's principal, under all the names that a policy may use."""
    session = None if sessions is None else sessions.find(call.access_key, token_of(request))
    root = f"arn:{partition_of(call.region)}:iam::{call.account}:root"
    if session is not None and session.kind == "role":
        role = principals.holder_of(session.account, "role", session.role)
        arn = "" if role is None else str(role.arn)
        return Principal("role", session.arn, session.account, arn, name=session.role)
    for user in _users_of_key(call.access_key if session is None else ""):
        return Principal("user", str(user.arn), call.account, str(user.arn), str(user.id))
    return Principal("root", root, call.account, root)


def _users_of_key(access_key: str) -> Iterator[Any]:
    for account, backend in principals.iam_backends():
        key = backend.access_keys.get(access_key)
        if key is not None and key.user_name is not None:
            yield from filter(None, [principals.holder_of(account, "user", str(key.user_name))])


# Checks requests to moto's services for missing members and members of a wrong type; moto does not.
#
# AWS's services parse a request by their model first, and so refuse a number instead of a string
# (`SerializationException`), and a missing required member.

# The error code for a missing member, for services that use the sentence of AWS's validation framework (recorded: SNS;
# the others are assumed to be alike). The other services have sentences of their own, from moto.
_CODES = {
    "cloudwatch": "ValidationError",
    "iam": "ValidationError",
    "logs": "InvalidParameterException",
    "sns": "ValidationError",
    "sts": "ValidationError",
    **dict.fromkeys(
        (
            *("dynamodb", "dynamodbstreams", "events", "glue", "kms", "pipes", "scheduler"),
            *("secretsmanager", "ssm", "stepfunctions"),
        ),
        "ValidationException",
    ),
}

# The services of which the whole model is checked, patterns of names too (assumed: with the framework's sentences).
_STATUSES = ("SUCCEEDED", "TIMED_OUT", "PENDING_REDRIVE", "ABORTED", "FAILED", "RUNNING")
_ANY_LENGTH = {"min": None, "max": None}
_MACS = ("HMAC_SHA_384", "HMAC_SHA_256", "HMAC_SHA_224", "HMAC_SHA_512")
_WORDINGS = {
    # In the order in which AWS shows them (recorded), and without values (recorded of a text to encrypt).
    "kms": Wording(
        {"MacAlgorithmSpec": {"enum": _MACS, "shown": _MACS}}, hidden=frozenset({"plaintext"})
    ),
    # Of tags and their keys IAM shows nothing (recorded in 2026).
    "iam": Wording(
        {}, never_null=frozenset({"tagKeyListType"}), hidden=frozenset({"tags", "tagKeys"})
    ),
    # In the order in which AWS shows them (recorded).
    "stepfunctions": Wording(
        {
            "ExecutionStatus": {"enum": _STATUSES, "shown": _STATUSES},
            # The sentences would show texts that AWS holds to be secret.
            "Definition": _ANY_LENGTH,
            "SensitiveData": _ANY_LENGTH,
            "SensitiveDataJobInput": _ANY_LENGTH,
        },
        shows_whole=False,
    ),
}
_WHOLE = {
    "iam": "ValidationError",
    "kms": "ValidationException",
    "stepfunctions": "ValidationException",
    "wafv2": "ValidationException",
}


def _check_members(service: str, operation: str, request: HttpRequest) -> None:
    """Raise AwsError when a request breaks its operation's model in a way that every AWS service refuses, or its own.

    `service` is botocore's name. moto answers a request that cannot be parsed at all, with its own sentence.
    """
    if "smithy-protocol" in request.headers:
        return
    try:
        operation, params = _read(service, operation, request)
    except AwsError as fault:
        if fault.code == "SerializationException":
            raise
        return
    except Exception:
        log.debug("%s:%s cannot be checked", service, operation, exc_info=True)
        return
    if service in _WHOLE and params is not None:
        validate(service, operation, params, code=_WHOLE[service], wording=_WORDINGS.get(service))
    code = _CODES.get(service)
    sentence = (
        find_missing_member(service, operation, params) if code and params is not None else ""
    )
    if sentence:
        raise AwsError(str(code), sentence)


def check_required(service: str, operation: str, params: Mapping[str, Any]) -> None:
    """Raise AwsError when a call of this cloud's own lacks a member that the model requires.

    Types, and members inside others, stay unchecked: stacks and tasks may pass text for a number, nothing for a name.
    """
    shape: Any = operation_model(service, operation).input_shape if service in _CODES else None
    required = cast("list[str]", shape.required_members) if shape is not None else []
    missing = [
        f"Value null at '{name[:1].lower()}{name[1:]}' failed to satisfy constraint: Member must not be null"
        for name in required
        if params.get(name) is None
    ]
    if missing:
        raise AwsError(_CODES[service], sentence_of(missing))


def _read(service: str, operation: str, request: HttpRequest) -> tuple[str, dict[str, Any] | None]:
    """Return a request's operation and parameters; None if it is not checked. Raises the codecs' errors."""
    if "x-amz-target" in request.headers:
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        params = codec_json.decode_input(service, operation, request.body, content_type)
        return operation, params
    if request.body and protocol_of(service) == "rest-json":
        name = codec_moto.operation_name(service, request)
        if name:
            check_types(service, name, request.body)
    # Only rare requests are checked here; moto checks frequent ones, for messages and rows, itself.
    if service not in _CODES or (service != "sts" and changes_rows_only(service, operation)):
        return operation, None
    return codec_moto.parse_request(service, request)


# Takes moto's package, the operation and the request; returns the answer to an operation that moto lacks, or None.
AnswerWithoutMoto = Callable[[str, str, HttpRequest, RoleSessions | None], HttpResponse | None]
# Takes the service and a request. Raises AwsError for a member that would be ignored.
CheckStrictly = Callable[[str, HttpRequest], None]


_TYPE_NAMES = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "Integer",
    "long": "Long",
    "float": "Float",
    "double": "Double",
}
# How much of a text a sentence shows: it may have ten megabytes.
_MOST_SHOWN = 1000
_TEXTS_OF_BOOLEANS = frozenset(("TRUE", "FALSE", "1", "0", "YES", "NO"))
_NUMBER = "com.amazon.coral.value.json.numbers.TruncatingBigNumber"


def check_types(service: str, operation: str, body: bytes) -> None:
    """Refuse a member of another type in a rest-json body. Raises SerializationException.

    Whoever reads the body refuses what is no JSON object.
    """
    shape = operation_model(service, operation).input_shape
    payload = None if shape is None else shape.serialization.get("payload")
    if shape is None or not body or (payload and shape.members[payload].type_name != "structure"):
        return
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(value, dict):
        _type_checker(service, operation)({payload: value} if payload else value)


@functools.cache
def _type_checker(service: str, operation: str) -> Convert:
    shape = operation_model(service, operation).input_shape
    assert shape is not None
    return ShapeCompiler(_check_type_of, by_wire_names=True).compile(shape)


def _check_type_of(shape: Shape) -> Convert:
    wanted = _TYPE_NAMES.get(shape.type_name, "")

    def check(value: Any) -> Any:
        if value is None or not wanted:  # blobs and times have several forms
            return value
        if isinstance(value, dict):
            raise serialization_error(MAP_NOT_EXPECTED)
        if isinstance(value, list):
            raise serialization_error(LIST_NOT_EXPECTED)
        kind = _type_name(value)
        if kind == wanted or (wanted == "Boolean" and str(value).upper() in _TEXTS_OF_BOOLEANS):
            return value
        if kind == "Number" and wanted not in ("String", "Boolean"):
            return value
        if wanted == "Boolean" and kind == "String":
            raise serialization_error(
                f"'{value.upper()[:_MOST_SHOWN]}' can not be converted to an Boolean"
            )
        name = _NUMBER if kind == "Number" else f"java.lang.{kind}"
        raise serialization_error(f"class {name} can not be converted to an {wanted}")

    return check


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "Boolean"
    return "String" if isinstance(value, str) else "Number"
