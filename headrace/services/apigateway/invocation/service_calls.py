"""Makes the calls of AWS integrations: API Gateway's request to a service becomes a call of this cloud.

An integration's URI is `arn:aws:apigateway:REGION:SERVICE:action/OPERATION` or `...:SERVICE:path/PATH` (documented:
https://docs.aws.amazon.com/apigateway/latest/api/API_Integration.html). It may call services of every protocol; of S3's
operations, it reads, writes and deletes objects. Services of the query protocol answer in JSON unless the request
accepts XML (LocalStack's tests against AWS, apigateway/test_apigateway_sqs.py, 2024).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlencode

from botocore.exceptions import UnknownServiceError

from headrace.aws.calls.errors import AwsError
from headrace.aws.calls.http import HttpRequest, HttpResponse
from headrace.aws.calls.operation import protocol_of, service_model
from headrace.aws.protocols.codec_json import decode_input, encode_error, encode_output
from headrace.aws.protocols.codec_moto import parse_request, serialize_error, serialize_output
from headrace.core.ports import CallerIdentity, ControlPlane

JSON_1_1 = "application/x-amz-json-1.1"
# Calls an operation of the integration's service, as the API may.
_Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
# botocore's names of services that URIs name by their endpoints.
_NAMES = {
    "email": "ses",
    "iotdata": "iot-data",
    "monitoring": "cloudwatch",
    "runtime.sagemaker": "sagemaker-runtime",
    "states": "stepfunctions",
}
_NO_SERVICE = "UnknownService"
# Older clients call these by the query protocol, though botocore's model has another.
_BY_QUERY = ("sqs", "sns", "cloudwatch", "sts", "iam")


@dataclass(frozen=True, slots=True)
class IntegrationAnswer:
    """An integration's answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class IntegrationRequest:
    """An integration's request: the part of its URI after the service, and the HTTP request.

    `request_id` is what a service of the query protocol says in its answer.
    """

    region: str
    service: str
    kind: str
    target: str
    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    request_id: str

    def accepts_xml(self) -> bool:
        """Whether a service of the query protocol answers in XML."""
        return "xml" in self.headers.get("accept", "")

    def names_target(self) -> bool:
        """Whether it is a request of the JSON protocol, which names its operation in a header."""
        is_json = "json" in self.headers.get("content-type", "")
        return is_json and "x-amz-target" in self.headers


def parse_uri(uri: str) -> tuple[str, str, str, str] | None:
    """Return an integration URI's region, service, kind (`action` or `path`) and the rest; None for another URI."""
    parts = uri.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn" or parts[2] != "apigateway":
        return None
    kind, slash, rest = parts[5].partition("/")
    if not slash or kind not in ("action", "path"):
        return None
    # A subdomain may stand before the service: an account's endpoint, as of IoT's data.
    service = parts[4] if parts[4] in _NAMES else parts[4].rpartition(".")[2]
    return parts[3], service, kind, rest


def call(
    control: ControlPlane, sent: IntegrationRequest, *, account: str, acting: CallerIdentity | None
) -> IntegrationAnswer:
    """Make the call; a refusal becomes an answer too."""
    service = _NAMES.get(sent.service, sent.service)

    def ask(operation: str, params: dict[str, Any]) -> dict[str, Any]:
        return control.call(
            service, operation, params, account=account, region=sent.region, acting=acting
        )

    try:
        if service == "s3":
            return _call_s3(ask, sent)
        if _is_query(service, sent):
            return _call_by_query(ask, service, sent)
        if _has_paths(service, sent):
            return _call_by_path(ask, service, sent)
        return _call_by_json(ask, service, sent)
    except AwsError as error:
        return _refuse(service, sent, error)


def _protocol_of(service: str) -> str:
    """Return the name of a service's protocol. Raises AwsError for an unknown service."""
    try:
        return str(service_model(service).resolved_protocol)
    except UnknownServiceError as error:
        raise AwsError(_NO_SERVICE, f"headrace has no service {service}", 501) from error


def _has_paths(service: str, sent: IntegrationRequest) -> bool:
    """Whether method and path of the request mean the operation."""
    return sent.kind == "path" and service != "s3" and protocol_of(service).startswith("rest-")


def _is_query(service: str, sent: IntegrationRequest) -> bool:
    protocol = _protocol_of(service)
    if protocol == "json" and sent.names_target():
        return False
    # Recorded: Systems Manager answers so to parameters in the query.
    return (
        service in _BY_QUERY
        or (service == "ssm" and bool(sent.query))
        or protocol in ("query", "ec2")
    )


def _refuse(service: str, sent: IntegrationRequest, error: AwsError) -> IntegrationAnswer:
    if service == "s3" or _has_paths(service, sent):
        return _of_response(serialize_error(service, None, error, sent.request_id))
    if error.code == _NO_SERVICE or not _is_query(service, sent):
        return IntegrationAnswer(
            error.status, {"content-type": JSON_1_1}, encode_error(error, JSON_1_1)
        )
    if sent.accepts_xml():
        return _of_response(serialize_error(service, None, error, sent.request_id, "query"))
    fault = {"Code": error.code, "Message": error.message, "Type": "Sender"}
    body = json.dumps({"Error": fault, "RequestId": sent.request_id}).encode()
    return IntegrationAnswer(error.status, {"content-type": "application/json"}, body)


def _of_response(response: HttpResponse) -> IntegrationAnswer:
    headers = {name.lower(): value for name, value in response.headers}
    return IntegrationAnswer(response.status, headers, cast("bytes", response.body))


def _check_operation(service: str, operation: str) -> None:
    if operation not in service_model(service).operation_names:
        raise AwsError("UnknownOperationException", f"{service} has no operation {operation}")


def _call_by_json(ask: _Ask, service: str, sent: IntegrationRequest) -> IntegrationAnswer:
    target = sent.headers.get("x-amz-target", "").rpartition(".")[2]
    operation = sent.target if sent.kind == "action" else target
    _check_operation(service, operation)
    params = decode_input(service, operation, sent.body or b"{}", JSON_1_1)
    body = encode_output(service, operation, ask(operation, params), JSON_1_1)
    return IntegrationAnswer(200, {"content-type": JSON_1_1}, body)


def _call_by_path(ask: _Ask, service: str, sent: IntegrationRequest) -> IntegrationAnswer:
    """Call the operation that method and path mean."""
    request = HttpRequest(
        sent.method,
        "/" + sent.target.lstrip("/"),
        urlencode(sent.query),
        dict(sent.headers),
        sent.body,
    )
    operation, params = parse_request(service, request)
    output = ask(operation, params)
    return _of_response(serialize_output(service, operation, output, sent.request_id))


# --- the query protocol -------------------------------------------------------------------------


def _call_by_query(ask: _Ask, service: str, sent: IntegrationRequest) -> IntegrationAnswer:
    query = dict(sent.query)
    if "json" not in sent.headers.get("content-type", ""):
        query.update(parse_qsl(sent.body.decode(errors="replace"), keep_blank_values=True))
    operation = sent.target if sent.kind == "action" else query.get("Action", "")
    _check_operation(service, operation)
    if service == "sqs" and sent.kind == "path" and sent.target.strip("/"):
        query.setdefault("QueueUrl", f"http://localhost/{sent.target.strip('/')}")
    query.pop("Action", None)
    query.pop("Version", None)
    shape: Any = service_model(service).operation_model(operation).input_shape
    params = _members(shape, _tree(query)) if shape is not None else {}
    output = ask(operation, params)
    if sent.accepts_xml():
        return _of_response(serialize_output(service, operation, output, sent.request_id, "query"))
    if service == "ssm":
        output = _show_missing(
            service_model(service).operation_model(operation).output_shape, output
        )
    result: dict[str, Any] = {"ResponseMetadata": {"RequestId": sent.request_id}}
    if output:
        result[f"{operation}Result"] = output
    body = json.dumps({f"{operation}Response": result}, default=_to_json).encode()
    return IntegrationAnswer(200, {"content-type": "application/json"}, body)


def _show_missing(shape: Any, value: Any) -> Any:
    """Return a value in which every structure has all its members: null for those that are missing (recorded)."""
    if value is None:
        return None
    if shape.type_name == "structure":
        return {name: _show_missing(one, value.get(name)) for name, one in shape.members.items()}
    if shape.type_name == "list":
        return [_show_missing(shape.member, item) for item in value]
    return value


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.timestamp() if hasattr(value, "timestamp") else str(value)


def _tree(members: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in members.items():
        *path, last = name.split(".")
        level = tree
        for part in path:
            inner = level.setdefault(part, {})
            if not isinstance(inner, dict):
                raise AwsError("MalformedQueryString", f"{name} is given twice")
            level = cast("dict[str, Any]", inner)
        level[last] = value
    return tree


def _members(shape: Any, tree: dict[str, Any]) -> dict[str, Any]:
    members_found: dict[str, Any] = {}
    for name, member in shape.members.items():
        names = (name, str(member.serialization.get("name", name)), name.removesuffix("s"))
        key = next((candidate for candidate in names if candidate in tree), None)
        if key is not None:
            members_found[name] = _convert(member, tree[key])
    return members_found


def _convert(shape: Any, value: Any) -> Any:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        return _members(shape, cast("dict[str, Any]", value))
    if kind in ("list", "map") and isinstance(value, dict):
        tree = cast("dict[str, Any]", value)
        inner = tree.get("member", tree.get("entry", tree))
        entries = [inner[number] for number in sorted(inner, key=_place)]
        if kind == "list":
            return [_convert(shape.member, entry) for entry in entries]
        pairs = [
            (_find_member(e, "Name", "key"), _find_member(e, "Value", "value")) for e in entries
        ]
        return {str(key): _convert(shape.value, element) for key, element in pairs}
    if kind in ("integer", "long"):
        return int(value)
    if kind == "boolean":
        return str(value).lower() == "true"
    return base64.b64decode(value) if kind == "blob" else value


def _place(number: str) -> int:
    return int(number) if number.isdecimal() and number.isascii() else 0


def _find_member(entry: Any, *names: str) -> Any:
    if isinstance(entry, dict):
        members = cast("dict[str, Any]", entry)
        for name in names:
            if name in members:
                return members[name]
    raise AwsError("MalformedQueryString", f"a list of pairs lacks its {names[0]}")


# --- objects ------------------------------------------------------------------------------------

_OBJECTS = {"PUT": "PutObject", "GET": "GetObject", "DELETE": "DeleteObject", "HEAD": "HeadObject"}


def _call_s3(ask: _Ask, sent: IntegrationRequest) -> IntegrationAnswer:
    bucket, _, key = sent.target.partition("/")
    operation = _OBJECTS.get(sent.method) if key else None
    if operation is None:
        raise AwsError(
            "NotImplemented", "headrace's integrations with S3 read, write and delete objects", 501
        )
    params: dict[str, Any] = {"Bucket": bucket, "Key": unquote(key)}
    if operation == "PutObject":
        params["Body"] = sent.body
        if "content-type" in sent.headers:
            params["ContentType"] = sent.headers["content-type"]
    output = ask(operation, params)
    headers = {
        "content-type": sent.query.get("response-content-type")
        or str(output.get("ContentType", "application/xml")),
        "etag": str(output.get("ETag", "")),
    }
    return IntegrationAnswer(
        200, headers, output.get("Body", b"") if operation == "GetObject" else b""
    )
