"""Converts moto's failures to errors with AWS's form and sentences."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecodeError
from typing import Any, cast

from botocore.model import OperationNotFoundError

from headrace.aws.calls.errors import AwsError, unknown_operation
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import operation_model, protocol_of
from headrace.aws.gateway.documents import error_answer
from headrace.aws.protocols import codec_json, codec_moto
from headrace.aws.protocols.validate import sentence, validate
from headrace.moto.requests.lookups import find_lookup_fault
from headrace.moto.requests.models import is_json, model_of

log = logging.getLogger(__name__)


# Finds the member of a request that moto could not parse, and returns AWS's error for it.
#
# moto trusts the tokens, ARNs and expressions of clients, and fails at invalid ones. Sources: the model's own errors
# (`InvalidNextToken`, `InvalidToken`); AWS's sentences as users of SNS and DynamoDB report them; where a model has no
# error for a wrong token, the code of the service's other refusals (assumed).

_TOKENS = ("NextToken", "nextToken", "Marker", "Token")
# The code for wrong parameters, for services whose models have none for a wrong token.
_CODES = {
    "iam": "ValidationError",
    "logs": "InvalidParameterException",
    "sns": "InvalidParameter",
    "sqs": "InvalidParameterValue",
    "glue": "InvalidInputException",
}
_ARN_PARTS = 6


def unreadable_member(
    service: str, operation: str, params: Mapping[str, Any], error: Exception
) -> AwsError | None:
    """Return AWS's error for the member that made moto fail with `error`, or None when it is unknown."""
    if service == "sns":
        for name, value in params.items():
            fault = _arn_fault(name, value)
            if fault is not None:
                return fault
    if service.startswith("dynamodb"):
        fault = _expression_fault(params, error)
        if fault is not None:
            return fault
    if service == "sts" and "SAMLAssertion" in params:
        return AwsError("InvalidIdentityToken", "Invalid base64 SAMLResponse")
    known = _FAULTS.get((service, operation))
    fault = known(params, error) if known is not None else None
    if fault is not None:
        return fault
    if isinstance(error, JSONDecodeError) and "Attributes" in params:
        return _document_fault(params["Attributes"])
    fault = find_lookup_fault(service, operation, params, error)
    if fault is not None:
        return fault
    if isinstance(error, AttributeError | ValueError | TypeError | LookupError) and any(
        params.get(name) for name in _TOKENS
    ):
        return _token_fault(service, operation)
    return None


def _destination_fault(params: Mapping[str, Any], error: Exception) -> AwsError | None:
    """Return the error for a subscription filter whose destination is not an ARN (the sentence is assumed)."""
    if not isinstance(error, ValueError) or params["destinationArn"].count(":") >= _ARN_PARTS - 1:
        return None
    return AwsError("InvalidParameterException", "destinationArn is not a valid ARN")


def _schema_fault(params: Mapping[str, Any], _: Exception) -> AwsError | None:
    """Return the error for a schema without a registry's name or a definition (the sentences are assumed)."""
    registry = params.get("RegistryId")
    if registry is not None and not any(map(registry.get, ("RegistryName", "RegistryArn"))):
        return AwsError(
            "InvalidInputException",
            "At least one of registryName or registryArn has to be provided.",
        )
    if "SchemaDefinition" not in params:
        return AwsError("InvalidInputException", "Schema definition must be provided.")
    return None


def _table_fault(params: Mapping[str, Any], _: Exception) -> AwsError | None:
    """Return the error for a missing TableInput, which the model does not require (the sentence is assumed)."""
    if params.get("TableInput") or params.get("OpenTableFormatInput"):
        return None
    return AwsError("InvalidInputException", "TableInput must be provided.")


def _machine_fault(params: Mapping[str, Any], _: Exception) -> AwsError | None:
    """Return the error for a list of executions without a state machine (documented: one of both is required)."""
    if "stateMachineArn" in params or "mapRunArn" in params:
        return None
    return AwsError("ValidationException", "Must specify a State Machine ARN or Map Run ARN.")


def _index_fault(_: Mapping[str, Any], error: Exception) -> AwsError | None:
    """Return the error for an index that a table does not have (the sentence is assumed)."""
    if "Global Secondary Index does not exist" not in str(error):
        return None
    return AwsError("ResourceNotFoundException", "Requested resource not found")


# Operation -> the function that finds the error in a request at which moto failed.
_FAULTS: Mapping[tuple[str, str], Callable[[Mapping[str, Any], Exception], AwsError | None]] = {
    ("dynamodb", "UpdateTable"): _index_fault,
    ("glue", "CreateSchema"): _schema_fault,
    ("glue", "CreateTable"): _table_fault,
    ("logs", "PutSubscriptionFilter"): _destination_fault,
    ("stepfunctions", "ListExecutions"): _machine_fault,
}


def _document_fault(attributes: Mapping[str, str]) -> AwsError | None:
    """Return the error for a queue's attribute that should be JSON."""
    for name in ("RedrivePolicy", "RedriveAllowPolicy", "Policy"):
        if name in attributes:
            return AwsError(
                "InvalidParameterValue",
                f"Value {attributes[name]} for parameter {name} is invalid. Reason: it is not a valid JSON map.",
            )
    return None


def _arn_fault(name: str, value: Any) -> AwsError | None:
    if not name.endswith("Arn") or not isinstance(value, str):
        return None
    count = len(value.split(":"))
    if count >= _ARN_PARTS:
        return None
    return AwsError(
        "InvalidParameter",
        f"Invalid parameter: {name} Reason: An ARN must have at least {_ARN_PARTS} elements, not {count}",
    )


def _expression_fault(params: Mapping[str, Any], error: Exception) -> AwsError | None:
    """Return the error for an expression that is malformed or names a value that the request lacks."""
    expressions = dict(_expressions(params))
    if isinstance(error, KeyError) and str(error.args[0]).startswith(":"):
        value = error.args[0]
        names = [name for name, text in expressions.items() if value in text] or ["expression"]
        if expressions:
            return _invalid(
                f"Invalid {names[0]}: An expression attribute value used in expression is not defined; attribute"
                f" value: {value}"
            )
    if isinstance(error, StopIteration) or (isinstance(error, IndexError) and _has_empty(params)):
        # moto takes a value's first type, and there is none.
        return _invalid(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    if "Statement" in params:
        return _invalid("Statement wasn't well formed, can't be processed: Unexpected term")
    if not isinstance(error, ValueError | TypeError | LookupError):
        return None
    if "SequenceNumber" in params:
        return _invalid("Invalid SequenceNumber")
    if isinstance(error, KeyError):
        return None
    if not expressions:
        return None
    # With several expressions, which one is wrong is unknown.
    name = next(iter(expressions)) if len(expressions) == 1 else "expression"
    return _invalid(f"Invalid {name}: Syntax error")


def _has_empty(value: Any) -> bool:
    """Whether a key anywhere in a request has a value without a type."""
    if isinstance(value, list):
        return any(map(_has_empty, cast("list[Any]", value)))
    if not isinstance(value, Mapping):
        return False
    mapping = cast("Mapping[str, Any]", value)
    keys: Any = mapping.get("Key")
    if isinstance(keys, Mapping) and {} in cast("Mapping[str, Any]", keys).values():
        return True
    return any(map(_has_empty, mapping.values()))


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text)


def _expressions(value: Any) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the expressions at any depth."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _expressions(item)
    elif isinstance(value, Mapping):
        for name, member in cast("Mapping[str, Any]", value).items():
            if name.endswith("Expression") and isinstance(member, str):
                yield name, member
            yield from _expressions(member)


def _token_fault(service: str, operation: str) -> AwsError:
    for shape in operation_model(service, operation).error_shapes:
        if shape.name in ("InvalidNextToken", "InvalidNextTokenException", "InvalidToken"):
            return AwsError(shape.name, "The specified token is not valid.")
    return AwsError(_CODES.get(service, "ValidationException"), "The specified token is not valid.")


_said: set[str] = set()
_MOST_SAID = 1_000


def refusal(service: str, operation: str, request: HttpRequest, error: Exception) -> AwsError:
    """Return the answer when moto failed with `error`.

    Usually AWS refuses such a request, and moto has not checked it; then the answer has AWS's sentence.
    """
    if isinstance(error, OperationNotFoundError):
        return unknown_operation(operation, service)
    try:
        operation, params = _read_request(service, operation, request, error)
    except AwsError as fault:
        return fault
    except Exception:
        log.debug("%s:%s cannot be checked", service, operation, exc_info=True)
    else:
        fault = unreadable_member(model_of(service, request), operation, params, error)
        if fault is not None:
            return fault
    name = f"{service}:{operation}"
    if name not in _said and len(_said) < _MOST_SAID:
        _said.add(name)
        log.error("moto cannot answer a %s (%s: %s)", name, type(error).__name__, error)
    log.debug("%s failed in moto", name, exc_info=error)
    # Not 500: clients retry that, and it would fail again.
    return AwsError(
        "InternalFailure",
        f"moto, which serves {service} in headrace, cannot answer this {operation}"
        f" ({type(error).__name__}: {error})",
        501,
    )


def _read_request(
    service: str, operation: str, request: HttpRequest, error: Exception
) -> tuple[str, dict[str, Any]]:
    """Return a request's operation and parameters.

    Raises AwsError when the request does not fit the service's model, or lacks a member that moto read.
    """
    code, service = "ValidationException", model_of(service, request)
    if is_json(request):
        content_type = request.headers.get("content-type", codec_json.JSON_1_1)
        params = codec_json.decode_input(service, operation, request.body, content_type)
    else:
        operation, params = codec_moto.parse_request(service, request)
        if b"Action=" in request.body or "Action=" in request.query:
            code = "ValidationError"
    validate(service, operation, params, code=code)
    shape = operation_model(service, operation).input_shape
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    # Some models do not mark every member that AWS requires.
    if shape is not None and name in shape.members and name not in params:
        member = f"{name[0].lower()}{name[1:]}"
        raise AwsError(
            code,
            sentence(
                [f"Value null at '{member}' failed to satisfy constraint: Member must not be null"]
            ),
        )
    return operation, params


def find_missing_action(
    service: str, request: HttpRequest, answer: HttpResponse
) -> AwsError | None:
    """Return the error of a request for which moto has no operation, and so an empty answer; None for others.

    A form lacks its Action: docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
    (MissingAction; the sentence is assumed). A path is of no operation that moto has, such as Bedrock's InvokeModel.
    """
    if answer.status != 404 or answer.body or is_json(request) or request.method == "HEAD":
        return None
    if request.path == "/":
        return AwsError("MissingAction", "Missing Action", 400)
    name = codec_moto.operation_name(model_of(service, request), request)
    return AwsError(
        "UnknownOperationException",
        f"moto, which serves {service} in headrace, does not implement"
        f" {f'{service}:{name}' if name else f'{request.method} {request.path}'}",
        501,
    )


def _is_of_a_rest_api(service: str, request: HttpRequest) -> bool:
    """Whether a request without a target is of a REST API that signs as a service whose own protocol is JSON.

    Personalize's events and recommendations do, and SageMaker's feature store. Forms may be of SQS's query protocol.
    """
    is_form = b"Action=" in request.body or "Action=" in request.query
    return protocol_of(service) == "json" and request.path != "/" and not is_form


def error_response(service: str, request: HttpRequest, error: AwsError) -> HttpResponse:
    """Return an error in the form of the request's protocol."""
    service = model_of(service, request)
    request_id = "" if request.call is None else request.call.request_id
    if request.headers.get("smithy-protocol") == "rpc-v2-cbor":
        return error_answer(request, service, error, request_id)
    if not is_json(request):
        try:
            protocol = "rest-json" if _is_of_a_rest_api(service, request) else ""
            return codec_moto.serialize_error(service, None, error, request_id, protocol)
        except Exception:
            log.debug("the protocol of %s has no form for errors", service, exc_info=True)
    content_type = request.headers.get("content-type", codec_json.JSON_1_1)
    if not content_type.startswith("application/x-amz-json"):
        content_type = codec_json.JSON_1_1
    return HttpResponse(
        error.status,
        [("Content-Type", content_type), ("x-amzn-ErrorType", error.code)],
        codec_json.encode_error(error, content_type),
    )
